"""What was traced and compiled, by function, with counts and causes.

`CompileLog` is what users get. A `Recorder` writes into the logs what the listeners hear from JAX.
"""

import abc
import threading
import time
from typing import Any

import attrs

from .._python_internals import WeakIdMap
from .._texts import place_of
from .advice import CauseLine, Change, cause_lines, failure_hints
from .call_key import CallKey, code_of, innermost
from .differences import Explanation, explain

MAX_ENTRIES = 64  # kept for each function


@attrs.define(eq=False)
class Entry:
    """One trace, one compile, or both: what a miss of the jit cache led to."""

    call_key: CallKey | None
    at: float  # seconds, of time.perf_counter
    traced: bool = False
    compiled: bool = False
    explanation: Explanation | None = None
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    error: str | None = None  # of a trace that failed
    # By an assertion. Later calls are not compared with this one, so the reason stays the same.
    refused: bool = False
    # Whether the function had been traced or compiled before. If `predict` was traced inside `step`
    # and is called later, that is an entry of its own with a first compile.
    traced_again: bool = False
    compiled_again: bool = False

    @property
    def is_again(self) -> bool:
        return self.traced_again or self.compiled_again

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.compile_seconds

    @property
    def why(self) -> str:
        if self.explanation is None:
            return "there is no earlier call to compare with"
        return str(self.explanation)

    @property
    def what(self) -> str:
        if self.error is not None:
            return "failed while traced"
        if self.traced:
            return "was traced and compiled" if self.compiled else "was traced"
        return "was compiled"


@attrs.frozen
class Cause:
    """Why a function was traced or compiled again, or why its trace failed, and how often."""

    what: str
    times: int
    seconds: float
    # Those of the first time. Later ones have the same paths and kinds.
    changes: tuple[Change, ...]
    note: str | None  # in place of changes
    fixes: tuple[str, ...]  # lines to paste
    hints: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: list[Entry]) -> "Cause":
        """The cause of entries with one `_cause_key`."""
        first, found = entries[0], entries[0].explanation
        what, seconds = _what_again(entries), sum(entry.seconds for entry in entries)
        if first.error is not None:
            hints = failure_hints(first.call_key)
            return cls(what, len(entries), seconds, (), first.error, (), hints)
        if found is None:
            return cls(what, len(entries), seconds, (), first.why, ())
        return cls(what, len(entries), seconds, found.changes, found.note, found.fixes, found.hints)

    @property
    def title(self) -> str:
        again = "" if self.what.startswith("failed") else " again"
        return f"{self.what}{again}, {times(self.times)}"

    def report(self, most: int = 3) -> list[CauseLine]:
        """The changes or the note, and what to write: what all reports show, `most` of each."""
        return cause_lines(self.changes, self.note, self.hints, self.fixes, most)

    def lines(self) -> list[str]:
        """The report as plain text."""
        return [str(line) for line in self.report()]


def _what_again(entries: list[Entry]) -> str:
    """What had been done before: a second trace may come with the first compile."""
    if entries[0].error is not None:
        return entries[0].what
    found = {
        "traced": any(entry.traced_again for entry in entries),
        "compiled": any(entry.compiled_again for entry in entries),
    }
    return f"was {' and '.join(done for done, is_again in found.items() if is_again)}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _cause_key(entry: Entry) -> object:
    """Equal for entries with one cause."""
    if entry.error is not None or entry.explanation is None:
        return entry.what, entry.error
    # Not by the values: a batch that grows in each step is one cause.
    changes = (
        (change.path, change.kind, change.fix, change.hint) for change in entry.explanation.changes
    )
    return entry.what, *changes


@attrs.define(eq=False)
class FunctionLog:
    """The traces and compiles of one function. Seconds exclude those of inner functions."""

    name: str
    place: str | None
    traces: int = 0
    compiles: int = 0
    cache_hits: int = 0  # of JAX's persistent compilation cache, in place of a compile
    # The backward pass that `jax.grad` or `jax.vjp` makes of a jitted function is a program of its
    # own. It is no recompile, and no limit counts it.
    backward_compiles: int = 0
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    entries: list[Entry] = attrs.field(factory=list)

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.compile_seconds

    @property
    def events(self) -> int:
        return self.traces + self.compiles + self.cache_hits + self.backward_compiles

    @property
    def recompiles(self) -> list[Entry]:
        """The entries that were traced after an earlier trace, or compiled after a compile."""
        return [entry for entry in self.entries if entry.is_again]

    @property
    def lost_seconds(self) -> float:
        """The seconds of all but the first time, of entries that were not kept too."""
        kept = sum(entry.seconds for entry in self.recompiles)
        # What is counted after that many entries was not the first time.
        if len(self.entries) < MAX_ENTRIES:
            return kept
        return kept + max(self.seconds - sum(entry.seconds for entry in self.entries), 0.0)

    def causes(self) -> list[Cause]:
        """The recompiles and the failed traces, grouped by cause."""
        alike: dict[object, list[Entry]] = {}
        for entry in self.entries:
            if entry.is_again or entry.error is not None:
                alike.setdefault(_cause_key(entry), []).append(entry)
        return [Cause.of(entries) for entries in alike.values()]

    def add_trace(self, entry: Entry) -> None:
        entry.traced_again = self.traces > 0
        self.traces += 1
        self.trace_seconds += entry.trace_seconds
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        kept = (entry for entry in self.entries if not entry.refused)
        earlier = [e.call_key for e in kept if e.call_key is not None]
        # Also if the entry is not kept, because an assertion may report it.
        if entry.call_key is not None:
            entry.explanation = explain(entry.call_key, earlier)
        if len(self.entries) < MAX_ENTRIES:
            self.entries.append(entry)

    def add_compile(self, compiled: "Compile", entry: Entry | None = None) -> Entry | None:
        """Counts a compile that a miss led to.

        **Returns:** the entry that it belongs to, or None for a backward pass.
        """
        is_new = False
        if entry is not None and not (entry.traced or entry.compiled):
            # A function that is jitted twice has a second miss, inside the first.
            inside = [e for e in self.entries if e.at > entry.at and e.traced]
            entry, is_new = (inside[-1], False) if inside else (entry, True)
        self.compile_seconds += compiled.seconds
        if entry is not None and compiled.is_backward(entry):
            self.backward_compiles += 1
            if not is_new:
                entry.compile_seconds += compiled.seconds
            return None
        if compiled.is_hit:
            self.cache_hits += 1
        else:
            self.compiles += 1
        if entry is not None:
            # A miss that found its trace in JAX's cache becomes an entry once it has compiled.
            if is_new:
                self._add(entry)
            if not entry.compiled:  # what was lowered once may be compiled twice
                entry.compiled_again = self.compiles + self.cache_hits > 1
            entry.compiled = True
            entry.compile_seconds += compiled.seconds
        return entry


