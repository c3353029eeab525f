"""A training script that recompiles its steps for five reasons. It does not import canonopt.

    canonopt doctor doctor_demo.py
    canonopt doctor --html report.html doctor_demo.py

The script is correct, and each part is typical of such scripts.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Model(eqx.Module):
    layer: eqx.nn.Linear
    activation: object

    def __init__(self, slope=0.1):
        self.layer = eqx.nn.Linear(8, 1, key=jax.random.key(0))
        self.activation = lambda x: jnp.where(x > 0, x, slope * x)

    def __call__(self, x):
        return self.activation(self.layer(x))


def loss_fn(model, x):
    return jnp.mean(jax.vmap(model)(x) ** 2)


def update(model, opt_state, optim, x):
    grads = eqx.filter_grad(loss_fn)(model, x)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), opt_state


def start(model, optim):
    return optim.init(eqx.filter(model, eqx.is_inexact_array))


@eqx.filter_jit
def sweep_step(model, opt_state, optim, x):
    return update(model, opt_state, optim, x)


def sweep(x):
    """Builds the optimizer again for each seed."""
    model = Model()
    for _ in range(4):
        optim = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
        sweep_step(model, start(model, optim), optim, x)


@eqx.filter_jit
def ensemble_step(model, x):
    return jax.tree.map(lambda leaf: -0.1 * leaf, eqx.filter_grad(loss_fn)(model, x))


def ensemble(x):
    """Builds the model again, together with the lambda that it holds."""
    for _ in range(3):
        ensemble_step(Model(), x)


@jax.jit
def evaluate(x):
    return jnp.sqrt(jnp.mean(x**2, axis=0)).sum()


def epoch(x):
    """Ends with a smaller batch."""
    for first in range(0, len(x), 32):
        evaluate(x[first : first + 32])


@eqx.filter_jit
def noisy_step(x, step):
    return x + jax.random.normal(jax.random.key(step), x.shape)


def noise(x):
    """Passes a Python number, which eqx.filter_jit makes part of the program."""
    for step in range(5):
        noisy_step(x, step)


@jax.jit
def finetune_step(model, opt_state, x):
    grads = jax.grad(lambda model: jnp.mean((x @ model["w"]) ** 2))(model)
    updates, opt_state = optax.adam(1e-3).update(grads, opt_state)
    return optax.apply_updates(model, updates), opt_state


def finetune(x):
    """Commits the model to a device, but not the counter of the optimizer."""
    model = jax.device_put({"w": jnp.ones((8, 1))}, jax.devices()[0])
    opt_state = optax.adam(1e-3).init(model)
    for _ in range(3):
        model, opt_state = finetune_step(model, opt_state, x)


def main():
    x = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    for part in (sweep, ensemble, epoch, noise, finetune):
        part(x)
        print(f"{part.__name__}: done")


if __name__ == "__main__":
    main()
