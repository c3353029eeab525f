"""What is known of objects, for as long as they live."""

import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """A weak mapping that asks which object it is, and not for `==` or a hash."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def get(self, thing: Any) -> T | None:
        known = self._known.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else None

    def set(self, thing: Any, value: T) -> None:
        """Raises `TypeError` where there are no weak references to `thing`."""
        identity = id(thing)
        reference = weakref.ref(thing, lambda _: self._known.pop(identity, None))
        self._known[identity] = (reference, value)
