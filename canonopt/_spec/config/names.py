"""Names of objects in the data of a spec: those of the catalogue, of Optax, and of the caller."""

import difflib
import functools
import sys
import types
from collections.abc import Mapping
from typing import Any

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

    def of(self, value: Any) -> str | None:
        """Return the name of an object, None if it does not have one."""
        items = self._registry.items()
        own = next((name for name, known in items if known is value), None)
        alike = (name for name, known in items if _merged(known) is _merged(value))
        return own or _known_names().get(id(value)) or next(alike, None) or qualified_name(value)

    def of_factory(self, factory: Factory) -> tuple[str, str | None]:
        """Return `"optax"` or `"canonical"`, and the name of a factory, None if it has none."""
        room, _, name = _known_names().get(id(factory.builder), "").partition(":")
        if room == "canonopt":
            return "optax", name
        return "canonical", self.of(factory.builder) or qualified_name(factory.function)

    def find(self, name: Any, path: str, key: str = "name") -> Any:
        """Return the object of this name. Raises `ConfigError` if it is unknown."""
        what, known = self._known(key)
        if isinstance(name, str) and name in known:
            return known[name]
        fix = f"Import it, and write canonopt.from_config(data, registry={{{name!r}: ...}})."
        if near := difflib.get_close_matches(str(name), filter(None, known), n=1):
            fix = f"Did you mean {near[0]!r}?"
        elif key == "optax":
            fix = 'Write a name such as "adam".'
        problem = f"{path} is {name!r}, which is not {what}. Names in data are not imported."
        raise ConfigError(problem, fix, path=path)

    def _known(self, key: str) -> tuple[str, Mapping[Any, Any]]:
        """Return what a name under this key of the data stands for, and the objects with one."""
        if key == "optax":
            return f"a factory of Optax {optax.__version__}", catalogue
        known = {qualified_name(value): value for value in self._registry.values()}
        known |= self._registry
        if key == "name":
            return "a name of Optax or in the registry", known_objects() | known
        factories = {n: f for n, v in known.items() if (f := factory_of(v)) is not None}
        of_functions = {qualified_name(f.function): f.builder for f in factories.values()}
        return "a factory in the registry", of_functions | {n: known[n] for n in factories}


def _merged(value: Any) -> Any:
    """Return one object for all functions that do the same, and any other value as it is."""
    return hoist(value) if type(value) is types.FunctionType else value


def qualified_name(value: Any) -> str | None:
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
def known_objects() -> dict[str, Any]:
    """Return Optax's public functions and classes, canonopt's factories, and Python's numbers."""
    found: dict[str, Any] = {
        f"builtins:{kind.__name__}": kind for kind in (bool, int, float, complex)
    }
    # `optax.tree_utils` has other names for what `optax.tree` has.
    for module in (optax, optax.tree, *vars(optax).values()):
        for name, value in vars(module).items() if isinstance(module, types.ModuleType) else ():
            owner = getattr(value, "__module__", None) if callable(value) else None
            if name[0] != "_" and str(owner).startswith("optax."):
                found.setdefault(f"{module.__name__}:{name}", value)
    return found | {f"canonopt:{name}": builder for name, builder in catalogue.items()}


@functools.cache
def _known_names() -> dict[int, str]:
    # The first name of an object: `optax:adam`, not that of the module where it is too.
    return {id(value): name for name, value in reversed(known_objects().items())}
