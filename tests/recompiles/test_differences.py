"""The explanation of a recompile: every scenario, the nearest entry, and anything at all."""

import functools
import re
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
from canonopt._recompiles.differences import KINDS as _ORDER
from canonopt._recompiles.records import call_of
from canonopt._recompiles.rules import explain

from ..support.callables import captured
from ..support.counting import calls_of
from ..support.generated import rows
from ..support.scenarios import JITS, SCENARIOS, cells, named, ones, scaling
from ..support.values import Module

CELLS = [pytest.param(*cell, id=f"{cell[0].name}, {cell[1]}") for cell in cells()]


def run(scenario, jit, **options):
    with canonopt.compile_log() as log:
        scenario.run(JITS[jit], **options)
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
            (f"{change.fix} {change.hint}", says.advice),
        ):
            assert re.search(words, text), (words, text)


@pytest.mark.parametrize(("scenario", "jit"), [c for c in CELLS if c.values[0].can_be_fixed])
def test_with_the_fix_there_is_one_trace_and_one_compile(scenario, jit):
    found = run(scenario, jit, fixed=True)
    assert (found.traces, found.compiles) == (1, 1)


def test_there_is_a_scenario_for_each_kind_of_change():
    found = {says.kind for scenario in SCENARIOS for says in scenario.says}
    assert found == {*_ORDER} - {"cleared"}


def test_the_page_in_the_docs_has_every_scenario():
    page = Path(__file__).parents[2] / "docs" / "explanations.md"
    lines = page.read_text("utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if "jit | <details>" in line]
    assert [row[:2] for row in rows] == [
        [f"| {scenario.name.capitalize()}", jit] for scenario, jit in cells()
    ]
    assert {len(row) for row in rows} == {6}
    assert f"| canonopt | {len(rows)} | 0 |" in page.read_text("utf-8")


# --- earlier entries --------------------------------------------------------------------------


def last_change(*calls):
    """Return what is said of the last of these calls, whose last argument is static."""
    with canonopt.compile_log() as log:
        step = jax.jit(named(lambda x, y, mode: x), static_argnames="mode")
        for args in calls:
            step(*args)
    (change,) = log["step"].entries[-1].explanation.changes
    return change


# Calls, and what the last one is compared with.
NEAREST = rows(r"""
# fewest differences
(ones(3), ones(3), "a"), (ones(4), ones(5), "b"), (ones(6, dtype=np.int32), ones(5), "c"), \
    (ones(3), ones(3), "b") | mode: static value: 'a' -> 'b'
# most similar array
*((x, ones(1), "a") for x in (ones(4), ones(4).astype(np.int8), \
    jax.device_put(ones(4), jax.devices()[0]))) | x: commitment: not committed -> committed
# not a number, and not None
*((x, ones(1), "a") for x in (1.0, ones(3), ones(4))) | x: shape: float32[3] -> float32[4]
*((x, ones(1), "a") for x in (None, ones(3), ones(4))) | x: shape: float32[3] -> float32[4]
# no choice of the user's
*((x, ones(1), m) for x, m in ((jnp.full(3, 1.0), 1), (ones(3), 2), (ones(3), 1))) | \
    x: weak type: float32[3], weak -> float32[3]
""")


@pytest.mark.parametrize(("calls", "says"), NEAREST)
def test_a_call_is_compared_with_the_nearest_earlier_one(calls, says):
    assert str(last_change(*eval(f"[{calls}]"))) == says


def renamed(prefix, count):
    leaf = np.zeros(1, np.float32)
    tree = {f"{prefix}{i}": {"w": leaf, "b": leaf} for i in range(count)}
    return call_of(lambda tree: 0, (tree,), {})


def test_many_differences_cost_as_many_steps_as_there_are_and_are_found_once():
    one, few, many = (
        len(calls_of(functools.partial(explain, renamed("new", n), [renamed("old", n)] * times)))
        for n, times in ((100, 1), (100, 10), (1000, 1))
    )
    assert many < 12 * one and few < 2 * one
    assert len(explain(renamed("new", 400), [renamed("old", 400)] * 10).changes) == 800


# --- what differs in what is static ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("a" * 200, "a" * 199 + "b", "aaa'", "aab'"),
        (tuple(range(99)), tuple(range(100)), "31, 99 in all)", "31, 100 in all)"),
        (tuple(range(99)), (*range(98), 0), "item 98 98", "item 98 0"),
        ((1, 2), (1, 3), "(1, 2)", "(1, 3)"),
        ("a" * 20_000, "a" * 19_999 + "b", "aaa...", "not equal to the earlier one"),
        (float("nan"), float("nan"), "nan", "another value, not equal to the earlier one"),
    ],
)
def test_the_part_that_differs_is_shown(old, new, before, after):
    change = last_change((1.0, 1.0, old), (1.0, 1.0, new))
    assert (before in change.before, after in change.after) == (True, True), change
    assert "equal only to itself" not in str(change)
    assert change.hint.startswith("give mode one value: it is part of the program. ")


