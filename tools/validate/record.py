"""A record as JSON and as a page, and whether what is expected is met. Needs no JAX."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TIME_IS_UP = "the time was used up"

_TEXT = """\
# Validation: {device}, {date}

{first}

| | |
| --- | --- |
| result | {result} |
| command | `{command}`, which took {seconds:.0f} s |
| device | {kind}; platform version {platform_version}; memories: {memories} |
| flags | {flags} |
| host | {cpu}, {cores} cores; load average {before} before and {after} after |
| versions | {versions} |

The figures are in [{json}]({json}) too.

| | met | not met | failed | not run | seconds |
| --- | --- | --- | --- | --- | --- |
{parts}

{sections}"""


def write(found: dict[str, Any], folder: Path) -> Path:
    """Writes the JSON and the page, and returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name(found)}.md"
    text = json.dumps(found, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
    path.write_text(page(found), encoding="utf-8")
    return path


def is_met(found: dict[str, Any]) -> bool:
    return all(_is_met(part) for part in found["parts"])


def _is_met(part: dict[str, Any]) -> bool:
    """Also where the device does not allow all of it, but not where the time was too short."""
    late = any(each["reason"] == TIME_IS_UP for each in part["not_run"])
    return not late and not part["failed"] and all(row["met"] for row in part["rows"])


def name(found: dict[str, Any]) -> str:
    """Of the files, without their suffix."""
    device = found["device"]
    if _is_cpu(found):
        title = f"cpu {device['count']} host devices"
    else:
        title = f"{device['kind']} {device['count']}"
    slug = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"{slug}-{found['date']}{'-quick' if found['is_quick'] else ''}"


def page(found: dict[str, Any]) -> str:
    device, host = found["device"], found["host"]
    kind = device["kind"] if not device["driver"] else f"{device['kind']}, {device['driver']}"
    if _is_cpu(found):
        first = (
            f"**{_device(found)}.** Not an accelerator, and no figure below says anything about "
            "the speed of one."
        )
    else:
        first = f"**{_device(found)}**, the {device['platform'].upper()} that JAX found."
    if found["is_quick"]:
        first += "\n\nA quick run, of a few cells and short loops."
    return _TEXT.format(
        **{key: found[key] for key in ("command", "date", "seconds")},
        device=_device(found),
        first=first,
        result="all expectations are met" if is_met(found) else "**not all is as expected**",
        kind=kind,
        platform_version=" ".join(device["platform_version"].split()),
        memories=", ".join(device["memories"]),
        flags=", ".join(f"`{k}={v}`" for k, v in device["flags"].items() if v) or "none",
        cpu=host["cpu"],
        cores=host["cores"],
        before=host["load"][0],
        after=host["load"][1],
        versions=", ".join(
            f"{package} {version}" for package, version in found["versions"].items()
        ),
        json=f"{name(found)}.json",
        parts="\n".join(_summary_row(part) for part in found["parts"]),
        sections="\n".join(_section(part) for part in found["parts"]),
    )


def summary(found: dict[str, Any]) -> str:
    """Return what the command prints at the end."""
    marks = {True: "as expected", False: "NOT AS EXPECTED"}
    lines = [f"{part['title']}: {marks[_is_met(part)]}" for part in found["parts"]]
    return "\n".join([f"{_device(found)}, {found['seconds']:.0f} s", *lines])


def _is_cpu(found: dict[str, Any]) -> bool:
    return found["device"]["platform"] == "cpu"


def _device(found: dict[str, Any]) -> str:
    count = found["device"]["count"]
    devices = "device" if count == 1 else "devices"
    if _is_cpu(found):
        return f"{count} host {devices} of a CPU"
    return f"{count} {found['device']['kind']} {devices}"


def _summary_row(part: dict[str, Any]) -> str:
    met = sum(row["met"] for row in part["rows"])
    numbers = [met, len(part["rows"]) - met, len(part["failed"]), len(part["not_run"])]
    return _lines([[part["title"], *map(str, numbers), f"{part['seconds']:.0f}"]])


def _section(part: dict[str, Any]) -> str:
    blocks = [f"## {part['title']}", part["text"]]
    if part["rows"]:
        blocks += _cells(part) if part["is_grid"] else [_table(part["rows"])]
    for row in part["failed"]:
        blocks.append(f"**Failed**: {row['what']}: `{row['error']}`")
    reasons: dict[str, list[str]] = {}
    for row in part["not_run"]:
        reasons.setdefault(row["reason"], []).append(row["what"])
    for reason, names in reasons.items():
        blocks.append(f"**Not run**, since {reason}: {'; '.join(names)}.")
    return "\n\n".join(blocks) + "\n"


def _table(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(rows[0])
    lines = [["" if column == "what" else column for column in columns], ["---"] * len(columns)]
    return _lines(lines + [[_text(row[column]) for column in columns] for row in rows])


def _lines(cells: Sequence[Sequence[str]]) -> str:
    return "\n".join("".join(f"| {c} " if c else "| " for c in line) + "|" for line in cells)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 1_000 else f"{value:.3g}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _cells(part: dict[str, Any]) -> Iterator[str]:
    """A grid of rows whose names are those of an optimizer and a placement."""
    rows = {tuple(row["what"].split(", ", 1)): row for row in part["rows"]}
    names, kinds = (dict.fromkeys(key[i] for key in rows) for i in (0, 1))
    once = {
        library: sum(row[library] == "1/1" for row in rows.values())
        for library in ("canonopt", "plain Optax")
    }
    numbers = Counter(row["numbers"] for row in rows.values())
    counts = [(f"1/1 with {library}", count) for library, count in once.items()]
    counts += [(f"numbers: {text}", count) for text, count in numbers.items()]
    lines = [[text, f"{count} of {len(rows)}"] for text, count in counts]
    yield _lines([["", "cells"], ["---", "---"], *lines])
    lines = [["optimizer", *kinds], ["---"] * (len(kinds) + 1)]
    for optimizer in names:
        row = [_cell(rows.get((optimizer, kind))) for kind in kinds]
        lines.append([f"`{optimizer}`", *row])
    yield _lines(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    text = f"{row['canonopt']} · {row['plain Optax']}"
    return text if row["met"] else f"**{text}, numbers: {row['numbers']}**"
