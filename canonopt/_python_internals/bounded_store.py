"""A store that keeps its values for as long as there is room."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedStore(Generic[T]):
    """A store of values by key: at most `limit` values, with at most `max_bytes` in total.

    `size_of` returns the bytes of a value. The least recently used values are dropped first. There
    is no lock: each step is one operation of a dict, and a thread may miss a value that another
    thread moves at that moment.
    """

    def __init__(
        self, limit: int, max_bytes: int = 0, size_of: Callable[[T], int] = lambda _: 0
    ) -> None:
        self.limit, self._max_bytes, self._size_of = limit, max_bytes, size_of
        self._values: dict[Hashable, T] = {}  # the most recently used ones last

    def get(self, key: Hashable) -> T | None:
        value = self._values.pop(key, None)
        return None if value is None else self._values.setdefault(key, value)

    def setdefault(self, key: Hashable, value: T) -> T:
        found = self.get(key)
        found = self._values.setdefault(key, value) if found is None else found
        self.shrink()
        return found

    def discard(self, key: Hashable, value: T) -> None:
        """Remove `value`, if it is the value of `key`."""
        if self._values.get(key) is value:
            self._values.pop(key, None)

    def shrink(self) -> None:
        """Remove the least recently used values until both limits hold."""
        kept = sum(map(self._size_of, [*self._values.values()]))
        for key in [*self._values]:
            if len(self._values) <= self.limit and kept <= self._max_bytes:
                break
            if (value := self._values.pop(key, None)) is not None:
                kept -= self._size_of(value)

    def clear(self) -> None:
        self._values.clear()
