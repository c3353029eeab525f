"""Specs that hold arrays: pytrees whose leaves are the arrays."""

import collections
import gc
import numbers
import re
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt
from canonopt._spec.dynamic_spec import _templates

from ..support.counting import counted
from ..support.values import Node, bits, updates_of

PARAMS = {"w": jnp.ones(3)}


def test_an_array_is_a_leaf_and_the_rest_is_static():
    optim = canonopt.adam(jnp.float32(0.1), b1=0.8)
    assert jax.tree.leaves(optim) == [jnp.float32(0.1)]
    assert isinstance(optim, canonopt.Spec)
    assert isinstance(optim, type(canonopt.adam(0.1)))
    paths = jax.tree_util.tree_leaves_with_path(optim)
    assert [jax.tree_util.keystr(path) for path, _ in paths] == [".learning_rate"]
    assert repr(optim).startswith("canonopt.adam(learning_rate=Array(0.1")


class Constant(eqx.Module):
    value: jax.Array

    def __call__(self, count):
        return self.value


@pytest.mark.slow
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize(
    "build",
    [
        lambda lib, rate: lib.scale(rate),
        lambda lib, rate: lib.chain(lib.clip(rate), lib.adamw(rate, weight_decay=rate)),
        lambda lib, rate: lib.sgd(Constant(rate)),
        lambda lib, rate: lib.inject_hyperparams(lib.adam)(rate),
    ],
)
def test_an_array_is_weakly_typed_after_a_checkpoint_if_it_was_before(build, dtype, is_wide):
    with jax.enable_x64(is_wide):
        rate, params = jnp.asarray(0.1), jnp.linspace(0, 1, 5).astype(dtype)
        optim, theirs = build(canonopt, rate), build(optax, rate)
        expected = updates_of(theirs, params)
        step = lambda params: updates_of(theirs, params)  # noqa: E731
        jitted, (ours, count) = jax.jit(step)(params), counted(updates_of, jax.jit)
        ours(optim, params)
        takes = [np.asarray, lambda leaf: np.asarray(leaf)[()]]
        for take in (*takes, lambda leaf: jnp.asarray(np.asarray(leaf))):
            again = jax.tree.map(take, optim)
            assert bits(updates_of(again, params)) == bits(expected)
            assert bits(ours(again, params)) == bits(jitted)
        # JAX's key of a call has the weak type.
        assert count.traces == 2


def test_equal_structures_are_one_object_for_as_long_as_it_is_used():
    """A jit cache compares them in each call, and compares one object fastest."""

    def template(b1, value=0.1):
        optim = canonopt.adam(canonopt.dynamic(value), b1=b1)
        return jax.tree.structure(optim).node_data()[1]

    kept = template(0.8)
    assert template(0.8, 0.2) is kept
    assert template(0.9) is not kept and template(0.9) != kept
    gc.collect()
    before = len(_templates)
    for i in range(20):
        template(i / 20)
    gc.collect()
    assert len(_templates) <= before
    assert template(0.8) is kept


def test_structure_does_not_depend_on_what_the_leaves_are():
    optim = canonopt.chain(
        canonopt.clip(1.0),
        canonopt.chain(canonopt.sgd(jnp.float32(0.1)), canonopt.scale(jnp.float32(2.0))),
    )
    structure = jax.tree.structure(optim)
    for leaf in (True, None, 1.0, object(), "text", jax.ShapeDtypeStruct((), jnp.float32)):
        mapped = jax.tree.unflatten(structure, [leaf, leaf])
        leaves, again = jax.tree.flatten(mapped, is_leaf=lambda x: x is None)
        assert again == structure
        assert leaves == [leaf, leaf]
    arrays, rest = eqx.partition(optim, eqx.is_array)
    assert jax.tree.structure(eqx.combine(arrays, rest)) == structure


@pytest.mark.parametrize(
    "node, step",
    [
        (lambda *pair: collections.OrderedDict(zip("ba", pair, strict=True)), "['b']"),
        (lambda *pair: collections.defaultdict(list, zip("ba", pair, strict=True)), "['b']"),
        (lambda *pair: {"z": [*pair], "c": ()}, "['z'][0]"),
        (collections.namedtuple("Rates", "rate power"), "[0]"),
        (lambda *pair: Node(pair, None), "[<flat index 0>][0]"),
        (lambda *pair: Constant({"rate": pair}), ".value['rate'][0]"),
    ],
)
def test_a_node_of_any_kind_is_made_again_with_what_is_traced(node, step):
    @canonopt.canonical
    def scaled(node):
        leaves = jax.tree.leaves(node, is_leaf=lambda x: hasattr(x, "numbers"))
        rate = next(leaf for leaf in leaves if leaf != "text")
        return optax.scale(rate if type(node) is kind else 0.0)

    kind = type(node(1, 2))
    optim = scaled(node(canonopt.dynamic(0.5), "text"))
    ((path, _), *_) = jax.tree_util.tree_leaves_with_path(optim)
    assert jax.tree_util.keystr(path) == f".node{step}.value"
    np.testing.assert_allclose(jax.jit(updates_of)(optim, PARAMS)["w"], 0.5)


class Config(eqx.Module):
    lr: float


def test_a_path_in_a_config_of_the_user_is_found_as_it_is_written():
    optim = canonopt.canonical(lambda config: canonopt.sgd(config.lr))(Config(0.5))
    for name in ("config.lr", "lr"):
        assert repr(canonopt.dynamic(optim, name).config.lr) == "canonopt.dynamic(0.5)"
    assert float(canonopt.dynamic(value=0.5)) == 0.5  # as Hydra passes it


