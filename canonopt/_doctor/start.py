"""Report how the time is spent until the slowest function, usually the training step, can run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .._recompiles import STAGES

_WORTH_SECONDS = 1.0  # less tracing and compiling is not worth a reader's time
_MAX_LINES = 3  # maximum number of lines of code that advice names

_ON = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
_SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"

_Dict: TypeAlias = Mapping[str, Any]


def start_of(report: _Dict) -> dict[str, Any] | None:
    """Return how the process with the slowest start spent its start; None if all starts were short.

    The dict has a table of seconds, with titles in the first row, and advice to shorten the start.
    """
    found = (start for process in report["processes"] if (start := _start(report, process)))
    return max(found, key=lambda start: start["seconds"], default=None)


def _start(report: _Dict, process: _Dict) -> dict[str, Any] | None:
    functions, lines = [], []
    for each in (*report["findings"], *report["lines"]):
        own = [m for m in each["moments"] if m["compiled"] and m["process"] == process["name"]]
        if own:
            (lines if each["is_line"] else functions).append((each, own))
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
    compiling = _seconds([*eager, *others, first])
    if compiling < _WORTH_SECONDS:
        return None
    imported, began = process["time"], process["began"]
    seconds = max(end - began, compiling)
    rest = max(end - imported - compiling, 0.0)
    name = f", of {process['name']}" if len(report["processes"]) > 1 else ""
    rows = [
        (f"where the start went, in seconds{name}", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", f"{imported - began:.2f}"),
        _row(f"eager operations, at {len(lines)} {'line' if len(lines) == 1 else 'lines'}", eager),
        _row("other functions", others),
        _row(f"{step['name']}, its first program", [first]),
        ("running, and everything else", "", "", "", "", f"{rest:.2f}"),
        (f"until {step['name']} could first run", "", "", "", "", f"{seconds:.2f}"),
    ]
    advice = [*_on_lines(lines), *_on_cache(report, process, [*eager, *others, first])]
    return {"seconds": seconds, "rows": [row for row in rows if row[1] != "0"], "advice": advice}


def _seconds(moments: Iterable[_Dict]) -> float:
    return sum(moment[stage] for moment in moments for stage in STAGES)


def _row(name: str, moments: Sequence[_Dict]) -> tuple[str, ...]:
    stages = [sum(moment[stage] for moment in moments) for stage in STAGES]
    return (name, f"{len(moments)}", *(f"{value:.2f}" for value in (*stages, sum(stages))))


# --- advice that shortened a start when measured, given where it would save a second --------------


def _on_lines(lines: Sequence[tuple[_Dict, Sequence[_Dict]]]) -> Iterator[str]:
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


def _on_cache(report: _Dict, process: _Dict, moments: Sequence[_Dict]) -> Iterator[str]:
    both = (*report["findings"], *report["lines"])
    hits, misses = (sum(each[name] for each in both) for name in ("cache_hits", "cache_misses"))
    if hits or misses:
        yield f"JAX's persistent cache held {hits} of {hits + misses} programs"
    is_on, least = process["cache"]["is_on"], process["cache"]["min_seconds"]
    times = [moment["compile_seconds"] for moment in moments]
    short = sum(seconds for seconds in times if seconds < least)
    if is_on and short >= _WORTH_SECONDS and misses:
        # The same restart took 11.7 s with the default threshold, and 4.8 s with 0.
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
