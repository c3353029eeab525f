"""`compile_log`: what is counted, what is kept apart, and what is neither kept nor slowed down."""

import contextlib
import functools
import gc
import sys
import threading
import weakref

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx

import canonopt
from canonopt._recompiles import listeners

from ..support import counting
from ..support.counting import fresh
from ..support.scenarios import on_explicit_axes, ones

# --- counts by function -----------------------------------------------------------------------


# What to make of a function, and what calls lead to: traces and compiles.
KINDS = {
    "jit": (lambda f: [jax.jit(f)] * 2, (1, 1)),
    "filter_jit": (lambda f: [eqx.filter_jit(f)] * 2, (1, 1)),
    "nnx.jit": (lambda f: [nnx.jit(f)] * 2, (1, 1)),
    "pmap": (lambda f: [jax.pmap(f)] * 2, (1, 1)),
    "jit of jit": (lambda f: [jax.jit(jax.jit(f))] * 2, (1, 1)),
    "filter_jit of filter_jit": (lambda f: [eqx.filter_jit(eqx.filter_jit(f))] * 2, (1, 1)),
    "jit of vmap": (lambda f: [jax.jit(jax.vmap(f))] * 2, (1, 1)),
    "vmap of jit": (lambda f: [jax.vmap(jax.jit(f))], (1, 1)),
    # Equinox itself asks for the shapes that come out, by another trace.
    "filter_pmap of jit": (lambda f: [eqx.filter_pmap(jax.jit(f))] * 2, (2, 1)),
    "pmap of jit": (lambda f: [jax.pmap(jax.jit(f))] * 2, (1, 1)),
    "filter_pmap": (lambda f: [eqx.filter_pmap(f)] * 2, (2, 1)),
    "explicit mesh": (lambda f: [on_explicit_axes(jax.jit(f))] * 2, (1, 1)),
    "lower": (lambda f: [jax.jit(f).lower], (1, 0)),
    "lower and compile": (lambda f: [lambda x: jax.jit(f).lower(x).compile()], (1, 1)),
    "eval_shape": (lambda f: [functools.partial(jax.eval_shape, f)], (1, 0)),
    "eval_shape of jit": (lambda f: [functools.partial(jax.eval_shape, jax.jit(f))], (1, 0)),
    "no jit": (lambda f: [f, jax.vmap(f)], (0, 0)),
    "jit again": (lambda f: [jax.jit(f), jax.jit(f)], (1, 1)),
    "jit again with options": (lambda f: [jax.jit(f), jax.jit(f, donate_argnums=0)], (1, 2)),
}


@pytest.mark.parametrize(("kind", "expected"), KINDS.values(), ids=KINDS)
def test_counts(kind, expected):
    function, runs = fresh()
    calls = kind(function)
    with canonopt.compile_log() as log:
        for call in calls:
            call(ones(8, 2))
    step = log["step"]
    assert (step.traces, step.compiles) == expected
    assert len(runs) == expected[0] or expected == (0, 0)
    if expected != (0, 0):
        assert [found.name for found in log.functions] == ["step"]
        assert step.place.startswith(f"{counting.__file__}:")
        assert step.seconds > 0
        assert step.trace_seconds > 0
        assert (step.compile_seconds > 0) == (expected[1] > 0)


def dense():
    layer = flax.linen.Dense(3)
    params = layer.init(jax.random.key(0), ones(1, 2))
    return lambda: jax.jit(layer.apply)(params, ones(1, 2))


def mlp(under=lambda f: f):
    model = eqx.nn.MLP(2, "scalar", 4, 2, key=jax.random.key(0))
    return lambda: under(eqx.filter_jit(model))(jnp.ones(2))


