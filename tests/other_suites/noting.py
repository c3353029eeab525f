"""A pytest plugin for the tests of other packages: what became of each, and what to change before.

`--notes` is the file to write. `--change` is the name of a function in `changes`, which is called
before the tests are collected.
"""

import collections
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import changes
import jax
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--change", metavar="NAME", help="one of `changes`")
    parser.addoption("--notes", type=Path, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    calls: collections.Counter[str] = collections.Counter()
    notes = Notes(config.option.notes, calls)
    config.pluginmanager.register(notes)
    if config.option.change:
        notes.end = getattr(changes, config.option.change)(calls)


class Notes:
    """Notes how each test ended, why it failed, and how often what was changed was reached."""

    def __init__(self, path: Path, calls: collections.Counter[str]) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.calls = calls
        self.end: Callable[[], object] | None = None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        # Equinox's tests take their keys from it, and both runs should have the same.
        random.seed(item.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        # Once each for setup, call, teardown and every subtest.
        report = yield
        if report.failed:
            # With the error's type, so that a test that fails in both runs fails alike.
            self.failures.setdefault(item.nodeid, report.longreprtext)
            self.outcomes[item.nodeid] = f"failed with {call.excinfo.typename}"
        elif item.nodeid not in self.failures:
            earlier = self.outcomes.get(item.nodeid, "passed")
            self.outcomes[item.nodeid] = "skipped" if report.skipped else earlier
        return report

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.path != item.path:
            jax.clear_caches()  # compiled programs, of which all the files together make gigabytes

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "not collected"
            self.failures[report.nodeid] = report.longreprtext

    def pytest_sessionfinish(self) -> None:
        if self.end is not None:
            self.end()
        notes = {"outcomes": self.outcomes, "failures": self.failures, "calls": self.calls}
        self.path.write_text(json.dumps(notes))
