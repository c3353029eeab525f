"""The facts of a report about what was compiled."""

import re

import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import as_text
from canonopt._recompiles import Entry, FunctionLog

from ..support.counting import line_marked
from ..support.doctor import report_of, report_on

AVOIDABLE = None  # has causes in place of a verdict
ONCE = "No function was traced or compiled more than once."
FEW = "Nothing was traced or compiled again that need not be."


def grown(*sizes):
    """A function that calls a new `step` with arrays of these sizes."""

    def run():
        @jax.jit
        def step(x):
            return x + 1

        for size in sizes:
            step(jnp.ones(size))

    return run


def traced_inside_first():
    predict = jax.jit(lambda x: x + 1)
    jax.jit(lambda x: predict(x) * 2)(jnp.ones(3))
    predict(jnp.ones(3))


def differentiated():
    gradient = jax.value_and_grad(jax.jit(lambda x: jnp.sum(x**2)))
    for _ in range(3):
        gradient(jnp.ones(3))


def scanned():
    for _ in range(3):
        jax.lax.scan(lambda c, x: (c + x, x), 0.0, jnp.ones(3))  # eager


def traced_only():
    @jax.jit
    def step(x):
        return x + 1

    jax.eval_shape(step, jnp.ones(1))
    step(jnp.ones(2))  # traced again, and compiled for the first time
    jax.eval_shape(step, jnp.ones(3))  # traced again


GROWN = "was traced and compiled again"


@pytest.mark.parametrize(
    ("runs", "verdict", "titles", "lines"),
    [
        ([lambda: None], "No function of the script was compiled.", [], []),
        ([traced_inside_first], ONCE, [], []),
        ([differentiated], ONCE, [], []),
        ([grown(1), grown(2)], ONCE, [], []),
        (
            [grown(8, 5)],
            FEW,
            [f"{GROWN}, once"],
            ["    expected: 2 programs are few, x: shape: float32[8] -> float32[5]"],
        ),
        ([traced_only], FEW, ["was traced again, twice"], []),
        ([grown(1, 2), grown(3, 4)], FEW, [f"{GROWN}, twice, in all processes"], []),
        ([grown(1, 2, 3)] * 2 + [grown(4)], AVOIDABLE, [f"{GROWN}, 4 times, in p0, p1"], []),
        ([grown(1, 2)] * 9 + [grown(1)], FEW, [f"{GROWN}, 9 times, in 9 processes"], []),
        (
            [scanned],
            AVOIDABLE,
            ["compiled scan again, twice"],
            [
                "    the shapes are the same: lax.scan gets another function each time",
                "    hint: canonopt.jit around the whole, or give lax.scan one function, made once",
            ],
        ),
    ],
)
def test_a_cause_is_told_once_and_what_need_not_be_is_found(runs, verdict, titles, lines):
    report = report_of(*runs)
    text = as_text(report)
    assert (report.verdict, bool(report.repeated)) == (verdict, verdict is AVOIDABLE)
    assert (report.lost_seconds > 0) == (verdict is AVOIDABLE)
    assert verdict is None or f"\n{verdict}\n" in text
    assert [
        report.title(*cause) for function in report.told for cause in function.causes()
    ] == titles
    assert {*lines} <= {*text.splitlines()}
    assert "details omitted" not in text and "write:" not in text


def test_a_line_outside_of_a_jit_is_in_the_table():
    found = report_of(scanned)
    (line,) = found.repeated
    assert (line.place, found.functions) == (line_marked(__file__, "eager"), [])
    assert re.search(rf"^{line.name} +3 ", as_text(found), re.MULTILINE)


def test_the_table_has_the_counts_of_each_process():
    jax.clear_caches()  # so that there are helpers, too
    report = report_of(grown(1, 2, 3), grown(1, 2, 3), grown(4))
    (titles, _), (cells, is_repeated), (helpers, _) = report.table
    assert titles == ("function", "traces/compiles in", "seconds", "lost", "defined at")
    assert cells[:2] == ("step", "3/3 p0, p1, 1/1 p2") and is_repeated
    assert re.fullmatch(r"JAX and libraries: \d+ lines?", helpers[0])
    text = as_text(report)
    assert "\nprocesses: p0 (pid 1) on host, p1 (pid 1) on host, p2 (pid 1) on host\n" in text
    report = report_of(*[grown(1)] * 9, grown(1, 2))
    assert report.table[1][0][1] == "1/1 9 processes, 2/2 p9"
    assert "p7 (pid 1) on host, and 2 more" in (report.legend or "")


def test_the_most_expensive_function_comes_first_and_says_what_it_omits():
    def log(name, seconds, traces=2):
        entry = Entry(None, 0.0, True, trace_seconds=seconds, traced_again=True)
        return FunctionLog(name, None, traces=traces, entries=[entry] * 2)

    report = report_on([log("cheap", 1.0), log("dear", 3.0, traces=100), log("medium", 2.0)])
    assert [function.name for function in report.told] == ["dear", "medium", "cheap"]
    assert [cells[0] for cells, _ in report.table[1:]] == ["cheap", "dear", "medium"]
    assert report.lost_seconds == 12.0
    assert "\n  and 98 times more, details omitted\n" in as_text(report)