IN_A_SPEC = canonopt.canonical(lambda rate: optax.scale(rate))


@pytest.mark.parametrize(
    "value",
    [jnp.float32, canonopt.dynamic, lambda rate: IN_A_SPEC(canonopt.dynamic(rate))],
    ids=["array", "number", "spec"],
)
def test_a_factory_is_called_for_a_build_and_for_each_trace_of_a_function(value):
    @canonopt.canonical
    def warned(rate):
        warnings.warn("called", UserWarning, stacklevel=1)
        return rate if isinstance(rate, canonopt.Spec) else optax.scale(rate)

    with warnings.catch_warnings(record=True) as calls:
        warnings.simplefilter("always")
        optim = warned(value(0.5))
        updates_of(optim, PARAMS)
        updates_of(optim, PARAMS)
        assert len(calls) == 1
        jax.jit(optim.update)(PARAMS, optim.init(PARAMS))
        assert len(calls) == 1  # it is closed over, and no leaf is traced
        others = [warned(value(rate)) for rate in (0.1, 0.2)]
        # No factory can tell one number from another.
        assert len(calls) == (1 if value is canonopt.dynamic else 3)
        step = jax.jit(lambda optim, params: optim.update(params, (), params))
        before = len(calls)
        for each in others:
            step(each, PARAMS)
        assert len(calls) == before + 1


@pytest.mark.parametrize(
    "asks",
    [
        lambda rate: isinstance(rate, float),
        lambda rate: isinstance(rate, numbers.Real) and not isinstance(rate, jax.Array | int),
        lambda rate: np.isscalar(+rate) and jnp.isscalar(rate) and not eqx.is_array(rate),
    ],
)
def test_a_factory_that_asks_for_a_type_decides_as_for_a_python_number(asks):
    mine = canonopt.canonical(lambda rate: optax.scale(rate if asks(rate) else 100 * rate))
    for optim in (mine(0.5), mine(canonopt.dynamic(0.5))):
        step = jax.jit(lambda optim, params: updates_of(optim, params))
        assert step(optim, PARAMS)["w"][0] == 0.5


MESSAGE = re.escape(
    "has traced numbers, so it cannot be hashed and cannot be a static argument. Pass it as an "
    "ordinary argument (take it out of static_argnums and static_argnames), make it an ordinary "
    "field (without static=True), or write Python numbers in place of canonopt.dynamic or arrays. "
    "After eqx.partition, put it together first: eqx.combine(arrays, spec)."
)


def test_a_dynamic_spec_is_refused_as_a_static_argument():
    for spec in (canonopt.adam(jnp.float32(0.1)), canonopt.constant_schedule(jnp.ones(()))):
        with pytest.raises(canonopt.errors.DynamicSpecError, match=MESSAGE):
            hash(spec)
    for options in ({"static_argnums": 0}, {"static_argnames": "optim"}):
        with pytest.raises(ValueError, match=MESSAGE):
            jax.jit(updates_of, **options)(canonopt.adam(jnp.float32(0.1)), PARAMS)


@pytest.fixture(params=["by eqx.partition", "by jax.tree.map"])
def rest(request):
    """A spec whose arrays have been taken out."""
    optim = canonopt.adam(canonopt.dynamic(1e-3))
    if request.param == "by eqx.partition":
        return eqx.partition(optim, eqx.is_array)[1]
    return jax.tree.map(lambda x: None, optim)


def test_a_spec_whose_values_have_been_taken_out_is_shown_and_combined_again(rest):
    with pytest.raises(canonopt.errors.DynamicSpecError, match=MESSAGE):
        hash(rest)
    assert repr(rest) == "canonopt.adam(learning_rate=canonopt.dynamic(None))"
    assert repr(canonopt.chain(rest)) == f"canonopt.chain({rest!r})"
    assert rest.hyperparameters()["learning_rate"] is None
    assert rest.replace(lr=0.1) is canonopt.adam(0.1)
    arrays = eqx.filter(canonopt.adam(canonopt.dynamic(0.1)), eqx.is_array)
    assert repr(eqx.combine(arrays, rest)) == "canonopt.adam(learning_rate=canonopt.dynamic(0.1))"


@pytest.mark.parametrize(
    "use",
    [
        lambda rest: rest.init(PARAMS),
        lambda rest: rest.update(PARAMS, canonopt.adam(0.1).init(PARAMS), PARAMS),
        lambda rest: canonopt.chain(canonopt.clip(1.0), rest).init(PARAMS),
        lambda rest: canonopt.adam(rest.learning_rate).init(PARAMS),
        lambda rest: canonopt.adam(Constant(rest.learning_rate)).init(PARAMS),
        lambda rest: jax.tree.map(lambda x: None, canonopt.adam(jnp.float32(0.1))).init(PARAMS),
    ],
)
def test_a_spec_whose_values_have_been_taken_out_is_not_run(rest, use):
    text = (
        " of canonopt.adam has no value: its values have been taken out of the spec, "
        "as eqx.partition(spec, eqx.is_array) does. Put them back first: "
        "spec = eqx.combine(arrays, spec)."
    )
    with pytest.raises(canonopt.errors.DynamicSpecError, match=re.escape(text)) as raised:
        use(rest)
    assert raised.value.path in ("learning_rate", "learning_rate.value")
