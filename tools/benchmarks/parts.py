"""Measure building, dispatch, counting, importing and memory."""

import functools
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import canonopt

from .measuring import Part, Point, Sample, compare, points, timed

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Size:
    """The sizes of what is measured, and the number of repetitions."""

    lengths: tuple[int, ...] = (1, 2, 4, 8, 16)
    leaves: tuple[int, ...] = (10, 100, 1_000, 10_000)
    configurations: tuple[int, ...] = (1_000, 10_000, 50_000, 100_000)
    repeats: int = 4
    rounds: int = 6


QUICK = Size((1, 2), (10, 20), (100, 200), 1, 2)

# --- building -----------------------------------------------------------------------------------


def _add(lines: dict[str, list[Point]], found: dict[str, Point]) -> None:
    for name, point in found.items():
        lines.setdefault(name, []).append(point)


def building(size: Size) -> Part:
    text = """\
Seconds to build a chain of this many clips and one `adam`. "New" has a configuration at each call
that was not built before, "dynamic" the learning rate as `canonopt.dynamic`."""
    lines: dict[str, list[Point]] = {}
    for length in size.lengths:
        _add(lines, compare(length, _ways_to_build(length), 1, size.rounds * 2))
    return Part("Building an optimizer", text, "clips in the chain", "seconds", lines)


def _ways_to_build(length: int) -> dict[str, Callable[[], Sample]]:
    limits = [1.0 + i for i in range(length)]
    rates = itertools.count(1e-3, 1e-9)  # another rate for each build
    chain, clip, adam = map(functools.lru_cache, (optax.chain, optax.clip, optax.adam))

    def build(library: Any, rate: Any) -> Any:
        return library.chain(*map(library.clip, limits), library.adam(rate))

    def seen() -> Sample:
        keep = build(canonopt, 1e-3)  # keeps the spec alive, so that each build finds it
        sample = timed(lambda: build(canonopt, 1e-3))
        return lambda: sample() if keep else 0.0

    def dynamic() -> Sample:
        rate = canonopt.dynamic(1e-3)
        return timed(lambda: build(canonopt, rate))

    return {
        "Optax": lambda: timed(lambda: build(optax, 1e-3)),
        "lru_cache on Optax": lambda: timed(lambda: chain(*map(clip, limits), adam(1e-3))),
        "canonopt, seen": seen,
        "canonopt, new": lambda: timed(lambda: build(canonopt, next(rates))),
        "canonopt, dynamic": dynamic,
    }


# --- dispatch -----------------------------------------------------------------------------------


class _Block(eqx.Module):
    """Four arrays, a function and a static field, and another block inside."""

    arrays: tuple[jax.Array, ...]
    inner: "_Block | None"
    activation: Any = jax.nn.relu
    size: int = eqx.field(static=True, default=4)


