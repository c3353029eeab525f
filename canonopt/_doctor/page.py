"""A report as one self-contained HTML page."""

import html
import math
from collections.abc import Iterable, Iterator, Sequence

from .._recompiles import Entry
from .._texts import changes_markup
from .report import (
    HELPERS,
    STAGE_TITLES,
    Comparison,
    Report,
    Row,
    Section,
    in_seconds,
    with_short_paths,
)

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
.sortable td:first-child { min-width: 9em; }
.sortable td:last-child .place { white-space: nowrap; }
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
.filter { font: inherit; color: inherit; background: var(--card); width: 100%;
  max-width: 420px; padding: 7px 11px; border: 1px solid var(--line); border-radius: 8px; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; }
th[aria-sort] button { color: var(--text); }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
tfoot td { border-top: 2px solid var(--line); font-weight: 600; }
.out { display: none; }
svg .out { display: inline; opacity: .12; }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 5px 0 14px;
  vertical-align: -1px; }
@media (max-width: 600px) { main { padding: 20px 12px 48px; } .card { padding: 10px 12px; }
  th, td { padding-right: 12px; } .changes td:nth-child(-n+2) { white-space: normal; } }
""".strip()

# Sorts a table by the column whose title is clicked, and shows only what contains some text.
_SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, i) => head.firstChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const text = (row) => row.cells[i].textContent;
    const order = (a, b) => text(a).localeCompare(text(b), undefined, { numeric: true });
    const rows = [...body.rows].sort(order);
    body.append(...(down ? rows.reverse() : rows));
  }));
}
const filter = document.querySelector(".filter");
filter?.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase();
  for (const each of document.querySelectorAll("tbody tr.row, section.card, svg g.row")) {
    each.classList.toggle("out", !each.textContent.toLowerCase().includes(wanted));
  }
});
""".strip()


def as_html(report: Report) -> str:
    """One page that needs no other file."""
    body = "\n".join(_body(report))
    title = html.escape(f"canonopt doctor: {report.command}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n<script>\n{_SCRIPT}\n</script>\n</body>\n</html>\n"
    )


def _body(report: Report) -> Iterator[str]:
    repeated = len(report.repeated)
    yield f"<h1>What <code>{html.escape(report.command)}</code> compiled</h1>"
    status = "" if report.status is None else f", exit status {report.status}"
    yield f'<div class="dim">canonopt doctor{status}</div>'
    for note in filter(None, (*report.notes, report.legend)):
        yield f"<p>{html.escape(note)}</p>"
    verdict = "bad" if repeated else "good"
    yield '<div class="tiles">'
    yield _tile(in_seconds(report.seconds), "in total")
    yield _tile(in_seconds(report.compile_seconds), "tracing and compiling")
    yield _tile(in_seconds(report.lost_seconds), "lost to recompiles", verdict)
    yield _tile(f"{repeated}", "functions and lines compiled more often than need be", verdict)
    yield "</div>"
    if report.rows:
        label = "Show only functions and lines that contain"
        yield f'<input class="filter" type="search" placeholder="{label} ..." aria-label="{label}">'
    if report.functions:
        yield "<h2>Timeline</h2>"
        yield f'<div class="card scroll">{_timeline(report)}{_LEGEND}</div>'
    yield "<h2>Functions</h2>"
    yield f'<div class="card scroll">{_table(report.columns, map(_row, report.rows))}</div>'
    if report.comparison is not None:
        yield from _compared(report.comparison)
    sections = report.sections
    if sections:
        yield "<h2>Causes, and what to write</h2>"
    if report.verdict is not None:
        yield f"<p>{report.verdict}</p>"
    for section in sections:
        yield from _card(section)
    if report.helper_rows:
        yield "<h2>Your lines that ran what JAX and libraries compile</h2>"
        rows = map(_helper_row, report.helper_rows)
        yield f'<div class="card scroll">{_table(HELPERS, rows)}</div>'
    if report.stages:
        yield "<h2>Where the time went</h2>"
        yield f'<div class="card"><div class="scroll">{_stages(report)}</div>'
        for line in report.shorter:
            text, tag = html.escape(line.text), "pre" if line.role == "fix" else "p"
            yield f"<{tag}>{text}</{tag}>"
        yield "</div>"


def _compared(found: Comparison) -> Iterator[str]:
    yield f"<h2>{html.escape(found.title)}</h2>"
    if found.fix is not None:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in found.rows
        )
        yield f'<div class="card scroll"><table>{rows}</table></div>'
        yield f"<pre>{html.escape(found.fix)}</pre>"


