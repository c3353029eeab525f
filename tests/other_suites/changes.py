"""Change what the tests of another package run with: canonopt's names, or a log.

Each takes a counter of what the tests reach, and may return a function to call after them.
"""

import collections
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import canonopt

Calls = collections.Counter[str]


def modules_of(package: str) -> list[types.ModuleType]:
    return [m for name, m in sys.modules.items() if name.partition(".")[0] == package]


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
    rebind(modules_of("canonopt"), {id(optax): original})
    rebound = rebind(modules_of("optax"), factories)
    assert rebound == {*factories}, "Optax does not hold some of the factories."
    assert optax.adam is canonopt.adam
    from_call = Factory.from_call

    def counted(self: Factory, *call: Any) -> Any:
        calls[self.name] += 1  # but for those spelled as an earlier one was
        return from_call(self, *call)

    Factory.from_call = counted


def rebind(modules: list[types.ModuleType], replacements: dict[int, Any]) -> set[int]:
    """Replace values in modules, found by their id, and return the ids that were found."""
    found = set()
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])
                found.add(id(value))
    return found


def equinox_filter_jit(calls: Calls) -> None:
    """Put `canonopt.filter_jit` in whatever module of Equinox holds Equinox's."""
    import equinox

    original = equinox.filter_jit

    @functools.wraps(canonopt.filter_jit)
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls["filter_jit"] += 1
        return canonopt.filter_jit(*args, **kwargs)

    for module in modules_of("equinox"):
        if vars(module).get("filter_jit") is original:
            vars(module)["filter_jit"] = counted
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
