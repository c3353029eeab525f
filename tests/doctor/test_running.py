"""That a script runs as it does without the doctor."""

import json
import py_compile
import re
import zipfile

import pytest

from ..support.doctor import DOCTOR, PYTHON, SCRIPTS, doctored, run

ENDINGS = {
    "returns": 0,
    "exits with 7": 7,
    "exits with 0": 0,
    "exits with words": 1,
    "raises": 1,
    "raises from": 1,
    "hooked": 1,
    "late": 0,
    "forks": 0,
}


def mostly_slow(names, *fast):
    marks = {name: () if name in fast else pytest.mark.slow for name in names}
    return [pytest.param(name, marks=marks[name]) for name in names]


@pytest.mark.parametrize("ending", mostly_slow(ENDINGS, "raises"))
def test_a_script_does_what_it_does_without_the_doctor(ending):
    arguments = ("endings.py", ending, "--json", "x y", "-m")
    plain = run(*PYTHON, *arguments, input="to stdin")
    errors, report, done = doctored(*arguments, input="to stdin")
    assert plain.returncode == ENDINGS[ending], plain.stderr
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    # A fork is warned of by the number of the process.
    assert re.sub(r"pid=\d+", "", errors) == re.sub(r"pid=\d+", "", plain.stderr)
    assert "to stdin" in done.stdout and "exit True" in done.stdout
    assert ("Traceback" in errors) == ending.startswith("raises")
    traces = 2 if ending in ("raises", "raises from", "late") else 1
    assert re.search(rf"^step +{traces} ", report, re.MULTILINE), report


@pytest.mark.slow
def test_a_module_runs_as_with_python():
    plain = run(*PYTHON, "-m", "endings", "raises", "-x")
    errors, _, done = doctored("-m", "endings", "raises", "-x")
    assert "_run_module_as_main" in errors  # which `python -m` shows
    assert (done.stdout, errors, done.returncode) == (plain.stdout, plain.stderr, 1)


@pytest.mark.slow
def test_a_module_that_does_not_exist():
    plain = run(*PYTHON, "-m", "no_such_module")
    errors, _, done = doctored("-m", "no_such_module")
    assert "No module named no_such_module" in errors
    assert (errors, done.returncode) == (plain.stderr, plain.returncode)


@pytest.mark.slow
def test_a_module_runs_without_the_private_function_of_runpy():
    script = (
        "import runpy, sys; del runpy._run_module_as_main; from canonopt.__main__ import main; "
        "sys.exit(main(['doctor', '-m', 'endings', 'exits with 7']))"
    )
    plain, done = run(*PYTHON, "-m", "endings", "exits with 7"), run(*PYTHON, "-c", script)
    assert done.returncode == plain.returncode == 7, done.stderr
    assert done.stdout.startswith("".join(plain.stdout.splitlines(keepends=True)[:-1]))


def without_the_report(stderr):
    """What a script that compiles nothing wrote to stderr, without addresses."""
    left, reports = re.subn(r"\ncanonopt doctor: .*?defined at *\n", "", stderr, flags=re.DOTALL)
    assert reports == 1, stderr
    return re.sub("0x[0-9a-f]+", "", left)


def assert_same(plain, done):
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    assert without_the_report(done.stderr) == re.sub("0x[0-9a-f]+", "", plain.stderr)


MAIN = "import sys\nprint(__file__, sys.argv, sys.path[0], sorted(globals()))\n1/0"


RELATIVE = ("folder", "./main.zip", "main.pyc", "../here/main.py")


@pytest.mark.parametrize("relative", mostly_slow(RELATIVE, "./main.zip"))
def test_the_doctor_runs_whatever_python_runs(relative, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "folder").mkdir()
    for path in (folder / "main.py", folder / "folder" / "__main__.py"):
        path.write_text(MAIN)
    py_compile.compile(str(folder / "main.py"), cfile=str(folder / "main.pyc"))
    with zipfile.ZipFile(folder / "main.zip", "w") as archive:
        archive.write(folder / "main.py", "__main__.py")
    plain = run(*PYTHON, relative, "x", cwd=folder)
    assert "ZeroDivisionError" in plain.stderr and plain.stdout
    assert_same(plain, run(*DOCTOR, relative, "x", cwd=folder))


