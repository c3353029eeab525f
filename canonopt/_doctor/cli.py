"""The command line: options, the run of the command, and the report at its end."""

import argparse
import contextlib
import importlib.util
import io
import os
import shlex
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import attrs

from .forms import as_annotations, as_html, as_json, as_perfetto, print_report
from .report import Report
from .running import Ending, is_watched, run
from .stream import Process, StreamError, Streams

RECOMPILED = 3  # exit status

_FORMS: dict[str, Callable[[Report], str]] = {
    "json": as_json,
    "html": as_html,
    "perfetto": as_perfetto,
}

_USAGE = """\
canonopt doctor [options] (script.py | -m module) [arguments of the script]
       canonopt doctor [options] -- any command that starts Python
       canonopt doctor [options] --attach-to STREAM"""

_DESCRIPTION = """\
Runs a script as `python` does, or a command, and reports to stderr what was traced and compiled in
each process, how often and why, what that cost, and the line to write.
"""

_EPILOG = """\
The exit status is that of the command, and 128 more than the signal that killed it: 130 after
Ctrl-C. With --fail-on-recompile it is 3 if the command succeeds but something was traced or
compiled again that need not be. [tool.canonopt.doctor] in pyproject.toml may have `allow` and
`fail-on-recompile`.
"""

_FIX = """\
Prints, as a diff, source code that uses Optax's factories with canonopt's in their place, and with
the imports that these need. The numbers are the same. `canonopt fix train.py | git apply` applies
it, and so does --write.
"""


def command(arguments: Sequence[str], version: str) -> Any:
    """Runs the command line.

    **Returns:** the argument for `sys.exit`.
    """
    parser = argparse.ArgumentParser(prog="canonopt")
    parser.add_argument("--version", action="version", version=f"canonopt {version}")
    commands = parser.add_subparsers(required=True, metavar="command")
    doctor = commands.add_parser(
        "doctor",
        help="run a script and report what it compiled, and why more than once",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,  # `_split` knows whole names
    )
    fix = commands.add_parser(
        "fix",
        help="put canonopt's names in place of Optax's in source code",
        description=_FIX,
    )
    fix.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder of them")
    fix.add_argument("--write", action="store_true", help="change the files instead")
    if arguments[:1] == ["fix"]:
        return _fix(parser.parse_args(arguments))
    with_value = _add_options(doctor)
    ours, script = _split(arguments, with_value)
    options = parser.parse_args(ours)
    try:
        settings = _Settings.of(options)
    except ValueError as error:
        doctor.error(str(error))
    if options.attach_to is not None and script:
        doctor.error("--attach-to takes no command: another machine runs it")
    if options.attach_to is None and script in ([], ["-m"]):
        doctor.error("no script to run: canonopt doctor train.py")
    if options.html is not None and importlib.util.find_spec("rich") is None:
        doctor.error("--html needs rich. Write: pip install 'canonopt[doctor]'")
    for path in filter(None, [getattr(options, form) for form in _FORMS]):
        if not os.access(Path(path).absolute().parent, os.W_OK) or os.path.isdir(path):
            doctor.error(f"cannot write {path}: no such folder, or no permission")
    if options.attach_to is not None:
        return _attach(options, settings)
    if options.streams is not None and (problem := _made_for_streams(options.streams)):
        doctor.error(problem)
    return _run(script, options, settings)


def _fix(options: argparse.Namespace) -> Any:
    try:
        from .fixing import fix
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        return "canonopt fix needs libcst. Write: pip install 'canonopt[fix]'"
    return fix(options.paths, options.write)


def _add_options(doctor: argparse.ArgumentParser) -> list[str]:
    """Returns the names of those that take a value."""
    doctor.add_argument(
        "--fail-on-recompile",
        action=argparse.BooleanOptionalAction,
        help="exit with status 3 after a recompile that can be avoided",
    )
    doctor.add_argument(
        "--all", action="store_true", help="print all of the report, not a screen of it"
    )
    doctor.add_argument(
        "--format",
        choices=("text", "github"),
        default="text",
        help="github: also print a warning for each cause, which GitHub shows at the line",
    )
    doctor.add_argument(
        "--try",
        dest="with_canonopt",
        action="store_true",
        help="run it again with canonopt's factories in Optax's place, and compare",
    )
    with_value = {
        "--allow": ("FUNCTION:N", "accept N traces and N compiles of a function; may be repeated"),
        "--json": ("FILE", "also write the report as JSON"),
        "--html": ("FILE", "also write the report as an HTML page"),
        "--perfetto": ("FILE", "also write a timeline that https://ui.perfetto.dev opens"),
        "--streams": ("FOLDER", "keep what each process writes, a file for each"),
        "--attach-to": ("STREAM", "report on such a file or folder, which others may be writing"),
    }
    for name, (metavar, text) in with_value.items():
        action = "append" if name == "--allow" else "store"
        doctor.add_argument(name, metavar=metavar, help=text, action=action)
    return ["--format", *with_value]


