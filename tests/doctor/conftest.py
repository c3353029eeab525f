"""Reports that several test files look at."""

import json
from typing import Any, NamedTuple

import attrs
import jax
import jax.numpy as jnp
import pytest

from ..support.doctor import HOSTILE, doctored, report_of


class Written(NamedTuple):
    json: dict[str, Any]
    html: str


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The files that the doctor writes for a script."""
    folder = tmp_path_factory.mktemp("reports")
    files = "--json", folder / "report.json", f"--html={folder / 'report.html'}"
    *_, done = doctored(*files, "recompiles.py", "fresh_lambda", "<&\"'>")
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "report.json").read_text())
    return Written(found, (folder / "report.html").read_text())


@pytest.fixture(scope="session")
def hostile():
    """A report with markup wherever a script may write into it, and with much to say."""
    variables = {}
    code = "def function(x, n):\n    if n == 0:\n        raise ValueError(message)"
    exec(compile(code, HOSTILE, "exec"), {"message": HOSTILE}, variables)
    function = variables["function"]
    function.__name__ = HOSTILE
    step = jax.jit(function, static_argnames="n")

    def run():
        for size in range(1, 5):
            step({f"{HOSTILE}{i}": jnp.ones(size) for i in range(20)}, n=HOSTILE)
        with pytest.raises(ValueError, match="alert"):
            step({}, n=0)

    return attrs.evolve(report_of(run), command=HOSTILE, notes=[HOSTILE])
