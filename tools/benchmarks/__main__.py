"""Measure, and write docs/benchmarks.md with its JSON and plots. About ten minutes.

python -m tools.benchmarks [--out FOLDER] [--quick]
"""

import argparse
import sys
from pathlib import Path

import attrs

from . import page, rivals
from .parts import PARTS, QUICK, Size

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for the page")
    parser.add_argument("--quick", action="store_true", help="to try it: the figures mean nothing")
    parser.add_argument("--plots", action="store_true", help="draw again what the JSON has")
    options = parser.parse_args()
    if options.plots:
        found = page.read(options.out)
    else:
        found = page.about()
        for measure in PARTS:
            print(measure.__name__, file=sys.stderr, flush=True)
            found["parts"].append(attrs.asdict(measure(QUICK if options.quick else Size())))
            # Written after each part, in case the next one fails.
            page.write(page.finished(found), options.out)
        found = page.finished(found)
        if not options.quick:
            rivals.write()
    print(page.write(found, options.out))


if __name__ == "__main__":
    main()
