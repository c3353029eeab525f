"""Try fifty learning rates on handwritten digits in three ways, and plot the accuracies.

    pip install 'canonopt[examples]'
    python sweep.py sweep.png --values 10

The learning rate of an Optax optimizer is a constant of the compiled program, so each rate costs a
compile. A dynamic learning rate is an argument of the program. It is an array like any other, so
`jax.vmap` over the optimizer trains all rates at once. The script exits with status 1 if the three
ways disagree.
"""

import argparse
import functools
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import canonopt

EPOCHS, BATCH_SIZE = 4, 64


def digits():
    """1,797 images of 8 x 8 pixels: train images, held-out images, train labels, held-out ones."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(np.float32(images / 16), np.int32(labels), random_state=0)


def batches(x, y):
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(x))
        for start in range(0, len(x) - BATCH_SIZE + 1, BATCH_SIZE):
            yield tuple(array[order[start : start + BATCH_SIZE]] for array in (x, y))


def build_model():
    return eqx.nn.MLP(64, 10, width_size=32, depth=1, key=jax.random.key(0))


def loss_fn(model, x, y):
    logits = jax.vmap(model)(x)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def init(model, optim):
    return optim.init(eqx.filter(model, eqx.is_inexact_array))


def train(model, opt_state, optim, x, y):
    grads = eqx.filter_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return canonopt.apply_updates(model, updates), opt_state


step = eqx.filter_jit(train)
# The first axis of models, states and optimizers is the member. All members get the same batch.
MEMBER = eqx.if_array(0)
ensemble_step = eqx.filter_jit(eqx.filter_vmap(train, in_axes=(MEMBER, MEMBER, MEMBER, None, None)))


@eqx.filter_jit
def accuracy(model, x, y):
    return jnp.mean(jax.vmap(model)(x).argmax(axis=-1) == y)


def dynamic_adamw(rates):
    return canonopt.adamw(canonopt.dynamic(rates))


def one_by_one(build_optimizer, rates, data):
    x, x_test, y, y_test = data
    accuracies = []
    for rate in rates:
        model, optim = build_model(), build_optimizer(rate)
        opt_state = init(model, optim)
        for batch in batches(x, y):
            model, opt_state = step(model, opt_state, optim, *batch)
        accuracies.append(float(accuracy(model, x_test, y_test)))
    return accuracies


def one_program(rates, data):
    x, x_test, y, y_test = data
    optims = dynamic_adamw(rates)
    models = eqx.filter_vmap(lambda _: build_model())(jnp.arange(len(rates)))
    opt_states = eqx.filter_vmap(init)(models, optims)
    for batch in batches(x, y):
        models, opt_states = ensemble_step(models, opt_states, optims, *batch)
    of_all = eqx.filter_vmap(accuracy, in_axes=(MEMBER, None, None))
    return of_all(models, x_test, y_test).tolist()


def draw(path, rates, found):
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (name, accuracies), style in zip(found.items(), ("-", "o", "x"), strict=True):
        axes.plot(rates, accuracies, style, label=name, markersize=5, fillstyle="none")
    axes.set(xscale="log", xlabel="learning rate", ylabel="held-out accuracy", ylim=(0, 1))
    ticks = ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1"]
    axes.set_xticks([*map(float, ticks)], ticks)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center")
    figure.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", nargs="?", default="sweep.png", help="where the plot goes")
    parser.add_argument("--values", type=int, default=50, help="how many learning rates")
    arguments = parser.parse_args()
    rates, data = np.geomspace(1e-5, 1.0, arguments.values).tolist(), digits()
    # Compile beforehand what all three ways share.
    one_by_one(lambda _: canonopt.set_to_zero(), rates[:1], data)
    ways = {
        "optax.adamw(rate)": functools.partial(one_by_one, optax.adamw),
        "canonopt.adamw(canonopt.dynamic(rate))": functools.partial(one_by_one, dynamic_adamw),
        "canonopt.adamw(canonopt.dynamic(rates)), vmapped": one_program,
    }
    table = Table("", title=f"{len(rates)} learning rates, {EPOCHS} epochs each", box=None)
    for title in ("traces", "compiles", "seconds", "best"):
        table.add_column(title, justify="right")
    found = {}
    for name, way in ways.items():
        start = time.perf_counter()
        with canonopt.compile_log() as log:
            found[name] = way(rates, data)
        seconds = time.perf_counter() - start
        counts = str(log["train"].traces), str(log["train"].compiles)
        table.add_row(name, *counts, f"{seconds:.1f}", f"{max(found[name]):.1%}")
    draw(arguments.picture, rates, found)
    Console(width=100).print(table)
    print(f"accuracy against learning rate: {arguments.picture}")
    spread = np.ptp(list(found.values()), axis=0)
    # The ways add numbers in different orders, so they may disagree on an image or two.
    if np.median(spread) > 0.01:
        sys.exit(f"The three ways differ by {spread.max():.1%} of the held-out images.")


if __name__ == "__main__":
    main()
