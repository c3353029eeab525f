"""Run scripts, with and without `canonopt doctor`."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import canonopt
from canonopt.__main__ import main as canonopt_main
from canonopt._doctor import stream
from canonopt._doctor.report import report_on
from canonopt._recompiles import listeners

SCRIPTS = Path(__file__).parents[1] / "doctor" / "scripts"
PYTHON = [sys.executable]
DOCTOR = [*PYTHON, "-m", "canonopt", "doctor"]
# Each report begins with this text.
HEADING = "\ncanonopt doctor: "
HOSTILE = "<script>alert('&\"')</script>"


def started(*command, cwd, env=None, **options):
    """Start a command, and return its process, with pipes for its input and output."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=cwd, env=environment_with(env), **pipes, **options)


def environment_with(settings):
    return {**os.environ, "PYTHONPATH": importable(), **(settings or {})}


def printed_by(*arguments, **options):
    """Return what Python prints with these arguments, and fail if its exit status is not 0."""
    done = run(*PYTHON, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Importing jax takes most of the time of a command. So the commands are forks of one process, which
# has imported canonopt and does nothing else.
_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload([__name__])


def run(*command, cwd=SCRIPTS, input="", env=None, timeout=300):
    """Run a command, the doctor in a fork, and return what `subprocess.run` returns."""
    command, environment = [str(part) for part in command], environment_with(env)
    if command[: len(DOCTOR)] != DOCTOR:
        options = {"capture_output": True, "text": True, "timeout": timeout}
        return subprocess.run(command, cwd=cwd, input=input, env=environment, **options)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(input)
        process = _forkserver.Process(target=_main, args=(command, cwd, environment, files))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        _, stdout, stderr = (file.read_text() for file in files)
        return subprocess.CompletedProcess(command, process.exitcode, stdout, stderr)


def _main(command, cwd, environment, files):
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(files[0], os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(os.open(files[number], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.argv = ["canonopt", *command[len(DOCTOR) - 1 :]]
    sys.exit(canonopt_main())


def importable(*folders):
    """Return a PYTHONPATH for scripts that run elsewhere: `folders`, then canonopt's folder."""
    return os.pathsep.join(map(str, [*folders, Path(canonopt.__file__).parents[1]]))


def doctored(*command, **options):
    """Return what the script wrote to stderr, the report, and the finished process."""
    done = run(*DOCTOR, *command, **options)
    errors, heading, report = done.stderr.partition(HEADING)
    assert heading, done.stderr
    return errors, report, done


def records_of(function, everywhere=False):
    """Return the records of a process that calls `function`: of all threads, if `everywhere`."""
    now = time.time()
    start = {"event": "start", "version": stream.VERSION, "time": now, "began": now, "host": "host"}
    start |= {"pid": 1, "parent": 0, "fork": False, "argv": ["script.py"]}
    lines = [start | {"python": "3.11", "jax": None}]
    recorder = stream.StreamRecorder(lines.append)
    with listeners.active(recorder, everywhere):
        listeners.compiles.listen()
        function()
    return json.loads(json.dumps([*lines, {"event": "end", "time": time.time()}]))


def as_lines(records):
    """Return the lines of a stream with these records."""
    return [f"{json.dumps(record)}\n" for record in records]


def read_back(folder, *streams):
    """Write streams of records into a folder, and return the processes read back from them."""
    for number, records in enumerate(streams):
        (folder / f"host-1-{number}.jsonl").write_text("".join(as_lines(records)))
    return stream.read(folder)[0]


def report_of_logs(*logs, cache=None):
    """Return the report on a process with these logs of functions and lines."""
    start = {"time": 2.0, "began": 0.5, "pid": 1, "host": "host"}
    return report_on([stream.Process(start, logs, cache)], "script.py", 0, 1.0, 0.0)


def report_of(*functions):
    """Return the report on a command that starts a process for each function."""
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        processes = read_back(Path(folder), *map(records_of, functions))
    return report_on(processes, "script.py", 0, 1.0, started)
