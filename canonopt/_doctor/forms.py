"""A report as text, in colors, as HTML, as JSON, as a timeline and as annotations."""

import contextlib
import io
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, TextIO, TypeAlias

from .._recompiles import (
    STAGES,
    Cause,
    CauseLine,
    Change,
    Entry,
    FunctionLog,
    ReadValue,
    StaleRead,
    aligned,
    times,
)
from .comparing import VERSION, side_by_side
from .report import Function, Report, with_short_paths
from .start import Start, start_of
from .stream import Process

_MAX_LINES = 40  # below the table: what a screen has room for
_EVERYTHING = 10**6

_Line: TypeAlias = tuple[str, str]  # with its style in rich


# --- text -----------------------------------------------------------------------------------------


def as_text(report: Report, is_whole: bool = False) -> str:
    return "".join(f"{text}\n" for text, _ in _lines(report, is_whole))


def print_report(report: Report, stream: TextIO, is_whole: bool = False) -> None:
    """Write the report, with colors if the stream is a terminal and rich is installed."""
    text = as_text(report, is_whole)
    if stream.isatty():
        with contextlib.suppress(ImportError):
            # Given the stream itself, rich would end the program if the reader of a pipe is gone.
            console = _console(file=io.StringIO(), force_terminal=True)
            text = _printed(console, report, is_whole).file.getvalue()
    stream.write(f"\n{text}")
    stream.flush()


def as_html(report: Report) -> str:
    """Return all of it as one page that needs no other file. Raises `ImportError` without rich."""
    console = _console(file=io.StringIO(), record=True, width=200)
    return _printed(console, report, is_whole=True).export_html()


def _console(**options: Any) -> Any:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, **options)


def _printed(console: Any, report: Report, is_whole: bool) -> Any:
    for text, style in _lines(report, is_whole):
        # Not folded, so that the line to write can be copied.
        console.print(text, style=style, soft_wrap=True)
    return console


def _lines(report: Report, is_whole: bool) -> Iterator[_Line]:
    return ((with_short_paths(text), style) for text, style in _long_lines(report, is_whole))


def _long_lines(report: Report, is_whole: bool) -> Iterator[_Line]:
    seconds = (report.seconds, report.compile_seconds, report.lost_seconds)
    total, compiling, lost = (f"{value:.2f} s" for value in seconds)
    yield f"canonopt doctor: {report.command}", "bold"
    yield (
        f"{total} in total, {compiling} tracing and compiling, {lost} of that lost to recompiles",
        "bold",
    )
    for text in (*report.problems, *report.notes, report.verdict, report.legend):
        if text is not None:
            yield text, "bold"
    if rows := report.table:
        yield "", ""
        texts = aligned([cells for cells, _ in rows])
        for text, (_, is_repeated) in zip(texts, rows, strict=True):
            yield text, "bold red" if is_repeated else ""
    yield from _tried_lines(report)
    last = _start_lines(report)
    room, blocks = _MAX_LINES - len(last), [*_blocks(report, _EVERYTHING if is_whole else 3)]
    for i, block in enumerate(blocks):
        room -= len(block)
        if room < 0 and i and not is_whole:
            left = sum(map(len, blocks[i:]))
            yield "", ""
            yield f"and {left} more lines: canonopt doctor --all shows them", "bold"
            break
        yield from block
    yield from last


def _tried_lines(report: Report) -> Iterator[_Line]:
    """Yield the comparison that `--try` makes."""
    if report.tried is None:
        return
    yield "", ""
    if report.tried.status != 0:
        yield f"With canonopt's factories the exit status was {report.tried.status}.", ""
        return
    yield "With canonopt's factories in Optax's place:", ""
    yield from ((line, "") for line in side_by_side(as_dict(report), as_dict(report.tried)))
    scripts = (word for word in shlex.split(report.command) if word.endswith(".py"))
    yield f"  write: canonopt fix --write {shlex.quote(next(scripts, '.'))}", "green"


def _blocks(report: Report, most: int) -> Iterator[list[_Line]]:
    """Yield the lines of each stale read, then of each cause.

    The first cause of a function has its title, the last its closing.
    """
    for read in report.stale:
        first, *rest = read.lines()
        yield [("", ""), (first, "bold"), *((line, "") for line in rest)]
    for function in report.told:
        name = f"{function.name} ({function.place})" if function.place else function.name
        block: list[_Line] = [("", ""), (name, "bold")]
        for cause, processes in function.causes():
            block.append((f"  {report.title(cause, processes)}, {cause.seconds:.2f} s", ""))
            block += _cause_lines(cause.report(most), "    ")
            yield block
            block = []
        if omitted := int(function.total("omitted")):
            block.append((f"  and {times(omitted)} more, details omitted", ""))
        if block:
            yield block


def _cause_lines(lines: Sequence[CauseLine], indent: str) -> Iterator[_Line]:
    for line in lines:
        yield f"{indent}{line}", "green" if line.role == "fix" else ""


