"""The page of what `run.py` has measured. Its code is that of `loops/`, which ran."""

import ast
import collections
import itertools
import re
import statistics
from pathlib import Path
from typing import Any

from .environments import NAMED

HERE = Path(__file__).parent
LOOPS = HERE / "loops"
TEMPLATE = HERE / "template.md"
ADVISED = "# --- advised "


class Script:
    """Read a script of `loops/` into the parts that the page shows."""

    def __init__(self, package: str) -> None:
        path = LOOPS / f"{package.replace('-', '_')}.py"
        self.text = path.read_text()
        _, *paragraphs = ast.get_docstring(ast.parse(self.text)).split("\n\n")
        [lines] = [p for p in paragraphs if p.startswith("Write ")]
        self.lines = " ".join(lines.removeprefix("Write ").removesuffix(".").split())
        self.why = "\n\n".join(p for p in paragraphs if not p.startswith("Write "))
        _, advised = re.split(f"^{ADVISED}-*$", self.text, flags=re.MULTILINE)
        # One line is said in the table.
        is_long = "` and `" in self.lines or "`, `" in self.lines
        self.block = f"\n```python\n{advised.strip()}\n```\n" if is_long else ""
        for line in re.findall("`(.*?)`", self.lines):
            if line not in self.text.replace("library.", "canonopt."):
                raise ValueError(f"{path.name} does not have the line {line!r} of its docstring")


def further_compiles(result: dict[str, Any], variant: str = "advised canonopt") -> int | None:
    """The most compiles of any trial but the first."""
    rounds = result.get("loops", {}).get(variant)
    return max(max(notes["compiles"][1:]) for notes in rounds) if rounds else None


def times_faster(result: dict[str, Any], variant: str) -> float:
    """How many times faster than the loop of users with Optax: the median of further trials."""
    ours, theirs = (
        statistics.median(
            seconds for notes in result["loops"][name] for seconds in notes["seconds"][1:]
        )
        for name in (variant, "loop optax")
    )
    return theirs / ours


def ratio(number: float) -> str:
    """With two digits: no more are the same in the next run."""
    return f"{float(f'{number:.2g}'):.3g}" if number < 10 else f"{float(f'{number:.2g}'):.0f}"


def summary(package: str, result: dict[str, Any]) -> str:
    return f"{measured(package, result)}\n{problem(result, 'tests') or result['tests']}"


def problem(result: dict[str, Any], part: str) -> str | None:
    return result.get("error") or result.get(part, {"error": "not run"}).get("error")


def measured(package: str, result: dict[str, Any]) -> str:
    """The row of the first table."""
    if error := problem(result, "loops"):
        return f"| {package} | {error} | | | | | |"
    version = result["versions"][package]
    cells = [f"[{package}](#{package}) {version}", Script(package).lines]
    cells.append(str(further_compiles(result, "loop optax")))
    for variant in ("loop canonopt", "advised canonopt", "advised optax"):
        faster = ratio(times_faster(result, variant))
        cells.append(f"{further_compiles(result, variant)} · {faster}")
    cells.append(swept(result.get("sweep", {"error": "not run"})))
    return "| " + " | ".join(cells) + " |"


def swept(sweep: dict[str, Any]) -> str:
    if "error" in sweep:
        return sweep["error"].partition(":")[0]  # the type
    return str(max(sweep["compiles"][1:]))


def tested(results: dict[str, dict[str, Any]]) -> str:
    """Return two sentences on the packages' own tests and on the versions that they ran with."""
    ran = {n: result["tests"] for n, result in results.items() if not problem(result, "tests")}
    outcomes = (collections.Counter(tests["outcomes"]) for tests in ran.values())
    ends = sum(outcomes, collections.Counter())
    different = sum(len(tests["differences"]) for tests in ran.values()) or "none"
    calls = sum(tests["calls"] for tests in ran.values())
    common, others = versions({name: results[name]["versions"] for name in ran})
    missing = "".join(f" {name} has not run." for name in results if name not in ran)
    return (
        f"Of {ends.total()} tests of these packages that use an Optax optimizer, {ends['passed']} "
        f"pass. With canonopt's factories in Optax's place, in {calls} calls, {different} ends in "
        f"another way. The environments had {common}{others}.{missing}"
    )


def versions(of_packages: dict[str, dict[str, str]]) -> tuple[str, str]:
    """Return the versions that most packages were tested with, and those of the others."""
    found = {name: collections.Counter(v[name] for v in of_packages.values()) for name in NAMED}
    common = {name: counts.most_common(1)[0][0] for name, counts in found.items()}
    others = "".join(
        f"; that of {package} had {name} {versions[name]}"
        for package, versions in of_packages.items()
        for name in NAMED
        if versions[name] != common[name]
    )
    return ", ".join(f"{name} {version}" for name, version in common.items()), others


def difference(result: dict[str, Any], one: str, other: str) -> float:
    """By how much the results of two variants differ at most, relatively, in any two rounds."""
    return max(
        abs(ours - theirs) / abs(theirs)
        for theirs_noted, ours_noted in itertools.product(*map(result["loops"].get, (one, other)))
        for theirs, ours in zip(theirs_noted["results"], ours_noted["results"], strict=True)
    )


SECTION = """
### {package}
{block}
{why}
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    solved = [name for name, result in results.items() if further_compiles(result) == 0]
    loops = {name: result for name, result in results.items() if not problem(result, "loops")}
    introduction = TEMPLATE.read_text().format(
        measured="\n".join(measured(name, result) for name, result in results.items()),
        tested=tested(results),
        solved=len(solved),
        all=len(results),
        rounds=max((len(r["loops"]["loop optax"]) for r in loops.values()), default=0),
        differences=differences(loops),
    )
    sections = [SECTION.format(package=name, **vars(Script(name))) for name in results]
    return introduction.rstrip() + "\n" + "".join(sections)


def differences(loops: dict[str, dict[str, Any]]) -> str:
    """A sentence about the results of the loops."""
    lines = [
        f"{name} by {specs:.0e}, where runs with Optax differ by {optax:.0e}"
        for name, result in loops.items()
        if (specs := difference(result, "loop optax", "loop canonopt"))
        for optax in [difference(result, "loop optax", "loop optax")]
    ]
    same = "With specs, the results of the loops are the same to the last bit"
    only = f"; only {'; '.join(lines)}, relatively" if lines else ""
    advised = (difference(result, "loop optax", "advised canonopt") for result in loops.values())
    most = max(advised, default=0.0)
    return f"{same}{only}. As advised, they differ by {most:.0e} at most, since programs differ."
