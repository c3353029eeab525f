"""Listens to JAX for traces and compiles, and tells the recorders that are active.

All of this runs at a miss of a jit cache, where JAX is slow anyway. A cached call runs none of it.
"""

import contextlib
import contextvars
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from .._jax_internals import (
    Compile,
    Miss,
    Watch,
    array_text,
    call_site,
    is_helper,
    is_in_backward_pass,
    is_in_shard_map,
    is_jitted_inside,
    is_of_jax,
    is_staging,
    jits_itself,
    name_in_events,
    name_of,
    users_function,
)
from .._python_internals import WeakIdMap
from ..errors import ExcessError, RecompileWarning
from .log import MAX_ENTRIES, CompileLog, Entry, FunctionLog
from .records import Call, call_of_miss, shapes_of_miss


class Recorder:
    """Writes what the listeners hear into a log, from any thread."""

    # Whether it also follows functions that a library jits itself.
    follows_libraries = False

    def __init__(self, log: CompileLog | None = None) -> None:
        self.log = CompileLog() if log is None else log
        self.lock = threading.RLock()  # a signal handler may trace, too
        # What may still be compiled, by the miss that it comes from.
        self.entries: weakref.WeakKeyDictionary[_Heard, tuple[FunctionLog, Entry]] = (
            weakref.WeakKeyDictionary()
        )
        self.is_closed = False

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        """Return the log to write into, or None to ignore the function."""
        if by_library:
            return None
        with self.lock:
            return self.log.function_log(name, function)

    def add_trace(self, log: FunctionLog, entry: Entry) -> None:
        with self.lock:
            log.add_trace(entry)

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry | None:
        """Count a compile that belongs to a miss, and return its entry, as the log does."""
        with self.lock:
            return log.add_compile(compiled, entry)

    def add_operation(self, entry: Entry, compiled: Compile) -> FunctionLog | None:
        """Count what JAX or a library has compiled, and return the log of the user's line."""
        with self.lock:
            log = self.log.line_log(entry.site)
            log.add_operation(entry, compiled)
            return log

    def note_problem(self, problem: str) -> None:
        """Note that canonopt itself has failed."""
        with self.lock:
            self.log.note_problem(problem)

    def after_miss(self, log: FunctionLog, entry: Entry, program: Any) -> None:
        """Called with the jaxpr after each miss, traced or not. May raise."""

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        """Called after a call or `.compile()` has compiled. May raise."""

    def close(self) -> None:
        """End recording, and let go of all that was recorded."""
        self.is_closed = True
        self.log = CompileLog()
        self.entries.clear()


@contextlib.contextmanager
def recording(recorder: Recorder, all_threads: bool) -> Iterator[None]:
    """Has a recorder record what this thread does inside the block, or what all threads do."""
    with active(recorder):
        watch.listen()
        if all_threads:
            _everywhere.append(recorder)
        try:
            yield
        finally:
            if all_threads:
                _everywhere.remove(recorder)
            recorder.close()


def record_everywhere(recorder: Recorder) -> None:
    """Has a recorder record what every thread does, from now on."""
    watch.start()
    watch.listen()
    _everywhere.append(recorder)


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
            watch.start()
            _active.set((*others, self._recorder))

    def __exit__(self, *_: object) -> None:
        # Not by a token: blocks may end in another order than they began.
        if self._is_outermost:
            _active.set(tuple(each for each in _active.get() if each is not self._recorder))
            watch.stop()


_active: contextvars.ContextVar[tuple[Recorder, ...]] = contextvars.ContextVar(
    "canonopt_recorders", default=()
)
_everywhere: list[Recorder] = []


def _recorders() -> Sequence[Recorder]:
    here = _active.get()
    if not _everywhere:
        return here
    return [*here, *(each for each in _everywhere if each not in here)]


# --- what JAX is doing ------------------------------------------------------------------------

# An entry of a recorder, with the log that it is in.
_Recorded: TypeAlias = tuple[Recorder, FunctionLog, Entry]


@attrs.define(eq=False)
class _Heard:
    """A miss that may be followed by a compile. Its recorders have the entries."""

    recorders: list[weakref.ref[Recorder]] = attrs.field(factory=list)
    # What it compiles at a line of the user's, if a library jits its function.
    operation: Entry | None = None

    def add(self, found: Sequence[_Recorded]) -> None:
        for recorder, log, entry in found:
            recorder.entries[self] = log, entry
            self.recorders.append(weakref.ref(recorder))

    @property
    def recorded(self) -> list[_Recorded]:
        recorders = (reference() for reference in self.recorders)
        found = [(each, each.entries.get(self)) for each in recorders if each is not None]
        return [(recorder, *known) for recorder, known in found if known is not None]


