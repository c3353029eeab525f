"""Listen to JAX for traces and compiles, and tell the recorders that are active.

Only calls that miss a jit cache are recorded, because JAX takes long for those anyway.
"""

import contextlib
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from .._jax_internals.arrays import array_text
from .._jax_internals.functions import (
    is_helper,
    is_jitted_inside,
    is_of_jax,
    jits_itself,
    name_in_events,
    name_of,
    users_function,
)
from .._jax_internals.tracing import clearings_so_far, innermost_run, is_staging
from .._jax_internals.watching import Compile, CompileWatch, Miss, misses
from .._python_internals.callers import call_site
from ..errors import ExcessError, RecompileWarning
from .log import MAX_ENTRIES, CompileLog, Entry, FunctionLog, ended_logs
from .records import call_of_miss, shapes_of_miss
from .stale import StaleWatch


class Recorder:
    """An object that writes traces and compiles into a log.

    Callers of `log_of`, `line_of`, `add_trace` and `add_compile` hold `misses.lock`.
    """

    def __init__(self, log: CompileLog | None = None) -> None:
        self.log = CompileLog() if log is None else log
        # Maps (thread, JAX's name for the function) to the log and the entry of the latest miss,
        # which JAX may compile next. The log is None for an operation of JAX or of a library.
        self.pending: dict[tuple[int, str], tuple[FunctionLog | None, Entry]] = {}
        with misses.lock:  # other threads iterate over `_known`
            _known[id(self)] = self

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        """Return the log to write into, or None if the function gets no log of its own."""
        return None if by_library else self.log.function_log(name, function)

    def add_trace(self, log: FunctionLog, entry: Entry) -> Entry:
        """Count a trace in the log, and return the entry of the trace."""
        return log.add_trace(entry)

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry | None:
        """Count a compile that a miss led to. Return its entry, or None for a backward pass."""
        return log.add_compile(compiled, entry)

    def line_of(self, site: str | None) -> FunctionLog | None:
        """Return the log of a line at which JAX or a library compiles; None to ignore the line."""
        return self.log.line_log(site)

    def note_problem(self, problem: str) -> None:
        """Note that canonopt itself has failed."""
        self.log.note_problem(problem)

    def after_miss(self, log: FunctionLog, entry: Entry) -> None:
        """Handle a miss, traced or not. A subclass may raise an error here."""

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        """Handle a compile, by a call or by `.compile()`. A subclass may raise an error here."""

    def close(self) -> None:
        """End the log, so that no later compile is written into it. A guard still finds it."""
        if logs := [*self.log.functions, *self.log.helpers]:
            ended_logs.append(logs)
        self.log = CompileLog()
        self.pending.clear()


# The live recorders, by id. JAX reports a compile by name, and any recorder may have an entry of
# this name in `pending`.
_known: weakref.WeakValueDictionary[int, Recorder] = weakref.WeakValueDictionary()


# --- who records ----------------------------------------------------------------------------------

# Each active recorder, with the thread that it listens to, or None for all threads.
_active: list[tuple[Recorder, int | None]] = []


class active:
    """A context manager in which a recorder records this thread, or all threads.

    Callers run the slow `misses.check` first. JAX is patched until the last block ends.
    Each call of a watched function enters a block, and a generator would be slower than this class.
    """

    __slots__ = ("_entry",)

    def __init__(self, recorder: Recorder, all_threads: bool = False) -> None:
        self._entry = recorder, None if all_threads else threading.get_ident()

    def __enter__(self) -> None:
        misses.add(_enter)
        _active.append(self._entry)

    def __exit__(self, *_: object) -> None:
        _active.remove(self._entry)
        misses.remove(_enter)


@contextlib.contextmanager
def recording(recorder: Recorder, all_threads: bool) -> Iterator[None]:
    """Let a recorder record inside the block, and then close the recorder."""
    misses.check()
    with active(recorder, all_threads), contextlib.closing(recorder):
        compiles.listen()
        yield


