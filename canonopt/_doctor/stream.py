"""What a process tells the doctor: a line of JSON for each trace and compile, as it happens.

`listen` writes the lines, `Streams` reads them back into logs. `stream.schema.json` describes them,
and `docs/doctor-stream.md` says what they mean.
"""

import atexit
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from .._jax_internals import Compile
from .._recompiles import (
    COUNTS,
    MAX_ENTRIES,
    MAX_OPERATIONS,
    STAGES,
    Change,
    CompileLog,
    Entry,
    Explanation,
    FunctionLog,
    ReadValue,
    Recorder,
    StaleRead,
    check_compiles,
    record_everywhere,
    watch_everywhere,
)
from ..errors import UnsupportedVersionError
from .shortening import SLOW_SECONDS, alike_items

VERSION = 1  # of the lines. A new field is no new version.
_MAX_TEXT = 1000  # characters of each string

# What is written of logs and entries, under the same names, besides `COUNTS`.
_ENTRY = (
    *("traced", "compiled", "traced_again", "compiled_again"),
    *(*STAGES, "error", "advice"),
    *("is_nested", "after_trial", "site", "operation", "shapes", "alike"),
)
_STALE = ("function", "place", "since", "is_confirmed", "calls")
_VALUE = ("path", "before", "after", "place")
_CHANGE = ("path", "kind", "before", "after", "fix", "hint", "wanted")


# --- writing ----------------------------------------------------------------------------------


class StreamRecorder(Recorder):
    """Writes a record for each trace and compile. Never raises, for it runs in the user's calls."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Forgets everything, as in a fork, whose stream begins with no function."""
        super().__init__()
        self._log = CompileLog()
        self._numbers: dict[FunctionLog, int] = {}
        # Since `perf_counter`, which entries have, starts anywhere.
        self._epoch = time.time() - time.perf_counter()
        # Another thread may hold the former lock at a fork. And a signal handler may trace, too.
        self._order = threading.RLock()

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        if by_library:
            return None
        with contextlib.suppress(Exception), self._lock:
            log = self._log.function_log(name, function)
            # By when they began, as in a log. What is inside of another function ends before it.
            self._numbers.setdefault(log, len(self._numbers))
            return log

    def add_trace(self, log: FunctionLog, entry: Entry) -> None:
        with contextlib.suppress(Exception):
            super().add_trace(log, entry)
            # After a trial, which its entry does not tell any more.
            for each in log.entries[-2:] if entry.after_trial else (entry,):
                self._tell("trace", log, each)

    def add_compile(
        self, log: FunctionLog, compiled: Compile, entry: Entry | None = None
    ) -> Entry | None:
        found = None
        with contextlib.suppress(Exception):
            found = super().add_compile(log, compiled, entry)
            self._tell("compile", log, found or entry)
        return found

    def add_operation(self, entry: Entry, compiled: Compile) -> None:
        with contextlib.suppress(Exception):
            with self._lock:
                log = self._log.line_log(entry.site)
                self._numbers.setdefault(log, len(self._numbers))
                log.add_operation(entry, compiled)
            self._tell("compile", log, entry)

    def note_problem(self, problem: str) -> None:
        if self._log.note_problem(problem):
            self._write(_cut({"event": "note", "time": time.time(), "text": problem}))

    def _tell(self, event: str, log: FunctionLog, entry: Entry | None) -> None:
        # The counts are read inside, so that a later line never has smaller ones.
        with self._order:
            kind = "line" if log.is_line else "function"
            about: dict[str, Any] = {"number": self._numbers[log], "kind": kind}
            about |= {"name": log.name, "place": log.place, **_fields(log, COUNTS)}
            record: dict[str, Any] = {"event": event, "time": time.time(), "function": about}
            if entry is not None:
                record["entry"] = self._entry(log, entry, is_new=event == "trace")
            self._write(_cut(record))

    def _entry(self, log: FunctionLog, entry: Entry, is_new: bool) -> dict[str, Any] | None:
        if entry not in log.entries:  # no more are kept
            return None
        if entry.compile_seconds >= SLOW_SECONDS and entry.call is not None:
            arrays = entry.call.arrays.items()
            entry.alike = alike_items({path: array.text for path, array in arrays})
        about = {"number": log.entries.index(entry), "time": self._epoch + entry.at}
        about |= _fields(entry, _ENTRY)
        # Else the line of the trace has them, but an operation has only the line of its compile.
        if (is_new or log.is_line or not entry.traced) and entry.explanation is not None:
            about["changes"] = [_fields(change, _CHANGE) for change in entry.explanation.changes]
        return about


class _StaleReads:
    """Writes what goes on with an old value, and at the end again, with all calls since.

    Only what is confirmed, since a report of the doctor has to be right.
    """

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._found: list[StaleRead] = []

    def restart(self) -> None:
        self._found.clear()

    def add(self, read: StaleRead) -> None:
        if read.is_confirmed and len(self._found) < MAX_ENTRIES:
            self._found.append(read)
            self._tell(len(self._found) - 1, read)

    def end(self) -> None:
        for number, read in enumerate(self._found):
            self._tell(number, read)

    def _tell(self, number: int, read: StaleRead) -> None:
        record = {"event": "stale", "time": time.time(), "number": number, **_fields(read, _STALE)}
        self._write(_cut({**record, "values": [_fields(value, _VALUE) for value in read.values]}))


