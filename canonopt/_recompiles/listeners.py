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
from .log import MAX_ENTRIES, CompileLog, Entry, FunctionLog, Recorder
from .records import Call, call_of_miss, shapes_of_miss


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
            _thread.operations.clear()


def record_everywhere(recorder: Recorder) -> None:
    """Has a recorder record what every thread does, from now on."""
    watch.start()
    watch.listen()
    _everywhere.append(recorder)


class LogRecorder(Recorder):
    """Writes everything into a `CompileLog`."""

    def __init__(self, log: CompileLog) -> None:
        super().__init__()
        self._log = log

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        if by_library:
            return None
        with self._lock:
            return self._log.function_log(name, function)

    def add_operation(self, entry: Entry, compiled: Compile) -> FunctionLog:
        with self._lock:
            log = self._log.line_log(entry.site)
            log.add_operation(entry, compiled)
        return log

    def note_problem(self, problem: str) -> None:
        with self._lock:
            self._log.note_problem(problem)

    def close(self) -> None:
        super().close()
        self._log = CompileLog()


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
class _Running:
    """A miss that JAX is working on."""

    miss: Miss
    # An exception that was being handled before, and so is not this miss's error.
    handled: BaseException | None
    logs: list[tuple[Recorder, FunctionLog]] = attrs.field(factory=list)
    call: Call | None = None
    is_nested: bool = False
    site: str | None = None
    # What the miss may compile at a line of the user's, if a library jits its function.
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
        # Who has an entry that may be compiled next, by name. Kept until something else has the
        # name, and so with weak references: the recorder has the entry.
        self.ready: dict[str, list[weakref.ref[Recorder]]] = {}
        # What JAX or a library may compile next, by name.
        self.operations: dict[str, Entry] = {}
        # What `.compile()` is compiling.
        self.lowered: Any = None


_thread = _Thread()
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
        _count(running, traced, program, seconds, found)
    # Last, because an assertion may raise: by now every recorder has counted.
    for recorder, log, entry in found:
        if entry.is_trial and not traced:
            continue  # it was told when it was traced
        try:
            recorder.after_miss(log, entry, program)
        except (ExcessError, RecompileWarning):
            _refuse(found)
            raise
        except Exception as error:
            recorder.note_problem(f"{type(error).__name__}: {error}")


def _trial_of(recorder: Recorder, program: Any) -> Entry | None:
    """The entry in which `canonopt.jit` has traced the program that it calls now."""
    _, entry = (program is not None and recorder.recall(program)) or (None, None)
    return entry if entry is not None and entry.is_trial and not entry.compiled else None


def _refuse(found: Sequence[_Recorded]) -> None:
    for _, _, entry in found:
        entry.refused = True


def _count(
    running: _Running, traced: bool, program: Any, seconds: float, found: list[_Recorded]
) -> None:
    global _is_compile_due
    # If what is jitted is jitted itself, its body is traced by another miss, if at all.
    traced = traced and not (running.logs and is_jitted_inside(running.miss.function))
    if not _thread.running and traced and running.miss.is_call and running.logs:
        _is_compile_due = True
    failure = sys.exception()
    is_new = failure is not None and failure is not running.handled
    error = f"{type(failure).__name__}: {failure}" if is_new else None
    outputs = getattr(program, "out_avals", ())
    if running.call is not None:
        running.call.note_returned(outputs)
    for recorder, log in running.logs:
        entry = None if traced else _trial_of(recorder, program)
        if entry is not None:
            if entry.call is not None and running.call is not None:
                entry.call = entry.call.with_reason(running.call.why_not_shared)
            found.append((recorder, log, entry))
            continue
        entry = Entry(
            running.call,
            running.started,
            traced,
            is_nested=running.is_nested,
            site=running.site,
            is_trial=traced and running.miss.is_shared and not running.miss.is_call,
        )
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
        ready[name] = [weakref.ref(recorder) for recorder, _, _ in found]
        for recorder, log, entry in found:
            recorder.set_ready(name, log, entry)
        while len(ready) > MAX_ENTRIES:
            ready.pop(next(iter(ready)))
        if program is not None:
            _remember(program, found)
    if (entry := running.operation) is not None and error is None:
        entry.at, entry.traced = running.started, traced
        entry.trace_seconds = seconds - running.inner_seconds if traced else 0.0
        if entry.shapes is not None:
            entry.shapes += f" -> {', '.join(map(array_text, outputs))}"
        _thread.operations.pop(name, None)  # moves it to the end
        _thread.operations[name] = entry
        if len(_thread.operations) > MAX_ENTRIES:
            _thread.operations.pop(next(iter(_thread.operations)))


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


def _lowered(jaxpr: Any, lowered: Any) -> bool:
    found = _recall(jaxpr)
    if found:
        _remember(lowered, found)
    # The call that lowered this by hand does not compile it.
    entries = [entry for _, _, entry in found]
    for name in list(_thread.ready):
        if any(entry in entries for _, _, entry in _ready(name)):
            del _thread.ready[name]
    return bool(found)


@contextlib.contextmanager
def _compiling(lowered: Any) -> Iterator[None]:
    _thread.lowered = lowered
    try:
        yield
    finally:
        _thread.lowered = None


def _on_compile(compiled: Compile) -> None:
    here = _recorders()
    counted: list[_Recorded] = []
    is_by_hand = _thread.lowered is not None
    with _noting_problems(here):
        is_backward = is_in_backward_pass()
        compiled = attrs.evolve(compiled, is_by_hand=is_by_hand, in_backward_pass=is_backward)
        found = _recall(_thread.lowered) if is_by_hand else _ready(compiled.name)
        others = [each for each in here if not any(each is other for other, _, _ in found)]
        if others:
            counted += _add_operation(compiled, others)
        for recorder, log, entry in found:
            if not recorder.is_closed and (e := recorder.add_compile(log, compiled, entry)):
                counted.append((recorder, log, e))
    try:
        for recorder, log, entry in counted:
            # Without a block or `.compile()`, the compile is part of a call that ended long ago.
            if recorder in here or is_by_hand:
                recorder.after_compile(log, entry, compiled)
    except (ExcessError, RecompileWarning):
        _refuse(counted)
        raise


def _add_operation(compiled: Compile, recorders: Sequence[Recorder]) -> Iterator[_Recorded]:
    """Adds a compile that belongs to no function of the user's to the line that ran it."""
    pending = _thread.operations.pop(compiled.name, None)
    entry = pending or Entry(None, time.perf_counter(), operation=compiled.name)
    site = call_site()
    for recorder in recorders:
        own = attrs.evolve(entry, site=site)
        if (log := recorder.add_operation(own, compiled)) is not None:
            yield recorder, log, own


def _ready(name: str) -> list[_Recorded]:
    """The entries that may be compiled next under this name, of recorders that are alive."""
    recorders = [reference() for reference in _thread.ready.get(name, ())]
    found = [(recorder, recorder.ready(name)) for recorder in recorders if recorder]
    return [(recorder, *known) for recorder, known in found if known]


watch = Watch(_enter, _leave, _passes, _failed, _lowered, _compiling, _on_compile)
