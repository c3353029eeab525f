"""docs/migrate.md: `canonopt fix` and the diffs of the page make each step, and each is counted."""

import pathlib
import re
import runpy
import subprocess

import equinox as eqx
import jax
import numpy as np
import pytest

import canonopt
from canonopt.__main__ import main

ROOT = pathlib.Path(__file__).parents[1]
BEFORE, AFTER = (ROOT / "examples" / "migration" / name for name in ("before.py", "after.py"))
PAGE = (ROOT / "docs" / "migrate.md").read_text()
WALK = PAGE.partition("## A script, from start to end")[2].partition("\n## ")[0]
STEPS = WALK.split("\n### ")[1:]


def block(language, text):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return found


def table():
    """The names of the functions, and their traces and compiles in each state of the script."""
    head, _, *rows = (line for line in WALK.splitlines() if line.startswith("|"))
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (head, *rows)]
    names = [cell.strip("`") for cell in cells[0][1:]]
    return names, [[tuple(map(int, cell.split("/"))) for cell in row[1:]] for row in cells[1:]]


@pytest.fixture
def states(tmp_path, monkeypatch):
    """The script after each step of the page, as it is first."""
    monkeypatch.chdir(tmp_path)
    script = pathlib.Path("train.py")
    script.write_text(BEFORE.read_text())
    texts = [script.read_text()]
    for step in STEPS:
        diff = block("diff", step)
        subprocess.run(["git", "apply", "--unidiff-zero"], input=diff, text=True, check=True)
        texts.append(script.read_text())
    return texts


def test_canonopt_fix_makes_the_first_step(states, capsys):
    pathlib.Path("train.py").write_text(states[0])
    assert not main(["fix", "train.py"])
    printed = capsys.readouterr()
    head, _, diff = printed.out.partition("\n")
    assert (head, diff) == ("diff --git a/train.py b/train.py", block("diff", STEPS[0]))
    assert printed.err == ""
    assert not main(["fix", "--write", "train.py"])
    assert pathlib.Path("train.py").read_text() == states[1]


def test_the_steps_lead_from_the_one_script_to_the_other(states):
    assert states[-1] == AFTER.read_text()
    assert len({*states}) == len(states) == len(table()[1])


@pytest.mark.slow
def test_each_step_has_the_counts_of_the_page_and_the_same_results(states, restored_caches):
    names, rows = table()
    expected = None
    for i, (state, row) in enumerate(zip(states, rows, strict=True)):
        script = pathlib.Path(f"train_{i}.py")
        script.write_text(state)
        cross_validate = runpy.run_path(str(script))["cross_validate"]
        canonopt.clear_caches()
        with canonopt.compile_log() as log:
            results = cross_validate()
        assert [(log[name].traces, log[name].compiles) for name in names] == row
        if i < len(STEPS):  # what the page has of the report, above the next diff
            quoted = block("text", STEPS[i]).splitlines()
            assert [line for line in quoted if line not in str(log)] == []
        values = [np.asarray(x) for x in jax.tree.leaves(eqx.filter(results, eqx.is_array_like))]
        expected = values if expected is None else expected
        assert len(values) == len(expected) > 20
        assert all(map(np.array_equal, values, expected))