def _fields(value: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _cut(value: Any) -> Any:
    """Cuts each string in a record."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 3]}..."
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list | tuple) else value


def listen(write: Callable[[dict[str, Any]], None]) -> StreamRecorder:
    """Writes what this process traces and compiles from now on, until it ends.

    Raises `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    recorder, stale = StreamRecorder(write), _StaleReads(write)
    record_everywhere(recorder)
    try:
        watch_everywhere(stale.add, recorder.note_problem)
    except UnsupportedVersionError as error:
        recorder.note_problem(str(error))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.restart)
        os.register_at_fork(after_in_child=stale.restart)

    def check() -> None:
        stale.end()
        try:
            check_compiles()
        except UnsupportedVersionError as error:
            write({"event": "problem", "time": time.time(), "text": str(error)})

    atexit.register(check)
    return recorder


# --- reading ----------------------------------------------------------------------------------


@attrs.frozen
class Start:
    """The first line of a stream."""

    version: int
    time: float
    host: str
    pid: int
    parent: int
    fork: bool
    argv: tuple[str, ...] = attrs.field(converter=tuple)
    python: str
    jax: str | None


@attrs.define(eq=False)
class Process:
    """One process, as its stream tells it."""

    name: str  # `p0` for the first
    start: Start
    latest: float  # the time of the latest line
    problems: list[str] = attrs.field(factory=list)  # why the counts are wrong
    failures: list[str] = attrs.field(factory=list)  # what canonopt failed to find out
    is_ended: bool = False  # whether there is a last line
    stale: dict[int, StaleRead] = attrs.field(factory=dict)
    _logs: dict[int, FunctionLog] = attrs.field(factory=dict)

    @property
    def functions(self) -> list[FunctionLog]:
        return [log for _, log in sorted(self._logs.items()) if not log.is_line]

    @property
    def helpers(self) -> list[FunctionLog]:
        """Return what JAX and libraries compile, by the line of the user's that ran it."""
        return [log for _, log in sorted(self._logs.items()) if log.is_line]

    def add(self, record: dict[str, Any]) -> None:
        """Adds a record; those of a newer version do nothing.

        Raises an error, of any of several types, if it is no record of a stream.
        """
        kind, self.latest = record["event"], float(record["time"])
        if kind == "end":
            self.is_ended = True
        elif kind == "problem":
            self.problems.append(str(record["text"]))
        elif kind == "note":
            self.failures.append(str(record["text"]))
        elif kind == "stale":
            values = tuple(ReadValue(*(v[name] for name in _VALUE)) for v in record["values"])
            fields = {name: record[name] for name in _STALE}
            self.stale[int(record["number"])] = StaleRead(values=values, **fields)
        elif kind in ("trace", "compile"):
            self._add(record["function"], record.get("entry"))

    def _add(self, about: dict[str, Any], entry: dict[str, Any] | None) -> None:
        new = FunctionLog(about["name"], about["place"], is_line=about["kind"] == "line")
        log = self._logs.setdefault(int(about["number"]), new)
        for name in COUNTS:
            setattr(log, name, about[name])
        if entry is None:
            return
        number = int(entry["number"])
        while len(log.entries) <= min(number, MAX_OPERATIONS if log.is_line else MAX_ENTRIES):
            log.entries.append(Entry(None, float(entry["time"])))
        kept = log.entries[number]
        kept.at = float(entry["time"])
        for name in _ENTRY:
            setattr(kept, name, entry.get(name))  # an older one has fewer
        kept.advice = tuple(kept.advice)
        kept.alike = None if kept.alike is None else (str(kept.alike[0]), int(kept.alike[1]))
        if "changes" in entry:
            changes = (Change(*(each[name] for name in _CHANGE)) for each in entry["changes"])
            kept = attrs.evolve(kept, explanation=Explanation(0, tuple(changes), ()))
            log.entries[number] = kept


class Streams:
    """The streams of a run: those in a folder, or one file. Read again, it goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[Path, tuple[int, Process]] = {}

    @property
    def processes(self) -> list[Process]:
        return [process for _, process in self._read.values()]

    def read(self) -> None:
        """Reads what has been written since.

        Raises `StreamError` if a file is no stream, or one of a newer version.
        """
        paths = self._path.glob("*.jsonl") if self._path.is_dir() else [self._path]
        for path in sorted(paths, key=_started):
            self._read_file(path)

    def _read_file(self, path: Path) -> None:
        offset, process = self._read.get(path, (0, None))
        with path.open("rb") as file:
            file.seek(offset)
            whole, end, _ = file.read().rpartition(b"\n")  # the last line may not be complete
        for line in whole.splitlines() if end else ():
            try:
                record = json.loads(line)
                if process is None:
                    process = _begun(f"p{len(self._read)}", record)
                else:
                    process.add(record)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                if process is None:
                    raise StreamError(f"{path} is not a stream of canonopt doctor") from error
                # What has been read is worth a report, also if a disk was full.
                if _BROKEN not in process.problems:
                    process.problems.append(_BROKEN)
        if process is not None:
            self._read[path] = offset + len(whole) + len(end), process


_BROKEN = "some lines of its stream cannot be read"


class StreamError(Exception):
    """A file that cannot be read as a stream. The message is for users."""


def _started(path: Path) -> tuple[float, str]:
    """The order of the processes: by the time in the name of their file."""
    *_, time = path.stem.rpartition("-")
    return (float(time) if time.isdigit() else 0.0, path.name)


def _begun(name: str, record: dict[str, Any]) -> Process:
    if record["event"] != "start":
        raise ValueError
    if record["version"] != VERSION:
        raise StreamError(
            f"the stream has version {record['version']}, and this canonopt reads {VERSION}: use "
            "the canonopt that wrote it"
        )
    start = Start(**{field.name: record[field.name] for field in attrs.fields(Start)})
    return Process(name, start, start.time)