@contextlib.contextmanager
def compile_log(*, all_threads: bool = False, stale: bool = False) -> Iterator[CompileLog]:
    """Count the traces and compiles of each function inside the block, no matter who jitted it.

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
      hint: pad x to one shape and mask the padding (divide a mean by n), or drop a short last batch

    ```

    A trace is one run of the Python body. Runs that fail count, and so do runs by `.lower()`, by
    `jax.eval_shape` or inside another trace. For a new `jax.jit(jax.checkpoint(f))`, a trace
    counts even if JAX reuses an earlier trace and does not run `f`. A compile is one XLA
    compile. A program that JAX finds in its persistent cache counts in `cache_hits` instead. The
    backward pass that `jax.grad` makes of a jitted function is a program of its own, counted in
    `backward_compiles`.

    **Arguments:**

    - `all_threads`: whether to count the events of other threads, too, during the block.
    - `stale`: whether to report cached calls that use the old value of something that has changed
        since the trace, as `assert_not_stale` does. `log.stale` and `print(log)` have the reports.

    **Returns:** a context manager that gives a `CompileLog`. `log[name]` has the counts of a
    function, and `log.functions` lists all functions. `log.helpers` has the operations that JAX and
    libraries compile, by the line of your code that ran them. `print(log)` shows a table, then the
    cause of each recompile, and whether it is expected.

    **Raises:** `UnsupportedVersionError` if this version of JAX does not report what canonopt
    counts: at the start or the end of the block.
    """
    log = CompileLog()
    watch = StaleWatch(log.stale.append, log.note_problem) if stale else contextlib.nullcontext()
    with recording(Recorder(log), all_threads), watch:
        yield log
    check_compiles()


def record_everywhere(recorder: Recorder) -> None:
    """Let a recorder record the events of every thread, from now on."""
    misses.check()
    active(recorder, all_threads=True).__enter__()
    compiles.listen()


def _recorders() -> list[Recorder]:
    here = (None, threading.get_ident())
    # A recorder is active twice if a watched function calls itself.
    return [*dict.fromkeys(recorder for recorder, thread in [*_active] if thread in here)]


# --- what JAX is doing ----------------------------------------------------------------------------

_Recorded: TypeAlias = tuple[Recorder, FunctionLog, Entry]


@attrs.define(eq=False)
class _Running:
    """A miss that JAX is working on."""

    miss: Miss
    # One entry for each recorder. The log is None for an operation of JAX or a library.
    entries: list[tuple[Recorder, FunctionLog | None, Entry]] = attrs.field(factory=list)
    started: float = 0.0
    inner_seconds: float = 0.0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.running: list[_Running] = []  # the nested misses, outermost first


_thread = _Thread()
# True if a call has traced a function since the last check, so JAX should have reported a compile.
_is_compile_due = False


def check_compiles() -> None:
    """Raise `UnsupportedVersionError` if functions were traced, but JAX reports no compile.

    If JAX has reported none, all traces may have failed. So the check compiles a small function.
    """
    global _is_compile_due
    if is_staging():
        return
    misses.check()  # checks again only if Equinox was imported since the last check
    if _is_compile_due:
        compiles.check()
        _is_compile_due = False


@contextlib.contextmanager
def _noting_problems(recorders: Sequence[Recorder]) -> Iterator[None]:
    """Catch and note an error of canonopt itself, since it must not stop a step."""
    try:
        yield
    except (ExcessError, RecompileWarning):  # an assertion has raised it
        raise
    except Exception as error:
        for recorder in recorders:
            recorder.note_problem(f"{type(error).__name__}: {error}")


def is_inside_recorded(recorder: Recorder) -> bool:
    """Return True if the running code is in the trace of a function that the recorder counts."""
    return any(
        each is recorder and log is not None and not is_jitted_inside(running.miss.function)
        for running in _thread.running
        for each, log, _ in running.entries
    )


# --- at a miss ------------------------------------------------------------------------------------


def _enter(given: Any, find_miss: Callable[[], Miss]) -> Callable[[bool, Any], None] | None:
    # Inside of a trace, no recorder counts functions that their library jits, as JAX jits
    # `jnp.where`. One trace may call thousands of them, so this check comes first.
    with contextlib.suppress(Exception):  # if a user's attribute raises, the error is noted below
        if (_thread.running or is_staging()) and jits_itself(given):
            return None
    recorders = _recorders()
    with _noting_problems(recorders), contextlib.ExitStack() as undo:
        running = _Running(miss := find_miss())
        _thread.running.append(running)
        undo.callback(_thread.running.remove, running)  # also after Ctrl-C
        compiles.listen()  # somebody may have cleared JAX's listeners
        function = users_function(miss.function)
        by_library, name = is_helper(function), name_of(function)
        with misses.lock:
            logs = [(each, each.log_of(name, function, by_library)) for each in recorders]
        is_nested = is_staging()
        is_operation = by_library and not is_nested
        shapes = shapes_of_miss(miss) if is_operation and is_of_jax(function) else None
        call = None
        if any(log for _, log in logs) or (is_operation and shapes is None):
            with _noting_problems(recorders):
                call = call_of_miss(miss, function)
        site = call.caller.place or None if call else None
        for each, log in logs:
            if log is not None:
                entry = Entry(call, 0.0, is_nested=is_nested, site=site)
            elif is_operation:
                facts = {"operation": name, "shapes": shapes, "clearings": clearings_so_far()}
                entry = Entry(call, 0.0, **facts)
            else:
                continue
            running.entries.append((each, log, entry))
        undo.pop_all()
        # This comes last, so that the time does not include making the record.
        running.started = time.perf_counter()
        return functools.partial(_leave, running)
    return None


