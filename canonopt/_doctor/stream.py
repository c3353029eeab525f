"""The stream from a process to the doctor: a line of JSON for each trace and compile.

`listen` writes the lines, and `read` makes logs of them again. `docs/doctor-stream.md` describes
them.
"""

import atexit
import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import jax

from .._jax_internals import Compile
from .._recompiles import (
    COUNTS,
    MAX_ENTRIES,
    MAX_OPERATIONS,
    STAGES,
    Change,
    Entry,
    Explanation,
    FunctionLog,
    ReadValue,
    Recorder,
    StaleRead,
    check_compiles,
    record_everywhere,
    start_watching,
)
from ..errors import UnsupportedVersionError

_T = TypeVar("_T", bound=attrs.AttrsInstance)

VERSION = 1  # of the lines. A new field is no new version.
_MAX_TEXT = 1000  # characters of each string
_MAX_LEAVES = 2000  # of a call

# What is written of logs and entries, under the same names, besides `COUNTS`.
_ENTRY = (
    *("traced", "compiled", "traced_again", "compiled_again"),
    *(*STAGES, "error", "advice"),
    *("is_nested", "after_trial", "site", "operation", "shapes"),
)


# --- writing ----------------------------------------------------------------------------------


class StreamRecorder(Recorder):
    """Writes a record for each trace and compile. Never raises, for it runs in the user's calls."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Forget everything, as in a fork, whose stream begins with no function."""
        super().__init__()
        self._numbers: dict[FunctionLog, int] = {}
        self._cache: dict[str, Any] = {}
        # Since `perf_counter`, which entries have, starts anywhere.
        self._epoch = time.time() - time.perf_counter()
        # Another thread may hold the former lock at a fork. And a signal handler may trace, too.
        self._order = threading.RLock()

    def tell(self, event: str, **fields: Any) -> None:
        self._write(_cut({"event": event, "time": time.time(), **fields}))

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        with contextlib.suppress(Exception):
            if (log := super().log_of(name, function, by_library)) is not None:
                # By when they began. What is inside of another function ends before it.
                self._numbers.setdefault(log, len(self._numbers))
            return log

    def add_trace(self, log: FunctionLog, entry: Entry) -> None:
        with contextlib.suppress(Exception):
            super().add_trace(log, entry)
            # After a trial, which its entry does not tell any more.
            for each in log.entries[-2:] if entry.after_trial else (entry,):
                self._tell_of(log, each, "trace")

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry | None:
        with contextlib.suppress(Exception):
            found = super().add_compile(log, entry, compiled)
            self._tell_of(log, found or entry)
            return found

    def add_operation(self, entry: Entry, compiled: Compile) -> None:
        with contextlib.suppress(Exception):
            if (log := super().add_operation(entry, compiled)) is not None:
                self._numbers.setdefault(log, len(self._numbers))
                self._tell_of(log, entry)

    def note_problem(self, problem: str) -> None:
        if self.log.note_problem(problem):
            self.tell("note", text=problem)

    def _tell_of(self, log: FunctionLog, entry: Entry | None, event: str = "compile") -> None:
        # The counts are read inside, so that a later line never has smaller ones.
        with self._order:
            if (cache := _cache_settings()) != self._cache:
                self._cache = cache
                self.tell("cache", **cache)
            about: dict[str, Any] = {"kind": "line" if log.is_line else "function"}
            about |= {"number": self._numbers[log], **_fields(log, ("name", "place", *COUNTS))}
            told = {}
            if entry is not None and entry in log.entries:  # else there are too many
                about_entry = {"number": log.entries.index(entry), "time": self._epoch + entry.at}
                told = {"entry": about_entry | _fields(entry, _ENTRY)}
                # Else the line of the trace has them.
                if event == "trace" or log.is_line or not entry.traced:
                    told["entry"] |= _differences(entry)
            self.tell(event, function=about, **told)


def _differences(entry: Entry) -> dict[str, Any]:
    """Return the leaves of a call by path, as text, and how it differs from an earlier one."""
    leaves: dict[str, str] = {}
    found = entry.call.leaves if entry.call is not None else {}
    told = ((path, leaf) for path, leaf in found.items() if leaf.kind != "node")
    for path, leaf in itertools.islice(told, _MAX_LEAVES):
        leaves[path] = leaf.text
        # Of a static value, what is in it too: two optimizers have one name.
        leaves.update((f"{path} with {name}", part.text) for name, part in leaf.parts.items())
    if entry.explanation is None:
        return {"leaves": leaves}
    return {"leaves": leaves, "changes": [*map(attrs.asdict, entry.explanation.changes)]}


def _cache_settings() -> dict[str, Any]:
    """Return if JAX's persistent cache is on, and how long a compile takes that it keeps."""
    found: Any = jax.config
    is_on = bool(found.jax_compilation_cache_dir and found.jax_enable_compilation_cache)
    return {"is_on": is_on, "min_seconds": found.jax_persistent_cache_min_compile_time_secs}


