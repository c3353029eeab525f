"""What canonopt says of a recompile: every scenario, the nearest entry, and anything at all."""

import functools
import gc
import re
import weakref
from pathlib import Path

import attrs
import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings

import canonopt
from canonopt._explaining import _ORDER, explain
from canonopt._signatures import signature_of

from .scenarios import JITS, SCENARIOS, cells, named, ones, scaling

CELLS = [pytest.param(*cell, id=f"{cell[0].name}, {cell[1]}") for cell in cells()]


def run(scenario, jit, fixed=False):
    with canonopt.compile_log() as log:
        scenario.run(JITS[jit], fixed)
    return log["step"]


@pytest.mark.parametrize(("scenario", "jit"), CELLS)
def test_scenario(scenario, jit):
    found = run(scenario, jit)
    assert found.traces + found.compiles > 2  # two of each, or a compile without a trace
    changes = found.entries[-1].explanation.changes
    assert [(c.path, c.kind) for c in changes] == [(s.path, s.kind) for s in scenario.says]
    for change, says in zip(changes, scenario.says, strict=True):
        for text, words in (
            (change.before, says.before),
            (change.after, says.after),
            (change.fix, says.fix),
        ):
            assert re.search(words, text), (words, text)


@pytest.mark.parametrize(("scenario", "jit"), [c for c in CELLS if c.values[0].can_be_fixed])
def test_with_the_fix_there_is_one_trace_and_one_compile(scenario, jit):
    found = run(scenario, jit, fixed=True)
    assert (found.traces, found.compiles) == (1, 1)


def test_there_is_a_scenario_for_each_kind_of_change():
    assert {says.kind for scenario in SCENARIOS for says in scenario.says} == set(_ORDER)
    assert len(SCENARIOS) >= 30


def test_the_page_in_the_docs_has_every_scenario():
    page = Path(__file__).parents[1] / "docs" / "explanations.md"
    sections = [line[3:] for line in page.read_text("utf-8").splitlines() if line[:3] == "## "]
    assert sections == [f"{scenario.name.capitalize()}, {jit}" for scenario, jit in cells()]
    assert "| canonopt | 98 | 0 |" in page.read_text("utf-8")


# --- earlier entries --------------------------------------------------------------------------


def entries(*calls, **jitted):
    with canonopt.compile_log() as log:
        step = jax.jit(named(lambda x, y, mode: x), static_argnames="mode")
        for args in calls:
            step(*args)
    return log["step"].entries


def test_the_nearest_of_several_entries_is_named():
    found = entries(
        (ones(3), ones(3), "a"),
        (ones(4), ones(5), "b"),
        (ones(6, dtype=np.int32), ones(5), "c"),
        (ones(3), ones(3), "b"),
    )
    last = found[-1].explanation
    assert (last.nearest, last.distances) == (0, (1, 2, 3))
    assert [(c.path, c.before, c.after) for c in last.changes] == [("mode", "'a'", "'b'")]


def test_of_entries_as_near_the_latest_is_named():
    found = entries(*((ones(n), ones(1), "a") for n in (3, 4, 5)))
    assert found[-1].explanation.nearest == 1
    assert found[-1].why.startswith("x: shape: float32[4] -> float32[5]")


def test_of_entries_as_near_the_one_with_the_same_array_is_named():
    committed = jax.device_put(ones(4), jax.devices()[0])
    found = entries(*((x, ones(1), "a") for x in (ones(4), ones(4).astype(np.int8), committed)))
    assert found[-1].explanation.nearest == 0
    assert [change.kind for change in found[-1].explanation.changes] == ["commitment"]


def test_values_of_one_hash_are_told_apart():
    @attrs.frozen
    class Config:
        depth: int

    assert hash(Config(-1)) == hash(Config(-2))
    *_, last = entries(*((ones(1), ones(1), Config(n)) for n in (-1, -2)))
    (change,) = last.explanation.changes
    assert (change.path, change.kind) == ("mode", "static value")
    assert ("-1" in change.before, "-2" in change.after) == (True, True)


def test_many_changes_are_cut_short():
    step = jax.jit(named(lambda tree: 0))
    with canonopt.compile_log() as log:
        for n in (1, 2):
            step({f"leaf{i}": ones(n) for i in range(9)})
    assert len(log["step"].entries[-1].explanation.changes) == 9
    lines = log["step"].entries[-1].why.splitlines()
    assert lines[0] == "tree['leaf0']: shape: float32[1] -> float32[2]"
    assert lines[1] == "also tree['leaf1']: shape: float32[1] -> float32[2]"
    assert lines[3:] == [
        "and 6 more differences",
        "write: pad or drop what is left over, so that tree has one shape",
    ]


