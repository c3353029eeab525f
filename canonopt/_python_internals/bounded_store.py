"""A store that keeps its values for as long as there is room."""

import collections
import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedStore(Generic[T]):
    """A store of values by key: at most `limit` values, with at most `max_bytes` in total.

    `size_of` returns the bytes of a value. The least recently used values are dropped first.
    """

    def __init__(
        self, limit: int, max_bytes: int = 0, size_of: Callable[[T], int] = lambda _: 0
    ) -> None:
        self.limit, self._max_bytes, self._size_of = limit, max_bytes, size_of
        self._values: collections.OrderedDict[Hashable, T] = collections.OrderedDict()
        self._renew_lock()
        # In a forked child, the thread that may hold the lock no longer exists.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def setdefault(self, key: Hashable, value: T) -> T:
        with self._lock:
            found = self._values.setdefault(key, value)
            self._values.move_to_end(key)
        self.shrink()
        return found

    def discard(self, key: Hashable, value: T) -> None:
        """Remove `value`, if it is the value of `key`."""
        with self._lock:
            if self._values.get(key) is value:
                del self._values[key]

    def shrink(self) -> None:
        """Remove the least recently used values until both limits hold."""
        dropped = []  # freed without the lock, because freeing may run any code
        with self._lock:
            kept = sum(map(self._size_of, self._values.values()))
            while len(self._values) > self.limit or (kept > self._max_bytes and self._values):
                _, value = self._values.popitem(last=False)
                dropped.append(value)
                kept -= self._size_of(value)

    def clear(self) -> None:
        with self._lock:
            dropped, self._values = self._values, collections.OrderedDict()
        del dropped
