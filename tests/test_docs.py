"""Every Python block of the documentation and every example in a docstring runs.

A block that is not run has a comment above it: `<!-- not run: why -->`. Where another test has all
such blocks of a page, the page has one comment: `<!-- not run on this page: why -->`.
"""

import ast
import doctest
import importlib
import inspect
import json
import linecache
import pathlib
import pkgutil
import re
import sys
import types

import jax
import pytest

import canonopt
from tests.packages.codes.choice import CHOICE
from tools import first_picture
from tools.benchmarks import rivals

from .support.doctor import PYTHON, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Its blocks need packages that the tests do not install, and are text of scripts that ran.
REAL_PACKAGES = ROOT / "docs" / "real-packages.md"
LOOPS = ROOT / "tests" / "packages" / "loops"
# Long outputs are wrapped, and `...` stands for what differs between machines.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_WHY = re.compile(r"<!-- not run: \w.+ -->\n(<!-- .+ -->\n)?\Z")
_WHY_OF_PAGE = re.compile(r"^<!-- not run on this page: \w.+ -->$", re.MULTILINE)
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def _python_blocks(page):
    """The line where each block starts, and its text."""
    text = page.read_text("utf-8")
    fences = list(_FENCE.finditer(text))
    assert text.count("```") == 2 * len(fences), f"{page.name} has a fence that does not close"
    for fence in fences:
        indent, language, block = fence.groups()
        known = ("python", "sh", "text", "diff")
        assert language in known, f"{page.name} has a block of {language!r}"
        if language == "python":
            lines = [line.removeprefix(indent) for line in block.splitlines(keepends=True)]
            yield text.count("\n", 0, fence.start()) + 1, "".join(lines)


def test_the_page_of_all_names_has_them():
    text = ROOT.joinpath("docs", "api", "index.md").read_text("utf-8")
    assert {*canonopt._MODULE_OF} - {*re.findall(r"\w+", text)} == set()


def test_a_block_that_is_not_run_says_why():
    silent = []
    for page in PAGES:
        text = page.read_text("utf-8")
        if _WHY_OF_PAGE.search(text):
            continue
        for fence in _FENCE.finditer(text):
            if fence[2] != "python" and not _WHY.search(text[: fence.start()]):
                silent.append(f"{page.name}:{text.count(chr(10), 0, fence.start()) + 1}")
    assert silent == []


def _run_examples(test):
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    if report:
        pytest.fail("".join(report), pytrace=False)


@pytest.fixture(autouse=True)
def _as_documented():
    # With traceback filtering, JAX adds a note about its own frames to error messages.
    settings = {"jax_traceback_filtering": "off", "jax_enable_x64": False}
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


# Older releases of flax ask jax for names that are deprecated.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:flax")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page != REAL_PACKAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    jax.clear_caches()  # reports also count what JAX compiles for itself, once in a process
    # A page runs as `__main__`, as a script does, so that pickle finds what it defines.
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    # The source is that of the blocks, since a page as a whole is no Python.
    lines = []
    monkeypatch.setitem(linecache.cache, str(page), (0, None, lines, str(page)))
    for line, block in _python_blocks(page):
        if ">>> " in block:
            test = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), line)
            assert test.examples
            test.globs = vars(module)  # the parser makes a copy
            _run_examples(test)
        else:
            # With the line numbers of the page, for tracebacks and for what reads the source.
            lines += ["\n"] * (line - len(lines)) + block.splitlines(keepends=True)
            exec(compile("\n" * line + block, str(page), "exec"), vars(module))


def test_the_page_of_real_code_has_each_code_and_the_diffs_that_were_measured():
    text = (ROOT / "docs" / "real-code.md").read_text("utf-8")
    codes = ROOT / "tests" / "packages" / "codes"
    names = {code.name for code in CHOICE}
    assert {path.stem for path in (codes / "diffs").iterdir()} == names
    assert {name for name in names if f"| [{name}](https://" in text} == names
    shown = re.findall(r"^### (\w+)\n\n```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    for name, diff in shown:
        assert diff == (codes / "diffs" / f"{name}.diff").read_text("utf-8")


def test_blocks_of_real_packages_are_those_of_the_scripts():
    scripts = [script.read_text() for script in LOOPS.glob("*.py")]
    blocks = [block for _, block in _python_blocks(REAL_PACKAGES)]
    assert len(blocks) == 4 and len(scripts) == 10
    assert [b for b in blocks if not any(b in script for script in scripts)] == []


def test_the_first_picture_is_drawn_from_what_was_measured():
    figures = json.loads(first_picture.FIGURES.read_text("utf-8"))
    counts = {library: len(run["compiles"]) for library, run in figures["runs"].items()}
    assert counts == {"optax": 10, "canonopt": 1}
    for scheme in ("light", "dark"):
        path = first_picture.IMAGES / f"compiles-{scheme}.svg"
        assert path.read_text("utf-8") == first_picture.drawn(figures, scheme)
    # The program on the page is still the one that was measured.
    assert figures["program"] == first_picture.digest()


def test_the_other_ways_are_those_that_were_measured():
    (table,) = re.findall(f"{rivals.BEGIN}(.*){rivals.END}", rivals.PAGE.read_text("utf-8"), re.S)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert [(row[0], row[-1]) for row in rows[2:]] == [
        (name, limits) for name, (_, _, limits) in rivals.WAYS.items()
    ]


def test_figures_that_are_repeated_are_those_of_the_pages_that_measure_them():
    docs = ROOT / "docs"
    text = (docs / "accelerators.md").read_text("utf-8")
    sources = [docs / "compile-table.md", *sorted((docs / "records").glob("*.md"))]
    measured = "".join(source.read_text("utf-8") for source in sources)
    figures = re.findall(r"\d+ of \d+", text)
    assert len(figures) == 7 and all(figure in measured for figure in figures)
    (ratio,) = re.findall(r"\[(0\.\d+) of the time\]", (docs / "faq.md").read_text("utf-8"))
    assert re.search(rf"filter_jit, equinox.filter_jit: 100 leaves .* \| {ratio}\d* \|", measured)


MODULES = ["canonopt", *(m.name for m in pkgutil.walk_packages(canonopt.__path__, "canonopt."))]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, restored_caches):
    module = importlib.import_module(name)
    # The functions of the catalogue have Optax's docstrings; Optax tests the examples in them.
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    docstrings = [ast.get_docstring(node) for node in nodes if isinstance(node, documented)]
    ours = [docstring for docstring in docstrings if docstring and ">>> " in docstring]
    found = {inspect.cleandoc(t.docstring): t for t in doctest.DocTestFinder().find(module)}
    assert set(ours) <= set(found), "an example was not found"
    for docstring in ours:
        _run_examples(found[docstring])


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/upstream/*.md")), ids=lambda p: p.stem)
def test_a_minimal_case_prints_what_its_page_says(page):
    code, output = re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    if page.stem == "jax-import-retraces" and jax.__version_info__ < (0, 12):
        output = "tracing\n"  # it began with jax 0.12
    if page.stem == "jax-treedef-of-dataclasses" and jax.__version_info__ < (0, 10):
        output = "False False\n"
    if page.stem == "jax-numpy-constants" and jax.__version_info__ < (0, 10):
        output = "[0. 0.]\n" * 2
    ran = run(*PYTHON, "-c", code)
    assert (ran.stdout, ran.returncode) == (output, 0), ran.stderr
