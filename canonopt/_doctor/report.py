"""The report on a run: one dict of dicts, lists and texts, which all forms render."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from .._recompiles import COUNTS, Cause, FunctionLog
from .start import start_of
from .stream import Process

VERSION = 4  # version of the layout of a report
_COUNTS = (*COUNTS, "seconds", "lost_seconds", "omitted")

# A process, its log of a function or a line of code, and the records of the entries in the log.
_Told: TypeAlias = tuple[str, FunctionLog, Sequence[Mapping[str, Any]]]


def report_on(
    processes: Sequence[Process],
    command: str,
    status: int | None,
    seconds: float,
    started: float,
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the report on the run of a command.

    **Arguments:**

    - `status`: the exit status; None if another machine runs the command.
    - `started`: the time of the start, in seconds since the epoch.
    - `problems`: the reasons why the counts are wrong, if any.
    """
    processes = [process for process in processes if process.logs]  # those that compiled something
    found = [_function(told, started) for told in _by_function(processes)]
    found.sort(key=lambda each: each["is_line"])
    report: dict[str, Any] = {
        "version": VERSION,
        "command": command,
        "status": status,
        "seconds": seconds,
        "compile_seconds": sum(each["seconds"] for each in found),
        "lost_seconds": sum(each["lost_seconds"] for each in found),
        "recompiled": any(each["repeated"] for each in found),
        "problems": [*problems],
        "notes": [*notes],
        # Functions of the user, and lines at which JAX or a library compiled something again.
        "findings": [each for each in found if each["repeated"] or not each["is_line"]],
        "lines": [each for each in found if each["is_line"] and not each["repeated"]],
        "stale": _stale(processes),
        "processes": [
            {"is_ended": each.is_ended, "cache": each.cache, **each.start, "name": each.name}
            for each in processes
        ],
        "tried": None,  # the report on a run with canonopt's factories in the place of Optax's
    }
    return {**report, "start": start_of(report)}


def _by_function(processes: Iterable[Process]) -> list[list[_Told]]:
    """Return what all processes told of each function or line of code."""
    found: dict[object, list[_Told]] = {}
    for process in processes:
        seen: collections.Counter[object] = collections.Counter()
        for log, moments in process.logs.items():
            # Functions with one name may be on one line. Then their order tells them apart.
            key = log.name, log.place, log.is_line
            seen[key] += 1
            found.setdefault((*key, seen[key]), []).append((process.name, log, moments))
    return [*found.values()]


def _function(told: Sequence[_Told], started: float) -> dict[str, Any]:
    logs = {process: log for process, log, _ in told}
    counts = {
        process: {"repeated": not log.is_expected, **{name: getattr(log, name) for name in _COUNTS}}
        for process, log in logs.items()
    }
    return {
        **{name: getattr(told[0][1], name) for name in ("name", "place", "title", "is_line")},
        # True if any process traced or compiled the function again without need.
        "repeated": any(each["repeated"] for each in counts.values()),
        **{name: sum(each[name] for each in counts.values()) for name in _COUNTS},
        "by_process": counts,
        "causes": _causes(logs),
        "moments": [
            {
                "process": process,
                "at": entry["time"] - started,
                "again": entry["traced_again"] or entry["compiled_again"],
                **entry,
            }
            for process, _, moments in told
            for entry in moments
        ],
    }


def _causes(logs: Mapping[str, FunctionLog]) -> list[dict[str, Any]]:
    """Return each cause once, with the processes that have it."""
    alike: dict[object, list[tuple[str, Cause]]] = {}
    for process, log in logs.items():
        for cause in log.causes():
            # Values are left out of the key, since they may differ in each process.
            changes = ((c.path, c.kind, c.part, c.fix) for c in cause.changes)
            key = cause.what, cause.note, cause.is_avoidable, *changes
            alike.setdefault(key, []).append((process, cause))
    causes = []
    for found in alike.values():
        times, seconds = (sum(getattr(c, n) for _, c in found) for n in ("times", "seconds"))
        cause = attrs.evolve(found[0][1], times=times, seconds=seconds)
        causes.append(
            {
                **attrs.asdict(cause),
                "processes": [*dict.fromkeys(process for process, _ in found)],
                "title": cause.title,
                "is_avoidable": cause.is_avoidable,
                "lines": cause.lines(),
            }
        )
    return causes


def _stale(processes: Iterable[Process]) -> list[dict[str, Any]]:
    """Return each stale read (of a value changed after a trace) with its calls in all processes."""
    found: dict[object, Any] = {}
    for read in (read for process in processes for read in process.stale):
        key = (read.function, read.place, *(value.path for value in read.values))
        calls = read.calls + (found[key].calls if key in found else 0)
        found[key] = attrs.evolve(found.get(key, read), calls=calls)
    return [{**attrs.asdict(read), "lines": read.lines()} for read in found.values()]
