"""Stop a training run, start it again, and get the numbers of a run that was never stopped.

    pip install canonopt
    python checkpoint_restart.py

A process is killed between two checkpoints. Another one goes on from the last of them, and then
trains without a stop, to compare. Each process traces and compiles the step once.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import canonopt

STEPS, SAVE_EVERY, KILLED_AT = 60, 20, 50


class Run(eqx.Module):
    """All that a checkpoint has to have."""

    model: eqx.nn.MLP
    opt_state: Any
    optim: canonopt.Spec
    steps: int


def make_model():
    return eqx.nn.MLP(2, 1, width_size=64, depth=2, key=jax.random.key(0))


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def batch_of_step(step):
    x = np.random.default_rng(step).uniform(-2, 2, size=(128, 2)).astype(np.float32)
    return x, np.sin(x[:, :1] * x[:, 1:])


def start(model):
    optim = canonopt.adamw(canonopt.dynamic(3e-3))
    x, y = batch_of_step(0)
    return Run(model, optim.init_like_grads(model, loss_fn, x, y), optim, steps=0)


@canonopt.filter_jit
def train_step(model, opt_state, optim, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return canonopt.apply_updates(model, updates), opt_state, loss


def save(path, run):
    # Under another name at first, so that a run that is killed leaves no half of a checkpoint.
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(f"{canonopt.manifest(run)}\n".encode())
        eqx.tree_serialise_leaves(file, run)
    unfinished.replace(path)


def restore(path):
    """The run of a checkpoint, which never allocates another model."""
    like = start(eqx.filter_eval_shape(make_model))
    with path.open("rb") as file:
        manifest = file.readline()
        return canonopt.restore_like(
            like, lambda like: eqx.tree_deserialise_leaves(file, like), manifest
        )


def train(path, killed_at=None):
    """Trains, from the checkpoint on if there is one. Gives the traces and compiles of the step."""
    run = restore(path) if path.exists() else start(make_model())
    first = run.steps + 1
    with canonopt.compile_log() as log:
        while run.steps < STEPS and run.steps != killed_at:
            batch = batch_of_step(run.steps)
            model, opt_state, loss = train_step(run.model, run.opt_state, run.optim, *batch)
            run = Run(model, opt_state, run.optim, run.steps + 1)
            if run.steps % SAVE_EVERY == 0:
                save(path, run)
    traces, compiles = log["train_step"].traces, log["train_step"].compiles
    counts = f"{traces} trace(s), {compiles} compile(s)"
    print(f"steps {first} to {run.steps}: {counts}, loss {loss:.6f}", flush=True)
    return traces, compiles


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--killed", type=pathlib.Path, help="the checkpoint of a run to be killed")
    given = parser.parse_args()
    if given.killed is not None:
        assert train(given.killed, KILLED_AT) == (1, 1)
        os._exit(1)
    with tempfile.TemporaryDirectory() as folder:
        stopped, whole = (pathlib.Path(folder, f"{name}.eqx") for name in ("stopped", "whole"))
        print("a run that is killed:", flush=True)
        killed = subprocess.run([sys.executable, __file__, "--killed", stopped])
        assert killed.returncode == 1
        print("it goes on:")
        assert train(stopped) == (1, 1)
        print("a run without a stop, which finds the step compiled:")
        assert train(whole) == (0, 0)
        same = stopped.read_bytes() == whole.read_bytes()
        print("the same model, state and spec, bit for bit:", same)
        assert same


if __name__ == "__main__":
    main()
