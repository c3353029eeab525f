"""The train state of a transformer of 69 billion parameters for a pod, made on a laptop.

Nothing is allocated: the model and the state are shapes with shardings. The step is compiled by the
TPU's own compiler, for chips that this machine does not have.

    pip install canonopt libtpu
    python pod.py

To compile the two layers takes a minute or two for each pod.
"""

import functools
import math
import os
import resource
import time

os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5p-8",
    TPU_WORKER_HOSTNAMES="localhost",
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, VOCABULARY = 80, 8192, 28672, 64, 8, 32000
HEAD, LENGTH = WIDTH // HEADS, 2048
PODS = {"v5p:8x8x16": (128, 8), "v5p:16x16x16": (512, 8)}


def abstract_model(mesh, layers):
    """Shapes and shardings, with the layers stacked for `jax.lax.scan`."""

    def array(*shape, spec):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))

    into, out_of = P(None, "data", "model"), P(None, "model", "data")
    kv = KV_HEADS * HEAD
    return {
        "embed": array(VOCABULARY, WIDTH, spec=P("model", "data")),
        "head": array(WIDTH, VOCABULARY, spec=P("data", "model")),
        "layers": {
            "norms": array(layers, 2, WIDTH, spec=P()),
            "query": array(layers, WIDTH, WIDTH, spec=into),
            "key": array(layers, WIDTH, kv, spec=into),
            "value": array(layers, WIDTH, kv, spec=into),
            "output": array(layers, WIDTH, WIDTH, spec=out_of),
            "gate": array(layers, WIDTH, HIDDEN, spec=into),
            "up": array(layers, WIDTH, HIDDEN, spec=into),
            "down": array(layers, HIDDEN, WIDTH, spec=out_of),
        },
    }


def normalized(x, scale):
    return (
        x
        * jax.lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-6).astype(
            x.dtype
        )
        * (1 + scale)
    )


def layer(x, weights, mesh):
    batch, length, _ = x.shape

    def heads(y):
        y = y.reshape(batch, length, -1, HEAD)
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data", None, "model")))

    y = normalized(x, weights["norms"][0])
    query, key, value = (heads(y @ weights[name]) for name in ("query", "key", "value"))
    attention = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    x = x + attention.reshape(x.shape) @ weights["output"]
    y = normalized(x, weights["norms"][1])
    x = x + (jax.nn.silu(y @ weights["gate"]) * (y @ weights["up"])) @ weights["down"]
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data"))), None


def loss_fn(model, tokens, mesh):
    x = model["embed"][tokens[:, :-1]]
    body = jax.checkpoint(functools.partial(layer, mesh=mesh))
    x, _ = jax.lax.scan(body, x, model["layers"])
    logits = (x @ model["head"]).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


@canonopt.jit(static_argnames=("optim", "mesh"), donate_argnames=("model", "opt_state"))
def step(model, opt_state, tokens, optim, mesh):
    loss, grads = jax.value_and_grad(loss_fn)(model, tokens, mesh)
    updates, opt_state = optim.update(grads, opt_state, model)
    return canonopt.apply_updates(model, updates), opt_state, loss


def gigabytes_per_chip(tree):
    leaves = jax.tree.leaves(tree)
    shards = [math.prod(leaf.sharding.shard_shape(leaf.shape)) for leaf in leaves]
    return sum(n * leaf.dtype.itemsize for n, leaf in zip(shards, leaves, strict=True)) / 1e9


def peak_gigabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def train_state(mesh, optim, layers):
    model = abstract_model(mesh, layers)
    shape = (mesh.shape["data"], LENGTH + 1)  # one sequence for each eight chips
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=NamedSharding(mesh, P("data")))
    return model, optim.init_like_grads(model, loss_fn, tokens, mesh), tokens


def main():
    imported = peak_gigabytes()
    optim = canonopt.adamw(3e-4, b2=0.95, mu_dtype=jnp.float32)
    for topology, shape in PODS.items():
        started = time.perf_counter()
        devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
        mesh = Mesh(np.array(devices).reshape(shape), ("data", "model"))
        model, opt_state, _ = train_state(mesh, optim, LAYERS)
        seconds = time.perf_counter() - started
        count = sum(leaf.size for leaf in jax.tree.leaves(model))
        print(f"{topology}, {mesh.size} chips: {count / 1e9:.1f} billion parameters")
        print(f"  parameters  {gigabytes_per_chip(model):7.3f} GB per chip")
        print(f"  state       {gigabytes_per_chip(opt_state):7.3f} GB per chip, in {seconds:.1f} s")

        started = time.perf_counter()
        model, opt_state, tokens = train_state(mesh, optim, layers=2)
        compiled = step.lower(model, opt_state, tokens, optim=optim, mesh=mesh).compile()
        program = compiled.memory_analysis()
        seconds = time.perf_counter() - started
        print(f"  a step of 2 layers was compiled in {seconds:.1f} s, and needs, besides these,")
        print(f"  program     {program.temp_size_in_bytes / 1e9:7.3f} GB per chip")
    print(f"peak memory of this process: {peak_gigabytes() - imported:.2f} GB above its imports")


if __name__ == "__main__":
    main()
