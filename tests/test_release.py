"""Check that version, changelog, CITATION.cff and workflow agree before a release."""

import configparser
import datetime
import re
from pathlib import Path

import pytest
import yaml

import canonopt
from tools import release

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_citation_and_changelog_have_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == canonopt.__version__
    assert isinstance(citation["date-released"], datetime.date)
    heading = f"## [{canonopt.__version__}] - {citation['date-released']}"
    newest = re.findall(r"^## \[\d.*$", CHANGELOG, re.MULTILINE)[0]
    assert newest == heading


def test_what_the_workflow_runs_is_in_tox():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    environments = {name.removeprefix("testenv:") for name in tox.sections()}
    commands = [step["run"] for step in STEPS if "tox run" in step.get("run", "")]
    named = {each for c in commands for each in re.split("[ ,]", c.split()[3]) if "$" not in each}
    matrix = WORKFLOW["jobs"]["suite"]["strategy"]["matrix"]["include"]
    named |= {each["environment"] for each in matrix}
    assert {"lint", "typing", "docs", "release", "wheel"} <= named
    suites = {f"py3{n}-{versions}" for n in (11, 12, 13) for versions in ("newest", "lowest")}
    assert named - environments - suites == set()
    assert {each["python"] for each in matrix} == {*release.PYTHONS}


def test_the_workflow_may_only_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all("@v" in step["uses"] for step in STEPS if "uses" in step)


def test_the_pythons_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.findall(r"Python :: (3\.\d+)", text) == [*release.PYTHONS]


def test_the_example_of_the_release_is_that_of_readme():
    assert "canonopt.compile_log()" in release.example()
    with pytest.raises(ValueError, match="not enough values"):
        release.distributions(ROOT / "docs")
