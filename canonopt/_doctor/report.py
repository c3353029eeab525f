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
    helpers: Sequence[FunctionLog]  # of JAX and libraries

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
        return sum(function.lost_seconds for function in self.functions)

    @property
    def repeated(self) -> list[FunctionLog]:
        """The functions that were traced or compiled more than once, most expensive first."""
        found = filter(is_repeated, self.functions)
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
            for function in self.functions
        ]
        if self.helpers:
            name, compiles = f"{len(self.helpers)} in JAX and libraries", str(self.helper_compiles)
            cells = (name, "", compiles, "", f"{self.helper_seconds:.2f}", "", "")
            rows.append(Row(cells, "helpers"))
        return rows

    @property
    def sections(self) -> list[Section]:
        """Of the repeated functions, then of those of which only a trace failed."""
        others = [function for function in self.functions if not is_repeated(function)]
        found = [(function, function.causes()) for function in [*self.repeated, *others]]
        return [
            Section(
                function.name,
                with_short_paths(function.place or ""),
                causes,
                # An entry may be a trace and a compile, so the counts are not added.
                max(max(function.traces, function.compiles) - len(function.entries), 0),
            )
            for function, causes in found
            if causes or is_repeated(function)
        ]

    def seconds_until(self, entry: Entry) -> float:
        """From the start of the script."""
        return entry.at - self.started


def is_repeated(function: FunctionLog) -> bool:
    # A hit of the persistent cache takes the place of a compile. A backward pass counts for
    # neither, since it is a program of its own.
    return function.traces > 1 or function.compiles + function.cache_hits > 1


def with_short_paths(text: str) -> str:
    """Makes paths relative to the working directory, or to where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def in_seconds(value: float) -> str:
    return f"{value:.2f} s"
