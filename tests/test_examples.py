"""The examples, run as a newcomer runs them."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"

# "canonopt  adam(2e-3)   1   1   2.4   96.4%": traces, compiles, seconds, held-out accuracy.
ROW = re.compile(r"(canonopt|optax) .* (\d+) +(\d+) +[\d.]+ +([\d.]+)%")


def test_quickstart_learns_and_compiles_once_for_each_optimizer():
    pytest.importorskip("sklearn")
    pytest.importorskip("rich")
    script = str(EXAMPLES / "quickstart.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = ROW.findall(done.stdout)
    assert [row[0] for row in rows] == ["canonopt"] * 3 + ["optax"] * 3, done.stdout
    for library, traces, compiles, accuracy in rows:
        assert float(accuracy) >= 95.0
        assert traces == compiles
        assert (int(traces) == 1) is (library == "canonopt")
