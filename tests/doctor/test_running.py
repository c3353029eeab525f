"""That a command runs as it does without the doctor, and that its processes are watched."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile

import pytest

from canonopt._doctor import stream

from ..support.doctor import DOCTOR, HEADING, PYTHON, SCRIPTS, doctored, importable, run, started

# The text of a script.
TEXTS = {
    "both streams are closed": "import sys; sys.stderr.close(); sys.stdout.close()",
    "the spec of jax": (
        "import importlib.util as u\n"
        "def show(s): print(s.origin, s.submodule_search_locations, s.cached, s.has_location)\n"
        "found = u.find_spec('jax'); show(found); print(type(found.loader), found.loader.path)\n"
        "import jax.numpy, jax; show(jax.__spec__); show(u.find_spec('jax'))\n"
        "print(type(jax.__loader__), vars(jax.__loader__), jax.numpy.add)"
    ),
    "settings before jax": (
        "import os\nos.environ.update(JAX_ENABLE_X64='1', JAX_TYPO='1')\n"
        "os.environ['JAX_DEFAULT_MATMUL_PRECISION'] = 'float32'\n"
        "import jax, jax.numpy as jnp\n"
        "print(jnp.arange(2.0).dtype, jax.config.jax_default_matmul_precision, jax.__spec__.name)"
    ),
}
MAIN = "import sys\nprint(__file__, sys.argv, sys.path[0], sorted(globals()))\n1/0"
FROM_STDIN = ["-", "x", "-m", "--", "--json"]
# The arguments of Python, and what the script prints in any case.
COMMANDS = {
    **{name: (["script.py"], "") for name in TEXTS},
    **{
        f"it {ending}": ([SCRIPTS / "endings.py", ending, "--json", "x y", "-m"], "exit True")
        for ending in ("exits with 7", "raises", "late", "forks")
    },
    "an archive": (["./main.zip", "x"], "main.zip"),
    "a module": (["-m", "main", "x"], "main.py"),
    "a missing script": (["no_such.py"], ""),
    "a script from stdin": (FROM_STDIN, f"to stdin {FROM_STDIN}"),
}
FAST = ("both streams are closed", "it raises", "an archive", "a missing script")


def without_numbers(text):
    return re.sub(r"0x[0-9a-f]+|pid=\d+", "", text)


def assert_same(plain, done):
    errors, heading, report = done.stderr.partition(HEADING)
    assert heading, done.stderr
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    assert without_numbers(errors) == without_numbers(plain.stderr)
    return report


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in COMMANDS]
)
def test_a_command_does_what_it_does_without_the_doctor(name, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "script.py").write_text(TEXTS.get(name, ""))
    (folder / "main.py").write_text(MAIN)
    with zipfile.ZipFile(folder / "main.zip", "w") as archive:
        archive.write(folder / "main.py", "__main__.py")
    arguments, printed = COMMANDS[name]
    text = "import sys; print('to stdin', sys.argv)" if arguments[0] == "-" else "to stdin"
    plain = run(*PYTHON, *arguments, cwd=folder, input=text)
    assert printed in plain.stdout
    done = run(*DOCTOR, "--json", "report.json", *arguments, cwd=folder, input=text)
    report = assert_same(plain, done)
    assert "command" in json.loads((folder / "report.json").read_text())
    if name.startswith("it "):
        traces = 2 if name in ("it raises", "it late") else 1
        assert re.search(rf"^step +{traces} ", report, re.MULTILINE), report


def test_it_imports_nothing_that_the_script_does_not():
    plain = run(*PYTHON, "imports_late.py")
    _, report, done = doctored("imports_late.py")
    assert done.stdout == plain.stdout
    assert plain.stdout.startswith("[]\n")
    traces = int(plain.stdout.split()[-1])  # which differs between versions of JAX
    assert re.search(rf"^step +{traces} +{traces} ", report, re.MULTILINE), report
    assert ("hint: import all modules before the first call" in report) == (traces > 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (["no-such-command"], 127, "cannot run no-such-command: No such file or directory"),
        ([SCRIPTS / "endings.py"], 126, "endings.py: Permission denied"),
        ([*PYTHON, "-P", "endings.py"], 1, "No module named 'beside'"),  # a safe path stays safe
    ],
)
def test_a_command_that_cannot_run(command, status, message):
    done = run(*DOCTOR, "--", *command)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


# --- endings that leave no time for a report ----------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "status", "note"),
    [("is killed", 137, "was killed by SIGKILL."), ("os._exit", 5, "ended with os._exit.")],
)
@pytest.mark.slow
def test_an_abrupt_end_has_a_report(ending, status, note):
    _, report, done = doctored("endings.py", ending)
    assert done.returncode == status
    assert re.search(rf"^The command {note}$", report, re.MULTILINE), report
    assert re.search(r"^step +1 +1 ", report, re.MULTILINE), report


WAITS = """
import jax, sys
step = jax.jit(lambda x: x)
step(1.0), step(1)
print("ready", flush=True)
sys.stdin.read()
"""


def waiting(folder):
    """A doctor whose script has compiled and now waits, and the folder of its streams."""
    (folder / "waits.py").write_text(WAITS)
    command = [*DOCTOR, "--streams", "streams", "waits.py"]
    # With a process group of its own.
    process = started(*command, cwd=folder, text=True, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process, folder / "streams"


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.killpg, os.kill])
def test_a_command_that_a_signal_ends_has_a_report(send, tmp_path):
    # Ctrl-C reaches the script too. SIGTERM is passed on.
    number = signal.SIGINT if send is os.killpg else signal.SIGTERM
    default = signal.default_int_handler if send is os.killpg else signal.SIG_DFL
    before = signal.signal(number, default)
    try:
        process, _ = waiting(tmp_path)
    finally:
        signal.signal(number, before)
    send(process.pid, number)
    assert process.wait(timeout=60) == 128 + number  # before its stdin is closed
    _, errors = process.communicate()
    assert f"The command was killed by {number.name}." in errors
    assert re.search(r"^<lambda> +2 +2 ", errors, re.MULTILINE), errors


@pytest.mark.slow
def test_what_a_killed_doctor_leaves_can_be_reported(tmp_path):
    process, folder = waiting(tmp_path)
    process.kill()
    (watched,), _ = stream.read(folder)
    os.kill(watched.start["pid"], signal.SIGKILL)
    process.communicate(timeout=60)
    done = run(*DOCTOR, "--attach-to", folder, "--fail-on-recompile")
    assert done.returncode == 3, done.stderr
    note = r"^Killed, ended with os._exit, or still running: p0 \(pid \d+\).$"
    assert re.search(note, done.stderr, re.MULTILINE)
    assert re.search(r"^<lambda> +2 +2 ", done.stderr, re.MULTILINE)


# --- what is watched ----------------------------------------------------------------------------

GROWS = """
import sys, jax, jax.numpy as jnp
@jax.jit
def step(x):
    return x + 1
