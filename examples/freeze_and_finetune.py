"""Train a network on the digits 0 to 4, freeze its body, and finetune the head on 5 to 9.

    pip install 'canonopt[examples]'
    python freeze_and_finetune.py

The loss takes the frozen part of the model as a separate argument, so `init_like_grads` makes state
for the head only. The model is committed to its device, for which `optim.init` would cost a second
compile.
"""

import equinox as eqx
import jax
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import canonopt

EPOCHS, BATCH_SIZE = 20, 32


def digits(classes):
    images, labels = load_digits(return_X_y=True)
    images, labels = images[np.isin(labels, classes)], labels[np.isin(labels, classes)]
    return train_test_split(images.astype(np.float32) / 16, labels, stratify=labels, random_state=0)


def loss_fn(trained, frozen, x, y):
    logits = jax.vmap(eqx.combine(trained, frozen))(x)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def step(trained, frozen, opt_state, optim, x, y):
    grads = eqx.filter_grad(loss_fn)(trained, frozen, x, y)
    updates, opt_state = optim.update(grads, opt_state, trained)
    return canonopt.apply_updates(trained, updates), opt_state


def train(title, model, is_trained, classes, learning_rate):
    x, x_test, y, y_test = digits(classes)
    trained, frozen = eqx.partition(model, is_trained)
    optim = canonopt.adamw(learning_rate)
    opt_state = canonopt.init_like_grads(trained, loss_fn, frozen, x[:1], y[:1], optim=optim)
    with canonopt.compile_log() as log:
        for epoch in range(EPOCHS):
            order = np.random.default_rng(epoch).permutation(len(x))
            for start in range(0, len(x) - BATCH_SIZE + 1, BATCH_SIZE):
                rows = order[start : start + BATCH_SIZE]
                trained, opt_state = step(trained, frozen, opt_state, optim, x[rows], y[rows])
    model = eqx.combine(trained, frozen)
    accuracy = np.mean(jax.vmap(model)(x_test).argmax(axis=-1) == y_test)
    moments = sum(leaf.size for leaf in jax.tree.leaves(optax.tree.get(opt_state, "mu")))
    print(f"{title}: moments of {moments} weights, {log['step'].traces} trace(s), ", end="")
    print(f"{log['step'].compiles} compile(s), {accuracy:.1%} of the held-out images correct")
    return model


def main():
    model = eqx.nn.MLP(64, 10, width_size=256, depth=1, key=jax.random.key(0))
    model = eqx.filter_shard(model, jax.devices()[0])
    model = train("all layers on 0 to 4", model, eqx.is_inexact_array, range(5), 2e-3)
    head = lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias)  # noqa: E731
    only_head = eqx.tree_at(head, jax.tree.map(lambda _: False, model), (True, True))
    train("the head on 5 to 9", model, only_head, range(5, 10), 1e-2)


if __name__ == "__main__":
    main()
