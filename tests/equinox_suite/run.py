"""Runs Equinox's own tests twice: as they are, and with `canonopt.filter_jit` in Equinox's place.

```
python tests/equinox_suite/run.py                             # all files that use filter_jit
python tests/equinox_suite/run.py test_jit.py -k donation     # some, chosen as for pytest
python tests/equinox_suite/run.py --source FOLDER             # with the tests of a checkout
```

The tests are in Equinox's repository only, so they are downloaded from GitHub, for the version that
is installed. Each has to end the same in both runs, passed, failed or skipped.
"""

import argparse
import collections
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx

import canonopt

HERE = Path(__file__).parent
ARCHIVE = f"https://github.com/patrick-kidger/equinox/archive/refs/tags/v{eqx.__version__}.tar.gz"

# Tests that may end differently, and why.
EXPECTED: dict[str, str] = {}

# Tests that measure time fail on a busy machine.
DEFAULT = "not speed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="files of Equinox's tests, such as test_jit.py")
    parser.add_argument("-k", metavar="EXPRESSION", default=DEFAULT, help="as for pytest")
    parser.add_argument("--source", type=Path, help="a checkout of Equinox, instead of a download")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.source or download(Path(folder))
        sys.exit(compare(source.resolve(), options.files, options.k))


def download(folder: Path) -> Path:
    """Unpacks the source of the installed version. Returns the folder that it is in."""
    try:
        with urllib.request.urlopen(ARCHIVE, timeout=60) as response:
            archive = response.read()
    except (urllib.error.URLError, TimeoutError) as error:
        sys.exit(
            f"Equinox's tests could not be downloaded from {ARCHIVE}: {error}. "
            f"Give a checkout of Equinox {eqx.__version__} with --source."
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return next(folder.iterdir())


def compare(source: Path, files: list[str], expression: str) -> str | None:
    """Runs `files` both ways and prints a summary. Returns what is wrong, or None."""
    tests = source / "tests"
    if not files:
        files = [p.name for p in sorted(tests.glob("test_*.py")) if "filter_jit" in p.read_text()]
    if not files:
        return f"{tests} does not hold the tests of filter_jit."
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-k", expression, *(f"tests/{name}" for name in files)]
        runs = [
            Run(source, Path(folder, "plain"), arguments),
            Run(source, Path(folder, "replaced"), ["--replace", *arguments]),
        ]
        plain, replaced = (run.notes() for run in runs)
    ends = collections.Counter(end.partition(" ")[0] for end in plain["outcomes"].values())
    print(f"{len(plain['outcomes'])} tests: {', '.join(f'{n} {end}' for end, n in ends.items())}.")
    print(f"They called canonopt.filter_jit {replaced['calls'].get('filter_jit', 0)} times.")
    wrong = list(differences(plain, replaced))
    print(f"{len(wrong)} tests end differently.")
    if not plain["outcomes"] or not replaced["calls"]:
        wrong.append("No test has called canonopt.filter_jit.")
    return "\n\n".join(wrong) or None


def differences(plain: dict[str, Any], replaced: dict[str, Any]) -> Iterator[str]:
    for test in plain["outcomes"] | replaced["outcomes"]:
        before, after = (run["outcomes"].get(test, "absent") for run in (plain, replaced))
        if before != after and test not in EXPECTED:
            why = replaced["failures"].get(test) or plain["failures"].get(test, "")
            yield f"{test}: {before} with Equinox's filter_jit, {after} with canonopt's.\n{why}"


class Run:
    """One run of Equinox's tests, in a process of its own."""

    def __init__(self, source: Path, folder: Path, arguments: list[str]) -> None:
        folder.mkdir()
        self._notes = folder / "notes.json"
        self._log = folder / "log"
        # Without Equinox's settings: they have jaxtyping check the types of Equinox itself.
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider"]
        command += ["-q", "-p", "replacing_filter_jit", f"--rootdir={source}"]
        command += [f"--notes={self._notes}", *arguments]
        # The plugins, and the canonopt of this process. Tests import what is beside them as
        # `tests.helpers`; the Equinox that is tested is the installed one, as `-P` sees to.
        paths = [HERE, HERE.parent / "optax_suite", Path(canonopt.__file__).parents[1]]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONSAFEPATH": "1"}
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                command, env=env, cwd=source, stdout=log, stderr=subprocess.STDOUT
            )

    def notes(self) -> dict[str, Any]:
        """What the plugin has noted, when the run has ended."""
        code = self._process.wait()
        if code not in (0, 1):  # neither all passed nor some failed
            raise RuntimeError(f"Pytest ended with {code}:\n{self._log.read_text()}")
        return json.loads(self._notes.read_text())


if __name__ == "__main__":
    main()
