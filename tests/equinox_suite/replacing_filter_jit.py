"""A pytest plugin for Equinox's tests: `canonopt.filter_jit` in Equinox's place, and the outcomes.

With `--replace`, whatever module of Equinox holds `filter_jit` holds canonopt's from then on.
"""

import collections
import functools
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from replacing import Notes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--replace", action="store_true", help="run with canonopt.filter_jit")
    parser.addoption("--notes", type=Path, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    calls: collections.Counter[str] = collections.Counter()
    config.pluginmanager.register(Notes(config.option.notes, calls))
    if config.option.replace:
        replace(calls)


def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(item.nodeid)  # Equinox's tests take their keys from it, and both runs have the same


def replace(calls: collections.Counter[str]) -> None:
    import equinox

    import canonopt

    original = equinox.filter_jit

    @functools.wraps(canonopt.filter_jit)
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls["filter_jit"] += 1
        return canonopt.filter_jit(*args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "equinox" and vars(module).get("filter_jit") is original:
            vars(module)["filter_jit"] = counted
    assert equinox.filter_jit is counted
