"""The report on a run: one dict of dicts, lists, texts and calls, which `forms` renders."""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from .._recompiles import COUNTS, STAGES, Cause, FunctionLog
from .stream import ENTRY, Process

VERSION = 5  # version of the layout of a report
_COUNTS = (*COUNTS, "seconds", "lost_seconds")
_WORTH_SECONDS = 1.0  # less tracing and compiling is not worth a reader's time
_MAX_LINES = 3  # maximum number of lines of code that advice names

_ON = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
_SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"

_Dict: TypeAlias = Mapping[str, Any]
# A process, and its log of a function or a line of code.
_ProcessLog: TypeAlias = tuple[str, FunctionLog]


def report_on(
    processes: Sequence[Process],
    command: str,
    status: int | None,
    seconds: float,
    started: float,
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the report on the run of a command that began at `started`.

    `started` is in seconds since the epoch. The exit status is None for `--attach-to`. `problems`
    say why the counts are wrong.
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
        # The user's functions, and lines where JAX or a library compiled again without need.
        "findings": [each for each in found if each["repeated"] or not each["is_line"]],
        "lines": [each for each in found if each["is_line"] and not each["repeated"]],
        "stale": _stale(processes),
        "processes": [
            {"is_ended": each.is_ended, "cache": each.cache, **each.start, "name": each.name}
            for each in processes
        ],
        "tried": None,  # the report on a run with canonopt's factories in the place of Optax's
    }
    starts = filter(None, (_start(report, process) for process in report["processes"]))
    return {**report, "start": max(starts, key=lambda start: start["seconds"], default=None)}


def _by_function(processes: Iterable[Process]) -> list[list[_ProcessLog]]:
    """Return the logs of all processes, grouped by function or line of code."""
    found: dict[object, list[_ProcessLog]] = {}
    for process in processes:
        seen: collections.Counter[object] = collections.Counter()
        for log in process.logs:
            # Functions on one line may have the same name. Then their order tells them apart.
            key = log.name, log.place, log.is_line
            seen[key] += 1
            found.setdefault((*key, seen[key]), []).append((process.name, log))
    return [*found.values()]


def _function(told: Sequence[_ProcessLog], started: float) -> dict[str, Any]:
    logs = dict(told)
    counts = {
        process: {"repeated": not log.is_expected, **{name: getattr(log, name) for name in _COUNTS}}
        for process, log in logs.items()
    }
    return {
        **{name: getattr(told[0][1], name) for name in ("name", "place", "title", "is_line")},
        "costliest": max(logs.values(), key=lambda log: log.seconds).costliest,
        # True if any process traced or compiled the function again without need.
        "repeated": any(each["repeated"] for each in counts.values()),
        **{name: sum(each[name] for each in counts.values()) for name in _COUNTS},
        "by_process": counts,
        "causes": _causes(logs),
        # The `Call`s of the compiled programs.
        "calls": [e.call for _, log in told for e in log.entries if e.compiled and e.call],
        "moments": [
            {
                "process": process,
                "time": entry.at,
                "at": entry.at - started,
                "again": entry.is_again,
                **{name: getattr(entry, name) for name in ENTRY},
            }
            for process, log in told
            for entry in log.entries
        ],
    }


def _causes(logs: Mapping[str, FunctionLog]) -> list[dict[str, Any]]:
    """Return each cause once, with the processes that have it."""
    alike: dict[object, list[tuple[str, Cause]]] = {}
    for process, log in logs.items():
        seen: collections.Counter[object] = collections.Counter()
        for cause in log.causes():
            # Values are left out of the key, since they may differ in each process. If causes of a
            # process have the same key, their order tells them apart.
            changes = ((c.path, c.kind, c.part, c.fix) for c in cause.changes)
            key = cause.what, cause.note, cause.is_avoidable, *changes
            alike.setdefault((*key, seen[key]), []).append((process, cause))
            seen[key] += 1
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
    """Return each `StaleRead` once, with the number of its calls in all processes."""
    found: dict[object, Any] = {}
    for read in (read for process in processes for read in process.stale):
        key = (read.function, read.place, *(value.path for value in read.values))
        calls = read.calls + (found[key].calls if key in found else 0)
        found[key] = attrs.evolve(found.get(key, read), calls=calls)
    return [{**attrs.asdict(read), "lines": read.lines()} for read in found.values()]


# --- the start ------------------------------------------------------------------------------------