HOOK = "import sys\ndef hook(*_):\n    {}\nsys.excepthook = hook\n1/0"
TEE = "import sys\nclass Tee:\n    write = sys.__stdout__.write\nsys.stdout = Tee()\nprint(1)\n"
ODD = {
    "stdout is closed": "import sys; sys.stdout.close()",
    "stderr is closed": "import sys; sys.stderr.close(); print(1)",
    "both are closed": "import sys; sys.stderr.close(); sys.stdout.close()",
    "words to a closed stderr": "import sys; print(1); sys.stderr.close(); sys.exit('words')",
    "stdout is gone": "import sys; sys.stdout = None; 1/0",
    "stderr is gone": "import sys; sys.stderr = None; 1/0",
    "no flush": TEE,
    "no flush, and an error": f"{TEE}1/0",
    "unfinished lines": "import sys; print(1, end=''); print(2, end='', file=sys.stderr); 1/0",
    "a hook that looks": HOOK.format("print(sys.exc_info(), sys.last_value)"),
    "a hook that fails": HOOK.format("raise KeyError('of the hook')"),
    "a hook that exits": HOOK.format("sys.exit(7)"),
    "no hook": "import sys; sys.excepthook = None; 1/0",
    "the last error": (
        "import atexit, sys\n"
        "found = lambda: [(n, type(getattr(sys, n))) for n in dir(sys) if n.startswith('last_')]\n"
        "atexit.register(lambda: print(found()))\n1/0"
    ),
    "the spec of jax": (
        "import importlib.util as u\n"
        "def show(s): print(s.origin, s.submodule_search_locations, s.cached, s.has_location)\n"
        "found = u.find_spec('jax'); show(found); print(type(found.loader), found.loader.path)\n"
        "print(len(found.loader.get_source('jax')))\n"
        "import jax.numpy, jax; show(jax.__spec__); show(u.find_spec('jax'))\n"
        "print(type(jax.__loader__), vars(jax.__loader__), jax.numpy.add)"
    ),
}


@pytest.mark.parametrize("what", mostly_slow(ODD, "both are closed", "a hook that fails"))
def test_odd_scripts_run_as_without_the_doctor(what, tmp_path):
    (tmp_path / "script.py").write_text(ODD[what])
    plain = run(*PYTHON, "script.py", cwd=tmp_path)
    done = run(*DOCTOR, "--json", "report.json", "script.py", cwd=tmp_path)
    assert_same(plain, done)
    assert json.loads((tmp_path / "report.json").read_text())["command"] == "script.py"


@pytest.mark.slow
def test_a_script_with_a_syntax_error():
    plain = run(*PYTHON, "broken.txt")
    errors, _, done = doctored("broken.txt")
    assert "SyntaxError" in errors
    assert (errors, done.returncode) == (plain.stderr, plain.returncode)


def test_a_script_that_does_not_exist():
    errors, _, done = doctored("no_such.py")
    assert f"canonopt doctor: can't open file '{SCRIPTS / 'no_such.py'}'" in errors
    assert done.returncode == run(*PYTHON, "no_such.py").returncode == 2


@pytest.mark.slow
def test_settings_in_the_environment_before_jax_is_imported():
    plain = run(*PYTHON, "settings.py")
    assert plain.stdout == "float64 float32 jax\n", plain.stderr
    assert doctored("settings.py")[2].stdout == plain.stdout


@pytest.mark.slow
def test_a_safe_path_stays_safe():
    script = "import sys; print(sys.path[0])"
    plain = run(*PYTHON, "-P", "-c", script)
    command = [*PYTHON, "-P", "-m", "canonopt", "doctor", "endings.py", "returns"]
    done = run(*command)
    assert "No module named 'beside'" in done.stderr
    assert str(SCRIPTS) not in plain.stdout
