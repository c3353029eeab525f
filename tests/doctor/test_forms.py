"""The report as text, with rich, and as JSON."""

import io
import re
import sys

import pytest

from canonopt._doctor.forms import as_text, print_report, print_rich

from ..support.doctor import HOSTILE


def test_json_has_everything(written):
    found = written.json
    assert set(found) == {
        *("version", "command", "seconds", "status", "compile_seconds", "lost_seconds"),
        *("recompiled", "findings", "helpers", "helper_compiles", "helper_seconds"),
    }
    assert (found["version"], found["status"], found["recompiled"]) == (1, 0, True)
    assert found["seconds"] > found["compile_seconds"] > found["lost_seconds"] > 0
    (step,) = found["findings"]
    assert set(step) == {
        *("name", "place", "traces", "compiles", "cache_hits", "seconds", "lost_seconds"),
        *("moments", "causes", "repeated"),
    }
    assert (step["name"], step["traces"], step["compiles"]) == ("step", 3, 3)
    assert re.fullmatch(r".*recompiles\.py:\d+", step["place"])
    assert found["lost_seconds"] == pytest.approx(step["lost_seconds"])
    assert {key for moment in step["moments"] for key in moment} == {
        *("at", "traced", "compiled", "trace_seconds", "compile_seconds", "error", "again"),
    }
    assert [moment["again"] for moment in step["moments"]] == [False, True, True]
    assert [moment["traced"] and moment["compiled"] for moment in step["moments"]] == [True] * 3
    times = [moment["at"] for moment in step["moments"]]
    assert times == sorted(times) and times[0] > 0 and times[-1] < found["seconds"]
    later = step["moments"][1:]
    spent = sum(moment["trace_seconds"] + moment["compile_seconds"] for moment in later)
    assert step["lost_seconds"] == pytest.approx(spent)
    (cause,) = step["causes"]
    assert (cause["times"], cause["what"]) == (2, "was traced and compiled")
    fields = {"what", "times", "seconds", "changes", "note", "fixes", "hints"}
    assert set(cause) == fields | {"sites", "pattern", "expected"}
    (change,) = cause["changes"]
    assert set(change) == {"path", "kind", "before", "after", "fix", "hint"}
    assert (change["path"], change["kind"]) == ("model.activation", "callable")
    assert (cause["fixes"], cause["hints"]) == ([change["fix"]], [])


def test_text_says_how_many_differences_it_leaves_out(hostile):
    text = as_text(hostile)
    assert "and 17 more differences" in text
    assert "failed while traced, once" in text
    assert "was traced and compiled again, 3 times" in text


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
