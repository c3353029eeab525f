"""A pytest plugin for the tests of other packages: what became of each, and what to change before.

`--notes` is the file to write. `--change` is the name of a function below, which is called before
the tests are collected: it takes a counter of what the tests reach, and may return a function to
call after them.
"""

import collections
import functools
import json
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

import canonopt

Calls = collections.Counter[str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--change", metavar="NAME", help="a function to call")
    parser.addoption("--notes", type=Path, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    notes = Notes(config.option.notes)
    config.pluginmanager.register(notes)
    if config.option.change:
        notes.end = globals()[config.option.change](notes.calls)


class Notes:
    """Notes how each test ended, why it failed, and how often what was changed was reached."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.calls: Calls = collections.Counter()
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


# --- changes: canonopt's names, or a log ----------------------------------------------------------


def optax_factories(calls: Calls) -> None:
    """Put canonopt's factories in whatever module of Optax, public or private, holds Optax's.

    Not only the tests build specs then, also Optax does where it builds an optimizer of parts.
    """
    import optax

    from canonopt._spec.factory import Factory

    # Canonopt goes on with optax as it is now. With its own factories in it, what a spec does to
    # call optax would make another spec, and so on forever.
    original = types.SimpleNamespace(**vars(optax))
    catalogue = canonopt.contrib, canonopt.optimizers, canonopt.schedules, canonopt.transforms
    builders = [getattr(module, name) for module in catalogue for name in module.__all__]
    factories = {id(b.factory.function): b for b in builders if hasattr(b, "factory")}
    rebind("canonopt", {id(optax): original})
    rebound = rebind("optax", factories)
    assert rebound == {*factories}, "Optax does not hold some of the factories."
    assert optax.adam is canonopt.adam
    from_call = Factory.from_call

    def counted(self: Factory, *call: Any) -> Any:
        calls[self.name] += 1  # but for those spelled as an earlier one was
        return from_call(self, *call)

    Factory.from_call = counted


def rebind(package: str, replacements: dict[int, Any]) -> set[int]:
    """Replace values in the modules of a package, by their id, and return the ids found."""
    found = set()
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == package]:
        for name, value in list(vars(module).items()):
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])
                found.add(id(value))
    return found


def equinox_filter_jit(calls: Calls) -> None:
    """Put `canonopt.filter_jit` in whatever module of Equinox holds Equinox's."""
    import equinox

    @functools.wraps(canonopt.filter_jit)
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls["filter_jit"] += 1
        return canonopt.filter_jit(*args, **kwargs)

    rebind("equinox", {id(equinox.filter_jit): counted})
    assert equinox.filter_jit is counted


def watched(calls: Calls) -> Callable[[], object]:
    """Open a log for the whole run, and render what it has seen at the end."""
    recording = canonopt.compile_log(all_threads=True)
    log = recording.__enter__()

    def end() -> None:
        recording.__exit__(None, None, None)
        str(log)
        for function in (*log.functions, *log.helpers):
            calls["traces"] += function.traces
            calls["causes"] += sum(bool(cause.lines()) for cause in function.causes())

    return end
