"""`Table`: from a key to the one object for it."""

import collections
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from .callables import parts_of
from .reader import Reading

T = TypeVar("T")


class _Entry(weakref.ref):
    __slots__ = ("key",)
    key: Hashable


# One lock for all tables. Reentrant, because a signal handler or the garbage collector may come
# while this thread holds it. A forked child gets a new one, because the thread that held the old
# one does not exist there.
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class Table(Generic[T]):
    """Holds for each key one *anchor*, for as long as something else keeps that anchor alive.

    An anchor is what can be weakly referenced: a spec itself if it can be, otherwise its `update`
    function, which holds the spec as the spec holds it.

    `clear_caches` empties it, unless it `stays`.
    """

    def __init__(self, stays: bool = False) -> None:
        if not stays:
            _cleared.add(self)
        self._entries: dict[Hashable, _Entry] = {}
        self._dead: collections.deque[_Entry] = collections.deque()
        # The weak reference for a key, for a caller that cannot afford the call of `get`.
        self.find = self._entries.get

    def get(self, key: Hashable) -> T | None:
        """The anchor of `key`, or None. Raises TypeError if the key cannot be hashed."""
        entry = self._entries.get(key)
        return None if entry is None else entry()

    def setdefault(self, key: Hashable, anchor: T) -> T:
        """The anchor that stands for `key`: the earlier one if it is still alive."""
        new = _Entry(anchor, self._note_dead)
        new.key = key
        while True:
            entry = self._entries.setdefault(key, new)
            found = entry()
            if found is not None:
                return found
            self._remove(entry)

    def discard(self, key: Hashable, anchor: T) -> None:
        """Forgets `anchor`, if it is what stands for `key`."""
        entry = self._entries.get(key)
        if entry is not None and entry() is anchor:
            self._remove(entry)

    def _note_dead(self, entry: _Entry) -> None:
        # An anchor may die inside any allocation. To wait for another thread here could be to wait
        # for ever; then whoever holds the lock removes the entry, or the next entry that dies.
        self._dead.append(entry)
        if _lock.acquire(blocking=False):
            try:
                while self._dead:
                    self._remove(self._dead.popleft())
            finally:
                _lock.release()

    def _remove(self, entry: _Entry) -> None:
        with _lock:  # or another thread could put a new entry in place between the two steps
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


_cleared: weakref.WeakSet[Table[Any]] = weakref.WeakSet()


def clear_caches() -> None:
    """Forgets which specs and hoisted callables there are.

    What is built next is a new object, which JAX traces and compiles again, even if an equal one
    was built before. So a test that counts traces does not depend on those before it:

    ```python
    >>> import canonopt
    >>> before = canonopt.adam(lr=1e-3)
    >>> canonopt.clear_caches()
    >>> canonopt.adam(lr=1e-3) is before
    False

    ```

    Specs that are still in use go on as they are, but are no longer the ones that are built. It
    frees no memory, because nothing is kept that is not in use. `jax.clear_caches()` forgets what
    JAX has compiled.
    """
    for table in list(_cleared):
        table.clear()


# What was interned with a key that can change, and is read again each time it is traced.


class Watched:
    """The reading behind an object in a table.

    The object stays what the key says only as long as nothing that was read changes. So it is read
    again whenever it is traced: a program that was traced with other values is not the one for this
    key, and the object leaves the table. Whoever has it keeps it, and what is built next is new.
    """

    __slots__ = ("_anchor", "_is_dropped", "_key", "_read_again", "_reading", "_table")

    def __init__(self, reading: Reading, read_again: Callable[[], Reading]) -> None:
        self._reading = reading  # which keeps what the key has the id of
        self._read_again = read_again
        self._is_dropped = False

    def stands_in(self, table: Table[Any], key: Hashable, anchor: Callable[[], Any]) -> None:
        """Says where the object is to be found; `anchor` gives what the table holds weakly."""
        self._table, self._key, self._anchor = table, key, anchor

    @property
    def has_containers(self) -> bool:
        return self._reading.has_containers

    def is_as_it_was(self) -> bool:
        """As `is_unchanged`, right after something with the same key was read.

        Globals and what counts by identity are the same then. What is left is whether a part of a
        function was replaced.
        """
        functions = self._reading.functions
        if self._is_dropped:
            return False
        if functions is not None and all(map(_is_whole, functions)):
            return True
        return self.is_unchanged()

    def is_unchanged(self) -> bool:
        """Reads again. If anything has changed, the object leaves its table."""
        if self._read_again().key == self._reading.key:
            return True
        if not self._is_dropped:
            self._is_dropped = True
            self._table.discard(self._key, self._anchor())
        return False


def _is_whole(parts: tuple[Any, ...]) -> bool:
    function, code, defaults, ids = parts
    _, code_now, defaults_now, ids_now = parts_of(function)
    return code is code_now and defaults is defaults_now and ids == ids_now
