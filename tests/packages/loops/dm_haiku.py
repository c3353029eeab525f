"""A network is trained on the data of each trial.

Write `@canonopt.jit`.

The step is made in each trial, since it needs the network and the optimizer.
"""

import functools

import haiku
import jax
import jax.numpy as jnp
import optax

import canonopt


def make_data(trial):
    x = jax.random.normal(jax.random.key(trial), (100, 2))
    return x, jnp.sin(x.sum(axis=1, keepdims=True))


def loop(library, trial, jit=jax.jit):
    x, y = make_data(trial)
    net = haiku.without_apply_rng(haiku.transform(lambda x: haiku.nets.MLP([32, 32, 1])(x)))
    optim = library.adam(1e-3)

    def loss(params, x, y):
        return jnp.mean((net.apply(params, x) - y) ** 2)

    @jit
    def step(params, opt_state, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, value

    params = net.init(jax.random.key(trial), x)
    opt_state = optim.init(params)
    for _ in range(200):
        params, opt_state, value = step(params, opt_state, x, y)
    return value


# --- advised ------------------------------------------------------------------------------------

advised = functools.partial(loop, jit=canonopt.jit)
