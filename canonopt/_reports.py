"""A diagnosis as text, as a table of rich's, as JSON and as a page."""

import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

import attrs

from ._doctor import Cause, Diagnosis, Finding, Moment
from ._tracing import aligned

_SHOWN = 3  # differences of one cause; the rest is in the JSON
_COLUMNS = ("function", "traces", "compiles", "cache hits", "seconds", "lost", "defined at")


def as_text(diagnosis: Diagnosis) -> str:
    """The report as plain text."""
    table = aligned([_COLUMNS, *_rows(diagnosis)])
    return "\n".join([*_heading(diagnosis), "", *table, *_text_of_causes(diagnosis)]) + "\n"


def print_rich(diagnosis: Diagnosis, stream: TextIO) -> None:
    """The same with a table of rich's, or an `ImportError` without rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Where nobody looks at the stream itself, its width is none to go by.
    width = None if stream.isatty() else 200
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        is_number = title not in ("function", "defined at")
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row, finding in zip(_rows(diagnosis), [*diagnosis.findings, None], strict=False):
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
    return (
        f"{_seconds(diagnosis.seconds)} in all, {_seconds(diagnosis.compile_seconds)} to trace and "
        f"compile, {_seconds(diagnosis.lost_seconds)} of that lost to doing it more than once"
    )


def _rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    rows = [
        (
            finding.name,
            str(finding.traces),
            str(finding.compiles),
            str(finding.cache_hits),
            f"{finding.seconds:.2f}",
            f"{finding.lost_seconds:.2f}",
            _place(finding),
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
        yield f"{finding.name} ({_place(finding)})" if finding.place else finding.name
        for cause in finding.causes:
            yield f"  {_what(cause)}, {_seconds(cause.seconds)}"
            yield from (f"    {line}" for line in _differences(cause))
            yield from (f"    write: {fix}" for fix in cause.fixes[:_SHOWN])
        yield from (f"  {line}" for line in _missing(finding))


def _place(finding: Finding) -> str:
    return _nearer(finding.place or "")


def _nearer(text: str) -> str:
    """With the paths in it from here, or from where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def _what(cause: Cause) -> str:
    again = "" if cause.note is not None and "failed" in cause.what else " again"
    return f"{cause.what}{again}, {_times(cause.times)}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _differences(cause: Cause) -> list[str]:
    if cause.note is not None:
        return [line for line in cause.note.splitlines() if line.strip()][:_SHOWN]
    lines = [_nearer(str(change)) for change in cause.changes[:_SHOWN]]
    if len(cause.changes) > _SHOWN:
        lines.append(f"and {len(cause.changes) - _SHOWN} more differences")
    return lines


def _missing(finding: Finding) -> list[str]:
    """Of a function that is traced again and again only the first entries are kept."""
    missing = max(finding.traces, finding.compiles) - len(finding.moments)
    return [f"and {_times(missing)} more, not looked into"] if missing > 0 else []


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


# --- the page -----------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --ground: #fbfbfa; --card: #fff; --text: #1d2127; --dim: #68707c;
  --line: #e1e4e8; --first: #3b82c4; --again: #d9583b; --trace: .5; --good: #1a7f4b;
  --code: #f1f5f1; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --card: #1c2026; --text: #e4e7eb;
  --dim: #959ca7; --line: #2f353d; --first: #63a4e0; --again: #f07c5d; --good: #5cc48c;
  --code: #17241d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 36px 0 10px; }
