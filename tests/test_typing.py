"""Compare what type checkers say of the samples in tests/typing: `good.py` and `bad.py`.

A line that must be refused ends in `# error`, or in `# error: ` and a part of what pyright says of
it, or the name of its rule. No other line may be.
"""

import json
import re
import runpy
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

import canonopt

from .support.doctor import PYTHON, run

pytest.importorskip("pyright")

SAMPLES = sorted((Path(__file__).parent / "typing").glob("*.py"))


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Return what pyright says of each line of each sample."""
    # In a folder of their own, so that the samples see the package that the tests import.
    folder = tmp_path_factory.mktemp("typing")
    for sample in SAMPLES:
        shutil.copy(sample, folder)
    config = {
        "extraPaths": [str(Path(canonopt.__file__).parent.parent)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [*PYTHON, "-m", "pyright", "--outputjson", "--pythonpath", *PYTHON]
    # Pyright's own wheel has the checker in it; do not look for a newer one.
    done = run(*command, cwd=folder, env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(SAMPLES)
    said: dict[str, dict[int, str]] = {sample.name: defaultdict(str) for sample in SAMPLES}
    for found in report["generalDiagnostics"]:
        if found["severity"] == "error":
            line = found["range"]["start"]["line"] + 1
            words = f"{found['message']} ({found.get('rule')})\n"
            said[Path(found["file"]).name][line] += words
    return said


def marked(sample: Path) -> dict[int, str]:
    lines = enumerate(sample.read_text().splitlines(), start=1)
    marks = ((number, re.search(r"# error(?:: (.+))?$", line)) for number, line in lines)
    return {number: mark[1] or "" for number, mark in marks if mark}


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_sample(sample: Path, errors: dict[str, dict[int, str]]):
    expected, said = marked(sample), errors[sample.name]
    assert bool(expected) is (sample.name == "bad.py")
    missed = [f"{sample.name}:{line} is accepted" for line in expected.keys() - said.keys()]
    surplus = [f"{sample.name}:{n}: {words}" for n, words in said.items() if n not in expected]
    other = [
        f"{sample.name}:{line} should say {words!r}: {said[line]}"
        for line, words in expected.items()
        if line in said and words not in said[line]
    ]
    assert not [*missed, *surplus, *other], "\n".join([*missed, *surplus, *other])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # optax's, of what it still has
def test_what_must_be_accepted_runs():
    runpy.run_path(str(Path(__file__).parent / "typing" / "good.py"))
