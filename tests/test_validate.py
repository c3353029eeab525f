"""`python -m tools.validate`: what it runs, what it writes, and the records that are in docs."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tools.validate import __main__ as command
from tools.validate import cells, parts, recompiles, record
from tools.validate.checks import FULL, QUICK, Failed, NotRun, Part

from .support import doctor

ROOT = Path(__file__).parents[1]
RECORDS = sorted(command.RECORDS.glob("*.json"))


# The command compiles as for users: it compares numbers.
ENVIRONMENT = {"XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # which the command sets


# --- a run --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    jax.__version_info__ < (0, 10), reason="this jax runs no update of adam on host memory"
)
def test_a_quick_run(tmp_path):
    arguments = ["--quick", "--host-devices", "4", "--out", str(tmp_path)]
    command = [*doctor.PYTHON, "-W", "error", "-m", "tools.validate", *arguments]
    done = doctor.run(*command, cwd=ROOT, env=ENVIRONMENT)
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text("utf-8"))
    by_title = {part["title"]: part for part in found["parts"]}
    assert [*by_title] == [*parts.PARTS]
    # No test expects anything of times.
    timed = {"Seconds of a training run", "Dispatch"}
    assert done.returncode == (not record.is_met(found)), done.stderr
    assert [p for t, p in by_title.items() if t not in timed and not record.is_met(of(p))] == []
    assert [part["failed"] for part in found["parts"] if part["failed"]] == []
    names = [row["what"] for row in by_title["Cells"]["rows"]]
    assert names == [f"adam, {kind}" for kind in cells.COLUMNS]
    assert found["device"]["count"] == 4
    assert {"python", "jax", "jaxlib", "equinox", "optax", "canonopt"} <= {*found["versions"]}
    assert found["command"] == "python -m tools.validate --host-devices 4 --quick"
    assert path.with_suffix(".md").read_text("utf-8") == record.page(found)
    assert "quick" in path.name


def of(*found):
    return {"parts": [*found]}


def run(monkeypatch, tmp_path, **checks):
    made = {title: Part(lambda size, c=c: {"a check": c}, "Text.") for title, c in checks.items()}
    monkeypatch.setattr(parts, "PARTS", made)
    status = command.main(["--out", str(tmp_path)])
    (path,) = tmp_path.glob("*.md")
    return status, path.read_text("utf-8")


def fails():
    raise ValueError("This device\nhas no such thing.")


def is_met():
    return {"canonopt": [1, 0], "met": True}


def test_a_check_that_raises_is_recorded_and_the_others_go_on(monkeypatch, tmp_path, capsys):
    status, page = run(monkeypatch, tmp_path, first=fails, second=is_met)
    assert status == 1
    assert "**Failed**: a check: `ValueError: This device`" in page
    assert "| result | **not all is as expected** |" in page
    assert "| a check | 1 0 | yes |" in page
    assert "first: NOT AS EXPECTED\nsecond: as expected" in capsys.readouterr().out


@pytest.mark.parametrize("is_grid", [False, True])
def test_what_is_not_run_in_time_is_named(monkeypatch, tmp_path, is_grid):
    checks = {"adam, plain": cells.cells(QUICK)["adam, plain"]}
    monkeypatch.setattr(parts, "PARTS", {"Part": Part(lambda size: checks, "Text.", is_grid)})
    assert command.main(["--out", str(tmp_path), "--seconds", "-1"]) == 1
    (path,) = tmp_path.glob("*.md")
    assert "**Not run**, since the time was used up: adam, plain." in path.read_text("utf-8")


# --- cells --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cell_where_the_numbers_differ_is_not_met(monkeypatch):
    wrong = dict(
        cells.placements.OPTIMIZERS, adam=lambda library: library.adam(rates[library.__name__])
    )
    rates = {"canonopt": 1e-3, "optax": 2e-3}
    monkeypatch.setattr(cells.placements, "OPTIMIZERS", wrong)
    row = cells.cells(QUICK)["adam, plain"]()
    assert row == {"canonopt": "1/1", "plain Optax": "1/1", "numbers": "differ", "met": False}


def test_what_plain_optax_cannot_do_on_the_device_is_not_run(monkeypatch):
    def trained(library, name, kind):
        raise ValueError(errors[library])

    monkeypatch.setattr(cells.placements, "trained", trained)
    errors = {"canonopt": "No such memory.\nAt 1.", "optax": "No such memory.\nAt 2."}
    reason = "plain Optax raises the same, `ValueError: No such memory.`"
    assert cells.cells(QUICK)["adam, plain"]() == NotRun(reason)
    errors["optax"] = "No mesh."
    assert cells.cells(QUICK)["adam, plain"]() == Failed("ValueError: No such memory.")


def test_a_device_that_is_not_deterministic_is_named(monkeypatch):
    numbers = iter(range(100))
    trained = lambda *_: cells.placements.Trained(1, 1, jnp.float32(next(numbers)))  # noqa: E731
    monkeypatch.setattr(cells.placements, "trained", trained)
    row = cells.cells(QUICK)["adam, plain"]()
    assert row["numbers"] == "Optax differs from itself" and row["met"]
    one, two = jnp.float32(1), jnp.float32(2)
    found = {"canonopt": ([1, 0], [one, one]), "optax": ([1, 1], [one, two])}
    row = recompiles._compared(found, trials_are_equal=True)
    assert row["numbers"] == "Optax differs from itself" and row["met"]
    row = recompiles._compared(found)
    assert row["numbers"] == "differ" and not row["met"]


def test_placements_on_a_mesh_are_not_run_on_one_device(monkeypatch):
    monkeypatch.setattr(cells.jax, "device_count", lambda: 1)
    found = cells.cells(QUICK)
    assert {*found} == {f"adam, {kind}" for kind in cells.COLUMNS}
    reasons = {name: check.reason for name, check in found.items() if isinstance(check, NotRun)}
    meshes = ("replicated", "data-sharded", "2D-sharded", "fsdp")
    assert reasons == {f"adam, {kind}": "there is one device" for kind in meshes}


# --- the records in docs ------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_that_of_its_figures(path):
    found = json.loads(path.read_text("utf-8"))
    assert path.with_suffix(".md").read_text("utf-8") == record.page(found)
    assert path.stem == record.name(found)
    assert not found["is_quick"]
    # Only a machine that other jobs share is given more time.
    assert found["seconds"] <= 480 or "--seconds" in found["command"]
    assert [part["title"] for part in found["parts"]] == [*parts.PARTS]
    (grid,) = (part for part in found["parts"] if part["is_grid"])
    named = {each["what"] for key in ("rows", "failed", "not_run") for each in grid[key]}
    assert named == {*cells.cells(FULL)}
    assert f"records/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text("utf-8")
