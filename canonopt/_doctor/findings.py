"""What a script compiled, what it lost by that, and what to write: `canonopt doctor` in objects."""

import attrs

from .._recompiles import (
    Cause,
    CompileLog,
    Entry,
    FunctionLog,
)


@attrs.frozen
class Moment:
    """One trace, one compile or both, `at` seconds after the start of the script."""

    at: float
    traced: bool
    compiled: bool
    trace_seconds: float
    compile_seconds: float
    error: str | None
    again: bool  # traced after an earlier trace, or compiled after an earlier compile

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.compile_seconds


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
        tuple(_finding(f, log.started) for f in log.functions),
        len(helpers),
        sum(helper.compiles for helper in helpers),
        sum(helper.seconds for helper in helpers),
    )


def _finding(log: FunctionLog, started: float) -> Finding:
    return Finding(
        log.name,
        log.place,
        log.traces,
        log.compiles,
        log.cache_hits,
        log.seconds,
        log.lost_seconds,
        tuple(_moment(entry, started) for entry in log.entries),
        tuple(log.causes()),
    )


def _moment(entry: Entry, started: float) -> Moment:
    return Moment(
        entry.at - started,
        entry.traced,
        entry.compiled,
        entry.trace_seconds,
        entry.compile_seconds,
        entry.error,
        entry.is_again,
    )
