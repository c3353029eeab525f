"""The command line: options, exit statuses, files, and when the report is written."""

import importlib.metadata
import json
import re
import sys

import jax
import jax.numpy as jnp
import pytest

from canonopt.__main__ import main

from ..support.counting import fresh
from ..support.doctor import DOCTOR, PYTHON, as_lines, importable, records_of, run, started
from ..support.generated import rows

# Moves a name of JAX in the process of the script, before canonopt listens there.
MOVES = """
import sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "canonopt" and len(sys.orig_argv) == 2:
            from jax._src import {module}
            {module}.{name} = {value}
sys.meta_path.insert(0, Finder)
"""
SCRIPT = """
import jax
jax.jit(lambda x: x)(1.0)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "module", "attribute", "value", "status", "name"),
    [
        ("", "pjit", "_infer_params", "lambda *args: None", 1, "pjit._infer_params(args)"),
        ("", "dispatch", "BACKEND_COMPILE_EVENT", "'moved'", 0, "event of a compile in jax"),
        ("--fail-on-recompile", "dispatch", "BACKEND_COMPILE_EVENT", "'moved'", 1, "event"),
    ],
)
def test_the_doctor_says_what_it_cannot_count(
    options, module, attribute, value, status, name, tmp_path
):
    moves = MOVES.format(module=module, name=attribute, value=value)
    (tmp_path / "sitecustomize.py").write_text(moves)
    (tmp_path / "train.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": importable(tmp_path)}
    done = run(*DOCTOR, *options.split(), "train.py", cwd=tmp_path, env=environment)
    text = f"canonopt cannot count traces and compiles with jax {jax.__version__}: "
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(text)]
    assert name in line and " is gone or has changed." in line
    assert done.returncode == status
    if status == 0 or options:
        assert done.stdout == "done\n"
    else:
        assert "TypeError" in done.stderr  # of the script, which needs the name too


def test_a_closed_pipe_changes_neither_the_status_nor_the_files(tmp_path):
    text = "import sys; print(1, flush=True); sys.stdin.read(); 1/0"
    (tmp_path / "script.py").write_text(text)
    statuses = []
    for command in (PYTHON, [*DOCTOR, "--json", "report.json", "--html", "report.html"]):
        with started(*command, "script.py", cwd=tmp_path, env={"PYTHONUNBUFFERED": ""}) as process:
            assert process.stdin and process.stdout and process.stderr
            assert process.stdout.readline().strip() == b"1"
            process.stdout.close(), process.stderr.close()
            process.stdin.close()
            process.wait(timeout=60)
        statuses.append(process.returncode)
    assert statuses[0] == statuses[1]
    assert (tmp_path / "report.json").exists() and (tmp_path / "report.html").exists()


TOTALS = """
import jax, numpy as np, sys
@jax.jit
def total(x):
    return x.sum()
for size in sys.argv[1:]:
    total(np.ones(int(size)))
"""


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ("1 2 3", 3),
        pytest.param("3 3 3", 0, marks=pytest.mark.slow),
        pytest.param("1 2 3 fails", 1, marks=pytest.mark.slow),
    ],
)
def test_with_the_option_a_recompile_that_can_be_avoided_is_a_failure(sizes, status, tmp_path):
    (tmp_path / "script.py").write_text(TOTALS)
    done = run(*DOCTOR, "--fail-on-recompile", "script.py", *sizes.split(), cwd=tmp_path)
    assert done.returncode == status, done.stderr
    reason = (
        r"\ncanonopt doctor: exit status 3, because of total \(.*\): 3 traces, 3 compiles "
        r"\(allowed: 1 of each\)\n"
    )
    assert bool(re.search(reason, done.stderr)) == (status == 3)


# --- what a team accepts ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A stream in which `step` is traced and compiled three times, and `other` compiled twice."""

    def run():
        step, other = (jax.jit(fresh(name)[0]) for name in ("step", "other"))
        for size in (1, 2, 3):
            step(jnp.ones(size))
            other(jax.device_put(jnp.ones(1), jax.devices()[0] if size > 1 else None))

    path = tmp_path_factory.mktemp("stream") / "stream.jsonl"
    path.write_text("".join(as_lines(records_of(run))))
    return str(path)