def _fields(value: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _cut(value: Any) -> Any:
    """Cut each string in a record."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 3]}..."
    if isinstance(value, dict):
        return {_cut(name): _cut(item) for name, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list | tuple) else value


def listen(write: Callable[[dict[str, Any]], None]) -> StreamRecorder:
    """Write what this process traces and compiles from now on, until it ends.

    Raises `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    recorder, stale = StreamRecorder(write), list[StaleRead]()
    record_everywhere(recorder)

    def tell(number: int) -> None:
        recorder.tell("stale", number=number, **attrs.asdict(stale[number]))

    def add(read: StaleRead) -> None:
        # Only what is confirmed, since a report of the doctor has to be right.
        if read.is_confirmed and len(stale) < MAX_ENTRIES:
            stale.append(read)
            tell(len(stale) - 1)

    try:
        start_watching(add, recorder.note_problem, all_threads=True)
    except UnsupportedVersionError as error:
        recorder.note_problem(str(error))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.restart)
        os.register_at_fork(after_in_child=stale.clear)

    def check() -> None:
        for number in range(len(stale)):  # again, with all calls since
            tell(number)
        try:
            check_compiles()
        except UnsupportedVersionError as error:
            recorder.tell("problem", text=str(error))

    atexit.register(check)
    return recorder


# --- reading ----------------------------------------------------------------------------------


@attrs.define(eq=False)
class ToldEntry(Entry):
    """An entry that another process has told of."""

    leaves: dict[str, str] = attrs.field(factory=dict, repr=False)  # of the call, as text


@attrs.define(eq=False)
class Process:
    """One process, as its stream tells it."""

    name: str  # `p0` for the first
    start: dict[str, Any]  # the first line
    latest: float  # the time of the latest line
    problems: list[str] = attrs.field(factory=list)  # why the counts are wrong
    failures: list[str] = attrs.field(factory=list)  # what canonopt failed to find out
    is_ended: bool = False  # whether there is a last line
    stale: dict[int, StaleRead] = attrs.field(factory=dict)
    # Of JAX's persistent cache: if it is on, and how long a compile takes that it keeps.
    cache: tuple[bool, float] | None = None
    _logs: dict[int, FunctionLog] = attrs.field(factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} (pid {self.start['pid']})"

    @property
    def functions(self) -> list[FunctionLog]:
        return [log for _, log in sorted(self._logs.items()) if not log.is_line]

    @property
    def helpers(self) -> list[FunctionLog]:
        """Return the compiles of JAX and libraries, grouped by the user's line that ran them."""
        return [log for _, log in sorted(self._logs.items()) if log.is_line]

    def add(self, record: dict[str, Any]) -> None:
        """Add a record; those of a newer version do nothing.

        Raises an error, of any of several types, if it is no record of a stream.
        """
        kind, self.latest = record["event"], float(record["time"])
        if kind == "end":
            self.is_ended = True
        elif kind == "problem":
            self.problems.append(str(record["text"]))
        elif kind == "note":
            self.failures.append(str(record["text"]))
        elif kind == "cache":
            self.cache = bool(record["is_on"]), float(record["min_seconds"])
        elif kind == "stale":
            values = tuple(_made(ReadValue, value) for value in record["values"])
            self.stale[int(record["number"])] = _made(StaleRead, {**record, "values": values})
        elif kind in ("trace", "compile"):
            self._add(record["function"], record.get("entry"))

    def _add(self, about: dict[str, Any], entry: dict[str, Any] | None) -> None:
        new = FunctionLog(about["name"], about["place"], is_line=about["kind"] == "line")
        log = self._logs.setdefault(int(about["number"]), new)
        for name in COUNTS:
            setattr(log, name, about[name])
        if entry is None:
            return
        number, at = int(entry["number"]), float(entry["time"])
        while len(log.entries) <= min(number, MAX_OPERATIONS if log.is_line else MAX_ENTRIES):
            log.entries.append(ToldEntry(None, at))
        kept: Any = log.entries[number]
        told = {name: entry.get(name) for name in _ENTRY}  # an older one has fewer
        told |= {"at": at, "advice": tuple(entry["advice"])}
        told["leaves"] = entry.get("leaves", kept.leaves)
        if "changes" in entry:
            told["explanation"] = Explanation.of(_made(Change, x) for x in entry["changes"])
        log.entries[number] = attrs.evolve(kept, **told)


def _made(kind: type[_T], record: dict[str, Any]) -> _T:
    """Return what a record tells of, which may have more fields."""
    return kind(**{f.name: record[f.name] for f in attrs.fields(kind) if f.name in record})


def read(path: Path) -> tuple[list[Process], list[str]]:
    """Return the processes that wrote these streams, a folder or one file, and what went wrong."""
    processes: list[Process] = []
    problems = []
    for each in path.glob("*.jsonl") if path.is_dir() else [path]:
        try:
            processes += _read_file(each)
        except (OSError, ValueError) as error:
            problems.append(str(error))
    processes.sort(key=lambda process: process.start["time"])
    for number, process in enumerate(processes):
        process.name = f"p{number}"
        name = f"{process.title}: " if len(processes) > 1 else ""
        problems += [f"{name}{problem}" for problem in process.problems]
    return processes, problems


def _read_file(path: Path) -> list[Process]:
    """Return the process, if its first line is complete. Raises `ValueError` if it is no stream."""
    found: list[Process] = []
    for line in path.read_bytes().split(b"\n")[:-1]:  # the last line may not be complete
        try:
            record = json.loads(line)
            if found:
                found[0].add(record)
            elif (record["event"], record["version"]) == ("start", VERSION):
                found.append(Process("p0", record, float(record["time"])))
            else:
                raise ValueError
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if not found:
                text = f"{path} is not a stream of canonopt doctor, version {VERSION}"
                raise ValueError(text) from error
            # What has been read is worth a report, also if a disk was full.
            if _BROKEN not in found[0].problems:
                found[0].problems.append(_BROKEN)
    return found


_BROKEN = "some lines of its stream cannot be read"
