"""The command line: options, the run of the command, and the report at its end."""

import argparse
import contextlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import forms
from .running import attached, watched

RECOMPILED = 3  # the exit status after a recompile, with --fail-on-recompile

_FORMS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "json": forms.as_json,
    "html": forms.as_html,
    "perfetto": forms.as_perfetto,
}

_USAGE = """\
canonopt doctor [options] (script.py | -m module) [arguments of the script]
       canonopt doctor [options] -- any command that starts Python
       canonopt doctor [options] --attach-to STREAM
       canonopt doctor --compare RUN1 RUN2"""

_DESCRIPTION = """\
Runs a script as `python` does, or a command, and reports to stderr what was traced and compiled in
each process, how often and why, what that cost, and how to avoid it.
"""

_EPILOG = """\
The exit status is that of the command, or 128 plus the number of the signal that killed it: 130
after Ctrl-C. With --fail-on-recompile it is 3 if the command succeeds but something was traced or
compiled again without need.
"""

_FIX = """\
Prints a diff that replaces imports of Optax by imports of canonopt. The numerical results stay the
same. `canonopt fix train.py | git apply` applies the diff, and so does --write. If canonopt may not
support a use of Optax in a file, the file stays unchanged, and stderr says why.
"""


def command(arguments: Sequence[str] | None, version: str) -> int:
    """Run the command line `arguments`, by default `sys.argv[1:]`, and return the exit status."""
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
        allow_abbrev=False,  # the script may have an option that is a prefix of one of these
    )
    _add_options(doctor)
    options = parser.parse_args(arguments)
    if options.command == "fix":
        from .fixing import fix  # imports Optax, which only this command needs

        return fix(options.paths, options.write)
    script = ["-m", *options.module, *options.script] if options.module else options.script
    if script[:1] == ["--"]:
        script = script[1:]
    elif script:
        script = [sys.executable, *script]
    try:
        _check(options, script)
        if options.compare is not None:
            print(forms.as_comparison(*map(attached, options.compare)))
            return 0
        if not script:
            return _finish(attached(options.attach_to), options)
    except ValueError as error:
        doctor.error(str(error))
    try:
        report = _tried(script, options) if options.is_tried else watched(script, options.streams)
    except OSError as error:
        _say(f"canonopt doctor: cannot run {script[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127
    return _finish(report, options)


def _add_options(doctor: argparse.ArgumentParser) -> None:
    add = doctor.add_argument
    text = "exit with status 3 after a recompile that can be avoided"
    add("--fail-on-recompile", action="store_true", help=text)
    text = "run the command again with canonopt's factories in place of Optax's, and compare"
    add("--try", dest="is_tried", action="store_true", help=text)
    text = "accept up to N traces and N compiles of FUNCTION; may be repeated"
    add("--allow", metavar="FUNCTION:N", action="append", type=_allowed, default=[], help=text)
    text = "report on a file or folder that --streams wrote, even during the run"
    add("--attach-to", metavar="STREAM", help=text)
    text = "show what RUN2 compiled and RUN1 did not; both are folders that --streams wrote"
    add("--compare", metavar=("RUN1", "RUN2"), nargs=2, help=text)
    text = "github: also print warnings that GitHub shows"
    add("--format", choices=("text", "github"), help=text)
    add("--html", metavar="FILE", help="also write the report as an HTML page")
    add("--json", metavar="FILE", help="also write the report as JSON")
    text = "also write a timeline that https://ui.perfetto.dev opens"
    add("--perfetto", metavar="FILE", help=text)
    text = "keep the records of the run, in one file for each process"
    add("--streams", metavar="FOLDER", help=text)
    # `-m` and the script take all arguments that follow.
    add("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    add("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _allowed(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not (name and count.isdecimal() and int(count)):
        message = f"cannot allow {text!r}: write FUNCTION:N, for example step:2"
        raise argparse.ArgumentTypeError(message)
    return name, int(count)


def _check(options: argparse.Namespace, script: Sequence[str]) -> None:
    """Raise `ValueError` if an option is wrong, before anything runs."""
    both = {"--attach-to": options.attach_to, "--compare": options.compare}
    reading = [option for option, value in both.items() if value is not None]
    if reading and script:
        raise ValueError(f"{reading[0]} takes no command: it reads what another run wrote")
    notebooks = [path for path in script[1:2] if path.endswith(".ipynb")]
    if notebooks and script[0] == sys.executable:
        raise ValueError(f"{notebooks[0]} is a notebook. Use canonopt.compile_log() in its cells")
    if not (reading or script):
        raise ValueError("no script to run. Write: canonopt doctor train.py")
    if options.html is not None and importlib.util.find_spec("rich") is None:
        raise ValueError("--html needs rich. Write: pip install rich")
    for path in filter(None, [getattr(options, form) for form in _FORMS]):
        if not os.access(Path(path).absolute().parent, os.W_OK) or os.path.isdir(path):
            reason = "it is a folder, or its folder is missing or not writable"
            raise ValueError(f"cannot write {path}: {reason}")
    if (folder := options.streams) is not None:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot make the folder {folder}: {error.strerror}") from error
        if os.listdir(folder):
            raise ValueError(f"{folder} is not empty: give --streams a new folder for each run")


def _tried(script: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Run the command, and if it succeeds, also with canonopt's factories. Return the report."""
    before, after = bytearray(), bytearray()
    report = watched(script, options.streams, output=before)
    if report["status"] != 0:
        report["notes"].append("The command failed, so it was not run again with canonopt.")
        return report
    again = "running the command again, with canonopt's factories in place of Optax's"
    _say(f"\ncanonopt doctor: {again}\n")
    report["tried"] = tried = watched(script, with_canonopt=True, output=after)
    other = _other(tried, before, after)
    tried["notes"].insert(0, f"With canonopt's factories {other or 'the output is the same'}.")
    compiles = [sum(each["compiles"] for each in run["findings"]) for run in (report, tried)]
    # Numbers that are not printed may differ, so this is only a hint.
    if other is None and not tried["stale"] and compiles[1] < compiles[0]:
        tried["notes"].append("hint: `canonopt fix FILE` prints the change, or what prevents it")
    return report


def _other(tried: Mapping[str, Any], before: bytearray, after: bytearray) -> str | None:
    """Return how the run with canonopt's factories differs, in words; None if it does not."""
    if tried["status"] != 0:
        return f"the exit status is {tried['status']}"
    if tried["problems"]:  # the factories may not have been in place
        return "the run could not be watched in full, so the outputs are not compared"
    texts = (output.decode(errors="replace").splitlines() for output in (before, after))
    for old, new in itertools.zip_longest(*texts):
        if old != new:
            first, was = ("nothing" if line is None else repr(line) for line in (new, old))
            text = f"the first line that differs is {first}, was {was}"
            return f"{text}. A time or a random number in it may be the reason"
    return None


def _finish(report: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Write the report, and return the exit status."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    _say("\n" + (forms.as_colored_text if is_terminal else forms.as_text)(report))
    status = report["status"] or 0
    if status == 0 and options.fail_on_recompile:
        reasons = _excess(report, dict(options.allow))
        status = RECOMPILED if reasons else int(bool(report["problems"]))
        text = "canonopt doctor: exit status 3, because of"
        _say("".join(f"{text} {reason}\n" for reason in reasons))
        for name in {name for name, _ in options.allow} - {f["name"] for f in report["findings"]}:
            _say(f"canonopt doctor: --allow {name}: the report has no function of this name\n")
    for form, render in _FORMS.items():
        if (path := getattr(options, form)) is None:
            continue
        try:
            # The command line may have bytes that are not UTF-8, which Python holds as surrogates.
            Path(path).write_text(render(report), encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            _say(f"canonopt doctor: cannot write {os.path.abspath(path)}: {error}\n")
    if options.format == "github":
        _say(forms.as_annotations(report))
    return status


def _excess(report: Mapping[str, Any], allowed: Mapping[str, int]) -> list[str]:
    """Return a line for each function that a process recompiled without need, beyond the limit."""
    lines = []
    for each in report["findings"]:
        limit = allowed.get(each["name"], 1)
        for count in each["by_process"].values():
            traces, compiles = count["traces"], count["compiles"] + count["cache_hits"]
            if count["repeated"] and max(traces, compiles) > limit:
                counts = f"{traces} traces, {compiles} compiles"
                lines.append(f"{each['title']}: {counts} (allowed: {limit} of each)")
                break
    return lines


def _say(text: str) -> None:
    """Write to stderr, without an error if nothing reads it any more."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # At exit, Python flushes stderr, and a failure would change the exit status.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
