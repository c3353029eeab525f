"""Run a command unchanged, and let canonopt listen in each Python process that it starts."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .report import report_on
from .startup import sitecustomize
from .stream import Process, read

_STARTUP = str(Path(sitecustomize.__file__).parent)


def watched(
    command: Sequence[str],
    folder: str | None = None,
    with_canonopt: bool = False,
    output: bytearray | None = None,
) -> dict[str, Any]:
    """Run a command to its end, and return the report. Raises `OSError` if it cannot be started.

    The streams of its processes go to `folder`, by default a temporary one. `with_canonopt` puts
    canonopt's factories in place of Optax's. `output` gets what the command prints to stdout. With
    `output`, the command has no stdin: only the first of the two runs of `--try` could read that.
    """
    with tempfile.TemporaryDirectory(prefix="canonopt-", ignore_cleanup_errors=True) as made:
        # A process that outlives the command may still write here while the folder is removed.
        folder = os.path.abspath(folder or made)
        environment = {
            **os.environ,
            # An empty entry in PYTHONPATH would mean the working directory.
            "PYTHONPATH": os.pathsep.join(filter(None, [_STARTUP, os.environ.get("PYTHONPATH")])),
            sitecustomize.FOLDER: folder,
            sitecustomize.TRY: "1" if with_canonopt else "",
        }
        streams = (None, None) if output is None else (subprocess.DEVNULL, subprocess.PIPE)
        started = time.time()
        process = subprocess.Popen(command, env=environment, stdin=streams[0], stdout=streams[1])
        _outlive(process)
        while output is not None and (found := process.stdout.read1()):  # pyright: ignore
            output += found
            with contextlib.suppress(OSError):  # whoever reads the output may be gone
                sys.stdout.flush()
                sys.stdout.buffer.write(found)
                sys.stdout.buffer.flush()
        code = process.wait()
        seconds = time.time() - started
        processes, problems = read(Path(folder))
    name = shlex.join(command[1:] if command[0] == sys.executable else command)
    status = code if code >= 0 else 128 - code  # as in a shell
    ended = f"The command ended with status {status}, and canonopt saw no import of jax."
    problems = problems if processes else problems or [ended if status else _UNWATCHED]
    notes = _notes(processes, process.pid, code)
    return report_on(processes, name, status, seconds, started, problems, notes)


_UNWATCHED = (
    "No process of the command imported jax, or none could be watched: canonopt can watch a "
    "Python process only if it inherits the environment of the command, and runs without -E, -I "
    "and -S. Leave out these options."
)


def attached(path: str) -> dict[str, Any]:
    """Return the report on the streams at `path`. Raises `ValueError` if there are none."""
    processes, problems = read(Path(path))
    if not processes:
        raise ValueError(next(iter(problems), f"{path} has no stream of canonopt doctor"))
    start = processes[0].start
    seconds = max(process.latest for process in processes) - start["time"]
    name, notes = shlex.join(start["argv"]), _notes(processes)
    return report_on(processes, name, None, seconds, start["time"], problems, notes)


def _notes(processes: Sequence[Process], pid: int | None = None, code: int = 0) -> list[str]:
    """Return notes on processes that did not end normally, and on errors of canonopt."""
    notes = []
    if code < 0:
        names = {-number: number.name for number in signal.Signals}
        # A real-time signal does not have a name.
        notes.append(f"The command was killed by {names.get(code, f'signal {-code}')}.")
    # Forks are left out, since a fork usually ends with `os._exit`.
    found = [each for each in processes if not (each.is_ended or each.start["fork"])]
    others = [each.title for each in found if each.start["pid"] != pid]
    if len(others) < len(found) and code >= 0:
        notes.append("The command ended with os._exit.")
    if others:
        names = ", ".join([*others[:8], *(["..."] if len(others) > 8 else [])])
        notes.append(f"Killed, ended with os._exit, or still running: {names}.")
    failures = dict.fromkeys(text for process in processes for text in process.failures)
    return [*notes, *(f"canonopt failed, so something may be missing: {text}" for text in failures)]


def _outlive(process: subprocess.Popen[bytes]) -> None:
    """Survive some signals, to report on the run; pass all of them but Ctrl-C on to the command."""
    passed_on = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

    def pass_on(number: int, _: object) -> None:
        # Ctrl-C reaches all processes of the terminal. A second SIGINT may break their cleanup.
        if number in passed_on:
            process.send_signal(number)

    for number in (signal.SIGINT, *passed_on):
        # A signal that is ignored, as under `nohup`, stays ignored, here and in the command.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
