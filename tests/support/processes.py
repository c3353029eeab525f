"""Start the processes of a program, which `jax.distributed` joins."""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import jax

from .doctor import importable

MAX_SECONDS = 120  # maximum wait of a test for one condition


class Process:
    """A process, with files for what it prints and for its result."""

    def __init__(self, command, folder, environment):
        folder.mkdir(parents=True)
        self._output, self._result = folder / "output.txt", folder / "result.json"
        environment = {**environment, "RESULT": str(self._result)}
        with self._output.open("w") as file:
            self._started = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment
            )

    @property
    def output(self):
        return self._output.read_text()

    def kill(self):
        """End the process with SIGKILL, unless it has ended, and return its exit status."""
        self._started.kill()
        return self._started.wait()

    def finish(self):
        """Wait until the process has ended, check its status, and return what it has printed."""
        wait_for(lambda: self._started.poll() is not None, self)
        assert self._started.returncode == 0, self.output
        return self.output

    def result(self):
        """Wait until the process has ended, check its status, and return the result it wrote."""
        self.finish()
        return json.loads(self._result.read_text())


def join(devices):
    """Join the other process, with `devices` devices in each, and return this process's number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator")
    parser.add_argument("--process", type=int)
    given = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", devices)
    jax.distributed.initialize(given.coordinator, num_processes=2, process_id=given.process)
    return given.process


def write_result(result):
    """Write the result of this process to a file, because Gloo also writes to stdout."""
    pathlib.Path(os.environ["RESULT"]).write_text(json.dumps(result))


def wait_for(condition, *processes):
    until = time.monotonic() + MAX_SECONDS
    while not condition():
        assert time.monotonic() < until, "\n".join(process.output for process in processes)
        time.sleep(0.005)


@contextlib.contextmanager
def two_processes(folder, *command):
    """Run a Python command in two processes. Each gets the address of the first, and its number.

    At the end of the block, both processes are killed.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    # Tests only count compiles, so XLA need not optimize. Each process has another hash seed.
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    settings = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONPATH": importable()}
    started = []
    try:
        for number in (0, 1):
            environment = {**kept, **settings, "PYTHONHASHSEED": str(number + 1)}
            options = ["--coordinator", address, "--process", str(number)]
            line = [sys.executable, *map(str, command), *options]
            started.append(Process(line, folder / str(number), environment))
        yield started
    finally:
        for process in started:
            process.kill()
