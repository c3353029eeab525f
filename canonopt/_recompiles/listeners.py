"""Listens to JAX for traces and compiles, and tells the recorders that are active.

All of this runs at a miss of a jit cache, where JAX is slow anyway. A cached call runs none of it.
"""

import contextlib
import contextvars
import functools
import inspect
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs
import jax
import numpy as np

from .._jax_internals import (
    Miss,
    callers,
    default_settings,
    functions_inside,
    is_in_backward_pass,
    is_jitted,
    is_staging,
    name_in_events,
    unsupported,
    watch_misses,
    watch_stages,
)
from .._python_internals import WeakIdMap
from .call_key import (
    CallKey,
    call_key_of,
    is_helper,
    name_of,
    record_of_jitted,
    users_function,
)
from .differences import FUNCTION_PATH
from .log import (
    MAX_ENTRIES,
    Compile,
    CompileLog,
    Entry,
    FunctionLog,
    LogRecorder,
    Recorder,
)


@contextlib.contextmanager
def compile_log(*, all_threads: bool = False) -> Iterator[CompileLog]:
    """Counts, by function, what is traced and compiled inside the block, whoever jitted it.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> @jax.jit
    ... def double(x):
    ...     return 2 * x
    >>> with canonopt.compile_log() as log:
    ...     for n in (1, 2, 2):
    ...         _ = double(jnp.ones(n))
    >>> log["double"].traces, log["double"].compiles
    (2, 2)
    >>> print(log["double"].recompiles[0].explanation)
    x: shape: float32[1] -> float32[2]
      hint: pad or drop what is left over, so that x has one shape

    ```

    A trace is one run of the Python body. Runs inside another trace, by `.lower()` and by
    `jax.eval_shape` count, and so do those that fail. A compile is one XLA compile. If JAX's
    persistent cache has the program, it is a cache hit instead. The backward pass that `jax.grad`
    makes of a jitted function is a program of its own, counted in `backward_compiles`.

    **Arguments:**

    - `all_threads`: whether to count what other threads do in the meantime, too.

    **Returns:** a context manager that gives a `CompileLog`: `log[name]` for a function's counts,
    `log.functions`, `log.helpers` for what JAX and libraries jit themselves, and `print(log)` for
    a table with what differed each time.

    **Raises:** `UnsupportedVersionError` if JAX has changed so that canonopt cannot count: at the
    start, or at the end if JAX reported no compiles.
    """
    with recording(all_threads) as log:
        yield log
    check_compiles()


@contextlib.contextmanager
def recording(all_threads: bool) -> Iterator[CompileLog]:
    """As `compile_log`, without `check_compiles` at the end."""
    watch()
    log = CompileLog()
    recorder = LogRecorder(log)
    if all_threads:
        _everywhere.append(recorder)
    try:
        with active(recorder):
            yield log
    finally:
        recorder.is_closed = True
        if all_threads:
            _everywhere.remove(recorder)


class active:
    """Has a recorder record what this thread does inside the block.

    A class, since a generator would be slower, and each call of a watched function runs this.
    """

    __slots__ = ("_is_outermost", "_recorder")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        others = _active.get()
        self._is_outermost = self._recorder not in others  # a watched function may call itself
        if self._is_outermost:
            _active.set((*others, self._recorder))

    def __exit__(self, *_: object) -> None:
        # Not by a token: blocks may end in another order than they began.
        if self._is_outermost:
            _active.set(tuple(each for each in _active.get() if each is not self._recorder))


_active: contextvars.ContextVar[tuple[Recorder, ...]] = contextvars.ContextVar(
    "canonopt_recorders", default=()
)
_everywhere: list[Recorder] = []


def _recorders() -> list[Recorder]:
    here = _active.get()
    return [*here, *(each for each in _everywhere if each not in here)]


# --- what JAX is doing ------------------------------------------------------------------------

# An entry of a recorder, with the log that it is in.
_Recorded: TypeAlias = tuple[Recorder, FunctionLog, Entry]


@attrs.define(eq=False)
class _Running:
    """A miss that JAX is working on."""

    miss: Miss
    logs: list[tuple[Recorder, FunctionLog]]
    call_key: CallKey | None
    started: float
    # An exception that was being handled before, and so is not this miss's error.
    handled: BaseException | None
    inner_seconds: float = 0.0


