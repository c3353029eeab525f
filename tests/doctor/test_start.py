"""Where the time until the first step went, and what the report says would shorten it."""

import re
import sys

import pytest

from canonopt._doctor.forms import as_text
from canonopt._recompiles import STAGES, Entry, FunctionLog

from ..support.doctor import doctored, report_of_logs, run

FOLDER = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
SHORT_TOO = "export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"

OFF_CACHE = {"is_on": False, "min_seconds": 1.0}


def log_of(name, *times, **fields):
    """The log of programs, each with when it began and how long its stages took."""
    entries = [
        Entry(None, at, True, True, **dict(zip(STAGES, stages, strict=True)))
        for at, *stages in times
    ]
    counts = {"traces": len(entries), "compiles": len(entries)}
    return FunctionLog(name, None, entries, **counts, **fields)


def test_the_table_ends_when_the_step_could_run():
    step = log_of("step", (6.0, 1.0, 0.5, 2.0), (10.0, 5.0, 0.0, 0.0))
    init, fast = log_of("init", (5.0, 0.5, 0.0, 0.5)), log_of("fast", (11.0, 0.1, 0.1, 0.1))
    lines = [log_of("train.py:3", (3.0, 0.0, 0.125, 0.25), (4.0, 0.0, 0.0, 0.5), is_line=True)]
    found = report_of_logs(init, step, fast, *lines, cache=OFF_CACHE)["start"]
    assert found["rows"] == [
        ("where the start went, in seconds", "programs", "trace", "lowering", "XLA", "all"),
        ("Python, until jax is imported", "", "", "", "", "1.50"),
        ("eager operations, at 1 line", "2", "0.00", "0.12", "0.75", "0.88"),
        ("other functions", "1", "0.50", "0.00", "0.50", "1.00"),
        ("step, its first program", "1", "1.00", "0.50", "2.00", "3.50"),
        ("running, and everything else", "", "", "", "", "2.12"),
        ("until step could first run", "", "", "", "", "9.00"),
    ]
    assert found["advice"][0] == "train.py:3 compiled 2 programs, 0.88 s"


OFF = "hint: JAX's persistent cache is off. With it, the next run of the same program reads from a"
LEAVES_OUT = (
    "hint: JAX's persistent cache leaves out what compiles in less than 1 s: 5 programs, 2.00 s"
)
NONE, ONE = (f"JAX's persistent cache held {n} programs" for n in ("0 of 4", "1 of 1"))
SHORT = [(float(i), 0.0, 0.0, 0.5) for i in range(4)]
LONG = [(0.0, 0.1, 0.1, 3.0)]


@pytest.mark.parametrize(
    ("programs", "cache", "counts", "expected"),
    [
        ([(0.0, 0.1, 0.1, 0.7)], (False, 1.0), {}, None),  # not worth a reader's time
        (
            LONG,
            (False, 1.0),
            {},
            [f"{OFF} folder what XLA took 3.00 s to compile", f"write: {FOLDER}"],
        ),
        ([(0.0, 1.0, 0.2, 0.7)], (False, 1.0), {}, []),
        (
            SHORT,
            (False, 1.0),
            {},
            [f"{OFF} folder what XLA took 2.00 s to compile", f"write: {FOLDER}; {SHORT_TOO}"],
        ),
        (SHORT, (True, 1.0), {"cache_misses": 4}, [NONE, LEAVES_OUT, f"write: {SHORT_TOO}"]),
        (SHORT, (True, 0.0), {"cache_misses": 4}, [NONE]),
        ([(0.0, 1.0, 0.2, 0.1)], (True, 1.0), {"cache_hits": 1}, [ONE]),
    ],
)
def test_a_line_is_printed_only_where_it_saves_a_second(programs, cache, counts, expected):
    last = (9.0, 1.2, 0.0, 0.0) if programs is SHORT else programs[0]
    first = [log_of("init", *programs)] if programs is SHORT else []
    settings = {"is_on": cache[0], "min_seconds": cache[1]}
    start = report_of_logs(*first, log_of("step", last, **counts), cache=settings)["start"]
    assert (start and start["advice"]) == expected


def test_where_lines_take_long_shapes_may_be_enough():
    line = log_of("model.py:1", (0.0, 0.0, 0.5, 0.9), is_line=True)
    text = as_text(report_of_logs(log_of("step", (1.0, 0.2, 0.2, 0.2)), line, cache=OFF_CACHE))
    assert "  model.py:1 compiled a program, 1.40 s\n" in text
    assert "restore into the shapes of eqx.filter_eval_shape or jax.eval_shape" in text


STARTS = """
import jax, jax.numpy as jnp

@jax.jit
@jax.grad
def step(layers):
    x = jnp.ones(16)
    for layer in layers:
        x = jnp.tanh(layer["w"] @ x + layer["b"])
    return x.sum()

step([{"w": jnp.ones((16, 16)), "b": jnp.ones(16)} for _ in range(320)])
"""


@pytest.mark.slow
def test_the_printed_lines_shorten_the_next_run(tmp_path):
    (tmp_path / "starts.py").write_text(STARTS)
    _, report, _ = doctored("starts.py", cwd=tmp_path)
    (line,) = re.findall(r"write: (export .*)", report)
    assert "\nuntil step could first run " in report
    for compiles in ("1", r"0 \+ 1 loaded"):
        command = f"{line}; exec {sys.executable} -m canonopt doctor starts.py"
        done = run("bash", "-c", command, cwd=tmp_path, env={"HOME": str(tmp_path)})
        assert re.search(rf"^step +1 +{compiles} +\d", done.stderr, re.M), done.stderr
    assert (tmp_path / ".cache" / "jax").is_dir()
