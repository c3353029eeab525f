"""Where the time goes until the slowest function, as a rule the step, can run."""

from collections.abc import Iterator, Sequence

import attrs

from .._recompiles import STAGES, CauseLine, Entry
from .report import Function, Report
from .stream import Process

_WORTH_SECONDS = 1.0  # of tracing and compiling: less is not worth a reader's time
_MAX_LINES = 3  # that are named

_ON = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
_SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"


@attrs.frozen
class Start:
    """A table of seconds, the first row with its titles, and what would shorten the start."""

    rows: Sequence[tuple[str, ...]]
    advice: Sequence[CauseLine]


@attrs.frozen
class _Programs:
    """What was traced and compiled until then, of one function or line."""

    name: str
    entries: Sequence[Entry]

    @property
    def seconds(self) -> float:
        return sum(entry.seconds for entry in self.entries)


def start_of(report: Report) -> Start | None:
    """Return where a start went, of the process that took longest; None if it was short."""
    found = (start for process in report.processes if (start := _start(report, process)))
    longest = max(found, key=lambda start: start[0], default=None)
    return None if longest is None else longest[1]


def _start(report: Report, process: Process) -> tuple[float, Start] | None:
    firsts = [(each, log.entries[0]) for each, log in _logs(report.functions, process)]
    if not firsts:
        return None
    slowest = max(first.seconds for _, first in firsts)
    slow = [found for found in firsts if found[1].seconds >= slowest / 2]
    step, first = min(slow, key=lambda found: found[1].at)
    end = first.at + first.seconds
    functions = [*_until(end, report.functions, process)]
    lines = [*_until(end, report.helpers, process)]
    compiling = sum(each.seconds for each in (*functions, *lines))
    if compiling < _WORTH_SECONDS:
        return None
    imported = process.start["time"]
    began = process.start.get("began", imported)
    seconds = max(end - began, compiling)
    imports = max(imported - began, 0.0)
    eager = [entry for line in lines for entry in line.entries]
    others = [e for each in functions for e in each.entries if e is not first]
    name = f", of {process.name}" if len(report.processes) > 1 else ""
    rows = [
        (f"where the start went, in seconds{name}", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", f"{imports:.2f}"),
        _row(f"eager operations, at {len(lines)} {'line' if len(lines) == 1 else 'lines'}", eager),
        _row("other functions", others),
        _row(f"{step.name}, its first program", [first]),
        ("running, and all else", "", "", "", "", f"{max(seconds - compiling - imports, 0):.2f}"),
        (f"until {step.name} could run first", "", "", "", "", f"{seconds:.2f}"),
    ]
    shown = [row for row in rows if row[1] != "0"]
    return seconds, Start(shown, [*_advice(report, process, lines, [*eager, *others, first])])


def _logs(functions: Sequence[Function], process: Process) -> Iterator[tuple[Function, _Programs]]:
    for each in functions:
        log = each.logs.get(process.name)
        entries = [entry for entry in log.entries if entry.compiled] if log else []
        if entries:
            yield each, _Programs(each.place or each.name, entries)


def _until(end: float, functions: Sequence[Function], process: Process) -> Iterator[_Programs]:
    for _, found in _logs(functions, process):
        if early := [entry for entry in found.entries if entry.at < end]:
            yield _Programs(found.name, early)


def _row(name: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    stages = [sum(getattr(entry, stage) for entry in entries) for stage in STAGES]
    return (name, f"{len(entries)}", *(f"{value:.2f}" for value in (*stages, sum(stages))))


def _advice(
    report: Report, process: Process, lines: Sequence[_Programs], entries: Sequence[Entry]
) -> Iterator[CauseLine]:
    """Yield what was measured to shorten such a start, where it would save a second."""
    for line in sorted(lines, key=lambda line: -line.seconds)[:_MAX_LINES]:
        if line.seconds >= _WORTH_SECONDS / 10:
            count = f"{len(line.entries)} programs" if len(line.entries) > 1 else "a program"
            yield CauseLine("note", f"{line.name} compiled {count}, {line.seconds:.2f} s")
    # A restart of a 12-layer transformer: 4.8 s with its parameters initialized, 2.9 s without.
    if sum(line.seconds for line in lines) >= _WORTH_SECONDS:
        yield CauseLine(
            "hint",
            "if these lines initialize what a checkpoint replaces, restore into the shapes of "
            "eqx.filter_eval_shape or jax.eval_shape: nothing is compiled for them",
        )
    logs = [log for each in report.everything for log in each.logs.values()]
    hits, misses = (sum(getattr(log, n) for log in logs) for n in ("cache_hits", "cache_misses"))
    if hits or misses:
        yield CauseLine("note", f"JAX's persistent cache had {hits} of {hits + misses} programs")
    is_on, least = process.cache or (bool(hits or misses), _WORTH_SECONDS)
    times = [entry.compile_seconds for entry in entries]
    short = sum(seconds for seconds in times if seconds < least)
    if is_on and short >= _WORTH_SECONDS and misses:
        # The same restart: 11.7 s with the default threshold, 4.8 s with 0.
        few = f"{sum(seconds < least for seconds in times)} programs, {short:.2f} s"
        yield CauseLine(
            "hint",
            f"JAX's persistent cache leaves out what compiles in less than {least:g} s: {few}",
        )
        yield CauseLine("fix", _SHORT_TOO)
    elif not is_on and sum(times) >= _WORTH_SECONDS:
        yield CauseLine(
            "hint",
            "JAX's persistent cache is off. With it, the next run of the same program reads from "
            f"a folder what XLA took {sum(times):.2f} s for",
        )
        yield CauseLine("fix", f"{_ON}; {_SHORT_TOO}" if short >= _WORTH_SECONDS else _ON)