class _Thread(threading.local):
    """What JAX is doing in this thread.

    JAX compiles in the thread of the call, and reports a compile with nothing but a name. All else
    about it has to be kept here from the miss before.
    """

    def __init__(self) -> None:
        # Misses inside misses, outermost first.
        self.running: list[_Running] = []
        # What was looked up and may be compiled next, by name. Kept until something else has the
        # name, and so without arguments, and with weak references to recorders.
        self.ready: dict[str, list[tuple[weakref.ref[Recorder], FunctionLog, Entry]]] = {}
        # What `.compile()` is compiling.
        self.lowered: Any = None
        # Whether the persistent cache had what is reported next: JAX has two events for a hit.
        self.is_hit = False


_thread = _Thread()
_is_watching = False
_lock = threading.Lock()


def watch() -> None:
    """Starts listening, once and for good. Cached calls cost the same as before.

    Raises `UnsupportedVersionError`, at each call, if JAX does not report its traces.
    """
    global _is_watching
    with _lock:
        if not _is_watching:
            watch_misses(_enter, _leave)
            _listen()
            _is_watching = True


@functools.cache  # once
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_on_duration)
    jax.monitoring.register_event_listener(_on_event)
    watch_stages(_lowered, _compiling)


# Whether JAX has reported a compile with the name of its function, and whether it should have,
# since a call has traced a function.
_is_compile_seen = False
_is_compile_due = False


def check_compiles() -> None:
    """Raises `UnsupportedVersionError` if functions were traced and JAX reported no compile.

    There may have been none, if it failed. So this compiles a small function to find out, once.
    """
    global _is_compile_due
    # In a trace, nothing would be compiled: the small function would become part of the trace.
    if _is_compile_seen or not _is_compile_due or is_staging():
        return
    _is_compile_due = False
    try:
        with active(LogRecorder(CompileLog())), default_settings():
            jax.jit(lambda: np.zeros(()))()
    except Exception:  # without a device nothing has been compiled before, either
        return
    if not _is_compile_seen:
        _is_compile_due = True
        raise unsupported("the event of a compile in jax.monitoring")


# --- at a miss --------------------------------------------------------------------------------


def _enter(miss: Miss) -> _Running:
    running = _Running(miss, [], None, 0.0, sys.exception())
    _thread.running.append(running)
    if recorders := _recorders():
        function = users_function(miss.function)
        by_library = is_helper(function, callers())
        name = name_of(function)
        found = [(each, each.log_of(name, function, by_library)) for each in recorders]
        running.logs = [(recorder, log) for recorder, log in found if log is not None]
        if any(recorder.explains_helpers or not by_library for recorder, _ in running.logs):
            running.call_key = _call_key(miss, function)
    # Last, so that the time does not include making the call key.
    running.started = time.perf_counter()
    return running


def _leave(running: _Running, traced: bool, program: Any) -> None:
    global _is_compile_due
    seconds = time.perf_counter() - running.started
    # If what is jitted is jitted itself, its body is traced by another miss, if at all.
    traced = traced and not (running.logs and _is_jitted_inside(running.miss.function))
    stack = _thread.running
    stack.remove(running)
    if stack:
        stack[-1].inner_seconds += seconds
    elif traced and running.miss.is_call and running.logs and not _is_compile_seen:
        _is_compile_due = True
    failure = sys.exception()
    is_new = failure is not None and failure is not running.handled
    error = f"{type(failure).__name__}: {failure}" if is_new else None
    if running.call_key is not None:
        running.call_key.note_returned(getattr(program, "out_avals", ()))
    found: list[_Recorded] = []
    for recorder, log in running.logs:
        entry = Entry(running.call_key, running.started, traced)
        found.append((recorder, log, entry))
        if traced:
            entry.trace_seconds = seconds - running.inner_seconds
            entry.error = error
            recorder.add_trace(log, entry)
    ready, name = _thread.ready, name_in_events(running.miss.jitted)
    # Also if nobody records this miss: a compile of this name no longer belongs to the earlier one.
    # And a name that is set again moves to the end, since the first in the order is dropped first.
    ready.pop(name, None)
    if found:
        ready[name] = [(weakref.ref(recorder), log, entry) for recorder, log, entry in found]
        while len(ready) > MAX_ENTRIES:
            ready.pop(next(iter(ready)))
        if program is not None:
            _remember(program, found)
    # Last, because an assertion may raise: by now every recorder has counted.
    for recorder, log, entry in found:
        recorder.after_miss(log, entry, program)


