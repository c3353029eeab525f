"""A log as HTML."""

import html
from collections.abc import Iterable, Sequence

from .causes import Cause


def log_markup(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    causes: Iterable[tuple[str, Cause]],
    notes: Iterable[str],
) -> str:
    """Return a log as a part of a page, such as a notebook, whose style it has."""
    table = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    parts = [f"<table><tr>{_cells('th', titles)}</tr>{table}</table>"]
    for title, cause in causes:
        lines = html.escape("\n".join(map(str, cause.lines())))
        parts.append(f"<p><b>{html.escape(title)}</b></p>\n<pre>{lines}</pre>")
    parts += [f"<p>{html.escape(note)}</p>" for note in notes if note]
    return "\n".join(parts)


def _cells(tag: str, cells: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
