"""The stream from a process to the doctor: a line of JSON for each trace and compile.

`listen` writes the lines, and `read` makes logs of them again. `docs/doctor-stream.md` describes
them.
"""

import atexit
import contextlib
import functools
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import jax

from .._jax_internals.watching import Compile
from .._python_internals.libraries import is_library_module
from .._recompiles import (
    COUNTS,
    MAX_ENTRIES,
    STAGES,
    Cause,
    Change,
    Entry,
    FunctionLog,
    ReadValue,
    Recorder,
    StaleRead,
    StaleWatch,
    check_compiles,
    record_everywhere,
)
from ..errors import UnsupportedVersionError

VERSION = 2  # of the lines. A new field is no new version.
_MAX_TEXT = 1000  # characters of each string
_MAX_LEAVES = 2000  # of a call

# What is written of entries, under the same names.
_ENTRY = (
    *("traced", "compiled", "traced_again", "compiled_again"),
    *(*STAGES, "error"),
    *("is_nested", "site", "operation", "shapes"),
)


# --- writing ----------------------------------------------------------------------------------


class StreamRecorder(Recorder):
    """Writes a record for each trace and compile."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Forget everything, as in a fork, whose stream begins with no function."""
        super().__init__()
        self._numbers: dict[FunctionLog, int] = {}
        self._stale: list[StaleRead] = []
        # Entries have times of `perf_counter`, which starts anywhere.
        self._epoch = time.time() - time.perf_counter()
        # Another thread may hold the former lock at a fork. And a signal handler may trace, too.
        self._order = threading.RLock()

    def tell(self, event: str, **fields: Any) -> None:
        """Write a record. Never raises, for it runs in the user's calls."""
        with contextlib.suppress(Exception):
            self._write(_cut({"event": event, "time": time.time(), **fields}))

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        log = super().log_of(name, function, by_library)
        if log is not None:
            # By when they began. What is inside of another function ends before it.
            self._numbers.setdefault(log, len(self._numbers))
        return log

    def add_trace(self, log: FunctionLog, entry: Entry) -> Entry:
        found = super().add_trace(log, entry)
        self._tell_of(log, found, "trace")
        return found

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry | None:
        found = super().add_compile(log, entry, compiled)
        self._tell_of(log, found or entry)
        return found

    def line_of(self, site: str | None) -> FunctionLog | None:
        if (log := super().line_of(site)) is not None:
            self._numbers.setdefault(log, len(self._numbers))
        return log

    def note_problem(self, problem: str) -> None:
        if self.log.note_problem(problem):
            self.tell("note", text=problem)

    def add_stale(self, read: StaleRead) -> None:
        # Only what is confirmed, since a report of the doctor has to be right.
        if read.is_confirmed and len(self._stale) < MAX_ENTRIES:
            self._stale.append(read)
            self.tell_stale(-1)

    def tell_stale(self, first: int = 0) -> None:
        """Write the stale reads from a number on, with all calls since."""
        for number, read in [*enumerate(self._stale)][first:]:
            self.tell("stale", number=number, **attrs.asdict(read))

    def _tell_of(self, log: FunctionLog, entry: Entry, event: str = "compile") -> None:
        # The counts are read inside, so that a later line never has smaller ones.
        with self._order:
            found: dict[str, Any] = {"cache": _cache_settings()}
            found["function"] = {
                "number": self._numbers[log],
                "kind": "line" if log.is_line else "function",
                **{name: getattr(log, name) for name in ("name", "place", *COUNTS)},
            }
            if entry in log.entries:  # else there are too many
                found["entry"] = entry_record(entry, log.entries.index(entry), self._epoch)
                # Else the line of the trace has them.
                if event == "trace" or log.is_line or not entry.traced:
                    found["entry"] |= _differences(entry)
            self.tell(event, **found)


def entry_record(entry: Entry, number: int, epoch: float) -> dict[str, Any]:
    """Return what is written of an entry; `epoch` is when `perf_counter` was 0."""
    facts = {name: getattr(entry, name) for name in _ENTRY}
    return {"number": number, "time": epoch + entry.at, **facts}


def _differences(entry: Entry) -> dict[str, Any]:
    """Return the leaves of a call by path, as text, and how it differs from an earlier one."""
    leaves: dict[str, str] = {}
    found = entry.call.leaves if entry.call is not None else {}
    told = ((path, leaf) for path, leaf in found.items() if leaf.kind != "node")
    for path, leaf in itertools.islice(told, _MAX_LEAVES):
        leaves[path] = leaf.text
        # Of a static value, what is in it too: two optimizers have one name.
        parts = itertools.islice(leaf.parts.items(), MAX_ENTRIES)
        leaves.update((f"{path} with {name}", part.text) for name, part in parts)
    if (told := entry.explanation) is None:
        return {"leaves": leaves}
    return {"leaves": leaves, "changes": [*map(attrs.asdict, told.changes)], "note": told.note}


