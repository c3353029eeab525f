"""What a call through `filter_jit` costs, against `jax.jit` on the flat list of its arrays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

from ..support.timing import deep, flat_dict, flat_step, loop, plus_one, ratio, timed


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
