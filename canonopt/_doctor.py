"""What a script compiled, what it lost by that, and what to write: `canonopt doctor` in objects."""

import re
from collections.abc import Iterable

import attrs

from ._explaining import INIT, Change
from ._tracing import CompileLog, Entry, FunctionLog


@attrs.frozen
class Moment:
    """One trace, one compile or both, `at` seconds after the start of the script."""

    at: float
    traced: bool
    compiled: bool
    trace_seconds: float
    compile_seconds: float
    error: str | None

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.compile_seconds


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


@attrs.frozen
class Finding:
    """One function of the user's."""

    name: str
    place: str | None
    traces: int
    compiles: int
    cache_hits: int
    seconds: float
    lost_seconds: float  # of all but the first time
    moments: tuple[Moment, ...]
    causes: tuple[Cause, ...]

    @property
    def is_repeated(self) -> bool:
        return self.traces > 1 or self.compiles + self.cache_hits > 1


@attrs.frozen
class Diagnosis:
    """A run of a script."""

    command: str
    seconds: float
    status: int
    findings: tuple[Finding, ...]
    # What JAX and the libraries on it compiled for operations of their own.
    helpers: int
    helper_compiles: int
    helper_seconds: float

    @property
    def compile_seconds(self) -> float:
        return self.helper_seconds + sum(finding.seconds for finding in self.findings)

    @property
    def lost_seconds(self) -> float:
        return sum(finding.lost_seconds for finding in self.findings)

    @property
    def repeated(self) -> list[Finding]:
        """The functions that were traced or compiled more than once, the dearest first."""
        found = [finding for finding in self.findings if finding.is_repeated]
        return sorted(found, key=lambda finding: -finding.lost_seconds)

    @property
    def failed(self) -> list[Finding]:
        """The functions with a trace that failed, and nothing else to say of them."""
        return [f for f in self.findings if f.causes and not f.is_repeated]


def diagnose(log: CompileLog, command: str, status: int, seconds: float) -> Diagnosis:
    helpers = log.helpers
    return Diagnosis(
        command,
        seconds,
        status,
        tuple(_finding(function, log.started) for function in log.functions),
        len(helpers),
        sum(helper.compiles for helper in helpers),
        sum(helper.seconds for helper in helpers),
    )


def _finding(log: FunctionLog, started: float) -> Finding:
    first = log.entries[0].seconds if log.entries else 0.0
    moments = (
        Moment(e.at - started, e.traced, e.compiled, e.trace_seconds, e.compile_seconds, e.error)
        for e in log.entries
    )
    return Finding(
        log.name,
        log.place,
        log.traces,
        log.compiles,
        log.cache_hits,
        log.seconds,
        max(log.seconds - first, 0.0),
        tuple(moments),
        tuple(_causes(log)),
    )


def _causes(log: FunctionLog) -> Iterable[Cause]:
    """The entries after the first, and those that failed, put together by what caused them."""
    alike: dict[object, list[Entry]] = {}
    for index, entry in enumerate(log.entries):
        if entry.error is not None:
            alike.setdefault(("failed", entry.error), []).append(entry)
        elif index > 0:
            alike.setdefault((entry.what, _essence(entry)), []).append(entry)
    for entries in alike.values():
        first, times = entries[0], len(entries)
        seconds = sum(entry.seconds for entry in entries)
        if first.error is not None:
            fixes = (INIT,) if _is_of_the_state(first) else ()
            yield Cause("failed while traced", times, seconds, (), first.error, fixes)
            continue
        changes = first.explanation.changes if first.explanation is not None else ()
        fixes = tuple(dict.fromkeys(change.fix for change in changes))
        yield Cause(first.what, times, seconds, changes, None if changes else first.why, fixes)


def _essence(entry: Entry) -> object:
    if entry.explanation is None:
        return None
    return tuple((change.path, change.kind, change.fix) for change in entry.explanation.changes)


def _is_of_the_state(entry: Entry) -> bool:
    """Whether an optimizer state of another structure than the gradients made a trace fail."""
    is_structure = re.search(r"structure|pytree|None|Mismatch", entry.error or "", re.IGNORECASE)
    return bool(is_structure and entry.signature is not None and entry.signature.states)
