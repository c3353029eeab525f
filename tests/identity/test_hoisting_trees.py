"""`canonicalize`: trees with hoisted callables and strongly typed arrays."""

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from canonopt import canonicalize, hoist, hoisted_field

from ..support.callables import a_lambda, a_nested_function, vector
from ..support.counting import counted

# --- weak types -------------------------------------------------------------------------------


def test_weak_leaves_become_strong_and_nothing_else_changes():
    weak, strong = jnp.full((2, 2), 1.5), jnp.ones(2)
    tree = {"a": weak, "tied": weak, "b": strong, "c": "text", "d": 1.0, "e": np.ones(2)}
    made = canonicalize(tree)
    assert not made["a"].weak_type
    assert made["a"] is made["tied"]
    assert all(made[name] is tree[name] for name in "bcde")
    np.testing.assert_array_equal(made["a"], weak)
    assert canonicalize(made)["a"] is made["a"]


def test_a_canonical_model_keeps_its_place():
    device = jax.devices()[2]
    on_device = canonicalize(jax.device_put(jnp.full(4, 1.0), device))
    assert on_device.devices() == {device}
    assert on_device.committed
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, P("data"))
    assert canonicalize(jax.device_put(jnp.full(8, 1.0), sharding)).sharding == sharding
    assert not canonicalize(jnp.full(4, 1.0)).committed


# --- callables --------------------------------------------------------------------------------


class Model(eqx.Module):
    activation: Callable
    weight: jax.Array
    options: Any = eqx.field(static=True)
    layers: list = eqx.field(default_factory=list)


def model(factor=2.0, **changes):
    fields = {
        "activation": a_lambda(factor),
        "weight": jnp.ones(2),
        "options": (a_lambda(factor), {"on_end": jax.jit(a_lambda(factor))}, "text"),
        "layers": [eqx.nn.Lambda(a_lambda(factor)), functools.partial(a_lambda(factor), 1.0)],
    }
    return Model(**fields | changes)


def test_callables_in_leaves_and_in_static_fields_are_hoisted():
    one, two, other = (canonicalize(model(factor)) for factor in (2.0, 2.0, 3.0))
    assert one.activation is two.activation is hoist(a_lambda(2.0))
    assert one.activation is not other.activation
    assert one.options[0] is two.options[0]
    assert one.options[1]["on_end"] is two.options[1]["on_end"]
    assert one.layers[0].fn is two.layers[0].fn
    assert one.layers[1] is two.layers[1]
    assert one.layers[1]() == 2.0


def test_a_canonical_tree_is_returned_unchanged():
    for tree in (
        model(),
        optax.adam(1e-3),
        [Struct(jnp.ones(2), jax.nn.relu), {"a": (1, None)}],
        canonopt.adam(1e-3),
    ):
        made = canonicalize(tree)
        assert canonicalize(made) is made
    array = jnp.ones(2)
    assert canonicalize({"a": array, "b": np.ones(2)})["a"] is array


def test_a_callable_and_a_type_by_themselves():
    assert canonicalize(a_lambda(2.0)) is hoist(a_lambda(2.0))
    assert canonicalize(jax.nn.relu) is jax.nn.relu
    assert canonicalize(Model) is Model
    assert canonicalize(None) is None


def test_types_and_invariants_of_modules_are_kept():
    checked = []

    class Checked(eqx.Module):
        size: int = eqx.field(converter=lambda n: n + 1)
        fn: Callable
        weight: jax.Array

        def __check_init__(self):
            checked.append(self.size)

    one = canonicalize(Checked(1, a_lambda(2.0), jnp.full(2, 1.0)))
    assert type(one) is Checked
    assert (one.size, checked) == (2, [2])
    assert not one.weight.weak_type
    with pytest.raises(AttributeError):
        one.size = 3


def test_attributes_of_a_transformation_are_kept():
    transform = optax.GradientTransformationExtraArgs(a_lambda(2.0), a_lambda(3.0))
    transform.note = "attributes may mean anything"
    made = canonicalize(transform)
    assert made is not transform
    assert made.note == transform.note


def test_a_part_in_two_places_stays_one_object():
    layer, weak = eqx.nn.Lambda(a_lambda(2.0)), jnp.full(2, 1.0)
    names = [layer]
    tree = canonicalize({"a": layer, "b": (layer, weak), "c": weak, "d": names, "e": names})
    assert tree["a"] is tree["b"][0] is tree["d"][0]
    assert tree["b"][1] is tree["c"]
    assert tree["d"] is tree["e"]
    embedding = eqx.nn.Embedding(4, 3, key=jax.random.key(0))
    linear = eqx.nn.Linear(3, 4, use_bias=False, key=jax.random.key(1))
    tied = eqx.nn.Shared((embedding, linear), lambda p: p[1].weight, lambda p: p[0].weight)
    made = canonicalize(tied)
    assert jax.tree.structure(made) == jax.tree.structure(tied)
    one, other = made()
    assert one.weight is other.weight is embedding.weight


class Pair(NamedTuple):
    fn: Callable
    weight: Any


@flax.struct.dataclass
class Struct:
    weight: jax.Array
    fn: Callable = flax.struct.field(pytree_node=False)


@functools.partial(jtu.register_dataclass, data_fields=["weight"], meta_fields=["fn"])
class Registered:
    def __init__(self, weight, fn):
        self.weight, self.fn = weight, fn


