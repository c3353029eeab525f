"""What the doctor reports: the one model that text, rich, JSON and HTML render."""

import collections
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import attrs

from .._recompiles import STAGES, Cause, CauseLine, Entry, FunctionLog, StaleRead, times
from .shortening import cache_advice, layers_hint
from .stream import Process

COLUMNS = ("function", "traces", "compiles", "cache hits", "seconds", "lost", "defined at")
STAGE_TITLES = ("where the time went, in seconds", "first", "again", "trace", "lowering", "XLA")
HELPERS = ("line", "compiles", "seconds", "what it ran")
_MAX_OPERATIONS = 6  # named for each line
_MAX_STAGES = 8  # functions in this table
_COMPARED = ("traces", "compiles", "seconds")
_MAX_COLUMNS = 8  # of processes, after which one column is for all others
_OTHERS = "others"


@attrs.frozen
class Function:
    """A function of the user, with its log in each process that traced or compiled it."""

    name: str
    place: str | None
    logs: Mapping[str, FunctionLog]  # by the name of the process

    def total(self, count: str) -> float:
        """The sum of a count over the processes."""
        return sum(getattr(log, count) for log in self.logs.values())

    @property
    def is_repeated(self) -> bool:
        """Return True if a process traced or compiled it again, and need not have."""
        return any(not log.is_expected for log in self.logs.values())

    @property
    def entries(self) -> list[tuple[str, Entry]]:
        """Its traces and compiles, each with the name of the process."""
        return [(process, entry) for process, log in self.logs.items() for entry in log.entries]

    @property
    def omitted(self) -> int:
        """Traces or compiles that are counted, but have no entry."""
        return sum(log.omitted for log in self.logs.values())

    @property
    def operations(self) -> str:
        """Return what a line ran, by name, the most frequent first."""
        found = collections.Counter(entry.operation for _, entry in self.entries)
        texts = [f"{name} ({n})" if n > 1 else f"{name}" for name, n in found.most_common()]
        more = [f"and {len(texts) - _MAX_OPERATIONS} more"] if len(texts) > _MAX_OPERATIONS else []
        return ", ".join([*texts[:_MAX_OPERATIONS], *more])

    def causes(self) -> list["SharedCause"]:
        """The causes, each once though several processes have it."""
        alike: dict[object, list[tuple[str, Cause]]] = {}
        for process, log in self.logs.items():
            for cause in log.causes():
                # Not by the values: each process may have other ones.
                changes = ((change.path, change.kind, change.fix) for change in cause.changes)
                alike.setdefault((cause.what, cause.note, *changes), []).append((process, cause))
        return [SharedCause.of(found) for found in alike.values()]


@attrs.frozen
class SharedCause:
    """A cause, with its times and seconds in all processes together."""

    cause: Cause
    processes: tuple[str, ...]

    @classmethod
    def of(cls, found: Sequence[tuple[str, Cause]]) -> "SharedCause":
        """The one cause that these are, each with its process."""
        processes, causes = zip(*found, strict=True)
        count = sum(cause.times for cause in causes)
        seconds = sum(cause.seconds for cause in causes)
        total = attrs.evolve(causes[0], times=count, seconds=seconds)
        return cls(total, tuple(dict.fromkeys(processes)))


@attrs.frozen
class Row:
    """A row of the table of functions, with a cell for each column."""

    cells: tuple[str, ...]
    kind: Literal["once", "repeated", "helpers"]


@attrs.frozen
class Section:
    """Why one function was traced or compiled again, or failed."""

    name: str
    place: str
    causes: Sequence[tuple[str, Cause]]  # each with its title
    omitted: int

    @property
    def closing(self) -> str | None:
        return f"and {times(self.omitted)} more, details omitted" if self.omitted else None


@attrs.frozen
class Comparison:
    """This run and another one of the command, side by side."""

    title: str
    rows: Sequence[tuple[str, ...]]  # the first has the names of the columns
    fix: str | None


