"""The state of JAX now: whether it traces, runs a backward pass, or raises an error."""

import contextlib
import functools
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .._python_internals.callers import frames
from .._python_internals.libraries import is_library_code
from .settings import private


class NotTraced(Exception):
    """An exception that ends a trace before the function runs, so that the trace does not count."""


def is_staging() -> bool:
    """Return True if the code that runs now becomes part of a program, as under `jax.jit`.

    Relies on `unsafe_am_i_under_a_jit` of `jax._src.core`, which looks at the current trace and the
    ones around it. If it is gone, makes an array and asks whether the array is a tracer, which
    leaves an unused operation in the program.
    """
    try:
        return private("jax._src.core.unsafe_am_i_under_a_jit")()
    except TypeError:  # it is gone, or takes an argument
        return isinstance(jnp.zeros(()), jax.core.Tracer)


# Returns True if no transform of JAX runs now; always False if JAX has moved the function.
is_at_top_level: Callable[[], bool] = private("jax._src.core.trace_state_clean") or (lambda: False)


def makes_tracers() -> bool:
    """Return True if a new array is a tracer, even in `jax.ensure_compile_time_eval`.

    That is so inside of a `jax.shard_map` that runs eagerly, operation by operation.
    """
    if is_at_top_level():
        return False
    with jax.ensure_compile_time_eval():
        # Unlike other ways to make an array, `device_put` compiles nothing.
        return isinstance(jax.device_put(np.float32(0)), jax.core.Tracer)


def innermost_run() -> Literal["backward pass", "call", "compile"] | None:
    """Return which of these runs innermost: a backward pass, a jitted call, `Lowered.compile`.

    Returns None if none of them runs. Relies on the names of the functions that run them, in
    `jax._src.interpreters.ad`, `jax._src.pjit` and the module of `jax.stages.Lowered`.
    """
    for frame in frames():  # from the innermost outwards
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if module == "jax._src.interpreters.ad" and name.startswith("backward_pass"):
            return "backward pass"
        if module == "jax._src.pjit" and name == "cache_miss":
            return "call"
        if module == jax.stages.Lowered.__module__ and name == "compile":
            return "compile"
    return None


def library_callers() -> Iterator[str]:
    """Yield the packages of libraries that a jitted function was called through, innermost first.

    Stops at the user's code, and leaves out the modules that every jitted call passes through.
    """
    for frame in frames():
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_IN_EVERY_CALL):
            if not is_library_code(frame.f_code, frame.f_globals):
                return
            yield module.partition(".")[0]


_IN_EVERY_CALL = (
    *("canonopt._jax_internals", "canonopt._recompiles", "canonopt._steps.filter_jitting"),
    *(f"jax._src.{name}" for name in ("api", "pjit", "stages", "traceback_util")),
    *("equinox._jit", "equinox._module", "flax.nnx.transforms"),
)


class _Thread(threading.local):
    is_unwatched = False


_thread = _Thread()


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Hide the traces and compiles of this thread from listeners inside the block."""
    before, _thread.is_unwatched = _thread.is_unwatched, True
    try:
        yield
    finally:
        _thread.is_unwatched = before


def is_unwatched() -> bool:
    return _thread.is_unwatched


# --- events -----------------------------------------------------------------------------------


def listen(on_duration: Callable[..., None]) -> None:
    """Register a listener of `jax.monitoring` for durations, unless it is registered.

    Relies on `get_event_duration_listeners` of `jax._src.monitoring`, to notice that
    `jax.monitoring.clear_event_listeners` has removed the listener. If that function is gone, the
    listener is registered only once, and not again after the user clears the listeners.
    """
    listeners = private("jax._src.monitoring.get_event_duration_listeners")
    if on_duration not in (listeners() if listeners else _registered):
        _registered.add(on_duration)
        jax.monitoring.register_event_duration_secs_listener(on_duration)


_registered: set[Callable[..., None]] = set()
_seen_trace_events = 0
_latest_traces = _clearings = 0
_counting = threading.Lock()


def _on_duration(event: str, *_: object, **__: object) -> None:
    global _seen_trace_events
    if event.endswith("jaxpr_trace_duration"):
        _seen_trace_events += 1


def traces_so_far() -> int:
    """Return a number that grows with each trace in any thread, until JAX's caches are cleared.

    Relies on the cache around `trace_to_jaxpr`, which counts its misses. JAX before 0.9 does not
    have that count, but fires an event at each trace, nested traces too. Later versions do not fire
    an event for a nested trace.
    """
    global _clearings, _latest_traces
    traced = private("jax._src.interpreters.partial_eval.trace_to_jaxpr")
    info = getattr(traced, "cache_info", None)
    if info is None:
        listen(_on_duration)
        return _seen_trace_events
    with _counting:
        count = info().misses
        _clearings += count < _latest_traces
        _latest_traces = count
    return count


def clearings_so_far() -> int:
    """Return how often `traces_so_far` has noticed that JAX's caches were cleared.

    Clearing sets the count of traces to zero. Returns zero for JAX before 0.9, which has no count.
    """
    traces_so_far()
    return _clearings


def was_tracing(error: BaseException) -> bool:
    """Return True if an exception was raised while JAX traced a function.

    Relies on the name `trace_to_jaxpr`. The count of `traces_so_far` is not enough: if a function
    fails in every trace, JAX counts only the first one.
    """
    from jax._src.interpreters import partial_eval

    codes = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(
        code.co_name.startswith("trace_to_jaxpr") and code.co_filename == partial_eval.__file__
        for code in codes
    )


@functools.cache  # each call would append to lists of JAX
def hide_own_frames() -> None:
    """Make JAX hide the frames of canonopt's hooks where it hides its own.

    Then JAX names the user's line. Relies on `register_exclusion` of `jax._src.source_info_util`
    for logs, and of `jax._src.traceback_util` for tracebacks. If these are gone, JAX names a line
    of canonopt.
    """
    ours = os.path.dirname(__file__)
    if in_logs := private("jax._src.source_info_util.register_exclusion"):
        in_logs(ours + os.sep)
    if in_errors := private("jax._src.traceback_util.register_exclusion"):
        for folder in (ours, os.path.join(os.path.dirname(ours), "_recompiles")):
            in_errors(folder)
