"""Traces and compiles, counted by function: what `compile_log` and the assertions go by.

Everything is noted at a miss of a jit cache, where JAX does the slow thing anyway. A call that is
cached runs none of this.
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
from typing import Any

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
from .call_key import Signature, signature_of
from .differences import FUNCTION
from .log import (
    ENTRIES,
    CompileLog,
    Entry,
    FunctionLog,
)
from .ownership import (
    is_helper,
    name_of,
    users_function,
)
from .statics import static_of


@contextlib.contextmanager
def compile_log(*, all_threads: bool = False) -> Iterator[CompileLog]:
    """Counts, by function, what is traced and compiled inside of the block, whoever jitted it.

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
      write: pad or drop what is left over, so that x has one shape

    ```

    A trace is one run of the Python body, also of a function that is traced inside of another, by
    `.lower()` or by `jax.eval_shape`, and one that fails. A compile is one compile by XLA; where
    JAX's persistent cache had the program, it is a cache hit instead. The backward pass that
    `jax.grad` makes of a jitted function is a program of its own, and in `backward_compiles`.

    **Arguments:**

    - `all_threads`: whether to count what other threads do meanwhile, too.

    **Returns:** a context manager that gives a `CompileLog`: `log[name]` for a function's counts,
    `log.functions`, `log.helpers` for what JAX and the libraries on it jit themselves, and
    `print(log)` for a table with what differed each time.

    **Raises:** `UnsupportedVersionError`, where JAX has changed so that it cannot count: at the
    start, or at the end if JAX did not tell of its compiles.
    """
    with recording(all_threads) as log:
        yield log
    check_compiles()


@contextlib.contextmanager
def recording(all_threads: bool) -> Iterator[CompileLog]:
    """As `compile_log`, without `check_compiles` at the end."""
    watch()
    log = CompileLog()
    if all_threads:
        _everywhere.append(log)
    try:
        with counting(log):
            yield log
    finally:
        log._is_closed = True
        if all_threads:
            _everywhere.remove(log)


class counting:
    """Has `log` count what this thread does inside of the block.

    No generator, since it is in every call of a watched function.
    """

    __slots__ = ("_is_outermost", "_log")

    def __init__(self, log: CompileLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        active = _active.get()
        self._is_outermost = self._log not in active  # a watched function may call itself
        if self._is_outermost:
            _active.set((*active, self._log))

    def __exit__(self, *_: object) -> None:
        # By the log, and not by a token: blocks may end in another order than they began.
        if self._is_outermost:
            _active.set(tuple(log for log in _active.get() if log is not self._log))


_active: contextvars.ContextVar[tuple[CompileLog, ...]] = contextvars.ContextVar(
    "canonopt_compile_logs", default=()
)
_everywhere: list[CompileLog] = []


# --- from JAX to the logs ---------------------------------------------------------------------


@attrs.define(eq=False)
class _Running:
    """A miss that JAX is at work on."""

    miss: Miss
    logs: list[tuple[CompileLog, FunctionLog]]
    signature: Signature | None
    started: float
    # What is being handled already, and so is no error of this miss.
    handled: BaseException | None
    inner_seconds: float = 0.0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.running: list[_Running] = []
        # What has been looked up and may be compiled next, by name.
        # Weakly, and without arguments: it is kept for as long as nothing else has the name.
        self.ready: dict[str, list[tuple[weakref.ref[CompileLog], FunctionLog, Entry]]] = {}
        # What is being compiled by hand, of whatever thread.
        self.lowered: Any = None
        self.is_hit = False


_thread = _Thread()
_is_watching = False
_lock = threading.Lock()


def watch() -> None:
    """Starts listening, once and for good: what is cached costs the same as before.

    Raises `UnsupportedVersionError`, each time, where JAX does not tell of its traces.
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


# Whether JAX has told of a compile and the name of its function; and whether it should have, as a
# call has traced a function anew.
_is_compile_seen = False
_is_compile_due = False


def check_compiles() -> None:
    """Raises `UnsupportedVersionError` if functions were called and JAX told of no compile.

    There may have been none, as one may fail. So it compiles a small function to find out, once.
    """
    global _is_compile_due
    if _is_compile_seen or not _is_compile_due or is_staging():
        return
    _is_compile_due = False
    try:
        with counting(CompileLog()), default_settings():
            jax.jit(lambda: np.zeros(()))()
    except Exception:  # as there is no device: then nothing has been compiled before, either
        return
    if not _is_compile_seen:
        _is_compile_due = True
        raise unsupported("the event of a compile in jax.monitoring")


def is_inside_jit() -> bool:
    """Whether this thread is in the middle of a trace by `jax.jit`."""
    return bool(_thread.running)


def _logs_here() -> list[CompileLog]:
    here = _active.get()
    return [*here, *(log for log in _everywhere if log not in here)]


def _enter(miss: Miss) -> _Running:
    running = _Running(miss, [], None, 0.0, sys.exception())
    _thread.running.append(running)
    logs = _logs_here()
    if logs:
        function = users_function(miss.function)
        by_library = is_helper(function, callers())
        found = [(log, log._of(name_of(function), function, by_library)) for log in logs]
        running.logs = [(log, of) for log, of in found if of is not None]
        if any(log._explains_helpers or not by_library for log, _ in running.logs):
            running.signature = _signature(miss, function)
    running.started = time.perf_counter()
    return running


def _leave(running: _Running, traced: bool, program: Any) -> None:
    global _is_compile_due
    seconds = time.perf_counter() - running.started
    # A jitted function that is jitted again: its body is run by a miss of its own, if at all.
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
    found = []
    for watcher, log in running.logs:
        entry = Entry(running.signature, running.started, traced)
        found.append((watcher, log, entry))
        if traced:
            entry.trace_seconds = seconds - running.inner_seconds
            entry.error = error
            with watcher._lock:
                log._add_trace(entry)
    ready, name = _thread.ready, name_in_events(running.miss.jitted)
    ready.pop(name, None)
    if found:
        ready[name] = [(weakref.ref(watcher), log, entry) for watcher, log, entry in found]
        while len(ready) > ENTRIES:
            ready.pop(next(iter(ready)))
        if program is not None:
            _tie(program, found)
    for watcher, log, entry in found:
        watcher._missed(log, entry, program)


def _is_jitted_inside(function: Any) -> bool:
    """Whether the user's function is jitted under what JAX makes of it, as by `jax.pmap`."""
    if is_jitted(function):
        return True
    user = users_function(function)
    jitted = (f for f in functions_inside(function) if is_jitted(f))
    # Not so if what is jitted is something else that JAX was given, as an argument for one.
    return any(user is f for each in jitted for f in functions_inside(each))


_watchers: WeakIdMap[list[weakref.ref[CompileLog]]] = WeakIdMap()


def _tie(program: Any, found: list[tuple[CompileLog, FunctionLog, Entry]]) -> None:
    """Keeps what is known of a jaxpr, or of what it was lowered to, for as long as both live."""
    _watchers.set(program, [weakref.ref(watcher) for watcher, _, _ in found])
    for watcher, log, entry in found:
        watcher._programs.set(program, (log, entry))


def _tied(program: Any) -> list[tuple[CompileLog, FunctionLog, Entry]]:
    watchers = [reference() for reference in _watchers.get(program) or ()]
    found = [(watcher, watcher._programs.get(program)) for watcher in watchers if watcher]
    return [(watcher, *known) for watcher, known in found if known]


def _lowered(jaxpr: Any, lowered: Any) -> None:
    found = _tied(jaxpr)
    if found:
        _tie(lowered, found)
    # What is lowered by hand is not compiled by the call that it came from.
    entries = [entry for _, _, entry in found]
    for name, kept in list(_thread.ready.items()):
        if any(entry in entries for _, _, entry in kept):
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
    if event.endswith("cache_retrieval_time_sec"):  # of a cache hit, which is told twice
        _thread.is_hit = True
    if not event.endswith("backend_compile_duration"):
        return
    is_hit, _thread.is_hit = _thread.is_hit, False
    name = str(about.get("fun_name", "")).removeprefix("jit(").removesuffix(")") or "?"
    name = name.replace("unnamed wrapped", "unnamed")  # before JAX 0.9
    here, found = _logs_here(), _compiled_now(name)
    _is_compile_seen = _is_compile_seen or bool(found)
    for log in here:
        helper = None if any(log is watcher for watcher, _, _ in found) else log._of(name, None)
        if helper is not None:
            with log._lock:
                helper._add_compile(None, is_hit, duration_secs)
    noted = []
    for watcher, log, entry in found:
        if watcher._is_closed:
            continue
        with watcher._lock:
            entry, is_new = _entry_of(log, entry)
            if _is_backward(entry):
                log._add_backward_compile(None if is_new else entry, duration_secs)
                continue
            if is_new:
                log._add(entry)
            log._add_compile(entry, is_hit, duration_secs)
        noted.append((watcher, log, entry))
    if is_hit:
        return
    for watcher, log, entry in noted:
        # Else it is of a call that is long over.
        if watcher in here or _thread.lowered is not None:
            watcher._compiled(log, entry)


def _entry_of(log: FunctionLog, entry: Entry) -> tuple[Entry, bool]:
    """The entry that a compile belongs to, and whether the log has yet to get it."""
    if entry.traced or entry.compiled:
        return entry, False
    inside = [e for e in log.entries if e.at > entry.at and e.traced]
    return (inside[-1], False) if inside else (entry, True)  # of a function that is jitted twice


def _is_backward(entry: Entry) -> bool:
    """Whether what is compiled now is the backward pass of a call: each call has its own entry."""
    return _thread.lowered is None and (entry.compiled or is_in_backward_pass())


def _compiled_now(name: str) -> list[tuple[CompileLog, FunctionLog, Entry]]:
    """Who watches what is being compiled, and the entry that it is of."""
    if _thread.lowered is not None:
        return _tied(_thread.lowered)
    ready = [(reference(), log, entry) for reference, log, entry in _thread.ready.get(name, ())]
    return [(watcher, log, entry) for watcher, log, entry in ready if watcher is not None]


def _signature(miss: Miss, function: Any) -> Signature | None:
    try:
        if function is not miss.function:  # which has the arguments flat
            with contextlib.suppress(TypeError):
                inspect.signature(function).bind(*miss.args, **miss.kwargs)
                miss = attrs.evolve(miss, function=function)
        signature = signature_of(
            miss.function,
            miss.args,
            miss.kwargs,
            is_static=miss.is_static,
            filtered=miss.filtered,
            options=miss.options,
        )
        records = {FUNCTION: static_of(function), **signature.records}
        return attrs.evolve(signature, records=records)
    except Exception:  # to explain is not worth a step that fails
        return None
