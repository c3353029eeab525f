"""Runs tests of Equinox and JAX twice: as they are, and while canonopt watches.

```
python -m tests.other_suites.run_watched                        # both
python -m tests.other_suites.run_watched jax -k test_grad       # of one, chosen as for pytest
python -m tests.other_suites.run_watched jax --source FOLDER    # with the tests of a checkout
```

The tests are in the repositories only, so they are downloaded from GitHub, for the versions that
are installed. Each has to end the same in both runs, passed, failed or skipped.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import equinox
import jax

from . import twice

# From each package to its repository, the tag of the installed version and the files.
SUITES = {
    "equinox": (
        "patrick-kidger/equinox",
        f"v{equinox.__version__}",
        ("test_jit.py", "test_ad.py", "test_vmap.py", "test_nn.py"),
    ),
    "jax": ("jax-ml/jax", f"jax-v{jax.__version__}", ("api_test.py", "pjit_test.py")),
}

# Counts the frames of the stack. Watching adds one, which is hidden from tracebacks as those of JAX
# are.
EXPECTED = {"tests/api_test.py::TracebackTest::test_jit_traceback"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", nargs="?", choices=SUITES, help="both if it is left out")
    parser.add_argument("-k", metavar="EXPRESSION", default="not speed", help="as for pytest")
    parser.add_argument("--source", type=Path, help="a checkout of the package")
    options = parser.parse_args()
    if options.source and not options.package:
        parser.error("--source is for one package: run_watched jax --source FOLDER")
    wrong = []
    for package in [options.package] if options.package else SUITES:
        repository, tag, files = SUITES[package]
        with tempfile.TemporaryDirectory() as folder:
            source = options.source or twice.download(repository, tag, Path(folder))
            print(f"{package} {tag}:")
            wrong += compare(source.resolve(), files, options.k)
    sys.exit("\n\n".join(wrong) or None)


def compare(source: Path, files: tuple[str, ...], expression: str) -> list[str]:
    """Runs the files both ways and prints a summary. Returns what is wrong."""
    arguments = ["-k", expression, *(str(source / "tests" / name) for name in files)]
    calls, wrong = twice.compare("watched", source, arguments, expected=EXPECTED)
    print(f"canonopt saw {calls.get('traces', 0)} traces, and rendered {calls['causes']} causes.")
    return wrong if calls.get("traces") else [*wrong, "canonopt has seen no trace."]


if __name__ == "__main__":
    main()
