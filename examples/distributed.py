"""Train a small transformer on two processes, data- and tensor-parallel, with checkpoints.

    pip install canonopt orbax-checkpoint
    python distributed.py --process 0 & python distributed.py --process 1

Each process has four devices of the CPU, as a host of a pod has its chips. If one is killed, start
both again: they continue from the last checkpoint, and trace and compile the step once, as before.
The text is in the public domain: Shakespeare's Coriolanus, as in the data set Tiny Shakespeare.
"""

import argparse
import functools
import pathlib

import equinox as eqx
import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding

import canonopt

HERE = pathlib.Path(__file__).parent
TEXT = np.frombuffer((HERE / "text" / "coriolanus.txt").read_bytes(), np.uint8).astype(np.int32)
WIDTH, LETTERS, HEADS, LAYERS, LENGTH, BATCH = 128, 128, 4, 2, 64, 32


class Block(eqx.Module):
    attention_in: eqx.nn.Linear  # to the queries, keys and values
    attention_out: eqx.nn.Linear
    mlp_in: eqx.nn.Linear
    mlp_out: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.attention_in = eqx.nn.Linear(WIDTH, 3 * WIDTH, key=keys[0])
        self.attention_out = eqx.nn.Linear(WIDTH, WIDTH, key=keys[1])
        self.mlp_in = eqx.nn.Linear(WIDTH, 4 * WIDTH, key=keys[2])
        self.mlp_out = eqx.nn.Linear(4 * WIDTH, WIDTH, key=keys[3])

    def __call__(self, x):
        y = jax.vmap(self.attention_in)(jax.nn.standardize(x))
        query, key, value = y.reshape(len(x), HEADS, 3, -1).transpose(2, 0, 1, 3)
        y = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + jax.vmap(self.attention_out)(y.reshape(x.shape))
        y = jax.nn.gelu(jax.vmap(self.mlp_in)(jax.nn.standardize(x)))
        return x + jax.vmap(self.mlp_out)(y)


class Transformer(eqx.Module):
    letters: eqx.nn.Embedding
    places: eqx.nn.Embedding
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, seed=0):
        keys = jax.random.split(jax.random.key(seed), LAYERS + 3)
        self.letters = eqx.nn.Embedding(LETTERS, WIDTH, key=keys[0])
        self.places = eqx.nn.Embedding(LENGTH, WIDTH, key=keys[1])
        self.head = eqx.nn.Linear(WIDTH, LETTERS, key=keys[2])
        self.blocks = [Block(key) for key in keys[3:]]

    def __call__(self, letters):
        x = self.letters.weight[letters] + self.places.weight
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.head)(jax.nn.standardize(x))


# The first layer of a pair is split by its outputs, the second by its inputs, so that a pair needs
# one sum over the axis `model`. All else is replicated.
SPLIT = {"_in.weight": jax.P("model"), "_out.weight": jax.P(None, "model")}


def with_sharding(mesh, path, leaf):
    """The shape of a leaf of the model, with its sharding."""
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    spec = next((spec for end, spec in SPLIT.items() if name.endswith(end)), jax.P())
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))


def batch_of_step(step, sharding):
    """The batch of a step, the same after a restart. Each process makes its own part."""
    rng = np.random.default_rng((step, jax.process_index()))
    starts = rng.integers(len(TEXT) - LENGTH, size=(BATCH // jax.process_count(), 1))
    return jax.make_array_from_process_local_data(sharding, TEXT[starts + np.arange(LENGTH + 1)])


def loss_fn(model, letters):
    logits = jax.vmap(model)(letters[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, letters[:, 1:]).mean()


def train_step(model, opt_state, letters, optim):
    loss, grads = jax.value_and_grad(loss_fn)(model, letters)
    updates, opt_state = optim.update(grads, opt_state, model)
    return canonopt.apply_updates(model, updates), opt_state, loss


def train(steps, folder):
    mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ("data", "model"))
    by_data, replicated = NamedSharding(mesh, jax.P("data")), NamedSharding(mesh, jax.P())
    optim = canonopt.adamw(canonopt.warmup_cosine_decay_schedule(0.0, 3e-3, steps // 10, steps))

    # Without arrays at first: shapes and shardings are what a checkpoint is restored into.
    place = functools.partial(with_sharding, mesh)
    model = jax.tree.map_with_path(place, jax.eval_shape(Transformer))
    batch = batch_of_step(0, by_data)
    opt_state = optim.init_like_grads(model, loss_fn, batch)
    canonopt.assert_same_across_processes((optim, model))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, (model, opt_state))
    checkpoints = ocp.CheckpointManager(folder.absolute())
    done = checkpoints.latest_step() or 0
    if done:
        wanted = ocp.args.StandardRestore((model, opt_state))
        model, opt_state = checkpoints.restore(done, args=wanted)
    else:
        model = jax.jit(Transformer, out_shardings=shardings[0])()
        opt_state = optim.init_like_grads(model, loss_fn, batch)

    step = jax.jit(train_step, donate_argnums=(0, 1), out_shardings=(*shardings, replicated))
    with canonopt.compile_log() as log:
        for i in range(done + 1, steps + 1):
            model, opt_state, loss = step(model, opt_state, batch_of_step(i, by_data), optim)
            if i % (steps // 6) == 0:
                checkpoints.save(i, args=ocp.args.StandardSave((model, opt_state)))
            counts = f"{log['train_step'].traces} trace(s), {log['train_step'].compiles} compile(s)"
            print(f"\rstep {i} of {steps}: {counts}, loss {loss}", end=" ", flush=True)
    print()
    checkpoints.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--coordinator", default="localhost:8476", help="address of process 0")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "checkpoints")
    given = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(given.coordinator, num_processes=2, process_id=given.process)
    train(given.steps, given.folder)


if __name__ == "__main__":
    main()
