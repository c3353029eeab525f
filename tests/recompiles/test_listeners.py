"""`compile_log`: what is counted and kept, what is patched meanwhile, and failures of canonopt."""

import contextlib
import functools
import gc
import re
import threading
import traceback
import weakref

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax._src import pjit

import canonopt
from canonopt._jax_internals import watching
from canonopt._recompiles import listeners

from ..support import counting
from ..support.counting import calls_of, fresh, in_threads
from ..support.scenarios import array, on_explicit_axes, ones

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


BACKWARD = {
    "at once": lambda f, x: jax.value_and_grad(f)(x),
    "later": lambda f, x: [pull(jnp.ones(())) for pull in [jax.vjp(f, x)[1] for _ in range(2)]],
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
    assert re.search(r"<lambda> +1 +1 \+ 1 backward +\d", str(log))


# --- blocks -----------------------------------------------------------------------------------


def test_blocks_that_end_in_another_order_than_they_began():
    first, second = canonopt.compile_log(), canonopt.compile_log()
    step, one, two = jax.jit(fresh()[0]), first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    step(ones(3))
    second.__exit__(None, None, None)
    assert (one["step"].traces, two["step"].traces) == (0, 1)
    assert listeners._active == []


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
        in_threads(*(functools.partial(work, i) for i in range(4)))
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
    step = jit(fresh()[0])
    watched, x = canonopt.assert_max_traces(step), jnp.asarray(ones(3))

    def run_by(function):
        """The functions of canonopt that a call runs."""
        return {name for file, name in calls_of(lambda: function(x)) if "canonopt" in file}

    with canonopt.compile_log():
        step(x), watched(x)
        assert {name for name in run_by(step) if "test_" not in name} == set()
        # The wrapper itself, and nothing at a miss.
        at_a_miss = {"MissWatch._wrapped.<locals>.watched", "_enter", "_leave", "call_of"}
        assert not run_by(watched) & at_a_miss


def test_nothing_is_kept_alive():
    class Model(eqx.Module):
        weight: jax.Array
        function: object = eqx.field(static=True)

    def make():
        function, _ = fresh()
        _ = jax.sharding.Mesh(np.array(jax.devices()), "data")
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
    assert [e.call.caller.variables for e in log["step"].entries] == [{}] * len(entries)
    del log
    for _ in range(4):  # so many logs are kept
        with canonopt.compile_log():
            jax.jit(fresh()[0])(ones(2))
    gc.collect()
    assert entries and [entry() for entry in entries] == [None] * len(entries)


# --- patches --------------------------------------------------------------------------------------


def patched():
    """Return what canonopt puts in place of something of JAX."""
    return pjit._infer_params, jax.stages.Traced.lower, jax.stages.Lowered.compile


def test_nothing_is_patched_unless_somebody_watches():
    before = patched()
    above = canonopt.assert_max_traces(jax.jit(fresh()[0]), mode="record")
    below = jax.jit(canonopt.assert_max_traces(fresh()[0], mode="record"))
    compiles = canonopt.assert_max_compiles(jax.jit(fresh()[0]), mode="record")
    assert patched() == before
    for watched in (above, below, compiles):
        watched(ones(1)), watched(ones(2))
        assert patched() == before
    with canonopt.compile_log(), canonopt.compile_log(all_threads=True):
        assert patched()[0] is not before[0]
    assert patched() == before
    assert (above.log.traces, compiles.log.compiles) == (2, 2)


def test_a_watch_that_another_tool_has_wrapped_is_left_in_place(monkeypatch):
    calls, below = [], pjit._infer_params

    def wrap():
        inner = pjit._infer_params

        def tool(fun, ji, args, kwargs):
            calls.append(fun)
            return inner(fun, ji, args, kwargs)

        monkeypatch.setattr(pjit, "_infer_params", tool)
        return tool

    with canonopt.compile_log() as log:
        tool = wrap()
        jax.jit(fresh()[0])(ones(1))
    assert pjit._infer_params is tool
    with canonopt.compile_log() as again:  # on top of the tool, with the first one still below
        step = jax.jit(fresh()[0])
        step(ones(1)), step(ones(2))
    assert pjit._infer_params is tool
    step(ones(3))
    assert (log["step"].traces, again["step"].traces, again["step"].compiles) == (1, 2, 2)
    assert len(calls) >= 4
    monkeypatch.undo()
    assert pjit._infer_params is not below  # what the tool found there, which does nothing more
    pjit._infer_params = below


@pytest.mark.parametrize("where", ["between blocks", "in a block"])
def test_counting_goes_on_after_the_listeners_were_cleared(where):
    from jax._src import monitoring

    registered = monitoring.get_event_duration_listeners(), monitoring.get_event_listeners()
    try:
        if where == "between blocks":
            jax.monitoring.clear_event_listeners()
        with canonopt.compile_log() as log:
            if where == "in a block":
                jax.monitoring.clear_event_listeners()
            step = jax.jit(fresh()[0])
            step(ones(1)), step(ones(2))
    finally:
        jax.monitoring.clear_event_listeners()
        for each in registered[0]:
            jax.monitoring.register_event_duration_secs_listener(each)
        for each in registered[1]:
            jax.monitoring.register_event_listener(each)
    assert (log["step"].traces, log["step"].compiles) == (2, 2)


# --- failures of canonopt itself ----------------------------------------------------------------


def fail(*_, **__):
    raise RuntimeError("a mistake")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((listeners, n) for n in ("_count", "is_helper", "innermost_run")),
        (listeners, "call_of_miss"),
        *((watching, n) for n in ("_miss", "users_call")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_fails_the_step_runs(monkeypatch, module, name):
    monkeypatch.setattr(module, name, fail)
    step = jax.jit(fresh()[0])
    watched = canonopt.assert_max_traces(step)
    with canonopt.compile_log() as log:
        np.testing.assert_array_equal(watched(ones(1)), 2)
    assert log.problems == ["RuntimeError: a mistake"]
    assert "canonopt failed, so something may be missing: RuntimeError: a mistake" in str(log)
    assert listeners._thread.running == []


def test_a_comparison_that_fails_is_named_in_the_explanation(monkeypatch):
    monkeypatch.setattr("canonopt._recompiles.log.explain", fail)
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        step(ones(1)), step(ones(2))
    text = "canonopt failed to compare the calls: RuntimeError('a mistake')"
    assert str(log["step"].entries[1].told) == text
    assert text in str(log)


# --- tracebacks ---------------------------------------------------------------------------------


def frames(call):
    """The files and functions in the traceback of what a call raises."""
    with pytest.raises(ValueError, match="no such thing") as caught:
        call()
    found = traceback.extract_tb(caught.value.__traceback__)
    return [(frame.filename, frame.name) for frame in found]


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit])
def test_a_traceback_has_no_frame_of_canonopt(jit):
    def step(x):
        raise ValueError("no such thing")

    call = functools.partial(jit(step), 1.0)
    plain = frames(call)
    with canonopt.compile_log():
        assert frames(call) == plain
    below = jit(canonopt.assert_max_traces(step, mode="record"))
    assert not [file for file, _ in frames(lambda: below(1.0)) if "/canonopt/" in file]


