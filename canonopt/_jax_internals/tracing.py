"""What JAX is doing now: tracing, running a backward pass, raising, and for which caller."""

import contextlib
import functools
import inspect
import os
import traceback
import types
from collections.abc import Iterator

import jax
import jax.core
import jax.numpy as jnp


def is_staging() -> bool:
    """Whether what runs now becomes part of a program, as a body under `jax.jit` does.

    Relies on `unsafe_am_i_under_a_jit` of `jax._src.core`, which looks at the current trace and
    those around it. Later versions have it in `jax.extend` under another name. Falls back to making
    an array and asking whether it is a tracer, which leaves an unused operation in the program.
    """
    try:
        from jax._src.core import unsafe_am_i_under_a_jit

        return unsafe_am_i_under_a_jit()
    except (ImportError, TypeError):
        return isinstance(jnp.zeros(()), jax.core.Tracer)


def is_in_backward_pass() -> bool:
    """Whether JAX runs a backward pass now, and not a call of a jitted function inside of one.

    Relies on the names of the functions that run them, in `jax._src.interpreters.ad` and
    `jax._src.pjit`.
    """
    # From the innermost frame outwards: the nearer of the two is what runs now.
    for frame in _frames():
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if module == "jax._src.interpreters.ad" and name.startswith("backward_pass"):
            return True
        if module == "jax._src.pjit" and name == "cache_miss":
            return False
    return False


def is_call() -> bool:
    """Whether JAX looks for a trace in order to run it, not only to lower it or to see its shapes.

    Relies on the names of the functions of `jax._src.pjit` that run one.
    """
    # The first frame outside of this package called `_infer_params`.
    outside = (f for f in _frames() if f.f_globals.get("__package__") != __package__)
    return next(outside).f_code.co_name in ("cache_miss", "_python_pjit_helper")


def callers() -> Iterator[str]:
    """The modules that a call of a jitted function came through, from the innermost outwards.

    Without those that every such call comes through.
    """
    modules = (str(frame.f_globals.get("__name__")) for frame in _frames())
    return (module for module in modules if not module.startswith(_IN_EVERY_CALL))


_IN_EVERY_CALL = (
    *("canonopt._jax_internals", "canonopt._recompiles", "canonopt._steps.filter_jitting"),
    *(f"jax._src.{name}" for name in ("api", "pjit", "stages", "traceback_util")),
    *("contextlib", "equinox._jit", "equinox._module", "flax.nnx.transforms"),
)


def _frames() -> Iterator[types.FrameType]:
    """The frames of this thread, from the caller's outwards."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


# --- traces -----------------------------------------------------------------------------------

_seen_trace_events = 0


@functools.cache  # once
def listen_for_traces() -> None:
    jax.monitoring.register_event_duration_secs_listener(_on_duration)


def _on_duration(event: str, *_: object, **__: object) -> None:
    global _seen_trace_events
    if event.endswith("jaxpr_trace_duration"):
        _seen_trace_events += 1


def traces_so_far() -> int:
    """A number that grows with each trace of a function, in any thread.

    Relies on the cache around `trace_to_jaxpr`, which counts its misses. JAX before 0.9 has no such
    count, but fires an event at each trace, nested ones too. Later versions fire none for a nested
    trace.
    """
    from jax._src.interpreters import partial_eval

    info = getattr(getattr(partial_eval, "trace_to_jaxpr", None), "cache_info", None)
    return _seen_trace_events if info is None else info().misses


def was_tracing(error: BaseException) -> bool:
    """Whether an exception was raised while JAX traced a function.

    Relies on the name `trace_to_jaxpr`. The count above does not do: a function that fails each
    time is a miss of the cache of traces only once.
    """
    from jax._src.interpreters import partial_eval

    return any(
        code.co_name.startswith("trace_to_jaxpr") and code.co_filename == partial_eval.__file__
        for code in codes_of(error)
    )


def codes_of(error: BaseException) -> Iterator[types.CodeType]:
    """The code of each frame in the traceback of an exception."""
    return (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))


@functools.cache  # JAX keeps a list
def hide_own_frames() -> None:
    """Makes JAX name the line of the user, not one of this package, in its logs for example.

    Relies on `register_exclusion` of `jax._src.source_info_util`. If it is gone, JAX names a line
    of this package.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import source_info_util

        source_info_util.register_exclusion(os.path.dirname(__file__) + os.sep)
