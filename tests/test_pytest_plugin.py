"""The plugin for pytest, by sessions of pytest within this one."""

import importlib.metadata
import pathlib
import re

import jax
import pytest

import pytest_canonopt
from canonopt._jax_internals import watching

from .support.doctor import printed_by
from .support.generated import named_texts

pytest_plugins = ["pytester"]

HEADER = """
import jax, jax.numpy as jnp, numpy as np, pytest, unittest
from concurrent import futures

@jax.jit
def step(x):
    return 2 * x

@jax.jit
def other(x):
    return 3 * x

def call(function, *sizes):
    for size in sizes:
        function(np.ones(size, np.float32))

def scan():
    jax.lax.scan(lambda c, x: (c + x, x), 0.0, jax.numpy.ones(3))

@pytest.fixture
def warmed():
    call(step, 1, 2)  # before the test
"""


@pytest.fixture
def session(pytester):
    """Runs the given tests. The plugin is named, since the package may be only on a path."""

    jax.clear_caches()

    def run(tests, *options):
        pytester.makepyfile(HEADER + tests)
        return pytester.runpytest_inprocess(
            "-p", "pytest_canonopt", "-p", "no:cacheprovider", "--strict-markers", *options
        )

    return run


# Tests. One that fails has lines of the report (`>`), and lines that are not in it (`!`).
TEXT = """
### the fixture counts
def test_it(compile_log):
    call(step, 1, 2, 2)
    assert compile_log["step"].compiles == 2
    assert compile_log["other"].traces == 0
### the fixture counts in threads
def test_it(compile_log):
    with futures.ThreadPoolExecutor() as pool: pool.submit(call, step, 1).result()
    assert compile_log["step"].traces == 1
### a failure has the log
def test_it(compile_log):
    call(step, 1, 2)
    assert not compile_log["step"].traces
> *- compile_log -*
> step *2 *2 *
> step was traced*
> *expected: only 2 programs, which differ in x: shape: float32?1? -> float32?2?
### a failure without a compile
def test_it(compile_log): assert False
> *assert False*
! *- compile_log -*
### max_traces is exceeded
@pytest.mark.max_traces(1)
def test_it(): call(step, 1, 2)
> step (*.py:*) was traced 2 times, max_traces(1).
>   It was traced and compiled again, once:
> *x: shape: float32?1? -> float32?2?
> *hint: pad x to one shape*
! *pytest_canonopt.py*
! *- compile_log -*
### max_compiles is exceeded by a compile without a trace
@pytest.mark.max_compiles(1)
def test_it():
    x = jnp.ones(1)
    step(x), step(jax.device_put(x, jax.devices()[0]))
> step (*.py:*) was compiled 2 times, max_compiles(1).
> *x: commitment: not committed -> committed
> *jax.device_put*
### the limit is enough
@pytest.mark.max_traces(n=2)
def test_it(): call(step, 1, 2, 2)
### a compile without a trace is enough
@pytest.mark.max_traces(1)
def test_it():
    x = jnp.ones(1)
    step(x), step(jax.device_put(x, jax.devices()[0]))
### of two names
@pytest.mark.max_traces(1, "step", "other")
def test_it(): call(step, 1), call(other, 1, 2)
> other * was traced 2 times, max_traces(1).
### a failure of its own
@pytest.mark.max_traces(1)
def test_it():
    call(step, 1, 2)
    assert "mine" == "other"
> *assert "mine" == "other"*
> *- compile_log -*
> *expected: only 2 programs, which differ in *
### what a fixture does
@pytest.mark.max_traces(1)
def test_it(warmed): call(step, 1, 2, 3)
### a misspelt name
@pytest.mark.max_traces(1, "stepp")
def test_it(): call(step, 1)
> *No function has the name 'stepp'. *step*. Write 'step'.
### a name that is not traced
@pytest.mark.max_traces(0, "step")
def test_it(warmed): call(step, 1)
### eager work
@pytest.mark.max_compiles(1)
def test_it(): scan(), scan(), scan()
> *.py:* was compiled 3 times, max_compiles(1).
> *It compiled scan again, twice:
> *the shapes are the same: scan gets another function or length each time
> *hint: put canonopt.jit around the whole computation (filter_jit if it takes functions), or use one function and one length
### eager work that counts as traces
@pytest.mark.max_traces(1)
def test_it(): scan(), scan(), scan()
> *.py:* was traced 3 times, max_traces(1).
### eager work for other shapes
@pytest.mark.max_compiles(0)
def test_it():
    for n in range(3): jnp.ones(n) * 2
### no_recompiles and no compile
@pytest.mark.no_recompiles
def test_it(warmed): call(step, 1, 2)
### no_recompiles tells against fixtures
@pytest.mark.no_recompiles
def test_it(warmed): call(step, 1, 3)
> E *RecompileError: step * was traced inside of no_recompiles(), at *
> E *x: shape: float32?2? -> float32?3?
### no_recompiles with arguments
@pytest.mark.no_recompiles(warmup=1, allow=("other",))
def test_it(): call(step, 3), call(other, 3, 4)
### no_recompiles with another marker
@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_recompiles(mode="warn")
@pytest.mark.max_traces(0, "other")
def test_it(): call(other, 5)
> other * was traced 1 times, max_traces(0).
### no_recompiles in a thread
@pytest.mark.no_recompiles
def test_it():
    with futures.ThreadPoolExecutor() as pool: pool.submit(call, step, 6)
> step * was traced or compiled, and the error did not reach the test:
### the fixture no_recompiles
def test_it(no_recompiles):
    call(step, 1)
    with no_recompiles(): call(step, 1)
    with no_recompiles(warmup=0): call(step, 2)
> E *RecompileError: step *
> E *x: shape: float32?1? -> float32?2?
### a warm-up without a name
@pytest.mark.no_recompiles(1)
def test_it(): pass
> @pytest.mark.no_recompiles(1): *takes 0 positional arguments*
### an invalid warm-up
@pytest.mark.no_recompiles(warmup=-1)
def test_it(): pass
> @pytest.mark.no_recompiles(warmup=-1): warmup must be 0 or more, not -1. *
"""  # noqa: E501
CASES = {name: text for name, (_, text) in named_texts(TEXT).items()} | {
    f"max_traces({arguments})": f"""\
@pytest.mark.max_traces({arguments})
def test_it(): pass
> @pytest.mark.max_traces({arguments.replace(chr(39), "?")}) needs a limit. \
Write *, or @pytest.mark.max_traces(1, 'step') for functions*"""
    for arguments in ("", "'step'", "True", "1, 2", "m=1", "n='x'")
}