def _made_for_streams(folder: str) -> str | None:
    """Makes the folder, or returns why it cannot be used."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return f"cannot make the folder {folder}: {error.strerror}"
    if os.listdir(folder):
        return f"{folder} is not empty: give --streams a new folder for each run"
    return None


def _split(arguments: Sequence[str], with_value: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits into the arguments of the doctor, and the script's or, after `--`, the command."""
    # Not by argparse, which would take an option of the script for one of the doctor.
    at = 1 if arguments and arguments[0] == "doctor" else len(arguments)
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        if arguments[at] == "--":
            return [*arguments[:at]], [*arguments[at + 1 :]]
        at += 2 if arguments[at] in with_value else 1
    script = [*arguments[at:]]
    return [*arguments[:at]], [sys.executable, *script] if script and script != ["-m"] else script


# --- what a team accepts ------------------------------------------------------------------------


@attrs.frozen
class _Settings:
    is_strict: bool
    allowed: Mapping[str, int]  # by the name of a function

    @classmethod
    def of(cls, options: argparse.Namespace) -> "_Settings":
        """Those of the command line and, where it says nothing, of pyproject.toml.

        Raises `ValueError` if one of them is wrong.
        """
        path, table = _table()
        unknown = [*{*table} - {"allow", "fail-on-recompile"}]
        if unknown:
            raise ValueError(
                f"unknown {unknown[0]!r} in [tool.canonopt.doctor] of {path}: there are "
                "`allow` and `fail-on-recompile`"
            )
        is_strict, listed = table.get("fail-on-recompile", False), table.get("allow", [])
        if not isinstance(is_strict, bool):
            raise ValueError(f"fail-on-recompile = {is_strict!r} in {path}: write true or false")
        if not isinstance(listed, list):
            raise ValueError(f'allow = {listed!r} in {path}: write a list: ["step:2"]')
        if options.fail_on_recompile is not None:
            is_strict = options.fail_on_recompile
        return cls(is_strict, dict(map(_allowed, [*listed, *(options.allow or [])])))

    def excess(self, processes: Sequence[Process]) -> list[str]:
        """A line for each function that is traced or compiled more often than is accepted."""
        lines = {}
        for log in (log for each in processes for log in (*each.functions, *each.helpers)):
            limit, compiles = self.allowed.get(log.name, 1), log.compiles + log.cache_hits
            if not log.is_expected and max(log.traces, compiles) > limit:
                name = f"{log.name} ({log.place})" if log.place else log.name
                counts = f"{log.traces} traces, {compiles} compiles"
                lines.setdefault(name, f"{name}: {counts}, accepted: {limit}")
        return [*lines.values()]


def _allowed(text: object) -> tuple[str, int]:
    name, _, count = str(text).rpartition(":")
    if not (isinstance(text, str) and name and count.isdecimal() and int(count)):
        raise ValueError(f"cannot allow {text!r}: write FUNCTION:N, for example step:2")
    return name, int(count)


def _table() -> tuple[Path, dict[str, Any]]:
    """[tool.canonopt.doctor] of the nearest pyproject.toml that has it, here or above."""
    here = Path.cwd()
    for path in (folder / "pyproject.toml" for folder in (here, *here.parents)):
        if not path.is_file():
            continue
        try:
            found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read {path}: {error}") from error
        for name in ("tool", "canonopt", "doctor"):
            found = found.get(name, {}) if isinstance(found, dict) else {}
        if isinstance(found, dict) and found:
            return path, found
    return here, {}


# --- a run --------------------------------------------------------------------------------------


