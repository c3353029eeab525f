"""The command line: options, the run of the command, and the report at its end."""

import argparse
import collections
import contextlib
import importlib.util
import io
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from .comparing import new_programs, read_report, side_by_side
from .forms import as_annotations, as_html, as_json, as_perfetto, print_report, with_short_paths
from .report import Run, report_on
from .running import run
from .stream import Process, read
from .trying import Output, outputs_compared

RECOMPILED = 3  # exit status

_FORMS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "json": as_json,
    "html": as_html,
    "perfetto": as_perfetto,
}

_USAGE = """\
canonopt doctor [options] (script.py | -m module) [arguments of the script]
       canonopt doctor [options] -- any command that starts Python
       canonopt doctor [options] --attach-to STREAM
       canonopt doctor --compare RUN1 RUN2"""

_DESCRIPTION = """\
Runs a script as `python` does, or a command, and reports to stderr what was traced and compiled in
each process, how often and why, what that cost, and the line to write.
"""

_EPILOG = """\
The exit status is that of the command, and 128 more than the signal that killed it: 130 after
Ctrl-C. With --fail-on-recompile it is 3 if the command succeeds but something was traced or
compiled again that need not be.
"""

_FIX = """\
Prints, as a diff, source code that imports canonopt under the name of Optax. The numbers are the
same. `canonopt fix train.py | git apply` applies it, and so does --write. It says on
stderr what it leaves as it is.
"""


