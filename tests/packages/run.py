"""Runs tests and training loops of real packages, with Optax and with canonopt, and writes a page.

```
python -m tests.packages.run                   # all ten; writes docs/real-packages.md
python -m tests.packages.run flowjax numpyro   # these again, with earlier results of the rest
python -m tests.packages.run --checkout netket=~/netket netket
```

Each package gets an environment of its own, with its newest version that the supported versions of
jax allow. The package's own tests have to end the same with Optax's factories and with canonopt's.
A loop of `loops/` runs in four variants, each in a process of its own: as users write it and with
what the page advises, each with Optax's factories and with canonopt's.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from . import page
from .environments import Environment
from .selection import PACKAGES, Package
from .upstream import compare

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "real-packages.md"

# As users write it, with specs, as advised; and as advised, but with Optax's factories.
VARIANTS = [
    ("loop", "optax"),
    ("loop", "canonopt"),
    ("advised", "optax"),
    ("advised", "canonopt"),
]
TRIALS = 5
# XLA does not choose the same code in each process, so the last digits of results may differ.
ROUNDING = 1e-5
# How many of the packages have to run further trials without a compile.
GOAL = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", help=", ".join(PACKAGES))
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".tox" / "packages", help="of environments"
    )
    parser.add_argument("--rounds", type=int, default=2, help="runs of each variant")
    parser.add_argument(
        "--only", choices=["tests", "loops", "sweep"], help="keep earlier results of the rest"
    )
    parser.add_argument(
        "--checkout",
        action="append",
        default=[],
        metavar="PACKAGE=FOLDER",
        help="where a package's tests are; otherwise they are downloaded",
    )
    options = parser.parse_args()
    unknown = [*{*options.packages} - {*PACKAGES}]
    if unknown:
        parser.error(f"unknown packages: {', '.join(unknown)}")
    checkouts = dict(checkout.split("=") for checkout in options.checkout)
    for name in options.packages or PACKAGES:
        folder = options.folder.resolve() / name
        folder.mkdir(parents=True, exist_ok=True)
        checkout = checkouts.get(name)
        file = folder / "results.json"
        results = run(PACKAGES[name], folder, options.rounds, options.only, checkout)
        if options.only and file.exists():
            earlier = json.loads(file.read_text())
            earlier.pop("error", None)
            results = earlier | results
        file.write_text(json.dumps(results, indent=1))
        print(page.summary(name, results), flush=True)
    files = {name: options.folder / name / "results.json" for name in PACKAGES}
    missing = [name for name, file in files.items() if not file.exists()]
    if missing:
        print(f"The page is not written, because these have not run: {', '.join(missing)}.")
        return
    results = {name: json.loads(file.read_text()) for name, file in files.items()}
    PAGE.write_text(page.render(results))
    sys.exit(wrong(results))


def run(
    package: Package, folder: Path, rounds: int, only: str | None, checkout: str | None
) -> dict[str, Any]:
    """Versions, outcomes of tests and measurements. An exception becomes an "error" of its part."""
    try:
        environment = Environment(folder, package, ROOT)
        results: dict[str, Any] = {"versions": environment.versions()}
    except Exception as error:
        return {"error": f"cannot be installed: {error}"}
    if only in (None, "tests"):
        results["tests"] = attempt(compare, environment, package, checkout)
    if only in (None, "loops"):
        results["loops"] = attempt(measure, environment, package, rounds)
    if only in (None, "sweep"):
        results["sweep"] = attempt(sweep, environment, package)
    return results


def attempt(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        traceback.print_exc()
        return {"error": str(error) or type(error).__name__}


def measure(environment: Environment, package: Package, rounds: int) -> dict[str, list[Any]]:
    """For each variant, the notes of each round. Every other round has the reverse order."""
    notes: dict[str, list[Any]] = {" ".join(variant): [] for variant in VARIANTS}
    for number in range(rounds):
        for variant in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
            command = [HERE / "measure.py", package.name, *variant, "--trials", str(TRIALS)]
            notes[" ".join(variant)].append(json.loads(environment.python(*command)))
    return notes


def sweep(environment: Environment, package: Package) -> dict[str, Any]:
    """The notes of the advised loop with another learning rate in each trial."""
    return json.loads(environment.python(HERE / "measure.py", package.name, "advised", "sweep"))


def wrong(results: dict[str, Any]) -> str | None:
    """Return what an exit with an error has to say, or None."""
    lines = []
    for name, result in results.items():
        for part in (result, result.get("tests", {}), result.get("loops", {})):
            if "error" in part:
                lines.append(f"{name}: {part['error']}")
        lines += result.get("tests", {}).get("differences", [])
        if not page.problem(result, "loops"):
            for variant in ("loop canonopt", "advised canonopt"):
                difference = page.difference(result, "loop optax", variant)
                if difference > ROUNDING:
                    lines.append(f"{name}: the results of {variant} differ by {difference}")
    solved = [name for name, result in results.items() if page.further_compiles(result) == 0]
    if len(solved) < GOAL:
        lines.append(f"Only {len(solved)} packages run further trials without a compile.")
    return "\n".join(lines) or None


if __name__ == "__main__":
    main()
