"""`canonopt doctor --try`: whether canonopt's factories print and write the same."""

import io
import json
import os
import re
import sys

import pytest

from canonopt._doctor.trying import Output, files_to_fix, outputs_compared

from ..support.doctor import DOCTOR, run

SAME, OTHER, ELSE = (
    "the numbers are the same: ",
    "there are other numbers, first in ",
    "something else: ",
)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        (("a 1\nb 2", "a 1\nb 2", "a 1\nb 2"), f"{SAME}2 that it prints or writes."),
        (("a 1\nb 2", "a 1\nb 2", "b 2\nc\na 1"), f"{SAME}2 that it prints or writes."),
        (("a 1\nb 2", "a 1\nb 3", "a 1\nb 4"), f"{SAME}1 that it prints or writes. What differs"),
        (("a=1,b=2", "a=1,b=3", "a=2,b=4"), f"{OTHER}stdout: a=1,b=2 -> a=2,b=4"),
        (("at 8:15: 1", "at 8:15: 1", "at 8:17: 1"), f"{SAME}1 that it prints or writes."),
        (("at 8:15: 1", "at 8:16: 1", "at 8:17: 2"), f"{OTHER}stdout: at : 1 -> at : 2"),
        (("1 in 0.2 s", "1 in 0.2 s", "1 in 0.1 s"), f"{SAME}1 "),
        (("1, time=0.2", "1, time=0.2", "1, time=0.1"), f"{SAME}1 "),
        (("1, 0.2s/it", "1, 0.2s/it", "1, 0.1s/it"), f"{SAME}1 "),
        (("1:25.9777", "1:25.9777", "1:33.3999"), f"{OTHER}stdout: 1:25.9777 -> 1:33.3999"),
        (("speed=25.9777", "speed=25.9777", "speed=33.3999"), OTHER),
        (("9 steps/s 1", "9 steps/s 1", "30 steps/s 1"), f"{SAME}1 "),
        (("step 1\nstep 2", "step 1\nstep 2", "step 2\nstep 1"), f"{SAME}2 "),
        (("1|bar 3", "1|bar 3", "1|"), f"{SAME}1 "),
        (("w 1\ns 2", "w 1\ns 2", "w 3\ns 2"), f"{OTHER}stdout: w 1 -> w 3"),
        (("[ 0.1 -2.]", "[-0.1 -2.]", "[ 0.3 -2.]"), f"{SAME}1 "),
        (("\r1/2\r2/2 3", "\r1/2\r2/2 3", "\r1/2\r2/2 4"), f"{OTHER}stdout: 2/2 3 -> 2/2 4"),
        (("1 nan", "1 nan", "1 inf"), f"{OTHER}stdout: 1 nan -> 1 inf"),
        (("a 1\na 2", "a 1\na 2", "a 1"), f"{ELSE}'a#' comes 1 times, not 2, in stdout."),
        (("1\ntracing 3\ntracing 3", "1\ntracing 3\ntracing 3", "1\ntracing 3"), f"{SAME}1 "),
        (("a 1\na 2", "a 1", "a 1\na 2"), "Two runs of it agree on no number, so nothing can"),
        (("a", "a", "a"), "Two runs of it agree on no number"),
        (("1|2", "1|2", "1|2"), f"{SAME}2 "),
        (("1|2", "1|2", "1|3"), f"{OTHER}stderr: 2 -> 3"),
        (("1|2", "1|2", "1|warning\n2"), f"{SAME}2 "),
        (("1||f=1", "1||f=1", "1||f=1"), f"{SAME}2 "),
        (
            ("||f=1 g=1", "||f=1 g=2", "||f=1 g=3"),
            f"{SAME}1 that it prints or writes. What differs",
        ),
        (("1||f=1", "1||f=1", "1||f=2"), f"{OTHER}f: 1 -> 2"),
        (("1||f=1", "1||f=1", "1||"), f"{ELSE}'#' comes 0 times, not 1, in f."),
        (("||f=\0a", "||f=\0a", "||f=\0a"), f"{SAME}1 "),
        (("||f=\0a", "||f=\0a", "||f=\0b"), f"{OTHER}f: "),
    ],
)
def test_numbers_that_are_printed_and_written_are_compared(runs, told):
    outputs = []
    for each in runs:
        stdout, stderr, files = (*each.split("|"), "", "")[:3]
        texts = dict(file.split("=") for file in files.split(" ") if file)
        texts |= {"stdout": stdout, "stderr": stderr}
        outputs.append(Output({name: text.encode() for name, text in texts.items()}))
    is_same, sentence = outputs_compared(*outputs)
    assert told in sentence
    assert is_same == (SAME in sentence)


def test_a_file_that_is_no_text_counts_by_its_digest():
    runs = (Output({"w": bytes([200, value])}) for value in (1, 1, 2))
    assert f"{OTHER}w: " in outputs_compared(*runs)[1]


def test_what_is_printed_is_passed_on_as_it_is(capfdbinary):
    everything = bytes(range(256))
    with (output := Output()).reading(stdout=io.BytesIO(everything)):
        pass
    assert capfdbinary.readouterr().out == output.texts["stdout"] == everything


def test_files_that_a_run_writes_are_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("as it was")
    (tmp_path / ".cache").mkdir()
    with (output := Output()).noting_files():
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "losses.csv").write_text("0.5")
        (tmp_path / ".cache" / "hidden").write_text("0.5")
    assert output.texts == {os.path.join("results", "losses.csv"): b"0.5"}


def test_only_files_that_would_change_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    for name, source in {
        "train.py": "import model, numpy\nfrom inner import optim\n",
        "model.py": "import optax\n",
        "inner/optim.py": "from optax import adam\n",
        "other.py": "import optax\n",
    }.items():
        (tmp_path / name).write_text(source)
    assert files_to_fix("train.py --n 1") == ["inner/optim.py", "model.py"]
    assert files_to_fix("-m inner.optim --n 1") == ["inner/optim.py"]
    assert files_to_fix("a command") == []
    (tmp_path / "inner" / "train.py").write_text("import optax\nimport inner.optim\n")
    assert files_to_fix("inner/train.py") == ["inner/optim.py", "inner/train.py"]
    (tmp_path / "inner" / "optim.py").write_text("import optax\nvars(optax)\n")
    assert files_to_fix("inner/train.py") == []


@pytest.mark.slow
def test_compares_with_a_run_with_canonopts_factories(tmp_path):
    files = {form: tmp_path / f"report.{form}" for form in ("json", "html")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    done = run(*DOCTOR, "--try", *options, "rebuilt.py")
    first, second, third = done.stdout.splitlines()
    assert first == second == third
    sentence = "With canonopt's factories the numbers are the same: "
    assert re.search(rf"\n\n{sentence}\d+ .*\ncanonopt doctor: rebuilt.py\n", done.stderr)
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
            "With canonopt's factories there are other numbers, first in stdout: -1.0 -> -0.5; "
            "step goes on with an old value, since call 2: runtime.weight was 1.0 when it was",
        ),
    ],
)
def test_says_what_is_not_the_same_or_cannot_be_compared(command, told, tmp_path):
    for name, source in SCRIPTS.items():
        (tmp_path / name).write_text(source)
    done = run(*DOCTOR, "--try", *command, cwd=tmp_path)
    assert told in done.stderr
    assert SAME not in done.stderr
    assert "canonopt fix" not in done.stderr
