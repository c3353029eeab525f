"""In a notebook: a cell that defines a step and is run again, and the quickstart."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

pytestmark = [
    pytest.mark.slow,
    # Of jupyter_client, in the process that starts the kernel.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SETUP = """
import canonopt, jax, jax.numpy as jnp
data = jnp.arange(4.0)
"""
CALL = """
with canonopt.compile_log() as log:
    value = float(step(jnp.float32(1.0)))
print(value, log["step"].traces)
"""
# The step reads the global `data`.
CELL = """
@canonopt.{jit}
def step(x):
    return x - 0.1 * (x - data).mean()
"""
SPEC = """
@canonopt.{jit}
def step(x, optim=canonopt.sgd(lambda count: 0.1 / (count + 1))):
    return optim.update(x, optim.init(x))[0]
"""


def run(*texts):
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in texts]
    nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=600).execute()
    return cells


@pytest.mark.parametrize("jit", ["jit", "filter_jit"])
@pytest.mark.parametrize(
    ("cell", "numbers"), [(CELL, (1.05, 1.1, 1.05)), (SPEC, (-0.1, -0.2, -0.1))]
)
def test_a_cell_that_runs_again_is_no_new_trace(cell, numbers, jit):
    cell = cell.format(jit=jit) + CALL
    _, *cells = run(SETUP, cell, cell, cell.replace("0.1", "0.2"), cell)
    texts = ("".join(output.text for output in cell.outputs).split() for cell in cells)
    first, again, changed, back = ((float(number), int(traces)) for number, traces in texts)
    assert first == (pytest.approx(numbers[0]), 1) and again == (first[0], 0)
    assert changed == (pytest.approx(numbers[1]), 1)
    assert back[0] == pytest.approx(numbers[2])
    # A spec that nothing holds any more may have been collected. Built anew, it is another one.
    assert back[1] == 0 or "sgd" in cell


SITES = """
step = jax.jit(lambda x: x * 2)
with canonopt.compile_log() as log:
    for n in (1, 2, 3):
        step(jnp.ones(n))
    for i in range(2):
        jax.lax.scan(lambda c, a: (c + a, a), 0.0, data)
print(log["<lambda>"].place, *log["<lambda>"].causes()[0].sites)
print(*[line.name for line in log.helpers if not line.is_expected])
log
"""


def test_cells_are_named_by_their_numbers_and_show_a_log():
    *streams, shown = run(SETUP, SITES)[1].outputs
    printed = "".join(output.text for output in streams)
    assert re.search(r"^&lt;lambda&gt; .* In\[2\]:1$", shown.data["text/html"], re.MULTILINE)
    assert printed.split() == ["In[2]:1", "In[2]:4", "In[2]:6"]


def test_a_cell_that_runs_again_makes_its_function_again():
    step = "step = eqx.filter_jit(lambda x: 2 * x)\nvalue = step(data)"
    start = "import equinox as eqx\nlogging = canonopt.compile_log()\nlog = logging.__enter__()"
    *_, shown = run(SETUP, start, step, step, "print(log)")
    report = shown.outputs[0].text
    assert "<lambda> was traced and compiled again, once:" in report
    assert "write: canonopt.filter_jit in place of eqx.filter_jit" in report


def test_the_quickstart_runs_and_shows_what_was_compiled(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # for the kernel
    path = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=600).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    tables = [output.data["text/html"] for output in outputs if "data" in output]
    counts = [re.search(r"^step +(\d+) +(\d+)", table, re.MULTILINE) for table in tables]
    assert [count and count.groups() for count in counts] == [("3", "3"), ("1", "1")], tables
    assert "canonopt.canonicalize(optim)" in tables[0]  # the line to write
    assert outputs[-1].text.startswith("1 compile for 3 learning rates: {0.001: 0.")
