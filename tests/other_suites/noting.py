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


outcomes: dict[str, str] = {}  # how each test ended
failures: dict[str, str] = {}  # and why it failed
calls: Calls = collections.Counter()  # how often what was changed was reached
ends: list[Callable[[], object]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--change", metavar="NAME", help="a function to call")
    parser.addoption("--notes", type=Path, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.change and (end := globals()[config.option.change](calls)):
        ends.append(end)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Equinox's tests take their keys from it, and both runs should have the same.
    random.seed(item.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    # Once each for setup, call, teardown and every subtest.
    report = yield
    if report.failed:
        # With the error's type, so that a test that fails in both runs fails alike.
        failures.setdefault(item.nodeid, report.longreprtext)
        outcomes[item.nodeid] = f"failed with {call.excinfo.typename}"
    elif item.nodeid not in failures:
        earlier = outcomes.get(item.nodeid, "passed")
        outcomes[item.nodeid] = "skipped" if report.skipped else earlier
    return report


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        jax.clear_caches()  # compiled programs, of which all the files together make gigabytes


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        outcomes[report.nodeid] = "not collected"
        failures[report.nodeid] = report.longreprtext


def pytest_sessionfinish(session: pytest.Session) -> None:
    for end in ends:
        end()
    notes = {"outcomes": outcomes, "failures": failures, "calls": calls}
    session.config.option.notes.write_text(json.dumps(notes))


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
