"""Logs of traces and compiles, by function or by line of the user's code, with their causes."""

import abc
import difflib
import functools
import os
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import attrs

from .._jax_internals import Compile, identity_of_code, innermost
from .._python_internals import WeakIdMap, is_name_of_code
from .._texts import place_of
from ..errors import UnknownFunctionError
from .causes import (
    Cause,
    aligned,
    log_markup,
    many_operations,
    path_of_growth,
    repeated_operation,
    several_shapes,
    verdict,
)
from .differences import is_same_call
from .records import Call
from .rules import Explanation, explain, failure_hints
from .stale import StaleRead

# What the seconds of a program are made of.
STAGES = ("trace_seconds", "lowering_seconds", "compile_seconds")


@attrs.define(eq=False, kw_only=True)
class Counts:
    """Seconds exclude those of inner functions."""

    traces: int = 0
    nested_traces: int = 0  # those that were parts of other traces
    compiles: int = 0
    # Of JAX's persistent compilation cache: in place of a compile, and before one.
    cache_hits: int = 0
    cache_misses: int = 0
    # The backward pass that `jax.grad` or `jax.vjp` makes of a jitted function is a program of its
    # own. It is no recompile, and no limit counts it.
    backward_compiles: int = 0
    trace_seconds: float = 0.0
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.lowering_seconds + self.compile_seconds

    @property
    def events(self) -> int:
        return self.traces + self.compiles + self.cache_hits + self.backward_compiles

    def add(self, others: Iterable["Counts"]) -> Self:
        for other in others:
            for name in COUNTS:
                setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


COUNTS = tuple(field.name for field in attrs.fields(Counts))


MAX_ENTRIES = 64  # kept for each function
MAX_OPERATIONS = 512  # kept for each line
# A call is compared with so many of the first calls and of those just before it.
_MAX_FIRST, _MAX_LAST = 4, 12


TWO_TRACES = "needed two traces"


@attrs.define(eq=False)
class Entry:
    """One trace, one compile, or both: what a miss of the jit cache led to."""

    call: Call | None = attrs.field(repr=False)  # too long
    at: float  # seconds, of time.perf_counter
    traced: bool = False
    compiled: bool = False
    trace_seconds: float = 0.0
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0
    error: str | None = None  # of a trace that failed
    advice: tuple[str, ...] = ()  # what to write in place of a call that failed
    # By an assertion. Later calls are not compared with this one, so the reason stays the same.
    refused: bool = False
    # Whether the function had been traced or compiled before. If `predict` was traced inside `step`
    # and is called later, that is an entry of its own with a first compile.
    traced_again: bool = False
    compiled_again: bool = False
    # Whether it was traced inside another trace, and so is a part of that program.
    is_nested: bool = False
    # Whether `canonopt.jit` traced it to find out if others may run the program.
    is_trial: bool = False
    # Why JAX had to trace it once more after such a trial.
    after_trial: str | None = None
    site: str | None = None  # the line of the user's code that ran it, as `file:line`
    # In the log of a line: what JAX or a library compiled, and for JAX from which shapes to which.
    operation: str | None = None
    shapes: str | None = None
    # Earlier calls, until they were compared with this one.
    earlier: tuple[Call, ...] = attrs.field(default=(), repr=False)
    _explanation: Explanation | None = attrs.field(default=None, repr=False)
    _problem: str | None = None

    @property
    def explanation(self) -> Explanation | None:
        """Return how the call differs from earlier ones, found out when first asked for."""
        earlier, self.earlier = self.earlier, ()
        if earlier and self.call is not None:
            try:
                self._explanation = explain(self.call, earlier)
            except Exception as error:  # an explanation is not worth a failing report
                self._problem = f"canonopt failed to compare the calls: {error!r}"
        return self._explanation

    def compare_with(self, earlier: Sequence[Call]) -> None:
        """Notes the first and the last of the earlier calls, to be compared when somebody asks."""
        self.earlier = (*earlier[:_MAX_FIRST], *earlier[_MAX_FIRST:][-_MAX_LAST:])

    @property
    def is_again(self) -> bool:
        return self.traced_again or self.compiled_again

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.lowering_seconds + self.compile_seconds

    def is_followed_by_backward(self, compiled: Compile) -> bool:
        """Return True if this compiles the backward pass of the call, and not the call."""
        return not compiled.is_by_hand and (self.compiled or compiled.in_backward_pass)

    def add_seconds(self, compiled: Compile) -> None:
        self.lowering_seconds += compiled.lowering_seconds
        self.compile_seconds += compiled.seconds

    @property
    def why(self) -> str:
        if self.explanation is None:
            return self._problem or "there is no earlier call to compare with"
        return str(self.explanation)

    @property
    def what(self) -> str:
        if self.error is not None:
            return "failed while traced"
        if self.after_trial is not None and not self.is_again:
            return TWO_TRACES
        if self.traced:
            return "was traced and compiled" if self.compiled else "was traced"
        return "was compiled"