_NOTHING = _Heard()


@attrs.define(eq=False)
class _Running:
    """A miss that JAX is working on."""

    miss: Miss
    # An exception that was being handled before, and so is not this miss's error.
    handled: BaseException | None
    logs: list[tuple[Recorder, FunctionLog]] = attrs.field(factory=list)
    call: Call | None = None
    is_nested: bool = False
    site: str | None = None
    operation: Entry | None = None
    started: float = 0.0
    inner_seconds: float = 0.0


class _Thread(threading.local):
    """The misses that JAX is working on in this thread, and what it may compile next.

    JAX compiles in the thread of the call, and reports a compile with nothing but a name. All else
    about it has to be kept here from the miss before.
    """

    def __init__(self) -> None:
        # Misses inside misses, outermost first.
        self.running: list[_Running] = []
        # The latest miss of each name.
        self.ready: dict[str, _Heard] = {}
        # What `.compile()` is compiling.
        self.lowered: _Heard | None = None


_thread = _Thread()
# By jaxpr and by what it was lowered to, either of which any thread may compile later.
_programs: WeakIdMap[_Heard] = WeakIdMap()
# Whether JAX should have reported a compile, since a call has traced a function.
_is_compile_due = False


def check_compiles() -> None:
    """Raises `UnsupportedVersionError` if functions were traced and JAX reports no compile.

    There may have been none, if it failed. So this compiles a small function to find out, once.
    """
    global _is_compile_due
    if is_staging():
        return
    watch.check_misses()
    if _is_compile_due:
        watch.check_compiles()
        _is_compile_due = False


