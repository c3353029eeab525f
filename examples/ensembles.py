"""Train an ensemble in one program: each member has its own model, learning rate and weight decay.

    pip install canonopt
    python ensembles.py

A dynamic hyperparameter is an array of the optimizer, so `jax.vmap` maps over the optimizer as it
maps over the model. Members that share a value have no axis there. Afterwards the best member is
trained alone, with plain Python numbers. The script exits with status 1 if it differs.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import canonopt

STEPS = 100
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
DECAYS = [0.0, 1e-4, 1e-2, 1e-1]


def data():
    x = np.linspace(-2, 2, 128, dtype=np.float32).reshape(-1, 1)
    return jnp.asarray(x), jnp.asarray(np.sin(3 * x))


def build_model(seed):
    return eqx.nn.MLP(1, 1, width_size=32, depth=1, key=jax.random.key(seed))


def loss_fn(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def train(optim, model, x, y):
    """The loss of one member after all steps."""
    arrays, static = eqx.partition(model, eqx.is_inexact_array)

    def step(carry, _):
        arrays, opt_state = carry
        grads = jax.grad(lambda arrays: loss_fn(eqx.combine(arrays, static), x, y))(arrays)
        updates, opt_state = optim.update(grads, opt_state, arrays)
        return (canonopt.apply_updates(arrays, updates), opt_state), None

    (arrays, _), _ = jax.lax.scan(step, (arrays, optim.init(arrays)), length=STEPS)
    return loss_fn(eqx.combine(arrays, static), x, y)


@eqx.filter_jit
def train_ensemble(optims, models, x, y):
    # What has one value for all members, as `b1` here, has no axis. All members get the same data.
    axes = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, optims)
    return eqx.filter_vmap(train, in_axes=(axes, eqx.if_array(0), None, None))(optims, models, x, y)


def main():
    x, y = data()
    rates, decays = canonopt.dynamic(RATES), canonopt.dynamic(DECAYS)
    optims = canonopt.adamw(rates, b1=canonopt.dynamic(0.9), weight_decay=decays)
    models = eqx.filter_jit(eqx.filter_vmap(build_model))(jnp.arange(len(RATES)))
    with canonopt.compile_log() as log:
        losses = train_ensemble(optims, models, x, y)
        # Another ensemble is other numbers, and the same program.
        warmer = optims.replace(learning_rate=canonopt.dynamic([2 * rate for rate in RATES]))
        train_ensemble(warmer, models, x, y)
    counts = log["train_ensemble"]
    print(f"train_ensemble: {counts.traces} trace(s), {counts.compiles} compile(s)")
    for rate, decay, loss in zip(RATES, DECAYS, losses, strict=True):
        print(f"learning rate {rate:g}, weight decay {decay:g}: loss {loss:.4f}")

    best = int(jnp.argmin(losses))
    optim = canonopt.adamw(RATES[best], weight_decay=DECAYS[best])
    alone = eqx.filter_jit(lambda optim: train(optim, build_model(best), x, y))(optim)
    print(f"the best one, trained alone: loss {alone:.4f}")
    # XLA adds in another order for several members, and the differences grow with the steps.
    if not jnp.allclose(losses[best], alone, rtol=0.05):
        sys.exit("It differs from the member of the ensemble.")


if __name__ == "__main__":
    main()
