"""Which values are the same: exactly those with equal keys."""

import collections
import dataclasses
from typing import Any, NamedTuple

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import example, given

import canonopt
from canonopt._identity import HoldsArray, read
from canonopt._spec.spec import copied

from ..support.values import LOOKALIKES, Module, Node, Pair, same


class Other(NamedTuple):
    first: object
    second: object


KEPT = []  # or an id in a key could be that of another value later


def key(value, captured=False):
    reading = read((value,)) if captured else read((), (value,))
    KEPT.append((value, reading))
    return reading.key


numbers = st.floats() | st.integers() | st.floats(width=32).map(np.float32)
scalars = st.sampled_from(LOOKALIKES) | numbers | st.text(max_size=2)
# Equinox warns of arrays, and so of NumPy's scalars, in a static field.
static = scalars.filter(lambda value: not isinstance(value, np.generic))
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
        | st.tuples(inner, inner).map(lambda pair: Other(*pair))
        | st.tuples(inner, static).map(lambda pair: Module(*pair))
        | st.dictionaries(st.text(max_size=1), inner, max_size=3)
        | st.dictionaries(st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values, values)
@example(0.0, -0.0)
@example((1, [2.0]), (1.0, [2]))
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@example(Pair(1, 2), Other(1, 2))
@example(Pair(1, 2), (1, 2))
def test_keys_are_equal_exactly_where_values_are_the_same(a, b):
    assert (key(a) == key(b)) == same(a, b)


@given(values)
def test_a_copy_has_the_key_of_the_original(value):
    assert key(copied({"": value})[""]) == key(value)


def test_the_type_of_a_container_counts_and_what_it_was_made_with():
    assert key(collections.OrderedDict(a=1)) != key({"a": 1})
    assert key(collections.defaultdict(int, a=1)) != key(collections.defaultdict(float, a=1))
    assert key(collections.deque([1], 2)) != key(collections.deque([1], 3))


def test_the_order_in_which_a_set_iterates_counts():
    one, other = {1, 9, 17}, {17, 9, 1}
    assert (key(one) == key(other)) == (list(one) == list(other))
    crowded, spread = set(range(100)), {8, 0}
    crowded -= set(range(1, 8)) | set(range(9, 100))
    assert crowded == spread
    assert (key(crowded) == key(spread)) == (list(crowded) == list(spread))
    assert key({1}) != key({1.0}) != key({True})
    assert key({1}) != key(frozenset({1}))


def test_subclasses_and_attributes_on_a_tuple_count_by_identity():
    class Point(tuple):
        _fields = ("x",)

    def noted(note):
        transform = optax.GradientTransformationExtraArgs(*optax.identity())
        transform.note = note
        return transform

    one = Point((1,))
    assert key(one) == key(one) != key(Point((1,)))
    assert key(noted("a")) != key(noted("b"))
    assert key(optax.identity()) == key(optax.identity())


def test_dtypes_are_one_parameter_whatever_the_spelling():
    specs = [
        canonopt.adam(1e-3, mu_dtype=dtype)
        for dtype in ("bfloat16", jnp.bfloat16, np.dtype("bfloat16"), ml_dtypes.bfloat16)
    ]
    assert all(spec is specs[0] for spec in specs)
    assert specs[0] is not canonopt.adam(1e-3, mu_dtype="float16")
    # In other parameters a string is only a string, here a name in the optimizer state.
    assert canonopt.named_chain(("float32", canonopt.clip(1.0))) is not canonopt.named_chain(
        ("float64", canonopt.clip(1.0))
    )


def test_a_list_in_a_module_counts_by_identity_in_a_static_field():
    # A list in a static field can be changed by the code that made it.
    items = [1]
    assert key(Module(True, items)) == key(Module(True, items)) != key(Module(True, [1]))
    assert key(Module([1], 1)) == key(Module([1], 1))
    one, other = Module(True, [1]), Module(True, [1])
    assert key(one, True) != key(other, True)
    assert key(jax.tree.structure(one), True) != key(jax.tree.structure(other), True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FrozenNode:
    child: Any
    static: Any = dataclasses.field(metadata={"static": True})


def test_registered_pytrees_count_by_type_structure_and_leaves_if_they_cannot_change():
    assert key(FrozenNode(1, "a")) == key(FrozenNode(1, "a"))
    assert key(FrozenNode(1, "a")) != key(FrozenNode(1.0, "a"))
    assert key(FrozenNode(1, 0.0)) != key(FrozenNode(1, -0.0))
    assert key(FrozenNode(1, "a")) != key((1, "a"))
    node = Node(1, "a")
    assert key(node) == key(node) != key(Node(1, "a"))
    for kind in (Node, FrozenNode):
        with pytest.raises(HoldsArray):
            key(kind(jnp.ones(2), "a"))


def test_a_key_of_many_words_is_too_large():
    shared = tuple((i, float(i)) for i in range(1000))
    for count, is_small in ((10, True), (600, False)):
        value = tuple((shared[i % 1000],) * 1000 for i in range(count))
        reading = read((value,))  # few objects, each met many times
        assert (reading.is_comparable, len(reading.key) < 1_010_000) == (is_small, True)
