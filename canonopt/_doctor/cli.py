"""The command `canonopt`."""

import argparse
import atexit
import contextlib
import io
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from .._errors import UnsupportedVersionError
from .._recompiles import check_compiles, recording
from . import findings, page, running
from .report import as_json, to_stream

RECOMPILED = 3

_DESCRIPTION = """\
Runs a script as `python` does, and reports to stderr what was traced and compiled, how often, what
was lost by that, why, and the line to write.
"""

_STATUS = """\
The exit status is that of the script: 1 after an error, 130 after Ctrl-C. With --fail-on-recompile
it is 3 where the script ends well and a function of its own was traced or compiled more than once.
"""


def command(arguments: Sequence[str], version: str) -> Any:
    """Runs the command line, and returns what to give to `sys.exit`."""
    parser = argparse.ArgumentParser(prog="canonopt")
    parser.add_argument("--version", action="version", version=f"canonopt {version}")
    doctor = parser.add_subparsers(required=True, metavar="command").add_parser(
        "doctor",
        help="run a script and say what it compiled, and why more than once",
        usage="canonopt doctor [options] (script.py | -m module) [arguments of the script]",
        description=_DESCRIPTION,
        epilog=_STATUS,
    )
    doctor.add_argument(
        "--fail-on-recompile", action="store_true", help="exit with 3 if something compiled twice"
    )
    doctor.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    doctor.add_argument("--html", metavar="FILE", help="write the report as one page, too")
    own, script = _split(arguments)
    options = parser.parse_args(own)
    as_module = script[:1] == ["-m"]
    script = script[1:] if as_module else script
    if not script:
        doctor.error("no script to run: canonopt doctor train.py")
    files = {"json": options.json, "html": options.html}
    files = {form: os.path.abspath(path) for form, path in files.items() if path is not None}
    for path in files.values():
        if not os.access(Path(path).parent, os.W_OK) or os.path.isdir(path):
            doctor.error(f"cannot write {path}: no such folder, or no permission")
    return _doctored(script, as_module, files, options.fail_on_recompile)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the doctor, and what `python` would be given."""
    at = 1 if arguments and arguments[0] == "doctor" else len(arguments)
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        if arguments[at] == "--":
            return [*arguments[:at]], [*arguments[at + 1 :]]
        at += 2 if arguments[at] in ("--json", "--html") else 1
    return [*arguments[:at]], [*arguments[at:]]


def _doctored(script: list[str], as_module: bool, files: dict[str, str], is_strict: bool) -> Any:
    process, stderr = os.getpid(), _another_for(sys.stderr)
    command = shlex.join(["-m", *script] if as_module else script)
    counting = recording(all_threads=True)
    try:
        log, start, status = counting.__enter__(), time.perf_counter(), 0
    except UnsupportedVersionError as error:
        return f"canonopt doctor: {error}"
    unsupported = None

    def report() -> None:
        # At the very end: threads go on after the script, and what it has registered runs then.
        if os.getpid() != process:
            return  # a fork
        counting.__exit__(None, None, None)
        if unsupported is not None:
            with contextlib.suppress(OSError, ValueError), stderr as stream:
                stream.write(f"canonopt doctor: {unsupported}\n")
            return
        found = findings.diagnose(log, command, status, time.perf_counter() - start)
        problems = []
        for form, path in files.items():
            text = {"json": as_json, "html": page.as_html}[form](found)
            try:
                Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                problems.append(f"canonopt doctor: cannot write {path}: {error}\n")
        running.flush()
        with contextlib.suppress(OSError, ValueError), stderr as stream:  # its reader may be gone
            to_stream(found, stream)
            stream.writelines(problems)

    atexit.register(report)
    code = running.run(script, as_module=as_module)
    status = running.status_of(code)
    if status == 0:
        try:
            check_compiles()
        except UnsupportedVersionError as error:
            unsupported = error
            return 1 if is_strict else code
    if is_strict and status == 0 and findings.diagnose(log, command, 0, 0.0).repeated:
        return RECOMPILED
    return code


def _another_for(stream: TextIO) -> contextlib.AbstractContextManager[TextIO]:
    """For the same file as `stream`, which the script may close.

    What were left in the buffer of `sys.stderr` itself, its reader gone, would change the status.
    """
    try:
        return open(
            stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False
        )
    except (AttributeError, OSError, ValueError):  # in a notebook, say
        return contextlib.nullcontext(stream or io.StringIO())
