"""A Bayesian regression is fitted to the data of each trial.

Write `@eqx.filter_jit` and `canonopt.adam(1e-2)`.

`SVI.run` scans over a function that it makes in each call: in `fit`, once for each optimizer. A
guide keeps arrays of the trace, so compute what you need of it in `fit` too, for example
`guide.median(result.params)`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal


def model(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(3), 1).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)


def make_data(trial):
    x_key, y_key = jax.random.split(jax.random.key(trial))
    x = jax.random.normal(x_key, (100, 3))
    return x, x @ jnp.array([1.0, -1.0, 0.5]) + 0.1 * jax.random.normal(y_key, (100,))


def loop(library, trial):
    x, y = make_data(trial)
    svi = SVI(model, AutoNormal(model), library.adam(1e-2), Trace_ELBO())
    result = svi.run(jax.random.key(trial), 500, x, y, progress_bar=False)
    return result.losses[-1]


# --- advised ------------------------------------------------------------------------------------


@eqx.filter_jit
def fit(key, x, y, optim):
    svi = SVI(model, AutoNormal(model), optim, Trace_ELBO())
    return svi.run(key, 500, x, y, progress_bar=False)


def advised(library, trial):
    x, y = make_data(trial)
    result = fit(jax.random.key(trial), x, y, library.adam(1e-2))
    return result.losses[-1]
