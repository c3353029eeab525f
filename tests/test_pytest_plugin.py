"""The plugin for pytest, by sessions of pytest within this one."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

import canonopt
import pytest_canonopt

pytest_plugins = ["pytester"]

HEADER = """
import jax, jax.numpy as jnp, pytest

@jax.jit
def step(x):
    return 2 * x

@jax.jit
def other(x):
    return 3 * x

def call(function, *sizes):
    for size in sizes:
        function(jnp.ones(size))
"""
WHY = ["*x: shape: float32?1? -> float32?2?", "*hint: pad or drop what is left over*"]


@pytest.fixture
def session(pytester):
    """Runs the given tests. The plugin is named, since the package may be only on a path."""

    def run(tests, *options):
        pytester.makepyfile(HEADER + tests)
        return pytester.runpytest_inprocess(
            "-p", "pytest_canonopt", "-p", "no:cacheprovider", "--strict-markers", *options
        )

    return run


def test_a_jax_that_cannot_be_watched_is_an_error(session, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr("canonopt._recompiles.listeners.watch._misses", None)
        context.setattr("jax._src.pjit._infer_params", lambda *args: None)
        result = session("""
@pytest.mark.max_traces(1)
def test_marked():
    pass

def test_fixture(compile_log):
    pass

def test_neither():
    pass
""")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    text = "*UnsupportedVersionError: canonopt cannot count traces and compiles with jax *"
    result.stdout.fnmatch_lines([text, text])


def test_the_fixture_counts_what_the_test_does(session):
    result = session("""
def test_counts(compile_log):
    call(step, 1, 2, 2)
    assert (compile_log["step"].traces, compile_log["step"].compiles) == (2, 2)
    assert compile_log["other"].traces == 0

def test_counts_anew(compile_log):
    call(step, 1, 2)
    assert compile_log["step"].traces == 0
    call(other, 1)
    assert compile_log["other"].traces == 1
""")
    result.assert_outcomes(passed=2)


def test_the_fixture_counts_in_threads(session):
    result = session("""
import threading

def test_counts(compile_log):
    thread = threading.Thread(target=call, args=(step, 1))
    thread.start()
    thread.join()
    assert compile_log["step"].traces == 1
""")
    result.assert_outcomes(passed=1)


def test_the_log_is_in_the_report_of_a_failure(session):
    result = session("""
def test_fails(compile_log):
    call(step, 1, 2)
    assert compile_log["step"].traces == 1

def test_passes(compile_log):
    call(other, 3, 4)

def test_fails_and_compiles_nothing(compile_log):
    assert False
""")
    result.assert_outcomes(passed=1, failed=2)
    few = "*expected: 2 programs are few, x: shape: float32?1? -> float32?2?"
    result.stdout.fnmatch_lines(["*- compile_log -*", "step *2 *2 *", "step was traced*", few])
    assert str(result.stdout).count("- compile_log -") == 1
    result.stdout.no_fnmatch_line("*float32?4?*")


@pytest.mark.parametrize(
    ("marker", "done"), [("max_traces", "traced"), ("max_compiles", "compiled")]
)
def test_a_marker_fails_a_test_and_says_why(session, marker, done):
    result = session(f"""
@pytest.mark.{marker}(1)
def test_twice():
    call(step, 1, 2)

@pytest.mark.{marker}(1)
def test_once():
    call(other, 1, 1)

@pytest.mark.{marker}(n=2)
def test_twice_is_enough():
    call(other, 2, 3)

def test_without_limit():
    call(other, 4, 5)
""")
    result.assert_outcomes(passed=3, failed=1)
    message = f"step (*test_a_marker*.py:*) was {done} 2 times, {marker}(1)."
    result.stdout.fnmatch_lines([message, "  It was traced and compiled again, once:", *WHY])
    # No traceback of the plugin, and no table beside the message.
    result.stdout.no_fnmatch_line("*pytest_canonopt.py*")
    result.stdout.no_fnmatch_line("*- compile_log -*")


def test_a_compile_without_a_trace_is_seen(session):
    tests = """
def both():
    step(jnp.ones(1))
    step(jax.device_put(jnp.ones(1), jax.devices()[0]))

@pytest.mark.max_traces(1)
def test_traces():
    both()
    jax.clear_caches()

@pytest.mark.max_compiles(1)
def test_compiles():
    both()
"""
    result = session(tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*x: commitment: not committed -> committed", "*jax.device_put*"])


def test_a_backward_pass_does_not_exceed_the_limit(session):
    tests = """
@pytest.mark.max_compiles(1)
def test_gradient():
    loss = jax.jit(lambda x: jnp.sum(x**2))
    for _ in range(3):
        jax.value_and_grad(loss)(jnp.ones(3))
"""
    session(tests).assert_outcomes(passed=1)


def test_names_and_the_nearest_marker_decide(session):
    result = session("""
@pytest.mark.max_traces(1, "step")
def test_of_this_name():
    call(step, 1)
    call(other, 1, 2)

@pytest.mark.max_traces(1, "step", "other")
def test_of_these_names():
    call(step, 2)
    call(other, 3, 4)

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
""")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "* test_of_these_names *",
            "other * was traced 2 times, max_traces(1).",
            "* TestClass.test_as_the_class *",
            "step * was traced 2 times, max_traces(1).",
            "* TestClass.test_only_for_a_name *",
            "other * was traced 2 times, max_traces(1).",
        ]
    )


def test_a_test_that_fails_by_itself_says_so_first(session):
    result = session("""
@pytest.mark.max_traces(1)
def test_fails():
    call(step, 1, 2)
    assert "mine" == "other"

@pytest.mark.max_traces(1)
@pytest.mark.xfail(raises=KeyError, strict=True)
def test_xfails():
    raise KeyError

