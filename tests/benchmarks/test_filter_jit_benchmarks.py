"""What a call through `filter_jit` costs, against `jax.jit` on the flat list of its arrays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

from .conftest import ratio, timed


class Deep(eqx.Module):
    """A chain of modules, each with four arrays, a static field and a function."""

    arrays: tuple[jax.Array, ...]
    inner: "Deep | None"
    activation: object = jax.nn.relu
    size: int = eqx.field(static=True, default=4)


def deep(leaves):
    module = None
    for _ in range(max(1, leaves // 4)):
        module = Deep(tuple(jnp.ones(4) for _ in range(4)), module)
    return module


def flat_dict(leaves):
    return {f"{i}": jnp.ones(4) for i in range(leaves)}


def plus_one(tree):
    return jax.tree.map(lambda leaf: leaf + 1 if eqx.is_array(leaf) else leaf, tree)


def loop(step, state):
    """A step of a training loop: each feeds what it returns to the next."""

    def call():
        nonlocal state
        state = step(*state)

    call()  # compiles
    call()
    return call


def flat_step(step, state):
    """`step` through `jax.jit`, on the list of its arrays."""
    arrays, static = eqx.partition(state, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def call(*leaves):
        state = step(*eqx.combine(jax.tree.unflatten(structure, leaves), static))
        return jax.tree.leaves(eqx.filter(state, eqx.is_array))

    return loop(call, leaves)


def measure(step, state, what, number, benchmark, report, limit):
    ours, theirs = loop(canonopt.filter_jit(step), state), loop(eqx.filter_jit(step), state)
    flat = timed(flat_step(step, state), number)
    benchmark.pedantic(ours, rounds=5)
    times = ratio(timed(theirs, number), flat, rounds=15)
    report.figure(f"{what}, equinox.filter_jit", f"{times[0]:.3f}")
    report.ratios(what, [ratio(timed(ours, number), flat, rounds=15)], limit=limit)


@pytest.mark.parametrize("leaves", [10, 100, 1_000])
@pytest.mark.parametrize("build", [flat_dict, deep])
def test_a_loop(build, leaves, benchmark, report):
    def step(state):
        return (plus_one(state),)

    what = f"a loop over {leaves} leaves, {build.__name__}"
    measure(step, (build(leaves),), what, max(10, 2_000 // leaves), benchmark, report, limit=4.0)


def test_a_training_loop(benchmark, report):
    optim = optax.adam(1e-3)
    model = eqx.nn.MLP(16, 16, 16, 24, key=jax.random.key(0))
    x = jnp.ones((8, 16))

    def step(model, state):
        grads = eqx.filter_grad(lambda model: jnp.mean(jax.vmap(model)(x) ** 2))(model)
        updates, state = optim.update(grads, state)
        return eqx.apply_updates(model, updates), state

    state = model, optim.init(eqx.filter(model, eqx.is_array))
    measure(step, state, "an MLP of 25 layers with adam", 50, benchmark, report, limit=3.0)


def test_modules_that_are_never_seen_again(benchmark, report):
    step, model = canonopt.filter_jit(plus_one), deep(100)
    copies = iter([jax.tree.map(lambda leaf: leaf, model) for _ in range(2_000)])
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    flat = jax.jit(lambda *leaves: [leaf + 1 for leaf in leaves])
    step(next(copies)), flat(*leaves)
    benchmark.pedantic(lambda: step(next(copies)), rounds=5)
    ours, theirs = timed(lambda: step(next(copies)), 50), timed(lambda: flat(*leaves), 50)
    report.ratios("100 leaves, deep, never seen", [ratio(ours, theirs, rounds=15)], limit=6.0)
