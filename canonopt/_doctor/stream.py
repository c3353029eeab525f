"""The stream from a process to the doctor: a line of JSON for each call, trace and compile.

`listen` writes the lines, and `read` turns them back into logs. `docs/doctor-stream.md` describes
the lines.
"""

import atexit
import collections
import contextlib
import itertools
import json
import os
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import jax

from .._jax_internals.watching import Compile, has_persistent_cache
from .._recompiles import (
    COUNTS,
    MAX_ENTRIES,
    STAGES,
    Call,
    Caller,
    Entry,
    FunctionLog,
    Leaf,
    ReadValue,
    Recorder,
    StaleRead,
    StaleWatch,
    check_compiles,
    record_everywhere,
)
from ..errors import UnsupportedVersionError

VERSION = 3  # version of the format of the lines; new fields leave the version as it is
# Maximum number of characters of a string, and of one in a call: `text_of` returns fewer.
_MAX_TEXT, _MAX_FACT = 1000, 11_000

# These fields of an `Entry` (a trace, a compile, or both) are written, under the same names.
ENTRY = (
    *("traced", "compiled", "traced_again", "compiled_again"),
    *(*STAGES, "error"),
    *("is_nested", "site", "operation", "shapes", "clearings"),
)


# --- writing ----------------------------------------------------------------------------------


class StreamRecorder(Recorder):
    """A recorder that writes a line for each call, trace and compile.

    It writes under `misses.lock`, which guards the counts: a later line never has smaller counts.
    """

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Forget everything. A forked child calls this, since its stream has no functions yet."""
        super().__init__()
        self._numbers: dict[FunctionLog, int] = {}
        self._calls: weakref.WeakKeyDictionary[Call, int] = weakref.WeakKeyDictionary()
        self._count = itertools.count()
        self._tokens: dict[object, int] = {}
        # The time when `perf_counter` was 0: entries have times of `perf_counter`.
        self._epoch = time.time() - time.perf_counter()

    def tell(self, event: str, **fields: Any) -> None:
        """Write a record. This never raises an error, because the user's calls run it."""
        most = _MAX_FACT if event == "call" else _MAX_TEXT
        with contextlib.suppress(Exception):
            self._write(_cut({"event": event, "time": time.time(), **fields}, most))

    def add_trace(self, log: FunctionLog, entry: Entry) -> Entry:
        found = super().add_trace(log, entry)
        self._tell_of(log, found, "trace")
        return found

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry | None:
        found = super().add_compile(log, entry, compiled)
        self._tell_of(log, found or entry, "compile")
        return found

    def note_problem(self, problem: str) -> None:
        if self.log.note_problem(problem):
            self.tell("note", text=problem)

    def add_stale(self, read: StaleRead) -> None:
        if len(self.log.stale) < MAX_ENTRIES:
            self.log.stale.append(read)
            self.tell_stale(read)

    def tell_stale(self, read: StaleRead) -> None:
        """Write a `StaleRead`, with the number of its calls until now."""
        self.tell("stale", number=self.log.stale.index(read), **attrs.asdict(read))

    def _tell_of(self, log: FunctionLog, entry: Entry, event: str) -> None:
        flags: Any = jax.config
        # The seconds that a compile must take to be kept in JAX's persistent cache.
        least = flags.jax_persistent_cache_min_compile_time_secs
        found: dict[str, Any] = {"cache": {"is_on": has_persistent_cache(), "min_seconds": least}}
        found["function"] = {
            "number": self._numbers.setdefault(log, len(self._numbers)),
            "kind": "line" if log.is_line else "function",
            **{name: getattr(log, name) for name in ("name", "place", *COUNTS)},
        }
        if entry in log.entries:  # false if the log is full
            found["entry"] = {
                "number": log.entries.index(entry),
                "at": self._epoch + entry.at,
                "call": entry.call and self._tell_call(entry.call),
                **{name: getattr(entry, name) for name in ENTRY},
            }
        self.tell(event, **found)

    def _tell_call(self, call: Call) -> int:
        """Write the facts of a call, if they are not written yet, and return its number."""
        if (number := self._calls.get(call)) is not None:
            return number
        number, leaves, index = next(self._count), list[dict[str, Any]](), dict[object, int]()
        paths = {path: self._leaf(leaf, leaves, index) for path, leaf in call.leaves.items()}
        facts = _facts(call, "leaves", "budget", "classes", "caller", "places", "wrapper")
        facts["caller"] = {name: getattr(call.caller, name) for name in _CALLER}
        facts["places"] = [(*place, code) for place, code in call.places.items()]
        facts["wrapper"] = self._number(call.wrapper)
        self.tell("call", number=number, paths=paths, leaves=leaves, **facts)
        self._calls[call] = number
        return number

    def _leaf(self, leaf: Leaf, leaves: list[dict[str, Any]], index: dict[object, int]) -> int:
        """Return the index of a leaf in `leaves`. Add its facts, after those of its parts."""
        key = leaf.token if leaf.is_array else leaf
        if key not in index:
            facts = _facts(leaf)
            facts |= {name: self._number(facts[name]) for name in _TOKENS if name in facts}
            parts = leaf.parts.items()
            facts["parts"] = {name: self._leaf(part, leaves, index) for name, part in parts}
            index[key] = len(leaves)
            leaves.append(facts)
        return index[key]

    def _number(self, value: object) -> int | None:
        """Return a number that equal values share, or None for None."""
        try:
            return None if value is None else self._tokens.setdefault(value, len(self._tokens))
        except Exception:  # a metaclass of the user has no hash, for example
            return -1 - next(self._count)


