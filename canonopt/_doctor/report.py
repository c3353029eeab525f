"""A diagnosis as text, as a table of rich's and as JSON."""

import io
import json
import os
import re
from collections.abc import Iterator
from typing import TextIO

import attrs

from .._recompiles import aligned, times
from .findings import Diagnosis, Finding

COLUMNS = ("function", "traces", "compiles", "cache hits", "seconds", "lost", "defined at")


def as_text(diagnosis: Diagnosis) -> str:
    """The report as plain text."""
    table = aligned([COLUMNS, *rows_of(diagnosis)])
    return "\n".join([*_heading(diagnosis), "", *table, *_text_of_causes(diagnosis)]) + "\n"


def print_rich(diagnosis: Diagnosis, stream: TextIO) -> None:
    """The same with a table of rich's, or an `ImportError` without rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # To a pipe without a reader rich ends the program.
    buffer = io.StringIO()
    # Where nobody looks at the stream itself, its width is none to go by.
    is_seen = stream.isatty()
    console = Console(
        file=buffer,
        force_terminal=is_seen or None,
        width=None if is_seen else 200,
        highlight=False,
        markup=False,
        emoji=False,
    )
    table = Table(box=None, pad_edge=False)
    for title in COLUMNS:
        is_number = title not in ("function", "defined at")
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row, finding in zip(rows_of(diagnosis), [*diagnosis.findings, None], strict=False):
        style = "bold red" if finding is not None and finding.is_repeated else ""
        style = "dim" if finding is None else style
        table.add_row(*(Text(cell) for cell in row), style=style)
    for line in _heading(diagnosis):
        console.print(Text(line, style="bold"), soft_wrap=True)
    console.print()
    console.print(table)
    for line in _text_of_causes(diagnosis):
        is_fix = line.lstrip().startswith("write: ")
        style = "green" if is_fix else "" if line.startswith(" ") else "bold"
        console.print(Text(line, style=style), soft_wrap=True)
    stream.write(buffer.getvalue())


def as_json(diagnosis: Diagnosis) -> str:
    """The whole of it, for machines. `version` is that of the layout."""
    found = attrs.asdict(diagnosis)
    for finding, plain in zip(diagnosis.findings, found["findings"], strict=True):
        plain["repeated"] = finding.is_repeated
    totals = {
        "compile_seconds": diagnosis.compile_seconds,
        "lost_seconds": diagnosis.lost_seconds,
        "recompiled": bool(diagnosis.repeated),
    }
    return json.dumps({"version": 1, **totals, **found}, indent=2) + "\n"


# --- text ---------------------------------------------------------------------------------------


def _heading(diagnosis: Diagnosis) -> list[str]:
    lines = [f"canonopt doctor: {diagnosis.command}", _summary(diagnosis)]
    if not diagnosis.findings:
        lines.append("No function of the script was compiled.")
    elif not diagnosis.repeated:
        lines.append("No function was traced or compiled more than once.")
    return lines


def _summary(diagnosis: Diagnosis) -> str:
    found = (diagnosis.seconds, diagnosis.compile_seconds, diagnosis.lost_seconds)
    total, compiling, lost = map(in_seconds, found)
    return (
        f"{total} in all, {compiling} to trace and compile, "
        f"{lost} of that lost to doing it more than once"
    )


def rows_of(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    rows = [
        (
            finding.name,
            str(finding.traces),
            str(finding.compiles),
            str(finding.cache_hits),
            f"{finding.seconds:.2f}",
            f"{finding.lost_seconds:.2f}",
            place_in(finding),
        )
        for finding in diagnosis.findings
    ]
    if diagnosis.helpers:
        compiles, seconds = diagnosis.helper_compiles, f"{diagnosis.helper_seconds:.2f}"
        operations = f"{diagnosis.helpers} of jax and libraries"
        rows.append((operations, "", str(compiles), "", seconds, "", ""))
    return rows


def _text_of_causes(diagnosis: Diagnosis) -> Iterator[str]:
    for finding in [*diagnosis.repeated, *diagnosis.failed]:
        yield ""
        yield f"{finding.name} ({place_in(finding)})" if finding.place else finding.name
        for cause in finding.causes:
            yield f"  {cause.title}, {in_seconds(cause.seconds)}"
            yield from (f"    {nearer(line)}" for line in cause.lines())
        yield from (f"  {line}" for line in missing(finding))


def place_in(finding: Finding) -> str:
    return nearer(finding.place or "")


def nearer(text: str) -> str:
    """With the paths in it from here, or from where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def missing(finding: Finding) -> list[str]:
    """Of a function that is traced again and again only the first entries are kept."""
    left = max(finding.traces, finding.compiles) - len(finding.moments)
    return [f"and {times(left)} more, not looked into"] if left > 0 else []


def in_seconds(value: float) -> str:
    return f"{value:.2f} s"


def to_stream(diagnosis: Diagnosis, stream: TextIO) -> None:
    """The report in the best form there is."""
    stream.write("\n")
    try:
        print_rich(diagnosis, stream)
    except ImportError:
        stream.write(as_text(diagnosis))
        stream.write("\nFor tables and colours: pip install 'canonopt[doctor]'\n")
    stream.flush()
