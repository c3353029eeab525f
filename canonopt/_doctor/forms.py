"""A report as plain text, with rich's tables and colors, as HTML, JSON, a timeline, annotations."""

import io
import json
from collections.abc import Iterator
from typing import Any, Literal, TextIO, TypeAlias

from .._recompiles import STAGES, Entry, StaleRead, aligned
from .report import STAGE_TITLES, Function, Report, SharedCause, in_seconds, with_short_paths
from .stream import Process

_MAX_LINES = 40  # below the table: what a screen has room for
_EVERYTHING = 10**6


def print_report(report: Report, stream: TextIO, is_whole: bool = False) -> None:
    """Writes the report with rich, or as plain text if rich is not installed."""
    stream.write("\n")
    try:
        print_rich(report, stream, is_whole)
    except ImportError:
        stream.write(as_text(report, is_whole))
        stream.write("\nFor tables and colors: pip install 'canonopt[doctor]'\n")
    stream.flush()


def as_text(report: Report, is_whole: bool = False) -> str:
    lines = [*_heading(report), ""]
    if report.rows:
        lines += aligned([report.columns, *(row.cells for row in report.rows)])
    lines += _tried_lines(report)
    lines += [text for text, _ in _lines_below(report, is_whole)]
    return "\n".join(lines) + "\n"


def print_rich(report: Report, stream: TextIO, is_whole: bool = False) -> None:
    """Raises `ImportError` without rich."""
    # Given the stream itself, rich would end the program if the reader of a pipe is gone.
    buffer = io.StringIO()
    is_terminal = stream.isatty()
    # Rich sees only the buffer, so it is told of the terminal. For anything else it would fold the
    # table at 80 columns.
    width = None if is_terminal else 200
    _render(report, is_whole, file=buffer, force_terminal=is_terminal or None, width=width)
    stream.write(buffer.getvalue())


def as_html(report: Report) -> str:
    """All of it as one page that needs no other file. Raises `ImportError` without rich."""
    return _render(report, True, file=io.StringIO(), record=True, width=200).export_html()


