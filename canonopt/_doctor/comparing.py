"""What the second of two saved runs compiled that the first had not, and why."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .report import with_short_paths

_MAX_SHOWN = 8  # differences, and programs of one function


def compare(first: str, second: str) -> str:
    """Return the comparison of two files that `canonopt doctor --json` has written.

    Raises `ValueError` if one is no such file.
    """
    before, after = _run_in(first), _run_in(second)
    lines = [f"what {second} compiled that {first} had not"]
    for name in ("compile_seconds", "lost_seconds"):
        lines.append(f"  {name.replace('_', ' ')}: {before[name]:.2f} -> {after[name]:.2f}")
    known = {_key(function): function for function in before["findings"]}
    found = [_new_programs(known.get(_key(each)), each) for each in after["findings"]]
    lines += [line for block in found for line in block] or ["", "nothing"]
    eager = [sum(map(_compiled, run["lines"])) for run in (before, after)]
    lines += ["", f"eager operations: {eager[0]} -> {eager[1]} programs"]
    return "\n".join(lines) + "\n"


def _run_in(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        is_run = isinstance(found, dict) and found.get("version") == 2 and "findings" in found
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if not is_run:
        raise ValueError(f"{path} was not written by this version of canonopt doctor --json")
    return found


def _key(function: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a function has in both runs. Its line may have moved."""
    return function["name"], (function["place"] or "").rpartition(":")[0]


def _compiled(function: Mapping[str, Any]) -> int:
    return function["compiles"] + function["cache_hits"]


def _calls(function: Mapping[str, Any] | None) -> list[dict[str, str]]:
    moments = function["moments"] if function else []
    return [each["leaves"] for each in moments if each["compiled"] and each["leaves"]]


def _new_programs(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on one function, nothing if the first run had all of its programs."""
    known, seen = _calls(before), []
    for call in _calls(after):
        if call not in known and call not in seen:
            seen.append(call)
    if not seen and (before is None or _compiled(after) <= _compiled(before)):
        if before is None:
            yield from ("", f"{_title(after)} is new")
        return
    counts = f"{_compiled(before) if before else 0} -> {_compiled(after)} programs"
    yield from ("", f"{_title(after)}: {counts}{'' if before else ', and is new'}")
    for call in seen[:_MAX_SHOWN] if known else ():
        # Compared with the call that differs least.
        yield from min((_differences(old, call) for old in reversed(known)), key=len)[:_MAX_SHOWN]
    if len(seen) > _MAX_SHOWN and known:
        yield f"  and {len(seen) - _MAX_SHOWN} more programs"


def _title(function: Mapping[str, Any]) -> str:
    place = with_short_paths(function["place"] or "")
    return f"{function['name']} ({place})" if place else function["name"]


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[str]:
    names = dict.fromkeys([*before, *after])
    pairs = [(name, before.get(name, "missing"), after.get(name, "missing")) for name in names]
    return [f"  {name}: {old} -> {new}" for name, old, new in pairs if old != new]
