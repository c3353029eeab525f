"""Runs a command as it is, with canonopt listening in each Python process that it starts."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .startup import sitecustomize
from .trying import Output

_STARTUP = str(Path(sitecustomize.__file__).parent)


def run(
    command: Sequence[str],
    folder: str,
    with_canonopt: bool = False,
    output: Output | None = None,
) -> tuple[int, int]:
    """Run a command to its end; the processes write their streams into `folder`.

    `with_canonopt` puts canonopt's factories in the place of Optax's. `output` gets what the
    command prints. Raises `OSError` if there is no such command.

    **Returns:** the process id, and the exit status: minus the signal that killed it.
    """
    before = os.environ.get("PYTHONPATH")
    paths = [_STARTUP, *([before] if before else [])]  # an empty entry is the working directory
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        sitecustomize.FOLDER: os.path.abspath(folder),
        sitecustomize.TRY: "1" if with_canonopt else "",
    }
    pipes: dict[str, Any] = {}
    if output is not None:  # without an input, which only one of several runs could read
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment, **pipes)
    with _outliving(process), contextlib.ExitStack() as stack:
        if output is not None and process.stdout is not None and process.stderr is not None:
            stack.enter_context(output.reading(stdout=process.stdout, stderr=process.stderr))
        return process.pid, process.wait()


@contextlib.contextmanager
def _outliving(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Outlive the signals that end a command."""

    def pass_on(number: int, _: object) -> None:
        # Ctrl-C reaches all processes of the terminal, and a second one may break their cleanup.
        if number != signal.SIGINT:
            process.send_signal(number)

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        number = getattr(signal, name, None)  # not every system has all
        # `nohup` ignores a signal, and the command inherits that.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