@attrs.frozen
class Report:
    """One run of a command."""

    command: str
    status: int | None  # None if another machine runs it
    seconds: float
    started: float  # seconds since the epoch
    functions: Sequence[Function]
    helpers: Sequence[Function]  # lines that ran what JAX and libraries compile
    processes: Sequence[Process]
    notes: Sequence[str]  # what the counts lack, and why
    # Another run of the command, with canonopt's factories in the place of Optax's.
    tried: "Report | None" = None

    @classmethod
    def of(
        cls,
        processes: Sequence[Process],
        command: str,
        status: int | None,
        seconds: float,
        started: float,
        notes: Sequence[str] = (),
    ) -> "Report":
        """The report on these processes; those that compiled nothing are left out."""
        shown = [process for process in processes if process.functions or process.helpers]
        functions = _functions([(each.name, each.functions) for each in shown])
        helpers = _functions([(each.name, each.helpers) for each in shown])
        failures = dict.fromkeys(text for process in processes for text in process.failures)
        failed = (f"canonopt failed to find something out: {text}" for text in failures)
        notes = [*notes, *failed]
        return cls(command, status, seconds, started, functions, helpers, shown, notes)

    @property
    def stale(self) -> list[StaleRead]:
        """Return what went on with an old value, each once though several processes have it."""
        found: dict[object, StaleRead] = {}
        for process in self.processes:
            for read in process.stale.values():
                key = (read.function, read.place, *(value.path for value in read.values))
                known = found.get(key)
                calls = read.calls + (known.calls if known else 0)
                found[key] = attrs.evolve(known or read, calls=calls)
        return [*found.values()]

    @property
    def everything(self) -> list[Function]:
        """The functions, then the lines."""
        return [*self.functions, *self.helpers]

    @property
    def comparison(self) -> "Comparison | None":
        """This run and the one with canonopt's factories side by side."""
        if self.tried is None:
            return None
        if self.tried.status != 0:
            status = self.tried.status
            return Comparison(f"With canonopt's factories the exit status was {status}.", [], None)
        others = {(other.name, other.place): other for other in self.tried.functions}
        rows: list[tuple[str, ...]] = [("function", *_COMPARED)]
        for function in self.functions:
            other = others.get((function.name, function.place))
            rows.append((function.name, *_both(function, other)))
        rows.append(("all of it", "", "", f"{self.seconds:.2f} -> {self.tried.seconds:.2f}"))
        scripts = (word for word in shlex.split(self.command) if word.endswith(".py"))
        fix = f"canonopt fix --write {shlex.quote(next(scripts, '.'))}"
        return Comparison("With canonopt's factories in Optax's place:", rows, fix)

    @property
    def helper_compiles(self) -> float:
        return sum(helper.total("compiles") for helper in self.helpers)

    @property
    def helper_seconds(self) -> float:
        return sum(helper.total("seconds") for helper in self.helpers)

    @property
    def compile_seconds(self) -> float:
        return self.helper_seconds + sum(f.total("seconds") for f in self.functions)

    @property
    def lost_seconds(self) -> float:
        return sum(each.total("lost_seconds") for each in self.everything)

    @property
    def repeated(self) -> list[Function]:
        """The functions and lines with a recompile that can be avoided, most expensive first."""
        found = (each for each in self.everything if each.is_repeated)
        return sorted(found, key=lambda function: -function.total("lost_seconds"))

    @property
    def verdict(self) -> str | None:
        """A line in place of a table, or of the causes below it."""
        if not (self.functions or self.repeated):
            # A note says why, if none could be seen.
            return None if self.notes else "No function of the script was compiled."
        if self.repeated or self.stale:
            return None
        if self.sections:
            return "Nothing was traced or compiled again that need not be."
        return "No function was traced or compiled more than once."

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of the table. All but the first and the last are of numbers."""
        if len(self.processes) < 2:
            return COLUMNS
        return ("function", *self._titles, "seconds", "lost", "defined at")

    @property
    def legend(self) -> str | None:
        """Return what the columns of the processes show."""
        if len(self.processes) < 2:
            return None
        first = self.processes[:_MAX_COLUMNS]
        names = [f"{each.name} is pid {each.start.pid} on {each.start.host}" for each in first]
        if len(self._titles) > len(names):
            names.append(f"{_OTHERS} has the most of the other {len(self.processes) - len(first)}")
        return f"traces/compiles in each process: {', '.join(names)}"

    @property
    def _titles(self) -> list[str]:
        names = [process.name for process in self.processes]
        return [*names[:_MAX_COLUMNS], *([_OTHERS] if len(names) > _MAX_COLUMNS else [])]

    @property
    def rows(self) -> list[Row]:
        rows = [
            Row(
                (
                    function.name,
                    *self._counts(function),
                    f"{function.total('seconds'):.2f}",
                    f"{function.total('lost_seconds'):.2f}",
                    with_short_paths(function.place or ""),
                ),
                "repeated" if function.is_repeated else "once",
            )
            for function in (*self.functions, *(h for h in self.helpers if h.is_repeated))
        ]
        if others := [helper for helper in self.helpers if not helper.is_repeated]:
            name = f"JAX and libraries: {'1 line' if len(others) == 1 else f'{len(others)} lines'}"
            seconds = f"{sum(helper.total('seconds') for helper in others):.2f}"
            rows.append(Row((name, *self._helper_counts(others), seconds, "", ""), "helpers"))
        return rows

    @property
    def helper_rows(self) -> list[tuple[str, str, str, str]]:
        """Return a row for each line that ran what JAX or a library compiles, longest first."""
        return [
            (
                with_short_paths(helper.place or helper.name),
                f"{helper.total('compiles'):.0f}",
                f"{helper.total('seconds'):.2f}",
                helper.operations,
            )
            for helper in sorted(self.helpers, key=lambda helper: -helper.total("seconds"))
        ]

    @property
    def stages(self) -> list[tuple[str, ...]]:
        """The rows of a table of seconds: functions, most expensive first, and what all took."""
        found = sorted(self.functions, key=lambda function: -function.total("seconds"))
        shown, rest = found[:_MAX_STAGES], [*found[_MAX_STAGES:], *self.helpers]
        groups = [(function.name, [function]) for function in shown]
        if rest:
            groups.append(("all else", rest))
        if len(groups) > 1:
            groups.append(("all of it", self.everything))
        return [(name, *_in_stages(functions)) for name, functions in groups]

    @property
    def shorter(self) -> list[CauseLine]:
        """Return what would shorten the compiles, those that were needed too."""
        lines, both = [], self.everything
        hits, misses = (sum(f.total(n) for f in both) for n in ("cache_hits", "cache_misses"))
        entries = [entry for function in both for _, entry in function.entries]
        if hits or misses:
            text = f"JAX's persistent cache had {hits:.0f} of {hits + misses:.0f} programs"
            lines.append(CauseLine("note", text))
        elif (advice := cache_advice([entry.compile_seconds for entry in entries])) is not None:
            lines += [CauseLine("hint", advice.hint), CauseLine("fix", advice.fix)]
        for function in self.functions:
            alike = (entry.alike for _, entry in function.entries if entry.alike is not None)
            if (first := next(alike, None)) is not None:
                lines.append(CauseLine("hint", layers_hint(function.name, *first)))
        return lines

    def _counts(self, function: Function) -> Sequence[str]:
        if len(self.processes) < 2:
            return [f"{function.total(count)}" for count in ("traces", "compiles", "cache_hits")]
        logs = [function.logs.get(process.name) for process in self.processes]
        pairs = [(log.traces, log.compiles + log.cache_hits) if log else (0, 0) for log in logs]
        return ["/".join(map(str, pair)) if any(pair) else "" for pair in _in_columns(pairs)]

    def _helper_counts(self, helpers: Sequence[Function]) -> Sequence[str]:
        if len(self.processes) < 2:
            return "", f"{sum(helper.total('compiles') for helper in helpers)}", ""
        names = [process.name for process in self.processes]
        found = [[h.logs[name] for h in helpers if name in h.logs] for name in names]
        pairs = [(0, sum(log.compiles for log in logs)) for logs in found]
        return [f"-/{compiles}" for _, compiles in _in_columns(pairs)]

    @property
    def sections(self) -> list[Section]:
        """Of what is repeated, then of what is expected and of traces that failed."""
        others = [function for function in self.everything if not function.is_repeated]
        found = [(function, function.causes()) for function in [*self.repeated, *others]]
        return [
            Section(
                function.name,
                with_short_paths(function.place or ""),
                [(self._title(shared), shared.cause) for shared in causes],
                function.omitted,
            )
            for function, causes in found
            if causes or function.is_repeated
        ]

    def _title(self, shared: SharedCause) -> str:
        if len(self.processes) < 2:
            return shared.cause.title
        if len(shared.processes) == len(self.processes):
            where = "all processes"
        elif len(shared.processes) > _MAX_COLUMNS:
            where = f"{len(shared.processes)} processes"
        else:
            where = ", ".join(shared.processes)
        return f"{shared.cause.title}, in {where}"

    def seconds_until(self, entry: Entry) -> float:
        """From the start of the command."""
        return entry.at - self.started


def _functions(processes: Sequence[tuple[str, Sequence[FunctionLog]]]) -> list[Function]:
    """Those of all processes, each once: by its name and place."""
    found: dict[object, dict[str, FunctionLog]] = {}
    for process, logs in processes:
        seen: dict[object, int] = {}
        for log in logs:
            # Functions of one name may be on one line: then by their order.
            key = log.name, log.place
            seen[key] = seen.get(key, 0) + 1
            found.setdefault((*key, seen[key]), {})[process] = log
    firsts = [(next(iter(logs.values())), logs) for logs in found.values()]
    return [Function(first.name, first.place, logs) for first, logs in firsts]


def _in_stages(functions: Sequence[Function]) -> Iterator[str]:
    def total(name: str) -> float:
        return sum(function.total(name) for function in functions)

    first = total("first_seconds")
    for seconds in (first, total("seconds") - first, *map(total, STAGES)):
        yield f"{max(seconds, 0.0):.2f}"


def _in_columns(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    first, others = pairs[:_MAX_COLUMNS], pairs[_MAX_COLUMNS:]
    return [*first, *([max(others)] if others else [])]


def with_short_paths(text: str) -> str:
    """Makes paths relative to the working directory, or to where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def in_seconds(value: float) -> str:
    return f"{value:.2f} s"


def _both(function: Function, other: Function | None) -> Iterator[str]:
    for count in _COMPARED:
        before, after = function.total(count), 0 if other is None else other.total(count)
        form = ".2f" if count == "seconds" else ".0f"
        yield f"{before:{form}} -> {after:{form}}"
