"""Two reports side by side: what each function cost in both, and what only the second compiled."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from .._recompiles import aligned
from .report import VERSION

_MAX_SHOWN = 8  # differences, and programs of one function
_COMPARED = {"traces": "d", "compiles": "d", "seconds": ".2f"}

_Dict: TypeAlias = Mapping[str, Any]


def read_report(path: str) -> _Dict:
    """Return what `canonopt doctor --json` has written. Raises `ValueError` if it is not that."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"{path} was not written by this version of canonopt doctor --json")
    return found


@attrs.frozen
class Output:
    """What a run prints, line by line, and a digest of each file that it writes."""

    lines: list[bytes] = attrs.field(factory=list)
    files: dict[str, bytes] = attrs.field(factory=dict)

    @contextlib.contextmanager
    def noting_files(self) -> Iterator[None]:
        """Note the files that are written below the working directory in the block."""
        before = _times_of_files()
        yield
        for path, time in _times_of_files().items():
            if before.get(path) != time:
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    self.files[path] = hashlib.file_digest(file, "sha256").digest()


def _times_of_files() -> dict[str, int]:
    """Return when each file was written, but those in hidden folders and of bytecode."""
    found = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for path in (os.path.normpath(os.path.join(folder, name)) for name in names):
            with contextlib.suppress(OSError):
                found[path] = os.stat(path).st_mtime_ns
    return found


def outputs_compared(first: Output, second: Output, tried: Output) -> str:
    """Return a sentence on whether the numbers of a run are those that two others agree on."""
    count = min(len(first.lines), len(second.lines))
    # By their numbers, so none is compared if the runs print more and less.
    lines = range(count if len(first.lines) == len(second.lines) else 0)
    alike = [i for i in lines if first.lines[i] == second.lines[i]]
    files = [path for path, digest in first.files.items() if second.files.get(path) == digest]
    told = "With canonopt's factories the numbers are"
    for i in alike:
        now = b"".join(tried.lines[i : i + 1])
        if now != first.lines[i]:
            texts = (line.decode(errors="replace").strip() for line in (first.lines[i], now))
            return f"{told} other ones, first in a line: {' -> '.join(texts)}"
    if lines and len(tried.lines) > len(first.lines):
        return f"{told} other ones: it prints {len(tried.lines)} lines, not {len(first.lines)}."
    for path in files:
        if tried.files.get(path) != first.files[path]:
            return f"{told} other ones, first in the file {path}."
    if not (alike or files):
        return "Two runs of it print and write nothing alike, so the numbers cannot be compared."
    counts = [f"{len(alike)} of {len(first.lines)} lines"] if first.lines else []
    counts += [f"{len(files)} of {len(first.files)} files"] if first.files else []
    is_all = len(alike) == len(first.lines) and len(files) == len(first.files)
    others = "" if is_all else "; the others differ in each run"
    return f"{told} the same, in {' and '.join(counts)}{others}."


def side_by_side(before: _Dict, after: _Dict) -> list[str]:
    """Return a table of the functions of two runs."""
    pairs = {_key(each): (each, {}) for each in before["findings"]}
    for each in after["findings"]:
        pairs[_key(each)] = (pairs.get(_key(each), ({},))[0], each)
    rows: list[tuple[object, ...]] = [("function", *_COMPARED)]
    for (name, _), (old, new) in pairs.items():
        counts = (f"{old.get(n, 0):{f}} -> {new.get(n, 0):{f}}" for n, f in _COMPARED.items())
        rows.append((name, *counts))
    lines = (run["lines"] for run in (before, after))
    eager = [sum(each["compiles"] + each["cache_hits"] for each in found) for found in lines]
    rows.append(("eager operations", "", f"{eager[0]} -> {eager[1]}", ""))
    rows.append(("all of it", "", "", f"{before['seconds']:.2f} -> {after['seconds']:.2f}"))
    return [f"  {line}" for line in aligned(rows)]


def new_programs(before: _Dict, after: _Dict) -> Iterator[str]:
    """Yield what the second run compiled that the first had not, and what differs."""
    known = {_key(function): _calls(function) for function in before["findings"]}
    for function in after["findings"]:
        earlier, new = known.get(_key(function), []), []
        for call in _calls(function):
            if call not in earlier and call not in new:
                new.append(call)
        if not new:
            continue
        yield from ("", function["title"])
        if not earlier:
            yield "  compiled in the second run only"
            continue
        for call in new[:_MAX_SHOWN]:
            # Compared with the call that differs least.
            found = min((_differences(old, call) for old in reversed(earlier)), key=len)
            yield from found[:_MAX_SHOWN]
        if len(new) > _MAX_SHOWN:
            yield f"  and {len(new) - _MAX_SHOWN} more programs"


def _key(function: _Dict) -> tuple[str, str]:
    """Return what a function has in both runs. Its line may have moved."""
    return function["name"], (function["place"] or "").rpartition(":")[0]


def _calls(function: _Dict) -> list[Mapping[str, str]]:
    found = (each.get("leaves") for each in function["moments"] if each["compiled"])
    return [leaves for leaves in found if leaves]


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*before, *after])
    pairs = [(name, before.get(name, "missing"), after.get(name, "missing")) for name in names]
    return [f"  {name}: {old} -> {new}" for name, old, new in pairs if old != new]
