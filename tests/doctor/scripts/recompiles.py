"""Steps that are traced more than once, or fail, as users write them: `recompiles.py fresh_lambda`.

With `fixed` as a second argument, the same with the line written that the doctor says.
"""

import functools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

scenario, is_fixed = sys.argv[1], sys.argv[2:] == ["fixed"]
if is_fixed:
    import canonopt

X = jnp.ones((4, 3))


class Model(eqx.Module):
    weight: jax.Array
    table: jax.Array  # integers: gets no gradient
    activation: object

    def __call__(self, x):
        return self.activation(x @ self.weight) + self.table.sum()


def loss_fn(model, x):
    return jnp.mean(model(x) ** 2)


@eqx.filter_jit
def step(model, opt_state, optim, x):
    grads = eqx.filter_grad(loss_fn)(model, x)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), opt_state


@eqx.filter_jit
def total(x):
    return x.sum()


def fresh_optimizer():
    for _ in range(3):
        optim = canonopt.adam(1e-3) if is_fixed else optax.adam(1e-3)
        model = Model(jnp.ones((3, 3)), jnp.arange(3), jnp.tanh)
        step(model, optim.init(eqx.filter(model, eqx.is_inexact_array)), optim, X)


def state_of_the_whole_model():
    optim, model = optax.adam(1e-3), Model(jnp.ones((3, 3)), jnp.arange(3), jnp.tanh)
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    if is_fixed:
        opt_state = canonopt.init_like_grads(model, loss_fn, X, optim=optim)
    for _ in range(3):
        model, opt_state = step(model, opt_state, optim, X)


def weakly_typed_model():
    optim, model = optax.sgd(1e-3), Model(jnp.full((3, 3), 1.0), jnp.arange(3), jnp.tanh)
    if is_fixed:
        model = canonopt.canonicalize(model)
    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(3):
        model, opt_state = step(model, opt_state, optim, X)


def widened_model():
    optim = optax.polyak_sgd()
    apply_updates = canonopt.apply_updates if is_fixed else eqx.apply_updates
    model = (jnp.ones(3, jnp.bfloat16), jnp.ones(3))

    @eqx.filter_jit
    def step(model, opt_state, x):
        value, grads = jax.value_and_grad(lambda model: (x @ sum(model)).sum() ** 2)(model)
        updates, opt_state = optim.update(grads, opt_state, model, value=value)
        return apply_updates(model, updates), opt_state

    opt_state = optim.init(model)
    for _ in range(3):
        model, opt_state = step(model, opt_state, X)


def fresh_activation(make):
    optim = optax.sgd(1e-3)
    for _ in range(3):
        model = Model(jnp.ones((3, 3)), jnp.arange(3), make())
        if is_fixed:
            model = canonopt.canonicalize(model)
        step(model, optim.init(eqx.filter(model, eqx.is_inexact_array)), optim, X)


def growing_batch():
    for n in (1, 2, 3):
        total(jnp.pad(jnp.ones(n), (0, 3 - n)) if is_fixed else jnp.ones(n))


scenarios = {
    "fresh_optimizer": fresh_optimizer,
    "state_of_the_whole_model": state_of_the_whole_model,
    "weakly_typed_model": weakly_typed_model,
    "widened_model": widened_model,
    "fresh_lambda": lambda: fresh_activation(lambda: lambda x: jnp.tanh(x)),
    "fresh_partial": lambda: fresh_activation(lambda: functools.partial(jnp.clip, min=0)),
    "fresh_jit": lambda: fresh_activation(lambda: jax.jit(jnp.sin)),
    "fresh_vmap": lambda: fresh_activation(lambda: jax.vmap(jnp.sin)),
    "growing_batch": growing_batch,
}
scenarios[scenario]()
