"""Run in each of two processes: train on a mesh of both, and count traces and compiles."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

import canonopt
from canonopt._steps import struct_of

from . import catalogue
from .processes import join, write_result

OPTIMIZERS = {
    "adamw": canonopt.adamw(1e-3),
    # Some leaves have a sharding that only the compiler knows.
    "adafactor": canonopt.adafactor(1e-3),
    # Some leaves get a wider dtype after they were made.
    "prodigy": canonopt.contrib.prodigy(),
}


def counts_of(optim, model, x):
    """Return traces and compiles of three steps, and if an abstract model gives the same state."""

    @jax.jit
    def step(model, opt_state, x):
        grads = jax.grad(catalogue.loss_fn)(model, x)
        updates, opt_state = optim.update(grads, opt_state, model)
        return canonopt.apply_updates(model, updates), opt_state

    opt_state = optim.init_like_grads(model, catalogue.loss_fn, x)
    abstract = optim.init_like_grads(jax.tree.map(struct_of, model), catalogue.loss_fn, x)
    is_same = jax.tree.map(struct_of, opt_state) == abstract
    with canonopt.compile_log() as log:
        for _ in range(3):
            model, opt_state = step(model, opt_state, x)
    return log["step"].traces, log["step"].compiles, is_same


def main():
    join(devices=2)

    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    specs = {"w": jax.P("data", "model"), "b": jax.P("model")}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    make = lambda: {"w": jnp.eye(256), "b": jnp.zeros(256, jnp.bfloat16)}  # noqa: E731
    model = jax.jit(make, out_shardings=shardings)()
    by_data = NamedSharding(mesh, jax.P("data"))
    x = jax.make_array_from_process_local_data(by_data, np.ones((2, 256), np.float32))
    write_result({name: counts_of(o, model, x) for name, o in OPTIMIZERS.items()})


if __name__ == "__main__":
    main()