def _is_jitted_inside(function: Any) -> bool:
    """Whether what JAX is given is jitted already, as in `jax.pmap(jax.jit(f))`."""
    if is_jitted(function):
        return True
    user = users_function(function)
    jitted = (f for f in functions_inside(function) if is_jitted(f))
    # What is jitted may be another function that JAX was given, for example as an argument.
    return any(user is f for each in jitted for f in functions_inside(each))


# The recorders that remember a jaxpr, or what it was lowered to.
_recorders_of: WeakIdMap[list[weakref.ref[Recorder]]] = WeakIdMap()


def _remember(program: Any, found: list[_Recorded]) -> None:
    _recorders_of.set(program, [weakref.ref(recorder) for recorder, _, _ in found])
    for recorder, log, entry in found:
        recorder.remember(program, log, entry)


def _recall(program: Any) -> list[_Recorded]:
    recorders = [reference() for reference in _recorders_of.get(program) or ()]
    found = [(recorder, recorder.recall(program)) for recorder in recorders if recorder]
    return [(recorder, *known) for recorder, known in found if known]


# --- at a compile -----------------------------------------------------------------------------


def _lowered(jaxpr: Any, lowered: Any) -> None:
    found = _recall(jaxpr)
    if found:
        _remember(lowered, found)
    # The call that lowered this by hand does not compile it.
    entries = [entry for _, _, entry in found]
    for name, ready in list(_thread.ready.items()):
        if any(entry in entries for _, _, entry in ready):
            del _thread.ready[name]


@contextlib.contextmanager
def _compiling(lowered: Any) -> Iterator[None]:
    _thread.lowered = lowered
    try:
        yield
    finally:
        _thread.lowered = None


def _on_event(event: str, **_: Any) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        _thread.is_hit = True


def _on_duration(event: str, duration_secs: float, **about: Any) -> None:
    global _is_compile_seen
    if event.endswith("cache_retrieval_time_sec"):
        _thread.is_hit = True
    if not event.endswith("backend_compile_duration"):
        return
    is_hit, _thread.is_hit = _thread.is_hit, False
    name = str(about.get("fun_name", "")).removeprefix("jit(").removesuffix(")") or "?"
    name = name.replace("unnamed wrapped", "unnamed")  # before JAX 0.9
    is_by_hand = _thread.lowered is not None
    found = _recall(_thread.lowered) if is_by_hand else _ready(name)
    compiled = Compile(duration_secs, is_hit, is_by_hand, is_in_backward_pass())
    _is_compile_seen = _is_compile_seen or bool(found)
    here = _recorders()
    for recorder in here:
        if not any(recorder is other for other, _, _ in found):
            helper = recorder.log_of(name, None, True)
            if helper is not None:
                recorder.add_compile(helper, compiled)
    counted = []
    for recorder, log, entry in found:
        if not recorder.is_closed:
            counted.append((recorder, log, recorder.add_compile(log, compiled, entry)))
    for recorder, log, entry in counted:
        # Without a block or `.compile()`, the compile is part of a call that ended long ago.
        if entry is not None and not is_hit and (recorder in here or is_by_hand):
            recorder.after_compile(log, entry)


def _ready(name: str) -> list[_Recorded]:
    """The entries that may be compiled next under this name, of recorders that are alive."""
    ready = [(reference(), log, entry) for reference, log, entry in _thread.ready.get(name, ())]
    return [(recorder, log, entry) for recorder, log, entry in ready if recorder is not None]


def _call_key(miss: Miss, function: Any) -> CallKey | None:
    try:
        if function is not miss.function:  # JAX may have flattened the arguments
            with contextlib.suppress(TypeError):
                inspect.signature(function).bind(*miss.args, **miss.kwargs)
                miss = attrs.evolve(miss, function=function)
        key = call_key_of(
            miss.function,
            miss.args,
            miss.kwargs,
            is_static=miss.is_static,
            filtered=miss.filtered,
            options=miss.options,
        )
        record = record_of_jitted(function, miss.program, miss.filtered)
        return attrs.evolve(key, records={FUNCTION_PATH: record, **key.records})
    except Exception:  # an explanation is not worth a failing step
        return None
