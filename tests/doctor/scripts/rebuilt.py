"""Builds its optimizer again in each trial, by each of the ways to name it."""

import functools

import jax
import jax.numpy as jnp
import optax
from optax import adam


@functools.partial(jax.jit, static_argnums=0)
def step(optim, params, opt_state):
    updates, opt_state = optim.update(params, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


for _ in range(3):
    for build in (adam, optax.adam):
        optim = optax.chain(optax.clip(1.0), optax.contrib.schedule_free(build(0.1), 0.1))
        params = {"w": jnp.ones(3)}
        opt_state = optim.init(params)
        params, opt_state = step(optim, params, opt_state)
print([float(x).hex() for x in params["w"]])