def _allowed(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not (name and count.isdecimal() and int(count)):
        message = f"cannot allow {text!r}: write FUNCTION:N, for example step:2"
        raise argparse.ArgumentTypeError(message)
    return name, int(count)


# The options of the doctor: the words after each, and what it does.
_OPTIONS = {
    "--fail-on-recompile": ("", "exit with status 3 after a recompile that can be avoided"),
    "--try": ("", "run it again with canonopt's factories in Optax's place, and compare"),
    "--allow": ("FUNCTION:N", "accept N traces and N compiles; may be repeated"),
    "--attach-to": ("STREAM", "report on a file or folder of --streams, also while it grows"),
    "--compare": ("RUN1 RUN2", "say what the second of two runs, saved with --json, compiled"),
    "--format": ("text|github", "github: also print warnings that GitHub shows"),
    "--html": ("FILE", "also write the report as an HTML page"),
    "--json": ("FILE", "also write the report as JSON"),
    "--perfetto": ("FILE", "also write a timeline that https://ui.perfetto.dev opens"),
    "--streams": ("FOLDER", "keep what each process writes, a file for each"),
}
_KINDS: dict[str, dict[str, Any]] = {
    "--allow": {"action": "append", "type": _allowed, "default": []},
    "--compare": {"metavar": ("RUN1", "RUN2"), "nargs": 2},
    "--format": {"choices": ("text", "github")},
}


def command(arguments: Sequence[str], version: str) -> Any:
    """Run the command line.

    **Returns:** the argument for `sys.exit`.
    """
    parser = argparse.ArgumentParser(prog="canonopt")
    parser.add_argument("--version", action="version", version=f"canonopt {version}")
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    text = "put canonopt's imports in place of Optax's in source code"
    fix = commands.add_parser("fix", help=text, description=_FIX)
    fix.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder of them")
    fix.add_argument("--write", action="store_true", help="change the files instead")
    doctor = commands.add_parser(
        "doctor",
        help="run a script and report what it compiled, and why more than once",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,  # `_split` knows whole names
    )
    for name, (words, text) in _OPTIONS.items():
        kind: dict[str, Any] = {"metavar": words} if words else {"action": "store_true"}
        doctor.add_argument(name, help=text, **{**kind, **_KINDS.get(name, {})})
    ours, script = _split(arguments)
    options = parser.parse_args(ours)
    if options.command == "fix":
        from .fixing import fix  # imports Optax

        return fix(options.paths, options.write)
    try:
        if options.compare is not None:
            _compare(*map(read_report, options.compare))
            return 0
        _check(options, script)
    except ValueError as error:
        doctor.error(str(error))
    try:
        found = _watched(script, options) if script else _attached(options)
    except OSError as error:
        _say(f"canonopt doctor: cannot run {script[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127
    return 2 if found is None else _finish(report_on(found), options)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split into the arguments of the doctor, and the script's or, after `--`, the command."""
    # Not by argparse, which would take an option of the script for one of the doctor.
    at = 1 if arguments[:1] == ["doctor"] else len(arguments)
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        if arguments[at] == "--":
            return [*arguments[:at]], [*arguments[at + 1 :]]
        at += 1 + len(_OPTIONS.get(arguments[at], ("", ""))[0].split())
    script = [*arguments[at:]]
    return [*arguments[:at]], [] if script in ([], ["-m"]) else [sys.executable, *script]


def _compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    found = [*new_programs(first, second)] or ["", "The second compiled nothing new."]
    print(with_short_paths("\n".join([*side_by_side(first, second), *found])))


def _check(options: argparse.Namespace, script: Sequence[str]) -> None:
    """Raise `ValueError` if an option is wrong, before anything runs."""
    if options.attach_to is not None and script:
        raise ValueError("--attach-to takes no command: another machine runs it")
    if options.attach_to is None and not script:
        raise ValueError("no script to run: canonopt doctor train.py")
    if options.html is not None and importlib.util.find_spec("rich") is None:
        raise ValueError("--html needs rich. Write: pip install 'canonopt[doctor]'")
    for path in filter(None, [getattr(options, form) for form in _FORMS]):
        if not os.access(Path(path).absolute().parent, os.W_OK) or os.path.isdir(path):
            raise ValueError(f"cannot write {path}: no such folder, or no permission")
    if (folder := options.streams) is not None:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot make the folder {folder}: {error.strerror}") from error
        if os.listdir(folder):
            raise ValueError(f"{folder} is not empty: give --streams a new folder for each run")


# --- a run --------------------------------------------------------------------------------------


def _watched(script: list[str], options: argparse.Namespace) -> Run:
    """Run the command. Raises `OSError` if there is no such command."""
    if not getattr(options, "try"):
        return _run(script, options.streams)
    first, second, third = outputs = Output(), Output(), Output()
    found = _run(script, options.streams, output=first)
    if found.status != 0:
        return found
    _say("\ncanonopt doctor: runs it again, to see what every run prints and writes alike\n")
    again = _run(script, None, output=second)
    if again.status != 0 or _traced(again) != _traced(found):
        note = f"The second run as it is had exit status {again.status}"
        if again.status == 0:
            note = "The second run as it is traced other functions than the first"
        note += ", so there is nothing to compare."
        return attrs.evolve(found, notes=[note, *found.notes])
    _say("\ncanonopt doctor: runs it again, with canonopt's factories in Optax's place\n")
    tried = _run(script, None, with_canonopt=True, output=third)
    is_same = False
    if tried.status != 0:
        told = f"With canonopt's factories the exit status was {tried.status}."
    elif tried.problems:  # then nothing has put the factories in place
        told = "The run with canonopt's factories could not be watched, so nothing is compared."
    else:
        is_same, told = outputs_compared(*outputs)
        # A number that is not printed may be another one.
        is_same &= not any(process.stale for process in tried.processes)
    notes = [told, *tried.notes]
    return attrs.evolve(found, tried=attrs.evolve(tried, notes=notes, is_same=is_same))


def _traced(run: Run) -> collections.Counter[tuple[str, int]]:
    """Return the functions of a run, with the number of their traces."""
    logs = (told.log for process in run.processes for told in process.told.values())
    return collections.Counter((log.name, log.traces) for log in logs if not log.is_line)


def _run(
    script: list[str],
    folder: str | None,
    with_canonopt: bool = False,
    output: Output | None = None,
) -> Run:
    with contextlib.ExitStack() as stack:
        if folder is None:
            made = tempfile.TemporaryDirectory(prefix="canonopt-", ignore_cleanup_errors=True)
            folder = stack.enter_context(made)  # which a process may still write into
        started = time.time()
        if output is not None:
            stack.enter_context(output.noting_files())
        ending = run(script, folder, with_canonopt, output)
        seconds = time.time() - started
        processes, problems = read(Path(folder))
    if not (processes or problems):
        problems = [_UNWATCHED]
    name = shlex.join(script[1:] if script[0] == sys.executable else script)
    code = ending[1]
    status = code if code >= 0 else 128 - code  # as a shell tells it
    notes = _notes(processes, ending)
    return Run(processes, name, status, seconds, started, problems, notes)


_UNWATCHED = (
    "No process of the command imported jax, or none could be watched: Python imports canonopt's "
    "sitecustomize only if it gets the environment of the command, and not with -E, -I or -S. Run "
    "the command without these."
)


def _attached(options: argparse.Namespace) -> Run | None:
    """Return what others write or have written, or None after a message if there is nothing."""
    processes, problems = read(Path(options.attach_to))
    if not processes:
        missing = f"{options.attach_to} has no stream of canonopt doctor"
        _say(f"canonopt doctor: {next(iter(problems), missing)}\n")
        return None
    start = processes[0].start
    seconds = max(process.latest for process in processes) - start["time"]
    name, notes = shlex.join(start["argv"]), _notes(processes, None)
    return Run(processes, name, None, seconds, start["time"], problems, notes)


def _notes(processes: Sequence[Process], ending: tuple[int, int] | None) -> list[str]:
    """Return how processes ended, if not in the usual way, and what canonopt failed to find."""
    notes = []
    pid, code = ending or (None, -1)
    if ending is not None and code < 0:
        names = {-number: number.name for number in signal.Signals}
        # A real-time signal has no name.
        notes.append(f"The command was killed by {names.get(code, f'signal {-code}')}.")
    # A fork ends with `os._exit` as a rule.
    found = [each for each in processes if not (each.is_ended or each.start["fork"])]
    others = [each.title for each in found if each.start["pid"] != pid]
    if len(others) < len(found) and code >= 0:
        notes.append("The command ended with os._exit.")
    if others:
        names = ", ".join([*others[:8], *(["..."] if len(others) > 8 else [])])
        notes.append(f"Killed, ended with os._exit, or still running: {names}.")
    failures = dict.fromkeys(text for process in processes for text in process.failures)
    return [*notes, *(f"canonopt failed to find something out: {text}" for text in failures)]


def _finish(report: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Write the report, and return the exit status."""
    status, last = report["status"] or 0, ""
    if status == 0 and options.fail_on_recompile:
        reasons = _excess(report, dict(options.allow))
        status = RECOMPILED if reasons else int(bool(report["problems"]))
        last = "".join(f"canonopt doctor: exit status 3, for {reason}\n" for reason in reasons)
    # Files first, because the report ends with those that cannot be written.
    for form, render in _FORMS.items():
        if (path := getattr(options, form)) is None:
            continue
        try:
            # The command may have bytes that are not UTF-8, which Python holds as surrogates.
            Path(path).write_text(render(report), encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            last += f"canonopt doctor: cannot write {os.path.abspath(path)}: {error}\n"
    if options.format == "github":
        last += as_annotations(report)
    with _stderr() as stream:
        print_report(report, stream)
    _say(last)
    return status


def _excess(report: Mapping[str, Any], allowed: Mapping[str, int]) -> list[str]:
    """Return a line for each function that a process traces or compiles more than is accepted."""
    lines = []
    for each in report["findings"]:
        limit = allowed.get(each["name"], 1)
        for count in each["by_process"].values():
            traces, compiles = count["traces"], count["compiles"] + count["cache_hits"]
            if count["repeated"] and max(traces, compiles) > limit:
                counts = f"{traces} traces, {compiles} compiles"
                lines.append(f"{each['title']}: {counts}, accepted: {limit}")
                break
    return lines


def _say(text: str) -> None:
    with _stderr() as stream:
        stream.write(text)


@contextlib.contextmanager
def _stderr() -> Iterator[Any]:
    """Yield the stream to write to. Its reader may be gone."""
    try:
        stream = sys.stderr or io.StringIO()
        yield stream
        stream.flush()
    except OSError:
        # What is left in the buffer would change the exit status.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
