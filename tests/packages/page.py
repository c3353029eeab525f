"""The page of what `run.py` has measured. Its code is that of `loops/`, which ran."""

import ast
import itertools
import re
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOOPS = HERE / "loops"
TEMPLATE = HERE / "template.md"
ADVISED = "# --- advised "


class Script:
    """A script of `loops/`, in the parts that the page shows."""

    def __init__(self, package: str) -> None:
        path = LOOPS / f"{package.replace('-', '_')}.py"
        self.text = path.read_text()
        title, *paragraphs = ast.get_docstring(ast.parse(self.text)).split("\n\n")
        self.title = title
        [lines] = [p for p in paragraphs if p.startswith("Write ")]
        self.lines = " ".join(lines.removeprefix("Write ").removesuffix(".").split())
        self.why = "\n\n".join(p for p in paragraphs if not p.startswith("Write "))
        _, advised = re.split(f"^{ADVISED}-*$", self.text, flags=re.MULTILINE)
        self.advised = advised.strip()
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
    return f"{package}: {measured(package, result)}\n{tested(package, result)}"


def problem(result: dict[str, Any], part: str) -> str | None:
    return result.get("error") or result.get(part, {"error": "not run"}).get("error")


def measured(package: str, result: dict[str, Any]) -> str:
    """The row of the first table."""
    if error := problem(result, "loops"):
        return f"| {package} | {error} | | | | | |"
    cells = [f"[{package}](#{package})", Script(package).lines]
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


def tested(package: str, result: dict[str, Any]) -> str:
    """The row of the second table."""
    if "error" in result:
        return f"| {package} | | {result['error']} | |"
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    if error := problem(result, "tests"):
        return f"| {package} | {versions} | not run: {error} | |"
    tests = result["tests"]
    ends = ", ".join(f"{number} {end}" for end, number in sorted(tests["outcomes"].items()))
    different = len(tests["differences"]) or "none"
    reached = f"{tests['calls']} calls of {tests['reached']} factories"
    return f"| {package} | {versions} | {ends} | {different} | {reached} |"


def difference(result: dict[str, Any], one: str, other: str) -> float:
    """By how much the results of two variants differ at most, relatively, in any two rounds."""
    return max(
        abs(ours - theirs) / abs(theirs)
        for theirs_noted, ours_noted in itertools.product(*map(result["loops"].get, (one, other)))
        for theirs, ours in zip(theirs_noted["results"], ours_noted["results"], strict=True)
    )


SECTION = """
### {package}

{title}

**You write** {lines}:

```python
{advised}
```

**Why:** {why}
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    solved = [name for name, result in results.items() if further_compiles(result) == 0]
    loops = {name: result for name, result in results.items() if not problem(result, "loops")}
    checkouts = [n for n, result in results.items() if result.get("tests", {}).get("checkout")]
    introduction = TEMPLATE.read_text().format(
        measured="\n".join(measured(name, result) for name, result in results.items()),
        tested="\n".join(tested(name, result) for name, result in results.items()),
        solved=len(solved),
        all=len(results),
        rounds=max((len(r["loops"]["loop optax"]) for r in loops.values()), default=0),
        differences=differences(loops),
        checkouts=f"The tests of {', '.join(checkouts)} came from a checkout." if checkouts else "",
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
