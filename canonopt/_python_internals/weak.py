"""A weak mapping keyed by object identity, and a unique number for each object."""

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WeakIdMap(Generic[T]):
    """Weak mapping keyed by object identity, whatever `==` and `hash` of the object say.

    `set` and `setdefault` raise `TypeError` if an object cannot be weakly referenced.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def get(self, thing: Any, default: Any = None) -> T | None:
        known = self._known.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else default

    def setdefault(self, thing: Any, value: T) -> T:
        """Return the value of `thing`, which becomes `value` if there is none."""
        new = self._entry(thing, value)
        while True:
            found = self._known.setdefault(id(thing), new)
            if found[0]() is thing:
                return found[1]
            self._known.pop(id(thing), None)  # of an object that died, whose id `thing` got

    def set(self, thing: Any, value: T) -> None:
        self._known[id(thing)] = self._entry(thing, value)

    def _entry(self, thing: Any, value: T) -> tuple[weakref.ref[Any], T]:
        identity, known = id(thing), self._known

        def forget(reference: weakref.ref[Any]) -> None:
            # Another object may have the id by now, with an entry of its own.
            if identity in known and known[identity][0] is reference:
                known.pop(identity, None)

        return weakref.ref(thing, forget), value

    def __len__(self) -> int:
        return len(self._known)


def known_by_identity(find_out: Callable[[Any], T]) -> Callable[[Any], T]:
    """Remember what a function of one object returns, for as long as that object lives."""
    known: WeakIdMap[T] = WeakIdMap()
    get, setdefault = known.get, known.setdefault
    missing: Any = object()

    @functools.wraps(find_out)
    def call(thing: Any) -> T:
        found = get(thing, missing)
        return setdefault(thing, find_out(thing)) if found is missing else found

    vars(call)["known"] = known
    return call


_tokens: WeakIdMap[int] = WeakIdMap()
new_token = itertools.count().__next__


def token_of(thing: Any) -> int:
    """Return a number that no other object has or will have.

    Unlike an id it is never reused, so a key may contain it without keeping the object alive.
    Raises `TypeError` if `thing` cannot be weakly referenced.
    """
    token = _tokens.get(thing)
    return _tokens.setdefault(thing, new_token()) if token is None else token
