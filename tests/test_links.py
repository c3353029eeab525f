"""Links, anchors and pictures: of the sources, and of the site if mkdocs is installed."""

import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
# What decides in which color scheme a picture is shown.
SCHEMES = {"only-light", "only-dark"}

_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)|(?:href|src|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_OBJECT = re.compile(r"^::: (canonopt\S+)$", re.MULTILINE)


def without_code(text):
    # The words of inline code remain, as they do in the anchor of a heading.
    return _CODE.sub(lambda code: "" if "\n" in code[0] else re.sub(r"[`()]", "", code[0]), text)


def links_of(page):
    return [link[1] or link[2] for link in _LINK.finditer(without_code(page.read_text("utf-8")))]


def anchors_of(page):
    """The anchors that Python-Markdown makes of headings, and mkdocstrings of objects."""
    text = page.read_text("utf-8")
    anchors = set(_OBJECT.findall(text))
    for heading in _HEADING.findall(without_code(text)):
        words = re.sub(r"\]\(\S+?\)", "", heading)  # of a link, its text
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
        again = sum(bool(re.fullmatch(rf"{re.escape(slug)}(_\d+)?", anchor)) for anchor in anchors)
        anchors.add(f"{slug}_{again}" if again else slug)
    return anchors


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
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert len([*tmp_path.rglob("*.html")]) > 20
