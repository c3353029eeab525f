"""Train a network that is sharded over a mesh of 4 x 2 devices, with a state that fits it.

    pip install canonopt
    python sharded.py

It runs on eight accelerators, or on the CPU as eight devices. Weights are split along `model`, the
batch along `data`. `init_like_grads` shards the moments like the parameters and puts the counter on
the whole mesh. `optim.init` puts the counter on one device, and the step is compiled twice.
"""

import os

# JAX reads this when it starts. It affects the CPU only.
flag = " --xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + flag

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

import canonopt  # noqa: E402


def loss_fn(model, x, y):
    hidden = jax.nn.gelu(x @ model["up"] + model["bias"])
    return jnp.mean((hidden @ model["down"] - y) ** 2)


def train(model, opt_state, optim, x, y):
    """Twenty steps. Returns the traces and compiles of the step, and the last loss."""

    @jax.jit
    def step(model, opt_state, optim, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(model, x, y)
        updates, opt_state = optim.update(grads, opt_state, model)
        return canonopt.apply_updates(model, updates), opt_state, loss

    with canonopt.compile_log() as log:
        for _ in range(20):
            model, opt_state, loss = step(model, opt_state, optim, x, y)
    counts = log["step"]
    return f"{counts.traces} trace(s), {counts.compiles} compile(s), loss {loss:.3f}"


def main():
    devices = jax.devices() if len(jax.devices()) >= 8 else jax.devices("cpu")
    mesh = Mesh(np.array(devices[:8]).reshape(4, 2), ("data", "model"))
    specs = {"up": P(None, "model"), "bias": P("model"), "down": P("model", None)}
    normal = np.random.default_rng(0).standard_normal
    model = {"up": normal((16, 64)) / 4, "bias": np.zeros(64), "down": normal((64, 1)) / 8}
    model = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in model.items()}
    model = {name: jax.device_put(model[name], NamedSharding(mesh, specs[name])) for name in model}
    x = normal((256, 16)).astype(np.float32)
    x, y = jax.device_put((x, np.sin(x[:, :1])), NamedSharding(mesh, P("data")))

    optim = canonopt.adamw(1e-2)
    opt_state = canonopt.init_like_grads(model, loss_fn, x, y, optim=optim)
    moments, counter = (optax.tree.get(opt_state, name) for name in ("mu", "count"))
    print("moments of up:", moments["up"].sharding.spec)
    print("counter:", counter.sharding.spec, "on", len(counter.devices()), "devices")
    print("init_like_grads:", train(model, opt_state, optim, x, y))
    print("optim.init:", train(model, optim.init(model), optim, x, y))


if __name__ == "__main__":
    main()