def _start(report: _Dict, process: _Dict) -> dict[str, Any] | None:
    """Return where the time went until the first slow function, usually the step, could run.

    The dict has the seconds, the rows of a table (titles first), and advice to shorten the start.
    Returns None if no function was compiled, or tracing and compiling took less than a second.
    """
    functions, lines = [], []
    for each in (*report["findings"], *report["lines"]):
        own = [m for m in each["moments"] if m["compiled"] and m["process"] == process["name"]]
        if own and each["is_line"]:
            lines.append((each, own))
        elif own:
            functions.append((each, own))
    slowest = max((_seconds(moments[:1]) for _, moments in functions), default=0.0)
    slow = [(each, m[0]) for each, m in functions if _seconds(m[:1]) >= slowest / 2]
    if not slow:
        return None
    step, first = min(slow, key=lambda found: found[1]["time"])
    end = first["time"] + _seconds([first])
    lines = [(each, [m for m in moments if m["time"] < end]) for each, moments in lines]
    lines = [found for found in lines if found[1]]
    eager = [moment for _, moments in lines for moment in moments]
    others = [m for _, moments in functions for m in moments if m["time"] < end and m is not first]
    all_compiled = [*eager, *others, first]
    compiling = _seconds(all_compiled)
    if compiling < _WORTH_SECONDS:
        return None
    imported, began = process["time"], process["began"]
    seconds = max(end - began, compiling)
    rest = max(end - imported - compiling, 0.0)
    name = f", of {process['name']}" if len(report["processes"]) > 1 else ""
    rows = [
        (f"what the start took, in seconds{name}", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", f"{imported - began:.2f}"),
        _row(f"eager operations, at {len(lines)} {'line' if len(lines) == 1 else 'lines'}", eager),
        _row("other functions", others),
        _row(f"{step['name']}, its first program", [first]),
        ("running, and everything else", "", "", "", "", f"{rest:.2f}"),
        (f"until {step['name']} could first run", "", "", "", "", f"{seconds:.2f}"),
    ]
    advice = [*_advice_on_lines(lines), *_advice_on_cache(report, process, all_compiled)]
    return {"seconds": seconds, "rows": [row for row in rows if row[1] != "0"], "advice": advice}


def _seconds(moments: Iterable[_Dict]) -> float:
    return sum(moment[stage] for moment in moments for stage in STAGES)


def _row(name: str, moments: Sequence[_Dict]) -> tuple[str, ...]:
    stages = [sum(moment[stage] for moment in moments) for stage in STAGES]
    return (name, f"{len(moments)}", *(f"{value:.2f}" for value in (*stages, sum(stages))))


# A hint is given where it would save a second. Each hint shortened a start when measured.


def _advice_on_lines(lines: Sequence[tuple[_Dict, Sequence[_Dict]]]) -> Iterator[str]:
    for line, moments in sorted(lines, key=lambda found: -_seconds(found[1]))[:_MAX_LINES]:
        if (seconds := _seconds(moments)) >= _WORTH_SECONDS / 10:
            count = f"{len(moments)} programs" if len(moments) > 1 else "a program"
            yield f"{line['name']} compiled {count}, {seconds:.2f} s"
    # A restart of a 12-layer transformer took 4.8 s if it initialized its parameters, else 2.9 s.
    if sum(_seconds(moments) for _, moments in lines) >= _WORTH_SECONDS:
        yield (
            "hint: if these lines initialize what a checkpoint replaces, restore into the shapes "
            "of eqx.filter_eval_shape or jax.eval_shape: nothing is compiled for them"
        )


def _advice_on_cache(report: _Dict, process: _Dict, moments: Sequence[_Dict]) -> Iterator[str]:
    both = (each["by_process"] for each in (*report["findings"], *report["lines"]))
    own = [each[process["name"]] for each in both if process["name"] in each]
    hits, misses = (sum(each[name] for each in own) for name in ("cache_hits", "cache_misses"))
    if hits or misses:
        yield f"JAX's persistent cache held {hits} of {hits + misses} programs"
    is_on, least = process["cache"]["is_on"], process["cache"]["min_seconds"]
    times = [moment["compile_seconds"] for moment in moments]
    short = sum(seconds for seconds in times if seconds < least)
    if is_on and short >= _WORTH_SECONDS and misses:
        # A 12-layer transformer restarts in 11.7 s with the default threshold, in 4.8 s with 0.
        few = f"{sum(seconds < least for seconds in times)} programs, {short:.2f} s"
        left_out = f"leaves out what compiles in less than {least:g} s: {few}"
        yield f"hint: JAX's persistent cache {left_out}"
        yield f"write: {_SHORT_TOO}"
    elif not is_on and sum(times) >= _WORTH_SECONDS:
        yield (
            "hint: JAX's persistent cache is off. With it, the next run of the same program reads "
            f"from a folder what XLA took {sum(times):.2f} s to compile"
        )
        yield f"write: {f'{_ON}; {_SHORT_TOO}' if short >= _WORTH_SECONDS else _ON}"
