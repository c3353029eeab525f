"""`CompileLog`: what it keeps apart, counts together and prints."""

import re

import jax
import numpy as np
import pytest

import canonopt
from canonopt._recompiles.log import MAX_ENTRIES

from ..support.counting import fresh, line_marked
from ..support.scenarios import ones


def test_failed_traces():
    @jax.jit
    def step(x):
        raise ValueError("no such thing")

    with canonopt.compile_log() as log:
        for _ in range(2):
            with pytest.raises(ValueError, match="no such thing"):
                step(ones(3))
    assert (log["step"].traces, log["step"].compiles) == (2, 0)
    assert log["step"].entries[0].error == "ValueError: no such thing"
    (cause,) = log["step"].causes()
    assert cause.title == "failed while traced, twice"
    assert (cause.is_expected, cause.is_avoidable) == (False, False)
    assert "step failed while traced, twice:\n  ValueError: no such thing" in str(log)


def test_seconds_of_recompiles_that_are_not_kept_are_lost_too():
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        for size in range(1, MAX_ENTRIES + 3):
            jax.eval_shape(step, ones(size))
    (found,) = log.functions
    assert len(found.entries) == MAX_ENTRIES < found.traces and MAX_ENTRIES <= 64
    assert found.lost_seconds == pytest.approx(found.seconds - found.entries[0].seconds)


def test_a_function_that_was_not_traced_has_zeros_and_an_unknown_name_raises():
    step = jax.jit(fresh("step")[0])
    step(ones(2))

    def unused():
        class Layer: ...

        def not_run_yet(): ...

    with canonopt.compile_log() as log:
        step(ones(2))  # cached
        jax.jit(fresh("evaluate")[0])(ones(2))
    for name in ("step", "unused", "not_run_yet", "Layer", "train.py:12"):
        assert (log[name].traces, log[name].compiles) == (0, 0)
    for name, fix in [("evalute", "Write 'evaluate'."), ("qqq", "Write the name of a function, ")]:
        text = f"No function has the name '{name}'. Traced or compiled: evaluate. {fix}"
        with pytest.raises(canonopt.errors.UnknownFunctionError, match=re.escape(text)) as caught:
            log[name]
        assert isinstance(caught.value, KeyError)


def test_the_repr_of_a_function_and_of_an_entry_is_short():
    step = jax.jit(lambda tree: tree)
    with canonopt.compile_log() as log:
        for size in (1, 2):
            step({f"k{i}": ones(size) for i in range(99)})
    print(log)
    assert "traces=2" in repr(log["<lambda>"])
    assert max(len(repr(each)) for each in (log["<lambda>"], *log["<lambda>"].entries)) < 1000


def test_functions_of_one_line_are_told_apart():
    def make():
        namespace = {}
        exec("pair = (lambda x: x, lambda x: x)", namespace)
        return namespace["pair"]

    with canonopt.compile_log() as log:
        for _ in range(3):
            for function in make():
                jax.jit(function)(ones(3))
    assert [(found.name, found.traces) for found in log.functions] == [("<lambda>", 3)] * 2
    assert log["<lambda>"].traces == 6


def test_a_log_is_printed_as_a_table():
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        for size in (1, 2, 3):
            step(ones(size))  # three sizes
    lines = str(log).splitlines()
    head = ["function", "traces", "compiles", "cache hits", "seconds", "defined at"]
    assert re.split(r"  +", lines[0]) == head
    assert lines[1].split()[:4] == ["step", "3", "3", "0"]
    assert lines[-5:] == [
        "step was traced and compiled again, twice:",
        "  x: shape: float32[1] -> float32[2]",
        "  x grows by one each time",
        f"  called at {line_marked(__file__, 'three sizes')}",
        "  hint: pad or drop what is left over, so that x has one shape",
    ]


def test_entries_with_one_cause_are_reported_once():
    step = jax.jit(fresh()[0])
    with canonopt.compile_log() as log:
        for size in range(1, 5):
            step(ones(size))
        step(ones(4).astype(np.int8))
        step(jax.device_put(ones(4), jax.devices()[0]))
    causes = log["step"].causes()
    assert [(cause.title, [change.kind for change in cause.changes]) for cause in causes] == [
        ("was traced and compiled again, 3 times", ["shape"]),
        ("was traced and compiled again, once", ["dtype"]),
        ("was compiled again, once", ["commitment"]),
    ]
    assert [sum(e.seconds for e in log["step"].recompiles)] == pytest.approx(
        [sum(cause.seconds for cause in causes)]
    )
