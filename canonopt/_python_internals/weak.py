"""Weak mapping by object identity, and a number for each object."""

import itertools
import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WeakIdMap(Generic[T]):
    """Weak mapping keyed by object identity, whatever `==` and `hash` of the object say."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def get(self, thing: Any) -> T | None:
        known = self._known.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else None

    def setdefault(self, thing: Any, value: T) -> T:
        """What is known of `thing`, which is `value` if nothing was.

        Raises `TypeError` if `thing` cannot be weakly referenced.
        """
        new = self._entry(thing, value)
        while True:
            found = self._known.setdefault(id(thing), new)
            if found[0]() is thing:
                return found[1]
            self._known.pop(id(thing), None)  # of an object that is gone

    def set(self, thing: Any, value: T) -> None:
        """Raises `TypeError` if `thing` cannot be weakly referenced."""
        self._known[id(thing)] = self._entry(thing, value)

    def _entry(self, thing: Any, value: T) -> tuple[weakref.ref[Any], T]:
        identity, known = id(thing), self._known

        def forget(reference: weakref.ref[Any]) -> None:
            # Another object may have the id by now, and an entry of its own.
            if identity in known and known[identity][0] is reference:
                known.pop(identity, None)

        return weakref.ref(thing, forget), value

    def __len__(self) -> int:
        return len(self._known)


_tokens: WeakIdMap[int] = WeakIdMap()
_serials = itertools.count()


def token_of(thing: Any) -> int:
    """A number that stands for this object and for no other, now or later.

    Unlike an id it is not given out again, so a key that has it need not keep the object alive.
    Raises `TypeError` if `thing` cannot be weakly referenced.
    """
    token = _tokens.get(thing)
    if token is None:
        token = _tokens.setdefault(thing, next(_serials))
    return token
