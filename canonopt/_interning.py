"""From a key to the one object that stands for it, weakly and under threads."""

import collections
import threading
import weakref
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Entry(weakref.ref):
    __slots__ = ("key",)
    key: Hashable


class Table(Generic[T]):
    """Holds for each key one *anchor*, for as long as something else keeps that anchor alive.

    An anchor is what can be weakly referenced: a spec itself where it can be, otherwise its
    `update` function, which holds the spec as the spec holds it.

    `clear_caches` empties it, unless it `stays`.
    """

    def __init__(self, stays: bool = False) -> None:
        if not stays:
            _cleared.add(self)
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = threading.Lock()
        self._dead: collections.deque[_Entry] = collections.deque()
        # The weak reference for a key, for a caller that cannot afford the call of `get`.
        self.find = self._entries.get

    def get(self, key: Hashable) -> T | None:
        """The anchor of `key`, or None. Raises TypeError for a key that cannot be hashed."""
        entry = self._entries.get(key)
        return None if entry is None else entry()

    def setdefault(self, key: Hashable, anchor: T) -> T:
        """The anchor that stands for `key`: the earlier one if there is one alive."""
        with self._lock:
            self._remove_dead()
            earlier = self.get(key)
            if earlier is not None:
                return earlier
            entry = _Entry(anchor, self._note_dead)
            entry.key = key
            self._entries[key] = entry
            return anchor

    def _note_dead(self, entry: _Entry) -> None:
        # An anchor may die inside any allocation, so in a thread that holds the lock, this one
        # for instance. Then what it is in the middle of will clear up, or the next insertion.
        self._dead.append(entry)
        if self._lock.acquire(blocking=False):
            try:
                self._remove_dead()
            finally:
                self._lock.release()

    def _remove_dead(self) -> None:
        while self._dead:
            dead = self._dead.popleft()
            if self._entries.get(dead.key) is dead:
                del self._entries[dead.key]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


_cleared: weakref.WeakSet[Table[Any]] = weakref.WeakSet()


def clear_caches() -> None:
    """Forgets which specs and hoisted callables there are.

    What is built next is a new object, which JAX traces and compiles anew, though the same has
    been built before. So a test that counts traces does not depend on those before it:

    ```python
    >>> import canonopt
    >>> before = canonopt.adam(lr=1e-3)
    >>> canonopt.clear_caches()
    >>> canonopt.adam(lr=1e-3) is before
    False

    ```

    Those that are still in use go on as they are, but are no longer the ones that are built. It
    frees no memory, since nothing is kept that is not in use. `jax.clear_caches()` is about what
    JAX has compiled.
    """
    for table in list(_cleared):
        table.clear()
