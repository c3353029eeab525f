"""`canonopt fix` makes Optax's imports canonopt's, and changes nothing else."""

import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest

from canonopt.__main__ import main
from canonopt._doctor.fixing import fixed

from ..support.generated import rows

LATIN = "ends of lines, a form feed and an encoding"
# What source code becomes. The name `tx` is an optimizer in most.
CHANGED = {
    "a module": ("import canonopt as optax\ntx: optax.GradientTransformation = optax.adam(1e-3)\n"),
    "other names": (
        "import canonopt as ox\nimport canonopt.contrib as oc\n"
        "tx = ox.chain(ox.clip(1.0), oc.prodigy())\n"
    ),
    "several imports in one statement, and statements in one line": (
        "import jax, canonopt as optax  # both\n"
        "import numpy; import canonopt as optax; tx = optax.adam(1e-3)\n"
    ),
    "names of a module": "from canonopt import adam as a, apply_updates\ntx = a(1e-3)\n",
    "names in brackets": (
        "from canonopt import (\n    # The best\n    adamw,  # of all\n)\ntx = adamw(1e-3)\n"
    ),
    "modules of a module": (
        "from canonopt import contrib, transforms\nfrom \\\n    canonopt.contrib import sam\n"
        "tx = contrib.prodigy() if sam else transforms.trace(0.9)\n"
    ),
    "in functions and classes": (
        "def f():\n    import canonopt as optax\n    return optax.adam(1e-3)\n\n"
        "class C:\n    import canonopt as optax\n    tx = optax.sgd(0.1)\n\ntx = f()\n"
    ),
    "where it may be missing": (
        "try:\n    import canonopt as optax\nexcept ImportError:\n    optax = None\n"
        "tx = None if optax is None else optax.adam(1e-3)\n"
    ),
    "by a name in a text": (
        "import canonopt as optax\n__all__ = ['optax', 'tx']\ntx = getattr(optax, 'adam')(1e-3)\n"
    ),
    "comments and docstrings": (
        '"""import optax"""\n# Optimizers.\nimport canonopt as optax  # github.com/optax\n\n# tx\n'
        "tx = optax.adam(1e-3)  # adam\n"
    ),
    LATIN: (
        "# coding: latin-1\r\nname = 'é'; import canonopt as optax\r\n\f\r\ntx = optax.adam(1e-3)"
    ),
}
# Source code, and what it becomes.
CHANGES = {
    name: (after.replace("canonopt as optax", "optax").replace("canonopt", "optax"), after)
    for name, after in CHANGED.items()
} | {
    "a module and one of its modules": (
        "import optax\nimport optax.losses\ntx = optax.adam(optax.losses.l2_loss(0.1))\n",
        "import canonopt as optax\nimport canonopt as optax\n"
        "tx = optax.adam(optax.losses.l2_loss(0.1))\n",
    )
}


def updates(source):
    variables = {}
    exec(compile(source, "program", "exec"), variables)
    params = {"w": np.ones((2, 2), np.float32), "b": np.ones(2, np.float32)}
    tx = variables["tx"]
    return tx.update(params, tx.init(params), params)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_what_a_user_would_write(name):
    before, after = (text.encode("latin-1") for text in CHANGES[name])
    found, notes = fixed(before)
    assert found.decode("latin-1") == after.decode("latin-1")
    assert not notes
    assert fixed(after) == (after, [])
    jax.tree.map(np.testing.assert_array_equal, updates(before), updates(after))


