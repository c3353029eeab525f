"""What a report says of the functions in a log."""

import contextlib
import re
import runpy
import sys

import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import as_text
from canonopt._recompiles import Entry, FunctionLog

from ..support.counting import line_marked
from ..support.doctor import SCRIPTS, report_of, report_on

CANONICALIZE = "write: import canonopt; model = canonopt.canonicalize(model)"
SCENARIOS = {
    "fresh_optimizer": (
        "step",
        3,
        "optim: transformation: ",
        "write: import canonopt; optim = canonopt.canonicalize(",
    ),
    "state_of_the_whole_model": (
        "step",
        1,
        "ValueError: ",  # the rest depends on the versions of jax and equinox
        "hint: make opt_state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)",
    ),
    "weakly_typed_model": ("step", 2, "model.weight: weak type: ", CANONICALIZE),
    "widened_model": (
        "step",
        2,
        "model[0]: dtype: bfloat16[3] -> float32[3]",
        "write: canonopt.apply_updates in place of eqx.apply_updates",
    ),
    "fresh_lambda": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_partial": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_jit": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_vmap": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "growing_batch": ("total", 3, "x: shape: float32[1] -> float32[2]", "hint: pad "),
}


@pytest.fixture
def report_of_scenario(monkeypatch):
    def text(*arguments):
        script = str(SCRIPTS / "recompiles.py")
        monkeypatch.setattr(sys, "argv", [script, *arguments])

        def run():
            is_failure = arguments == ("state_of_the_whole_model",)
            with pytest.raises(ValueError) if is_failure else contextlib.nullcontext():
                runpy.run_path(script, run_name="__main__")

        return as_text(report_of(run))

    return text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_line_that_a_report_says_to_write_avoids_the_recompile(scenario, report_of_scenario):
    name, traces, cause, fix = SCENARIOS[scenario]
    report = report_of_scenario(scenario)
    assert re.search(rf"^{name} +{traces} ", report, re.MULTILINE), report
    assert cause in report and fix in report
    if traces > 2:  # grouped, since they have one cause
        assert len(re.findall("was traced and compiled again, twice", report)) == 1, report

    report = report_of_scenario(scenario, "fixed")
    assert re.search(rf"^{name} +1 +1 ", report, re.MULTILINE), report
    assert "No function was traced or compiled more than once." in report
    assert "write:" not in report


def test_the_report_says_for_how_many_traces_it_has_no_details():
    many = FunctionLog("step", None, traces=100, entries=[Entry(None, 0.0, True)] * 2)
    report = report_on([many])
    assert "\nstep\n  and 98 times more, details omitted\n" in as_text(report)


def test_the_most_expensive_function_comes_first():
    def function(name, seconds):
        entry = Entry(None, 0.0, True, trace_seconds=seconds, traced_again=True)
        return FunctionLog(name, None, traces=2, entries=[entry])

    functions = [function("cheap", 1.0), function("dear", 3.0), function("medium", 2.0)]
    report = report_on(functions)
    assert [section.name for section in report.sections] == ["dear", "medium", "cheap"]
    assert [cells[0] for cells, _ in report.table[1:]] == ["cheap", "dear", "medium"]
    assert report.lost_seconds == 6.0


def test_a_first_call_after_a_trace_inside_another_function_is_no_recompile():
    predict = jax.jit(lambda x: x + 1)
    step = jax.jit(lambda x: predict(x) * 2)
    found = report_of(lambda: (step(jnp.ones(3)), predict(jnp.ones(3))))
    assert (found.repeated, found.sections, found.lost_seconds) == ([], [], 0.0)
    text = as_text(found)
    assert "No function was traced or compiled more than once." in text
    assert "write:" not in text and "again," not in text


def test_a_script_that_compiles_nothing():
    report = report_of(lambda: None)
    assert (report.table, report.sections) == ([], [])
    assert "No function of the script was compiled." in as_text(report)


def test_a_gradient_of_a_jitted_function_is_no_recompile():
    gradient = jax.value_and_grad(jax.jit(lambda x: jnp.sum(x**2)))
    found = report_of(lambda: [gradient(jnp.ones(3)) for _ in range(3)])
    assert (found.repeated, found.sections, found.lost_seconds) == ([], [], 0.0)
    assert "details omitted" not in as_text(found)


def grown(*sizes):
    """A function that calls a new `step` with arrays of these sizes."""

    def run():
        @jax.jit
        def step(x):
            return x + 1

        for size in sizes:
            step(jnp.ones(size))

    return run


def test_counts_have_their_processes_and_a_cause_that_several_have_is_shown_once():
    jax.clear_caches()  # so that there are helpers, too
    report = report_of(grown(1, 2, 3), grown(1, 2, 3), grown(4))
    (titles, _), (cells, is_repeated), (helpers, _) = report.table
    assert titles == ("function", "traces/compiles in", "seconds", "lost", "defined at")
    assert cells[:2] == ("step", "3/3 p0, p1, 1/1 p2") and is_repeated
    assert re.fullmatch(r"JAX and libraries: \d+ lines?", helpers[0])
    (section,) = report.sections
    ((title, _),) = section.causes
    assert title == "was traced and compiled again, 4 times, in p0, p1"
    text = as_text(report)
    assert text.count("hint: pad") == 1
    assert "\nprocesses: p0 (pid 1) on host, p1 (pid 1) on host, p2 (pid 1) on host\n" in text


def test_two_causes_of_a_process_that_read_alike_are_one():
    @jax.jit
    def step(x):
        return x + 1

    def run():
        jax.eval_shape(step, jnp.ones(1))
        step(jnp.ones(2))  # traced again, and compiled for the first time
        jax.eval_shape(step, jnp.ones(3))  # traced again

    ((title, _),) = report_of(run).sections[0].causes
    assert title == "was traced again, twice"


def test_a_cause_of_all_processes():
    report = report_of(grown(1, 2), grown(3, 4))
    ((title, _),) = report.sections[0].causes
    assert title == "was traced and compiled again, twice, in all processes"


def test_one_trace_in_each_process_is_no_recompile():
    report = report_of(grown(1), grown(2))
    assert (report.repeated, report.sections) == ([], [])


def test_many_processes_are_counted():
    report = report_of(*[grown(1)] * 9, grown(1, 2))
    assert report.table[1][0][1] == "1/1 9 processes, 2/2 p9"
    assert "p7 (pid 1) on host, and 2 more" in (report.legend or "")


def test_a_line_outside_of_a_jit_is_reported_like_a_function():
    def run():
        for _ in range(3):
            jax.lax.scan(lambda c, x: (c + x, x), 0.0, jnp.ones(3))  # eager

    found = report_of(run)
    place = line_marked(__file__, "eager")
    (line,) = found.repeated
    assert (line.place, found.functions) == (place, [])
    assert found.lost_seconds == line.total("lost_seconds") > 0
    text = as_text(found)
    assert "compiled scan again, twice, " in text
    assert "the shapes are the same: lax.scan gets another function each time" in text
    assert "canonopt.jit around the whole" in text
    assert re.search(rf"^{line.name} +3 ", text, re.MULTILINE)


def test_what_is_expected_is_one_line():
    step = jax.jit(lambda x: x * 2)
    found = report_of(lambda: [step(jnp.ones(n)) for n in (8, 5)])
    assert (found.repeated, found.lost_seconds, len(found.sections)) == ([], 0.0, 1)
    text = as_text(found)
    assert "Nothing was traced or compiled again that need not be." in text
    assert "expected: 2 programs are few, x: shape: float32[8] -> float32[5]" in text
    assert "pad or drop" not in text
