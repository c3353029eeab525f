"""The examples, run as a newcomer runs them."""

import json
import pathlib
import re

import pytest

from .support import doctor

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"

# "canonopt  adam(2e-3)   1   1   2.4   96.4%": traces, compiles, seconds, held-out accuracy.
ROW = re.compile(r"(canonopt|optax) .* (\d+) +(\d+) +[\d.]+ +([\d.]+)%")


def run(name, *options, arguments=(), stderr=False):
    command = [*doctor.PYTHON, *options, EXAMPLES / name, *arguments]
    # Compiles are counted, so they need not be good ones.
    settings = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = doctor.run(*command, cwd=EXAMPLES.parent, env=settings, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr if stderr else done.stdout


def test_quickstart_learns_and_compiles_once_for_each_optimizer():
    pytest.importorskip("sklearn")
    pytest.importorskip("rich")
    output = run("quickstart.py")
    rows = ROW.findall(output)
    assert [row[0] for row in rows] == ["canonopt"] * 3 + ["optax"] * 3, output
    for library, traces, compiles, accuracy in rows:
        assert float(accuracy) >= 95.0
        assert traces == compiles
        assert (int(traces) == 1) is (library == "canonopt")


def test_a_sweep_compiles_once_for_all_learning_rates(tmp_path):
    for package in ("sklearn", "rich", "matplotlib"):
        pytest.importorskip(package)
    picture = tmp_path / "sweep.png"
    output = run("sweep.py", arguments=(picture, "--values", "5"))
    rows = re.findall(r"adamw.* (\d+) +(\d+) +[\d.]+ +([\d.]+)%", output)
    assert [row[:2] for row in rows] == [("5", "5"), ("1", "1"), ("1", "1")], output
    assert all(float(row[2]) >= 85.0 for row in rows), output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_finetuning_makes_state_for_the_head_alone_and_compiles_once():
    pytest.importorskip("sklearn")
    output = run("freeze_and_finetune.py")
    phase = re.compile(r"moments of (\d+) weights, (\d+) trace.*, (\d+) compile.*, ([\d.]+)%")
    phases = phase.findall(output)
    assert [row[:3] for row in phases] == [("19210", "1", "1"), ("2570", "1", "1")], output
    assert all(float(row[3]) >= 95.0 for row in phases), output


def test_a_sharded_state_is_where_the_parameters_are_and_compiles_once():
    output = run("sharded.py")
    moments, counter, ours, theirs = output.splitlines()
    # Older releases of jax write `PartitionSpec` in full.
    assert re.fullmatch(r"moments of up: P\w*\(None, 'model'\)", moments), output
    assert re.fullmatch(r"counter: P\w*\(\) on 8 devices", counter), output
    assert re.match(r"init_like_grads: 1 trace\(s\), 1 compile\(s\)", ours), output
    assert re.match(r"optim.init: 2 trace\(s\), 2 compile\(s\)", theirs), output
    # The states differ, the losses do not.
    assert ours.rpartition("loss")[2] == theirs.rpartition("loss")[2], output


def test_a_run_that_was_killed_goes_on_with_the_same_numbers_and_one_compile_a_process():
    output = run("checkpoint_restart.py")
    row = re.compile(r"steps (\d+) to (\d+): (\d) trace\(s\), (\d) compile\(s\), loss (\S+)")
    killed, restarted, whole = row.findall(output)
    assert killed[:4] == ("1", "50", "1", "1"), output
    assert restarted[:4] == ("41", "60", "1", "1"), output
    assert whole[:4] == ("1", "60", "0", "0"), output
    assert restarted[4] == whole[4] and output.endswith("bit for bit: True\n"), output


# In one process, without the start of one for each. Of the pod, the state of the whole model, and a
# step of a smaller one on eight devices of a CPU.
TOGETHER = """
import runpy, sys
for name in sys.argv[1:]:
    runpy.run_path(name, run_name="__main__")

sys.path.insert(0, EXAMPLES)
import jax, numpy as np, canonopt, pod
mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")).reshape(4, 2), ("data", "model"))
optim = canonopt.adamw(3e-4, b2=0.95, mu_dtype=np.float32)
model, opt_state, _ = pod.train_state(mesh, optim, pod.LAYERS)
print(sum(leaf.size for leaf in jax.tree.leaves(model)) // 10**9, "billion parameters")
print(round(pod.gigabytes_per_chip(opt_state) / pod.gigabytes_per_chip(model), 2), "times these")
pod.WIDTH, pod.HIDDEN, pod.KV_HEADS, pod.HEAD, pod.VOCABULARY, pod.LENGTH = 64, 128, 2, 16, 64, 16
arguments = pod.train_state(mesh, optim, layers=2)
compiled = pod.step.lower(*arguments, optim=optim, mesh=mesh).compile()
shardings = jax.tree.map(lambda leaf: leaf.sharding, arguments[:2])
print("placed as before:", compiled.output_shardings[:2] == shardings)
"""


def test_the_shorter_examples_compile_once():
    pytest.importorskip("flax")
    names = ("fit_function.py", "ensembles.py", "flax_nnx.py")
    code = f"EXAMPLES = {str(EXAMPLES)!r}\n{TOGETHER}"
    # Older releases of flax ask jax for names that are deprecated.
    options = ("-W", "ignore::DeprecationWarning", "-c", code)
    output = run(names[0], *options, arguments=[EXAMPLES / name for name in names[1:]])
    found = re.findall(r"(.*): (\d+) trace\(s\), (\d+) compile\(s\)", output)
    assert found == [
        ("canonopt.jit", "1", "1"),
        ("jax.jit", "5", "5"),
        ("train_ensemble", "1", "1"),
        ("3 seeds, canonopt", "1", "1"),
        ("3 seeds, optax", "3", "3"),
        ("on a device, init_like_grads", "1", "1"),
        ("on a device, optim.init", "1", "2"),
    ], output
    losses = dict(re.findall(r"(.*): .*, loss ([\d.]+)\n", output))
    assert losses["3 seeds, canonopt"] == losses["3 seeds, optax"], output
    assert losses["on a device, init_like_grads"] == losses["on a device, optim.init"], output
    pod = output.splitlines()[-3:]
    assert pod == ["68 billion parameters", "3.0 times these", "placed as before: True"], output


def test_the_doctor_finds_five_reasons_in_its_demo(tmp_path):
    report = tmp_path / "report.json"
    output = run("doctor_demo.py", "-m", "canonopt", "doctor", "--json", str(report))
    assert output == run("doctor_demo.py")  # the script's own output
    found = {}
    for finding in json.loads(report.read_text())["findings"]:
        (cause,) = finding["causes"]
        kinds = tuple(change["kind"] for change in cause["changes"])
        found[finding["name"]] = (finding["traces"], finding["compiles"], *kinds)
    assert found == {
        "sweep_step": (4, 4, "transformation"),
        "ensemble_step": (3, 3, "callable"),
        "evaluate": (2, 2, "shape"),
        "noisy_step": (5, 5, "static value"),
        "finetune_step": (1, 2, "commitment"),
    }


def test_readme_shows_what_the_doctor_prints():
    readme = (EXAMPLES.parent / "README.md").read_text("utf-8")
    # The table of the start is printed only if that takes long.
    _, _, shown = readme.partition("```text\ncanonopt doctor: train.py\n")
    shown, _, _ = shown.partition("what the start took")
    printed = run("train.py", "-m", "canonopt", "doctor", stderr=True)

    def without_numbers(text):
        return {" ".join(re.sub(r"\d[\d.]*", "N", line).split()) for line in text.splitlines()}

    assert without_numbers(shown) - without_numbers(printed) == set(), printed
    for text in shown, printed:
        assert re.search(r"^step +30 +30 +\d", text, re.MULTILINE), text
