"""Compare two reports: the cost of each function in both, and what only the second compiled."""

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from .._texts import aligned, differing
from .report import VERSION

_MAX_SHOWN = 8  # maximum number shown: differences of a program, and programs of a function
_COMPARED = {"traces": "d", "compiles": "d", "seconds": ".2f"}

_Dict: TypeAlias = Mapping[str, Any]


def read_report(path: str) -> _Dict:
    """Return a report that `canonopt doctor --json` wrote. Raises `ValueError` if it is not one."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"{path} was not written by this version of canonopt doctor --json")
    return found


def side_by_side(before: _Dict, after: _Dict) -> list[str]:
    """Return the lines of a table that compares the functions of two runs."""
    olds, news = ({_key(each): each for each in run["findings"]} for run in (before, after))
    rows: list[tuple[object, ...]] = [("function", *_COMPARED)]
    for key in {**olds, **news}:
        old, new = olds.get(key, {}), news.get(key, {})
        counts = (f"{old.get(n, 0):{f}} -> {new.get(n, 0):{f}}" for n, f in _COMPARED.items())
        rows.append((key[0], *counts))
    lines = (run["lines"] for run in (before, after))
    eager = [sum(each["compiles"] + each["cache_hits"] for each in found) for found in lines]
    rows.append(("eager operations", "", f"{eager[0]} -> {eager[1]}", ""))
    rows.append(("the whole run", "", "", f"{before['seconds']:.2f} -> {after['seconds']:.2f}"))
    return [f"  {line}" for line in aligned(rows)]


def new_programs(before: _Dict, after: _Dict) -> Iterator[str]:
    """Yield lines on the programs that only the second run compiled, and how they differ."""
    known = {_key(function): function for function in before["findings"]}
    for function in after["findings"]:
        old = known.get(_key(function), {"compiles": 0, "moments": ()})
        earlier, new = _calls(old), []
        for call in _calls(function):
            if call not in earlier and call not in new:
                new.append(call)
        more = function["compiles"] - old["compiles"] - len(new)
        if not new and more <= 0:
            continue
        yield from ("", function["title"])
        if not earlier:
            yield "  compiled in the second run only"
        else:
            for call in new[:_MAX_SHOWN]:
                # A program is compared with the earlier call that differs least from it.
                found = min((differing(each, call) for each in reversed(earlier)), key=len)
                lines = (f"  {name}: {old} -> {new}" for name, (old, new) in found.items())
                yield from itertools.islice(lines, _MAX_SHOWN)
            if len(new) > _MAX_SHOWN:
                yield f"  and {len(new) - _MAX_SHOWN} more programs"
        for cause in function["causes"] if more > 0 else ():  # recompiles of the second run
            yield from (f"  {cause['title']}", *(f"    {line}" for line in cause["lines"]))


def _key(function: _Dict) -> tuple[str, str]:
    """Return the same key for a function in both runs, even if its line and folder differ."""
    return function["name"], os.path.basename((function["place"] or "").rpartition(":")[0])


def _calls(function: _Dict) -> list[Mapping[str, str]]:
    found = (each.get("leaves") for each in function["moments"] if each["compiled"])
    return [leaves for leaves in found if leaves]
