"""What the doctor reports: the one model that text, rich, JSON and HTML render."""

import os
import re
from collections.abc import Sequence
from typing import Literal

import attrs

from .._recompiles import Cause, CompileLog, Entry, FunctionLog, times

COLUMNS = ("function", "traces", "compiles", "cache hits", "seconds", "lost", "defined at")
NUMBERS = COLUMNS[1:-1]  # aligned to the right


@attrs.frozen
class Row:
    """A row of the table of functions, with a cell for each of `COLUMNS`."""

    cells: tuple[str, ...]
    kind: Literal["once", "repeated", "helpers"]


@attrs.frozen
class Section:
    """Why one function was traced or compiled again, or failed."""

    name: str
    place: str
    causes: Sequence[Cause]
    omitted: int  # traces or compiles that the log counts, but has no entries for

    @property
    def closing(self) -> str | None:
        return f"and {times(self.omitted)} more, details omitted" if self.omitted else None


@attrs.frozen
class Report:
    """One run of a script."""

    command: str
    status: int
    seconds: float
    started: float  # of time.perf_counter, as in the entries
    functions: Sequence[FunctionLog]
    helpers: Sequence[FunctionLog]  # lines that ran what JAX and libraries compile

    @classmethod
    def of(cls, log: CompileLog, command: str, status: int, seconds: float) -> "Report":
        return cls(command, status, seconds, log.started, log.functions, log.helpers)

    @property
    def helper_compiles(self) -> int:
        return sum(helper.compiles for helper in self.helpers)

    @property
    def helper_seconds(self) -> float:
        return sum(helper.seconds for helper in self.helpers)

    @property
    def compile_seconds(self) -> float:
        return self.helper_seconds + sum(function.seconds for function in self.functions)

    @property
    def lost_seconds(self) -> float:
        return sum(each.lost_seconds for each in (*self.functions, *self.helpers))

    @property
    def repeated(self) -> list[FunctionLog]:
        """The functions and lines with a recompile that can be avoided, most expensive first."""
        found = filter(is_repeated, (*self.functions, *self.helpers))
        return sorted(found, key=lambda function: -function.lost_seconds)

    @property
    def rows(self) -> list[Row]:
        rows = [
            Row(
                (
                    function.name,
                    str(function.traces),
                    str(function.compiles),
                    str(function.cache_hits),
                    f"{function.seconds:.2f}",
                    f"{function.lost_seconds:.2f}",
                    with_short_paths(function.place or ""),
                ),
                "repeated" if is_repeated(function) else "once",
            )
            for function in (*self.functions, *filter(is_repeated, self.helpers))
        ]
        if others := [helper for helper in self.helpers if not is_repeated(helper)]:
            name, compiles = f"{len(others)} in JAX and libraries", sum(h.compiles for h in others)
            seconds = sum(helper.seconds for helper in others)
            cells = (name, "", str(compiles), "", f"{seconds:.2f}", "", "")
            rows.append(Row(cells, "helpers"))
        return rows

    @property
    def sections(self) -> list[Section]:
        """Of what is repeated, then of what is expected and of traces that failed."""
        both = (*self.functions, *self.helpers)
        others = [function for function in both if not is_repeated(function)]
        found = [(function, function.causes()) for function in [*self.repeated, *others]]
        return [
            Section(
                function.name,
                with_short_paths(function.place or ""),
                causes,
                function.omitted,
            )
            for function, causes in found
            if causes or is_repeated(function)
        ]

    def seconds_until(self, entry: Entry) -> float:
        """From the start of the script."""
        return entry.at - self.started


def is_repeated(function: FunctionLog) -> bool:
    """Whether something was traced or compiled again that need not be."""
    return not function.is_expected


def with_short_paths(text: str) -> str:
    """Makes paths relative to the working directory, or to where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def in_seconds(value: float) -> str:
    return f"{value:.2f} s"
