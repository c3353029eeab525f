"""Runs optax's own tests twice: as they are, and with canonopt's factories in optax's place.

```
python tests/optax_suite/run.py                              # all of them
python tests/optax_suite/run.py --part                       # a part, in one to three minutes
python tests/optax_suite/run.py _src/alias_test.py -k lbfgs  # some, chosen as for pytest
```

Optax has its tests in its wheel. Each has to end the same in both runs, passed, failed or skipped:
one that the installed jax breaks has to be broken in both.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optax

import canonopt

HERE = Path(__file__).parent
OPTAX = Path(optax.__file__).parent

# Tests that may end differently, and why.
EXPECTED: dict[str, str] = {}

# Of the tests that take every optimizer two that compile little, and all tests of what builds on
# other transformations.
PART = [
    "_src/alias_test.py",
    "_src/base_test.py",
    "_src/combine_test.py",
    "_src/lookahead_test.py",
    "contrib/_common_test.py",
    "schedules",
    "transforms/_combining_test.py",
    "transforms/_conditionality_test.py",
    "transforms/_masking_test.py",
]
COMMON = "wrapped_in_inject or (AliasTest and gradient_accumulation)"
QUICK = f"not (AliasTest or ContribTest or LBFGSTest) or {COMMON}"

# How many of canonopt's factories the tests call at least, if the replacement has an effect.
REACHED_BY_ALL = 120
REACHED_BY_PART = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", action="store_true", help="only a representative part")
    parser.add_argument("tests", nargs="*", help="files or folders of tests, in optax's folder")
    parser.add_argument("-k", metavar="EXPRESSION", default="", help="as for pytest")
    options = parser.parse_args()
    if options.part:
        wrong = compare_part()
    elif options.tests or options.k:
        wrong = compare(options.tests, options.k, reached=1)
    else:
        wrong = compare([], "", REACHED_BY_ALL)
    sys.exit(wrong)


def compare_part() -> str | None:
    """As `compare`, for a part of the tests that has every kind of factory in it."""
    return compare(PART, QUICK, REACHED_BY_PART)


def compare(tests: list[str], expression: str, reached: int) -> str | None:
    """Runs `tests` both ways at the same time and prints a summary. Returns what is wrong, or None.

    No `tests` are all of them; `expression` chooses among them, as pytest's `-k`. `reached` is how
    many factories they have to call at least.
    """
    arguments = ["-k", expression, *(str(OPTAX / test) for test in tests or ["."])]
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            Run(Path(folder, "plain"), arguments),
            Run(Path(folder, "replaced"), ["--replace", *arguments]),
        ]
        for run in runs:
            run.process.wait()
        plain, replaced = (run.notes() for run in runs)
    ends = collections.Counter(end.partition(" ")[0] for end in plain["outcomes"].values())
    calls = replaced["calls"]
    print(f"{len(plain['outcomes'])} tests: {', '.join(f'{n} {end}' for end, n in ends.items())}.")
    print(f"{sum(calls.values())} calls reached {len(calls)} factories of canonopt's.")
    wrong = list(differences(plain, replaced))
    print(f"{len(wrong)} tests end differently.")
    if len(calls) < reached:
        wrong.append(f"The calls should have reached {reached} factories of canonopt's.")
    return "\n\n".join(wrong) or None


def differences(plain: dict[str, Any], replaced: dict[str, Any]) -> Iterator[str]:
    for test in plain["outcomes"] | replaced["outcomes"]:
        before, after = (run["outcomes"].get(test, "absent") for run in (plain, replaced))
        if before != after and test not in EXPECTED:
            why = replaced["failures"].get(test) or plain["failures"].get(test, "")
            yield f"{test}: {before} with optax's factories, {after} with canonopt's.\n{why}"


class Run:
    """One run of optax's tests, in a process of its own."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        folder.mkdir()
        self._notes = folder / "notes.json"
        self._log = folder / "log"
        # Neither the settings of the project that the environment may lie in, nor its cache.
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider"]
        command += ["-q", "-p", "replacing", f"--rootdir={OPTAX}", f"--notes={self._notes}"]
        command += arguments
        # The plugin, and the canonopt of this process. Optax's test of sharding asks for eight
        # devices itself, but too late when other tests are run before.
        paths = [HERE, Path(canonopt.__file__).parents[1]]
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        }
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                command, env=env, cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )

    def notes(self) -> dict[str, Any]:
        """What the plugin has noted, after the run has ended."""
        code = self.process.returncode
        if code not in (0, 1):  # neither all passed nor some failed
            raise RuntimeError(f"Pytest ended with {code}:\n{self._log.read_text()}")
        return json.loads(self._notes.read_text())


if __name__ == "__main__":
    main()
