"""Reads a value when its step is traced, and changes it between two trials."""

import types

import jax

runtime = types.SimpleNamespace(lam_bc=1.0, trial=0)


def loss(x):
    return runtime.lam_bc * x


@jax.jit
def train_step(x):
    return x - 0.1 * loss(x)


x = 3.0
for runtime.lam_bc in (1.0, 5.0):
    runtime.trial += 1
    for _ in range(20):
        x = train_step(x)
print(float(x).hex())
