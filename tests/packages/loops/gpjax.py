"""A Gaussian process is fitted to the data of each trial.

Write `fit = eqx.filter_jit(gpjax.fit)`, `canonopt.hoist` and `canonopt.adam(0.01)`.

`gpjax.fit` scans over a step that it makes in each call. With one jit around the fit, JAX compares
the arguments instead: the spec and the hoisted objective are the same objects in each trial.
"""

import equinox as eqx
import gpjax
import jax
import jax.numpy as jnp

import canonopt

jax.config.update("jax_enable_x64", True)


def make_posterior():
    prior = gpjax.gps.Prior(
        mean_function=gpjax.mean_functions.Constant(), kernel=gpjax.kernels.RBF()
    )
    return prior * gpjax.likelihoods.Gaussian()


def make_data(trial):
    x_key, y_key = jax.random.split(jax.random.key(trial))
    x = jax.random.uniform(x_key, (50, 1))
    return gpjax.Dataset(x, jnp.sin(9 * x) + 0.1 * jax.random.normal(y_key, (50, 1)))


def loop(library, trial):
    _, history = gpjax.fit(
        model=make_posterior(),
        objective=lambda posterior, data: -gpjax.objectives.conjugate_mll(posterior, data),
        train_data=make_data(trial),
        optim=library.adam(0.01),
        num_iters=200,
        verbose=False,
    )
    return history[-1]


# --- advised ------------------------------------------------------------------------------------

fit = eqx.filter_jit(gpjax.fit)


def advised(library, trial):
    _, history = fit(
        model=make_posterior(),
        objective=canonopt.hoist(lambda p, data: -gpjax.objectives.conjugate_mll(p, data)),
        train_data=make_data(trial),
        optim=library.adam(0.01),
        num_iters=200,
        verbose=False,
    )
    return history[-1]
