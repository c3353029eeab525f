"""What watching a step costs where nothing is traced: a cached call, watched against unwatched."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import canonopt

from .conftest import ratio, timed

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