def cause_of(entries: list[Entry]) -> Cause:
    """The cause of entries with one `_cause_key`."""
    first, found = entries[0], entries[0].explanation
    what, seconds = _what_again(entries), sum(entry.seconds for entry in entries)
    sites = tuple(dict.fromkeys(entry.site for entry in entries if entry.site is not None))
    if first.what == TWO_TRACES:
        seconds = sum(entry.trace_seconds for entry in entries)
        return Cause(what, len(entries), seconds, (), first.after_trial, (), (), sites)
    if first.error is not None:
        return Cause(what, len(entries), seconds, (), first.error, (), first.advice, sites)
    if found is None:
        return Cause(what, len(entries), seconds, (), first.why, (), (), sites)
    changes = [entry.explanation.changes for entry in entries if entry.explanation]
    return Cause(
        *(what, len(entries), seconds, found.changes, found.note),
        *(found.fixes, found.hints, sites, *verdict(changes)),
    )


def _what_again(entries: list[Entry]) -> str:
    """Return what had been done before: a second trace may come with the first compile."""
    if entries[0].error is not None or entries[0].what == TWO_TRACES:
        return entries[0].what
    found = {
        "traced": any(entry.traced_again for entry in entries),
        "compiled": any(entry.compiled_again for entry in entries),
    }
    if entries[0].operation is not None:
        return f"compiled {entries[0].operation} again"
    return f"was {' and '.join(done for done, is_again in found.items() if is_again)}"


def _cause_key(entry: Entry) -> object:
    """Equal for entries with one cause."""
    if entry.error is not None or entry.what == TWO_TRACES or entry.explanation is None:
        return entry.what, entry.error or entry.after_trial
    # Not by the values: a batch that grows in each step is one cause.
    changes = ((path_of_growth(c), c.kind, c.fix, c.hint) for c in entry.explanation.changes)
    return entry.what, entry.operation, *dict.fromkeys(changes)


def _causes_of_line(entries: list[Entry]) -> list[Cause]:
    """The causes of what JAX and libraries compile at one line."""
    # Those of libraries are compared like functions. JAX's own operations have shapes instead.
    causes = _causes([e for e in entries if e.compiled_again and e.shapes is None])
    # By name, the operations that JAX compiled again for other shapes, and for the same.
    others: dict[str, list[Entry]] = {}
    repeated: dict[str, list[Entry]] = {}
    shapes: dict[str, list[str]] = {}
    firsts = []
    for entry in entries:
        seen = shapes.setdefault(name := str(entry.operation), [])
        if not entry.compiled_again:
            firsts.append(entry)
        elif entry.shapes is not None:
            kind = repeated if entry.shapes in seen else others
            kind.setdefault(name, []).append(entry)
        seen.append(str(entry.shapes))
    if others and (told := several_shapes(shapes[name] for name in others)):
        causes.append(_cause_of_operations(others, told))
    for name, found in repeated.items():
        if told := repeated_operation(name, len(found)):
            causes.append(_cause_of_operations({name: found}, told))
    seconds = sum(entry.seconds for entry in firsts)
    if expected := many_operations(len(firsts), seconds):
        what = f"compiled {len(firsts)} operations"
        causes.append(Cause(what, 1, seconds, (), None, (), expected=expected))
    return causes


