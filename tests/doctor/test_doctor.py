"""`canonopt doctor`: that a script runs as without it, and what is reported."""

import html.parser
import importlib.metadata
import json
import os
import pathlib
import py_compile
import re
import signal
import subprocess
import sys
import zipfile

import attrs
import jax
import jax.numpy as jnp
import pytest

import canonopt
from canonopt._doctor import forms
from canonopt._doctor.page import as_html
from canonopt._doctor.report import Report
from canonopt._recompiles import Entry, FunctionLog

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
PYTHON = [sys.executable]
DOCTOR = [*PYTHON, "-m", "canonopt", "doctor"]
# As much of the report as is the same for all scripts.
HEADING = "\ncanonopt doctor: "


def run(*command, **options):
    options = {"cwd": SCRIPTS, "input": "", **options}
    command = [str(part) for part in command]
    environment = {**os.environ, "PYTHONPATH": importable(), **options.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, **options
    )


def importable():
    """Where canonopt is, for scripts that run elsewhere."""
    return str(pathlib.Path(canonopt.__file__).parents[1])


def doctored(*command, **options):
    """What the script wrote to stderr, the report, and what else there is."""
    done = run(*DOCTOR, *command, **options)
    errors, heading, report = done.stderr.rpartition(HEADING)
    assert heading, done.stderr
    return errors, report, done


# --- where JAX has changed ----------------------------------------------------------------------

MOVED = """
import sys, jax
from canonopt.__main__ import main
from jax._src import {module}
{module}.{name} = {value}
sys.exit(main(sys.argv[1:]))
"""
SCRIPT = """
import jax
jax.jit(lambda x: x)(1.0)
print("done")
"""


@pytest.mark.parametrize(
    ("options", "moved", "status", "printed", "name"),
    [
        (
            [],
            ("pjit", "_infer_params", "lambda *args: None"),
            1,
            "",
            "jax._src.pjit._infer_params(args)",
        ),
        (
            [],
            ("dispatch", "BACKEND_COMPILE_EVENT", "'moved'"),
            0,
            "done\n",
            "the event of a compile in jax.monitoring",
        ),
        (
            ["--fail-on-recompile"],
            ("dispatch", "BACKEND_COMPILE_EVENT", "'moved'"),
            1,
            "done\n",
            "the event of a compile in jax.monitoring",
        ),
    ],
)
def test_what_cannot_be_counted_is_said(tmp_path, options, moved, status, printed, name):
    module, attribute, value = moved
    code = MOVED.format(module=module, name=attribute, value=value)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = run(*PYTHON, "-c", code, "doctor", *options, script)
    assert (done.returncode, done.stdout) == (status, printed), done.stderr
    text = f"canonopt doctor: canonopt cannot count traces and compiles with jax {jax.__version__}"
    assert done.stderr.startswith(f"{text}: {name} is gone or has changed."), done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- as without the doctor ----------------------------------------------------------------------

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


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_does_what_it_does_without_the_doctor(ending):
    arguments = ("as_python_has_it.py", ending, "--json", "x y", "-m")
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


def test_a_module_runs_as_one():
    plain = run(*PYTHON, "-m", "as_python_has_it", "raises", "-x")
    errors, _, done = doctored("-m", "as_python_has_it", "raises", "-x")
    assert "_run_module_as_main" in errors  # which `python -m` shows
    assert (done.stdout, errors, done.returncode) == (plain.stdout, plain.stderr, 1)


def test_a_module_that_there_is_not():
    plain = run(*PYTHON, "-m", "no_such_module")
    errors, _, done = doctored("-m", "no_such_module")
    assert "No module named no_such_module" in errors
    assert (errors, done.returncode) == (plain.stderr, plain.returncode)


def test_a_module_runs_without_what_runpy_keeps_private():
    script = (
        "import runpy, sys; del runpy._run_module_as_main; from canonopt.__main__ import main; "
        "sys.exit(main(['doctor', '-m', 'as_python_has_it', 'exits with 7']))"
    )
    plain, done = run(*PYTHON, "-m", "as_python_has_it", "exits with 7"), run(*PYTHON, "-c", script)
    assert done.returncode == plain.returncode == 7, done.stderr
    assert done.stdout.startswith("".join(plain.stdout.splitlines(keepends=True)[:-1]))


def without_the_report(stderr):
    """What is left of stderr, without addresses, where a script has compiled nothing."""
    left, reports = re.subn(r"\ncanonopt doctor: .*?defined at *\n", "", stderr, flags=re.DOTALL)
    assert reports == 1, stderr
    return re.sub("0x[0-9a-f]+", "", left)