def _tile(value: str, label: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{value}</b>{label}</div>'


def _table(titles: Sequence[str], rows: Iterable[str], foot: str = "", last: str = "") -> str:
    """A table that is sorted by a click on a title. `last` is the class of the last column."""
    head = _cells("th", [f"<button>{title}</button>" for title in titles], last)
    body = "".join(f'<tr class="row">{row}</tr>' for row in rows)
    foot = f"<tfoot><tr>{foot}</tr></tfoot>" if foot else ""
    return (
        f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>'
    )


def _row(row: Row) -> str:
    name, *counts, place = map(html.escape, row.cells)
    name = f"<code>{name}</code>"
    if row.kind == "repeated":
        name = f'<span class="bad">{name}</span>'
    return _cells("td", (name, *counts, f'<span class="place">{place}</span>'))


def _helper_row(cells: Sequence[str]) -> str:
    line, *counts, operations = map(html.escape, cells)
    place = f'<span class="place">{line}</span>'
    return _cells("td", (place, *counts, f"<code>{operations}</code>"))


def _stages(report: Report) -> str:
    rows = [
        _cells("td", [f"<code>{html.escape(name)}</code>", *seconds], "number")
        for name, *seconds in report.stages
    ]
    foot = rows.pop() if len(rows) > 1 else ""  # the sum
    return _table(("in seconds", *STAGE_TITLES[1:]), rows, foot, last="number")


def _cells(tag: str, cells: Sequence[str], last: str = "") -> str:
    """Cells of which all but the first and the last are numbers."""
    kinds = ["", *(["number"] * (len(cells) - 2)), last]
    pairs = zip(cells, kinds, strict=True)
    return "".join(f'<{tag} class="{kind}">{cell}</{tag}>' for cell, kind in pairs)


def _card(section: Section) -> Iterator[str]:
    yield f'<section class="card"><h3>{html.escape(section.name)}</h3>'
    yield f'<div class="place">{html.escape(section.place)}</div>'
    for title, cause in section.causes:
        title = html.escape(title)
        yield f'<div class="cause"><p>{title}, <b>{in_seconds(cause.seconds)}</b></p>'
        if cause.expected is not None:
            yield f"<p>expected: {html.escape(with_short_paths(cause.expected))}</p></div>"
            continue
        if cause.sites:
            yield f'<p class="place">{html.escape(with_short_paths(", ".join(cause.sites)))}</p>'
        if cause.pattern is not None:
            yield f"<p>{html.escape(cause.pattern)}</p>"
        if cause.note is not None:
            yield f"<p><code>{html.escape(cause.note)}</code></p>"
        if cause.changes:
            yield f'<div class="scroll">{changes_markup(cause, with_short_paths)}</div>'
        for hint in cause.hints:
            yield f"<p>{html.escape(hint)}</p>"
        if cause.fixes:
            # `chr(10)`, because an f-string takes no backslash before Python 3.12.
            yield f"<pre>{html.escape(chr(10).join(cause.fixes))}</pre>"
        yield "</div>"
    if section.closing:
        yield f'<p class="dim">{section.closing}</p>'
    yield "</section>"


# --- the timeline -----------------------------------------------------------------------------

_LEGEND = (
    '<div class="dim"><span class="key" style="background:var(--first)"></span>the first time'
    '<span class="key" style="background:var(--again)"></span>again; '
    "the paler part is tracing</div>"
)
_WIDTH, _LEFT, _ROW, _TOP = 1000, 190, 36, 24


def _timeline(report: Report) -> str:
    """An SVG image with a row for each function and process, over the seconds of the run."""
    is_one = len(report.processes) < 2
    rows = [
        (function.name if is_one else f"{process}: {function.name}", log)
        for function in report.functions
        for process, log in function.logs.items()
    ]
    entries = [entry for _, log in rows for entry in log.entries]
    ends = (report.seconds_until(entry) + entry.seconds for entry in entries)
    # More than zero, because the scale divides by it.
    end = max([report.seconds, *ends, 1e-3])
    scale = (_WIDTH - _LEFT - 20) / end
    height = _TOP + _ROW * len(rows) + 6
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="traces and compiles">']
    for tick in _ticks(end):
        x = _LEFT + tick * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="14" text-anchor="middle">{tick:g} s</text>')
    for row, (name, log) in enumerate(rows):
        y = _TOP + _ROW * row
        parts.append('<g class="row">')
        # Cut before it is escaped, or an entity could be cut in two.
        label = name if len(name) <= 24 else f"{name[:23]}…"
        parts.append(f'<text class="name" x="0" y="{y + 20}">{html.escape(label)}</text>')
        for number, entry in enumerate(log.entries, 1):
            parts.append(_bar(name, number, entry, report.seconds_until(entry), scale, y + 6))
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def _bar(name: str, number: int, entry: Entry, at: float, scale: float, y: float) -> str:
    """A paler bar for the trace, and next to it one for what comes after."""
    kind = "again" if entry.is_again else "first"
    tooltip = (
        f"{name}, no. {number}, at {at:.2f} s: "
        f"traced {entry.trace_seconds:.3f} s, lowered {entry.lowering_seconds:.3f} s, "
        f"compiled {entry.compile_seconds:.3f} s"
    )
    x = _LEFT + at * scale
    trace = max(entry.trace_seconds * scale, 0.0)
    # Wide enough to be seen.
    after = (entry.lowering_seconds + entry.compile_seconds) * scale
    rest = max(after, 2.5 if entry.compiled or trace < 2.5 else 0.0)
    return (
        f"<g><title>{html.escape(tooltip)}</title>"
        f'<rect class="{kind} trace" x="{x:.1f}" y="{y}" width="{trace:.1f}" height="18"/>'
        f'<rect class="{kind}" x="{x + trace:.1f}" y="{y}" width="{rest:.1f}" height="18"/></g>'
    )


def _ticks(end: float) -> Sequence[float]:
    """At most ten round numbers from 0 to the end."""
    step = 10.0 ** math.floor(math.log10(end))
    step = next(size for size in (step / 10, step / 5, step / 2, step) if end / size <= 10)
    return [round(i * step, 6) for i in range(int(end / step) + 1)]
