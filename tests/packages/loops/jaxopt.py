"""A logistic regression is fitted to the data of each trial.

Write `@eqx.filter_jit` and `canonopt.adam(1e-1)`.

Each `OptaxSolver` jits a method of its own in `run`: in `fit`, once for each optimizer.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxopt


def loss(params, data):
    x, y = data
    losses = jax.vmap(jaxopt.loss.binary_logistic_loss)(y, x @ params)
    return losses.mean() + 1e-3 * jnp.sum(params**2)


def make_data(trial):
    x = jax.random.normal(jax.random.key(trial), (100, 5))
    return x, (x.sum(axis=1) > 0).astype(int)


def loop(library, trial):
    solver = jaxopt.OptaxSolver(loss, library.adam(1e-1), maxiter=200)
    _, state = solver.run(jnp.zeros(5), make_data(trial))
    return state.value


# --- advised ------------------------------------------------------------------------------------


@eqx.filter_jit
def fit(params, data, optim):
    solver = jaxopt.OptaxSolver(loss, optim, maxiter=200)
    return solver.run(params, data)


def advised(library, trial):
    _, state = fit(jnp.zeros(5), make_data(trial), library.adam(1e-1))
    return state.value
