"""The command line: options, exit statuses, files, and when the report is written."""

import importlib.metadata
import os
import re
import signal
import subprocess

import jax
import pytest

from canonopt.__main__ import main

from ..support.doctor import DOCTOR, HEADING, PYTHON, SCRIPTS, importable, run

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
        pytest.param(
            [],
            ("pjit", "_infer_params", "lambda *args: None"),
            1,
            "",
            "jax._src.pjit._infer_params(args)",
            id="traces",
        ),
        pytest.param(
            [],
            ("dispatch", "BACKEND_COMPILE_EVENT", "'moved'"),
            0,
            "done\n",
            "the event of a compile in jax.monitoring",
            id="compiles",
        ),
        pytest.param(
            ["--fail-on-recompile"],
            ("dispatch", "BACKEND_COMPILE_EVENT", "'moved'"),
            1,
            "done\n",
            "the event of a compile in jax.monitoring",
            id="compiles, strictly",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_doctor_says_what_it_cannot_count(tmp_path, options, moved, status, printed, name):
    module, attribute, value = moved
    code = MOVED.format(module=module, name=attribute, value=value)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = run(*PYTHON, "-c", code, "doctor", *options, script)
    assert (done.returncode, done.stdout) == (status, printed), done.stderr
    text = f"canonopt doctor: canonopt cannot count traces and compiles with jax {jax.__version__}"
    assert done.stderr.startswith(f"{text}: {name} is gone or has changed."), done.stderr
    assert len(done.stderr.splitlines()) == 1


READER = "import sys; print(1, flush=True); sys.stdin.read(); {}"


@pytest.mark.parametrize(
    ("closed", "then"),
    [
        pytest.param("stdout", "print(2)", marks=pytest.mark.slow),
        pytest.param("stderr", "0", marks=pytest.mark.slow),
        pytest.param("stdout and stderr", "print(2)", marks=pytest.mark.slow),
        ("stdout and stderr", "1/0"),
    ],
)
def test_a_closed_pipe_changes_neither_the_status_nor_the_files(closed, then, tmp_path):
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


def test_a_file_that_cannot_be_written_is_named_after_the_report(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import pathlib; pathlib.Path('report.json').mkdir()")
    done = run(*DOCTOR, "--json=report.json", "--html=page.html", script, cwd=tmp_path)
    assert f"\ncanonopt doctor: cannot write {tmp_path / 'report.json'}: " in done.stderr
    assert (tmp_path / "page.html").exists()
    assert done.returncode == 0


@pytest.mark.slow
def test_an_interrupted_script_gets_its_report():
    command = [*DOCTOR, "endings.py", "interrupted"]
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


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("recompiles.py growing_batch", 3),
        pytest.param("recompiles.py growing_batch fixed", 0, marks=pytest.mark.slow),
        pytest.param("recompiles.py state_of_the_whole_model", 1, marks=pytest.mark.slow),
        ("eager.py scan", 3),
        pytest.param("eager.py train_and_eval", 0, marks=pytest.mark.slow),
    ],
)
def test_with_the_option_a_recompile_that_can_be_avoided_is_a_failure(arguments, status):
    done = run(*DOCTOR, "--fail-on-recompile", *arguments.split())
    assert done.returncode == status, done.stderr


def test_the_command_is_installed():
    entries = importlib.metadata.distribution("canonopt").entry_points
    (script,) = entries.select(group="console_scripts")
    assert (script.name, script.value) == ("canonopt", "canonopt.__main__:main")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("doctor", "no script to run: canonopt doctor train.py"),
        ("doctor -m", "no script to run: canonopt doctor train.py"),
        ("doctor --html", "argument --html: expected one argument"),
        ("doctor --nonsense train.py", "unrecognized arguments: --nonsense"),
        ("doctor --json no/such/folder.json train.py", "cannot write .*no such folder"),
        ("", "the following arguments are required: command"),
    ],
)
def test_wrong_usage_is_an_error_before_anything_runs(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_help_documents_the_exit_status(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--help"])
    assert caught.value.code == 0
    assert "3 if the script succeeds" in " ".join(capsys.readouterr().out.split())
