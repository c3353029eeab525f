"""The patches of a log and their times, what it keeps, and failures in canonopt itself."""

import functools
import traceback

import equinox as eqx
import jax
import numpy as np
import pytest
from jax._src import pjit

import canonopt
from canonopt._jax_internals import watching
from canonopt._recompiles import listeners

from ..support.counting import fresh
from ..support.scenarios import array, ones


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


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((listeners, n) for n in ("_count", "is_helper", "is_in_backward_pass")),
        (listeners, "call_of_miss"),
        *((watching, n) for n in ("_miss", "call_of_filter_jit")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_fails_the_step_runs(monkeypatch, module, name):
    def fail(*_, **__):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(module, name, fail)
    step = jax.jit(fresh()[0])
    watched = canonopt.assert_max_traces(step)
    with canonopt.compile_log() as log:
        np.testing.assert_array_equal(watched(ones(1)), 2)
    assert log.problems == ["RuntimeError: a mistake"]
    assert "canonopt failed to find something out: RuntimeError: a mistake" in str(log)
    assert listeners._thread.running == []


def test_a_comparison_that_fails_is_named_in_the_explanation(monkeypatch):
    def fail(*_):
        raise RuntimeError("a mistake")

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
    above = canonopt.assert_max_traces(jit(step), mode="record")
    below = jit(canonopt.assert_max_traces(step, mode="record"))
    for watched in (above, below):
        found = frames(lambda: watched(1.0))  # noqa: B023
        assert not [file for file, _ in found if "/canonopt/" in file]


def test_a_log_that_begins_after_the_first_call_says_so():
    step = jax.jit(fresh()[0])
    step(ones(1))
    with canonopt.compile_log() as log:
        step(ones(2))
    assert (log["step"].traces, log["step"].compiles) == (1, 1)
    assert str(log).endswith("\nno recompile in this log, only a first compile: step")
    assert str(log["step"].entries[0].told) == "there is no earlier call to compare with"


def test_a_log_says_what_it_cannot_explain():
    step = jax.jit(fresh()[0])
    step(ones(1))
    with canonopt.compile_log() as log:
        step(jax.device_put(ones(1), jax.devices()[0]))
    assert (log["step"].traces, log["step"].compiles) == (0, 1)
    assert "\ntraced before this log and compiled in it: step\n  hint: let the log begin" in str(
        log
    )
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
