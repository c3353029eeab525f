"""The report as text, with rich, and as JSON."""

import functools
import html
import io
import json
import re
import sys

import attrs
import jax
import jax.numpy as jnp
import pytest

from canonopt._doctor.forms import (
    as_annotations,
    as_html,
    as_json,
    as_perfetto,
    as_text,
    print_report,
)

from ..support.doctor import HOSTILE, report_of


@pytest.fixture(scope="module")
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


@functools.partial(jax.jit, static_argnames="f")
def step(x, f):
    return f(x)


def test_json_has_everything():
    def run():
        for _ in range(3):
            f = lambda x: x + 1  # noqa: E731
            step(jnp.ones(3), f=f)

    found = json.loads(as_json(report_of(run)))
    assert set(found) == {
        *("version", "command", "seconds", "status", "compile_seconds", "lost_seconds"),
        *("recompiled", "findings", "lines", "notes", "processes", "start", "stale", "tried"),
    }
    assert (found["version"], found["status"], found["recompiled"]) == (3, 0, True)
    (process,) = found["processes"]
    assert (process["name"], process["is_ended"]) == ("p0", True)
    (about,) = found["findings"]
    assert (about["name"], about["traces"], about["compiles"]) == ("step", 3, 3)
    assert re.fullmatch(r".*test_forms\.py:\d+", about["place"])
    assert about["by_process"]["p0"]["traces"] == 3
    moments = about["moments"]
    assert [moment["again"] for moment in moments] == [False, True, True]
    assert moments == sorted(moments, key=lambda moment: moment["at"])
    stages = ("trace_seconds", "lowering_seconds", "compile_seconds")
    spent = sum(moment[stage] for moment in moments[1:] for stage in stages)
    assert found["lost_seconds"] == pytest.approx(about["lost_seconds"]) == pytest.approx(spent)
    (cause,) = about["causes"]
    assert (cause["times"], cause["what"]) == (2, "was traced and compiled")
    (change,) = cause["changes"]
    assert set(change) == {"path", "kind", "before", "after", "fix", "hint"}
    assert (change["path"], change["kind"]) == ("f", "callable")
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


def test_nothing_gets_into_the_page_unescaped(hostile):
    text = as_html(hostile)
    assert HOSTILE not in text and html.unescape(text).count(HOSTILE) > 5
    assert not re.search(r"<script|<link|src=|url\(|@import", text)  # it needs no other file
    shown = html.unescape(re.sub("<[^>]*>", "", text))
    assert as_text(hostile, is_whole=True).split() == shown.partition("\n}")[2].split()


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