# --- calls that are the same ------------------------------------------------------------------


@pytest.mark.parametrize(
    "same",
    [
        (jnp.ones(3, jnp.float32), np.ones(3, np.float32)),  # neither is committed
        (np.float32(1), jnp.float32(1)),
        (jnp.arange(3), jnp.zeros(3, jnp.int32)),
        ((1, "a"), (1, "a")),
        (jnp.sin, jnp.sin),
    ],
)
def test_what_is_no_change(same):
    def step(x):
        return x

    before, after = (signature_of(step, (x,), {}, filtered=True) for x in same)
    assert explain(after, [before]).changes == ()
    assert str(explain(after, [before])).startswith("nothing that canonopt sees differs")


def test_tracers_are_not_told_apart_by_where_they_are():
    def step(x):
        return x

    seen = []
    jax.jit(lambda x: seen.append(signature_of(step, (x,), {})))(ones(3))
    committed = jax.device_put(jnp.asarray(ones(3)), jax.devices()[0])
    seen.append(signature_of(step, (committed,), {}))
    assert explain(seen[0], [seen[1]]).changes == ()
    assert explain(seen[1], [seen[0]]).changes == ()


def test_nothing_of_the_arguments_is_kept():
    class Model(eqx.Module):
        weight: jax.Array
        function: object

    model = Model(jnp.ones(3), lambda x: x)
    signature = signature_of(lambda model: model, (model,), {}, filtered=True)
    alive = [weakref.ref(model.weight), weakref.ref(model.function)]
    del model
    gc.collect()
    assert signature.records
    assert [reference() for reference in alive] == [None, None]


# --- anything at all ------------------------------------------------------------------------------


class Module(eqx.Module):
    value: object
    fixed: object = eqx.field(static=True)


class Hostile:
    """Neither compared, nor hashed, nor shown, nor asked for attributes without an error."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError


def endless():
    def function(x):
        return function(x)

    return function


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.builds(lambda n: np.ones(n), st.integers(0, 3)),
    st.builds(lambda n: jnp.full(n, 1.0), st.integers(0, 3)),
    st.sampled_from(
        [
            np.float32(1),
            np.array("text"),
            np.array([None]),
            jnp.bfloat16,
            np.dtype("int8"),
            jax.ShapeDtypeStruct((3,), jnp.float32),
            int,
            len,
            jnp.sin,
            jax.nn.relu,
            jax.jit(jnp.sin),
            jax.vmap(jnp.sin),
            eqx.filter_jit(jnp.sin),
            np.sin,
            "".join,
            endless(),
            Hostile,
            ...,
            {1, 2},
            frozenset({1}),
            object(),
            optax.adam(1e-3),
            canonopt.adam(1e-3),
            canonopt.adam(canonopt.dynamic(1e-3)),
            canonopt.linear_schedule(1.0, 0.0, 3),
        ]
    ),
    st.builds(lambda seed: jax.random.key(seed), st.integers(0, 3)),
    st.builds(Hostile),
    st.builds(scaling, st.floats()),
    st.builds(lambda c: lambda x, y=c: x, st.lists(st.integers(), max_size=2)),
)


def nested(trees):
    return st.one_of(
        st.lists(trees, max_size=3),
        st.tuples(trees, trees),
        st.dictionaries(st.sampled_from("abc"), trees, max_size=3),
        st.builds(Module, trees, LEAVES),
        st.builds(lambda t: functools.partial(scaling(1.0), t), trees),
        st.builds(lambda t: jax.tree_util.Partial(scaling(1.0), t), trees),
        st.builds(lambda t: scaling(t), trees),
    )


TREES = st.recursive(LEAVES, nested, max_leaves=6)


def step(first, *rest, **others):
    return first


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@settings(max_examples=150)
@given(TREES, TREES, st.booleans(), st.booleans(), st.booleans())
def test_explanations_never_raise(before, after, filtered, is_static, traced):
    kept = []

    def signature(tree):
        return signature_of(
            step,
            (tree, tree),
            {"keyword": tree},
            is_static=lambda name: is_static and name == "keyword",
            filtered=filtered,
        )

    def take(scale):
        arrays, rest = eqx.partition((before, after), eqx.is_inexact_array)
        kept.extend(map(signature, eqx.combine(jax.tree.map(lambda x: x * scale, arrays), rest)))

    if traced:
        jax.make_jaxpr(take)(1.0)
    else:
        kept.extend(map(signature, (before, after)))
    one, two = kept
    for explanation in (explain(two, [one]), explain(one, [two, two]), explain(one, [one])):
        assert str(explanation)
        assert all(change.fix and str(change) for change in explanation.changes)
    assert explain(one, [one]).changes == ()
    assert explain(one, []) is None