@pytest.mark.max_traces(1)
def test_skips():
    pytest.skip("not here")
""")
    result.assert_outcomes(failed=1, xfailed=1, skipped=1)
    few = "*expected: 2 programs are few, x: shape: float32?1? -> float32?2?"
    result.stdout.fnmatch_lines(["*assert 'mine' == 'other'*", "*- compile_log -*", few])


def test_unittest_and_fixtures(session):
    result = session("""
import unittest

@pytest.fixture
def warmed():
    call(step, 1, 2)  # before the test

@pytest.mark.max_traces(1)
def test_fixture(warmed):
    call(step, 1, 2, 3)

class Case(unittest.TestCase):
    @pytest.mark.max_traces(1)
    def test_case(self):
        call(other, 1, 2)
""")
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("arguments", ["", "'step'", "True", "1, 2", "m=1", "n='x'"])
def test_a_marker_without_a_limit(session, arguments):
    result = session(f"@pytest.mark.max_traces({arguments})\ndef test_it(): pass")
    result.assert_outcomes(failed=1)
    written = arguments.replace("'step'", "?step?").replace("'x'", "?x?")
    lines = [f"@pytest.mark.max_traces({written}) needs a limit. Write*"]
    result.stdout.fnmatch_lines(lines)
    result.stdout.fnmatch_lines(["*@pytest.mark.max_traces(1, 'step') for functions*"])


def test_markers_are_documented(session):
    result = session("", "--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.max_traces(n, *names): *",
            "@pytest.mark.max_compiles(n, *names): *",
            "@pytest.mark.no_recompiles(mode=..., allow=..., warmup=...): *",
        ]
    )


def test_a_misspelt_name_fails(session):
    result = session("""
@pytest.mark.max_traces(1, "stepp")
def test_misspelt():
    call(step, 1)

@pytest.mark.max_traces(0, "step")
def test_cached_by_another_test():
    call(step, 1)
""")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*No function has the name 'stepp'. *step*. Write 'step'."])


def test_the_marker_no_recompiles(session):
    result = session("""
from concurrent import futures
import numpy as np

X = [np.ones(size, np.float32) for size in range(9)]

@pytest.fixture
def warmed():
    step(X[1])

@pytest.mark.no_recompiles
def test_cached(warmed):
    step(X[1])

@pytest.mark.no_recompiles
def test_told_against_the_fixture(warmed):
    step(X[1])
    step(X[2])

@pytest.mark.no_recompiles(warmup=1, allow=("other",))
def test_with_arguments():
    jax.clear_caches()
    step(X[3]), other(X[3]), other(X[4])

@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_recompiles(mode="warn")
@pytest.mark.max_traces(0, "other")
def test_with_another_marker():
    other(X[5])

@pytest.mark.no_recompiles
def test_swallowed():
    with futures.ThreadPoolExecutor() as pool:
        pool.submit(step, X[6])

@pytest.mark.no_recompiles(1)
def test_by_position(): pass

@pytest.mark.no_recompiles(warmup=-1)
def test_invalid(): pass
""")
    result.assert_outcomes(passed=2, failed=5)
    result.stdout.fnmatch_lines_random(
        [
            "E *RecompileError: step * was traced inside of no_recompiles(), at *",
            "other * was traced 1 times, max_traces(0).",
            "step * was traced or compiled, and the error did not reach the test:",
            "@pytest.mark.no_recompiles(1): *takes 0 positional arguments*",
            "@pytest.mark.no_recompiles(warmup=-1): warmup must be 0 or more, not -1. *",
        ]
    )
    result.stdout.fnmatch_lines(["E *x: shape: float32?1? -> float32?2?", "E *hint: pad or drop*"])


def test_the_fixture_no_recompiles(session):
    result = session("""
def test_served(no_recompiles):
    x, y = jnp.ones(1), jnp.ones(2)
    step(x)
    with no_recompiles():
        step(x)
    with no_recompiles(warmup=0):
        step(y)
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *RecompileError: step *", "E *x: shape: float32?1? -> *"])


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
    environment = {**os.environ, "PYTHONPATH": folder, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_canonopt", "-q", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loaded nothing" in done.stdout


def test_it_is_found_where_the_package_is_installed():
    entries = importlib.metadata.distribution("canonopt").entry_points
    (entry,) = entries.select(group="pytest11")
    # Of one name with the module, so that `-p` of both is one plugin.
    assert (entry.name, entry.value) == ("pytest_canonopt", "pytest_canonopt")
    assert entry.load() is pytest_canonopt


def test_this_session_can_use_it_too(request):
    if not request.config.pluginmanager.has_plugin("pytest_canonopt"):
        pytest.skip("the package is only on a path")
    assert isinstance(request.getfixturevalue("compile_log"), canonopt.CompileLog)


@pytest.mark.parametrize(
    ("marker", "verb"), [("max_traces", "traced"), ("max_compiles", "compiled")]
)
def test_a_marker_sees_eager_work(session, marker, verb):
    result = session(f"""
def scan():
    jax.lax.scan(lambda c, x: (c + x, x), 0.0, jax.numpy.ones(3))

@pytest.mark.{marker}(1)
def test_fails():
    scan(), scan(), scan()

@pytest.mark.{marker}(3)
def test_passes():
    scan(), scan(), scan()

@pytest.mark.{marker}(0)
def test_shapes_are_expected():
    for n in range(3):
        jax.numpy.ones(n) * 2
""")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"test_a_marker_sees_eager_work*.py:* was {verb} 3 times, {marker}(1).",
            "*It compiled scan again, twice:",
            "*the shapes are the same: lax.scan gets another function each time",
            "*hint: canonopt.jit around the whole, or give lax.scan one function, made once",
        ]
    )
