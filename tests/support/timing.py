"""Measure ratios of times, and build training loops for models with any number of leaves."""

import gc
import statistics
import timeit
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

# A sample is a function that measures something once and returns seconds.
Sample = Callable[[], float]


def timed(function: Callable[[], object], number: int, collects: bool = False) -> Sample:
    """Return a `Sample`: the mean time of `number` calls, with garbage collection if `collects`."""
    timer = timeit.Timer(function, gc.enable if collects else "pass")
    return lambda: timer.timeit(number) / number


def ratio(ours: Sample, theirs: Sample, rounds: int) -> tuple[float, float, float]:
    """Return the median ratio of neighbouring samples, and the median seconds of both.

    Samples alternate, so that neighbours meet the same load. On a shared machine, the
    minimum of all samples depends on which of the two functions happened to meet less load. Each
    goes first in every other round: otherwise the first of two equal steps is slower by 1 %.
    """
    samples = ([], [])
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            samples[which].append((ours, theirs)[which]())
    ratios = [our / their for our, their in zip(*samples, strict=True)]
    return statistics.median(ratios), *map(statistics.median, samples)


# --- loops ---------------------------------------------------------------------------------------


class Deep(eqx.Module):
    """A chain of modules, each with four arrays, a static field and a function."""

    arrays: tuple[jax.Array, ...]
    inner: "Deep | None"
    activation: object = jax.nn.relu
    size: int = eqx.field(static=True, default=4)


def deep(leaves):
    module = None
    for _ in range(max(1, leaves // 4)):
        module = Deep(tuple(jnp.ones(4) for _ in range(4)), module)
    return module


def flat_dict(leaves):
    return {f"{i}": jnp.ones(4) for i in range(leaves)}


def plus_one(tree, **_):
    return jax.tree.map(lambda leaf: leaf + 1 if eqx.is_array(leaf) else leaf, tree)


def loop(step, state):
    """Return a function that runs one step, on the state that the previous step returned."""

    def call():
        nonlocal state
        state = step(*state)

    call()  # compiles
    call()
    return call


def flat_step(step, state):
    """Return a loop of `step` through `jax.jit`, with the arrays of the state as flat arguments."""
    arrays, static = eqx.partition(state, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def call(*leaves):
        state = step(*eqx.combine(jax.tree.unflatten(structure, leaves), static))
        return jax.tree.leaves(eqx.filter(state, eqx.is_array))

    return loop(call, leaves)
