"""What watching costs: a cached call, a trace of library functions, and a miss in a log."""

import contextlib
import itertools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import canonopt

from ..support.timing import ratio, timed
from .conftest import SERVES, serving

LEAVES, CALLS = 500, 40


def body(params):
    return [p + 1 for p in params]


def above(jit):
    return canonopt.assert_max_traces(jit(body))


def below(jit):
    return jit(canonopt.assert_max_traces(body))


def compiles(jit):
    return canonopt.assert_max_compiles(jit(body))


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit], ids=["jit", "filter_jit"])
@pytest.mark.parametrize("watch", [above, below, compiles, None])
def test_a_cached_call(watch, jit, benchmark, report):
    params = [jnp.full(8, i, jnp.float32) for i in range(LEAVES)]
    plain = jit(body)
    watched = jit(body) if watch is None else watch(jit)
    block = canonopt.compile_log if watch is None else contextlib.nullcontext

    def call(function):
        return lambda: jax.block_until_ready(function(params))

    call(plain)(), call(watched)()
    ours, theirs = timed(call(watched), CALLS), timed(call(plain), CALLS)

    def inside():
        with block():
            return ours()

    benchmark(call(watched))
    names = {above: "assert_max_traces above", below: "assert_max_traces below"}
    names |= {compiles: "assert_max_compiles", None: "inside of compile_log"}
    what = f"a cached call of {LEAVES} leaves, {jit.__name__}, {names[watch]}"
    measured = [ratio(inside, theirs, rounds=41) for _ in range(3)]
    report.ratios(what, measured, limit=1.02)


# --- where something is traced --------------------------------------------------------------------


def wheres(x):
    for _ in range(1000):
        x = jnp.where(x > 0, x, x)
    return x


def trace():
    jax.jit(lambda x: wheres(x)).trace(jax.ShapeDtypeStruct((3,), jnp.float32))


def test_a_trace_of_1000_library_functions(benchmark, report):
    trace()
    theirs = timed(trace, 1)

    def ours():
        with canonopt.compile_log():
            return theirs()

    benchmark(trace)
    measured = [ratio(ours, theirs, rounds=11) for _ in range(3)]
    report.ratios("a trace of 1,000 jnp.where, inside of compile_log", measured, limit=1.15)


TRACES = """
import time, jax, jax.numpy as jnp, canonopt

def wheres(x):
    for _ in range(1000):
        x = jnp.where(x > 0, x, x)
    return x

def trace():
    start = time.perf_counter()
    jax.jit(lambda x: wheres(x)).trace(jax.ShapeDtypeStruct((3,), jnp.float32))
    return time.perf_counter() - start

def watch():
    canonopt.assert_max_traces(jax.jit(lambda x: x))(1.0)
    with canonopt.compile_log():
        return trace()

trace()
"""


def test_a_trace_where_nobody_watches_any_more(benchmark, report):
    """Two processes in turn: one that never watched, and one with a log and a limit before."""

    def measure():
        command = [sys.executable, "-c", TRACES + SERVES]
        with serving(command) as after, serving(command) as never:
            after.ask("watch"), never.ask("trace")
            return ratio(lambda: after.ask("trace"), lambda: never.ask("trace"), rounds=21)

    benchmark.pedantic(lambda: None)
    measured = [measure() for _ in range(5)]
    report.ratios("a trace of 1,000 jnp.where, after a log and a limit", measured, limit=1.05)


def test_a_miss_of_1000_leaves_in_a_log(benchmark, report):
    """The 60th miss costs what the second costs, since nothing is compared yet."""
    step = jax.jit(lambda tree, i: i, static_argnums=1)
    tree = [jnp.ones(1) for _ in range(1000)]
    numbers = itertools.count()

    def miss():
        step.eval_shape(tree, next(numbers))

    def after(misses):
        def sample():
            with canonopt.compile_log():
                for _ in range(misses):
                    miss()
                return timed(miss, 1)()

        return sample

    benchmark(miss)
    measured = [ratio(after(60), after(1), rounds=7)]
    report.ratios("the 60th miss of 1,000 leaves in a log, against the second", measured, 1.3)
    _, ours, theirs = ratio(after(1), timed(miss, 1), rounds=41)
    report.figure("what a log adds to a miss of 1,000 leaves", f"{(ours - theirs) * 1e3:.1f} ms")
