"""A curve is fitted to the data of each trial, with a loss that is made in each.

Write `@canonopt.hoist`.

The loss is a static argument of `optimistix.minimise`. Specs are not needed: `OptaxMinimiser` turns
the functions of the optimizer into pytrees itself.
"""

import functools

import jax
import jax.numpy as jnp
import optimistix

import canonopt


def make_data(trial):
    x_key, y_key = jax.random.split(jax.random.key(trial))
    x = jax.random.uniform(x_key, (100,))
    return x, jnp.exp(-2 * x) + 0.01 * jax.random.normal(y_key, (100,))


def loop(library, trial, hoist=lambda function: function):
    @hoist
    def loss(params, data):
        x, y = data
        scale, rate = params
        return jnp.mean((scale * jnp.exp(-rate * x) - y) ** 2)

    solver = optimistix.OptaxMinimiser(library.adam(1e-1), rtol=1e-5, atol=1e-5)
    solution = optimistix.minimise(
        loss, solver, jnp.ones(2), args=make_data(trial), max_steps=2000, throw=False
    )
    return loss(solution.value, make_data(trial))


# --- advised ------------------------------------------------------------------------------------

advised = functools.partial(loop, hoist=canonopt.hoist)
