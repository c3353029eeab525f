"""Imports Equinox after the first compile, which with some versions of JAX retraces the step."""

import sys

import jax
import numpy as np

traces = []


@jax.jit
def step(x):
    traces.append(1)
    return 2 * x


for _ in range(2):
    step(np.ones(3, np.float32))
print(sorted({"equinox", "optax", "jax.extend"} & {*sys.modules}))
import equinox  # noqa: E402, F401

for _ in range(2):
    step(np.ones(3, np.float32))
print("traces", len(traces))