_CALLER = ("arguments", "modules", "through", "place")
_TOKENS = ("token", "digest", "type_token", "code")  # written as numbers


def _facts(value: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a call or of a leaf that differ from their defaults."""
    fields = [f for f in attrs.fields(type(value)) if f.name not in without]
    return {f.name: found for f in fields if (found := getattr(value, f.name)) != f.default}


def _cut(value: Any, most: int) -> Any:
    """Return a record as JSON has it: long strings are cut, and lists replace sets."""
    if isinstance(value, dict):
        return {_cut(name, most): _cut(item, most) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_cut(item, most) for item in value]
        return items if isinstance(value, list | tuple) else sorted(items)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)  # a dimension may be a NumPy integer or a symbol
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listen(write: Callable[[dict[str, Any]], None]) -> None:
    """Call `write` with a record of each trace, compile and stale read of this process from now on.

    Raises `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    recorder = StreamRecorder(write)
    record_everywhere(recorder)
    try:
        StaleWatch(recorder.add_stale, recorder.note_problem).start()
    except UnsupportedVersionError as error:
        recorder.note_problem(str(error))
    os.register_at_fork(after_in_child=recorder.restart)

    def end() -> None:
        for read in recorder.log.stale:
            recorder.tell_stale(read)
        try:
            check_compiles()
        except UnsupportedVersionError as error:
            recorder.tell("problem", text=str(error))

    atexit.register(end)


# --- reading ----------------------------------------------------------------------------------


@attrs.define(eq=False)
class Process:
    """One process, read from its stream."""

    start: dict[str, Any]  # the first line of the stream
    # The logs of functions and of lines of code, in the order of their first entries. Here,
    # `Entry.at` is in seconds since the epoch.
    logs: Sequence[FunctionLog]
    cache: dict[str, Any] | None  # settings of JAX's persistent cache
    name: str = "p0"
    is_ended: bool = False  # whether the stream has an "end" line
    latest: float = 0.0  # the time of the latest line
    problems: Sequence[str] = ()  # why the counts are wrong
    failures: Sequence[str] = ()  # errors of canonopt itself
    stale: Sequence[StaleRead] = ()

    @property
    def title(self) -> str:
        return f"{self.name} (pid {self.start['pid']})"


def read(path: Path) -> tuple[list[Process], list[str]]:
    """Return the processes that wrote the streams in a folder or file, and the problems found."""
    processes: list[Process] = []
    problems = []
    for each in path.glob("*.jsonl") if path.is_dir() else [path]:
        try:
            lines = each.read_bytes().split(b"\n")[:-1]  # the last line may be incomplete
            if records := [*map(_record, lines)]:
                processes.append(_process(records, each))
        except (OSError, ValueError) as error:
            problems.append(str(error))
    processes.sort(key=lambda process: process.start["time"])
    for number, process in enumerate(processes):
        process.name = f"p{number}"
        name = f"{process.title}: " if len(processes) > 1 else ""
        problems += [f"{name}{problem}" for problem in process.problems]
    return processes, problems


def _record(line: bytes) -> dict[str, Any]:
    try:
        return {**json.loads(line)}
    except (TypeError, ValueError):  # report the other lines, even if a full disk has cut one
        text = "some lines of the stream of canonopt doctor cannot be read"
        return {"event": "problem", "time": 0.0, "text": text}


def _process(records: Sequence[dict[str, Any]], path: Path) -> Process:
    """Return the process that wrote these records. Raises `ValueError` if they are not a stream."""
    start = records[0]
    if (start.get("event"), start.get("version")) != ("start", VERSION):
        text = f"{path} is not a stream of canonopt doctor, version {VERSION}"
        raise ValueError(f"{text}. Write one with --streams FOLDER")
    found = collections.defaultdict[str, list[dict[str, Any]]](list)
    for record in records:
        found[record["event"]].append(record)
    counted = [record for record in records if record["event"] in ("trace", "compile")]
    # Later records of a function or an entry replace earlier ones.
    functions = {record["function"]["number"]: record["function"] for record in counted}
    entries: dict[int, dict[int, dict[str, Any]]] = {number: {} for number in functions}
    for record in counted:
        if "entry" in record:
            entries[record["function"]["number"]][record["entry"]["number"]] = record["entry"]
    calls = {record["number"]: _call(record) for record in found["call"]}
    logs: list[FunctionLog] = []
    for number, function in functions.items():
        log = _made(FunctionLog, function | {"is_line": function["kind"] == "line"})
        for _, record in sorted(entries[number].items()):
            entry = _made(Entry, record | {"call": calls.get(record["call"])})
            entry.compare_with(e for e in log.entries if e.operation == entry.operation)
            log.entries.append(entry)
        logs.append(log)
    stale = {record["number"]: record for record in found["stale"]}
    return Process(
        start,
        # An inner function is written before the function that calls it, so sort by start.
        sorted(logs, key=lambda log: [entry.at for entry in log.entries[:1]]),
        counted[-1]["cache"] if counted else None,
        is_ended=bool(found["end"]),
        latest=max(record["time"] for record in records),
        problems=[*dict.fromkeys(record["text"] for record in found["problem"])],
        failures=[record["text"] for record in found["note"]],
        stale=[_stale(record) for record in stale.values()],
    )


def _call(record: dict[str, Any]) -> Call:
    leaves: list[Leaf] = []
    for facts in record["leaves"]:
        parts = {name: leaves[part] for name, part in facts["parts"].items()}
        stores = frozenset(facts.get("stores", ()))
        leaves.append(_made(Leaf, facts | {"parts": parts, "stores": stores}))
    more = {
        "leaves": {path: leaves[number] for path, number in record["paths"].items()},
        "at_default": frozenset(record.get("at_default", ())),
        "caller": Caller(**record["caller"]),
        "places": {(*place,): code for *place, code in record["places"]},
    }
    return _made(Call, record | more)


def _stale(record: dict[str, Any]) -> StaleRead:
    values = tuple(_made(ReadValue, value) for value in record["values"])
    return _made(StaleRead, record | {"values": values})


def _made(kind: Any, record: dict[str, Any]) -> Any:
    """Return an object of class `kind` for a record, which may have unknown or missing fields."""
    return kind(**{f.alias: record[f.alias] for f in attrs.fields(kind) if f.alias in record})
