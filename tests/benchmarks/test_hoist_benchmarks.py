"""What hoisting callables costs: each time a ratio, measured in the same run."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import canonopt

from ..support.timing import ratio, timed


def closure(a=2.0, b="text", c=(1, 2)):
    return lambda x: (a * x, b, c)[0]


def test_hoisting_a_seen_closure(benchmark, report):
    kept = canonopt.hoist(closure())
    x = jnp.ones(2)
    benchmark(lambda: canonopt.hoist(closure()))
    hoist = timed(lambda: canonopt.hoist(closure()), 1_000)
    convert = timed(lambda: eqx.filter_closure_convert(closure(), x), 5)
    measured = ratio(hoist, convert, rounds=11)
    report.ratios("hoisting a seen closure, against equinox's conversion", [measured], limit=0.5)
    assert canonopt.hoist(closure()) is kept


def test_hoisting_beside_a_bare_lookup(benchmark, report):
    """Which is no alternative: it merges what differs, and has to be asked for the arguments."""
    kept = canonopt.hoist(closure())
    cached = functools.lru_cache(closure)
    benchmark(lambda: cached(2.0, "text", (1, 2)))
    hoist = timed(lambda: canonopt.hoist(closure()), 1_000)
    lookup = timed(lambda: cached(2.0, "text", (1, 2)), 10_000)
    middle, ours, theirs = ratio(hoist, lookup, rounds=11)
    note = f"{ours * 1e6:.2f} us against {theirs * 1e9:.0f} ns"
    report.figure("hoisting a seen closure, against lru_cache", f"{middle:.1f}", note=note)
    assert canonopt.hoist(closure()) is kept


def layers(leaves):
    """Perceptrons of six arrays and an activation each, with another function in every one."""
    first = eqx.nn.MLP(2, 2, 2, 2, activation=jax.nn.relu, key=jax.random.key(0))
    return [
        eqx.tree_at(lambda mlp: mlp.activation, first, closure(float(i)))
        for i in range(leaves // 7)
    ]


def arrays(leaves):
    return {str(i): jnp.ones(2) for i in range(leaves)}


@pytest.mark.parametrize("leaves", [100, 1_000, 10_000])
@pytest.mark.parametrize("build", [arrays, layers])
def test_canonicalizing(build, leaves, benchmark, report):
    model = build(leaves)
    canonical = canonopt.canonicalize(model)
    benchmark.pedantic(lambda: canonopt.canonicalize(model), rounds=3)
    number = max(1, 10_000 // leaves)
    ours = timed(lambda: canonopt.canonicalize(model), number)
    again = timed(lambda: canonopt.canonicalize(canonical), number)
    theirs = timed(lambda: jax.tree.map(lambda x: x, model), number)
    what = f"canonicalizing {leaves} leaves, {build.__name__}"
    report.ratios(what, [ratio(ours, theirs, rounds=11)], limit=5.0)
    report.ratios(f"{what}, again", [ratio(again, theirs, rounds=11)], limit=5.0)


def test_canonicalizing_grows_linearly(benchmark, report):
    small, large = layers(100), layers(10_000)
    benchmark.pedantic(lambda: canonopt.canonicalize(small), rounds=3)
    per_leaf_small = timed(lambda: canonopt.canonicalize(small), 20)
    per_leaf_large = timed(lambda: canonopt.canonicalize(large), 1)
    measured = ratio(lambda: per_leaf_large() / 10_000, lambda: per_leaf_small() / 100, rounds=7)
    report.ratios("canonicalizing, a leaf of 10,000 against one of 100", [measured], limit=1.5)