def _cause_of_operations(found: dict[str, list[Entry]], told: tuple[str, str]) -> Cause:
    entries = [entry for each in found.values() for entry in each]
    what, seconds = f"compiled {', '.join(found)} again", sum(entry.seconds for entry in entries)
    return Cause(what, len(entries), seconds, (), told[0], (), told[1:])


def _causes(entries: list[Entry]) -> list[Cause]:
    alike: dict[object, list[Entry]] = {}
    for entry in entries:
        alike.setdefault(_cause_key(entry), []).append(entry)
    return [cause_of(entries) for entries in alike.values()]


@attrs.define(eq=False)
class FunctionLog(Counts):
    """The traces and compiles of one function.

    Or of one line of the user's code: what JAX and libraries compile there. Then `name` is the
    short form of the line and `place` the long one, and each entry has its `operation`.
    """

    name: str
    place: str | None
    entries: list[Entry] = attrs.field(factory=list, repr=False)
    is_line: bool = False
    # What tells this function, or line, from others in one log.
    key: object = attrs.field(default=None, repr=False)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name

    @property
    def first_seconds(self) -> float:
        """The seconds of what was traced and compiled for the first time."""
        return sum(entry.seconds for entry in self.entries if not entry.is_again)

    @property
    def recompiles(self) -> list[Entry]:
        """The entries that were traced after an earlier trace, or compiled after a compile."""
        return [entry for entry in self.entries if entry.is_again]

    @property
    def omitted(self) -> int:
        """The number of traces or compiles that have no entry, since there were too many."""
        # An entry may be a trace and a compile, so the counts are not added.
        compiles = self.compiles + self.cache_hits
        counted = compiles if self.is_line else max(self.traces, self.compiles)
        return max(counted - len(self.entries), 0)

    @property
    def is_expected(self) -> bool:
        """Return True if nothing was traced or compiled again that need not be."""
        return not self.omitted and not any(cause.is_avoidable for cause in self.causes())

    @property
    def lost_seconds(self) -> float:
        """The seconds of what could be avoided, of entries that were not kept too."""
        kept = sum(cause.seconds for cause in self.causes() if cause.is_avoidable)
        # What is counted after that many entries was not the first time.
        if not self.omitted:
            return kept
        return kept + max(self.seconds - sum(entry.seconds for entry in self.entries), 0.0)

    def causes(self) -> list[Cause]:
        """The recompiles and the failed traces, grouped by cause."""
        if self.is_line:
            return _causes_of_line(self.entries)
        told = (e for e in self.entries if e.is_again or e.error or e.after_trial)
        return _causes([*told])

    def add_trace(self, entry: Entry) -> None:
        # What is traced inside another trace is one program with it, for all of its shapes.
        entry.traced_again = not entry.is_nested and self.traces > self.nested_traces
        reason = None if entry.call is None else entry.call.why_not_shared
        if reason is not None and (trial := self._trial_before(entry)) is not None:
            # One trace with it, to a user. Nothing is compared with the trial: it looks the same.
            entry.traced_again, trial.traced_again = trial.traced_again, False
            entry.trace_seconds, trial.trace_seconds = (
                entry.trace_seconds + trial.trace_seconds,
                0.0,
            )
            entry.after_trial, trial.error, trial.call = reason, None, None
        if entry.error is not None:
            entry.advice = failure_hints(entry.call)
        self.traces += 1
        self.nested_traces += entry.is_nested
        self.trace_seconds += entry.trace_seconds
        self._add(entry)

    def _trial_before(self, entry: Entry) -> Entry | None:
        """The trial of `canonopt.jit` after which JAX traces the function once more."""
        trial = self.entries[-1] if self.entries else None
        if trial is None or not trial.is_trial or trial.compiled or entry.is_trial:
            return None
        is_one_call = trial.site == entry.site and trial.is_nested == entry.is_nested
        return trial if is_one_call else None

    def add_operation(self, entry: Entry, compiled: Compile) -> None:
        """Counts what a line has compiled."""
        self.trace_seconds += entry.trace_seconds
        self.traces += entry.traced
        self._count(compiled, is_backward=compiled.in_backward_pass)
        if compiled.in_backward_pass:
            return
        entry.compiled = True
        entry.add_seconds(compiled)
        # Without shapes it cannot be compared. JAX compiles it for something that it transforms.
        is_known = entry.call is not None or entry.shapes is not None
        entry.compiled_again = is_known and any(
            e.operation == entry.operation and (e.shapes or e.call) for e in self.entries
        )
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        kept = (e for e in self.entries if not e.refused and e.operation == entry.operation)
        earlier = [e.call for e in kept if e.call is not None]
        # Also if the entry is not kept, because an assertion may report it.
        entry.compare_with(earlier)
        if len(self.entries) < (MAX_OPERATIONS if self.is_line else MAX_ENTRIES):
            self.entries.append(entry)

    def add_compile(self, compiled: Compile, entry: Entry | None = None) -> Entry | None:
        """Counts a compile that a miss led to.

        **Returns:** the entry that it belongs to, or None for a backward pass.
        """
        is_new = False
        if entry is not None and not (entry.traced or entry.compiled):
            # Jitted twice, it has a second miss inside the first. Or `.trace()` came before it.
            key, traced = entry.call, [e for e in self.entries if e.traced]
            same = [
                e for e in traced if e.at > entry.at or (not e.compiled and _is_same(e.call, key))
            ]
            entry, is_new = (same[-1], False) if same else (entry, True)
        if entry is not None and entry.is_followed_by_backward(compiled):
            self._count(compiled, is_backward=True)
            if not is_new:
                entry.add_seconds(compiled)
            return None
        self._count(compiled, is_backward=False)
        if entry is not None:
            # A miss that found its trace in JAX's cache becomes an entry once it has compiled.
            if is_new:
                self._add(entry)
            if not entry.compiled:  # what was lowered once may be compiled twice
                entry.compiled_again = self.compiles + self.cache_hits > 1
            entry.compiled = True
            entry.add_seconds(compiled)
        return entry

    def _count(self, compiled: Compile, is_backward: bool) -> None:
        self.lowering_seconds += compiled.lowering_seconds
        self.compile_seconds += compiled.seconds
        self.cache_misses += compiled.cache == "miss"
        if is_backward:
            self.backward_compiles += 1
        elif compiled.is_hit:
            self.cache_hits += 1
        else:
            self.compiles += 1