# Source code in which nothing is changed, and the note on it, if there is one.
UNSURE = r"""
x = 1 |
def f(optax):\n    return optax.adam(1) |
from .optax import adam |
import optax\nuse(optax) | line 2: the module optax is used as a value
from optax import losses\nx = losses | line 2: the module optax.losses is used as a value
import optax\noptax.adam = 1 | line 2: optax.adam is assigned to
import optax\noptax._src.base | line 2: canonopt has no optax._src
import optax\noptax.__version__ | line 2: canonopt has no optax.__version__
import optax\ngetattr(optax, '__version__') | line 2: the module optax is used as a value
import optax\ngetattr(cfg, 'adam', optax) | line 2: the module optax is used as a value
from optax._src import base\nimport optax | line 1: canonopt has no optax._src
import optax.experimental.aggregating as a | \
    line 1: canonopt has no optax.experimental.aggregating
import optax._src.base | line 1: canonopt has no optax._src.base
from optax import *\nadam(1) | line 1: from optax import * does not say what it imports
import optax\nimportlib.import_module('optax.contrib') | \
    line 2: the string 'optax.contrib' names Optax
import optax\nsys.modules['optax'].adam | line 2: the string 'optax' names Optax
import optax\nmine is optax | line 2: the module optax is used as a value
try:\n    import canonopt as optax\nexcept ImportError:\n    import optax | \
    line 4: an import of canonopt already binds optax
try:\n    from canonopt import adam\nexcept ImportError:\n    from optax import adam | \
    line 4: an import of canonopt already binds adam
import optax\nmock.patch(target='optax.adam') | line 2: the string 'optax.adam' names Optax
"""


@pytest.mark.parametrize(("text", "note"), rows(UNSURE))
def test_what_is_not_sure_stays(text, note):
    source = f"{text}\n".replace("\\n", "\n").encode()
    note = note and f"{note}: no import of this file is changed"
    assert fixed(source) == (source, [note] if note else [])


BEFORE, AFTER = CHANGES["a module"]


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


def test_prints_a_diff_that_can_be_applied(folder, capfdbinary):
    before, after = (text.encode("latin-1") for text in CHANGES[LATIN])
    Path("latin.py").write_bytes(before)
    assert not fix("train.py", "inner", "../" + folder.name + "/latin.py")
    diff = capfdbinary.readouterr().out
    assert Path("train.py").read_text() == BEFORE
    assert shutil.which("git"), "git is needed"
    subprocess.run(["git", "apply"], input=diff, check=True)
    assert Path("latin.py").read_bytes() == after
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


def test_patches_from_a_folder_below_the_repository_and_through_links(folder, capsys, monkeypatch):
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path("inner/inner").mkdir()
    Path("inner/inner/model.py").write_text(BEFORE)
    Path("inner/link.py").symlink_to("model.py")
    monkeypatch.chdir("inner")
    assert not fix("inner/model.py", "link.py", "model.py")
    diff = capsys.readouterr().out
    subprocess.run(["git", "apply"], input=diff, text=True, check=True)
    for path in ("model.py", "inner/model.py"):
        assert Path(path).read_text() == AFTER


def test_names_files_that_it_cannot_read(folder, capsys):
    Path("broken.py").write_text("x = (\n")
    Path("train.ipynb").write_text("{}")
    Path("deep.py").write_text(f"x = {'1 + ' * 20_000}1\n")
    Path("deeper.py").write_text(f"x = {'-' * 20_000}1\n")
    Path("long.py").write_text(f"import optax\nx = 0x{'f' * 5_000}\n")
    Path("cp932.py").write_bytes(b"# coding: cp932\nimport optax  # \x87\x90\n")
    assert fix("--write", "broken.py", "missing.py", "train.ipynb", "train.py") == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("canonopt fix: broken.py: '(' was never closed")
    assert errors[1].startswith("canonopt fix: missing.py: [Errno 2] No such file or directory")
    assert errors[2] == (
        "canonopt fix: train.ipynb: it is a notebook. In a cell, write: import canonopt as optax"
    )
    assert Path("broken.py").read_text() == "x = (\n"
    assert Path("train.py").read_text() == AFTER
    assert fix("deep.py", "deeper.py", "cp932.py") == 1
    deep, deeper, encoded = capsys.readouterr().err.splitlines()
    assert deeper.startswith("canonopt fix: deeper.py: ")
    Path("escape.py").write_text('import optax\npattern = "\\d"\n')
    assert fix("long.py", "escape.py") == 0
    assert deep.startswith("canonopt fix: deep.py: maximum recursion depth exceeded")
    reason = "the file changes when it is decoded and encoded again as cp932"
    assert encoded == f"canonopt fix: cp932.py: {reason}"
