"""Run tests and training loops of real packages, with Optax and with canonopt, and write a page.

```
python -m tests.packages.run                   # all ten; writes docs/real-packages.md
python -m tests.packages.run flowjax numpyro   # these; the rows of the others stay
python -m tests.packages.run --checkout netket=~/netket netket
```

Each package gets an environment of its own, with the versions in `environments.py`. The package's
own tests have to end the same with Optax's factories and with canonopt's. A loop of `loops/` runs
in four variants, each in a process of its own: as users write it and with what the page advises,
each with Optax's factories and with canonopt's.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from . import page
from .environments import PACKAGES, Environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# As users write it, with specs, as advised; and as advised, but with Optax's factories.
VARIANTS = ("loop optax", "loop canonopt", "advised optax", "advised canonopt")
# XLA does not choose the same code in each process, so the last digits of results may differ.
ROUNDING = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", help=", ".join(PACKAGES))
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".tox/packages", help="of environments"
    )
    parser.add_argument("--no-tests", action="store_true", help="only the loops")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="PACKAGE=FOLDER", help="with its tests"
    )
    options = parser.parse_args()
    if unknown := [*{*options.packages} - {*PACKAGES}]:
        parser.error(f"unknown packages: {', '.join(unknown)}")
    checkouts = dict(checkout.split("=") for checkout in options.checkout)
    problems = []
    for name in options.packages or PACKAGES:
        folder = options.folder.resolve() / name
        folder.mkdir(parents=True, exist_ok=True)
        environment = Environment(folder, PACKAGES[name], ROOT)
        problems += [f"{name}: {each}" for each in measure(environment)]
        if not options.no_tests:
            tests = environment.compared(checkouts.get(name))
            print(tests, flush=True)
            problems += tests["differences"]
    sys.exit("\n".join(problems) or None)


def measure(environment: Environment) -> Iterator[str]:
    """Write the row of a package; yield what is not as it should be."""
    name = environment.package.name
    notes: page.Notes = {variant: [] for variant in VARIANTS}

    def run(variant: str) -> dict:
        command = (HERE / "measure.py", name, *variant.split())
        return json.loads(environment.python(*command).splitlines()[-1])

    for variant in (*VARIANTS, *VARIANTS[::-1]):
        notes[variant].append(run(variant))
    try:  # another learning rate in each trial
        swept = str(max(run("advised sweep")["compiles"][1:]))
    except RuntimeError as error:
        swept = str(error).partition(":")[0]  # the type
    row = page.row(name, environment.package.version, notes, swept)
    rows = page.rows_of(page.PAGE.read_text()) | {name: row}
    page.PAGE.write_text(page.render(rows, [*PACKAGES]))
    print(row, flush=True)
    if count := page.further_compiles(notes, "advised canonopt"):
        yield f"{count} compiles in a further trial, as advised"
    for variant in ("loop canonopt", "advised canonopt"):
        if (differs := page.difference(notes, variant)) > ROUNDING:
            yield f"the results of {variant} differ by {differs}"


if __name__ == "__main__":
    main()
