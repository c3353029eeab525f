"""Fails where JAX has moved what `canonopt._jax_private` relies on."""

import functools
import inspect

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from canonopt import _jax_private
from canonopt._jax_private import function_of_partial, jit_options, rebinds_only_if_set


def function(x, y=1):
    return x


REPLICATED = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("data",)), P())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"static_argnums": 1},
        {"static_argnames": "y"},
        {"donate_argnums": (0,)},
        {"donate_argnames": ("x",)},
        {"keep_unused": True},
        {"inline": True},
        {"compiler_options": {"xla_embed_ir_in_executable": True}},
        {"in_shardings": REPLICATED},
        {"in_shardings": (REPLICATED, None)},
        {"out_shardings": {"a": REPLICATED}},
        {"out_shardings": None},
    ],
)
def test_options_of_a_jitted_function(options):
    found = jit_options(jax.jit(function, **options))
    assert found is not None
    assert jit_options(jax.jit(function, **found)) == found
    for other in ({}, {"static_argnums": 0}, {"inline": True}, {"keep_unused": True}):
        assert (jit_options(jax.jit(function, **other)) == found) == (other == options)


def test_options_that_are_not_to_be_found_out():
    jitted = jax.jit(function)
    jitted.mark = 1
    assert jit_options(jitted) is None
    assert jit_options(function) is None
    with pytest.warns(DeprecationWarning, match="backend and device argument on jit"):
        assert jit_options(jax.jit(function, backend="cpu")) is None


def test_what_an_inner_jit_reads_is_all_there_is(monkeypatch):
    """Another option of `jax.jit` would not be in the key: it has to be looked at."""
    known = {*_jax_private._OPTIONS, "compiler_options", "in_shardings", "out_shardings"}
    deprecated = {"device", "backend", "abstracted_axes"}  # not to be found out
    parameters = inspect.signature(jax.jit).parameters
    assert set(parameters) - deprecated - {"fun"} == known


def inner_function(spmd_axis_name):
    wrapper = jax.vmap(function, spmd_axis_name=spmd_axis_name)
    return wrapper.__closure__[0].cell_contents


def test_vmap_binds_its_variable_anew_only_if_it_is_set():
    inner = inner_function(None)
    assert rebinds_only_if_set(inner, "spmd_axis_name")
    assert not rebinds_only_if_set(inner, "in_axes")
    assert not rebinds_only_if_set(function, "spmd_axis_name")
    cell = inner.__closure__[inner.__code__.co_freevars.index("spmd_axis_name")]
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.device_put(jnp.ones((8, 2)), NamedSharding(mesh, P("data")))
    inner(x)
    inner(jnp.ones((8, 2)))
    assert cell.cell_contents is None
    # Where it binds the variable, it asks first.
    lines = [line.strip() for line in inspect.getsource(inner).splitlines()]
    asks = [i for i, line in enumerate(lines) if line.startswith("if spmd_axis_name is not None")]
    binds = [i for i, line in enumerate(lines) if line.startswith("spmd_axis_name = ")]
    assert all(any(ask < bind <= ask + 7 for ask in asks) for bind in binds)


def test_what_a_partial_was_given():
    inner = functools.partial(function, 1)
    assert function_of_partial(jtu.Partial(inner, 2)) is inner
    assert function_of_partial(jtu.Partial(function, 2)) is function
    assert function_of_partial(inner) is function
