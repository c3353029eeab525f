"""Puts `canonopt.filter_jit` in Equinox's place, in whatever module of Equinox holds it."""

import collections
import functools
import sys
from typing import Any


def change(calls: collections.Counter[str]) -> None:
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
