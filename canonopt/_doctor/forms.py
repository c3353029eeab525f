"""Render a report as text, in colors, as HTML, as JSON, as a timeline and as annotations.

`as_comparison` shows what each function cost in two runs, and what only the second compiled.
"""

import io
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from .._recompiles import STAGES, Call, Leaf, differ, explain, is_costly
from .._texts import aligned, compiles_text, times

_MAX_TOLD = 10  # maximum number of functions below the table
_MAX_SHOWN = 8  # maximum number shown: differences of a program, and programs of a function
# How to format the numbers that `as_comparison` shows.
_COMPARED = {"traces": "d", "compiles": "d", "seconds": ".2f"}
# The page of `as_html`. Long lines are folded, to be read on a phone.
_PAGE = """\
<!DOCTYPE html>
<meta charset="UTF-8"><meta name="viewport" content="width=device-width">
<title>canonopt doctor</title><style>{stylesheet}
pre {{ font: 12px monospace; white-space: pre-wrap; overflow-wrap: anywhere;
}}</style><pre>{code}</pre>
"""

_Dict: TypeAlias = Mapping[str, Any]
_Line: TypeAlias = tuple[str, str]  # a text and its style in rich


# --- text -----------------------------------------------------------------------------------------


def as_text(report: _Dict) -> str:
    return with_short_paths("".join(f"{text}\n" for text, _ in _lines(report, is_whole=False)))


def as_colored_text(report: _Dict) -> str:
    """Return the text for a terminal, with colors if rich is installed."""
    try:
        return _printed(report, is_whole=False, force_terminal=True).file.getvalue()
    except ImportError:
        return as_text(report)


def as_html(report: _Dict) -> str:
    """Return the whole report as one HTML page. Raises `ImportError` if rich is missing."""
    return _printed(report, is_whole=True, record=True, width=200).export_html(code_format=_PAGE)


def _printed(report: _Dict, is_whole: bool, **options: Any) -> Any:
    from rich.console import Console

    console = Console(file=io.StringIO(), highlight=False, markup=False, emoji=False, **options)
    for text, style in _lines(report, is_whole):
        # Long lines are not folded, so that suggested code can be copied.
        console.print(with_short_paths(text), style=style, soft_wrap=True)
    return console


def with_short_paths(text: str) -> str:
    """Return text with paths relative to the working directory or to `site-packages`."""
    return re.sub(r"[^\s(]*/site-packages/", "", text.replace(os.path.join(os.getcwd(), ""), ""))


def _lines(report: _Dict, is_whole: bool) -> Iterator[_Line]:
    """Yield the facts about the whole run, the table, and then a block for each function."""
    facts = [
        report["tried"] and report["tried"]["notes"][0],
        f"canonopt doctor: {report['command']}",
        f"{report['seconds']:.2f} s in total, {report['compile_seconds']:.2f} s tracing and "
        f"compiling, {report['lost_seconds']:.2f} s of that lost to recompiles",
        *(*report["problems"], *report["notes"]),
        verdict(report),
    ]
    names = [f"{p['name']} (pid {p['pid']}) on {p['host']}" for p in report["processes"]]
    if len(names) > 1:
        names[8:] = [f"and {len(names) - 8} more"] if len(names) > 8 else []
        text = "The table shows the highest count in any one process"
        facts.append(f"processes: {', '.join(names)}. {text}")
    yield from ((text, "bold") for text in facts if text)
    yield from _table(report)
    if (tried := report["tried"]) is not None and tried["status"] == 0:
        stale = (f"  {line}" for read in tried["stale"] for line in read["lines"][:2])
        notes = (f"  {note}" for note in tried["notes"][1:])
        heading = "With canonopt's factories in Optax's place:"
        yield from _block(heading, *_side_by_side(report, tried), *stale, *notes)
    for read in report["stale"]:
        yield from _block(*read["lines"])
    found = told(report)
    most = len(found) if is_whole else _MAX_TOLD
    for function in found[:most]:
        lines = []
        for cause in function["causes"]:
            lines.append(f"  {title(cause, report)}, {cause['seconds']:.2f} s")
            lines += (f"    {line}" for line in cause["lines"])
        if omitted := function["omitted"]:
            lines.append(f"  and {times(omitted)} more, details omitted")
        yield from _block(function["title"], *lines)
    if others := len(found[most:]):
        yield from _block(f"and {others} more functions or lines: --html shows them")
    if (start := report["start"]) is not None:
        yield from _block(*aligned(start["rows"]), *(f"  {line}" for line in start["advice"]))


def _block(heading: str, *lines: str) -> Iterator[_Line]:
    yield from (("", ""), (heading, "bold"))
    for line in lines:
        yield line, "green" if line.lstrip().startswith("write: ") else ""


