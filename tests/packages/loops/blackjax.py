"""A mean-field approximation is fitted to the posterior of each trial's data.

Write `@canonopt.jit`.

`jax.lax.scan` compiles for each new function, and `vi.step` is new in each trial.
"""

import blackjax
import jax
import jax.numpy as jnp

import canonopt


def make_data(trial):
    x_key, y_key = jax.random.split(jax.random.key(trial))
    x = jax.random.normal(x_key, (100, 3))
    return x, x @ jnp.array([1.0, -1.0, 0.5]) + 0.1 * jax.random.normal(y_key, (100,))


def make_logdensity(x, y):
    def logdensity(weights):
        residuals = y - x @ weights
        return -0.5 * jnp.sum(residuals**2) - 0.5 * jnp.sum(weights**2)

    return logdensity


def loop(library, trial):
    vi = blackjax.meanfield_vi(make_logdensity(*make_data(trial)), library.adam(1e-2), 10)

    @jax.jit
    def step(state, key):
        return vi.step(key, state)

    keys = jax.random.split(jax.random.key(trial), 500)
    _, info = jax.lax.scan(step, vi.init(jnp.zeros(3)), keys)
    return info.elbo[-1]


# --- advised ------------------------------------------------------------------------------------


def advised(library, trial):
    vi = blackjax.meanfield_vi(make_logdensity(*make_data(trial)), library.adam(1e-2), 10)

    @canonopt.jit
    def run(state, keys):
        return jax.lax.scan(lambda state, key: vi.step(key, state), state, keys)

    keys = jax.random.split(jax.random.key(trial), 500)
    _, info = run(vi.init(jnp.zeros(3)), keys)
    return info.elbo[-1]
