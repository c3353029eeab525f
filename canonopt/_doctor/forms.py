"""A report as plain text, with rich's tables and colors, and as JSON."""

import io
import json
from collections.abc import Iterator
from typing import Any, Literal, TextIO

from .._recompiles import Cause, Entry, FunctionLog, aligned
from .report import (
    COLUMNS,
    NUMBERS,
    Report,
    in_seconds,
    is_repeated,
    with_short_paths,
)


def print_report(report: Report, stream: TextIO) -> None:
    """Writes the report with rich, or as plain text if rich is not installed."""
    stream.write("\n")
    try:
        print_rich(report, stream)
    except ImportError:
        stream.write(as_text(report))
        stream.write("\nFor tables and colors: pip install 'canonopt[doctor]'\n")
    stream.flush()


def as_text(report: Report) -> str:
    table = aligned([COLUMNS, *(row.cells for row in report.rows)])
    causes = [text for text, _ in _cause_lines(report)]
    return "\n".join([*_heading(report), "", *table, *causes]) + "\n"


def print_rich(report: Report, stream: TextIO) -> None:
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
    for title in COLUMNS:
        table.add_column(title, justify="right" if title in NUMBERS else "left", overflow="fold")
    row_styles = {"once": "", "repeated": "bold red", "helpers": "dim"}
    for row in report.rows:
        table.add_row(*map(Text, row.cells), style=row_styles[row.kind])
    for line in _heading(report):
        console.print(Text(line, style="bold"), soft_wrap=True)
    console.print()
    console.print(table)
    line_styles = {"title": "bold", "detail": "", "fix": "green"}
    for line, kind in _cause_lines(report):
        # Not folded, so that the line to write can be copied.
        console.print(Text(line, style=line_styles[kind]), soft_wrap=True)
    stream.write(buffer.getvalue())


def _heading(report: Report) -> list[str]:
    total, compiling = in_seconds(report.seconds), in_seconds(report.compile_seconds)
    lines = [
        f"canonopt doctor: {report.command}",
        f"{total} in total, {compiling} tracing and compiling, "
        f"{in_seconds(report.lost_seconds)} of that lost to recompiles",
    ]
    if not report.functions:
        lines.append("No function of the script was compiled.")
    elif not report.repeated and report.sections:
        lines.append("Nothing was traced or compiled again that need not be.")
    elif not report.repeated:
        lines.append("No function was traced or compiled more than once.")
    return lines


def _cause_lines(report: Report) -> Iterator[tuple[str, Literal["title", "detail", "fix"]]]:
    for section in report.sections:
        yield "", "detail"
        yield f"{section.name} ({section.place})" if section.place else section.name, "title"
        for cause in section.causes:
            yield f"  {cause.title}, {in_seconds(cause.seconds)}", "detail"
            for line in cause.report():
                text = f"    {with_short_paths(str(line))}"
                yield text, "fix" if line.role == "fix" else "detail"
        if section.closing:
            yield f"  {section.closing}", "detail"


# --- JSON -------------------------------------------------------------------------------------


def as_json(report: Report) -> str:
    """All of it, for machines. Increase `version` if the layout changes."""
    # The names belong to the layout, and stay if an attribute is renamed.
    found = {
        "version": 1,
        **_fields(report, "compile_seconds", "lost_seconds"),
        "recompiled": bool(report.repeated),
        **_fields(report, "command", "seconds", "status"),
        "findings": [
            _function(function, report)
            for function in (*report.functions, *filter(is_repeated, report.helpers))
        ],
        "helpers": len(report.helpers),
        **_fields(report, "helper_compiles", "helper_seconds"),
    }
    return json.dumps(found, indent=2) + "\n"


def _function(function: FunctionLog, report: Report) -> dict[str, Any]:
    return {
        **_fields(function, "name", "place", "traces", "compiles", "cache_hits"),
        **_fields(function, "seconds", "lost_seconds"),
        "moments": [_entry(entry, report) for entry in function.entries],
        "causes": [_cause(cause) for cause in function.causes()],
        "repeated": is_repeated(function),
    }


def _entry(entry: Entry, report: Report) -> dict[str, Any]:
    return {
        "at": report.seconds_until(entry),
        **_fields(entry, "traced", "compiled", "trace_seconds", "compile_seconds", "error"),
        "again": entry.is_again,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    changes = [_fields(c, "path", "kind", "before", "after", "fix", "hint") for c in cause.changes]
    return {
        **_fields(cause, "what", "times", "seconds"),
        "changes": changes,
        **_fields(cause, "note", "fixes", "hints", "sites", "pattern", "expected"),
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