def _render(report: Report, is_whole: bool, **options: Any) -> Any:
    """Prints the report to a console of rich with these options, and returns the console."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False, **options)
    table = Table(box=None, pad_edge=False)
    first, *numbers, last = report.columns
    table.add_column(first, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right", overflow="fold")
    table.add_column(last, overflow="fold")
    row_styles = {"once": "", "repeated": "bold red", "helpers": "dim"}
    for row in report.rows:
        table.add_row(*map(Text, row.cells), style=row_styles[row.kind])
    for line in _heading(report):
        console.print(Text(line, style="bold"), soft_wrap=True)
    console.print()
    if report.rows:
        console.print(table)
    for line in _tried_lines(report):
        console.print(Text(line), soft_wrap=True)
    line_styles = {"title": "bold", "detail": "", "fix": "green"}
    for line, kind in _lines_below(report, is_whole):
        # Not folded, so that the line to write can be copied.
        console.print(Text(line, style=line_styles[kind]), soft_wrap=True)
    return console


def _tried_lines(report: Report) -> list[str]:
    """The comparison that `--try` makes."""
    found = report.comparison
    if found is None:
        return []
    table = [f"  {line}" for line in aligned([*found.rows])] if found.rows else []
    return ["", found.title, *table, *([f"  write: {found.fix}"] if found.fix else [])]


def _heading(report: Report) -> list[str]:
    total, compiling = in_seconds(report.seconds), in_seconds(report.compile_seconds)
    lines = [
        f"canonopt doctor: {report.command}",
        f"{total} in total, {compiling} tracing and compiling, "
        f"{in_seconds(report.lost_seconds)} of that lost to recompiles",
        *report.notes,
    ]
    if report.verdict is not None:
        lines.append(report.verdict)
    if report.legend is not None:
        lines.append(report.legend)
    return lines


_Line: TypeAlias = tuple[str, Literal["title", "detail", "fix"]]


def _lines_below(report: Report, is_whole: bool) -> Iterator[_Line]:
    """Yield what is below the table: all of it, or whole causes for as long as there is room."""
    last = _stage_lines(report)
    room, blocks = _MAX_LINES - len(last), [*_blocks(report, _EVERYTHING if is_whole else 3)]
    for i, block in enumerate(blocks):
        room -= len(block)
        if room < 0 and i and not is_whole:
            left = sum(map(len, blocks[i:]))
            yield "", "detail"
            yield f"and {left} more lines: canonopt doctor --all shows them", "title"
            break
        yield from block
    yield from last


def _blocks(report: Report, most: int) -> Iterator[list[_Line]]:
    """The lines of each stale read, then of each cause.

    The first cause of a function has its title, the last its closing.
    """
    for read in report.stale:
        first, *rest = map(with_short_paths, read.lines())
        yield [("", "detail"), (first, "title"), *((line, "detail") for line in rest)]
    for section in report.sections:
        name = f"{section.name} ({section.place})" if section.place else section.name
        block: list[_Line] = [("", "detail"), (name, "title")]
        for title, cause in section.causes:
            block.append((f"  {title}, {in_seconds(cause.seconds)}", "detail"))
            for line in cause.report(most):
                text = f"    {with_short_paths(str(line))}"
                block.append((text, "fix" if line.role == "fix" else "detail"))
            yield block
            block = []
        if section.closing:
            block.append((f"  {section.closing}", "detail"))
        if block:
            yield block


def _stage_lines(report: Report) -> list[_Line]:
    """Where the time went, and what would shorten it."""
    if not report.stages:
        return []
    first, *rows = aligned([STAGE_TITLES, *report.stages])
    lines: list[_Line] = [("", "detail"), (first, "title"), *((row, "detail") for row in rows)]
    for line in report.shorter:
        lines.append((f"  {line}", "fix" if line.role == "fix" else "detail"))
    return lines


# --- JSON -------------------------------------------------------------------------------------


def as_json(report: Report) -> str:
    """All of it, for machines. Increase `version` if the layout changes."""
    # The names belong to the layout, and stay if an attribute is renamed.
    found = {
        "version": 1,
        **_fields(report, "compile_seconds", "lost_seconds"),
        "recompiled": bool(report.repeated),
        **_fields(report, "command", "seconds", "status", "notes"),
        "processes": [_process(process) for process in report.processes],
        "findings": [
            _function(function, report)
            for function in (*report.functions, *(h for h in report.helpers if h.is_repeated))
        ],
        "stale": [_stale(read) for read in report.stale],
        "shorter": [_fields(line, "role", "text") for line in report.shorter],
        "tried": None if report.tried is None else json.loads(as_json(report.tried)),
        "helpers": len(report.helpers),
        **_fields(report, "helper_compiles", "helper_seconds"),
    }
    return json.dumps(found, indent=2) + "\n"


def _stale(read: StaleRead) -> dict[str, Any]:
    values = [_fields(value, "path", "before", "after", "place") for value in read.values]
    return {**_fields(read, "function", "place", "since", "calls"), "values": values}


def _process(process: Process) -> dict[str, Any]:
    return {
        "name": process.name,
        **_fields(process.start, "host", "pid", "parent", "argv", "python", "jax"),
        **_fields(process, "problems", "is_ended"),
    }


_COUNTS = ("traces", "compiles", "cache_hits")
_SECONDS = ("seconds", "first_seconds", "lost_seconds", *STAGES)


def _function(function: Function, report: Report) -> dict[str, Any]:
    logs = function.logs.items()
    return {
        **_fields(function, "name", "place"),
        **{name: function.total(name) for name in (*_COUNTS, *_SECONDS)},
        "by_process": {name: _fields(log, *_COUNTS, *_SECONDS) for name, log in logs},
        "moments": [_entry(*entry, report) for entry in function.entries],
        "causes": [_cause(shared) for shared in function.causes()],
        "repeated": function.is_repeated,
    }


def _entry(process: str, entry: Entry, report: Report) -> dict[str, Any]:
    return {
        "process": process,
        "at": report.seconds_until(entry),
        **_fields(entry, "traced", "compiled", *STAGES, "error"),
        "again": entry.is_again,
    }


def _cause(shared: SharedCause) -> dict[str, Any]:
    cause = shared.cause
    changes = [_fields(c, "path", "kind", "before", "after", "fix", "hint") for c in cause.changes]
    return {
        "processes": shared.processes,
        **_fields(cause, "what", "times", "seconds"),
        "changes": changes,
        **_fields(cause, "note", "fixes", "hints", "sites", "pattern", "expected"),
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


# --- a timeline -------------------------------------------------------------------------------


def as_perfetto(report: Report) -> str:
    """A timeline that https://ui.perfetto.dev opens: a row for each function of each process.

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
                start = report.seconds_until(entry)
                for stage in STAGES:
                    seconds = getattr(entry, stage)
                    event = {"name": stage.removesuffix("_seconds"), "ph": "X"}
                    event |= {"ts": start * 1e6, "dur": seconds * 1e6, "pid": number, "tid": row}
                    about = {"again": entry.is_again, "site": entry.site, "what": entry.operation}
                    if seconds > 0:
                        events.append({**event, "args": {**about, "place": function.place}})
                    start += seconds
    return json.dumps({"traceEvents": events}) + "\n"


def _named(kind: str, name: str, **where: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", **where, "args": {"name": name}}


# --- annotations ------------------------------------------------------------------------------


def as_annotations(report: Report) -> str:
    """Return a warning for each stale read and avoidable cause, which GitHub shows at the line.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    found = []
    for read in report.stale:
        first, *rest = map(with_short_paths, read.lines())
        found.append((with_short_paths(read.place or ""), first.removesuffix(":"), rest))
    for section in report.sections:
        for title, cause in section.causes:
            if cause.is_avoidable:
                found.append((section.place, f"{section.name} {title}", cause.report()))
    lines = []
    for place, head, text in found:
        file, _, line = place.rpartition(":")
        where = f"file={_escaped(file)},line={line}," if line.isdecimal() else ""
        text = _escaped("\n".join(map(str, text)), ":,")
        lines.append(f"::warning {where}title={_escaped(head)}::{text}\n")
    return "".join(lines)


def _escaped(text: str, kept: str = "") -> str:
    for character in "%\r\n:,":
        if character not in kept:
            text = text.replace(character, f"%{ord(character):02X}")
    return text