def _cache_settings() -> dict[str, Any]:
    """Return if JAX's persistent cache is on, and how long a compile takes that it keeps."""
    found: Any = jax.config
    is_on = bool(found.jax_compilation_cache_dir and found.jax_enable_compilation_cache)
    return {"is_on": is_on, "min_seconds": found.jax_persistent_cache_min_compile_time_secs}


def _cut(value: Any) -> Any:
    """Cut each string in a record."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 3]}..."
    if isinstance(value, dict):
        return {_cut(name): _cut(item) for name, item in value.items()}
    return [*map(_cut, value)] if isinstance(value, list | tuple) else value


def listen(write: Callable[[dict[str, Any]], None]) -> None:
    """Write what this process traces and compiles from now on, until it ends.

    Raises `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    recorder = StreamRecorder(write)
    record_everywhere(recorder)
    try:
        StaleWatch(recorder.add_stale, recorder.note_problem).start()
    except UnsupportedVersionError as error:
        recorder.note_problem(str(error))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.restart)

    # Python takes it from the module when the script has ended.
    script = getattr(sys.modules["__main__"], "__file__", None)

    def end() -> None:
        recorder.tell_stale()
        modules = (module for module in [*sys.modules.values()] if not is_library_module(module))
        files = (script, *(getattr(module, "__file__", None) for module in modules))
        recorder.tell("files", files=[*filter(None, files)])
        try:
            check_compiles()
        except UnsupportedVersionError as error:
            recorder.tell("problem", text=str(error))

    atexit.register(end)


# --- reading ----------------------------------------------------------------------------------


@attrs.define(eq=False, slots=False)
class Told:
    """A function or a line, as the stream of a process tells of it."""

    counts: dict[str, Any]  # the last ones, with its name and place
    entries: dict[int, dict[str, Any]] = attrs.field(factory=dict)  # by number

    @functools.cached_property
    def log(self) -> FunctionLog:
        counts = {name: self.counts[name] for name in ("name", "place", *COUNTS)}
        entries = [_entry(self.entries[number]) for number in sorted(self.entries)]
        return FunctionLog(**counts, is_line=self.counts["kind"] == "line", entries=entries)


def _entry(record: dict[str, Any]) -> Entry:
    facts: dict[str, Any] = {name: record.get(name) for name in _ENTRY}  # an older one has fewer
    if "changes" in record:
        changes = (_made(Change, change) for change in record["changes"])
        facts["explanation"] = Cause.of(changes, record.get("note"))
    return Entry(None, record["time"], **facts)


def _made(kind: Any, record: dict[str, Any]) -> Any:
    """Return what a record tells of, which may have more fields."""
    return kind(**{f.name: record[f.name] for f in attrs.fields(kind) if f.name in record})


@attrs.define(eq=False)
class Process:
    """One process, as its stream tells it."""

    start: dict[str, Any]  # the first line
    name: str = "p0"
    is_ended: bool = False  # whether there is a last line
    latest: float = 0.0  # the time of the latest line
    problems: list[str] = attrs.field(factory=list)  # why the counts are wrong
    failures: list[str] = attrs.field(factory=list)  # what canonopt failed to find out
    files: list[str] = attrs.field(factory=list)  # of the user's modules
    stale: dict[int, StaleRead] = attrs.field(factory=dict)
    cache: dict[str, Any] | None = None  # settings of JAX's persistent cache
    told: dict[int, Told] = attrs.field(factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} (pid {self.start['pid']})"

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
        elif kind == "files":
            self.files = record["files"]
        elif kind == "stale":
            values = tuple(_made(ReadValue, value) for value in record["values"])
            self.stale[int(record["number"])] = _made(StaleRead, {**record, "values": values})
        elif kind in ("trace", "compile"):
            self.cache, counts = record["cache"], record["function"]
            told = self.told.setdefault(int(counts["number"]), Told(counts))
            told.counts = counts
            if (entry := record.get("entry")) is not None:
                number = int(entry["number"])
                told.entries[number] = {**told.entries.get(number, {}), **entry}


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
                found.append(Process(record, latest=float(record["time"])))
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
