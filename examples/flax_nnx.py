"""Train Flax NNX models for several seeds, with an optimizer that is built for each.

    pip install canonopt flax
    python flax_nnx.py

`nnx.Optimizer` keeps its transformation as a static part, so `nnx.jit` traces again for each
transformation of Optax that is built, and once for a spec. On a device or a mesh, the state that
`nnx.Optimizer` makes costs a second compile. The last part makes the state with `init_like_grads`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import canonopt

SEEDS, STEPS = 3, 30


class Model(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(2, 32, rngs=rngs)
        self.down = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.down(nnx.tanh(self.up(x)))


def loss_fn(model, x, y):
    return jnp.mean((model(x) - y) ** 2)


@nnx.jit
def step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_fn)(model, x, y)
    optimizer.update(model, grads)
    return loss


def data():
    x = np.random.default_rng(0).standard_normal((128, 2), np.float32)
    return jnp.asarray(x), jnp.asarray(np.sin(x[:, :1]) * x[:, 1:])


def train_seeds(library):
    """A model and an optimizer for each seed. `library` is optax or canonopt."""
    x, y = data()
    with canonopt.compile_log() as log:
        for seed in range(SEEDS):
            model = Model(nnx.Rngs(seed))
            optimizer = nnx.Optimizer(model, library.adam(1e-2), wrt=nnx.Param)
            for _ in range(STEPS):
                loss = step(model, optimizer, x, y)
    return f"{log['step'].traces} trace(s), {log['step'].compiles} compile(s), loss {loss:.4f}"


def train_on_device(device, init):
    """The same with `nnx.split`, on a model that is committed to its device."""
    x, y = data()
    graph, params = nnx.split(Model(nnx.Rngs(0)), nnx.Param)
    params = jax.device_put(params, device)
    optim = canonopt.adam(1e-2)

    def loss_of(params, x, y):
        return loss_fn(nnx.merge(graph, params), x, y)

    @jax.jit
    def device_step(params, opt_state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state, params)
        return canonopt.apply_updates(params, updates), opt_state, loss

    opt_state = init(optim, params, loss_of, x, y)
    with canonopt.compile_log() as log:
        for _ in range(STEPS):
            params, opt_state, loss = device_step(params, opt_state, x, y)
    counts = log["device_step"]
    return f"{counts.traces} trace(s), {counts.compiles} compile(s), loss {loss:.4f}"


def from_gradients(optim, params, loss_of, x, y):
    return canonopt.init_like_grads(params, loss_of, x, y, optim=optim)


def from_params(optim, params, *_):
    return optim.init(params)


def main():
    print(f"{SEEDS} seeds, canonopt: {train_seeds(canonopt)}")
    print(f"{SEEDS} seeds, optax: {train_seeds(optax)}")
    device = jax.devices()[0]
    print(f"on a device, init_like_grads: {train_on_device(device, from_gradients)}")
    print(f"on a device, optim.init: {train_on_device(device, from_params)}")


if __name__ == "__main__":
    main()