def _start_lines(report: Report) -> list[_Line]:
    start = start_of(report)
    if start is None:
        return []
    first, *rows = aligned([*start.rows])
    lines = [("", ""), (first, "bold"), *((row, "") for row in rows)]
    return [*lines, *_cause_lines(start.advice, "  ")]


# --- JSON -----------------------------------------------------------------------------------------

_COUNTS = f"traces compiles cache_hits seconds first_seconds lost_seconds {' '.join(STAGES)}"
# What is told of each object. Increase `VERSION` if the layout changes.
_TOLD: dict[type, str] = {
    Report: "command seconds compile_seconds lost_seconds status stale processes tried",
    Process: "name is_ended start",
    FunctionLog: _COUNTS,
    Entry: f"traced compiled {' '.join(STAGES)} error operation shapes leaves",
    Cause: "what times seconds note fixes hints sites pattern expected changes",
    Change: "path kind before after fix hint",
    StaleRead: "function place since calls values",
    ReadValue: "path before after place",
    Start: "rows advice",
    CauseLine: "role text",
}


def _told(value: Any) -> Any:
    """Return an object of the table as a dict, and all else as it is."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [*map(_told, value)]
    names = next((names for kind, names in _TOLD.items() if isinstance(value, kind)), None)
    if names is None:
        return value
    found = {name: _told(getattr(value, name)) for name in names.split()}
    return {**found, **_more(value)} if isinstance(value, Report) else found


def _more(report: Report) -> dict[str, Any]:
    found = [*report.functions, *(each for each in report.helpers if each.is_repeated)]
    return {
        "version": VERSION,
        "recompiled": bool(report.repeated),
        "notes": [*report.problems, *report.notes],
        "findings": [_function(each, report) for each in found],
        "lines": [_function(each, report) for each in report.helpers if each not in found],
        "start": _told(start_of(report)),
    }


def _function(function: Function, report: Report) -> dict[str, Any]:
    return {
        "name": function.name,
        "place": function.place,
        "repeated": function.is_repeated,
        **{name: function.total(name) for name in _COUNTS.split()},
        "by_process": {name: _told(log) for name, log in function.logs.items()},
        "moments": [
            {"process": name, "at": e.at - report.started, "again": e.is_again, **_told(e)}
            for name, e in function.entries
        ],
        "causes": [{**_told(each), "processes": names} for each, names in function.causes()],
    }


def as_dict(report: Report) -> dict[str, Any]:
    """Return all of it, for machines."""
    return _told(report)


def as_json(report: Report) -> str:
    return json.dumps(as_dict(report), indent=2) + "\n"


# --- a timeline -----------------------------------------------------------------------------------


def as_perfetto(report: Report) -> str:
    """Return a timeline that https://ui.perfetto.dev opens: a row for each function and process.

    In the trace event format, with times in microseconds:
    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    events: list[dict[str, Any]] = []
    for number, process in enumerate(report.processes):
        events.append(_named("process_name", process.name, pid=number))
        logs = [(f, f.logs[process.name]) for f in report.everything if process.name in f.logs]
        for row, (function, log) in enumerate(logs):
            events.append(_named("thread_name", function.name, pid=number, tid=row))
            for entry in log.entries:
                start = entry.at - report.started
                about = {"again": entry.is_again, "site": entry.site, "what": entry.operation}
                about["place"] = function.place
                for stage in STAGES:
                    seconds = getattr(entry, stage)
                    event = {"name": stage.removesuffix("_seconds"), "ph": "X", "args": about}
                    event |= {"ts": start * 1e6, "dur": seconds * 1e6, "pid": number, "tid": row}
                    if seconds > 0:
                        events.append(event)
                    start += seconds
    return json.dumps({"traceEvents": events}) + "\n"


def _named(kind: str, name: str, **where: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", **where, "args": {"name": name}}


# --- annotations ----------------------------------------------------------------------------------


def as_annotations(report: Report) -> str:
    """Return a warning for each stale read and avoidable cause, which GitHub shows at the line.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    found = []
    for read in report.stale:
        first, *rest = read.lines()
        found.append((read.place, first.removesuffix(":"), rest))
    for each in report.told:
        for cause, processes in each.causes():
            if cause.is_avoidable:
                title = f"{each.name} {report.title(cause, processes)}"
                found.append((each.place, title, cause.report()))
    lines = []
    for place, head, text in found:
        file, _, line = with_short_paths(place or "").rpartition(":")
        where = f"file={_escaped(file)},line={line}," if line.isdecimal() else ""
        text = _escaped(with_short_paths("\n".join(map(str, text))), ":,")
        lines.append(f"::warning {where}title={_escaped(head)}::{text}\n")
    return "".join(lines)


def _escaped(text: str, kept: str = "") -> str:
    for character in "%\r\n:,":
        if character not in kept:
            text = text.replace(character, f"%{ord(character):02X}")
    return text
