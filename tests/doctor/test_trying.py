"""`canonopt doctor --try`: whether canonopt's factories print and write the same."""

import json
import os
import re
import sys

import pytest

from canonopt._doctor.trying import Output, files_to_fix, outputs_compared

from ..support.doctor import DOCTOR, run


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        (("a 1\nb 2", "a 1\nb 2", "a 1\nb 2"), "prints and writes the same: 2 numbers."),
        (
            ("a 1\nb 2", "a 1\nb 3", "a 1\nb 4"),
            "the same: 1 number. What differs in two runs as it is was not compared.",
        ),
        (("at 8:15: 1", "at 8:16: 1", "at 8:17: 1"), "the same: 1 number. What differs"),
        (("at 8:15: 1", "at 8:16: 1", "at 8:17: 2"), "first: at 8:15: 1 -> at 8:17: 2"),
        (("1 in 0.2 s", "1 in 0.2 s", "1 in 0.1 s"), "the same: 1 number."),
        (("1 0.2s/it", "1 0.2s/it", "1 0.1s/it"), "the same: 1 number."),
        (("\r1/2\r2/2 3", "\r1/2\r2/2 3", "\r1/2\r2/2 4"), "first: 2/2 3 -> 2/2 4"),
        (("1 nan", "1 nan", "1 inf"), "it prints something else, first: 1 nan -> 1 inf"),
        (("1 2", "1 2", "1"), "it prints something else, first: 1 2 -> 1"),
        (("1", "1", "1\n2"), "it prints 2 lines, not 1."),
        (("1\n2", "1", "1\n2"), "Two runs of it agree on no number and no file, so nothing can"),
        (("a", "a", "a"), "Two runs of it agree on no number and no file"),
        (("1|2", "1|2", "1|2"), "the same: 2 numbers."),
        (("1|2", "1|2", "1|3"), "it prints something else, first: 2 -> 3"),
        (("1|2", "1|2", "1|a\n2"), "the same: 1 number. What differs"),
        (("1||f=1", "1||f=1", "1||f=1"), "the same: 1 number and 1 file."),
        (("||f=1 g=1", "||f=1 g=2", "||f=1 g=3"), "the same: 1 file. What differs"),
        (("1||f=1", "1||f=1", "1||f=2"), "it writes something else, first into f."),
        (("1||f=1", "1||f=1", "1||"), "it writes something else, first into f."),
    ],
)
def test_what_is_printed_and_written_is_compared(runs, told):
    outputs = []
    for each in runs:
        stdout, stderr, files = (*each.split("|"), "", "")[:3]
        texts = {"stdout": bytearray(stdout.encode()), "stderr": bytearray(stderr.encode())}
        outputs.append(Output(texts, dict(file.split("=") for file in files.split())))
    is_same, sentence = outputs_compared(*outputs)
    assert told in sentence
    assert is_same == ("the same: " in sentence)


def test_files_that_a_run_writes_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("as it was")
    (tmp_path / ".cache").mkdir()
    with (output := Output()).noting_files():
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "losses.csv").write_text("0.5")
        (tmp_path / ".cache" / "hidden").write_text("0.5")
    assert [*output.files] == [os.path.join("results", "losses.csv")]


def test_only_files_that_would_change_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, source in {"train.py": "import model", "model.py": "import optax"}.items():
        (tmp_path / name).write_text(f"{source}\n")
    places = f"{tmp_path}/model.py:3", f"{tmp_path}/model.py:8", "gone.py:1", "<stdin>:1", None
    report = {"command": "train.py --n 1", "findings": [{"place": place} for place in places]}
    assert files_to_fix(report) == ["model.py"]


@pytest.mark.slow
def test_compares_with_a_run_with_canonopts_factories(tmp_path):
    files = {form: tmp_path / f"report.{form}" for form in ("json", "html")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    done = run(*DOCTOR, "--try", *options, "rebuilt.py")
    first, second, third = done.stdout.splitlines()
    assert first == second == third
    sentence = "With canonopt's factories it prints and writes the same: 3 numbers."
    assert f"\n\n{sentence}\ncanonopt doctor: rebuilt.py\n" in done.stderr
    report = done.stderr.partition("\nWith canonopt's factories in Optax's place:\n")[2]
    assert re.search(r"^  step +6 -> 1 +6 -> 1 +[\d.]+ -> [\d.]+\n", report, re.MULTILINE)
    assert "\n  write: canonopt fix --write rebuilt.py\n" in report
    found = json.loads(files["json"].read_text())
    counts = [each["findings"][0]["compiles"] for each in (found, found["tried"])]
    assert (counts, found["tried"]["recompiled"]) == ([6, 1], False)
    assert "6 -&gt; 1" in files["html"].read_text()


SCRIPTS = {
    "once.py": "import os, jax, optax; os.mkdir('made'); print(1)\n",
    "plain.py": "import jax, optax; print(1)\n",
    "fails.py": "import jax, optax; print(1); assert optax.adam.__module__.startswith('optax')\n",
    "cached.py": """\
import pathlib, jax, optax
path = pathlib.Path("loss")
if not path.exists():
    path.write_text(str(jax.jit(lambda x: x)(1.0)))
print(path.read_text())
""",
    "stale.py": """\
import functools, types
import jax, jax.numpy as jnp, optax

runtime = types.SimpleNamespace(weight=1.0)

@functools.partial(jax.jit, static_argnums=0)
def step(optim, p):
    return optim.update(p * runtime.weight, optim.init(p), p)[0]

for runtime.weight in (1.0, 2.0):
    print(float(step(optax.sgd(0.5), jnp.ones(()))))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            ("once.py",),
            "The second run as it is had exit status 1, so there is nothing to compare.",
        ),
        (
            ("cached.py",),
            "The second run as it is traced other functions than the first, so there is nothing to",
        ),
        (("--", "env", "-u", "PYTHONPATH", sys.executable, "plain.py"), "could not be watched"),
        (("fails.py",), "With canonopt's factories the exit status was 1."),
        (
            ("stale.py",),
            "With canonopt's factories it prints something else, first: -1.0 -> -0.5; step goes on "
            "with an old value, since call 2: runtime.weight was 1.0 when it was traced",
        ),
    ],
)
def test_says_what_is_not_the_same_or_cannot_be_compared(command, told, tmp_path):
    for name, source in SCRIPTS.items():
        (tmp_path / name).write_text(source)
    done = run(*DOCTOR, "--try", *command, cwd=tmp_path)
    assert told in done.stderr
    assert "the same: " not in done.stderr
    assert "canonopt fix" not in done.stderr