@pytest.mark.parametrize(
    "build",
    [
        lambda fn: {"fn": fn},
        lambda fn: [fn],
        lambda fn: (fn,),
        lambda fn: collections.OrderedDict(z=1, fn=fn),
        lambda fn: collections.defaultdict(list, fn=fn),
        lambda fn: Pair(fn, 1),
        lambda fn: Struct(jnp.ones(2), fn),
        lambda fn: Registered(jnp.ones(2), fn),
        lambda fn: jtu.Partial(fn, jnp.ones(2)),
        lambda fn: jtu.Partial(functools.partial(fn), jnp.ones(2)),
        lambda fn: eqx.filter_jit(fn),
        lambda fn: eqx.filter_vmap(eqx.nn.Lambda(fn)),
        lambda fn: optax.stateless(fn),
    ],
)
def test_nodes_of_every_type(build):
    one, two, other = (canonicalize(build(a_lambda(factor))) for factor in (2.0, 2.0, 3.0))
    raw = build(a_lambda(2.0))
    assert type(one) is type(raw)
    assert jax.tree.structure(raw).num_leaves == jax.tree.structure(one).num_leaves
    assert same_to_jit(one, two)
    assert not same_to_jit(one, other)
    assert not same_to_jit(raw, build(a_lambda(2.0)))


def same_to_jit(one, two):
    """Return True if a step that takes the one is not traced again for the other."""
    (leaves, structure), (others, other_structure) = map(jax.tree.flatten, (one, two))
    is_array = [isinstance(leaf, jax.Array) for leaf in leaves]
    return structure == other_structure and all(
        array or leaf == other for array, leaf, other in zip(is_array, leaves, others, strict=True)
    )


class Applied(eqx.Module):
    fn: Callable
    weight: jax.Array


class StaticallyApplied(eqx.Module):
    fn: Callable = eqx.field(static=True)
    weight: jax.Array


@pytest.mark.parametrize("model", [Applied, StaticallyApplied])
def test_models_that_are_made_again_are_one_trace_and_one_compile(model):
    for wrap, expected in ((canonicalize, 1), (lambda model: model, 4)):
        step, count = counted(lambda model, x: model.fn(model.weight * x))
        step = eqx.filter_jit(step)
        for _ in range(4):
            step(wrap(model(a_lambda(2), jnp.ones(3))), vector())
        assert (count.traces, count.compiles) == (expected, expected)


# --- fields -------------------------------------------------------------------------------------


def test_fields_hoist_their_callables():
    class Layer(eqx.Module):
        leaf: Any = hoisted_field()
        static: Any = hoisted_field(static=True)

    one, two = (Layer(a_lambda(2), a_nested_function(2)) for _ in range(2))
    assert one.leaf is two.leaf is hoist(a_lambda(2))
    assert one.static is two.static is hoist(a_nested_function(2))
    assert jax.tree.leaves(one) == [one.leaf]
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for value in (None, 3, "name", (a_lambda(2),)):
        layer = Layer(value, value)
        assert layer.leaf is layer.static is value
    assert Layer(jax.nn.relu, jax.nn.relu).leaf is jax.nn.relu


def test_fields_take_what_fields_take():
    seen = []

    def convert(name):
        seen.append(name)
        return {"double": a_lambda(2), "nothing": None}.get(name, name)

    class Layer(eqx.Module):
        by_default: Callable = hoisted_field(default=a_lambda(3))
        by_factory: Callable = hoisted_field(default_factory=lambda: a_lambda(4), static=True)
        converted: Any = hoisted_field(converter=convert, default="double")
        none: Callable | None = hoisted_field(default=None, metadata={"unit": "m"}, kw_only=True)

    one, two = Layer(), Layer(converted="nothing")
    assert one.by_default is two.by_default is hoist(a_lambda(3))
    assert one.by_factory is two.by_factory is hoist(a_lambda(4))
    assert one.converted is hoist(a_lambda(2))
    assert two.converted is two.none is None
    assert seen == ["double", "nothing"]
    assert Layer(none=a_lambda(5)).none is hoist(a_lambda(5))
    fields = {field.name: field for field in dataclasses.fields(Layer)}
    assert fields["none"].metadata["unit"] == "m"
    assert fields["by_factory"].metadata["static"]


# --- any tree ---------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.sampled_from([jnp.ones(2), jnp.full(2, 1.0), np.ones(2), jax.nn.relu, jnp.float32]),
    st.integers(0, 2).map(a_lambda),
    st.integers(0, 2).map(lambda n: functools.partial(a_lambda(n), 1)),
)
TREES = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.lists(trees, max_size=3),
        st.lists(trees, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), trees, max_size=3),
        st.builds(Pair, trees, trees),
        st.builds(
            Model, trees, trees, st.integers(0, 2).map(a_lambda), st.lists(trees, max_size=2)
        ),
        trees.map(lambda tree: [tree, tree]),
    ),
    max_leaves=8,
)


@given(TREES)
def test_nothing_but_callables_and_weak_types_changes(tree):
    made, again = canonicalize((tree, tree))
    assert made is again  # sharing is kept
    assert canonicalize(made) is made
    leaves, others = jax.tree.leaves(tree), jax.tree.leaves(made)
    assert len(leaves) == len(others)
    for leaf, other in zip(leaves, others, strict=True):
        if isinstance(leaf, jax.Array):
            assert (other is leaf) == (not leaf.weak_type)
            assert (other.shape, other.dtype, other.weak_type) == (leaf.shape, leaf.dtype, False)
        elif callable(leaf) and not isinstance(leaf, type):
            assert other is hoist(leaf)
        else:
            assert other is leaf
