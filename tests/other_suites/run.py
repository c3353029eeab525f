"""Runs the tests of another package with a change, and as they are those that do not pass then.

    python -m tests.other_suites.run optax                            # with canonopt's factories
    python -m tests.other_suites.run optax-part                       # in a minute or two
    python -m tests.other_suites.run optax _src/alias_test.py -k lbfgs
    python -m tests.other_suites.run equinox --source FOLDER          # with canonopt.filter_jit
    python -m tests.other_suites.run watched-equinox                  # while canonopt watches
    python -m tests.other_suites.run watched-jax -k test_grad

Optax has its tests in its wheel. Those of Equinox and JAX are downloaded from GitHub, for the
version that is installed. Each test has to pass, or to end as it does without the change.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import equinox
import jax
import optax

import canonopt

HERE = Path(__file__).parent
OPTAX = Path(optax.__file__).parent


@attrs.frozen
class Suite:
    change: str  # a function of `noting`
    files: Sequence[str]
    reached: int  # how many names the tests reach at least, if the change has an effect
    download: tuple[str, str] | None = None  # the repository and the tag
    expression: str = "not speed"  # for `-k`: tests that measure time fail on a busy machine
    expected: Sequence[str] = ()  # tests that may end differently


# Of the tests that take every optimizer the one that compiles little, and all tests of what builds
# on other transformations.
_PART = """\
_src/alias_test.py _src/base_test.py _src/combine_test.py _src/lookahead_test.py
contrib/_common_test.py schedules transforms/_combining_test.py transforms/_masking_test.py
transforms/_conditionality_test.py""".split()
_LONG = "AliasTest or ContribTest or LBFGSTest or ScheduleAsLearningRateTest"
_EQUINOX = "patrick-kidger/equinox", f"v{equinox.__version__}"
_JAX = "jax-ml/jax", f"jax-v{jax.__version__}"

# These expect a warning each time an optimizer is built. A seen one is found without it. An
# optimizer is seen as long as it lives, so which tests see one depends on the garbage collector.
_WARNED_ONCE = """
gradient_accumulation41 optimization80 optimization82 optimizers_accept_extra_args20
preserve_dtype41 state_shape_dtype_shard_stability121 state_shape_dtype_shard_stability122
"""
SUITES = {
    "optax": Suite(
        *("optax_factories", ["."], 120),
        expression="",
        expected=[f"_src/alias_test.py::AliasTest::test_{name}" for name in _WARNED_ONCE.split()],
    ),
    "optax-part": Suite(
        *("optax_factories", _PART, 100), expression=f"not ({_LONG}) or wrapped_in_inject"
    ),
    "equinox": Suite("equinox_filter_jit", (), 1, _EQUINOX),
    "watched-equinox": Suite(
        *("watched", ["test_jit.py", "test_ad.py", "test_vmap.py", "test_nn.py"], 1, _EQUINOX)
    ),
    "watched-jax": Suite(
        *("watched", ["api_test.py", "pjit_test.py"], 1, _JAX),
        # Counts the frames of the stack. Watching adds one, which is hidden from tracebacks.
        expected=["tests/api_test.py::TracebackTest::test_jit_traceback"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("files", nargs="*", help="files or folders of its tests")
    parser.add_argument("-k", metavar="EXPRESSION", help="as for pytest")
    parser.add_argument("--source", type=Path, help="a checkout, instead of a download")
    options = parser.parse_args()
    suite = SUITES[options.suite]
    if options.files or options.k is not None:
        files = options.files or suite.files
        suite = attrs.evolve(suite, files=files, expression=options.k or "", reached=1)
    with tempfile.TemporaryDirectory() as folder:
        source = options.source
        if suite.download and not source:
            source = download(*suite.download, Path(folder))
        sys.exit(compare(suite, source and source.resolve()))


def compare(suite: Suite, source: Path | None = None) -> str | None:
    """Run tests with the change, print a summary, and return what is wrong."""
    tests, cwd = (OPTAX, None) if source is None else (source / "tests", source)
    with_filter_jit = (p.name for p in tests.glob("test_*.py") if "filter_jit" in p.read_text())
    files = suite.files or [*with_filter_jit]
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str, *arguments: str) -> dict[str, Any]:
            return notes(source or OPTAX, Path(folder, name), cwd, arguments)

        chosen = ["-k", suite.expression, *(str(tests / name) for name in sorted(files))]
        changed = run("changed", "--change", suite.change, *chosen)
        ends = changed["outcomes"]
        plain = {"outcomes": {test: end for test, end in ends.items() if end == "passed"}}
        if others := [str((source or OPTAX) / test) for test in ends if ends[test] != "passed"]:
            found = run("plain", *others)
            plain = {**found, "outcomes": plain["outcomes"] | found["outcomes"]}
    wrong = [text for test, text in differences(plain, changed) if test not in suite.expected]
    calls = changed["calls"]
    counts = collections.Counter(end.partition(" ")[0] for end in ends.values())
    print(f"{len(ends)} tests: {', '.join(f'{n} {end}' for end, n in counts.items())}.")
    print(f"{len(wrong)} end differently. {sum(calls.values())} calls reached {len(calls)} names.")
    if not ends:
        wrong.append("No test has run.")
    if len(calls) < suite.reached:
        wrong.append(f"The tests should have reached {suite.reached} names.")
    return "\n\n".join(wrong) or None


def differences(plain: dict[str, Any], changed: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tests that ended differently, with both ends and why one failed."""
    for test in plain["outcomes"] | changed["outcomes"]:
        before, after = (run["outcomes"].get(test, "absent") for run in (plain, changed))
        if before != after:
            why = changed["failures"].get(test) or plain["failures"].get(test, "")
            yield test, f"{test}: {before} as it is, {after} with the change.\n{why}"


def notes(
    source: Path,
    folder: Path,
    cwd: Path | None,
    arguments: Sequence[str],
    python: Path | str = sys.executable,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run tests in a process of its own, and return what the plugin has noted."""
    folder.mkdir()
    # Neither the settings of the package that is tested, nor a cache in its folder.
    command = [str(python), "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", "-q"]
    command += ["-p", "noting", f"--rootdir={source}", f"--notes={folder / 'notes.json'}"]
    # The plugin, and the canonopt of this process, unless that of an environment is tested.
    paths = os.pathsep.join(map(str, (HERE, Path(canonopt.__file__).parents[1])))
    # The installed package is tested. Optax's test of sharding asks for eight devices itself, but
    # too late when other tests are run before.
    env = env or {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    if source == OPTAX:
        env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    with open(folder / "log", "w") as log:
        options = {"env": os.environ | env, "cwd": cwd or folder, "stderr": subprocess.STDOUT}
        code = subprocess.run([*command, *arguments], stdout=log, **options).returncode
    if code not in (0, 1):  # neither all passed nor some failed
        raise RuntimeError(f"Pytest ended with {code}:\n{(folder / 'log').read_text()}")
    return json.loads((folder / "notes.json").read_text())


def download(repository: str, tag: str, folder: Path) -> Path:
    """Unpack the source of a release on GitHub, and return the folder that it is in."""
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


if __name__ == "__main__":
    main()
