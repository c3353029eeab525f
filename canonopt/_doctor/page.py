"""A diagnosis as one self-contained page."""

import html
import math
from collections.abc import Iterable, Iterator, Sequence

from .._recompiles import Cause
from .findings import (
    Diagnosis,
    Finding,
    Moment,
)
from .report import (
    COLUMNS,
    in_seconds,
    missing,
    nearer,
    place_in,
    rows_of,
)

_SHOWN = 12  # differences of one cause; the rest is in the JSON

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
    yield _tile(in_seconds(diagnosis.seconds), "in all")
    yield _tile(in_seconds(diagnosis.compile_seconds), "to trace and compile")
    yield _tile(in_seconds(diagnosis.lost_seconds), "lost to doing it more than once", lost)
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
    head = "".join(f"<th{_number(i in numbers)}>{title}</th>" for i, title in enumerate(COLUMNS))
    rows = []
    for row, finding in zip(rows_of(diagnosis), [*diagnosis.findings, None], strict=False):
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
    yield f'<div class="place">{html.escape(place_in(finding))}</div>'
    for cause in finding.causes:
        what = html.escape(cause.title)
        yield f'<div class="cause"><p>{what}, <b>{in_seconds(cause.seconds)}</b></p>'
        if cause.note is not None:
            yield f"<p><code>{html.escape(cause.note)}</code></p>"
        if cause.changes:
            yield f'<div class="scroll">{_changes(cause)}</div>'
        if cause.fixes:
            yield f"<pre>{html.escape(chr(10).join(cause.fixes))}</pre>"
        yield "</div>"
    yield from (f'<p class="dim">{line}</p>' for line in missing(finding))
    yield "</section>"


def _changes(cause: Cause) -> str:
    head = "<tr><th>where</th><th>what</th><th>before</th><th>now</th></tr>"
    shown = cause.changes[:_SHOWN]
    rows = [
        "".join(
            f"<td>{html.escape(nearer(text))}</td>" for text in (c.path, c.kind, c.before, c.after)
        )
        for c in shown
    ]
    if len(cause.changes) > len(shown):
        rows.append(f'<td colspan="4">and {len(cause.changes) - len(shown)} more</td>')
    return f'<table class="changes">{head}{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'


_WIDTH, _LEFT, _ROW, _TOP = 1000, 190, 36, 24


def _timeline(diagnosis: Diagnosis) -> str:
    """A row for each function, over the seconds of the run."""
    end = max([diagnosis.seconds, *(m.at + m.seconds for m in _moments(diagnosis.findings)), 1e-3])
    scale = (_WIDTH - _LEFT - 20) / end
    height = _TOP + _ROW * len(diagnosis.findings) + 6
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="traces and compiles">']
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
    kind = "again" if moment.again else "first"
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