def _leave(running: _Running, traced: bool, program: Any) -> None:
    seconds = time.perf_counter() - running.started
    stack = _thread.running
    stack.remove(running)
    if stack:
        stack[-1].inner_seconds += seconds
    found: list[_Recorded] = []
    with _noting_problems([recorder for recorder, _, _ in running.entries]), misses.lock:
        found = _count(running, traced, program, seconds - running.inner_seconds)
    # All recorders count before this loop, because an assertion may raise an error in it.
    for recorder, log, entry in found:
        with _noting_problems([recorder]):
            recorder.after_miss(log, entry)


def _count(running: _Running, traced: bool, program: Any, seconds: float) -> list[_Recorded]:
    """Complete the entries of a miss, keep them for its compile, and return those with a log."""
    global _is_compile_due
    miss, is_recorded = running.miss, any(log is not None for _, log, _ in running.entries)
    # If the function is jitted already, as in `jax.pmap(jax.jit(f))`, the inner jit traces `f`.
    traced = traced and not (is_recorded and is_jitted_inside(miss.function))
    if not _thread.running and traced and miss.is_call and is_recorded:
        _is_compile_due = True
    failure = sys.exception() if program is None else None
    error = None if failure is None else f"{type(failure).__name__}: {failure}"
    outputs = getattr(program, "out_avals", ())
    # From now on, a compile of this name belongs to this miss, not to an earlier one.
    key = threading.get_ident(), name_in_events(miss.jitted)
    for recorder in [*_known.values()]:
        recorder.pending.pop(key, None)
    found: list[_Recorded] = []
    for recorder, log, entry in running.entries:
        entry.at, entry.traced = running.started, traced
        entry.trace_seconds = seconds if traced else 0.0
        if entry.shapes is not None:
            entry.shapes += f" -> {', '.join(map(array_text, outputs))}"
        if log is not None:
            if traced:
                entry.is_trial, entry.error = miss.is_shared and not miss.is_call, error
                entry = recorder.add_trace(log, entry)
            found.append((recorder, log, entry))
        if log is not None or error is None:
            if len(recorder.pending) == MAX_ENTRIES:
                recorder.pending.pop(next(iter(recorder.pending)), None)
            recorder.pending[key] = log, entry
    return found


# --- at a compile ---------------------------------------------------------------------------------


def _on_compile(compiled: Compile) -> None:
    here, counted = _recorders(), list[_Recorded]()
    with _noting_problems(here), misses.lock:
        key, run = (threading.get_ident(), compiled.name), innermost_run()
        is_by_hand, is_backward = run == "compile", run == "backward pass"
        compiled = attrs.evolve(compiled, is_by_hand=is_by_hand, in_backward_pass=is_backward)
        for recorder in dict.fromkeys((*here, *_known.values())):
            log, entry = recorder.pending.get(key, (None, None))
            if is_by_hand and entry is None:  # another thread may have lowered it
                same = [found for other, found in recorder.pending.items() if other[1] == key[1]]
                log, entry = same[-1] if same else (None, None)
            if log is None and recorder in here:
                recorder.pending.pop(key, None)
                entry = entry or Entry(None, time.perf_counter(), operation=compiled.name)
                entry = attrs.evolve(entry, site=call_site())
                log = recorder.line_of(entry.site)
            if log is None or entry is None:
                continue
            own = recorder.add_compile(log, entry, compiled)
            # A recorder that is not active counts the compile, but reports only a `.compile()`.
            if own is not None and (recorder in here or is_by_hand):
                counted.append((recorder, log, own))
    for recorder, log, entry in counted:
        with _noting_problems([recorder]):
            recorder.after_compile(log, entry, compiled)


compiles = CompileWatch(_on_compile)
