"""Links, anchors and pictures: of the sources, and of the site if mkdocs is installed."""

import functools
import html
import re
import urllib.parse
from pathlib import Path

import markdown
import pytest

from .support.doctor import printed_by

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
# What decides in which color scheme a picture is shown.
SCHEMES = {"only-light", "only-dark"}

_OBJECT = re.compile(r"^::: (canonopt\S+)$", re.MULTILINE)  # whose anchors mkdocstrings makes


@functools.cache
def rendered(page):
    extensions = ["attr_list", "md_in_html", "pymdownx.superfences", "tables", "toc"]
    return markdown.markdown(page.read_text("utf-8"), extensions=extensions)


def links_of(page):
    links = re.findall(r'(?:href|src|srcset)="([^"]+)"', rendered(page))
    return [*map(html.unescape, links)]


def anchors_of(page):
    names = re.findall(r'id="([^"]+)"', rendered(page))
    return {*names, *_OBJECT.findall(page.read_text("utf-8"))}


def problem_of(page, link):
    url = urllib.parse.urlsplit(link)
    if url.scheme or url.netloc:
        return None if url.scheme == "https" else "no https"
    target = (page.parent / url.path).resolve() if url.path else page
    if not target.is_file():
        return "no such file"
    if DOCS in page.parents and DOCS not in target.parents:
        return "not a part of the site"
    is_picture = target.suffix in (".svg", ".png")
    anchors = SCHEMES if is_picture else anchors_of(target) if target.suffix == ".md" else set()
    return "no such anchor" if url.fragment and url.fragment not in anchors else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of(page):
    problems = {link: problem_of(page, link) for link in links_of(page)}
    assert {link: problem for link, problem in problems.items() if problem} == {}


def test_a_broken_link_is_found():
    page = DOCS / "index.md"
    links = ("my-fit.md", "identity.md#nothing", "../README.md")
    found = [problem_of(page, link) for link in links]
    assert found == ["no such file", "no such anchor", "not a part of the site"]
    assert problem_of(page, "images/compiles-light.svg#only-drak") == "no such anchor"
    assert problem_of(page, "api/specs.md#canonopt.Spec") is None


def test_every_page_is_in_the_navigation_once():
    listed = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text("utf-8"))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_picture_is_shown():
    shown = {urllib.parse.urlsplit(link).path for page in PAGES for link in links_of(page)}
    pictures = [path for path in (DOCS / "images").iterdir() if path.suffix in (".svg", ".png")]
    assert pictures and [path for path in pictures if f"images/{path.name}" not in shown] == []


@pytest.mark.slow
def test_the_site_has_what_its_pages_link_to(tmp_path):
    """MkDocs looks at the docstrings of the API, and at all anchors: see `mkdocs.yml`."""
    command = ["-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    printed_by(*command, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1"})
    assert len([*tmp_path.rglob("*.html")]) > 20