@pytest.mark.parametrize("name", CASES)
def test_a_test_with_markers_and_fixtures(name, session):
    found, absent = (re.findall(f"^{sign} (.*)", CASES[name], re.M) for sign in ">!")
    result = session(re.sub(r"^[>!].*", "", CASES[name], flags=re.M))
    result.assert_outcomes(passed=int(not found), failed=int(bool(found)))
    for line in absent:
        result.stdout.no_fnmatch_line(line)
    result.stdout.fnmatch_lines(found)


def test_classes_unittest_and_other_outcomes(session):
    result = session("""
@pytest.mark.max_traces(1)
class TestClass:
    def test_as_the_class(self):
        call(step, 5, 6)

    @pytest.mark.max_traces(2)
    def test_nearer(self):
        call(step, 7, 8)

    @pytest.mark.max_traces(2, "step")
    def test_only_for_a_name(self):
        call(step, 9, 10)
        call(other, 9, 10)

class Case(unittest.TestCase):
    @pytest.mark.max_traces(1)
    def test_case(self):
        call(other, 1, 2)

@pytest.mark.max_traces(1)
@pytest.mark.xfail(raises=KeyError, strict=True)
def test_xfails():
    raise KeyError

@pytest.mark.max_traces(1)
def test_skips():
    pytest.skip("not here")
""")
    result.assert_outcomes(passed=1, failed=3, xfailed=1, skipped=1)
    message = "other * was traced 2 times, max_traces(1)."
    result.stdout.fnmatch_lines(["* TestClass.test_only_for_a_name *", message])


def test_a_jax_that_cannot_be_watched_is_an_error(session, monkeypatch):
    with monkeypatch.context() as context:
        watching._check_misses.cache_clear()
        context.setattr("jax._src.pjit._infer_params", lambda *args: None)
        result = session("""
@pytest.mark.max_traces(1)
def test_marked(): pass

def test_fixture(compile_log): pass

def test_neither(): pass
""")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    text = "*UnsupportedVersionError: canonopt cannot count traces and compiles with jax *"
    result.stdout.fnmatch_lines([text, text])


def test_markers_are_documented(session):
    lines = ["max_traces(n, *names)", "max_compiles(n, *names)", "no_recompiles(mode=..., *)"]
    session("", "--markers").stdout.fnmatch_lines([f"@pytest.mark.{line}: *" for line in lines])


def test_a_session_without_it_imports_no_jax(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    assert 'pytest_canonopt' in sys.modules\n"
        "    loaded = {'jax', 'jaxlib', 'canonopt', 'optax', 'numpy'} & set(sys.modules)\n"
        "    print('loaded', loaded or 'nothing')\n"
    )
    folder = str(pathlib.Path(pytest_canonopt.__file__).parent)
    environment = {"PYTHONPATH": folder, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = ["-m", "pytest", "-p", "pytest_canonopt", "-q", tmp_path]
    assert "loaded nothing" in printed_by(*command, cwd=tmp_path, env=environment)


def test_it_is_found_where_the_package_is_installed():
    entries = importlib.metadata.distribution("canonopt").entry_points
    (entry,) = entries.select(group="pytest11")
    # Of one name with the module, so that `-p` of both is one plugin.
    assert (entry.name, entry.value) == ("pytest_canonopt", "pytest_canonopt")
    assert entry.load() is pytest_canonopt
