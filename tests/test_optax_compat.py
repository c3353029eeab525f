"""Fails if Optax changes a behaviour that `canonopt._optax_compat` relies on."""

import operator
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

import canonopt
from canonopt._optax_compat import (
    annotation_of,
    as_transform,
    callable_tree_as_function,
    dtype_of,
    is_transformation,
    number_or_none,
    takes_number,
    takes_tree,
)
from canonopt._texts import built_as

from .support import catalogue

PARAMS = {"w": jnp.ones(2)}


class Noting:
    """An object with the methods of a transformation. Its update notes its extra arguments."""

    def init(self, params):
        return optax.EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        self.given = extra_args
        return updates, state


class WithoutExtraArgs(Noting):
    def update(self, updates, state, params=None):
        return updates, state


def test_optax_uses_objects_with_the_two_methods_as_transformations():
    multi_steps = optax.MultiSteps(optax.sgd(0.1), 2)
    assert not isinstance(multi_steps, optax.GradientTransformation)
    for tx in (multi_steps, Noting(), optax.sgd(0.1)):
        assert is_transformation(tx)
        chained = optax.chain(tx, optax.scale(1.0))
        chained.update(PARAMS, chained.init(PARAMS), PARAMS)
    for value in (optax.sgd, Noting, None, 0.1, lambda params: params, optax.EmptyState()):
        assert not is_transformation(value)


def test_optax_returns_a_transformation_with_extra_args_as_it_is():
    tx = optax.polyak_sgd()
    assert as_transform(tx) is tx


def test_an_object_gets_extra_arguments_if_its_update_takes_them():
    tx = Noting()
    as_transform(tx).update(PARAMS, tx.init(PARAMS), PARAMS, value=1.0)
    assert tx.given == {"value": 1.0}


@pytest.mark.parametrize("tx", [WithoutExtraArgs(), optax.scale(1.0)], ids=["object", "optax"])
def test_other_updates_ignore_extra_arguments(tx):
    made = as_transform(tx)
    assert isinstance(made, optax.GradientTransformationExtraArgs)
    made.update(PARAMS, made.init(PARAMS), PARAMS, value=1.0)


class Tree(eqx.Module):
    w: object

    def __call__(self, params):
        raise AssertionError("a tree is not called")


def partition(labels):
    return optax.partition({"a": optax.sgd(0.1)}, labels)


TREES = {
    "param_labels": ("a", partition),
    "weight_dimension_numbers": (0, None),
    "muon_weight_dimension_numbers": (
        optax.contrib.MuonDimensionNumbers(0, 1),
        lambda numbers: optax.contrib.muon(0.1, muon_weight_dimension_numbers=numbers),
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_optax_mistakes_a_callable_tree_for_a_function(name):
    leaf, build = TREES[name]
    tree, parameters = Tree(leaf), {"transforms": {"a": optax.sgd(0.1)}}
    made = callable_tree_as_function(name, tree, parameters)
    assert made is not tree and made(PARAMS) is tree
    if build is not None:
        params = Tree(jnp.ones((2, 2)))
        with pytest.raises(AssertionError, match="a tree is not called"):
            build(tree).init(params)
        build(made).init(params)


def test_functions_and_other_trees_stay_what_they_are():
    parameters = {"transforms": {"a": optax.sgd(0.1)}}
    for value in (lambda params: params, Tree("no label"), {"w": "a"}, Tree(None), Tree([])):
        assert callable_tree_as_function("param_labels", value, parameters) is value
    tree = Tree("a")
    assert callable_tree_as_function("mask", tree, parameters) is tree


def test_all_parameters_are_known_that_optax_calls_if_they_are_callable():
    numbers = {"alpha", "b3", "learning_rate", "value", "weight_decay"}  # or schedules
    functions = {"matrix", "measure"}  # or arrays and names, never trees
    found = set()
    for path in Path(optax.__file__).parent.rglob("*.py"):
        if not path.name.endswith("_test.py"):
            found |= set(re.findall(r"\bcallable\((\w+)\)", path.read_text("utf-8")))
    assert found - numbers - functions == {*TREES}


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_optax_makes_the_same_of_all_spellings_of_a_dtype(name):
    numpy_type = getattr(ml_dtypes, name, None) or np.dtype(name).type
    for spelling in (name, np.dtype(name), numpy_type, getattr(jnp, name)):
        assert dtype_of(spelling) is getattr(jnp, name)
        for dtype in (spelling, dtype_of(spelling)):
            state = optax.adam(0.1, mu_dtype=dtype).init(PARAMS)
            assert optax.tree.get(state, "mu")["w"].dtype == jnp.dtype(name)


@pytest.mark.parametrize("rate", [0.1, lambda count: 0.1], ids=["number", "schedule"])
@pytest.mark.parametrize(
    "name", "adam adamw nadam nadamw lamb lion adagrad adabelief radam sgd".split()
)
def test_a_common_optimizer_is_recognized(name, rate):
    assert built_as(getattr(optax, name)(rate)) == f"optax.{name}"


@pytest.mark.parametrize(
    ("transformation", "expected"),
    [
        (optax.adam(0.1), "optax.adam"),
        (optax.adamw(lambda count: 0.1, mask={"w": True}), "optax.adamw"),
        (optax.sgd(0.1), "optax.sgd"),
        (optax.sgd(0.1, momentum=0.9), "optax.sgd"),
        (optax.nadamw(0.1), "optax.nadamw"),
        (optax.chain(optax.clip(1.0), optax.lion(0.1)), "optax.chain(clip, lion)"),
        (optax.masked(optax.sgd(0.1), {"w": True}), "optax.masked(sgd)"),
        (optax.inject_hyperparams(optax.adam)(learning_rate=0.1), "optax.inject_hyperparams(adam)"),
        (optax.scale(2.0), "optax.scale"),
        (optax.GradientTransformation(lambda p: (), lambda u, s, p=None: (u, s)), None),
        (optax.GradientTransformation(None, None), None),
        (len, None),
    ],
)
def test_a_transformation_is_named_as_it_was_built(transformation, expected):
    assert built_as(transformation) == expected


# --- annotations ------------------------------------------------------------------------------


def annotations():
    """The annotation of each parameter in the catalogue, with its name and its default."""
    for name in catalogue.ALL:
        factory = operator.attrgetter(name)(canonopt).factory
        for parameter in factory.signature.parameters.values():
            yield f"{name}.{parameter.name}", parameter.default, annotation_of(parameter)


def test_parameters_that_are_numbers_are_annotated_so():
    for path, default, annotation in annotations():
        if type(default) in (int, float):
            assert takes_number(annotation), path
        if isinstance(default, str) or "dtype" in path or path.endswith((".mode", "_labels")):
            assert not takes_number(annotation), path


def test_parameters_that_are_trees_are_annotated_so():
    for path, _, annotation in annotations():
        name = path.rpartition(".")[2]
        if name.endswith(("mask", "param_labels", "dimension_numbers")):
            assert takes_tree(annotation), path
        if name in ("transforms", "schedules", "boundaries", "boundaries_and_scales", "betas"):
            assert not takes_tree(annotation), path


def test_optional_numbers_are_annotated_so():
    found = {path: number_or_none(annotation) for path, _, annotation in annotations()}
    # A schedule would do too, or a tree, so the value says what it is.
    anything = ("adam.b1", "adafactor.learning_rate", "contrib.galore.weight_dimension_numbers")
    assert {found[path] for path in (*anything, "adam.mu_dtype", "adamw.mask")} == {Any}
    assert found["sgd.momentum"] == float | None
    assert found["noisy_sgd.seed"] == int | None
