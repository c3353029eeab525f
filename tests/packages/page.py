"""The page of what `run.py` has measured. Its code is that of `loops/`, which ran."""

import ast
import itertools
import re
import statistics
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "real-packages.md"
LOOPS = HERE / "loops"
TEMPLATE = HERE / "template.md"
ADVISED = "# --- advised "

Notes: TypeAlias = dict[str, list[dict[str, Any]]]  # of each round, by variant


def parts_of(package: str) -> dict[str, str]:
    """Return of a script of `loops/`: what to write, why, and the code if that is long."""
    path = LOOPS / f"{package.replace('-', '_')}.py"
    text = path.read_text()
    _, *paragraphs = ast.get_docstring(ast.parse(text)).split("\n\n")
    [lines] = [p for p in paragraphs if p.startswith("Write ")]
    why = "\n\n".join(p for p in paragraphs if not p.startswith("Write "))
    lines = " ".join(lines.removeprefix("Write ").removesuffix(".").split())
    _, advised = re.split(f"^{ADVISED}-*$", text, flags=re.MULTILINE)
    # One line is said in the table.
    is_long = "` and `" in lines or "`, `" in lines
    for line in re.findall("`(.*?)`", lines):
        if line not in text.replace("library.", "canonopt."):
            raise ValueError(f"{path.name} does not have the line {line!r} of its docstring")
    block = f"\n```python\n{advised.strip()}\n```\n" if is_long else ""
    return {"lines": lines, "why": why, "block": block}


def further_compiles(notes: Notes, variant: str) -> int:
    """Return the most compiles of any trial but the first."""
    return max(max(each["compiles"][1:]) for each in notes[variant])


def times_faster(notes: Notes, variant: str) -> str:
    """Return how many times faster than the loop of users with Optax: the median of trials."""
    ours, theirs = (
        statistics.median(seconds for each in notes[name] for seconds in each["seconds"][1:])
        for name in (variant, "loop optax")
    )
    # No more digits are the same in the next run.
    return f"{float(f'{theirs / ours:.2g}'):.3g}"


def difference(notes: Notes, variant: str) -> float:
    """Return by how much results differ at most from those with Optax, relatively."""
    return max(
        abs(ours - theirs) / abs(theirs)
        for one, other in itertools.product(notes["loop optax"], notes[variant])
        for theirs, ours in zip(one["results"], other["results"], strict=True)
    )


def row(package: str, version: str, notes: Notes, swept: str) -> str:
    """Return the row of the table, from its second character on."""
    variants = ("loop canonopt", "advised canonopt", "advised optax")
    cells = [f"[{package}](#{package}) {version}", parts_of(package)["lines"]]
    cells.append(str(further_compiles(notes, "loop optax")))
    cells += [f"{further_compiles(notes, v)} · {times_faster(notes, v)}" for v in variants]
    differ = [difference(notes, variant) for variant in variants[:2]]
    cells += [swept, " · ".join(f"{each:.0e}" if each else "same" for each in differ)]
    return f"| {' | '.join(cells)} |"


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the table on the page, by package."""
    return {name: row for row, name in re.findall(r"^(\| \[([\w-]+)\]\(#.*)$", page, re.M)}


def render(rows: dict[str, str], packages: list[str]) -> str:
    solved = [row for row in rows.values() if row.split(" | ")[4].startswith("0 ")]
    listed = [name for name in packages if name in rows]
    introduction = TEMPLATE.read_text().format(
        measured="\n".join(rows[name] for name in listed), solved=len(solved), all=len(rows)
    )
    sections = [SECTION.format(package=name, **parts_of(name)) for name in listed]
    return introduction.rstrip() + "\n" + "".join(sections)


SECTION = """
### {package}
{block}
{why}
"""
