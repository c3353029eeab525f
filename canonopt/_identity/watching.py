"""What was interned with a key that can change, and is read again each time it is traced."""

from collections.abc import Callable, Hashable
from typing import Any

from .callables import parts_of
from .interning import Table
from .reader import Reading


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