def _run(script: list[str], options: argparse.Namespace, settings: _Settings) -> int:
    try:
        report, is_complete = _watch(script, options, options.streams)
        if options.with_canonopt and report.status == 0:
            _say("\ncanonopt doctor: runs it again, with canonopt's factories in Optax's place\n")
            tried, _ = _watch(script, options, None, with_canonopt=True)
            report = attrs.evolve(report, tried=tried)
    except OSError as error:
        _say(f"canonopt doctor: cannot run {script[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127
    return _finish(report, options, settings, is_complete)


def _watch(
    script: list[str],
    options: argparse.Namespace,
    folder: str | None,
    with_canonopt: bool = False,
) -> tuple[Report, bool]:
    """Runs a command once. Returns the report, and whether the counts are complete."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="canonopt-", ignore_cleanup_errors=True)
            folder = stack.enter_context(made)  # which a process may still write into
        streams = Streams(Path(folder))
        started = time.time()
        ending = run(script, folder, with_canonopt)
        seconds = time.time() - started
        problems = _read(streams)
        if not is_watched(folder):
            problems.append(_UNWATCHED)
    processes = streams.processes
    notes = [*problems, *_endings(processes, ending)]
    if not (processes or problems):
        notes.append("No process of the command imported jax.")
    command = shlex.join(script[1:] if script[0] == sys.executable else script)
    report = Report.of(processes, command, ending.status, seconds, started, notes)
    return report, not problems


_UNWATCHED = (
    "No Python process was watched. With -E, -I or -S, or without the environment that the command "
    "is given, Python does not import canonopt's sitecustomize: run the command without these."
)


def _attach(options: argparse.Namespace, settings: _Settings) -> int:
    """Reports on what others write or have written."""
    streams = Streams(Path(options.attach_to))
    try:
        streams.read()
        if not streams.processes:
            raise StreamError(f"{options.attach_to} has no stream of canonopt doctor")
    except (OSError, StreamError) as error:
        _say(f"canonopt doctor: {error}\n")
        return 2
    problems = _read(streams)
    processes = streams.processes
    started = min(process.start.time for process in processes)
    seconds = max(process.latest for process in processes) - started
    command = shlex.join(processes[0].start.argv)
    notes = [*problems, *_endings(processes, None)]
    report = Report.of(processes, command, None, seconds, started, notes)
    return _finish(report, options, settings, is_complete=not problems)


def _read(streams: Streams) -> list[str]:
    """Reads to the end, and returns why the counts are wrong, if they are."""
    problems = []
    try:
        streams.read()
    except (OSError, StreamError) as error:
        problems.append(str(error))
    for process in streams.processes:
        name = f"{process.name} (pid {process.start.pid}): " if len(streams.processes) > 1 else ""
        problems += [f"{name}{problem}" for problem in process.problems]
    return problems


def _endings(processes: Sequence[Process], ending: Ending | None) -> list[str]:
    """Return notes on processes that did not end in the usual way."""
    notes = []
    if ending is not None and ending.signal is not None:
        notes.append(f"The command was killed by {ending.signal}.")
    others = []
    # A fork ends with `os._exit` as a rule.
    for process in (each for each in processes if not (each.is_ended or each.start.fork)):
        name = f"{process.name} (pid {process.start.pid})"
        if ending is None or process.start.pid != ending.pid:
            others.append(name)
        elif ending.signal is None:
            notes.append(f"{name} ended with os._exit.")
    if others:
        names = ", ".join([*others[:8], *(["..."] if len(others) > 8 else [])])
        notes.append(f"Killed, ended with os._exit, or still running: {names}.")
    return notes


def _finish(
    report: Report, options: argparse.Namespace, settings: _Settings, is_complete: bool
) -> int:
    """Writes the report, and returns the exit status."""
    status, reasons = report.status or 0, []
    if status == 0 and settings.is_strict:
        reasons = settings.excess(report.processes)
        if reasons:
            status = RECOMPILED
        elif not is_complete:
            status = 1
    # Files first, because the report ends with those that cannot be written.
    failures = _write_files(report, {form: getattr(options, form) for form in _FORMS})
    with _stderr() as stream:
        print_report(report, stream, options.all)
    _say("".join(f"canonopt doctor: exit status 3, for {reason}\n" for reason in reasons))
    _say("".join(failures))
    if options.format == "github":
        _say(as_annotations(report))
    return status


def _write_files(report: Report, paths: Mapping[str, str | None]) -> list[str]:
    """Returns what went wrong."""
    failures = []
    for form, path in paths.items():
        try:
            if path is not None:
                # The command may have bytes that are not UTF-8, which Python holds as surrogates.
                text = _FORMS[form](report)
                Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            path = os.path.abspath(path or "")
            failures.append(f"canonopt doctor: cannot write {path}: {error}\n")
    return failures


def _say(text: str) -> None:
    with _stderr() as stream:
        stream.write(text)


@contextlib.contextmanager
def _stderr() -> Iterator[TextIO]:
    """The stream to write to. Its reader may be gone."""
    try:
        stream = sys.stderr or io.StringIO()
        yield stream
        stream.flush()
    except OSError:
        # What is left in the buffer would change the exit status.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