def _is_same(one: Call | None, other: Call | None) -> bool:
    return one is other or (one is not None and other is not None and is_same_call(one, other))


_SHOWN = ("name", "traces", "compiles", "cache_hits", "seconds")
_TITLES = ("function", "traces", "compiles", "cache hits", "seconds", "defined at")


class CompileLog:
    """Counts of traces and compiles, by function. See `canonopt.compile_log`."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        # What canonopt failed to find out, which does not disturb the program that it watches.
        self.problems: list[str] = []
        # What went on with an old value, if that was asked for.
        self.stale: list[StaleRead] = []
        self._logs: dict[object, FunctionLog] = {}
        self._lines: dict[object, FunctionLog] = {}
        _alive[id(self)] = weakref.ref(self, functools.partial(_forget, id(self)))

    @property
    def functions(self) -> list[FunctionLog]:
        """The user's functions, in the order in which they were first traced or compiled."""
        return [log for log in self._logs.values() if log.events]

    @property
    def helpers(self) -> list[FunctionLog]:
        """Return the logs of what JAX and libraries compile, by the user's line that ran it."""
        return [log for log in self._lines.values() if log.events]

    def __getitem__(self, name: str) -> FunctionLog:
        """The counts of all functions of this name together; zeros if it was not traced here.

        Or those of a line: `log["train.py:12"]`. Raises `UnknownFunctionError` if no function that
        Python knows has this name.
        """
        both = (*self.functions, *self.helpers)
        found = [log for log in both if log.name == name]
        if not found and not _LINE.search(name) and not is_name_of_code(name):
            raise _unknown(name, [log.name for log in both])
        return found[0] if len(found) == 1 else _total(name, found)

    def __iter__(self) -> Iterator[FunctionLog]:
        return iter(self.functions)

    def __str__(self) -> str:
        lines = aligned([_TITLES, *self._rows()])
        for title, cause in self._causes():
            lines += ["", f"{title}:", *(f"  {line}" for line in cause.lines())]
        for read in self.stale:
            lines += ["", *read.lines()]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        """Return the log as a notebook shows it."""
        return log_markup(_TITLES, self._rows(), self._causes(), self._notes())

    def _rows(self) -> list[tuple[str, ...]]:
        helpers = self.helpers
        shown = [*self.functions, *(log for log in helpers if not log.is_expected)]
        if others := [log for log in helpers if log.is_expected]:
            count = "1 line" if len(others) == 1 else f"{len(others)} lines"
            shown.append(_total(f"JAX and libraries: {count}", others))
        rows = ((*(getattr(log, name) for name in _SHOWN), log.place or "") for log in shown)
        return [(name, *map(str, counts), f"{s:.2f}", place) for name, *counts, s, place in rows]

    def _causes(self) -> list[tuple[str, Cause]]:
        both = (*self.functions, *self.helpers)
        return [(f"{log.name} {cause.title}", cause) for log in both for cause in log.causes()]

    def _notes(self) -> list[str]:
        firsts = [log.name for log in self.functions if not log.causes()]
        first = f"no earlier call in this log to compare with: {', '.join(firsts)}"
        failed = (f"canonopt failed to find something out: {text}" for text in self.problems)
        return [*(["", first] if firsts else []), *failed]

    def note_problem(self, problem: str) -> bool:
        """Notes what failed in canonopt. False if it is known, or if there are too many."""
        is_new = problem not in self.problems and len(self.problems) < MAX_ENTRIES
        if is_new:
            self.problems.append(problem)
        return is_new

    def function_log(self, name: str, function: Any) -> FunctionLog:
        """The log of a function, which is new if there was none."""
        place = place_of(innermost(function))
        key = (name, place, identity_of_code(function))
        return self._logs.setdefault(key, FunctionLog(name, place, key=key))

    def line_log(self, site: str | None) -> FunctionLog:
        """The log of a line, which is new if there was none."""
        name = "no line of yours" if site is None else os.path.basename(site)
        return self._lines.setdefault(site, FunctionLog(name, site, is_line=True, key=site))

    def entries_like(self, log: FunctionLog) -> list[Entry]:
        """The entries of the same function or line, of which `log` is of any `CompileLog`."""
        found = (self._lines if log.is_line else self._logs).get(log.key)
        return [*found.entries] if found is not None else []


