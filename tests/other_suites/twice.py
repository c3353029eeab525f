"""Runs the tests of another package twice, as they are and with a change, and compares.

The change is a module beside this one: `optax_factories`, `equinox_filter_jit` or `watched`.
"""

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import canonopt

HERE = Path(__file__).parent


def compare(
    change: str,
    source: Path,
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    together: bool = False,
    passing: bool = False,
    expected: Collection[str] = (),
    env: Mapping[str, str] | None = None,
) -> tuple[dict[str, int], list[str]]:
    """Runs tests both ways and prints a summary.

    **Arguments:**

    - `source`: the folder that the tests are in.
    - `arguments`: for pytest.
    - `cwd`: the folder in which pytest runs, if not an empty one.
    - `together`: whether to run both at the same time, for tests that use little memory.
    - `passing`: whether a test that passes with the change is taken to pass without it. Then only
        the others run both ways.
    - `expected`: tests that may end differently.
    - `env`: what the environment has besides.

    **Returns:** how often the tests reached what was changed, by name, and what is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:

        def start(name: str, *arguments: str) -> Run:
            return Run(source, Path(folder, name), cwd, arguments, env or {})

        if passing:
            changed = start("changed", "--change", change, *arguments).notes()
            others = {test for test, end in changed["outcomes"].items() if end != "passed"}
            plain = {**changed, "outcomes": {t: "passed" for t in changed["outcomes"]}}
            if others:
                as_it_is = start("plain", *(str(source / test) for test in sorted(others))).notes()
                plain["outcomes"] |= as_it_is["outcomes"]
                plain["failures"] = as_it_is["failures"]
        else:
            runs = [start("plain", *arguments)]
            if not together:
                runs[0].process.wait()
            runs.append(start("changed", "--change", change, *arguments))
            plain, changed = (run.notes() for run in runs)
    ends = collections.Counter(end.partition(" ")[0] for end in plain["outcomes"].values())
    print(f"{len(plain['outcomes'])} tests: {', '.join(f'{n} {end}' for end, n in ends.items())}.")
    wrong = [text for test, text in differences(plain, changed) if test not in expected]
    print(f"{len(wrong)} tests end differently.")
    return changed["calls"], wrong if ends else ["No test has run."]


def differences(plain: dict[str, Any], changed: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The tests that ended differently, with both ends and why one failed."""
    for test in plain["outcomes"] | changed["outcomes"]:
        before, after = (run["outcomes"].get(test, "absent") for run in (plain, changed))
        if before != after:
            why = changed["failures"].get(test) or plain["failures"].get(test, "")
            yield test, f"{test}: {before} as it is, {after} with the change.\n{why}"


class Run:
    """One run of tests, in a process of its own."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        cwd: Path | None,
        arguments: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        folder.mkdir()
        self._notes, self._log = folder / "notes.json", folder / "log"
        # Neither the settings of the package that is tested, nor a cache in its folder.
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider"]
        command += ["-q", "-p", "noting", f"--rootdir={source}", f"--notes={self._notes}"]
        # The plugin, and the canonopt of this process.
        paths = os.pathsep.join(map(str, (HERE, Path(canonopt.__file__).parents[1])))
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                [*command, *arguments],
                env=os.environ | {"PYTHONPATH": paths} | env,
                cwd=cwd or folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def notes(self) -> dict[str, Any]:
        """Return what the plugin has noted, when the run has ended."""
        code = self.process.wait()
        if code not in (0, 1):  # neither all passed nor some failed
            raise RuntimeError(f"Pytest ended with {code}:\n{self._log.read_text()}")
        return json.loads(self._notes.read_text())


def download(repository: str, tag: str, folder: Path) -> Path:
    """Unpacks the source of a release on GitHub. Returns the folder that it is in."""
    archive = f"https://github.com/{repository}/archive/refs/tags/{tag}.tar.gz"
    try:
        with urllib.request.urlopen(archive, timeout=60) as response:
            data = response.read()
    except (urllib.error.URLError, TimeoutError) as error:
        sys.exit(
            f"The tests could not be downloaded from {archive}: {error}. Give the folder of a "
            f"checkout of {tag} with --source."
        )
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
    return next(folder.iterdir())
