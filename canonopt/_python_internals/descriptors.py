"""Descriptors for attributes that either a class or its instances have."""

import functools
from collections.abc import Callable
from typing import Any


class ClassAttribute:
    """A descriptor for an attribute of a class, not of its instances, made when it is read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._value = functools.cache(make)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._value()
        raise AttributeError(f"only the class {owner.__name__!r} has this attribute")


class InstanceAttribute:
    """A descriptor for a method that instances have and their class does not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return functools.partial(self._method, instance)
        raise AttributeError(f"only instances of {owner.__name__!r} have this attribute")
