"""The record of what was traced and compiled, by function, and its table of counts and causes."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from .._python_internals import WeakIdMap
from .call_key import Signature
from .differences import (
    INIT,
    Change,
    Explanation,
    explain,
    in_lines,
)
from .ownership import code_of, written_as
from .statics import place_of

ENTRIES = 64  # kept for each function


@attrs.define(eq=False)
class Entry:
    """One trace, one compile, or both: what a miss of the cache led to."""

    signature: Signature | None
    at: float  # seconds, of time.perf_counter
    traced: bool = False
    compiled: bool = False
    explanation: Explanation | None = None
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    error: str | None = None  # of a trace that failed
    refused: bool = False  # by an assertion: another like it is one too many for the same reason
    # Whether the function had been traced before, and compiled before. To run `predict` after it
    # was traced inside of `step` is an entry of its own, and compiles it for the first time.
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
            return "it has nothing that canonopt could compare with an earlier call"
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
    """Why a function was traced or compiled again, or failed, and how often for this reason."""

    what: str
    times: int
    seconds: float
    # The differences of the first time. The others are of the same paths and kinds.
    changes: tuple[Change, ...]
    # In place of differences, where there are none.
    note: str | None
    fixes: tuple[str, ...]

    @classmethod
    def of(cls, entries: list[Entry]) -> "Cause":
        """The one cause of entries whose essence is the same."""
        first = entries[0]
        changes, note, fixes = (), None, ()
        if first.error is not None:
            note, fixes = first.error, (INIT,) if _is_of_the_state(first) else ()
        elif first.explanation is not None and first.explanation.changes:
            changes, fixes = first.explanation.changes, first.explanation.fixes
        else:
            note = first.why
        seconds = sum(entry.seconds for entry in entries)
        return cls(_what_again(entries), len(entries), seconds, changes, note, fixes)

    @property
    def title(self) -> str:
        again = "" if self.what.startswith("failed") else " again"
        return f"{self.what}{again}, {times(self.times)}"

    def lines(self) -> list[str]:
        """The differences, and what to write."""
        return in_lines(self.changes, self.fixes, self.note)


def _what_again(entries: list[Entry]) -> str:
    """What these did that had been done before: the first compile may come with a second trace."""
    if entries[0].error is not None:
        return entries[0].what
    found = {
        "traced": any(entry.traced_again for entry in entries),
        "compiled": any(entry.compiled_again for entry in entries),
    }
    return f"was {' and '.join(done for done, is_again in found.items() if is_again)}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _essence(entry: Entry) -> object:
    """What two entries of one cause have in common."""
    if entry.error is not None or entry.explanation is None:
        return entry.what, entry.error
    changes = ((change.path, change.kind, change.fix) for change in entry.explanation.changes)
    return entry.what, *changes


def _is_of_the_state(entry: Entry) -> bool:
    """Whether an optimizer state of another structure than the gradients made a trace fail."""
    is_structure = re.search(r"structure|pytree|None|Mismatch", entry.error or "", re.IGNORECASE)
    return bool(is_structure and entry.signature is not None and entry.signature.states)


@attrs.define(eq=False)
class FunctionLog:
    """What a function was traced and compiled for. Seconds are without those of inner functions."""

    name: str
    place: str | None
    traces: int = 0
    compiles: int = 0
    cache_hits: int = 0  # of JAX's persistent compilation cache, in place of a compile
    # Of the backward passes that `jax.grad` and `jax.vjp` make of a jitted function: each is a
    # program of its own beside that of the call, in no limit, and no recompile.
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
        """Of all but the first time, and with those that there is no entry of any more."""
        kept = sum(entry.seconds for entry in self.recompiles)
        if len(self.entries) < ENTRIES:
            return kept
        return kept + max(self.seconds - sum(entry.seconds for entry in self.entries), 0.0)

    def causes(self) -> list[Cause]:
        """The recompiles, and the entries that failed, put together by what caused them."""
        alike: dict[object, list[Entry]] = {}
        for entry in self.entries:
            if entry.is_again or entry.error is not None:
                alike.setdefault(_essence(entry), []).append(entry)
        return [Cause.of(entries) for entries in alike.values()]

    def _add_trace(self, entry: Entry) -> None:
        entry.traced_again = self.traces > 0
        self.traces += 1
        self.trace_seconds += entry.trace_seconds
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        kept = (entry for entry in self.entries if not entry.refused)
        earlier = [e.signature for e in kept if e.signature is not None]
        if entry.signature is not None:
            entry.explanation = explain(entry.signature, earlier)
        if len(self.entries) < ENTRIES:
            self.entries.append(entry)

    def _add_compile(self, entry: Entry | None, is_hit: bool, seconds: float) -> None:
        if entry is not None:
            if not entry.compiled:  # or what was lowered once is compiled twice
                entry.compiled_again = self.compiles + self.cache_hits > 0
            entry.compiled = True
            entry.compile_seconds += seconds
        if is_hit:
            self.cache_hits += 1
        else:
            self.compiles += 1
        self.compile_seconds += seconds

    def _add_backward_compile(self, entry: Entry | None, seconds: float) -> None:
        """From the persistent cache or not. Its seconds are the call's, where that has an entry."""
        self.backward_compiles += 1
        self.compile_seconds += seconds
        if entry is not None:
            entry.compile_seconds += seconds


_COUNTS = (
    *("traces", "compiles", "cache_hits", "backward_compiles"),
    *("trace_seconds", "compile_seconds"),
)


class CompileLog:
    """Counts of traces and compiles, by function. See `canonopt.compile_log`."""

    _explains_helpers = False

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self._lock = threading.Lock()
        self._is_closed = False
        # What may yet be compiled by hand, and by any thread: jaxprs, and what they are lowered to.
        self._programs: WeakIdMap[tuple[FunctionLog, Entry]] = WeakIdMap()
        self._logs: dict[tuple[str, str | None, object], FunctionLog] = {}
        self._helpers: dict[tuple[str, str | None, object], FunctionLog] = {}

    @property
    def functions(self) -> list[FunctionLog]:
        """The user's functions, in the order in which they were first traced or compiled."""
        return [log for log in self._logs.values() if log.events]

    @property
    def helpers(self) -> list[FunctionLog]:
        """The functions of JAX and of libraries on it: what `jnp.ones` and the like compile."""
        return [log for log in self._helpers.values() if log.events]

    def __getitem__(self, name: str) -> FunctionLog:
        """The counts of the functions of this name, together; zeros if there is none."""
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

    def _of(
        self, name: str, function: Callable[..., Any] | None, by_library: bool = False
    ) -> FunctionLog | None:
        """The counts of a function, or None if it is none that this log is about."""
        place = place_of(written_as(function)) if function is not None else None
        logs = self._helpers if function is None or by_library else self._logs
        with self._lock:
            return logs.setdefault((name, place, code_of(function)), FunctionLog(name, place))

    def _missed(self, log: FunctionLog, entry: Entry, program: Any) -> None:
        """Called after a miss of the cache, traced or not, with its jaxpr. May raise."""

    def _compiled(self, log: FunctionLog, entry: Entry) -> None:
        """Called after a compile that a call or `.compile()` has led to was counted. May raise."""


def aligned(rows: list[tuple[Any, ...]]) -> list[str]:
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
