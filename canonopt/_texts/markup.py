"""Differences, causes and logs as HTML."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence

from .causes import Cause, CauseLine

_MAX_CHANGES = 12  # shown for each cause


def changes_markup(cause: Cause, shorten: Callable[[str], str] = str) -> str:
    """The changes of a cause as a table. `shorten` is called with each text."""
    rows = ["<th>path</th><th>kind</th><th>before</th><th>after</th>"]
    for change in cause.changes[:_MAX_CHANGES]:
        cells = (change.path, change.kind, change.before, change.after)
        rows.append("".join(f"<td>{html.escape(shorten(cell))}</td>" for cell in cells))
    if len(cause.changes) > _MAX_CHANGES:
        rows.append(f'<td colspan="4">and {len(cause.changes) - _MAX_CHANGES} more</td>')
    return f'<table class="changes">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'


def log_markup(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    causes: Iterable[tuple[str, Cause]],
    notes: Iterable[str],
) -> str:
    """A log as a part of a page, such as a notebook, whose style it has."""
    table = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    parts = [f"<table><tr>{_cells('th', titles)}</tr>{table}</table>"]
    for title, cause in causes:
        lines = "".join(map(_line, _without_changes(cause)))
        parts.append(f"<p><b>{html.escape(title)}</b></p>")
        parts.append(changes_markup(cause) if cause.changes and not cause.is_expected else "")
        parts.append(lines)
    parts += [f"<p>{html.escape(note)}</p>" for note in notes if note]
    return "\n".join(filter(None, parts))


def _without_changes(cause: Cause) -> Iterator[CauseLine]:
    return (line for line in cause.report() if line.role != "change")


def _line(line: CauseLine) -> str:
    tag = "pre" if line.role == "fix" else "div"
    return f"<{tag}>{html.escape(line.text)}</{tag}>"


def _cells(tag: str, cells: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
