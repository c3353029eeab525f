"""Where the time of a run went, and what the report says would shorten it."""

import re
import sys

import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import as_text
from canonopt._doctor.report import Function, Report
from canonopt._doctor.shortening import alike_items, cache_advice
from canonopt._recompiles import Entry, FunctionLog

from ..support.doctor import doctored, report_of, run

CACHE = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
SHORT_TOO = "; export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0"


def log_of(name, *seconds, **fields):
    """The log of a function whose traces, lowerings and compiles took so long, each a tuple."""
    entries = [
        Entry(None, 0.0, True, True, *each, traced_again=i > 0) for i, each in enumerate(seconds)
    ]
    sums = map(sum, zip(*seconds, strict=True))
    names = ("trace_seconds", "lowering_seconds", "compile_seconds")
    counts = dict(zip(names, sums, strict=True))
    counts |= {"traces": len(seconds), "compiles": len(seconds)}
    return FunctionLog(name, None, entries, **counts, **fields)


def report_on(logs, helpers=()):
    functions = [Function(log.name, log.place, {"p0": log}) for log in logs]
    helpers = [Function(log.name, log.place, {"p0": log}) for log in helpers]
    return Report("script.py", 0, 1.0, 0.0, functions, helpers, [], [])


def test_the_time_of_each_stage():
    step, fast = log_of("step", (1.0, 0.5, 2.0), (0.25, 0.125, 1.0)), log_of("fast", (0.5, 0, 0))
    line = log_of("train.py:3", (0.0, 0.125, 0.25), is_line=True)
    assert report_on([fast, step], [line]).stages == [
        ("step", "3.50", "1.38", "1.25", "0.62", "3.00"),
        ("fast", "0.50", "0.00", "0.50", "0.00", "0.00"),
        ("all else", "0.38", "0.00", "0.00", "0.12", "0.25"),
        ("all of it", "4.38", "1.38", "1.75", "0.75", "3.25"),
    ]
    many = report_on([log_of(f"f{i}", (1.0 + i, 0, 0)) for i in range(12)])
    names = [name for name, *_ in many.stages]
    assert names == [*(f"f{i}" for i in range(11, 3, -1)), "all else", "all of it"]
    assert [name for name, *_ in report_on([fast]).stages] == ["fast"]


def test_stages_of_a_process_are_those_that_jax_reports():
    seconds = {"jaxpr_to_mlir_module_duration": 0.0, "backend_compile_duration": 0.0}

    def listen(event, duration, fun_name=None, **_):
        stage = event.rpartition("/")[2]
        if stage in seconds and fun_name == "jit(measured)":
            seconds[stage] += duration

    @jax.jit
    def measured(x):
        return jnp.sin(x) @ x

    jax.monitoring.register_event_duration_secs_listener(listen)
    report = report_of(lambda: [measured(jnp.ones((n, n))) for n in (2, 3)])
    (function,) = report.functions
    for stage, name in zip(seconds, ("lowering_seconds", "compile_seconds"), strict=True):
        assert 0 < function.total(name) == pytest.approx(seconds[stage])
    stages = [function.total(name) for name in ("trace_seconds", "lowering_seconds")]
    assert function.total("seconds") == sum(stages) + function.total("compile_seconds")


def test_the_cache_is_worth_a_line_only_if_it_would_save_a_second():
    assert cache_advice([0.4, 0.5]) is None
    found = cache_advice([3.0, 0.5])
    assert (found.fix, found.hint.endswith("what XLA took 3.00 s for")) == (CACHE, True)
    found = cache_advice([0.5] * 4)  # JAX keeps no compile of less than a second by default
    assert (found.fix, found.hint.endswith("2.00 s for")) == (CACHE + SHORT_TOO, True)

    text = as_text(report_on([log_of("step", (0.1, 0.1, 2.5))]))
    assert f"hint: JAX's persistent cache is off. With it, the {''}next run" in text
    assert text.endswith(f"  write: {CACHE}\n")
    used = report_on([log_of("step", (0.1, 0.1, 2.5), cache_hits=3, cache_misses=1)])
    assert as_text(used).endswith("\n  JAX's persistent cache had 3 of 4 programs\n")


LAYERS = {f"model.layers[{i}].{name}": "float32[4]" for i in range(9) for name in ("w", "b")}


@pytest.mark.parametrize(
    "leaves, expected",
    [
        (LAYERS, ("model.layers[i]", 9)),
        ({**LAYERS, "model.layers[4].w": "float32[5]"}, ("model.layers[i]", 8)),
        ({**LAYERS, "model.layers[4].w": "float32[5]", "model.layers[5].w": "float32[5]"}, None),
        ({f"params['Dense_{i}']['w']": "f32[4]" for i in range(9)}, ("params['Dense_i']", 9)),
        ({f"params['{i}w']": "f32[4]" for i in range(9)}, None),
        ({f"a[0].b[{i}].c[0]": "f32[4]" for i in range(9)}, ("a[0].b[i]", 9)),
        # A state has the same items again. The model comes first.
        (
            LAYERS | {f"state[0].mu{path[5:]}": s for path, s in LAYERS.items()},
            ("model.layers[i]", 9),
        ),
        ({}, None),
    ],
)
def test_items_with_the_same_shapes(leaves, expected):
    assert alike_items(leaves) == expected


def test_a_slow_step_over_layers_is_advised_to_scan():
    log = log_of("step", (0.1, 0.1, 0.6))
    log.entries[0].alike = ("model.layers[i]", 24)
    (line,) = report_on([log]).shorter
    assert str(line) == (
        "hint: step: 24 items model.layers[i] have the same shapes. If a Python loop goes over "
        "them, each is compiled: stack them, and jax.lax.scan compiles one"
    )


DEEP = """
import jax, jax.numpy as jnp

@jax.jit
@jax.grad
def step(layers):
    x = jnp.ones(16)
    for layer in layers:
        x = jnp.tanh(layer["w"] @ x + layer["b"])
    return x.sum()

step([{"w": jnp.ones((16, 16)), "b": jnp.ones(16)} for _ in range(64)])
"""


@pytest.mark.slow
def test_the_printed_lines_shorten_the_next_run(tmp_path):
    script = tmp_path / "deep.py"
    script.write_text(DEEP)
    _, report, _ = doctored(script, cwd=tmp_path)
    assert "hint: step: 64 items layers[i] have the same shapes" in report
    (line,) = re.findall(r"write: (export .*)", report)
    for hits in ("0 of", "[1-9][0-9]* of"):
        command = f"{line}; exec {sys.executable} -m canonopt doctor deep.py"
        done = run("bash", "-c", command, cwd=tmp_path, env={"HOME": str(tmp_path)})
        assert re.search(rf"JAX's persistent cache had {hits}", done.stderr), done.stderr
    assert (tmp_path / ".cache" / "jax").is_dir()