@pytest.mark.parametrize(
    ("options", "status", "reasons"),
    [
        ("", 0, []),
        ("--fail-on-recompile", 3, ["step", "other"]),
        ("--fail-on-recompile --allow step:3 --allow other:2", 0, []),
        ("--fail-on-recompile --allow step:2 --allow=other:2", 3, ["step"]),
        ("--fail-on-recompile --allow step:3 --allow othr:2", 3, ["other"]),
    ],
)
def test_what_is_allowed_is_accepted(options, status, reasons, stream, capsys):
    assert main(["doctor", *options.split(), "--attach-to", stream]) == status
    errors = capsys.readouterr().err
    because = r"^canonopt doctor: exit status 3, because of (\w+) "
    assert re.findall(because, errors, re.M) == reasons
    text = "--allow othr: the report has no function of this name"
    assert (text in errors) == ("othr" in options)


# --- streams of others --------------------------------------------------------------------------


def test_attached_to_a_stream_the_report_is_the_same_as_of_a_run(stream, capsys, tmp_path):
    files = ["--json", str(tmp_path / "report.json"), "--html", str(tmp_path / "page.html")]
    files += ["--perfetto", str(tmp_path / "trace.json")]
    assert main(["doctor", *files, "--format", "github", "--attach-to", stream]) == 0
    errors = capsys.readouterr().err
    assert errors.count("\n::warning file=") == 2
    assert re.search(r"^step +3 +3 ", errors, re.MULTILINE)
    assert json.loads((tmp_path / "report.json").read_text())["status"] is None
    assert "exit status" not in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_only_a_terminal_gets_colors(stream, capsys, monkeypatch):
    pytest.importorskip("rich")
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_it=is_terminal: is_it)
        assert main(["doctor", "--attach-to", stream]) == 0
        assert ("\x1b[" in capsys.readouterr().err) == is_terminal


def test_the_command_is_installed():
    entries = importlib.metadata.distribution("canonopt").entry_points
    (script,) = entries.select(group="console_scripts")
    assert (script.name, script.value) == ("canonopt", "canonopt.__main__:main")


FILES = {
    "nonsense": "nonsense\n",
    "end": '{"event": "end", "time": 0}\n',
    "newer": '{"event": "start", "version": 9}\n',
    "begun": '{"event": "start"',
    "report": '{\n  "version": 4\n}\n',
}
NO_STREAM = "is not a stream of canonopt doctor, version 3. Write one with --streams FOLDER"


