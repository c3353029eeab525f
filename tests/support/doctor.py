"""Runs scripts with and without `canonopt doctor`."""

import os
import subprocess
import sys
from pathlib import Path

import canonopt
from canonopt._doctor.report import Report

SCRIPTS = Path(__file__).parents[1] / "doctor" / "scripts"
PYTHON = [sys.executable]
DOCTOR = [*PYTHON, "-m", "canonopt", "doctor"]
# Each report begins like this.
HEADING = "\ncanonopt doctor: "
HOSTILE = "<script>alert('&\"')</script>"


def run(*command, **options):
    options = {"cwd": SCRIPTS, "input": "", **options}
    command = [str(part) for part in command]
    environment = {**os.environ, "PYTHONPATH": importable(), **options.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, **options
    )


def importable():
    """The folder of canonopt, for scripts that run elsewhere."""
    return str(Path(canonopt.__file__).parents[1])


def doctored(*command, **options):
    """What the script wrote to stderr, the report, and the finished process."""
    done = run(*DOCTOR, *command, **options)
    errors, heading, report = done.stderr.rpartition(HEADING)
    assert heading, done.stderr
    return errors, report, done


def report_of(function):
    """The report of a script that calls a function."""
    with canonopt.compile_log() as log:
        function()
    return Report.of(log, "script.py", 0, 1.0)