@contextlib.contextmanager
def _noting_problems(recorders: Sequence[Recorder]) -> Iterator[None]:
    """Make a note in the logs of what fails in canonopt itself, which does not stop a step."""
    try:
        yield
    except Exception as error:
        for recorder in recorders:
            recorder.note_problem(f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _refusing(found: Sequence[_Recorded]) -> Iterator[None]:
    """Mark the entries that a recorder refuses inside the block."""
    try:
        yield
    except (ExcessError, RecompileWarning):
        for _, _, entry in found:
            entry.refused = True
        raise


def is_inside_recorded(recorder: Recorder) -> bool:
    """Return True if JAX is tracing a function that the recorder will be told of when it ends."""
    return any(
        each is recorder and not is_jitted_inside(running.miss.function)
        for running in _thread.running
        for each, _ in running.logs
    )


# --- at a miss --------------------------------------------------------------------------------


def _passes(function: Any) -> bool:
    """Return True if nobody asks about a function, as one that a library jits inside a trace."""
    # A trace may come here thousands of times.
    recorders = _recorders()
    for recorder in recorders:
        if recorder.follows_libraries:
            return False
    return not recorders or (jits_itself(function) and (bool(_thread.running) or is_staging()))


def _failed(error: Exception) -> None:
    with _noting_problems(_recorders()):
        raise error


def _enter(miss: Miss) -> _Running:
    running, recorders = _Running(miss, sys.exception()), _recorders()
    _thread.running.append(running)
    with _noting_problems(recorders):
        watch.listen()
        function = users_function(miss.function)
        by_library = is_helper(function)
        running.is_nested, name = is_staging(), name_of(function)
        found = [(each, each.log_of(name, function, by_library)) for each in recorders]
        running.logs = [(recorder, log) for recorder, log in found if log is not None]
        if running.logs:
            running.site = call_site()
            with _noting_problems(recorders):
                running.call = call_of_miss(miss, function)
        if by_library and not running.is_nested and len(running.logs) < len(recorders):
            running.operation = _operation(miss, function)
    # Last, so that the time does not include making the call key.
    running.started = time.perf_counter()
    return running


def _operation(miss: Miss, function: Any) -> Entry:
    """Return an entry for what a library may compile in a call of `function`."""
    name = name_of(function)
    if is_of_jax(function):
        if is_in_shard_map():
            name = "shard_map"  # the operations of its function have no names
        return Entry(None, 0.0, operation=name, shapes=shapes_of_miss(miss))
    return Entry(call_of_miss(miss, function), 0.0, operation=name)


def _leave(running: _Running, traced: bool, program: Any) -> None:
    seconds = time.perf_counter() - running.started
    stack = _thread.running
    stack.remove(running)
    if stack:
        stack[-1].inner_seconds += seconds
    found: list[_Recorded] = []
    recorders = [recorder for recorder, _ in running.logs]
    with _noting_problems(recorders):
        _count(running, traced, program, seconds - running.inner_seconds, found)
    # Last, because an assertion may raise: by now every recorder has counted.
    with _refusing(found):
        for recorder, log, entry in found:
            if entry.is_trial and not traced:
                continue  # it was told when it was traced
            try:
                recorder.after_miss(log, entry, program)
            except (ExcessError, RecompileWarning):
                raise
            except Exception as error:
                recorder.note_problem(f"{type(error).__name__}: {error}")


def _count(
    running: _Running, traced: bool, program: Any, seconds: float, found: list[_Recorded]
) -> None:
    """Add an entry to each log, and keep them for the compile that may follow."""
    global _is_compile_due
    # If what is jitted is jitted itself, its body is traced by another miss, if at all.
    traced = traced and not (running.logs and is_jitted_inside(running.miss.function))
    if not _thread.running and traced and running.miss.is_call and running.logs:
        _is_compile_due = True
    failure = sys.exception()
    is_new = failure is not None and failure is not running.handled
    error = f"{type(failure).__name__}: {failure}" if is_new else None
    outputs = getattr(program, "out_avals", ())
    call, miss = running.call, running.miss
    if call is not None:
        call.note_returned(outputs)
    known = _NOTHING if program is None else _programs.get(program) or _NOTHING
    for recorder, log in running.logs:
        _, trial = recorder.entries.get(known, (None, None))
        # The program of a trial by `canonopt.jit`, which now runs.
        if not traced and trial is not None and trial.is_trial and not trial.compiled:
            if trial.call is not None and call is not None:
                trial.call = trial.call.with_reason(call.why_not_shared)
            found.append((recorder, log, trial))
            continue
        entry = Entry(call, running.started, traced, is_nested=running.is_nested, site=running.site)
        found.append((recorder, log, entry))
        if traced:
            entry.is_trial = miss.is_shared and not miss.is_call
            entry.trace_seconds, entry.error = seconds, error
            recorder.add_trace(log, entry)
    ready, name = _thread.ready, name_in_events(miss.jitted)
    # Also if nobody records this miss: a compile of this name no longer belongs to the earlier one.
    # And a name that is set again moves to the end, since the first in the order is dropped first.
    ready.pop(name, None)
    operation = None if error is not None else running.operation
    if not found and operation is None:
        return
    ready[name] = heard = _Heard(operation=operation)
    if len(ready) > MAX_ENTRIES:
        ready.pop(next(iter(ready)))
    heard.add(found)
    if program is not None and found:
        _programs.set(program, heard)
    if operation is not None:
        operation.at, operation.traced = running.started, traced
        operation.trace_seconds = seconds if traced else 0.0
        if operation.shapes is not None:
            operation.shapes += f" -> {', '.join(map(array_text, outputs))}"


# --- at a compile -----------------------------------------------------------------------------


def _lowered(jaxpr: Any, lowered: Any) -> bool:
    heard = _programs.get(jaxpr)
    if heard is None or not (found := heard.recorded):
        return False
    _programs.set(lowered, heard)
    # The call that lowered this by hand does not compile it.
    entries = [entry for _, _, entry in found]
    for name, other in [*_thread.ready.items()]:
        if any(entry in entries for _, _, entry in other.recorded):
            del _thread.ready[name]
    return True


@contextlib.contextmanager
def _compiling(lowered: Any) -> Iterator[None]:
    _thread.lowered = _programs.get(lowered) or _NOTHING
    try:
        yield
    finally:
        _thread.lowered = None


def _on_compile(compiled: Compile) -> None:
    here, by_hand = _recorders(), _thread.lowered
    counted: list[_Recorded] = []
    with _noting_problems(here):
        heard = by_hand or _thread.ready.get(compiled.name, _NOTHING)
        is_backward = is_in_backward_pass()
        compiled = attrs.evolve(
            compiled, is_by_hand=by_hand is not None, in_backward_pass=is_backward
        )
        found = heard.recorded
        others = [each for each in here if not any(each is other for other, _, _ in found)]
        if others:  # to whom it belongs to no function of the user's, but to the line that ran it
            operation, heard.operation = heard.operation, None
            operation = operation or Entry(None, time.perf_counter(), operation=compiled.name)
            site = call_site()
            for recorder in others:
                own = attrs.evolve(operation, site=site)
                if (log := recorder.add_operation(own, compiled)) is not None:
                    counted.append((recorder, log, own))
        for recorder, log, entry in found:
            if not recorder.is_closed and (own := recorder.add_compile(log, entry, compiled)):
                counted.append((recorder, log, own))
    with _refusing(counted):
        for recorder, log, entry in counted:
            # Without a block or `.compile()`, the compile is part of a call that ended long ago.
            if recorder in here or by_hand is not None:
                recorder.after_compile(log, entry, compiled)


watch = Watch(_enter, _leave, _passes, _failed, _lowered, _compiling, _on_compile)
