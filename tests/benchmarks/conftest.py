"""What the benchmarks share: processes that are measured in turn, and the report at the end."""

import contextlib
import os
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from ..support.timing import seconds

ROOT = Path(__file__).parents[2]

_lines = pytest.StashKey[list[tuple[str, str, str, str]]]()


# Runs one of its functions for each line of stdin, and answers with what it measures.
SERVES = """
import sys
for line in sys.stdin:
    print(globals()[line.strip()](), flush=True)
"""


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, function: str) -> float:
        print(function, file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[Server]:
    """A process that runs its functions when asked, so that two can be measured in turn."""
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


class Report:
    """Adds lines to the report at the end, and to what pytest-benchmark stores."""

    def __init__(self, lines: list, benchmark) -> None:
        self._lines = lines
        self._benchmark = benchmark

    def ratios(self, what: str, measured: Iterable[tuple[float, float, float]], limit: float):
        """Asserts that the median of what `ratio` returned is within the limit, and reports it."""
        ratios, ours, theirs = zip(*measured, strict=True)
        middle = statistics.median(ratios)
        times = f"{seconds(statistics.median(ours))} against {seconds(statistics.median(theirs))}"
        self.figure(what, f"{middle:.3f}", f"<= {limit:.2f}", times)
        assert middle <= limit, f"{what}: {middle:.3f}, over {limit} ({times})"

    def figure(self, what: str, value: str, limit: str = "", note: str = ""):
        self._lines.append((what, value, limit, note))
        self._benchmark.extra_info.update(value=value, limit=limit, note=note)


@pytest.fixture
def report(request, benchmark):
    return Report(request.config.stash.setdefault(_lines, []), benchmark)


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash.get(_lines, [])
    if lines:
        terminalreporter.section("canonopt against optax and equinox")
        header = ("what", "measured", "limit", "note"), ("---",) * 4
        for line in (*header, *lines):
            terminalreporter.write_line(f"| {' | '.join(line)} |")
