"""Models made again and again, with each kind of callable: one trace, one compile."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from canonopt import hoist, hoisted_field

from ..support.callables import KINDS, a_lambda, a_nested_function, vector
from ..support.counting import counted


class Model(eqx.Module):
    fn: Callable
    weight: jax.Array


class StaticModel(eqx.Module):
    fn: Callable = eqx.field(static=True)
    weight: jax.Array


def call(model, x):
    return model.fn(model.weight * x)


def steps(make, call, wrap=eqx.filter_jit, models=20):
    """The traces and compiles of a step with models of which each is dropped before the next."""
    step, count = counted(call)
    step = wrap(step)
    for _ in range(models):
        step(*make())
    return count.traces, count.compiles


# These keep their keyword arguments in a dict.
UNHASHABLE = {"eqx.Partial", "filter_vmap", "filter_grad"}


@pytest.mark.parametrize("name", [name for name in KINDS if name not in UNHASHABLE])
def test_twenty_static_arguments_are_one_trace_and_one_compile(name):
    def make():
        return hoist(KINDS[name](2)), vector()

    assert steps(make, lambda fn, x: fn(x), functools.partial(jax.jit, static_argnums=0)) == (1, 1)


@pytest.mark.parametrize("model", [Model, StaticModel])
def test_twenty_models_that_are_not_hoisted_are_twenty_traces(model):
    assert steps(lambda: (model(a_lambda(2), jnp.ones(3)), vector()), call) == (20, 20)


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