def test_a_log_that_begins_after_the_first_call_says_so():
    step = jax.jit(fresh()[0])
    step(ones(1))
    with canonopt.compile_log() as log:
        step(ones(2))
    assert (log["step"].traces, log["step"].compiles) == (1, 1)
    assert str(log).endswith("\nwithout a recompile in this log: step")
    assert str(log["step"].entries[0].told) == "there is no earlier call to compare with"
    with canonopt.compile_log() as log:
        step(jax.device_put(ones(1), jax.devices()[0]))
    assert (log["step"].traces, log["step"].compiles) == (0, 1)
    text = "\ntraced before this log, and traced or compiled in it: step\n  hint: start the log"
    assert text in str(log)
    with canonopt.compile_log() as another:
        step(ones(3))
    assert text in str(another)
    with canonopt.compile_log() as log:
        step(ones(1))
    assert str(log).endswith("\nnothing was traced or compiled in this log")


@pytest.mark.slow
def test_explanations_are_made_when_somebody_asks(monkeypatch):
    from canonopt._recompiles import log as logs

    made, explain = [], logs.explain
    monkeypatch.setattr(logs, "explain", lambda *a: made.append(a) or explain(*a))
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        for size in range(1, 20):
            step(array(size))
    assert made == []
    assert len(log["step"].causes()) == 1
    assert len(made) == 18
    assert max(len(earlier) for _, earlier in made) == 16
    log["step"].causes(), str(log)
    assert len(made) == 18
