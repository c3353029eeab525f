"""`canonopt doctor --try`: whether the script prints the same with canonopt's factories."""

import json
import re
import sys

import pytest

from ..support.doctor import DOCTOR, run

SAME = "With canonopt's factories it prints the same."


@pytest.mark.slow
def test_compares_with_a_run_with_canonopts_factories(tmp_path):
    files = {form: tmp_path / f"report.{form}" for form in ("json", "html")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    done = run(*DOCTOR, "--try", *options, "rebuilt.py")
    first, second = done.stdout.splitlines()
    assert first == second
    assert f"\n\n{SAME}\ncanonopt doctor: rebuilt.py\n" in done.stderr
    report = done.stderr.partition("\nWith canonopt's factories in Optax's place:\n")[2]
    assert re.search(r"^  step +6 -> 1 +6 -> 1 +[\d.]+ -> [\d.]+\n", report, re.MULTILINE)
    assert "\n  hint: canonopt fix FILE changes its imports so, or says why not\n" in report
    found = json.loads(files["json"].read_text())
    counts = [each["findings"][0]["compiles"] for each in (found, found["tried"])]
    assert (counts, found["tried"]["recompiled"]) == ([6, 1], False)
    assert "6 -&gt; 1" in files["html"].read_text()


SCRIPTS = {
    "timed.py": "import time, jax, optax; print('in', time.time())\n",
    "plain.py": "import jax, optax; print(1)\n",
    "fails.py": "import jax, optax; print(1); assert optax.adam.__module__.startswith('optax')\n",
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
    "broken.py": "import jax; jax.jit(lambda x: x)(1.0); exit(4)",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("timed.py",), "which may be a time or a random number."),
        (("--", "env", "-u", "PYTHONPATH", sys.executable, "plain.py"), "could not be watched"),
        (("fails.py",), "With canonopt's factories the exit status is 1."),
        (("broken.py",), "It failed, so it was not run again with canonopt's factories."),
        (
            ("stale.py",),
            "With canonopt's factories it prints something else, first '-0.5' in place of '-1.0', ",
        ),
    ],
)
def test_says_what_is_not_the_same_or_cannot_be_compared(command, told, tmp_path):
    for name, source in SCRIPTS.items():
        (tmp_path / name).write_text(source)
    done = run(*DOCTOR, "--try", *command, cwd=tmp_path)
    assert told in done.stderr
    assert ("step goes on with an old value" in done.stderr) == (command == ("stale.py",))
    assert SAME not in done.stderr
    assert "canonopt fix" not in done.stderr