def assert_same(plain, done):
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    assert without_the_report(done.stderr) == re.sub("0x[0-9a-f]+", "", plain.stderr)


MAIN = "import sys\nprint(__file__, sys.argv, sys.path[0], sorted(globals()))\n1/0"


@pytest.mark.parametrize("relative", ["folder", "./main.zip", "main.pyc", "../here/main.py"])
def test_whatever_python_runs(relative, tmp_path):
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


@pytest.mark.parametrize("what", ODD)
def test_odd_scripts_run_as_without_the_doctor(what, tmp_path):
    (tmp_path / "script.py").write_text(ODD[what])
    plain = run(*PYTHON, "script.py", cwd=tmp_path)
    done = run(*DOCTOR, "--json", "report.json", "script.py", cwd=tmp_path)
    assert_same(plain, done)
    assert json.loads((tmp_path / "report.json").read_text())["command"] == "script.py"


READER = "import sys; print(1, flush=True); sys.stdin.read(); {}"


@pytest.mark.parametrize(
    ("closed", "then"),
    [
        ("stdout", "print(2)"),
        ("stderr", "0"),
        ("stdout and stderr", "print(2)"),
        ("stdout and stderr", "1/0"),
    ],
)
def test_a_reader_who_is_gone_changes_neither_the_status_nor_the_files(closed, then, tmp_path):
    (tmp_path / "script.py").write_text(READER.format(then))
    statuses = []
    for command in (PYTHON, [*DOCTOR, "--json", "report.json", "--html", "report.html"]):
        with subprocess.Popen(
            [*command, "script.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": importable(), "PYTHONUNBUFFERED": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin and process.stdout and process.stderr
            assert process.stdout.readline().strip() == b"1"
            for name in closed.split(" and "):
                getattr(process, name).close()
            process.stdin.close()
            process.wait(timeout=60)
        statuses.append(process.returncode)
    assert statuses[0] == statuses[1]
    assert (tmp_path / "report.json").exists() and (tmp_path / "report.html").exists()


def test_a_report_that_cannot_be_written_is_said_after_the_others(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import pathlib; pathlib.Path('report.json').mkdir()")
    done = run(*DOCTOR, "--json=report.json", "--html=page.html", script, cwd=tmp_path)
    assert f"\ncanonopt doctor: cannot write {tmp_path / 'report.json'}: " in done.stderr
    assert (tmp_path / "page.html").exists()
    assert done.returncode == 0


def test_a_script_that_cannot_be_compiled():
    plain = run(*PYTHON, "broken.txt")
    errors, _, done = doctored("broken.txt")
    assert "SyntaxError" in errors
    assert (errors, done.returncode) == (plain.stderr, plain.returncode)


def test_a_script_that_there_is_not():
    errors, _, done = doctored("no_such.py")
    assert f"canonopt doctor: can't open file '{SCRIPTS / 'no_such.py'}'" in errors
    assert done.returncode == run(*PYTHON, "no_such.py").returncode == 2


def test_settings_that_a_script_makes_before_it_imports_jax():
    plain = run(*PYTHON, "settings.py")
    assert plain.stdout == "float64 float32 jax\n", plain.stderr
    assert doctored("settings.py")[2].stdout == plain.stdout


def test_a_safe_path_stays_safe():
    script = "import sys; print(sys.path[0])"
    plain = run(*PYTHON, "-P", "-c", script)
    command = [*PYTHON, "-P", "-m", "canonopt", "doctor", "as_python_has_it.py", "returns"]
    done = run(*command)
    assert "No module named 'beside'" in done.stderr
    assert str(SCRIPTS) not in plain.stdout


def test_interrupted_it_still_reports():
    command = [*DOCTOR, "as_python_has_it.py", "interrupted"]
    with subprocess.Popen(
        command,
        cwd=SCRIPTS,
        env={**os.environ, "PYTHONPATH": importable()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    trace, _, report = errors.rpartition(HEADING)
    assert trace.endswith("\nKeyboardInterrupt\n") and "canonopt" not in trace
    assert re.search(r"^step +1 +1 ", report, re.MULTILINE)
    assert "exit True" in out


# --- what is reported ---------------------------------------------------------------------------

CANONICALIZE = "write: model = canonopt.canonicalize(model)"
SCENARIOS = {
    "fresh_optimizer": ("step", 3, "optim: transformation: ", "write: optim = canonopt.adam("),
    "state_of_the_whole_model": (
        "step",
        1,
        "ValueError: ",  # whose words are those of the release of jax and equinox
        "write: opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)",
    ),
    "weakly_typed_model": ("step", 2, "model.weight: weak type: ", CANONICALIZE),
    "fresh_lambda": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_partial": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_jit": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "fresh_vmap": ("step", 3, "model.activation: callable: ", CANONICALIZE),
    "growing_batch": ("total", 3, "x: shape: float32[1] -> float32[2]", "write: pad "),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_is_diagnosed_and_with_the_line_written_traced_once(scenario):
    name, traces, cause, fix = SCENARIOS[scenario]
    _, report, done = doctored("--fail-on-recompile", "recompiles.py", scenario)
    is_failure = scenario == "state_of_the_whole_model"
    assert done.returncode == (1 if is_failure else 3)
    assert re.search(rf"^{name} +{traces} ", report, re.MULTILINE), report
    assert cause in report and fix in report
    if traces > 2:  # in one group, since they are for one reason
        assert len(re.findall("was traced and compiled again, twice", report)) == 1, report

    _, report, done = doctored("--fail-on-recompile", "recompiles.py", scenario, "fixed")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^{name} +1 +1 ", report, re.MULTILINE), report
    assert "No function was traced or compiled more than once." in report
    assert "write:" not in report


def test_recompiling_fails_only_where_it_is_asked_to():
    assert doctored("recompiles.py", "growing_batch")[2].returncode == 0


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of a script in all its forms: text, JSON and page."""
    folder = tmp_path_factory.mktemp("reports")
    files = "--json", folder / "report.json", f"--html={folder / 'report.html'}"
    _, report, _ = doctored(*files, "recompiles.py", "fresh_lambda", "<&\"'>")
    found = json.loads((folder / "report.json").read_text())
    return report, found, (folder / "report.html").read_text()


def test_json_has_all_of_it(written):
    _, found, _ = written
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
    assert set(cause) == {"what", "times", "seconds", "changes", "note", "fixes"}
    (change,) = cause["changes"]
    assert set(change) == {"path", "kind", "before", "after", "fix"}
    assert (change["path"], change["kind"]) == ("model.activation", "callable")
    assert cause["fixes"] == [change["fix"]]


class Page(html.parser.HTMLParser):
    """The text of a page, its tags, and a check that they close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def test_the_page_shows_a_timeline_and_the_line_to_write(written):
    page = Page(written[2])
    assert "model.activation" in page.text
    assert "model = canonopt.canonicalize(model)" in page.text
    bars = [about["class"] for tag, about in page.tags if tag == "rect"]
    assert bars.count("first") == bars.count("first trace") == 1
    assert bars.count("again") == bars.count("again trace") == 2
    assert "prefers-color-scheme: dark" in written[2]


def test_the_page_needs_no_other_file(written):
    page = Page(written[2])
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not {name for _, about in page.tags for name in about} & {"src", "href", "xlink:href"}
    assert not re.search(r"https?:|url\(|@import", written[2])


def test_the_page_is_escaped(written):
    page = Page(written[2])
    assert "recompiles.py fresh_lambda" in page.text and "<&" in page.text
    assert "<lambda>" in page.text and "<lambda>" not in written[2]


HOSTILE = "<script>alert('&\"')</script>"


def report_of(function):
    """The report of a script that calls a function."""
    with canonopt.compile_log() as log:
        function()
    return Report.of(log, "script.py", 0, 1.0)


@pytest.fixture(scope="module")
def hostile():
    """A report with markup wherever a script may write into it, and with much to say."""
    variables = {}
    code = "def function(x, n):\n    if n == 0:\n        raise ValueError(message)"
    exec(compile(code, HOSTILE, "exec"), {"message": HOSTILE}, variables)
    function = variables["function"]
    function.__name__ = HOSTILE
    step = jax.jit(function, static_argnames="n")

    def run():
        for size in range(1, 5):
            step({f"{HOSTILE}{i}": jnp.ones(size) for i in range(20)}, n=HOSTILE)
        with pytest.raises(ValueError, match="alert"):
            step({}, n=0)

    return attrs.evolve(report_of(run), command=HOSTILE)


def test_nothing_gets_into_the_page_unescaped(hostile):
    assert HOSTILE in str(hostile.functions[0].place)
    text = as_html(hostile)
    assert {tag for tag, _ in Page(text).tags}.isdisjoint({"script"})
    assert "<script" not in text and Page(text).text.count(HOSTILE) > 5


def test_the_report_says_what_it_leaves_out(hostile):
    text = forms.as_text(hostile)
    assert "and 17 more differences" in text
    assert "failed while traced, once" in text
    assert "was traced and compiled again, 3 times" in text
    assert "and 8 more" in as_html(hostile)


def test_the_report_says_for_how_many_traces_it_has_no_details():
    many = FunctionLog("step", None, traces=100, entries=[Entry(None, 0.0, True)] * 2)
    report = Report("script.py", 0, 1.0, 0.0, [many], [])
    text = forms.as_text(report)
    assert "\nstep\n  and 98 times more, details omitted\n" in text
    assert "and 98 times more, details omitted" in Page(as_html(report)).text


def test_the_most_expensive_function_comes_first():
    def function(name, seconds):
        entry = Entry(None, 0.0, True, trace_seconds=seconds, traced_again=True)
        return FunctionLog(name, None, traces=2, entries=[entry])

    functions = [function("cheap", 1.0), function("dear", 3.0), function("medium", 2.0)]
    report = Report("script.py", 0, 6.0, 0.0, functions, [])
    assert [section.name for section in report.sections] == ["dear", "medium", "cheap"]
    assert [row.cells[0] for row in report.rows] == ["cheap", "dear", "medium"]
    assert report.lost_seconds == 6.0


def test_what_is_traced_inside_of_another_and_then_called_is_no_recompile():
    predict = jax.jit(lambda x: x + 1)
    step = jax.jit(lambda x: predict(x) * 2)
    found = report_of(lambda: (step(jnp.ones(3)), predict(jnp.ones(3))))
    assert (found.repeated, found.sections, found.lost_seconds) == ([], [], 0.0)
    text, page = forms.as_text(found), as_html(found)
    assert "No function was traced or compiled more than once." in text
    assert "write:" not in text and " again" not in text
    assert 'class="first"' in page and 'class="again' not in page


def test_a_gradient_of_a_jitted_function_is_no_recompile():
    gradient = jax.value_and_grad(jax.jit(lambda x: jnp.sum(x**2)))
    found = report_of(lambda: [gradient(jnp.ones(3)) for _ in range(3)])
    assert (found.repeated, found.sections, found.lost_seconds) == ([], [], 0.0)
    assert "details omitted" not in forms.as_text(found)


def test_a_script_that_compiles_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print(1)")
    page = tmp_path / "page.html"
    _, report, done = doctored("--fail-on-recompile", "--html", page, script)
    assert "No function of the script was compiled." in report
    assert done.returncode == 0
    assert "No function was traced or compiled more than once." in Page(page.read_text()).text


def test_without_rich_the_report_is_plain_text(tmp_path):
    (tmp_path / "rich.py").write_text("raise ImportError('no rich here')")
    path = os.pathsep.join([str(tmp_path), importable()])
    command = [*DOCTOR, "recompiles.py", "growing_batch"]
    done = run(*command, env={"PYTHONPATH": path})
    assert "For tables and colors: pip install 'canonopt[doctor]'" in done.stderr
    assert re.search(r"^total +3 +3 ", done.stderr, re.MULTILINE)
    assert "write: pad or drop" in done.stderr
    assert done.returncode == 0


def test_rich_takes_nothing_for_markup(hostile, capsys):
    pytest.importorskip("rich")
    forms.print_rich(hostile, sys.stderr)
    assert capsys.readouterr().err.count(HOSTILE) > 5


# --- the command line ---------------------------------------------------------------------------


def test_the_script_of_the_package_is_installed():
    entries = importlib.metadata.distribution("canonopt").entry_points
    (script,) = entries.select(group="console_scripts")
    assert (script.name, script.value) == ("canonopt", "canonopt.__main__:main")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doctor"], "no script to run: canonopt doctor train.py"),
        (["doctor", "-m"], "no script to run: canonopt doctor train.py"),
        (["doctor", "--html"], "argument --html: expected one argument"),
        (["doctor", "--nonsense", "train.py"], "unrecognized arguments: --nonsense"),
        (["doctor", "--json", "no/such/folder.json", "train.py"], "cannot write .*no such folder"),
        ([], "the following arguments are required: command"),
    ],
)
def test_wrong_usage_is_said_before_anything_runs(arguments, message):
    done = run(*PYTHON, "-m", "canonopt", *arguments)
    assert done.returncode == 2
    assert re.search(message, done.stderr), done.stderr


def test_help_documents_the_exit_status():
    done = run(*DOCTOR, "--help")
    assert "3 if the script succeeds" in " ".join(done.stdout.split())
    assert done.returncode == 0
