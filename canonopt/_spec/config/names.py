"""Names of objects in the data of a spec: those of the catalogue, of Optax, and of the caller."""

import difflib
import functools
import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import optax

from ..._identity import hoist
from ...errors import ConfigError
from ..builders import catalogue
from ..factory import Factory, factory_of


class Names:
    """The names that data may have: those of Optax, and of a registry that the caller passes.

    Reading looks names up here and nowhere else, so that data cannot import or run anything.
    """

    def __init__(self, registry: Mapping[str, Any] | None) -> None:
        if not isinstance(registry, Mapping | None):
            problem = f"The registry is {registry!r}, which is not a mapping of names to objects."
            raise ConfigError(problem, "Write registry={'is_matrix': is_matrix}.")
        self._registry = {**(registry or {})}
        self._own = {id(value): name for name, value in reversed(self._registry.items())}
        self._objects = {_qualified_name(v): v for v in self._registry.values()} | self._registry

    def of(self, value: Any) -> str | None:
        """Return the name of an object, None if it does not have one."""
        # `hoist` returns one object for all functions that do the same.
        same = hoist(value) if type(value) is types.FunctionType else value
        functions = {n: f for n, f in self._registry.items() if type(f) is types.FunctionType}
        alike = (name for name, known in functions.items() if hoist(known) is same)
        name = self._own.get(id(value)) or _known_names().get(id(value))
        return name or next(alike, None) or _qualified_name(value)

    def of_factory(self, factory: Factory) -> tuple[str, str | None]:
        """Return `"optax"` or `"canonical"`, and the name of a factory, None if it has none."""
        room, _, name = _known_names().get(id(factory.builder), "").partition(":")
        if room == "canonopt":
            return "optax", name
        return "canonical", self.of(factory.builder) or _qualified_name(factory.function)

    def find(self, name: Any, path: str) -> Any:
        """Return the object of this name. Raises `ConfigError` if it is unknown."""
        what = "a name of Optax or in the registry"
        return _found(name, _known_objects() | self._objects, path, what)

    def find_factory(self, name: Any, path: str, key: str) -> Factory:
        """Return the factory of this name, under `"optax"` or `"canonical"` in the data."""
        if key == "optax":
            what = f"a factory of Optax {optax.__version__}"
            return vars(_found(name, catalogue(), path, what))["factory"]
        named = {n: f for n, v in self._objects.items() if (f := factory_of(v)) is not None}
        of_functions = {_qualified_name(f.function): f for f in named.values()}
        return _found(name, of_functions | named, path, "a factory in the registry")


def _found(name: Any, known: Mapping[Any, Any], path: str, what: str) -> Any:
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), filter(None, known), n=1)
    fix = f"Import it, and write canonopt.from_config(data, registry={{{name!r}: ...}})."
    fix = f"Did you mean {near[0]!r}?" if near else fix
    problem = f"{path} is {name!r}, which is not {what}. Names in data are not imported."
    raise ConfigError(problem, fix, path=path)


def _qualified_name(value: Any) -> str | None:
    """Return `"module:qualname"`, if that is where the object is."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    # A private name of Optax may move.
    return f"{module}:{name}" if found is value and not module.startswith("optax._") else None


@functools.cache
def _known_objects() -> dict[Any, Any]:
    """Return Optax's public functions and classes, canonopt's factories, and types of numbers."""
    numbers = bool, int, float, complex, *(np.dtype(code).type for code in "?bhilqBHILQefdFD")
    found: dict[Any, Any] = {f"{kind.__module__}:{kind.__name__}": kind for kind in numbers}
    # `optax.tree_utils` has other names for what `optax.tree` has.
    modules = [m for m in vars(optax).values() if isinstance(m, types.ModuleType)]
    for module in (optax, optax.tree, *modules):
        for name, value in vars(module).items():
            owner = getattr(value, "__module__", None) if callable(value) else None
            if name[0] != "_" and str(owner).startswith("optax."):
                found.setdefault(f"{module.__name__}:{name}", value)
    return found | {f"canonopt:{name}": builder for name, builder in catalogue().items()}


@functools.cache
def _known_names() -> dict[int, str]:
    # The first name of an object: `optax:adam`, not that of the module where it is too.
    return {id(value): name for name, value in reversed(_known_objects().items())}
