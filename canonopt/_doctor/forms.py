"""A report as plain text, with rich's tables and colors, and as JSON."""

import io
import json
from collections.abc import Iterator
from typing import Any, Literal, TextIO, TypeAlias

from .._recompiles import Entry, aligned, cause_of
from .._texts import STAGES
from .report import STAGE_TITLES, Function, Report, SharedCause, in_seconds, with_short_paths
from .stream import Event, Process

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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Given the stream itself, rich would end the program if the reader of a pipe is gone.
    buffer = io.StringIO()
    is_terminal = stream.isatty()
    # Rich sees only the buffer, so it is told of the terminal. For anything else it would fold the
    # table at 80 columns.
    console = Console(
        file=buffer,
        force_terminal=is_terminal or None,
        width=None if is_terminal else 200,
        highlight=False,
        markup=False,
        emoji=False,
    )
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
    stream.write(buffer.getvalue())


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
    """What is below the table: all of it, or whole causes for as long as there is room."""
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
    """The lines of each cause. The first of a function has its title, the last its closing."""
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


def live_line(event: Event, has_others: bool) -> str | None:
    """What `--live` prints of a trace or a compile, which is None for a first one."""
    log, entry = event.log, event.entry
    if event.kind == "trace":
        is_again, done = entry.traced_again, "traced"
    else:
        # What was traced again has been told already.
        is_again, done = entry.compiled_again and not entry.traced_again, "compiled"
    if entry.error is not None:
        what = "failed while traced"
    elif is_again and log.is_line and not log.is_expected:
        what = f"compiled {entry.operation} again"
    elif is_again and not log.is_line:
        what = f"was {done} again"
    else:
        return None
    process = f"{event.process.name}: " if has_others else ""
    place = f" ({log.place})" if log.place else ""
    lines = [f"canonopt doctor: {process}{log.name}{place} {what}, {in_seconds(entry.seconds)}"]
    if entry.error is not None or entry.explanation is not None:
        lines += [f"  {line}" for line in cause_of([entry]).report()]
    return with_short_paths("\n".join(lines))


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
        "shorter": [_fields(line, "role", "text") for line in report.shorter],
        "tried": None if report.tried is None else json.loads(as_json(report.tried)),
        "helpers": len(report.helpers),
        **_fields(report, "helper_compiles", "helper_seconds"),
    }
    return json.dumps(found, indent=2) + "\n"


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
