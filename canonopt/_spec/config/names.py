"""Names of objects in the data of a spec: those of the catalogue, of Optax, and of the caller."""

import difflib
import functools
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import optax

from ..._identity import HoldsArray, read
from ...errors import ConfigError
from ..builders import catalogue, factory_behind
from ..factory import Factory

_BUILTINS = {f"builtins:{kind.__name__}": kind for kind in (bool, int, float, complex)}


class Names:
    """The names that data may have: fixed ones, and those of a registry that the caller passes.

    Reading looks names up here and nowhere else, so that data cannot import or run anything.
    """

    def __init__(self, registry: Mapping[str, Any] | None) -> None:
        registry = {} if registry is None else registry
        if not isinstance(registry, Mapping) or not all(isinstance(name, str) for name in registry):
            raise ConfigError(
                f"The registry is {registry!r}, which is not a mapping of names to objects.",
                "Write registry={'is_matrix': is_matrix}.",
            )
        self.registry = dict(registry)

    # --- from an object to its name -----------------------------------------------------------

    def name_of(self, value: Any) -> str | None:
        """The name of a function, a class or another object. `None` if it does not have one."""
        for name, known in self.registry.items():
            if known is value:
                return name
        known = _optax_names().get(id(value)) or _builder_name(value)
        if known is None and isinstance(value, types.FunctionType):
            known = next((n for n, each in self.registry.items() if is_same(each, value)), None)
        return known or qualified_name(value)

    def name_of_factory(self, factory: Factory) -> tuple[str, str] | None:
        """Whether a factory is of Optax or of the user, and its name."""
        if (name := _factory_names().get(id(factory))) is not None:
            return "optax", name
        for name, known in self.registry.items():
            if known is factory.builder:
                return "canonical", name
        name = _own_name(factory.builder)
        return None if name is None else ("canonical", name)

    # --- from a name to the object ------------------------------------------------------------

    def find(self, name: str, path: str) -> Any:
        """The object of this name.

        **Raises:** `ConfigError` for an unknown name.
        """
        known = _known_objects()
        found = self._find(name, qualified_name)
        if not found and name not in known:
            raise self._unknown(name, path, known)
        return found[0] if found else known[name]

    def find_factory(self, key: str, name: str, path: str, written: str) -> Factory:
        """The factory of this name in data that this version of Optax has written.

        Only what `canonical` returned counts, as reading calls no other function.
        """
        if key == "optax":
            factory = factory_behind(catalogue.get(name))
            if factory is not None:
                return factory
            other = f"; {written} wrote the data" if written != optax.__version__ else ""
            raise ConfigError(
                f"{path} is {name!r}, which is not a factory of Optax {optax.__version__}{other}.",
                nearest(name, catalogue),
                path=path,
            )
        found = self._find(name, _own_name)
        if not found:
            raise self._unknown(name, path, ())
        factory = factory_behind(found[0])
        if factory is None:
            raise ConfigError(
                f"{path} is {name!r}, which is {found[0]!r} in the registry, and no factory that "
                "builds specs.",
                f"Put what canonopt.canonical returns into the registry under {name!r}.",
                path=path,
            )
        return factory

    def _find(self, name: str, name_of: Callable[[Any], str | None]) -> list[Any]:
        """The object that the registry has for a name, if any: its key, or what `name_of` gives."""
        if name in self.registry:
            return [self.registry[name]]
        return [known for known in self.registry.values() if name_of(known) == name][:1]

    def _unknown(self, name: str, path: str, known: Iterable[str]) -> ConfigError:
        near = nearest(name, [*self.registry, *known])
        return ConfigError(
            f"{path} is {name!r}, which is neither in the registry nor a name of Optax. Names in "
            "data are not imported.",
            f"{near} Import the object, and pass it: "
            f"canonopt.from_config(data, registry={{{name!r}: ...}}).".strip(),
            path=path,
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest of the known names, if one is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def qualified_name(value: Any) -> str | None:
    """`"module:qualname"`, if that is where the object is."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return f"{module}:{name}" if found is value else None


def _own_name(value: Any) -> str | None:
    """The qualified name of an object, or that of the function which `canonical` was given."""
    factory = factory_behind(value)
    return qualified_name(value) or (None if factory is None else qualified_name(factory.function))


def is_same(value: Any, other: Any) -> bool:
    """Whether two functions are one object, or do the same as far as canonopt can compare them."""
    if value is other or not isinstance(value, types.FunctionType):
        return value is other
    try:
        readings = read((), (value,)), read((), (other,))
    except HoldsArray:
        return False
    return readings[0].is_comparable and readings[0].key == readings[1].key


# --- names that are always known ------------------------------------------------------------------


@functools.cache
def _known_objects() -> dict[str, Callable[..., Any]]:
    """Optax's public functions and classes, canonopt's factories, and Python's types of numbers."""
    # `optax.tree_utils` has other names for what `optax.tree` has.
    modules = [optax, optax.tree, *(m for m in vars(optax).values() if _is_public_module(m))]
    found: dict[str, Any] = dict(_BUILTINS)
    for module in modules:
        for name, value in vars(module).items():
            is_object = isinstance(value, types.FunctionType | type)
            if is_object and not name.startswith("_") and value.__module__.startswith("optax."):
                found.setdefault(f"{module.__name__}:{name}", value)
    return found | {f"canonopt:{name}": builder for name, builder in catalogue.items()}


def _is_public_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.startswith("optax.")


@functools.cache
def _optax_names() -> dict[int, str]:
    # A shorter name first: `optax:adam`, not that of the module where it is too.
    return {id(value): name for name, value in reversed(_known_objects().items())}


def _builder_name(value: Any) -> str | None:
    factory = factory_behind(value) if isinstance(value, types.FunctionType) else None
    name = None if factory is None else _factory_names().get(id(factory))
    return None if name is None else f"canonopt:{name}"


@functools.cache
def _factory_names() -> dict[int, str]:
    found: dict[int, str] = {}
    for name, builder in catalogue.items():
        factory = factory_behind(builder)
        # Optax has `multi_transform` as a second name of `partition`.
        if factory is not None and (id(factory) not in found or name.endswith(factory.name)):
            found[id(factory)] = name
    return found