h3 { font: 600 15px ui-monospace, monospace; margin: 0; overflow-wrap: anywhere; }
code, pre, .place { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.dim, .place { color: var(--dim); }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.tile { padding: 12px 18px; flex: 1 1 150px; }
.tile b { display: block; font-size: 24px; font-variant-numeric: tabular-nums; }
.tile.bad b { color: var(--again); }
.tile.good b { color: var(--good); }
.card { padding: 14px 18px; margin: 0 0 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 500; color: var(--dim); }
th, td { padding: 5px 18px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr:last-child td { border-bottom: 0; }
td .bad { color: var(--again); font-weight: 600; }
h1 code { font-size: inherit; }
.cause { border-top: 1px solid var(--line); padding-top: 12px; margin-top: 12px; }
.cause p { margin: 0 0 6px; }
.changes td { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.changes td:nth-child(-n+2) { white-space: nowrap; overflow-wrap: normal; }
pre { background: var(--code); border-left: 3px solid var(--good); border-radius: 4px;
  padding: 8px 12px; margin: 10px 0 0; white-space: pre-wrap; }
svg { display: block; width: 100%; height: auto; min-width: 620px; }
svg text { fill: var(--dim); font: 12px ui-monospace, monospace; }
svg .name { fill: var(--text); }
svg .grid { stroke: var(--line); }
svg .first { fill: var(--first); }
svg .again { fill: var(--again); }
svg .trace { opacity: var(--trace); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 5px 0 14px;
  vertical-align: -1px; }
""".strip()


def as_html(diagnosis: Diagnosis) -> str:
    """One page that needs no other file."""
    body = "\n".join(_body(diagnosis))
    title = html.escape(f"canonopt doctor: {diagnosis.command}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _body(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"<h1>What <code>{html.escape(diagnosis.command)}</code> compiled</h1>"
    yield f'<div class="dim">canonopt doctor, exit status {diagnosis.status}</div>'
    lost = "bad" if diagnosis.repeated else "good"
    yield '<div class="tiles">'
    yield _tile(_seconds(diagnosis.seconds), "in all")
    yield _tile(_seconds(diagnosis.compile_seconds), "to trace and compile")
    yield _tile(_seconds(diagnosis.lost_seconds), "lost to doing it more than once", lost)
    yield _tile(f"{len(diagnosis.repeated)}", "functions compiled more than once", lost)
    yield "</div>"
    if diagnosis.findings:
        yield "<h2>When</h2>"
        yield f'<div class="card scroll">{_timeline(diagnosis)}{_key()}</div>'
    yield "<h2>What</h2>"
    yield f'<div class="card scroll">{_table(diagnosis)}</div>'
    if diagnosis.repeated or diagnosis.failed:
        yield "<h2>Why, and what to write</h2>"
    else:
        yield "<p>No function was traced or compiled more than once.</p>"
    for finding in [*diagnosis.repeated, *diagnosis.failed]:
        yield from _card(finding)


def _tile(value: str, label: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{value}</b>{label}</div>'


def _key() -> str:
    parts = (("first", "the first time"), ("again", "again"))
    keys = (
        f'<span class="key" style="background:var(--{name})"></span>{label}'
        for name, label in parts
    )
    return f'<div class="dim">{"".join(keys)}; the paler part is tracing</div>'


def _table(diagnosis: Diagnosis) -> str:
    numbers = range(1, 6)
    head = "".join(f"<th{_number(i in numbers)}>{title}</th>" for i, title in enumerate(_COLUMNS))
    rows = []
    for row, finding in zip(_rows(diagnosis), [*diagnosis.findings, None], strict=False):
        cells = [html.escape(cell) for cell in row]
        cells[0] = f"<code>{cells[0]}</code>"
        if finding is not None and finding.is_repeated:
            cells[0] = f'<span class="bad">{cells[0]}</span>'
        cells[-1] = f'<span class="place">{cells[-1]}</span>'
        rows.append("".join(f"<td{_number(i in numbers)}>{c}</td>" for i, c in enumerate(cells)))
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _card(finding: Finding) -> Iterator[str]:
    yield f'<section class="card"><h3>{html.escape(finding.name)}</h3>'
    yield f'<div class="place">{html.escape(_place(finding))}</div>'
    for cause in finding.causes:
        what = html.escape(_what(cause))
        yield f'<div class="cause"><p>{what}, <b>{_seconds(cause.seconds)}</b></p>'
        if cause.note is not None:
            yield f"<p><code>{html.escape(cause.note)}</code></p>"
        if cause.changes:
            yield f'<div class="scroll">{_changes(cause)}</div>'
        if cause.fixes:
            yield f"<pre>{html.escape(chr(10).join(cause.fixes))}</pre>"
        yield "</div>"
    yield from (f'<p class="dim">{line}</p>' for line in _missing(finding))
    yield "</section>"


def _changes(cause: Cause) -> str:
    head = "<tr><th>where</th><th>what</th><th>before</th><th>now</th></tr>"
    shown = cause.changes[: 4 * _SHOWN]
    rows = [
        "".join(
            f"<td>{html.escape(_nearer(text))}</td>" for text in (c.path, c.kind, c.before, c.after)
        )
        for c in shown
    ]
    if len(cause.changes) > len(shown):
        rows.append(f'<td colspan="4">and {len(cause.changes) - len(shown)} more</td>')
    return f'<table class="changes">{head}{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'


_WIDTH, _LEFT, _ROW, _TOP = 1000, 190, 30, 24


def _timeline(diagnosis: Diagnosis) -> str:
    """A row for each function, over the seconds of the run."""
    end = max([diagnosis.seconds, *(m.at + m.seconds for m in _moments(diagnosis.findings)), 1e-3])
    scale = (_WIDTH - _LEFT - 20) / end
    height = _TOP + _ROW * len(diagnosis.findings) + 6
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="compiles over time">']
    for tick in _ticks(end):
        x = _LEFT + tick * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="14" text-anchor="middle">{tick:g} s</text>')
    for row, finding in enumerate(diagnosis.findings):
        y = _TOP + _ROW * row
        name = finding.name if len(finding.name) <= 24 else f"{finding.name[:23]}…"
        parts.append(f'<text class="name" x="0" y="{y + 20}">{html.escape(name)}</text>')
        for nth, moment in enumerate(finding.moments):
            parts += _bars(finding, nth, moment, scale, y + 6)
    return "".join([*parts, "</svg>"])


def _bars(finding: Finding, nth: int, moment: Moment, scale: float, y: float) -> Iterator[str]:
    kind = "first" if nth == 0 else "again"
    words = f"{finding.name}, no. {nth + 1}, at {moment.at:.2f} s: "
    words += f"traced {moment.trace_seconds:.3f} s, compiled {moment.compile_seconds:.3f} s"
    yield f"<g><title>{html.escape(words)}</title>"
    x = _LEFT + moment.at * scale
    wide = max(moment.trace_seconds * scale, 0.0)
    yield f'<rect class="{kind} trace" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="18"/>'
    rest = max(moment.compile_seconds * scale, 2.5 if moment.compiled or wide < 2.5 else 0.0)
    yield f'<rect class="{kind}" x="{x + wide:.1f}" y="{y}" width="{rest:.1f}" height="18"/></g>'


def _moments(findings: Iterable[Finding]) -> Iterator[Moment]:
    for finding in findings:
        yield from finding.moments


def _ticks(end: float) -> Sequence[float]:
    """At most ten round numbers from 0 to the end."""
    step = 10.0 ** math.floor(math.log10(end))
    step = next(size for size in (step / 10, step / 5, step / 2, step) if end / size <= 10)
    return [round(i * step, 6) for i in range(int(end / step) + 1)]


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def to_stream(diagnosis: Diagnosis, stream: TextIO) -> None:
    """The report in the best form there is."""
    stream.write("\n")
    try:
        print_rich(diagnosis, stream)
    except ImportError:
        stream.write(as_text(diagnosis))
        stream.write("\nFor tables and colours: pip install 'canonopt[doctor]'\n")
    stream.flush()