def main():
    for size in range(1, 3):
        step(jnp.ones(size))
if __name__ == "__main__":
    main()
"""
TWO = """
import subprocess, sys
both = [subprocess.Popen([sys.executable, "grows.py"]) for _ in range(2)]
print(*[each.wait() for each in both])
"""
SPAWNS = """
import multiprocessing, grows
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=grows.main)
    process.start()
    process.join()
    print(process.exitcode)
"""
FORKS = """
import os, grows
if not (child := os.fork()):
    grows.main()
    os._exit(0)
os.waitpid(child, 0)
grows.main()
"""
TESTS = """
import grows
def test_grows():
    grows.main()
"""


@pytest.fixture
def folder(tmp_path):
    """A folder of scripts of which each compiles a function twice, in some process."""
    scripts = {"grows": GROWS, "two": TWO, "spawns": SPAWNS, "forks": FORKS, "test_grows": TESTS}
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


# What a script may import, or do, before it runs `grows`.
FIRST = ("import equinox", "import canonopt; canonopt.hoist", "import flax", "import jaxlib")
CLOSES = "import os; os.closerange(3, 1000); os.chdir(os.sep)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "counts", "out"),
    [
        ("two.py", "2 2", "0 0\n"),
        ("spawns.py", "2 2", "0\n"),
        ("forks.py", "2 2", ""),
        ("-m pytest -q -p no:cacheprovider test_grows.py", "2 2", "1 passed"),
        ("-- sh -c 'true; exec \"$0\" grows.py' {python}", "2 2", ""),
        *((f"-- {{python}} -c '{each}; import grows; grows.main()'", "2 2", "") for each in FIRST),
        (f"-- {{python}} -c 'import grows; {CLOSES}; grows.main()'", "2 2", ""),
    ],
)
def test_each_process_is_watched(command, counts, out, folder):
    arguments = shlex.split(command.format(python=sys.executable))
    done = run(*DOCTOR, "--streams", "streams", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^step +(\d+ +\d+) ", done.stderr, re.MULTILINE)
    assert [" ".join(row.split()) for row in rows] == [counts], done.stderr
    assert out in done.stdout
    assert done.stderr.count("  expected: only 2 programs, which differ in x: shape: ") == 1
    assert "illed" not in done.stderr
    for path in (folder / "streams").glob("*.jsonl"):
        records = [*map(json.loads, path.read_text().splitlines())]
        assert records[0]["event"] == "start"
        assert (records[-1]["event"] == "end") != records[0]["fork"]


@pytest.mark.slow
def test_the_report_says_that_nothing_was_watched(folder):
    command = [*DOCTOR, "--fail-on-recompile", "--", *PYTHON, "-S", "-c", "print(1)"]
    done = run(*command, cwd=folder)
    assert (done.stdout, done.returncode) == ("1\n", 1), done.stderr
    assert "\nNo process of the command imported jax, or none could be watched:" in done.stderr
    assert "Leave out these options." in done.stderr


@pytest.mark.slow
def test_a_process_that_cannot_import_canonopt_says_so(folder):
    there = folder / "there"
    there.mkdir()
    # A package of this name, since the environment has no package at all.
    (there / "jax.py").write_text("__version__ = '0.0'")
    (there / "script.py").write_text("import jax; print(1)")
    subprocess.run([*PYTHON, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    done = run(*DOCTOR, "--", folder / "bare" / "bin" / "python", there / "script.py", cwd=folder)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
    assert "In this Python, install the version of canonopt that runs the doctor." in done.stderr


# This runs in the process of the doctor, too.
HIDDEN = """
import sys
if sys.orig_argv[1:] == ["script.py"]:
    print("hidden", __name__, sys.modules["sitecustomize"].__file__)