# The logs that somebody still has, by id.
_alive: dict[int, weakref.ref[CompileLog]] = {}


def _forget(identity: int, reference: weakref.ref[CompileLog]) -> None:
    if _alive.get(identity) is reference:  # another log may have the id by now
        _alive.pop(identity, None)


def _earlier(log: FunctionLog, entry: Entry) -> list[Entry]:
    """The entries of the same function or operation before this one, in all logs."""
    logs = [each for reference in [*_alive.values()] if (each := reference()) is not None]
    found = (other for each in logs for other in each.entries_like(log))
    same = (e for e in found if e.operation == entry.operation and not e.refused)
    return sorted((e for e in same if e.at < entry.at), key=lambda e: e.at)


def compare_with_all(log: FunctionLog, entry: Entry) -> None:
    """Has an entry compared with the earlier calls in all logs that somebody still has."""
    keys = (each.call for each in _earlier(log, entry))
    entry.compare_with([key for key in keys if key is not None])


def earlier_shapes(log: FunctionLog, entry: Entry) -> list[str]:
    """The shapes for which an operation was compiled before, by all logs that somebody has."""
    # Two logs may have noted one compile.
    found = {e.at: e.shapes for e in _earlier(log, entry) if e.shapes is not None}
    return [*found.values()]


_LINE = re.compile(r":\d+$")  # how the name of a line ends


