"""`canonicalize`: trees with hoisted callables and strongly typed arrays."""

import collections
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
from canonopt import canonicalize, hoist

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


def scaled(factor):
    return lambda x: factor * x


def model(factor=2.0, **changes):
    fields = {
        "activation": scaled(factor),
        "weight": jnp.ones(2),
        "options": (scaled(factor), {"on_end": jax.jit(scaled(factor))}, "text"),
        "layers": [eqx.nn.Lambda(scaled(factor)), functools.partial(scaled(factor), 1.0)],
    }
    return Model(**fields | changes)


def test_callables_in_leaves_and_in_static_fields_are_hoisted():
    one, two, other = (canonicalize(model(factor)) for factor in (2.0, 2.0, 3.0))
    assert one.activation is two.activation is hoist(scaled(2.0))
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
    assert canonicalize(scaled(2.0)) is hoist(scaled(2.0))
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

    one = canonicalize(Checked(1, scaled(2.0), jnp.full(2, 1.0)))
    assert type(one) is Checked
    assert (one.size, checked) == (2, [2])
    assert not one.weight.weak_type
    with pytest.raises(AttributeError):
        one.size = 3


def test_attributes_of_a_transformation_are_kept():
    transform = optax.GradientTransformationExtraArgs(scaled(2.0), scaled(3.0))
    transform.note = "attributes may mean anything"
    made = canonicalize(transform)
    assert made is not transform
    assert made.note == transform.note


def test_a_part_in_two_places_stays_one_object():
    layer, weak = eqx.nn.Lambda(scaled(2.0)), jnp.full(2, 1.0)
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
    one, two, other = (canonicalize(build(scaled(factor))) for factor in (2.0, 2.0, 3.0))
    raw = build(scaled(2.0))
    assert type(one) is type(raw)
    assert jax.tree.structure(raw).num_leaves == jax.tree.structure(one).num_leaves
    assert same_to_jit(one, two)
    assert not same_to_jit(one, other)
    assert not same_to_jit(raw, build(scaled(2.0)))


def same_to_jit(one, two):
    """Return True if a step that takes the one is not traced again for the other."""
    (leaves, structure), (others, other_structure) = map(jax.tree.flatten, (one, two))
    is_array = [isinstance(leaf, jax.Array) for leaf in leaves]
    return structure == other_structure and all(
        array or leaf == other for array, leaf, other in zip(is_array, leaves, others, strict=True)
    )


# --- any tree ---------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.sampled_from([jnp.ones(2), jnp.full(2, 1.0), np.ones(2), jax.nn.relu, jnp.float32]),
    st.integers(0, 2).map(scaled),
    st.integers(0, 2).map(lambda n: functools.partial(scaled(n), 1)),
)
TREES = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.lists(trees, max_size=3),
        st.lists(trees, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), trees, max_size=3),
        st.builds(Pair, trees, trees),
        st.builds(Model, trees, trees, st.integers(0, 2).map(scaled), st.lists(trees, max_size=2)),
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
