"""Puts canonopt's factories in Optax's place.

Whatever module of Optax holds a factory that canonopt mirrors, public or private, holds canonopt's
from then on. Not only the tests build specs then, also Optax does where it builds an optimizer of
smaller parts.
"""

import collections
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


def change(calls: collections.Counter[str]) -> None:
    replace()
    count_calls(calls)


def replace() -> None:
    """Gives canonopt's factories to Optax."""
    import optax

    import canonopt

    # Canonopt goes on with optax as it is now. With its own factories in it, what a spec does to
    # call optax would make another spec, and so on forever.
    original = types.SimpleNamespace(**vars(optax))
    replacements = {id(b.factory.function): b for b in builders(canonopt)}
    rebind(modules_of("canonopt"), {id(optax): original})
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

    def counted(self: Factory, *call: Any) -> Any:
        calls[self.name] += 1
        return from_call(self, *call)

    Factory.from_call = counted
