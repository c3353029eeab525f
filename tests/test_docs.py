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
from tools import first_picture, walks
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


# --- what the pages tell a reader to write ------------------------------------------------------


def _told():
    """The `write:` lines, the cells of README's table, and the calls in the words of recipes.

    Those in the cells of `docs/explanations.md` are run by `tests/recompiles/test_differences.py`.
    """
    texts = {page: page.read_text("utf-8") for page in PAGES}
    found = re.findall(r"^ *write: (.*)$", "\n".join(texts.values()), re.MULTILINE)
    table = texts[PAGES[0]].partition("| what you see | what to write |")[2].partition("\n\n")[0]
    cells = [row.split(" | ")[1] for row in table.splitlines()[2:]]
    words = re.findall(r"`canonopt\.[^`]*\)`", texts[ROOT / "docs" / "recipes.md"])
    return {*found, *re.findall(r"`(.*?)`", " ".join([*cells, *words]))}


SETUP = """\
import canonopt, equinox as eqx, jax, jax.numpy as jnp, optax
from flax import nnx
from flax.training.train_state import TrainState
x = y = jnp.ones(3)
def loss_fn(model, x, y): return jnp.sum((model * x - y) ** 2)
@eqx.filter_jit
def step(optim, params=x): return optim.update(params, optim.init(params), params)[0]
"""
# What a program has in place of HERE: at first, if anything, and as it is told.
PROGRAMS = """
### import optax | import canonopt as optax
HERE
for _ in range(2): step(optax.adam(1e-3))
### optax.adam(1e-3) | canonopt.adam(1e-3)
for _ in range(2): step(HERE)
### canonopt.adam(lr) | canonopt.adam(canonopt.dynamic(lr))
for lr in (1e-2, 1e-3): step(HERE)
### None | nnx.Optimizer
@nnx.jit
def step(optimizer, grads): optimizer.update(nnx.Linear(3, 3, rngs=nnx.Rngs(0)), grads)
for _ in range(2):
    model = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
    step(HERE(model, canonopt.adam(1e-3), wrt=nnx.Param), nnx.state(model, nnx.Param))
### None | TrainState
@jax.jit
def step(state): return state.apply_gradients(grads=state.params)
for _ in range(2): step(HERE.create(apply_fn=len, params={"w": x}, tx=canonopt.adam(1e-3)))
### optim.init(model) | canonopt.init_like_grads(model, loss_fn, x, y, optim=optim)
model, optim = jax.device_put(x, jax.devices()[0]), canonopt.adam(1e-3)
@jax.jit
def step(model, state):
    updates, state = optim.update(jax.grad(loss_fn)(model, x, y), state)
    return optax.apply_updates(model, updates), state
state = HERE
for _ in range(2): model, state = step(model, state)
### eqx.apply_updates(model, updates) | canonopt.apply_updates(model, updates)
model, updates = x.astype(jnp.bfloat16), x
@jax.jit
def step(model): return HERE
for _ in range(2): model = step(model)
### jax.jit | canonopt.jit in place of jax.jit | @canonopt.jit | @canonopt.filter_jit
for _ in range(2):
    @HERE
    def step(x): return x * 2
    step(x)
### 0 | model = canonopt.canonicalize(model) | model = optax.canonicalize(model)
import canonopt as optax
@eqx.filter_jit
def step(model): return model(x)
for _ in range(2):
    model = eqx.nn.MLP(3, 3, 4, 1, lambda x: x * 2, key=jax.random.key(0))
    HERE
    step(model)
### 0 | optim = canonopt.canonicalize(optim) | import canonopt; optim = canonopt.canonicalize(optim)
for _ in range(2):
    optim = optax.adam(1e-3)
    HERE
    step(optim)
### 0 | opt_state = jax.device_put(opt_state, jax.devices()[0])
opt_state = {"mu": jax.device_put(x, jax.devices()[0]), "count": jnp.zeros(())}
@jax.jit
def step(opt_state): return jax.tree.map(lambda leaf: leaf * opt_state["mu"].sum(), opt_state)
HERE
for _ in range(2): opt_state = step(opt_state)
### optax.chain(optax.freeze(mask)) | canonopt.chain(canonopt.adam(1e-3), canonopt.freeze(mask))
for _ in range(2):
    mask = {"w": True, "b": False}
    updates = step(HERE, {"w": x, "b": x})
assert not updates["w"].any() and updates["b"].all()
"""
WRITTEN = {
    text: (before, program)
    for head, _, program in (part.partition("\n") for part in PROGRAMS[5:].split("\n### "))
    for before, *texts in [head.split(" | ")]
    for text in texts
}


def test_each_line_that_a_page_tells_to_write_is_run():
    assert {text for text in _told() if not text.startswith("export ")} == {*WRITTEN}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_a_page_tells_to_write_makes_one_program(text, restored_caches):
    before, program = WRITTEN[text]
    line, _, replaced = text.partition(" in place of ")
    assert replaced in ("", before)
    canonopt.clear_caches()
    for pasted, compiles in [(line, 1)] if before == "None" else [(before, 2), (line, 1)]:
        with canonopt.compile_log() as log:
            exec(SETUP + program.replace("HERE", pasted.removeprefix("@")), {"__name__": "script"})
        assert log["step"].compiles == compiles


def test_the_settings_that_a_page_tells_to_export_keep_even_small_programs(tmp_path):
    (line,) = (text for text in _told() if text.startswith("export "))
    command = f"{line}; {sys.executable} -c 'import jax; jax.jit(lambda x: x + 1)(1.0)'"
    done = run("bash", "-c", command, env={"HOME": str(tmp_path)})
    assert any((tmp_path / ".cache" / "jax").iterdir()), done.stderr


def test_the_walks_of_contributing_are_counted():
    assert sum(functions >= modules > 0 for _, functions, modules in walks.counted(2)) == 13


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
