"""Measure public training codes as they are and with canonopt, and write `docs/real-code.md`.

```
python -m tools.real_code --python ENV/bin/python             # all twelve
python -m tools.real_code --python ENV/bin/python nanolm ppo  # these; the others' rows stay
```

`ENV` has the packages that the page names. The codes come from `--repositories`, a folder with git
directories, and are cloned into it if they are not there. Each code, before and after its diff,
runs twice, each time in a new process. In the second run, canonopt looks for stale reads.
"""

import argparse
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "tests" / "packages"
PAGE = ROOT / "docs" / "real-code.md"
TEMPLATE = PACKAGES / "codes" / "template.md"
VARIANTS = ("before", "after")
TRIALS = 2
SHOWN, MOST_LINES = 2, 60  # diffs on the page, and the limit on their lines
COLUMNS = ("code", "title", "traces", "compiles", "seconds", "first", "lines", "same", "stale")
VERSIONS = (
    *("jax", "jaxlib", "optax", "equinox", "flax", "diffrax", "dm-haiku", "numpyro", "gymnax"),
    *("distrax", "optuna", "jaxopt", "numpy"),
)

sys.path.insert(0, str(PACKAGES))
from codes.choice import CHOICE, Code, prepared  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=", ".join(code.name for code in CHOICE))
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--folder", type=Path, default=ROOT / ".tox" / "real-code")
    parser.add_argument("--repositories", type=Path, default=ROOT / ".tox" / "repositories")
    options = parser.parse_args()
    for code in CHOICE:
        if code.name in options.names or not options.names:
            cells = row(code, measured(code, options.folder.resolve() / code.name, options))
            PAGE.write_text(render(rows_of(PAGE.read_text()) | {code.name: cells}, options.python))
            print(cells, flush=True)


def measured(code: Code, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return `measure.py`'s output in both runs of each variant, and how far the numbers differ."""
    adapter = importlib.import_module("codes.adapters")
    folders = prepared(code, adapter, folder, options.repositories.resolve())
    results: dict[str, Any] = {}
    for variant, script in folders.items():
        measure = PACKAGES / "codes" / "measure.py"
        run = [str(options.python), str(measure), code.name, str(script), "--trials", str(TRIALS)]
        results[variant] = [
            noted([*run, str(folder / f"{variant}.npz")], folder),
            noted([*run, str(folder / f"{variant}-log.npz"), "--stale"], folder),
        ]
        counts = {str(notes["compiles"]) for notes in results[variant]}
        if len(counts) > 1:
            raise RuntimeError(f"{code.name}, {variant}: the rounds have other counts: {counts}")
    results["difference"] = difference(folder)
    return results


def noted(command: list[str], folder: Path) -> dict[str, Any]:
    """Return the last line that a run of `measure.py` prints, read as JSON."""
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def difference(folder: Path) -> float:
    """Return the largest difference of the numbers, relative to the largest number of its trial."""
    import numpy as np

    before, after = (np.load(folder / f"{variant}.npz") for variant in VARIANTS)
    differences = [
        np.max(np.abs(before[trial] - after[trial])) / np.max(np.abs(before[trial]))
        for trial in before
        if not np.array_equal(before[trial], after[trial], equal_nan=True)
    ]
    return float(max(differences, default=0.0))


def versions(python: Path) -> str:
    listed = subprocess.run(
        [str(python), "-m", "pip", "list", "--format", "json"], capture_output=True, text=True
    )
    found = {entry["name"]: entry["version"] for entry in json.loads(listed.stdout)}
    return ", ".join(f"{name} {found[name]}" for name in VERSIONS)


def further(notes: list[dict[str, Any]], name: str) -> int:
    """Return the most compiles or traces of any trial after the first."""
    return max(notes[0][name][1:])


def seconds(notes: list[dict[str, Any]]) -> float:
    """Return the median seconds of the trials after the first."""
    return statistics.median(notes[0]["seconds"][1:])


def diff_of(name: str) -> str:
    return (PACKAGES / "codes" / "diffs" / f"{name}.diff").read_text()


def lines_of(code: Code) -> tuple[int, int]:
    """Return how many lines the diff removes and adds."""
    text = diff_of(code.name)
    return len(re.findall(r"^-(?!--)", text, re.M)), len(re.findall(r"^\+(?!\+\+)", text, re.M))


def link(code: Code) -> str:
    return f"[{code.name}](https://github.com/{code.repository}/blob/{code.commit}/{code.paths[0]})"


def row(code: Code, results: dict[str, Any]) -> str:
    pairs = [results[variant] for variant in VARIANTS]
    traces, compiles = (
        " → ".join(str(further(notes, name)) for notes in pairs) for name in ("traces", "compiles")
    )
    times = " → ".join(f"{seconds(notes):.2g}" for notes in pairs)
    first = " → ".join(f"{notes[0]['seconds'][0]:.2g}" for notes in pairs)
    for name in ("lowering", "compiling"):
        stages = " → ".join(f"{notes[0]['stages'][name]:.2g}" for notes in pairs)
        first += f"<br>{name} {stages}"
    removed, added = lines_of(code)
    differs = results["difference"]
    same = "yes" if not differs else f"no, by {differs:.0e}"
    stale = " → ".join(
        "?" if notes[1]["stale"] is None else str(len(notes[1]["stale"])) for notes in pairs
    )
    cells = (link(code), code.title, traces, compiles, times, first)
    return "| " + " | ".join((*cells, f"-{removed} +{added}", same, stale)) + " |"


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the first table of the page, by code."""
    return dict(re.findall(r"^(?=\| \[(\w+)\])(.*)$", page, re.M))


def numbers(row: str, column: str) -> list[float]:
    """Return the two numbers of a cell, before and after."""
    return [*map(float, row.split(" | ")[COLUMNS.index(column)].split(" → "))]


def is_same(row: str) -> bool:
    return row.split(" | ")[COLUMNS.index("same")] == "yes"


def render(rows: dict[str, str], python: Path) -> str:
    rebuilt = {name: row for name, row in rows.items() if numbers(row, "compiles")[0]}
    solved = [name for name, row in rebuilt.items() if not numbers(row, "compiles")[1]]
    same = [name for name in solved if is_same(rows[name])]
    times = {name: numbers(rows[name], "seconds") for name in same}
    short = [name for name in same if diff_of(name).count("\n") < MOST_LINES]
    best = sorted(short, key=lambda name: times[name][0] / times[name][1], reverse=True)[:SHOWN]
    return TEMPLATE.read_text().format(
        rows="\n".join(rows[code.name] for code in CHOICE if code.name in rows),
        rebuilt=len(rebuilt),
        solved=len(solved),
        solved_same=len(same),
        same=sum(map(is_same, rows.values())),
        all=len(rows),
        diffs="\n".join(f"### {name}\n\n```diff\n{diff_of(name)}```\n" for name in best),
        licences="; ".join(
            f"{licence} for {', '.join(code.name for code in CHOICE if code.licence == licence)}"
            for licence in sorted({code.licence for code in CHOICE})
        ),
        versions=versions(python),
    )


if __name__ == "__main__":
    main()
