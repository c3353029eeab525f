"""The command line: options, the run of the script, and the report at its end."""

import argparse
import atexit
import contextlib
import io
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from .._errors import UnsupportedVersionError
from .._recompiles import CompileLog, check_compiles, recording
from . import running
from .forms import as_json, print_report
from .page import as_html
from .report import Report, is_repeated

RECOMPILED = 3  # exit status
_NO_READER = (OSError, ValueError)  # raised if the reader of a pipe is gone, or stderr closed

_FORMS: dict[str, Callable[[Report], str]] = {"json": as_json, "html": as_html}

_DESCRIPTION = """\
Runs a script as `python` does, and reports to stderr what was traced and compiled, how often and
why, what that cost, and the line to write.
"""

_EPILOG = """\
The exit status is that of the script: 1 after an error, 130 after Ctrl-C. With --fail-on-recompile
it is 3 if the script succeeds but something was traced or compiled again that need not be.
"""


def command(arguments: Sequence[str], version: str) -> Any:
    """Runs the command line.

    **Returns:** the argument for `sys.exit`.
    """
    parser = argparse.ArgumentParser(prog="canonopt")
    parser.add_argument("--version", action="version", version=f"canonopt {version}")
    doctor = parser.add_subparsers(required=True, metavar="command").add_parser(
        "doctor",
        help="run a script and report what it compiled, and why more than once",
        usage="canonopt doctor [options] (script.py | -m module) [arguments of the script]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    doctor.add_argument(
        "--fail-on-recompile",
        action="store_true",
        help="exit with status 3 after a recompile that can be avoided",
    )
    doctor.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    doctor.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    ours, script = _split(arguments)
    options = parser.parse_args(ours)
    as_module = script[:1] == ["-m"]
    script = script[1:] if as_module else script
    if not script:
        doctor.error("no script to run: canonopt doctor train.py")
    given = {form: getattr(options, form) for form in _FORMS}
    # Absolute, because the script may change the working directory.
    files = {form: os.path.abspath(path) for form, path in given.items() if path is not None}
    for path in files.values():
        if not os.access(Path(path).parent, os.W_OK) or os.path.isdir(path):
            doctor.error(f"cannot write {path}: no such folder, or no permission")
    return _run(script, as_module, files, options.fail_on_recompile)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits into the arguments of the doctor, and those that `python` would get."""
    # Not by argparse, which would take an option of the script for one of the doctor.
    at = 1 if arguments and arguments[0] == "doctor" else len(arguments)
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        if arguments[at] == "--":
            return [*arguments[:at]], [*arguments[at + 1 :]]
        at += 2 if arguments[at] in ("--json", "--html") else 1
    return [*arguments[:at]], [*arguments[at:]]


def _run(script: list[str], as_module: bool, files: dict[str, str], is_strict: bool) -> Any:
    session = _Session(shlex.join(["-m", *script] if as_module else script), files)
    try:
        log = session.start()
    except UnsupportedVersionError as error:
        return f"canonopt doctor: {error}"
    # Before the script registers functions of its own: then they run earlier.
    atexit.register(session.finish)
    code = running.run(script, as_module=as_module)
    session.status = running.status_of(code)
    if session.status != 0:
        return code
    try:
        check_compiles()
    except UnsupportedVersionError as error:
        session.problem = error
        return 1 if is_strict else code
    return (
        RECOMPILED if is_strict and any(map(is_repeated, [*log.functions, *log.helpers])) else code
    )


class _Session:
    """One run of a script, recorded from `start` to `finish`, which writes the report."""

    def __init__(self, command: str, files: dict[str, str]) -> None:
        self.status = 0
        self.problem: UnsupportedVersionError | None = None  # why the counts are wrong
        self._command = command
        self._files = files
        self._process = os.getpid()
        self._stderr = _reopened(sys.stderr)
        self._recording = contextlib.ExitStack()

    def start(self) -> CompileLog:
        self._log = self._recording.enter_context(recording(all_threads=True))
        return self._log

    def finish(self) -> None:
        """Runs at exit, since threads and exit functions of the script may compile until then."""
        if os.getpid() != self._process:
            return  # a fork
        self._recording.close()
        if self.problem is not None:
            with contextlib.suppress(*_NO_READER), self._stderr as stream:
                stream.write(f"canonopt doctor: {self.problem}\n")
            return
        seconds = time.perf_counter() - self._log.started
        report = Report.of(self._log, self._command, self.status, seconds)
        # Files first, because the report ends with those that cannot be written. What the script
        # printed belongs before the report.
        failures = self._write_files(report)
        running.flush()
        with contextlib.suppress(*_NO_READER), self._stderr as stream:
            print_report(report, stream)
            stream.writelines(failures)

    def _write_files(self, report: Report) -> list[str]:
        """Returns what went wrong."""
        failures = []
        for form, path in self._files.items():
            try:
                text = _FORMS[form](report)
                # The command may have bytes that are not UTF-8, which Python holds as surrogates.
                Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                failures.append(f"canonopt doctor: cannot write {path}: {error}\n")
        return failures


def _reopened(stream: TextIO) -> contextlib.AbstractContextManager[TextIO]:
    """Another stream to the same file, since the script may close `stream`.

    It also has a buffer of its own. If the reader of a pipe is gone, text left in the buffer of
    `sys.stderr` would change the exit status.
    """
    try:
        return open(
            stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False
        )
    except (AttributeError, OSError, ValueError):  # in a notebook, for example
        return contextlib.nullcontext(stream or io.StringIO())