"""


@pytest.mark.slow
def test_the_users_sitecustomize_runs(folder):
    (folder / "sitecustomize.py").write_text(HIDDEN)
    script = "import sys\nprint('sitecustomize' in sys.modules, sys.path[1:])"
    (folder / "script.py").write_text(script)
    environment = {"PYTHONPATH": importable(folder)}
    plain = run(*PYTHON, "script.py", cwd=folder, env=environment)
    assert "hidden sitecustomize" in plain.stdout
    done = run(*DOCTOR, "script.py", cwd=folder, env=environment)
    assert_same(plain, done)


def test_a_script_without_jax_imports_nothing_more(folder):
    (folder / "script.py").write_text("import sys; print(*sorted(sys.modules))")
    plain = run(*PYTHON, "script.py", cwd=folder).stdout.split()
    done = run(*DOCTOR, "script.py", cwd=folder)
    assert set(done.stdout.split()) - set(plain) <= {"_thread", "atexit", "time"}
    assert "\nNo process of the command imported jax, or" in done.stderr


def test_what_goes_on_with_an_old_value_is_reported(tmp_path):
    streams = tmp_path / "streams"
    done = run(*DOCTOR, "--streams", streams, "--json", tmp_path / "report.json", "stale.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(*PYTHON, "stale.py").stdout
    lines = (
        "train_step goes on with an old value, since call 21:\n"
        "  runtime.lam_bc was 1.0 when it was traced, and is 5.0 now "
        "(read in loss at stale.py:11)\n"
        "  20 cached calls since; a new trace gives another program\n"
        "  hint: pass runtime.lam_bc to train_step as an argument\n"
    )
    assert lines in done.stderr
    assert "need not be" not in done.stderr
    (found,) = json.loads((tmp_path / "report.json").read_text())["stale"]
    assert (found["since"], found["calls"]) == (21, 20)
    assert lines in run(*DOCTOR, "--attach-to", streams).stderr
    annotations = run(*DOCTOR, "--format", "github", "stale.py").stderr
    assert "::warning file=stale.py,line=14,title=train_step goes on" in annotations
