"""Train on handwritten digits with three optimizers, and count how often each is compiled.

    pip install 'canonopt[examples]'
    python quickstart.py

Training runs in sessions of one epoch, as it does when a job is preempted or a notebook cell runs
again: each session builds its model and its optimizer from their configuration, and loads the
checkpoint of the session before. The script trains with canonopt and then with Optax, and prints a
table. It exits with status 1 if an optimizer stays below 95 % on the held-out images.
"""

import pathlib
import sys
import tempfile
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import canonopt

EPOCHS, BATCH_SIZE, GOAL = 8, 32, 0.95


def digits():
    """1,797 images of 8 x 8 pixels: train images, held-out images, train labels, held-out ones."""
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    return train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)


def optimizers(library, steps):
    """Functions that each build an optimizer. `library` is canonopt or optax."""

    def clipped_adamw():
        schedule = library.warmup_cosine_decay_schedule(0.0, 4e-3, steps // 10, steps)
        adamw = library.adamw(schedule, weight_decay=1e-2)
        return library.chain(library.clip_by_global_norm(1.0), adamw)

    return {
        "adam(2e-3)": lambda: library.adam(2e-3),
        "sgd(0.05, momentum=0.9)": lambda: library.sgd(0.05, momentum=0.9),
        "clip + adamw + cosine": clipped_adamw,
    }


def build_model():
    return eqx.nn.MLP(64, 10, width_size=128, depth=2, key=jax.random.key(0))


def loss_fn(model, x, y):
    logits = jax.vmap(model)(x)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def step(model, opt_state, optim, x, y):
    grads = eqx.filter_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return canonopt.apply_updates(model, updates), opt_state


@eqx.filter_jit
def accuracy(model, x, y):
    return jnp.mean(jax.vmap(model)(x).argmax(axis=-1) == y)


def batches(x, y, epoch):
    """Shuffled minibatches of one size: a smaller last one would be another trace."""
    order = np.random.default_rng(epoch).permutation(len(x))
    for start in range(0, len(x) - BATCH_SIZE + 1, BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        yield x[chosen], y[chosen]


def train_one_epoch(library, build_optimizer, x, y, epoch, checkpoint):
    """One session: build everything, load the checkpoint, train, save the checkpoint."""
    optim, model = build_optimizer(), build_model()
    if library is canonopt:
        example = x[:BATCH_SIZE], y[:BATCH_SIZE]
        opt_state = canonopt.init_like_grads(model, loss_fn, *example, optim=optim)
    else:
        opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    if epoch > 0:
        model, opt_state = eqx.tree_deserialise_leaves(checkpoint, (model, opt_state))
    for batch in batches(x, y, epoch):
        model, opt_state = step(model, opt_state, optim, *batch)
    eqx.tree_serialise_leaves(checkpoint, (model, opt_state))
    return model


def main():
    x, x_test, y, y_test = digits()
    steps = EPOCHS * (len(x) // BATCH_SIZE)
    console = Console()
    table = Table("", "optimizer", title=f"{EPOCHS} epochs on {len(x)} digits", box=None)
    for title in ("traces", "compiles", "seconds", "held-out"):
        table.add_column(title, justify="right")
    lowest = 1.0
    with Progress(console=console) as bar, tempfile.TemporaryDirectory() as folder:
        checkpoint = pathlib.Path(folder) / "checkpoint.eqx"
        # canonopt runs first, so its seconds include what JAX compiles once for both libraries.
        for library in (canonopt, optax):
            sweep = optimizers(library, steps)
            task = bar.add_task(library.__name__, total=len(sweep) * EPOCHS)
            for name, build_optimizer in sweep.items():
                start = time.perf_counter()
                with canonopt.compile_log() as log:
                    for epoch in range(EPOCHS):
                        model = train_one_epoch(library, build_optimizer, x, y, epoch, checkpoint)
                        bar.advance(task)
                seconds = time.perf_counter() - start
                held_out = float(accuracy(model, x_test, y_test))
                lowest = min(lowest, held_out)
                counts = str(log["step"].traces), str(log["step"].compiles)
                table.add_row(library.__name__, name, *counts, f"{seconds:.1f}", f"{held_out:.1%}")
    console.print(table)
    if lowest < GOAL:
        sys.exit(f"An optimizer classifies only {lowest:.1%} of the held-out images correctly.")


if __name__ == "__main__":
    main()