def defined_again():
    @attrs.frozen
    class Config:
        depth: int

    return Config


@pytest.mark.parametrize(
    "make",
    [
        lambda: defined_again()(1),
        lambda: captured(captured(defined_again()(1))),
        lambda: (defined_again()(1), 2),
        defined_again,
    ],
    ids=["instance", "captured", "item", "class"],
)
def test_a_class_that_was_defined_again_is_named(make):
    change = last_change((1.0, 1.0, make()), (1.0, 1.0, make()))
    assert re.search("Config was defined again|another class .* defined again", change.after)
    assert "Config once" in change.hint or "keep one" in change.hint


# --- calls that are the same ------------------------------------------------------------------


@pytest.mark.parametrize(
    "same",
    [
        (jnp.ones(3, jnp.float32), np.ones(3, np.float32)),  # neither is committed
        (np.float32(1), jnp.float32(1)),
        (np.ones(3), jnp.ones(3, jnp.float32)),
        (np.float64(1), jnp.float32(1)),
        (jnp.arange(3), jnp.zeros(3, jnp.int32)),
        ((1, "a"), (1, "a")),
        (jnp.sin, jnp.sin),
    ],
)
def test_calls_with_one_cache_entry_have_no_changes(same):
    def step(x):
        return x

    before, after = (call_of(step, (x,), {}, filtered=True) for x in same)
    told = explain(after, [before])
    assert told.changes == () and len(told.lines()) == 3
    assert told.note.startswith("canonopt sees no difference from an earlier call\n")
    assert "the axis names of a jax.vmap" in told.note


# --- anything at all ------------------------------------------------------------------------------


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
            *(np.float32(1), np.array("text"), np.array([None]), np.dtype("int8"), jnp.bfloat16),
            *(jax.ShapeDtypeStruct((3,), jnp.float32), int, len, jnp.sin, jax.nn.relu, np.sin),
            *(jax.jit(jnp.sin), jax.vmap(jnp.sin), eqx.filter_jit(jnp.sin), "".join, endless()),
            *(Hostile, ..., {1, 2}, frozenset({1}), object(), optax.adam(1e-3)),
            *(canonopt.adam(1e-3), canonopt.adam(canonopt.dynamic(1e-3))),
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
        return call_of(
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
        assert all((change.fix or change.hint) and str(change) for change in explanation.changes)
    assert explain(one, [one]).changes == ()


def test_what_was_made_again_around_an_assertion_is_named():
    inner = canonopt.assert_max_traces(lambda x: x * 2)
    with pytest.raises(canonopt.errors.ExcessError) as caught:
        for _ in range(2):
            jax.jit(lambda x: inner(x))(ones(3))
    assert "the jitted\n  function around it was made again" in str(caught.value)


# --- Flax nnx -------------------------------------------------------------------------------------


@pytest.mark.parametrize("jit", ["nnx.jit", "jax.jit"])
def test_modules_of_nnx_are_named_as_the_user_names_them(jit):
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, size, dtype, scale, optim):
            self.layers = nnx.List([nnx.Linear(2, 3, rngs=nnx.Rngs(0), param_dtype=dtype)])
            self.config = scale
            self.optim = optim
            self.bias = nnx.Param(jnp.ones(size))

    step = {"nnx.jit": nnx.jit, "jax.jit": jax.jit}[jit](named(lambda model: 0))
    with canonopt.compile_log() as log:
        step(Model(3, jnp.float32, 1, optax.sgd(0.1)))
        step(Model(4, jnp.bfloat16, 2, optax.sgd(0.1)))
    changes = log["step"].entries[-1].explanation.changes
    paths = {change.path for change in changes}
    expected = {"model.optim", "model.config", "model.layers[0].param_dtype", "model.bias"}
    expected |= {"model.layers[0].kernel", "model.layers[0].bias"}
    assert {path.removesuffix(".value") for path in paths} == expected
    text = str(log["step"].entries[-1].explanation)
    assert "_graphdef" not in text and "_pytree__" not in text
    assert all(change.fix == "" for change in changes)
