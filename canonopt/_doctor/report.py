"""The findings of the doctor: functions and lines of all processes, each with its causes."""

import collections
import functools
import os
import re
from collections.abc import Mapping, Sequence

import attrs

from .._recompiles import Cause, Entry, FunctionLog, StaleRead
from .stream import Process


@attrs.frozen
class Function:
    """A function of the user, or a line, with its log in each process that compiled it."""

    name: str
    place: str | None
    logs: Mapping[str, FunctionLog]  # by the name of the process

    def total(self, count: str) -> float:
        """Return the sum of a count over the processes."""
        return sum(getattr(log, count) for log in self.logs.values())

    @property
    def is_repeated(self) -> bool:
        """Return True if a process traced or compiled it again, and need not have."""
        return any(not log.is_expected for log in self.logs.values())

    @property
    def entries(self) -> list[tuple[str, Entry]]:
        """Return its traces and compiles, each with the name of the process."""
        return [(process, entry) for process, log in self.logs.items() for entry in log.entries]

    def causes(self) -> list[tuple[Cause, tuple[str, ...]]]:
        """Return the causes, each once, with the processes that have it."""
        alike: dict[object, dict[str, Cause]] = {}
        for process, log in self.logs.items():
            for cause in log.causes():
                # Not by the values: each process may have other ones.
                changes = ((change.path, change.kind, change.fix) for change in cause.changes)
                found = alike.setdefault((cause.what, cause.note, *changes), {})
                found[process] = _added(cause, found.get(process))
        return [
            (functools.reduce(_added, found.values()), tuple(found)) for found in alike.values()
        ]


def _added(cause: Cause, other: Cause | None) -> Cause:
    """Return a cause with the times and the seconds of both."""
    if other is None:
        return cause
    seconds = cause.seconds + other.seconds
    return attrs.evolve(cause, times=cause.times + other.times, seconds=seconds)


@attrs.frozen
class Report:
    """One run of a command."""

    processes: Sequence[Process]
    command: str
    status: int | None  # None if another machine runs it
    seconds: float
    started: float  # seconds since the epoch
    problems: Sequence[str] = ()  # why the counts are wrong, if they are
    notes: Sequence[str] = ()
    # Another run of the command, with canonopt's factories in the place of Optax's.
    tried: "Report | None" = None

    @functools.cached_property
    def functions(self) -> list[Function]:
        return _functions([(each.name, each.functions) for each in self.processes])

    @functools.cached_property
    def helpers(self) -> list[Function]:
        """Return the lines that ran what JAX and libraries compile."""
        return _functions([(each.name, each.helpers) for each in self.processes])

    @property
    def everything(self) -> list[Function]:
        """Return the functions, then the lines."""
        return [*self.functions, *self.helpers]

    @property
    def repeated(self) -> list[Function]:
        """Return what has a recompile that can be avoided, most expensive first."""
        found = (each for each in self.everything if each.is_repeated)
        return sorted(found, key=lambda function: -function.total("lost_seconds"))

    @property
    def stale(self) -> list[StaleRead]:
        """Return what went on with an old value, each once though several processes have it."""
        found: dict[object, StaleRead] = {}
        for read in (read for process in self.processes for read in process.stale.values()):
            key = (read.function, read.place, *(value.path for value in read.values))
            known = found.get(key)
            calls = read.calls + (known.calls if known else 0)
            found[key] = attrs.evolve(known or read, calls=calls)
        return [*found.values()]

    @property
    def compile_seconds(self) -> float:
        return sum(each.total("seconds") for each in self.everything)

    @property
    def lost_seconds(self) -> float:
        return sum(each.total("lost_seconds") for each in self.everything)

    @property
    def verdict(self) -> str | None:
        """Return a line in place of a table, or of the causes below it."""
        if not (self.functions or self.repeated):
            # A note says why, if none could be seen.
            return (
                None if self.problems or self.notes else "No function of the script was compiled."
            )
        if self.repeated or self.stale:
            return None
        if self.told:
            return "Nothing was traced or compiled again that need not be."
        return "No function was traced or compiled more than once."

    @property
    def legend(self) -> str | None:
        """Return which processes there are, if there are several."""
        if len(self.processes) < 2:
            return None
        names = [f"{p.title} on {p.start['host']}" for p in self.processes]
        more = [f"and {len(names) - 8} more"] if len(names) > 8 else []
        return f"processes: {', '.join([*names[:8], *more])}"

    @property
    def table(self) -> list[tuple[tuple[str, ...], bool]]:
        """Return the rows of the table, the first with its titles; each, and if it is repeated."""
        counts = ("traces", "compiles", "cache hits")
        if len(self.processes) > 1:
            counts = ("traces/compiles in",)
        rows: list[tuple[tuple[str, ...], bool]] = [
            (("function", *counts, "seconds", "lost", "defined at"), False)
        ]
        for each in (*self.functions, *(h for h in self.helpers if h.is_repeated)):
            seconds = (f"{each.total(name):.2f}" for name in ("seconds", "lost_seconds"))
            cells = (each.name, *self._counts(each), *seconds, each.place or "")
            rows.append((cells, each.is_repeated))
        if others := [helper for helper in self.helpers if not helper.is_repeated]:
            lines = "1 line" if len(others) == 1 else f"{len(others)} lines"
            compiles = f"{sum(helper.total('compiles') for helper in others)}"
            seconds = f"{sum(helper.total('seconds') for helper in others):.2f}"
            cells = ("", compiles, "") if len(self.processes) < 2 else (f"-/{compiles} in all",)
            rows.append(((f"JAX and libraries: {lines}", *cells, seconds, "", ""), False))
        return rows if len(rows) > 1 else []

    def _counts(self, function: Function) -> tuple[str, ...]:
        if len(self.processes) < 2:
            counts = ("traces", "compiles", "cache_hits")
            return tuple(f"{function.total(count)}" for count in counts)
        names = collections.defaultdict(list)
        for name, log in function.logs.items():
            names[f"{log.traces}/{log.compiles + log.cache_hits}"].append(name)
        return (", ".join(f"{pair} {self._where(found)}" for pair, found in names.items()),)

    def _where(self, names: Sequence[str]) -> str:
        if len(names) == len(self.processes):
            return "all processes"
        return f"{len(names)} processes" if len(names) > 4 else ", ".join(names)

    @property
    def told(self) -> list[Function]:
        """Return what is repeated, then what is expected or has a trace that failed."""
        others = (each for each in self.everything if not each.is_repeated and each.causes())
        return [*self.repeated, *others]

    def title(self, cause: Cause, processes: Sequence[str]) -> str:
        where = f", in {self._where(processes)}" if len(self.processes) > 1 else ""
        return f"{cause.title}{where}"


def _functions(processes: Sequence[tuple[str, Sequence[FunctionLog]]]) -> list[Function]:
    """Return those of all processes, each once: by its name and place."""
    found: dict[object, dict[str, FunctionLog]] = {}
    for process, logs in processes:
        seen: collections.Counter[object] = collections.Counter()
        for log in logs:
            # Functions of one name may be on one line: then by their order.
            key = log.name, log.place
            seen[key] += 1
            found.setdefault((*key, seen[key]), {})[process] = log
    firsts = [(next(iter(logs.values())), logs) for logs in found.values()]
    return [Function(first.name, first.place, logs) for first, logs in firsts]


def with_short_paths(text: str) -> str:
    """Make paths relative to the working directory, or to where packages are installed."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))