# The arguments, and what is said of them.
WRONG = rows(r"""
doctor | no script to run. Write: canonopt doctor train.py
doctor -m | no script to run. Write: canonopt doctor train.py
doctor --html | argument --html: expected one argument
doctor train.ipynb | train.ipynb is a notebook. Use canonopt.compile_log
doctor --nonsense train.py | unrecognized arguments: --nonsense
doctor --json no/such/folder.json train.py | \
    cannot write .*: it is a folder, or its folder is missing or not writable
doctor --html . train.py | cannot write .: it is a folder, or its folder is missing
doctor --streams . train.py | not empty: give --streams a new folder for each run
doctor --streams report.json train.py | cannot make the folder report.json: .
doctor --format html train.py | argument --format: invalid choice: 'html'
doctor --attach-to x train.py | --attach-to takes no command: it reads what another run wrote
doctor --compare end end train.py | --compare takes no command: it reads what
doctor --allow step train.py | cannot allow 'step': write FUNCTION:N, for example step:2
doctor --allow step:0 train.py | cannot allow 'step:0': write FUNCTION:N
 | the following arguments are required: command
doctor --attach-to nonsense | nonsense NO STREAM
doctor --attach-to end | end NO STREAM
doctor --attach-to newer | newer NO STREAM
doctor --attach-to begun | has no stream of canonopt doctor
doctor --attach-to missing | No such file or directory
doctor --compare missing end | No such file or directory: 'missing'
doctor --compare report end | report NO STREAM
""")


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_usage_is_an_error_before_anything_runs(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, text in {**FILES, "report.json": ""}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert re.search(message.replace("NO STREAM", NO_STREAM), capsys.readouterr().err)


def test_a_page_needs_rich(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main(["doctor", "--html", "page.html", "train.py"])
    assert "--html needs rich. Write: pip install rich" in capsys.readouterr().err


# --- --try ----------------------------------------------------------------------------------------

SAME = "With canonopt's factories the output is the same."


@pytest.mark.slow
def test_compares_with_a_run_with_canonopts_factories(tmp_path):
    files = {form: tmp_path / f"report.{form}" for form in ("json", "html")}
    options = [part for form, path in files.items() for part in (f"--{form}", path)]
    done = run(*DOCTOR, "--try", *options, "rebuilt.py")
    first, second = done.stdout.splitlines()
    assert first == second
    assert f"\n\n{SAME}\ncanonopt doctor: rebuilt.py\n" in done.stderr
    report = done.stderr.partition("\nWith canonopt's factories in Optax's place:\n")[2]
    assert re.search(r"^  step +6 -> 1 +6 -> 1 +[\d.]+ -> [\d.]+\n", report, re.MULTILINE)
    assert "\n  hint: `canonopt fix FILE` prints the change, or what prevents it\n" in report
    found = json.loads(files["json"].read_text())
    counts = [each["findings"][0]["compiles"] for each in (found, found["tried"])]
    assert (counts, found["tried"]["recompiled"]) == ([6, 1], False)
    assert "6 -&gt; 1" in files["html"].read_text()


SCRIPTS = {
    "timed.py": "import time, jax, optax; print('in', time.time())\n",
    "plain.py": "import jax, optax; print(1)\n",
    "fails.py": "import jax, optax; print(1); assert optax.adam.__module__.startswith('optax')\n",
    "longer.py": "import optax; print(1); optax.adam.__module__[:5] == 'optax' or print(2)\n",
    "stale.py": """\
import functools, types
import jax, jax.numpy as jnp, optax

runtime = types.SimpleNamespace(weight=1.0)

@functools.partial(jax.jit, static_argnums=0)
def step(optim, p):
    return optim.update(p * runtime.weight, optim.init(p), p)[0]

for runtime.weight in (1.0, 2.0):
    print(float(step(optax.sgd(0.5), jnp.ones(()))))
""",
    "broken.py": "import jax; jax.jit(lambda x: x)(1.0); exit(4)",
}


NOT_COMPARED = rows("""
timed.py | A time or a random number in it may be the reason.
-- env -u PYTHONPATH {python} plain.py | could not be watched
fails.py | With canonopt's factories the exit status is 1.
broken.py | The command failed, so it was not run again with canonopt.
stale.py | With canonopt's factories the first line that differs is '-0.5', was '-1.0'. A
longer.py | With canonopt's factories the first line that differs is '2', was nothing. A
""")


@pytest.mark.slow
@pytest.mark.parametrize(("command", "told"), NOT_COMPARED)
def test_says_what_is_not_the_same_or_cannot_be_compared(command, told, tmp_path):
    for name, source in SCRIPTS.items():
        (tmp_path / name).write_text(source)
    arguments = command.format(python=sys.executable).split()
    done = run(*DOCTOR, "--try", *arguments, cwd=tmp_path)
    assert told in done.stderr
    assert ("step goes on with an old value" in done.stderr) == (command == "stale.py")
    assert SAME not in done.stderr
    assert "canonopt fix" not in done.stderr
