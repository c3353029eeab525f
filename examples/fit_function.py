"""A `fit` that makes its step inside, called for each fold of a cross-validation.

    pip install canonopt
    python fit_function.py

Most training code looks like this: the loss and the step are functions inside of `fit`, and read
the data of the fold. `jax.jit` compiles them again in each call, whatever the optimizer is.
`canonopt.jit` runs one program for all of them: the data are its arguments, and the numbers are the
same. The script exits with status 1 if they are not.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import canonopt

FOLDS, STEPS = 5, 200


def folds():
    """Noisy samples of a sine, cut into training and held-out points, five times."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (200, 1)).astype(np.float32)
    y = np.sin(x) + rng.normal(0, 0.1, x.shape).astype(np.float32)
    for held_out in np.split(rng.permutation(len(x)), FOLDS):
        rest = np.setdiff1d(np.arange(len(x)), held_out)
        yield jax.device_put(((x[rest], y[rest]), (x[held_out], y[held_out])))


def initial_params(seed):
    normal = np.random.default_rng(seed).standard_normal
    params = {"up": normal((1, 64)), "bias": np.zeros(64), "down": normal((64, 1)) / 8}
    return {name: jnp.asarray(leaf, jnp.float32) for name, leaf in params.items()}


def predict(params, x):
    return jnp.tanh(x @ params["up"] + params["bias"]) @ params["down"]


@jax.jit
def error(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


def fit(jit, train, held_out, seed):
    x, y = train
    optim = canonopt.adam(1e-2)

    def loss_fn(params):
        return error(params, x, y)

    @jit
    def step(params, opt_state):
        grads = jax.grad(loss_fn)(params)
        updates, opt_state = optim.update(grads, opt_state, params)
        return canonopt.apply_updates(params, updates), opt_state

    params = initial_params(seed)
    opt_state = optim.init(params)
    for _ in range(STEPS):
        params, opt_state = step(params, opt_state)
    return float(error(params, *held_out))


def cross_validate(name, jit):
    start = time.perf_counter()
    with canonopt.compile_log() as log:
        errors = [fit(jit, *fold, seed) for seed, fold in enumerate(folds())]
    seconds = time.perf_counter() - start
    counts = f"{log['step'].traces} trace(s), {log['step'].compiles} compile(s)"
    print(f"{name}: {counts}, {seconds:.1f} s, held-out error {np.mean(errors):.4f}")
    return errors


def main():
    # What JAX compiles once in a process, whatever the jit of the step is.
    fit(lambda step: lambda *state: state, *next(folds()), seed=0)
    ours = cross_validate("canonopt.jit", canonopt.jit)
    theirs = cross_validate("jax.jit", jax.jit)
    if not np.allclose(ours, theirs, rtol=1e-3):
        sys.exit(f"The errors differ: {ours} and {theirs}")


if __name__ == "__main__":
    main()