def verdict(report: _Dict) -> str | None:
    """Return a line if the report asks for no change of the code; else None."""
    if not report["findings"]:
        # If no function could be counted, a note says why.
        has_notes = report["problems"] or report["notes"]
        return None if has_notes else "No function of the script was compiled."
    if report["recompiled"] or report["stale"]:
        return None
    if told(report):
        return "No retrace or recompile could be avoided."
    return "No function was compiled more than once."


def _table(report: _Dict) -> Iterator[_Line]:
    findings, others = report["findings"], report["lines"]
    if not (findings or others):
        return
    titles = ("function", "traces", "compiles", "seconds", "lost", "defined at")
    rows: list[tuple[object, ...]] = [titles]
    for each in findings:
        seconds = (f"{each[name]:.2f}" for name in ("seconds", "lost_seconds"))
        names = ("compiles", "backward_compiles", "cache_hits")
        compiles = compiles_text(*(_most(each, name) for name in names))
        rows.append((each["name"], _most(each, "traces"), compiles, *seconds, each["place"] or ""))
    costly = [e for e in others if is_costly(e["seconds"], report["compile_seconds"])]
    rest = [each for each in others if each not in costly]
    groups = [(each["name"], [each], each["costliest"]) for each in costly]
    if rest:
        groups.append((f"eager operations, at {len(rest)} line{'s' * (len(rest) > 1)}", rest, ""))
    for name, lines, place in groups:
        compiles, hits = (sum(_most(each, n) for each in lines) for n in ("compiles", "cache_hits"))
        seconds = f"{sum(each['seconds'] for each in lines):.2f}"
        rows.append((name, "", compiles_text(compiles, 0, hits), seconds, "", place))
    styles = ("bold red" if each["repeated"] else "" for each in findings)
    yield "", ""
    yield from itertools.zip_longest(aligned(rows), ("", *styles), fillvalue="")


def _most(function: _Dict, name: str) -> int:
    return max(counts[name] for counts in function["by_process"].values())


def told(report: _Dict) -> list[_Dict]:
    """Return the functions that recompiled, most expensive first, then others that have causes."""
    both = (*report["findings"], *report["lines"])
    found = (each for each in both if each["repeated"] or each["causes"])
    return sorted(found, key=lambda each: (not each["repeated"], -each["lost_seconds"]))


def title(cause: _Dict, report: _Dict) -> str:
    names, count = cause["processes"], len(report["processes"])
    where = f"{len(names)} processes" if len(names) > 4 else ", ".join(names)
    where = "all processes" if len(names) == count else where
    return cause["title"] + ("" if count < 2 else f", in {where}")


# --- two runs -------------------------------------------------------------------------------------


def as_comparison(before: _Dict, after: _Dict) -> str:
    """Return what each function cost in two runs, and what only the second compiled."""
    none = ("", "No function has a new program in the second run.")
    new = [*_new_programs(before, after)] or none
    return with_short_paths("\n".join([*_side_by_side(before, after), *new]))


def _side_by_side(before: _Dict, after: _Dict) -> list[str]:
    """Return the lines of a table that compares the functions of two runs."""
    olds, news = (_by_key([*run["findings"], *run["lines"]]) for run in (before, after))
    every = [*olds.items(), *news.items()]
    # A line that recompiled in one of the runs has a row of its own in both.
    shown = dict.fromkeys(key for key, each in every if each["repeated"] or not each["is_line"])
    rows: list[tuple[object, ...]] = [("function", *_COMPARED)]
    for key in shown:
        old, new = olds.get(key, {}), news.get(key, {})
        counts = (f"{old.get(n, 0):{f}} -> {new.get(n, 0):{f}}" for n, f in _COMPARED.items())
        rows.append((key[0], *counts))
    lines = ([each for key, each in run.items() if key not in shown] for run in (olds, news))
    eager = [sum(each["compiles"] + each["cache_hits"] for each in found) for found in lines]
    rows.append(("eager operations", "", f"{eager[0]} -> {eager[1]}", ""))
    rows.append(("the whole run", "", "", f"{before['seconds']:.2f} -> {after['seconds']:.2f}"))
    return [f"  {line}" for line in aligned(rows)]


