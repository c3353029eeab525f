"""Fails if Optax changes a behaviour that `canonopt._optax_compat` relies on."""

import operator
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

import canonopt
from canonopt._optax_compat import (
    annotation_of,
    as_transform,
    dtype_of,
    is_transformation,
    number_or_none,
    takes_number,
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


def test_an_object_gets_extra_arguments():
    tx = Noting()
    as_transform(tx).update(PARAMS, tx.init(PARAMS), PARAMS, value=1.0)
    assert tx.given == {"value": 1.0}


def test_other_updates_ignore_extra_arguments():
    made = as_transform(optax.scale(1.0))
    assert isinstance(made, optax.GradientTransformationExtraArgs)
    made.update(PARAMS, made.init(PARAMS), PARAMS, value=1.0)


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
        (optax.adamw(lambda count: 0.1, mask={"w": True}), "optax.adamw"),
        (optax.sgd(0.1, momentum=0.9), "optax.sgd"),
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


def test_optional_numbers_are_annotated_so():
    found = {path: number_or_none(annotation) for path, _, annotation in annotations()}
    # A schedule would do too, or a tree, so the value says what it is.
    anything = ("adam.b1", "adafactor.learning_rate", "contrib.galore.weight_dimension_numbers")
    assert {found[path] for path in (*anything, "adam.mu_dtype", "adamw.mask")} == {Any}
    assert found["sgd.momentum"] == float | None
    assert found["noisy_sgd.seed"] == int | None
