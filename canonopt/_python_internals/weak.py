"""Weak references in a dict, weak mappings keyed by identity, and unique numbers for objects."""

import functools
import itertools
import weakref
from _weakref import _remove_dead_weakref  # pyright: ignore[reportAttributeAccessIssue]
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class KeyedRef(weakref.ref):
    """A weak reference in a dict, with a `value`. It leaves the dict when its object dies."""

    __slots__ = ("value",)
    value: Any


def refer(
    entries: dict[Any, KeyedRef], key: Hashable, thing: Any, value: Any = None
) -> tuple[Any, KeyedRef]:
    """Return the live object of `key` and its reference; add `thing` first if there is none.

    Raises `TypeError` if `thing` cannot be weakly referenced.
    """
    # When an object dies, another thread may have put a new reference under its key already. So
    # `remove_dead` checks that the reference is dead and removes it, in one step of C.
    remove_dead = _remove_dead_weakref  # kept here, because Python empties modules when it exits
    new = KeyedRef(thing, lambda reference: remove_dead(entries, key))
    new.value = value
    while True:
        entry = entries.setdefault(key, new)
        found = entry()
        if found is not None:
            return found, entry
        remove_dead(entries, key)


class WeakIdMap(Generic[T]):
    """A weak mapping keyed by object identity, which ignores `==` and `hash` of the objects.

    `set` and `setdefault` raise `TypeError` if an object cannot be weakly referenced.
    """

    def __init__(self) -> None:
        self._known: dict[int, KeyedRef] = {}

    def get(self, thing: Any, default: Any = None) -> T | None:
        entry = self._known.get(id(thing))
        return entry.value if entry is not None and entry() is thing else default

    def setdefault(self, thing: Any, value: T) -> T:
        """Return the value of `thing`. If there is none, set it to `value` first."""
        return refer(self._known, id(thing), thing, value)[1].value

    def set(self, thing: Any, value: T) -> None:
        refer(self._known, id(thing), thing)[1].value = value

    def __len__(self) -> int:
        return len(self._known)


def known_by_identity(find_out: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return `find_out` with a cache: it keeps the result for an object while the object lives."""
    known: WeakIdMap[T] = WeakIdMap()
    entries = known._known  # noqa: SLF001

    @functools.wraps(find_out)
    def call(thing: Any) -> T:
        entry = entries.get(id(thing))  # `known.get` without the call: most lookups end here
        if entry is not None and entry() is thing:
            return entry.value
        return known.setdefault(thing, find_out(thing))

    vars(call)["known"] = known
    return call


new_token = itertools.count().__next__


@known_by_identity
def token_of(thing: Any) -> int:
    """Return a number that no other object has or will have.

    Unlike an id it is never reused, so a key may contain it without keeping the object alive.
    Raises `TypeError` if `thing` cannot be weakly referenced.
    """
    return new_token()
