"""What reports say of a difference between two calls, and of its cause: a `Change` and a `Cause`.

`cause_lines` renders both for every report. A line to paste and what to do in words are kept apart.
"""

from collections.abc import Sequence
from typing import Literal

import attrs


@attrs.frozen
class Advice:
    """A line to paste, or words, or both."""

    fix: str = ""
    hint: str = ""


@attrs.frozen
class Change:
    """One difference between two calls, and what to do about it.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, layout, options, context.
    """

    path: str
    kind: str
    before: str
    after: str
    # Code to paste before the call, or "A in place of B". Empty if no code is sure to work.
    fix: str = ""
    # What to do, in words.
    hint: str = ""
    # How many programs that differ in this are likely wanted: one, a pair or a handful.
    wanted: int = 1

    @classmethod
    def advised(
        cls, path: str, kind: str, before: str, after: str, advice: Advice, wanted: int = 1
    ) -> "Change":
        return cls(path, kind, before, after, advice.fix, advice.hint, wanted)

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"


@attrs.frozen
class CauseLine:
    """One line of a report about a recompile. `str` of it is the line as plain text."""

    role: Literal["change", "note", "hint", "fix"]  # a fix is code, a hint is words
    text: str

    def __str__(self) -> str:
        label = {"hint": "hint: ", "fix": "write: "}.get(self.role, "")
        return f"{label}{self.text}"


def cause_lines(
    changes: Sequence[Change],
    note: str | None,
    hints: Sequence[str],
    fixes: Sequence[str],
    most: int = 3,
) -> list[CauseLine]:
    """The first changes or the lines of the note, then what to do; at most `most` of each."""
    shown = [f"{'also ' if i else ''}{change}" for i, change in enumerate(changes[:most])]
    if len(changes) > most:
        shown.append(f"and {len(changes) - most} more differences")
    if len(fixes) > most:  # fewer would not do
        hints, fixes = [*hints[: most - 1], f"{len(fixes)} lines like {fixes[0]}"], ()
    noted = [line for line in (note or "").splitlines() if line.strip()][:most]
    return [
        *(CauseLine("change", text) for text in shown),
        *(CauseLine("note", text) for text in noted),
        *(CauseLine("hint", text) for text in hints[:most]),
        *(CauseLine("fix", text) for text in fixes[:most]),
    ]


@attrs.frozen
class Cause:
    """Why something was traced or compiled again, or why a trace failed, and how often."""

    what: str
    times: int
    seconds: float
    # Those of the first time. Later ones have the same paths and kinds.
    changes: tuple[Change, ...]
    note: str | None  # in place of changes
    fixes: tuple[str, ...]  # lines to paste
    hints: tuple[str, ...] = ()
    # The lines of the user's code that ran it, as `file:line`, in the order of the first times.
    sites: tuple[str, ...] = ()
    pattern: str | None = None  # how the times differ from each other
    # Why this is expected, and no reason to change the code. None if it can be avoided.
    expected: str | None = None

    @property
    def is_expected(self) -> bool:
        return self.expected is not None

    @property
    def is_avoidable(self) -> bool:
        """Whether something ran again that need not. A trace that failed is an error instead."""
        return not self.is_expected and not self.what.startswith(("failed", "needed"))

    @property
    def title(self) -> str:
        again = " again" if self.what.startswith("was") else ""
        return f"{self.what}{again}, {times(self.times)}"

    def report(self, most: int = 3, in_full: bool = False) -> list[CauseLine]:
        """The changes or the note, and what to write: what all reports show, `most` of each.

        One line if this is expected, unless it is wanted `in_full`.
        """
        if self.expected is not None and not in_full:
            return [CauseLine("note", f"expected: {self.expected}")]
        lines = cause_lines(self.changes, self.note, self.hints, self.fixes, most)
        at = next((i for i, line in enumerate(lines) if line.role in ("hint", "fix")), len(lines))
        more = [self.pattern] if self.pattern else []
        if self.sites:
            rest = f", and {len(self.sites) - most} more lines" if len(self.sites) > most else ""
            more.append(f"called at {', '.join(self.sites[:most])}{rest}")
        return [*lines[:at], *(CauseLine("note", text) for text in more), *lines[at:]]

    def lines(self, in_full: bool = False) -> list[str]:
        """The report as plain text."""
        return [str(line) for line in self.report(in_full=in_full)]


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def nth(count: int) -> str:
    last = 0 if count % 100 in (11, 12, 13) else count % 10
    return f"{count}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def aligned(rows: list[tuple[object, ...]]) -> list[str]:
    """The lines of a table whose columns are as wide as their cells."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
