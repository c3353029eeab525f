"""Steps that are traced more than once, or fail, as users write them: `recompiles.py fresh_lambda`.

With `fixed` as a second argument, the same with the change that the doctor says.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

scenario, is_fixed = sys.argv[1], sys.argv[2:] == ["fixed"]
optim = optax.adam(1e-3)


class Model(eqx.Module):
    weight: jax.Array
    table: jax.Array  # integers: gets no gradient
    activation: object

    def __call__(self, x):
        return self.activation(x @ self.weight) + self.table.sum()


@eqx.filter_jit
def step(model, opt_state, x):
    grads = eqx.filter_grad(lambda model: jnp.mean(model(x) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), opt_state


@eqx.filter_jit
def total(x):
    return x.sum()


if scenario == "growing_batch":
    for n in (1, 2, 3):
        total(jnp.pad(jnp.ones(n), (0, 3 - n)) if is_fixed else jnp.ones(n))
else:
    kept = eqx.is_array if scenario == "state_of_the_whole_model" else eqx.is_inexact_array
    for _ in range(3):
        model = Model(jnp.ones((3, 3)), jnp.arange(3), lambda x: jnp.tanh(x))
        step(model, optim.init(eqx.filter(model, kept)), jnp.ones((4, 3)))
