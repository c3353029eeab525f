"""A line that is printed is pasted as it was printed, and then the recompile is gone."""

import warnings

import jax
import numpy as np
import pytest

import canonopt

from ..support.pasting import SCRIPTS, Script

CAN_BE_PASTED = [script for script in SCRIPTS if script.fixes]
WORDS_ONLY = [script for script in SCRIPTS if not script.fixes]


def run(source, path):
    """Runs a script, and gives the log of its step and the numbers."""
    path.write_text(source)
    namespace = {"__name__": path.stem}
    x64 = jax.config.jax_enable_x64
    try:
        with canonopt.compile_log() as log, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="(flax|orbax)")
            exec(compile(source, str(path), "exec"), namespace)
    finally:
        jax.config.update("jax_enable_x64", x64)
    (step,) = (f for f in log.functions if f.name in ("step", "apply"))
    return step, namespace["results"]


def printed(step, label):
    lines = [line for cause in step.causes() for line in cause.lines(in_full=True)]
    return [line.removeprefix(label) for line in lines if line.startswith(label)]


@pytest.mark.parametrize("script", CAN_BE_PASTED, ids=lambda script: script.name)
def test_the_line_that_is_printed_works_when_pasted(script: Script, tmp_path):
    step, before = run(script.source, tmp_path / "script.py")
    assert step.traces + step.compiles > 2
    lines = list(dict.fromkeys(printed(step, "write: ")))
    assert lines == list(script.fixes)
    fixed, after = run(script.with_lines(lines), tmp_path / "fixed.py")
    assert (fixed.traces, fixed.compiles) == (1, 1), str(fixed.entries[-1].told)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert list(dict.fromkeys(printed(step, "hint: "))) == ([script.hint] if script.hint else [])


@pytest.mark.parametrize("script", WORDS_ONLY, ids=lambda script: script.name)
def test_where_no_line_is_sure_to_work_there_are_words(script: Script, tmp_path):
    step, _ = run(script.source, tmp_path / "script.py")
    assert step.traces + step.compiles > 2
    assert printed(step, "write: ") == []
    assert list(dict.fromkeys(printed(step, "hint: "))) == [script.hint]