def _deep(leaves: int) -> Any:
    """Return blocks that are nested four deep, as layers are."""

    def block(levels: int) -> _Block | None:
        if not levels:
            return None
        return _Block(tuple(jnp.ones(2) for _ in range(4)), block(levels - 1))

    return tuple(block(min(4, max(1, leaves // 4))) for _ in range(max(1, leaves // 16)))


def _flat(leaves: int) -> Any:
    return {f"{i}": jnp.ones(2) for i in range(leaves)}


def _plus_one(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf + 1 if eqx.is_array(leaf) else leaf, tree)


def _fed_back(step: Callable[[Any], Any], state: Any) -> Sample:
    """Return a `Sample` of a loop in which each call gets the result of the last one."""

    def call() -> None:
        nonlocal state
        state = step(state)

    call(), call()
    return timed(call, 0.05)


def _by_hand(state: Any) -> Sample:
    """Return a `Sample` of `jax.jit` on the flat list of the arrays: the computation alone."""
    arrays = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    return _fed_back(jax.jit(lambda arrays: [array + 1 for array in arrays]), arrays)


def _dispatch(make: Callable[[int], Any], title: str, text: str, size: Size) -> Part:
    lines: dict[str, list[Point]] = {}
    for leaves in size.leaves:
        state = make(leaves)
        repeats = size.repeats if leaves < 10_000 else 1
        _add(lines, compare(leaves, _ways_to_call(state), repeats, size.rounds))
    return Part(title, text, "leaves", "seconds", lines)


def _ways_to_call(state: Any) -> dict[str, Callable[[], Sample]]:
    jits = {
        "equinox.filter_jit": eqx.filter_jit,
        "canonopt.filter_jit": canonopt.filter_jit,
        "jax.jit": jax.jit,
        "canonopt.jit": canonopt.jit,
    }
    if not isinstance(state, dict):  # a module holds a function, which `jax.jit` refuses
        jits = {name: jit for name, jit in jits.items() if "filter" in name}

    def fed_back(jit: Any) -> Callable[[], Sample]:
        return lambda: _fed_back(jit(_new_plus_one()), state)

    return {
        "jax.jit on a flat list": lambda: _by_hand(state),
        **{name: fed_back(jit) for name, jit in jits.items()},
    }


def _new_plus_one() -> Callable[[Any], Any]:
    return lambda tree: _plus_one(tree)


def dispatch_flat(size: Size) -> Part:
    text = """\
A call that adds one to each leaf of a dict, in a loop that feeds outputs back. All run the same
program, so what differs is the way into it and out of it."""
    return _dispatch(_flat, "A call, with a dict of arrays", text, size)


def dispatch_deep(size: Size) -> Part:
    text = """\
The same with Equinox modules: blocks four deep, of four arrays, a function and a static
field each."""
    return _dispatch(_deep, "A call, with nested modules", text, size)


# --- counting -----------------------------------------------------------------------------------


def counting(size: Size) -> Part:
    text = """\
A cached call of a jitted function that is watched. canonopt counts compiles without
a trace too."""
    lines: dict[str, list[Point]] = {}
    for leaves in size.leaves[:-1]:
        _add(lines, compare(leaves, _ways_to_count(_flat(leaves)), size.repeats, size.rounds))
    return Part("A cached call that is counted", text, "leaves", "seconds", lines)


def _ways_to_count(state: Any) -> dict[str, Callable[[], Sample]]:
    def calling(counted: Callable[[Any], Any]) -> Sample:
        step = jax.jit(counted)
        return timed(lambda: step(state), 0.05)

    def logged() -> Sample:
        sample = calling(_new_plus_one())

        def inside() -> float:
            with canonopt.compile_log():
                return sample()

        return inside

    def counted_by_chex() -> Sample:
        chex.clear_trace_counter()  # chex knows a function by its source location
        return calling(chex.assert_max_traces(_new_plus_one(), n=1))

    return {
        "not counted": lambda: calling(_new_plus_one()),
        "chex.assert_max_traces": counted_by_chex,
        "equinox.debug.assert_max_traces": lambda: calling(
            eqx.debug.assert_max_traces(_new_plus_one(), max_traces=1)
        ),
        "canonopt.assert_max_traces": lambda: calling(
            canonopt.assert_max_traces(_new_plus_one(), max_traces=1)
        ),
        "canonopt.compile_log": logged,
    }


# --- processes ----------------------------------------------------------------------------------

_IMPORT = """
import time
start = time.process_time()
{code}
print(time.process_time() - start)
"""
_IMPORTS = {
    "optax, one optimizer built": "import optax; optax.adam(1e-3)",
    "canonopt, one optimizer built": "import canonopt; canonopt.adam(1e-3)",
}


def importing(size: Size) -> Part:
    text = """\
Seconds of the processor to import."""
    values: dict[str, list[float]] = {name: [] for name in _IMPORTS}
    names = [*_IMPORTS]
    for turn in range(size.rounds + 1):
        for name in names if turn % 2 else names[::-1]:
            seconds = float(_python(_IMPORT.format(code=_IMPORTS[name])))
            if turn:  # the first one may write bytecode
                values[name].append(seconds)
    lines = {name: [point] for name, point in points(1, values).items()}
    return Part("Importing", text, "", "seconds", lines)


_MEMORY = """
import functools, gc, jax, optax, canonopt
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
adam = {adam}
adam(1e-3)
before, rate = resident(), 1e-3
for count in {counts}:
    for _ in range(count):
        rate *= 1.0000001
        adam(rate)
    print(resident() - before)
"""
_ADAMS = {
    "Optax": "optax.adam",
    "lru_cache on Optax": "functools.lru_cache(maxsize=None)(optax.adam)",
    "canonopt": "canonopt.adam",
}


def memory(size: Size) -> Part:
    text = """\
How many bytes a process grows by while it builds this many optimizers, each of another learning
rate, and drops them."""
    more = [b - a for a, b in zip((0, *size.configurations), size.configurations, strict=False)]
    lines = {}
    for name, adam in _ADAMS.items():
        runs = [
            [*map(float, _python(_MEMORY.format(adam=adam, counts=more)).split())]
            for _ in range(min(3, size.rounds))
        ]
        lines[name] = [
            Point(x, statistics.median(grown), min(grown), max(grown), 1.0)
            for x, *grown in zip(size.configurations, *runs, strict=True)
        ]
    return Part("Memory of dropped optimizers", text, "configurations", "bytes", lines)


def _python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


PARTS = (
    building,
    dispatch_flat,
    dispatch_deep,
    counting,
    importing,
    memory,
)