@attrs.frozen
class Compile:
    """What JAX tells of one compile."""

    seconds: float
    is_hit: bool  # of the persistent compilation cache
    is_by_hand: bool  # by `.compile()`
    in_backward_pass: bool

    def is_backward(self, entry: Entry) -> bool:
        """Whether this compiles the backward pass of the entry's call, and not the call."""
        return not self.is_by_hand and (entry.compiled or self.in_backward_pass)


_COUNTS = (
    *("traces", "compiles", "cache_hits", "backward_compiles"),
    *("trace_seconds", "compile_seconds"),
)


class CompileLog:
    """Counts of traces and compiles, by function. See `canonopt.compile_log`."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self._logs: dict[tuple[str, str | None, object], FunctionLog] = {}
        self._helpers: dict[tuple[str, str | None, object], FunctionLog] = {}

    @property
    def functions(self) -> list[FunctionLog]:
        """The user's functions, in the order in which they were first traced or compiled."""
        return [log for log in self._logs.values() if log.events]

    @property
    def helpers(self) -> list[FunctionLog]:
        """Functions that JAX and libraries jit themselves, as for `jnp.ones`."""
        return [log for log in self._helpers.values() if log.events]

    def __getitem__(self, name: str) -> FunctionLog:
        """The counts of all functions of this name together; zeros if there is none."""
        found = [log for log in self.functions if log.name == name]
        if len(found) == 1:
            return found[0]
        total = FunctionLog(name, None)
        for log in found:
            for field in _COUNTS:
                setattr(total, field, getattr(total, field) + getattr(log, field))
            total.entries.extend(log.entries)
        return total

    def __str__(self) -> str:
        header = ("function", "traces", "compiles", "cache hits", "seconds", "defined at")
        rows = [
            (log.name, log.traces, log.compiles, log.cache_hits, f"{log.seconds:.2f}", log.place)
            for log in self.functions
        ]
        helpers = self.helpers
        if helpers:
            counts = (sum(h.traces for h in helpers), sum(h.compiles for h in helpers))
            hits, seconds = sum(h.cache_hits for h in helpers), sum(h.seconds for h in helpers)
            rows.append((f"{len(helpers)} helpers", *counts, hits, f"{seconds:.2f}", None))
        lines = aligned([header, *rows])
        for log in self.functions:
            for cause in log.causes():
                lines += ["", f"{log.name} {cause.title}:"]
                lines += [f"  {line}" for line in cause.lines()]
        return "\n".join(lines)

    def function_log(
        self, name: str, function: Any = None, by_library: bool = False
    ) -> FunctionLog:
        """The log of a function, which is new if there was none. Without `function`, a helper's."""
        place = place_of(innermost(function)) if function is not None else None
        logs = self._helpers if function is None or by_library else self._logs
        return logs.setdefault((name, place, code_of(function)), FunctionLog(name, place))


def aligned(rows: list[tuple[Any, ...]]) -> list[str]:
    """The lines of a table whose columns are as wide as their cells."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


# --- what the listeners write into ------------------------------------------------------------


class Recorder(abc.ABC):
    """Writes what the listeners hear into logs, from any thread."""

    explains_helpers = False

    def __init__(self) -> None:
        self.is_closed = False
        self._lock = threading.Lock()
        # By jaxpr and by what it was lowered to, either of which any thread may compile later.
        self._programs: WeakIdMap[tuple[FunctionLog, Entry]] = WeakIdMap()

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

    def after_miss(  # noqa: B027, a hook that may stay empty
        self, log: FunctionLog, entry: Entry, program: Any
    ) -> None:
        """Called with the jaxpr after each miss, traced or not. May raise."""

    def after_compile(self, log: FunctionLog, entry: Entry) -> None:  # noqa: B027
        """Called after a call or `.compile()` has compiled. May raise."""


class LogRecorder(Recorder):
    """Writes everything into a `CompileLog`."""

    def __init__(self, log: CompileLog) -> None:
        super().__init__()
        self._log = log

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog:
        with self._lock:
            return self._log.function_log(name, function, by_library)