OF_LIBRARIES = {
    "MLP": mlp,
    "MLP under grad": lambda: mlp(eqx.filter_grad),
    "apply": dense,
    "squared_error": lambda: lambda: jax.jit(optax.squared_error)(ones(2)),
    "squared_error under grad": lambda: lambda: jax.grad(jax.jit(optax.squared_error))(1.0),
    "l2_loss": lambda: lambda: eqx.filter_grad(jax.jit(optax.l2_loss))(1.0),
    "l2_loss of a partial": lambda: lambda: jax.jit(functools.partial(optax.l2_loss))(ones(2)),
    "init_fn": lambda: lambda: jax.jit(optax.adam(1.0).init)(ones(2)),
    "init": lambda: (
        lambda: jax.jit(jax.nn.initializers.normal(), static_argnums=1)(jax.random.key(0), (3,))
    ),
    "apply_updates": lambda: lambda: eqx.filter_jit(eqx.apply_updates)(ones(2), ones(2)),
    "softmax": lambda: lambda: nnx.jit(nnx.softmax)(ones(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "make"), OF_LIBRARIES.items(), ids=OF_LIBRARIES)
def test_a_jitted_library_function_or_layer_is_the_users(what, make):
    jax.clear_caches()
    call = make()
    with canonopt.compile_log() as log:
        call()
    assert [(f.name, f.traces) for f in log.functions] == [(what.partition(" ")[0], 1)]
    assert log.functions[0].entries[0].call is not None


TRACED_FIRST = {
    "inside of another": lambda f, x: jax.jit(lambda x: f(x) + 1)(x),
    "eval_shape": jax.eval_shape,
    "make_jaxpr": lambda f, x: jax.make_jaxpr(f)(x),
    "lower": lambda f, x: f.lower(x),
}


@pytest.mark.parametrize("first", TRACED_FIRST.values(), ids=TRACED_FIRST)
def test_a_later_compile_of_a_known_trace_is_no_recompile(first):
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        first(step, ones(3))
        step(ones(3))
    found = log["step"]
    assert (found.traces, found.compiles) == (1, 1)
    assert (found.recompiles, found.causes(), found.lost_seconds) == ([], [], 0.0)
    assert "again" not in str(log)


def twice_and_then_backward(f, x):
    for pull in [jax.vjp(f, x)[1] for _ in range(2)]:
        pull(jnp.ones(()))


BACKWARD = {
    "at once": lambda f, x: jax.value_and_grad(f)(x),
    "later": twice_and_then_backward,
    "jitted twice": lambda f, x: jax.grad(jax.jit(f))(x),
}


@pytest.mark.parametrize("differentiate", BACKWARD.values(), ids=BACKWARD)
def test_a_backward_pass_is_counted_apart(differentiate):
    step = jax.jit(lambda x: jnp.sum(x**2))
    with canonopt.compile_log() as log:
        for _ in range(3):
            differentiate(step, jnp.asarray(ones(3)))
    (found,) = log.functions
    assert (found.traces, found.compiles, found.backward_compiles) == (1, 1, 1)
    assert (found.causes(), found.lost_seconds) == ([], 0.0)
    assert found.seconds > found.trace_seconds
    assert log[found.name].backward_compiles == 1


def test_a_function_that_a_backward_pass_calls_counts_as_any_other():
    @jax.custom_vjp
    def step(x):
        return x * 2

    pull = jax.jit(lambda cotangent: cotangent * 2)
    step.defvjp(lambda x: (x * 2, None), lambda _, cotangent: (pull(cotangent),))
    with canonopt.compile_log() as log:
        jax.vjp(step, jnp.asarray(ones(3)))[1](jnp.asarray(ones(3)))
        committed = jax.device_put(ones(3), jax.devices()[0])
        jax.vjp(step, committed)[1](committed)
    found = log["<lambda>"]
    assert (found.traces, found.compiles, found.backward_compiles) == (1, 2, 0)


# --- blocks -----------------------------------------------------------------------------------


def test_nested_blocks():
    one, two, three = (jax.jit(fresh(name)[0]) for name in ("one", "two", "three"))
    with canonopt.compile_log() as outer:
        one(ones(3))
        with canonopt.compile_log() as inner:
            two(ones(3))
        three(ones(3))
    one(ones(4))
    assert [found.name for found in outer.functions] == ["one", "two", "three"]
    assert [found.name for found in inner.functions] == ["two"]
    assert outer["one"].traces == 1


def test_blocks_that_end_in_another_order_than_they_began():
    first, second = canonopt.compile_log(), canonopt.compile_log()
    step, one, two = jax.jit(fresh()[0]), first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    step(ones(3))
    second.__exit__(None, None, None)
    assert (one["step"].traces, two["step"].traces) == (0, 1)
    assert listeners._active == []


def test_what_is_compiled_after_the_block_is_not_in_it():
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        lowered = step.lower(ones(3))
    lowered.compile()
    jax.jit(fresh()[0])(ones(3))  # another of the same name
    assert (log["step"].traces, log["step"].compiles) == (1, 0)


@pytest.mark.parametrize("all_threads", [False, True])
def test_blocks_in_threads(all_threads):
    logs, barrier = {}, threading.Barrier(4)

    def work(i):
        step = jax.jit(fresh(f"step{i}")[0])
        with canonopt.compile_log(all_threads=all_threads) as log:
            barrier.wait()
            for size in range(1, 4):
                step(ones(size))
            barrier.wait()
        logs[i] = log

    with canonopt.compile_log() as outside:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outside.functions == []
    for i, log in logs.items():
        seen = range(4) if all_threads else [i]
        counts = {found.name: (found.traces, found.compiles) for found in log.functions}
        assert counts == {f"step{j}": (3, 3) for j in seen}


def test_an_exception_in_a_block_leaves_nothing_behind():
    step = jax.jit(fresh()[0])
    for all_threads in (False, True):
        with contextlib.suppress(KeyError), canonopt.compile_log(all_threads=all_threads) as log:
            step(ones(1))
            raise KeyError
        step(ones(2 + all_threads))
        assert log["step"].traces <= 1
        assert listeners._active == []
        assert listeners._thread.running == []


# --- what it costs and what it keeps ----------------------------------------------------------


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit])
def test_a_cached_call_runs_none_of_the_listeners(jit):
    step, profiled = jit(fresh()[0]), set()
    plain, watched = step, canonopt.assert_max_traces(step)
    x = jnp.asarray(ones(3))

    def profile(frame, event, _):
        if event == "call" and "canonopt" in frame.f_code.co_filename:
            profiled.add(frame.f_code.co_qualname)

    with canonopt.compile_log():
        plain(x), watched(x)
        sys.setprofile(profile)
        try:
            plain(x)
        finally:
            sys.setprofile(None)
        assert {name for name in profiled if "test_" not in name} == set()
        sys.setprofile(profile)
        try:
            watched(x)
        finally:
            sys.setprofile(None)
    # The wrapper itself, and nothing at a miss.
    assert not profiled & {"watch_misses.<locals>.watched", "_enter", "_leave", "call_of"}


def test_nothing_is_kept_alive():
    class Model(eqx.Module):
        weight: jax.Array
        function: object = eqx.field(static=True)

    def make():
        function, _ = fresh()
        model = Model(jnp.ones((64, 64)), fresh("inner")[0])
        jitted = jax.jit(lambda model: model.function(model.weight))
        filtered = eqx.filter_jit(fresh()[0])  # which equinox itself keeps
        watched = canonopt.assert_max_traces(jax.jit(function), 9)
        jitted(model), filtered(model.weight), watched(model.weight)
        return [weakref.ref(o) for o in (model.weight, function, model.function)]

    with canonopt.compile_log() as log:
        references = make()
        jax.clear_caches()
        gc.collect()
        assert [reference() is None for reference in references] == [True] * 3
    entries = [weakref.ref(entry) for entry in log["step"].entries]
    del log
    gc.collect()
    assert entries and [entry() for entry in entries] == [None] * len(entries)
