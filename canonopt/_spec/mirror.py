"""Optax's namespaces, as functions that build specs."""

import types
from collections.abc import Callable
from typing import Any

import optax

from .._errors import NotMirroredError
from .factory import (
    Factory,
    FactoryOfFactories,
    builder_of,
    register,
)


class Mirror:
    """One of optax's namespaces, as functions that build specs.

    `mirror.adam` is `canonical(optax.adam)`. A factory that the installed optax does not have
    becomes a function that says so, so that one removal does not break the rest.
    """

    def __init__(self, namespace: types.ModuleType, module: str, page: str) -> None:
        self._namespace = namespace
        self._page = f"https://optax.readthedocs.io/en/latest/api/{page}.html#optax."
        self._module = module
        self.mirrored: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)  # doctest and inspect ask for __wrapped__
        return self._mirrored(Factory, name)

    def factory_of_factories(self, name: str) -> Callable[..., Any]:
        return self._mirrored(FactoryOfFactories, name)

    def _mirrored(self, kind: type[Factory], name: str) -> Callable[..., Any]:
        self.mirrored.append(name)
        function = vars(self._namespace).get(name)
        if function is not None:
            where = f"{self._namespace.__name__}.{name}".removeprefix("optax.")
            return register(kind, function, name, self._module, page=self._page + where)
        message = f"{self._namespace.__name__} {optax.__version__} has no {name}."

        def missing(*args: Any, **kwargs: Any) -> Any:
            raise NotMirroredError(message)

        missing.__name__ = missing.__qualname__ = name
        missing.__module__ = self._module
        return missing


def find_in(namespace: types.ModuleType, name: str) -> Any:
    """What a canonopt module answers for a name it does not have: `namespace` may have moved it.

    Raises `NotMirroredError`, with the name of optax's where optax has one that is no factory.
    """
    where = namespace.__name__
    # Optax warns here of a name that is deprecated.
    found = None if name.startswith("__") else getattr(namespace, name, None)
    if found is None:
        raise NotMirroredError(f"canonopt has no {name!r}, nor has {where} {optax.__version__}.")
    builder = builder_of(found)
    if builder is None:
        raise NotMirroredError(
            f"canonopt has no {name!r}: it builds neither a transformation nor a schedule, so "
            f"there is nothing to intern. Use {where}.{name}."
        )
    return builder
