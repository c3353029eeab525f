"""Where the time goes until the slowest function, as a rule the step, can run."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs

from .._recompiles import STAGES, CauseLine, Entry, FunctionLog
from .report import Function, Report
from .stream import Process

_WORTH_SECONDS = 1.0  # of tracing and compiling: less is not worth a reader's time
_MAX_LINES = 3  # that are named

_ON = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
_SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"


@attrs.frozen
class Start:
    """A table of seconds, the first row with its titles, and what would shorten the start."""

    seconds: float
    rows: Sequence[tuple[str, ...]]
    advice: Sequence[CauseLine]


def start_of(report: Report) -> Start | None:
    """Return where a start went, of the process that took longest; None if it was short."""
    found = (start for process in report.processes if (start := _start(report, process)))
    return max(found, key=lambda start: start.seconds, default=None)


def _start(report: Report, process: Process) -> Start | None:
    functions, lines = _entries(report.functions, process), _entries(report.helpers, process)
    firsts = [(log.name, entries[0]) for log, entries in functions]
    slowest = max((first.seconds for _, first in firsts), default=0.0)
    slow = [found for found in firsts if found[1].seconds >= slowest / 2]
    if not slow:
        return None
    step, first = min(slow, key=lambda found: found[1].at)
    end = first.at + first.seconds
    lines = [(log, [e for e in entries if e.at < end]) for log, entries in lines]
    lines = [(log, entries) for log, entries in lines if entries]
    eager = [entry for _, entries in lines for entry in entries]
    others = [e for _, entries in functions for e in entries if e.at < end and e is not first]
    compiling = _seconds([*eager, *others, first])
    if compiling < _WORTH_SECONDS:
        return None
    imported = process.start["time"]
    began = process.start.get("began", imported)
    seconds = max(end - began, compiling)
    rest = max(end - imported - compiling, 0.0)
    name = f", of {process.name}" if len(report.processes) > 1 else ""
    rows = [
        (f"where the start went, in seconds{name}", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", f"{imported - began:.2f}"),
        _row(f"eager operations, at {len(lines)} {'line' if len(lines) == 1 else 'lines'}", eager),
        _row("other functions", others),
        _row(f"{step}, its first program", [first]),
        ("running, and all else", "", "", "", "", f"{rest:.2f}"),
        (f"until {step} could run first", "", "", "", "", f"{seconds:.2f}"),
    ]
    advice = [*_on_lines(lines), *_on_cache(report, process, [*eager, *others, first])]
    return Start(seconds, [row for row in rows if row[1] != "0"], advice)


_Entries: TypeAlias = list[tuple[FunctionLog, list[Entry]]]


def _entries(functions: Sequence[Function], process: Process) -> _Entries:
    logs = [each.logs[process.name] for each in functions if process.name in each.logs]
    found = [(log, [entry for entry in log.entries if entry.compiled]) for log in logs]
    return [(log, entries) for log, entries in found if entries]


def _seconds(entries: Iterable[Entry]) -> float:
    return sum(entry.seconds for entry in entries)


def _row(name: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    stages = [sum(getattr(entry, stage) for entry in entries) for stage in STAGES]
    return (name, f"{len(entries)}", *(f"{value:.2f}" for value in (*stages, sum(stages))))


# --- what was measured to shorten such a start, where it would save a second ----------------------


def _on_lines(lines: _Entries) -> Iterator[CauseLine]:
    for log, entries in sorted(lines, key=lambda line: -_seconds(line[1]))[:_MAX_LINES]:
        if (seconds := _seconds(entries)) >= _WORTH_SECONDS / 10:
            count = f"{len(entries)} programs" if len(entries) > 1 else "a program"
            yield CauseLine("note", f"{log.name} compiled {count}, {seconds:.2f} s")
    # A restart of a 12-layer transformer: 4.8 s with its parameters initialized, 2.9 s without.
    is_slow = sum(_seconds(entries) for _, entries in lines) >= _WORTH_SECONDS
    if is_slow and any(_restores(log.place or "") for log, _ in lines):
        yield CauseLine(
            "hint",
            "if these lines initialize what a checkpoint replaces, restore into the shapes of "
            "eqx.filter_eval_shape or jax.eval_shape: nothing is compiled for them",
        )


@functools.cache
def _restores(place: str) -> bool:
    """Return True if a file names a function that restores a checkpoint."""
    try:
        source = Path(place.rpartition(":")[0]).read_bytes()
    except OSError:  # of another machine
        return False
    return re.search(rb"deserialise|restore|from_bytes", source) is not None


def _on_cache(report: Report, process: Process, entries: list[Entry]) -> Iterator[CauseLine]:
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
