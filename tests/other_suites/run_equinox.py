"""Runs Equinox's own tests twice: as they are, and with `canonopt.filter_jit` in Equinox's place.

```
python -m tests.other_suites.run_equinox                           # all that use filter_jit
python -m tests.other_suites.run_equinox test_jit.py -k donation   # some, chosen as for pytest
python -m tests.other_suites.run_equinox --source FOLDER           # with the tests of a checkout
```

The tests are in Equinox's repository only, so they are downloaded from GitHub, for the version that
is installed. Each has to end the same in both runs, passed, failed or skipped.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import equinox as eqx

from . import twice

REPOSITORY, TAG = "patrick-kidger/equinox", f"v{eqx.__version__}"
# Tests that measure time fail on a busy machine.
DEFAULT = "not speed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="files of Equinox's tests, such as test_jit.py")
    parser.add_argument("-k", metavar="EXPRESSION", default=DEFAULT, help="as for pytest")
    parser.add_argument("--source", type=Path, help="a checkout of Equinox, instead of a download")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.source or twice.download(REPOSITORY, TAG, Path(folder))
        sys.exit(compare(source.resolve(), options.files, options.k))


def compare(source: Path, files: list[str], expression: str) -> str | None:
    """Runs `files` both ways and prints a summary. Returns what is wrong, or None."""
    tests = source / "tests"
    if not files:
        files = [p.name for p in sorted(tests.glob("test_*.py")) if "filter_jit" in p.read_text()]
    if not files:
        return f"{tests} does not hold the tests of filter_jit."
    calls, wrong = twice.compare(
        "equinox_filter_jit",
        source,
        ["-k", expression, *(f"tests/{name}" for name in files)],
        cwd=source,
        env={"PYTHONSAFEPATH": "1"},  # so that the installed Equinox is tested
    )
    print(f"They called canonopt.filter_jit {calls.get('filter_jit', 0)} times.")
    if not calls:
        wrong.append("No test has called canonopt.filter_jit.")
    return "\n\n".join(wrong) or None


if __name__ == "__main__":
    main()
