"""Thirty trials of a small MLP, each with an optimizer of its own: what `canonopt doctor` is for.

canonopt doctor examples/train.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, opt_state, optim, x, y):
    grads = eqx.filter_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), opt_state


model = eqx.nn.MLP(2, 1, 32, depth=2, key=jax.random.key(0))
x, y = jnp.ones((64, 2)), jnp.ones((64, 1))

for _ in range(30):
    optim = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    trained, opt_state = model, optim.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(20):
        trained, opt_state = step(trained, opt_state, optim, x, y)
