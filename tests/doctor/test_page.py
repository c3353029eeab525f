"""The report as an HTML page."""

import html
import html.parser
import re

import pytest

from canonopt._doctor.page import as_html

from ..support.doctor import HOSTILE, report_of


class Page(html.parser.HTMLParser):
    """Parses a page into its text and tags, and checks that the tags close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


@pytest.mark.slow
def test_the_page_shows_a_timeline_and_the_line_to_write(written):
    page = Page(written.html)
    assert "model.activation" in page.text
    assert "model = canonopt.canonicalize(model)" in page.text
    bars = [about["class"] for tag, about in page.tags if tag == "rect"]
    assert bars.count("first") == bars.count("first trace") == 1
    assert bars.count("again") == bars.count("again trace") == 2
    assert "prefers-color-scheme: dark" in written.html


@pytest.mark.slow
def test_the_page_needs_no_other_file(written):
    page = Page(written.html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"link", "img", "iframe", "object"})
    assert [about for tag, about in page.tags if tag == "script"] == [{}]
    assert not {name for _, about in page.tags for name in about} & {"src", "href", "xlink:href"}
    assert not re.search(r"https?:|url\(|@import", written.html)


@pytest.mark.slow
def test_the_page_is_escaped(written):
    page = Page(written.html)
    assert "recompiles.py fresh_lambda" in page.text and "<&" in page.text
    assert "<lambda>" in page.text and "<lambda>" not in written.html


def test_nothing_gets_into_the_page_unescaped(hostile):
    assert HOSTILE in str(hostile.functions[0].place)
    text = as_html(hostile)
    assert f"<p>{html.escape(HOSTILE)}</p>" in text  # the note
    assert text.count("<script") == 1 and Page(text).text.count(HOSTILE) > 5


def test_the_page_says_how_many_differences_it_leaves_out(hostile):
    assert "and 8 more" in as_html(hostile)


def test_the_page_of_a_script_that_compiles_nothing():
    text = Page(as_html(report_of(lambda: None))).text
    assert "No function of the script was compiled." in text
    assert "Timeline" not in text
