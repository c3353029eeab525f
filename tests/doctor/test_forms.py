"""The report as text, with rich, and as JSON."""

import html
import io
import json
import re
import sys

import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import (
    as_annotations,
    as_html,
    as_perfetto,
    as_text,
    print_report,
)

from ..support.doctor import HOSTILE, report_of


@pytest.mark.slow
def test_json_has_everything(written):
    found = written.json
    assert set(found) == {
        *("version", "command", "seconds", "status", "compile_seconds", "lost_seconds"),
        *("recompiled", "findings", "lines", "notes", "processes", "start", "stale", "tried"),
    }
    assert (found["version"], found["status"], found["recompiled"]) == (2, 0, True)
    assert found["seconds"] > found["compile_seconds"] > found["lost_seconds"] > 0
    (process,) = found["processes"]
    assert (process["name"], process["is_ended"]) == ("p0", True)
    (step,) = found["findings"]
    assert (step["name"], step["traces"], step["compiles"]) == ("step", 3, 3)
    assert re.fullmatch(r".*recompiles\.py:\d+", step["place"])
    assert step["by_process"]["p0"]["traces"] == 3
    moments = step["moments"]
    assert [moment["again"] for moment in moments] == [False, True, True]
    times = [moment["at"] for moment in moments]
    assert times == sorted(times) and times[0] > 0 and times[-1] < found["seconds"]
    stages = ("trace_seconds", "lowering_seconds", "compile_seconds")
    spent = sum(moment[stage] for moment in moments[1:] for stage in stages)
    assert found["lost_seconds"] == pytest.approx(step["lost_seconds"]) == pytest.approx(spent)
    (cause,) = step["causes"]
    assert (cause["times"], cause["what"]) == (2, "was traced and compiled")
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
    below = lines[lines.index("") + 1 + len(report.table) :]
    assert 30 < len(below) <= 42
    more = r"and \d+ more lines: canonopt doctor --all shows them"
    assert sum(re.fullmatch(more, line) is not None for line in lines) == 1
    assert not any("--all" in line for line in whole)
    assert sum(": shape: " in line for line in whole) == 36
    assert sum(": shape: " in line for line in lines) < 18


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
@pytest.mark.parametrize("has_rich", [True, False])
def test_colors_are_for_a_terminal_if_rich_is_installed(kind, has_rich, hostile, monkeypatch):
    stream = kind()
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    print_report(hostile, stream)
    text = stream.getvalue()
    assert ("\x1b[" in text) == (has_rich and stream.isatty())
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == f"\n{as_text(hostile)}"


@pytest.mark.slow
def test_the_page_has_all_of_the_report_and_needs_no_other_file(written):
    text = html.unescape(re.sub("<[^>]*>", "", written.html))
    assert "write: import canonopt; model = canonopt.canonicalize(model)" in text
    assert "recompiles.py fresh_lambda" in text and "<lambda>" not in written.html
    assert not re.search(r"<script|<link|src=|url\(|@import", written.html)


def test_nothing_gets_into_the_page_unescaped(hostile):
    text = as_html(hostile)
    assert HOSTILE not in text and html.unescape(text).count(HOSTILE) > 5


def test_a_timeline_has_each_stage_of_each_function():
    report = report_of(many_causes)
    events = json.loads(as_perfetto(report))["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [*rows.values()][:6] == [*"abcdef"]
    found = [e for e in events if e["ph"] == "X" and rows[e["pid"], e["tid"]] == "a"]
    assert [e["name"] for e in found] == ["trace", "lowering", "compile"] * 3
    assert [e["args"]["again"] for e in found] == [False] * 3 + [True] * 6
    ends = [e["ts"] + e["dur"] for e in found]
    assert all(end <= e["ts"] + 1e-3 for end, e in zip(ends, found[1:], strict=False))
    entries = report.functions[0].entries
    seconds = sum(entry.seconds for _, entry in entries)
    assert sum(e["dur"] for e in found) == pytest.approx(seconds * 1e6)


def test_annotations_name_the_file_and_the_line(hostile):
    def grow():
        step = jax.jit(lambda x, n: x + n, static_argnums=1)
        for n in range(6):
            step(jnp.ones(2), n)

    (line,) = as_annotations(report_of(grow)).splitlines()
    place = rf"file=.*test_forms.py,line={grow.__code__.co_firstlineno + 1},"
    title = "title=<lambda> was traced and compiled again%2C 5 times"
    assert re.match(rf"::warning {place}{title}::n: static value: 0 -> 1%0A", line)
    assert all(found.startswith("::warning ") for found in as_annotations(hostile).splitlines())
