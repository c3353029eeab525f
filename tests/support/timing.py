"""How a ratio of times is measured, and loops over models of any number of leaves."""

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
    """Samples of the mean time of `number` calls, with the garbage collector if `collects`."""
    timer = timeit.Timer(function, gc.enable if collects else "pass")
    return lambda: timer.timeit(number) / number


def interleaved(ours: Sample, theirs: Sample, rounds: int) -> tuple[list[float], list[float]]:
    """Samples of both, in turn, so that whatever else the machine does falls on both.

    Each goes first in every other round: of two equal steps the first is otherwise slower by 1 %.
    """
    measured = ([], [])
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            measured[which].append((ours, theirs)[which]())
    return measured


def ratio(ours: Sample, theirs: Sample, rounds: int) -> tuple[float, float, float]:
    """The median ratio of neighbouring samples, and the median seconds of both.

    Neighbours see the same machine. On one that is shared, the minimum of all samples depends on
    which of the two had the luckier moment.
    """
    samples = interleaved(ours, theirs, rounds)
    ratios = [our / their for our, their in zip(*samples, strict=True)]
    return statistics.median(ratios), *map(statistics.median, samples)


def seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value * 1e6:.2f} us"


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


def plus_one(tree):
    return jax.tree.map(lambda leaf: leaf + 1 if eqx.is_array(leaf) else leaf, tree)


def loop(step, state):
    """A step of a training loop: each feeds what it returns to the next."""

    def call():
        nonlocal state
        state = step(*state)

    call()  # compiles
    call()
    return call


def flat_step(step, state):
    """`step` through `jax.jit`, on the list of its arrays."""
    arrays, static = eqx.partition(state, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def call(*leaves):
        state = step(*eqx.combine(jax.tree.unflatten(structure, leaves), static))
        return jax.tree.leaves(eqx.filter(state, eqx.is_array))

    return loop(call, leaves)
