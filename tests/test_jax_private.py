"""Fails where JAX has moved what `canonopt._jax_private` relies on."""

import functools
import inspect
import logging
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import pytest
from flax import nnx
from jax._src import pjit
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
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


def stagings():
    """Whether something is staged, with and without operands, by itself and under others."""
    found = []

    def note(*args):
        found.append(_jax_private.is_staging())
        return jnp.ones(())

    note(), jax.vmap(note)(jnp.ones(2)), jax.grad(note)(1.0), jax.linearize(note, 1.0)
    eager = len(found)
    jax.jit(note)(), jax.lax.cond(True, note, note), jax.make_jaxpr(jax.vmap(note))(jnp.ones(2))
    return found == [i >= eager for i in range(len(found))]


def test_what_is_staged():
    assert stagings()


def test_what_is_staged_is_known_without_what_is_private(monkeypatch):
    # Without it, by what JAX makes of a new array.
    monkeypatch.delattr("jax._src.core.unsafe_am_i_under_a_jit")
    assert stagings()


def test_jaxprs_and_what_they_are_lowered_to_can_be_followed():
    traced = jax.jit(function).trace(1.0)
    lowered = traced.lower()
    assert weakref.ref(lowered)() is lowered
    assert weakref.ref(traced.jaxpr)() is traced.jaxpr
    info, args = jax.jit(function)._jit_info, (2.0,)
    result = pjit._infer_params(function, info, args, {})
    assert _jax_private._jaxpr_of(result) is jax.jit(function).trace(2.0).jaxpr


def test_a_refused_output_is_of_what_was_tracing():
    step = jax.jit(lambda x: "no array")
    for _ in range(2):
        with pytest.raises(TypeError, match="not a valid JAX type") as caught:
            pjit._infer_params(step.__wrapped__, step._jit_info, (1.0,), {})
        assert _jax_private._was_tracing(caught.value)


def test_callers_are_without_what_every_call_comes_through():
    found = []

    def note(x):
        return x

    def enter(miss):
        if miss.function is note:
            found.append(next(_jax_private.callers()))

    end = _jax_private.watch_misses(enter, lambda *_: None)
    try:
        for jit in (jax.jit, eqx.filter_jit, nnx.jit):
            jit(note)(jnp.ones(2))
        jax.jit(note).lower(jnp.ones(3)), jax.jit(note).eval_shape(jnp.ones(4))
    finally:
        end()
    assert found and set(found) == {__name__}


def test_what_is_in_the_key_has_names():
    context = _jax_private.key_context()
    if jax.__version_info__ < (0, 10):
        assert context == {}
        return
    with jax.default_matmul_precision("highest"):
        inside = _jax_private.key_context()
    changed = {name for name in context if context[name] != inside[name]}
    assert changed == {"jax_default_matmul_precision"}
    names = {"mesh_context_manager", "xla_metadata_context_manager", "axis_env_state"}
    assert names <= set(context)


def test_calls_are_told_of_whoever_makes_them_and_cached_or_not():
    def double(x):
        return 2 * x

    def triple(x):
        return 3 * x

    told = []

    def note(function, args):
        told.append(_jax_private.as_filter_jit_was_given(function, args))

    x = jnp.ones(2)
    with jax.debug_nans(True):
        pass  # from now on this thread has a hook of its own, if only None
    end = _jax_private.watch_calls(note)
    assert end is not None
    try:
        jitted = jax.jit(double)
        list(map(jitted, [x, x, x]))
        jitted.lower(x)
        list(map(eqx.filter_jit(triple), [x, x]))
        with jax.debug_nans(True):
            jitted(x)
        jitted(x)
    finally:
        end()
    jitted(x)
    found = [f for f in told if f in (double, triple)]
    assert found == [*[double] * 3, *[triple] * 2, *[double] * 2]


def test_what_a_backward_pass_runs_is_told_from_what_a_call_runs():
    seen = []

    def pull(_, cotangent):
        seen.append(_jax_private.is_in_backward_pass())
        return (cotangent,)

    step = jax.custom_vjp(lambda x: x)
    step.defvjp(lambda x: (x, None), pull)
    jax.grad(step)(1.0)
    jax.grad(step)(jnp.ones(()))
    assert seen == [True, True]
    assert not _jax_private.is_in_backward_pass()


def test_jax_names_a_line_of_the_users_and_none_of_canonopt(caplog):
    with (
        canonopt.compile_log(),
        jax.explain_cache_misses(True),
        caplog.at_level(logging.WARNING, "jax"),
    ):
        jax.jit(lambda x: x)(jnp.ones(3))
    assert f"TRACING CACHE MISS at {__file__}" in caplog.text
    assert _jax_private.__file__ not in caplog.text


def test_without_a_way_to_leave_lines_out_misses_are_watched_all_the_same(monkeypatch):
    _jax_private._is_no_line_of_the_users.cache_clear()
    monkeypatch.delattr("jax._src.source_info_util.register_exclusion")
    with canonopt.compile_log() as log:
        end = _jax_private.watch_misses(lambda _: None, lambda *_: None)
        assert end is not None
        jax.jit(lambda x: x)(jnp.ones(3))
        end()
    assert log["<lambda>"].traces == 1
