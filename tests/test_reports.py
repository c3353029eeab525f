"""The score of the doctor is the one that `docs/doctor-score.md` has."""

import json
import re
from pathlib import Path

import jax
import pytest

import tools.doctor_score as doctor_score

from .reports import MISSED, SCRIPTS
from .reports.score import score
from .support.doctor import doctored

pytestmark = pytest.mark.usefixtures("restored_caches")

PAGE = doctor_score.PAGE.read_text(encoding="utf-8")
FINE = [script for script in SCRIPTS if script.is_fine]
REPORTS = [script for script in SCRIPTS if not script.is_fine]
if jax.__version_info__ < (0, 10):  # which has no names for what is in the key of a call
    REPORTS = [script for script in REPORTS if "with mesh: context" not in script.differs]
# Of these, loading or compiling takes seconds.
_HEAVY = re.compile("flax|nnx|diffrax|optax.chain|PRNGKey")


def _tiers(scripts):
    """A tenth of the scripts in the fast tier, the others in the slow one."""
    fast = [script for script in scripts if not _HEAVY.search(script.body)][::10]
    return [
        pytest.param(script, id=script.name, marks=() if script in fast else pytest.mark.slow)
        for script in scripts
    ]


@pytest.mark.parametrize("script", _tiers(REPORTS))
def test_the_score_of_a_report_is_the_recorded_one(script):
    found = score(script)
    assert found.is_as_expected, found.truth
    assert found.truth.results, "there are no numbers to compare"
    is_missed = not found.is_right or not (script.is_expected or found.is_cured)
    assert is_missed == (script.name in MISSED), found
    if f"jax {jax.__version__}," in PAGE:
        assert doctor_score.row(found) in PAGE.splitlines()


@pytest.mark.parametrize("script", _tiers(FINE))
def test_nothing_is_found_fault_with_that_is_as_it_should_be(script):
    found = score(script)
    assert found.is_as_expected, found.truth
    assert not found.is_false_alarm, found.said
    assert found.count


def test_the_page_has_each_script_once_and_no_other():
    names = re.findall(r"^\| \[(.*?)\]\(https://\S+\) \|", PAGE, re.MULTILINE)
    assert sorted(names) == sorted(script.name for script in SCRIPTS)
    assert len(REPORTS) >= 50 and len(FINE) >= 18


def test_the_goals_are_reached():
    rows = re.findall(r"^\| (\w.*?) \| (\d+) \| (\d+) \| \d+ % \|$", PAGE, re.MULTILINE)
    found = {name: int(right) / int(count) for name, right, count in rows}
    assert found["count, path and cause"] >= 0.95
    assert found["cured by a line to paste"] >= 0.9 and found["cured by either"] >= 0.9
    assert found["no false alarm"] == 1


def test_each_script_has_a_report_and_a_truth():
    for script in SCRIPTS:
        source = r"[\w.-]+/[\w.-]+/(issues|pull)/\d+|https://\S+"
        assert re.fullmatch(source, script.report), script.name
        assert script.source.count("# here") == 1, script.name
        assert bool(script.differs) != script.is_fine, script.name


# --- through the real command -------------------------------------------------------------------

_ALL = """\
import glob, jax, runpy
for path in sorted(glob.glob("*_script.py")):
    jax.clear_caches()
    runpy.run_path(path)
"""


def _write(folder: Path, scripts):
    (folder / "all.py").write_text(_ALL)
    for i, script in enumerate(scripts):
        (folder / f"{i:03}_script.py").write_text(script.source)


@pytest.mark.slow
def test_the_command_says_the_same(tmp_path):
    known = [s for s in REPORTS if s.name not in MISSED]
    scripts = [s for s in known if not (s.is_line or _HEAVY.search(s.body))]
    # A setting would be that of all scripts that come after, and a path has no number in `[i]`.
    scripts = [s for s in scripts if "config.update" not in s.body and "[i]" not in str(s.differs)]
    assert len(scripts) > 10
    _write(tmp_path, scripts)
    *_, done = doctored("--json", "report.json", "all.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    for i, script in enumerate(scripts):
        file = f"{i:03}_script.py:"
        found = [f for f in report["findings"] if f["name"] == script.target]
        found = [f for f in found if file in (f["place"] or file) or len(found) == 1]
        assert sum(f["traces"] for f in found) == script.traces, script.name
        assert sum(f["compiles"] for f in found) == script.compiles, script.name
        changes = [change for f in found for cause in f["causes"] for change in cause["changes"]]
        said = {f"{change['path']}: {change['kind']}" for change in changes}
        assert said == {*script.differs}, script.name


@pytest.mark.slow
def test_the_command_has_no_alarm_for_what_is_as_it_should_be(tmp_path):
    _write(tmp_path, FINE)
    *_, done = doctored("--fail-on-recompile", "all.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
