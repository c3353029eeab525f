"""A pytest plugin for optax's tests: canonopt's factories in optax's place, and the outcomes.

With `--replace`, whatever module of optax holds a factory that canonopt mirrors, public or
private, holds canonopt's from then on. Not only the tests build specs then, also optax does where
it builds an optimizer of smaller parts.
"""

import collections
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--replace", action="store_true", help="run with canonopt's factories")
    parser.addoption("--notes", type=Path, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    calls: collections.Counter[str] = collections.Counter()
    config.pluginmanager.register(Notes(config.option.notes, calls))
    if config.option.replace:
        replace()
        count_calls(calls)


class Notes:
    """What became of each test, why it failed, and the calls of each of canonopt's factories."""

    def __init__(self, path: Path, calls: collections.Counter[str]) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.calls = calls

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
        notes = {"outcomes": self.outcomes, "failures": self.failures, "calls": self.calls}
        self.path.write_text(json.dumps(notes))


def replace() -> None:
    """Gives canonopt's factories to optax."""
    import optax

    import canonopt

    # Canonopt goes on with optax as it is now. With its own factories in it, what a spec does to
    # call optax would make another spec, and so on forever.
    original = types.SimpleNamespace(**vars(optax))
    rebind(modules_of("canonopt"), {id(optax): original})
    replacements = {id(b.factory.function): b for b in builders(canonopt)}
    rebound = rebind(modules_of("optax"), replacements)
    assert rebound == set(replacements), "Optax does not hold some of the factories."
    assert optax.adam is canonopt.adam


def builders(canonopt: types.ModuleType) -> Iterator[Callable[..., Any]]:
    """Every function of canonopt's that stands for one of the installed optax's."""
    catalogue = canonopt.contrib, canonopt.optimizers, canonopt.schedules, canonopt.transforms
    for module in catalogue:
        for name in module.__all__:
            builder = getattr(module, name)
            if hasattr(builder, "factory"):
                yield builder


def modules_of(package: str) -> list[types.ModuleType]:
    return [m for name, m in sys.modules.items() if name.partition(".")[0] == package]


def rebind(modules: list[types.ModuleType], replacements: dict[int, Any]) -> set[int]:
    """Replaces values in `modules`, found by their id. Returns the ids that were found."""
    found = set()
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])
                found.add(id(value))
    return found


def count_calls(calls: collections.Counter[str]) -> None:
    """Counts the calls of each factory, but for those spelled as an earlier one was."""
    from canonopt._spec.factory import Factory

    from_call = Factory.from_call

    def counted(self: Factory, args: tuple, kwargs: dict[str, Any]) -> Any:
        calls[self.name] += 1
        return from_call(self, args, kwargs)

    Factory.from_call = counted