def _new_programs(before: _Dict, after: _Dict) -> Iterator[str]:
    """Yield lines on what only the second run compiled: new programs, and recompiles."""
    known = _by_key([*before["findings"], *before["lines"]])
    for key, function in _by_key(after["findings"]).items():
        old = known.get(key, {"compiles": 0, "calls": ()})
        earlier, new = [*map(_by_text, old["calls"])], list[Call]()
        for call in map(_by_text, function["calls"]):
            if all(differ(each, call) for each in (*earlier, *new)):
                new.append(call)
        repeated = function["compiles"] - old["compiles"] - len(new)
        if not new and repeated <= 0:
            continue
        yield from ("", function["title"])
        if not old["compiles"]:
            yield "  compiled in the second run only"
        elif not earlier:  # a line, or a function whose calls were not recorded
            yield f"  compiles: {old['compiles']} -> {function['compiles']}"
        else:
            for call in new[:_MAX_SHOWN]:
                changes = explain(call, earlier).changes
                yield from (f"  {change}" for change in changes[:_MAX_SHOWN])
            if len(new) > _MAX_SHOWN:
                yield f"  and {len(new) - _MAX_SHOWN} more programs"
        for cause in function["causes"] if repeated > 0 else ():  # recompiles of the second run
            yield from (f"  {cause['title']}", *(f"    {line}" for line in cause["lines"]))


def _by_key(functions: Sequence[_Dict]) -> dict[tuple[str, str, int], _Dict]:
    """Return functions by a key that is the same in both runs, even if line or folder differs."""
    places = []
    for i, function in enumerate(functions):
        path, _, line = (function["place"] or "").rpartition(":")
        places.append((function["name"], os.path.basename(path), int(line or 0), i))
    # If a file has several functions of one name, such as lambdas, their order tells them apart.
    ranks = (sum(p[:2] == place[:2] and p < place for p in places) for place in places)
    keys = ((*place[:2], rank) for place, rank in zip(places, ranks, strict=True))
    return dict(zip(keys, functions, strict=True))


def _by_text(call: Call) -> Call:
    """Return a call whose leaves are compared by text: objects of two runs are never the same."""
    leaves = {path: _leaf_by_text(leaf) for path, leaf in call.leaves.items()}
    return attrs.evolve(call, leaves=leaves, wrapper=None, clearings=0)


def _leaf_by_text(leaf: Leaf) -> Leaf:
    parts = {name: _leaf_by_text(part) for name, part in leaf.parts.items()}
    texts = *((name, part.text) for name, part in parts.items()), leaf.text
    token = *texts, leaf.committed, leaf.sharding, leaf.memory_kind
    return attrs.evolve(leaf, token=token, digest=None, type_token=None, code=None, parts=parts)


# --- files ----------------------------------------------------------------------------------------


def as_json(report: _Dict) -> str:
    """Return the report as JSON. A call becomes the texts of its leaves, by path."""

    def texts(call: Call) -> dict[str, str]:
        return {path: leaf.text for path, leaf in call.leaves.items()}

    return json.dumps(report, indent=2, default=texts) + "\n"


def as_perfetto(report: _Dict) -> str:
    """Return a timeline that https://ui.perfetto.dev opens: a row for each function and process.

    It has the trace event format, with times in microseconds:
    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    numbers = {process["name"]: i for i, process in enumerate(report["processes"])}
    events = [_named("process_name", name, pid=number) for name, number in numbers.items()]
    for row, function in enumerate((*report["findings"], *report["lines"])):
        rows = {name: {"pid": numbers[name], "tid": row} for name in function["by_process"]}
        events += (_named("thread_name", function["name"], **where) for where in rows.values())
        for moment in function["moments"]:
            about = {name: moment[name] for name in ("again", "site", "operation")}
            about["place"] = function["place"]
            start = moment["at"]
            for stage in STAGES:
                event = {"name": stage.removesuffix("_seconds"), "ph": "X", "args": about}
                event |= {"ts": start * 1e6, "dur": moment[stage] * 1e6}
                if moment[stage] > 0:
                    events.append(event | rows[moment["process"]])
                start += moment[stage]
    return json.dumps({"traceEvents": events}) + "\n"


def _named(kind: str, name: str, **where: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", **where, "args": {"name": name}}


def as_annotations(report: _Dict) -> str:
    """Return a warning for each stale read and avoidable cause, which GitHub shows at the line.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    found = [(read["place"], read["lines"]) for read in report["stale"]]
    found += (
        (each["place"], [f"{each['name']} {title(cause, report)}", *cause["lines"]])
        for each in told(report)
        for cause in each["causes"]
        if cause["is_avoidable"]
    )
    lines = []
    for place, (head, *text) in found:
        file, _, line = with_short_paths(place or "").rpartition(":")
        where = f"file={_escaped(file)},line={line}," if line.isdecimal() else ""
        text = _escaped(with_short_paths("\n".join(text)), "%\r\n")
        lines.append(f"::warning {where}title={_escaped(head.removesuffix(':'))}::{text}\n")
    return "".join(lines)


def _escaped(text: str, characters: str = "%\r\n:,") -> str:
    for character in characters:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
