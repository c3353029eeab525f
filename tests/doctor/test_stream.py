"""The stream: records that are written, and what is read back."""

import functools
import json
import re
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import canonopt
from canonopt._doctor.stream import StreamRecorder, read
from canonopt._recompiles import listeners

from ..support.counting import fresh, in_threads
from ..support.doctor import as_lines, read_back, records_of

pytestmark = pytest.mark.usefixtures("restored_caches")


def counts(log):
    names = ("name", "place", "traces", "compiles", "cache_hits", "backward_compiles")
    return tuple(getattr(log, name) for name in names)


def causes(log):
    return [(cause.title, cause.changes, cause.note, cause.fixes) for cause in log.causes()]


def work():
    """Recompiles of each kind: of a trace, of a compile only, a failed one, a backward pass."""

    grown, committed = (jax.jit(fresh(name)[0]) for name in ("grown", "committed"))

    shifted = jax.jit(lambda x, axis: x + 1, static_argnums=1)

    @jax.jit
    def failing(x):
        raise ValueError("no such thing")

    @jax.jit
    def inner(x):
        return jnp.sin(x).sum()

    def tried_first():
        factor = jnp.float32(2.0)
        return canonopt.jit(lambda x: x * float(factor))

    for size in (1, 2, 3):
        grown(jnp.ones(size))
    for axis in (-1, -2, (-1,), (-2,), 3, sys.maxsize):
        shifted(jnp.ones(3), axis)
    committed(jnp.ones(3))
    committed(jax.device_put(jnp.ones(3), jax.devices()[0]))
    for _ in range(2):
        with pytest.raises(ValueError, match="no such thing"):
            failing(jnp.ones(3))
    jax.jit(lambda x: inner(x) + 1)(jnp.ones(3))  # traces it, and does not compile it
    for _ in range(2):
        jax.value_and_grad(inner)(jnp.ones(3))
    jax.clear_caches()
    grown(jnp.ones(3))
    canonopt.clear_caches()
    for _ in range(2):
        tried_first()(jnp.ones(3))


def test_what_is_read_is_what_a_compile_log_has(tmp_path):
    with canonopt.compile_log() as log:
        records = records_of(work)
    (process,) = read_back(tmp_path, records)
    found = [*process.logs]
    functions = [each for each in found if not each.is_line]
    assert [*map(counts, functions)] == [*map(counts, log.functions)]
    assert [*map(causes, functions)] == [*map(causes, log.functions)]
    assert [counts(each) for each in found if each.is_line] == [*map(counts, log.helpers)]
    assert process.is_ended and not process.problems
    assert any(function.backward_compiles for function in functions)
    assert any(cause.note for function in functions for cause in function.causes())
    seconds = [function.lost_seconds for function in log.functions]
    assert [f.lost_seconds for f in functions] == pytest.approx(seconds)


def test_no_value_of_an_array_is_written_and_strings_are_cut():
    secret = 31415.926

    @jax.jit
    def step(tree):
        raise ValueError("x" * 50_000)

    @jax.jit
    def other(tree):
        return tree

    def run():
        for size in (1, 2):
            tree = {"k" * 50_000: jnp.full(size, secret), "n": secret}
            other(tree)
            with pytest.raises(ValueError, match="xxx"):
                step(tree)

    text = json.dumps(records_of(run))
    assert "x" * 500 in text and "x" * 1000 not in text
    assert "k" * 5000 in text and "k" * 12_000 not in text
    assert "31415" not in text


def test_the_user_does_not_notice_a_stream_that_cannot_be_written():
    def fail(record):
        raise OSError("no space left")

    with listeners.active(StreamRecorder(fail)):
        assert jax.jit(lambda x: x + 1)(1) == 2


def test_a_trace_may_interrupt_the_writing_of_a_line():
    """As a signal handler or the garbage collector may start one at any moment."""
    lines = []

    def write(record):
        lines.append(record)
        if len(lines) == 1:
            jax.jit(lambda x: x - 1)(1.0)

    def run():
        with listeners.active(StreamRecorder(write)):
            jax.jit(lambda x: x + 1)(1.0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len({line["function"]["number"] for line in lines if "function" in line}) >= 2


def test_threads_write_whole_lines_with_counts_that_grow(tmp_path):
    step = jax.jit(fresh()[0])

    def calls(offset):
        for size in range(offset, offset + 5):
            step(jnp.ones(size))

    def run():
        in_threads(*(functools.partial(calls, 10 * i) for i in range(1, 5)))

    records = records_of(run, everywhere=True)
    told = [r["function"] for r in records if r.get("function", {}).get("name") == "step"]
    assert [each["traces"] for each in told] == sorted(each["traces"] for each in told)
    (process,) = read_back(tmp_path, records)
    (log,) = (log for log in process.logs if log.name == "step")
    assert (log.traces, log.compiles, len(log.entries)) == (20, 20, 20)


def test_what_a_killed_process_wrote_is_read_but_for_its_last_line(tmp_path):
    text = "".join(as_lines(records_of(work)))
    path = tmp_path / "stream.jsonl"
    traces = []
    for size in [*range(0, len(text), 3000), len(text)]:
        path.write_text(text[:size])
        processes, problems = read(tmp_path)
        assert not problems and len(processes) == ("\n" in text[:size])
        traces.append(sum(log.traces for each in processes for log in each.logs))
        assert not any(each.is_ended for each in processes) or size == len(text)
    assert traces == sorted(traces) and traces[-1] > 8


def test_lines_that_cannot_be_read_are_a_problem_and_no_more(tmp_path):
    start, *lines = as_lines(records_of(work))
    broken = [lines[0][:20], '{"event": "new", "time": 0.0}\n', "[]\n", "\xff\n"]
    (tmp_path / "stream.jsonl").write_text("".join([start, *broken, *lines]), encoding="latin-1")
    (process,), _ = read(tmp_path)
    assert process.problems == ["some lines of the stream of canonopt doctor cannot be read"]
    assert [log.traces for log in process.logs if log.name == "grown"] == [4]


def test_the_page_describes_each_field(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "doctor-stream.md").read_text()
    records = [*records_of(work)]
    entries = [record["entry"] for record in records if "entry" in record]
    functions = [record["function"] for record in records if "function" in record]
    others = [record for record in records if record["event"] != "call"]
    names = {name for each in (*others, *entries, *functions) for name in each}
    assert {*names, *(record["event"] for record in records)} <= {*re.findall(r"`(\w+)`", page)}
