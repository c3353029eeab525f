"""The report as text, with rich, and as JSON."""

import io
import re
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import as_text, live_line, print_report, print_rich
from canonopt._doctor.stream import Streams

from ..support.doctor import HOSTILE, as_lines, records_of, report_of


@pytest.mark.slow
def test_json_has_everything(written):
    found = written.json
    assert set(found) == {
        *("version", "command", "seconds", "status", "compile_seconds", "lost_seconds"),
        *("recompiled", "findings", "helpers", "helper_compiles", "helper_seconds"),
        *("notes", "processes", "shorter", "tried"),
    }
    assert (found["version"], found["status"], found["recompiled"]) == (1, 0, True)
    assert found["seconds"] > found["compile_seconds"] > found["lost_seconds"] > 0
    (step,) = found["findings"]
    assert set(step) == {
        *("name", "place", "traces", "compiles", "cache_hits", "seconds", "lost_seconds"),
        *("moments", "causes", "repeated", "by_process"),
        *("first_seconds", "trace_seconds", "lowering_seconds", "compile_seconds"),
    }
    assert (step["name"], step["traces"], step["compiles"]) == ("step", 3, 3)
    assert re.fullmatch(r".*recompiles\.py:\d+", step["place"])
    assert found["lost_seconds"] == pytest.approx(step["lost_seconds"])
    assert {key for moment in step["moments"] for key in moment} == {
        *("at", "traced", "compiled", "trace_seconds", "lowering_seconds", "compile_seconds"),
        *("error", "again", "process"),
    }
    assert [moment["again"] for moment in step["moments"]] == [False, True, True]
    assert [moment["traced"] and moment["compiled"] for moment in step["moments"]] == [True] * 3
    times = [moment["at"] for moment in step["moments"]]
    assert times == sorted(times) and times[0] > 0 and times[-1] < found["seconds"]
    later = step["moments"][1:]
    stages = ("trace_seconds", "lowering_seconds", "compile_seconds")
    spent = sum(moment[stage] for moment in later for stage in stages)
    assert step["lost_seconds"] == pytest.approx(spent)
    (cause,) = step["causes"]
    assert (cause["times"], cause["what"]) == (2, "was traced and compiled")
    fields = {"processes", "what", "times", "seconds", "changes", "note", "fixes", "hints"}
    assert set(cause) == fields | {"sites", "pattern", "expected"}
    (process,) = found["processes"]
    assert (process["name"], process["is_ended"], process["problems"]) == ("p0", True, [])
    assert step["by_process"]["p0"]["traces"] == 3 and cause["processes"] == ["p0"]
    (change,) = cause["changes"]
    assert set(change) == {"path", "kind", "before", "after", "fix", "hint"}
    assert (change["path"], change["kind"]) == ("model.activation", "callable")
    assert (cause["fixes"], cause["hints"]) == ([change["fix"]], [])


def test_text_says_how_many_differences_it_leaves_out(hostile):
    text = as_text(hostile)
    assert "and 17 more differences" in text
    assert "failed while traced, once" in text
    assert "was traced and compiled again, 3 times" in text


def many_causes():
    """Calls of six functions, each with a cause of six lines."""
    for name in "abcdef":

        def step(tree):
            return tree

        step.__name__ = name
        jitted = jax.jit(step)
        for size in range(1, 4):
            jitted({key: jnp.ones(size) for key in "abcdef"})


def test_text_is_at_most_a_screen():
    report = report_of(many_causes)
    lines, whole = (as_text(report, is_whole).splitlines() for is_whole in (False, True))
    below = lines[lines.index("") + 1 + len(report.rows) + 1 :]
    assert 30 < len(below) <= 42
    more = r"and \d+ more lines: canonopt doctor --all shows them"
    assert sum(re.fullmatch(more, line) is not None for line in lines) == 1
    assert not any("--all" in line for line in whole)
    assert len(whole) > len(lines)


def test_all_shows_all_differences():
    report = report_of(many_causes)
    assert as_text(report, True).count(": shape: ") == 36
    assert as_text(report).count(": shape: ") < 18


def live_lines(function, has_others=False):
    """What `--live` prints of the traces and compiles of a process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.jsonl"
        path.write_text("".join(as_lines(records_of(function))))
        events = Streams(path).read()
    return [line for event in events if (line := live_line(event, has_others)) is not None]


def test_live_lines_are_of_recompiles_in_their_order():
    @jax.jit
    def grown(x):
        return x + 1

    @jax.jit
    def committed(x):
        return x + 1

    @jax.jit
    def failing(x):
        raise ValueError("no such thing")

    def run():
        grown(jnp.ones(1))
        grown(jnp.ones(2))
        committed(jnp.ones(3))
        committed(jax.device_put(jnp.ones(3), jax.devices()[0]))
        with pytest.raises(ValueError, match="no such thing"):
            failing(jnp.ones(3))
        grown(jnp.ones(4))

    lines = live_lines(run)
    heads = [re.sub(r" \(.*\)|, [\d.]+ s$", "", line.splitlines()[0]) for line in lines]
    assert heads == [
        "canonopt doctor: grown was traced again",
        "canonopt doctor: committed was compiled again",
        "canonopt doctor: failing failed while traced",
        "canonopt doctor: grown was traced again",
    ]
    assert lines[0].splitlines()[1:] == [
        "  expected: 2 programs are few, x: shape: float32[1] -> float32[2]",
    ]
    jax.clear_caches()
    assert "canonopt doctor: p0: grown (" in live_lines(run, has_others=True)[0]


def test_without_rich_the_report_is_plain_text(hostile, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = io.StringIO()
    print_report(hostile, stream)
    hint = "\nFor tables and colors: pip install 'canonopt[doctor]'\n"
    assert stream.getvalue() == f"\n{as_text(hostile)}{hint}"


def test_rich_shows_markup_as_it_is(hostile, capsys):
    pytest.importorskip("rich")
    print_rich(hostile, sys.stderr)
    assert capsys.readouterr().err.count(HOSTILE) > 5