def _unknown(name: str, seen: list[str]) -> UnknownFunctionError:
    names = ", ".join(dict.fromkeys(seen)) or "nothing"
    close = difflib.get_close_matches(name, seen, 1)
    fix = f"Write {close[0]!r}." if close else "Write the name of a function, or of a line."
    return UnknownFunctionError(
        f"No function has the name {name!r}. Traced or compiled: {names}.", fix, path=name
    )


def _total(name: str, logs: list[FunctionLog]) -> FunctionLog:
    entries = [entry for log in logs for entry in log.entries]
    is_line = any(log.is_line for log in logs)
    return FunctionLog(name, None, entries, is_line).add(logs)


# --- what the listeners write into ------------------------------------------------------------


class Recorder(abc.ABC):
    """Writes what the listeners hear into logs, from any thread."""

    # Whether it also follows functions that a library jits itself.
    follows_libraries = False

    def __init__(self) -> None:
        self.is_closed = False
        self._lock = threading.RLock()  # a signal handler may trace, too
        # By jaxpr and by what it was lowered to, either of which any thread may compile later.
        self._programs: WeakIdMap[tuple[FunctionLog, Entry]] = WeakIdMap()
        # By thread and name: what may be compiled next.
        self._ready: dict[tuple[int, str], tuple[FunctionLog, Entry]] = {}

    @abc.abstractmethod
    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        """The log to write into, or None to ignore the function."""

    def add_trace(self, log: FunctionLog, entry: Entry) -> None:
        with self._lock:
            log.add_trace(entry)

    def add_compile(
        self, log: FunctionLog, compiled: Compile, entry: Entry | None = None
    ) -> Entry | None:
        with self._lock:
            return log.add_compile(compiled, entry)

    def remember(self, program: Any, log: FunctionLog, entry: Entry) -> None:
        """Keeps the entry of a program, for as long as the program lives."""
        self._programs.set(program, (log, entry))

    def recall(self, program: Any) -> tuple[FunctionLog, Entry] | None:
        return self._programs.get(program)

    def set_ready(self, name: str, log: FunctionLog, entry: Entry) -> None:
        """Notes what this thread compiles next under a name, if it compiles."""
        key = threading.get_ident(), name
        with self._lock:
            self._ready.pop(key, None)  # moves it to the end
            self._ready[key] = (log, entry)
            if len(self._ready) > MAX_ENTRIES:
                self._ready.pop(next(iter(self._ready)))

    def ready(self, name: str) -> tuple[FunctionLog, Entry] | None:
        return self._ready.get((threading.get_ident(), name))

    def after_miss(  # noqa: B027, a hook that may stay empty
        self, log: FunctionLog, entry: Entry, program: Any
    ) -> None:
        """Called with the jaxpr after each miss, traced or not. May raise."""

    def after_compile(  # noqa: B027
        self, log: FunctionLog, entry: Entry, compiled: Compile
    ) -> None:
        """Called after a call or `.compile()` has compiled. May raise."""

    def add_operation(  # noqa: B027
        self, entry: Entry, compiled: Compile
    ) -> FunctionLog | None:
        """Called when JAX or a library has compiled, with the line of the user's in the entry.

        Returns the log of that line, for `after_compile`.
        """

    def note_problem(self, problem: str) -> None:  # noqa: B027
        """Called if canonopt itself has failed."""

    def close(self) -> None:
        """Ends recording, and lets go of all that was recorded."""
        self.is_closed = True
        self._ready.clear()
        self._programs = WeakIdMap()
