"""Cross-validate a classifier of two spirals with Equinox and Optax, for two learning rates.

Each fold trains a model, and then fits the temperature that calibrates its probabilities.
`docs/migrate.md` moves the script from `before.py` to `after.py`, in five steps.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import canonopt
import canonopt as optax

RATES, FOLDS, EPOCHS, BATCH_SIZE = (1e-2, 5e-2), 2, 4, 32


class Classifier(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear
    scale: jax.Array
    activation: Callable
    squash: Callable

    def __init__(self, width: int, key: jax.Array):
        first, last = jax.random.split(key)
        self.first = eqx.nn.Linear(2, width, key=first)
        self.last = eqx.nn.Linear(width, 2, key=last)
        self.scale = jnp.full((width,), 1.0)
        self.activation = lambda x: x * jax.nn.sigmoid(1.7 * x)
        self.squash = functools.partial(jnp.clip, min=-20.0, max=20.0)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.squash(self.last(self.scale * self.activation(self.first(x))))


def spirals(count: int = 256) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 2
    radius = np.sqrt(rng.uniform(0.05, 1.0, count))
    angle = 2.0 * radius + np.pi * labels
    points = radius * np.stack([np.cos(angle), np.sin(angle)]) + rng.normal(0.0, 0.05, (2, count))
    return points.T.astype(np.float32), labels.astype(np.int32)


def make_optim(rate: float, steps: int) -> optax.GradientTransformation:
    def is_matrix(params):
        return jax.tree.map(lambda p: p.ndim > 1, params)

    peak = canonopt.dynamic(rate)
    schedule = optax.warmup_cosine_decay_schedule(0.0, peak, steps // 10, steps)
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, weight_decay=1e-3, mask=is_matrix),
    )


def loss_fn(model: Classifier, x: jax.Array, y: jax.Array) -> jax.Array:
    logits = jax.vmap(model)(x)
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def train_step(model, opt_state: optax.OptState, optim, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optim.update(grads, opt_state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), opt_state, loss, optax.tree.norm(grads)


@eqx.filter_jit
def evaluate(model, x, y):
    logits = jax.vmap(model)(x)
    return logits, jnp.mean(logits.argmax(axis=-1) == y)


def calibrate(logits, y, steps=20):
    """The temperature that the logits need to be divided by."""
    optim = optax.sgd(0.1, momentum=0.9)

    @canonopt.jit
    def calibrate_step(log_temperature, opt_state):
        def nll(log_temperature):
            scaled = logits / jnp.exp(log_temperature)
            return optax.losses.softmax_cross_entropy_with_integer_labels(scaled, y).mean()

        updates, opt_state = optim.update(jax.grad(nll)(log_temperature), opt_state)
        return optax.apply_updates(log_temperature, updates), opt_state

    log_temperature = jnp.zeros(())
    opt_state = optim.init(log_temperature)
    for _ in range(steps):
        log_temperature, opt_state = calibrate_step(log_temperature, opt_state)
    return jnp.exp(log_temperature)


def train(model, optim, x, y):
    batch = x[:BATCH_SIZE], y[:BATCH_SIZE]
    opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(x))
        for batch in order.reshape(-1, BATCH_SIZE):
            model, opt_state, loss, norm = train_step(model, opt_state, optim, x[batch], y[batch])
    return model, loss, norm


def cross_validate():
    x, y = spirals()
    fold_of = np.arange(len(x)) // 2 % FOLDS
    results = []
    for rate in RATES:
        model = canonopt.canonicalize(Classifier(64, jax.random.key(0)))
        model = eqx.filter_shard(model, jax.devices()[0])
        for fold in range(FOLDS):
            held_out = fold_of == fold
            optim = make_optim(rate, steps=EPOCHS * (~held_out).sum() // BATCH_SIZE)
            trained, loss, norm = train(model, optim, x[~held_out], y[~held_out])
            logits, accuracy = evaluate(trained, x[held_out], y[held_out])
            temperature = calibrate(logits, jnp.asarray(y[held_out]))
            results.append((rate, fold, trained, loss, norm, accuracy, temperature))
    return results


if __name__ == "__main__":
    for rate, fold, _, loss, norm, accuracy, temperature in cross_validate():
        print(f"rate {rate:g}, fold {fold}: loss {loss:.4f}, gradient {norm:.3f}, ", end="")
        print(f"accuracy {accuracy:.1%}, temperature {temperature:.3f}")
