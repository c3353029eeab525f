"""`canonopt fix` puts canonopt's names in place of Optax's, and changes nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from canonopt.__main__ import main
from canonopt._doctor.fixing import fixed

# Source code and what it becomes. The name `tx` is an optimizer in most.
CHANGES = {
    "an attribute": (
        "import optax\ntx = optax.adam(1e-3)\n",
        "import canonopt\ntx = canonopt.adam(1e-3)\n",
    ),
    "what canonopt does not have": (
        "import optax\ntx: optax.GradientTransformation = optax.sgd(0.1)\n",
        "import canonopt\nimport optax\ntx: optax.GradientTransformation = canonopt.sgd(0.1)\n",
    ),
    "other names": (
        "import optax as ox\nimport optax.contrib as oc\n"
        "tx = ox.chain(ox.clip(1.0), oc.prodigy())\n",
        "import canonopt\ntx = canonopt.chain(canonopt.clip(1.0), canonopt.contrib.prodigy())\n",
    ),
    "a link to Optax": (
        "import optax  # https://github.com/google-deepmind/optax\ntx = optax.adam(1e-3)\n",
        "import canonopt\ntx = canonopt.adam(1e-3)\n",
    ),
    "several imports in one statement": (
        "import jax, optax  # both\ntx = optax.adam(1e-3)\n",
        "import canonopt\nimport jax  # both\ntx = canonopt.adam(1e-3)\n",
    ),
    "names of a module": (
        "from optax import adam as a, apply_updates\ntx = a(1e-3)\n",
        "from canonopt import adam as a\nfrom optax import apply_updates\ntx = a(1e-3)\n",
    ),
    "names in brackets": (
        "from optax import (\n    adamw,  # the best\n)\ntx = adamw(1e-3)\n",
        "from canonopt import (\n    adamw,  # the best\n)\ntx = adamw(1e-3)\n",
    ),
    "some of the names in brackets": (
        "from optax import (\n    sgd,\n    global_norm,  # of a tree\n)\ntx = sgd(0.1)\n",
        "from canonopt import sgd\nfrom optax import (\n    global_norm,  # of a tree\n)\n"
        "tx = sgd(0.1)\n",
    ),
    "a module of a module": (
        "from optax import contrib, transforms\n"
        "tx = contrib.sgd if False else transforms.trace(0.9)\n",
        "import canonopt\nfrom optax import contrib\n"
        "tx = contrib.sgd if False else canonopt.trace(0.9)\n",
    ),
    "a name and a module": (
        "from optax import adam, contrib\ntx = contrib.prodigy() or adam(1e-3)\n",
        "import canonopt\nfrom canonopt import adam\n"
        "tx = canonopt.contrib.prodigy() or adam(1e-3)\n",
    ),
    "contrib by its name": (
        "from optax.contrib import prodigy\ntx = prodigy()\n",
        "from canonopt.contrib import prodigy\ntx = prodigy()\n",
    ),
    "in functions": (
        "def f():\n    import optax\n    return optax.adam(1e-3)\n\ntx = f()\n",
        "def f():\n    import canonopt\n    return canonopt.adam(1e-3)\n\ntx = f()\n",
    ),
    "canonopt is there": (
        "import canonopt\nimport optax\ntx = canonopt.chain(optax.adam(1e-3))\n",
        "import canonopt\ntx = canonopt.chain(canonopt.adam(1e-3))\n",
    ),
    "comments and docstrings": (
        '"""Doc."""\n# Optimizers.\nimport optax  # of DeepMind\n\n# tx\n'
        "tx = optax.adam(1e-3)  # adam\n",
        '"""Doc."""\n# Optimizers.\nimport canonopt  # of DeepMind\n\n# tx\n'
        "tx = canonopt.adam(1e-3)  # adam\n",
    ),
    "a factory that is passed on": (
        "import optax\ntx = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)\n",
        "import canonopt\ntx = canonopt.inject_hyperparams(canonopt.adam)(learning_rate=1e-3)\n",
    ),
    "exported": (
        "import optax\n__all__ = ['optax', 'tx']\ntx = optax.adam(1e-3)\n",
        "import canonopt\nimport optax\n__all__ = ['optax', 'tx']\ntx = canonopt.adam(1e-3)\n",
    ),
    "ends of lines and an encoding": (
        "# coding: latin-1\r\nimport optax\r\nname = 'é'\r\ntx = optax.adam(1e-3)",
        "# coding: latin-1\r\nimport canonopt\r\nname = 'é'\r\ntx = canonopt.adam(1e-3)",
    ),
}


def updates(source):
    """What the optimizer of a program makes of some gradients."""
    variables = {}
    exec(compile(source, "program", "exec"), variables)
    params = {"w": np.ones((2, 2), np.float32), "b": np.ones(2, np.float32)}
    tx = variables["tx"]
    return tx.update(params, tx.init(params), params)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_what_a_user_would_write(name):
    before, after = (text.encode("latin-1") for text in CHANGES[name])
    found = fixed(before)
    assert found.after.decode("latin-1") == after.decode("latin-1")
    assert not found.notes
    assert fixed(after).after == after
    jax.tree.map(np.testing.assert_array_equal, updates(before), updates(after))


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("x = 1\n", None),
        ("import optax\noptax.apply_updates(1, 2)\n", None),
        ("def f(optax):\n    return optax.adam(1)\n", None),
        ("import optax\nuse(optax)\n", "line 2: the module optax is passed on: left as it is"),
        ("import optax\noptax.adam = 1\n", "line 2: optax.adam is assigned to: left as it is"),
        (
            "from optax import *\nadam(1)\n",
            "line 1: from optax import * does not say what it imports: left as it is",
        ),
        (
            "try:\n    import optax\nexcept ImportError:\n    optax = None\noptax.adam(1)\n",
            "line 2: optax may be one of several things: left as it is",
        ),
        (
            "if True: import optax; tx = optax.adam(1)\n",
            "line 1: other code is on the line of this import: left as it is",
        ),
        (
            "import mine as canonopt, optax\noptax.adam(1)\n",
            "canonopt is the name of something else in this file, so nothing is changed",
        ),
    ],
)
def test_what_is_not_sure_stays(source, note):
    found = fixed(source.encode())
    assert found.after == found.before
    assert found.notes == (() if note is None else (note,))


BEFORE, AFTER = CHANGES["an attribute"]


def fix(*arguments):
    return main(["fix", *arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("train.py", "inner/model.py", ".venv/lib.py", "inner/build/made.py"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(BEFORE)
    Path("inner/other.py").write_text("x = 1\n")
    return tmp_path


def test_prints_a_diff_that_can_be_applied(folder, capsys):
    assert not fix("train.py", "inner")
    diff = capsys.readouterr().out
    assert Path("train.py").read_text() == BEFORE
    assert shutil.which("git"), "git is needed"
    subprocess.run(["git", "apply"], input=diff, text=True, check=True)
    for path in ("train.py", "inner/model.py"):
        assert Path(path).read_text() == AFTER
    assert Path("inner/build/made.py").read_text() == BEFORE


def test_writes_only_what_has_changed(folder, capsys):
    other = Path("inner/other.py").stat().st_mtime_ns
    assert not fix("--write", ".")
    assert capsys.readouterr().out.splitlines() == ["inner/model.py", "train.py"]
    assert Path("train.py").read_text() == AFTER
    assert Path(".venv/lib.py").read_text() == BEFORE
    assert Path("inner/other.py").stat().st_mtime_ns == other


def test_names_files_that_it_cannot_read(folder, capsys):
    Path("broken.py").write_text("x = (\n")
    assert fix("--write", "broken.py", "missing.py", "train.py") == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("canonopt fix: broken.py: Syntax Error @ 1:1. parser error")
    assert errors[1].startswith("canonopt fix: missing.py: [Errno 2] No such file or directory")
    assert Path("broken.py").read_text() == "x = (\n"
    assert Path("train.py").read_text() == AFTER


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "libcst", None)
    monkeypatch.delitem(sys.modules, "canonopt._doctor.fixing")
    assert fix("train.py") == "canonopt fix needs libcst. Write: pip install 'canonopt[fix]'"
