"""`read` and `read_call` give values a key, and `Table` finds the one object for a key.

Two values are the same if and only if their keys are equal: nothing else decides this. What is
in a key *counts*. Types count (`1`, `1.0` and `True` differ), and so does every bit of a number.
Containers and pytrees count by type, structure and leaves. Functions count by their code and all
that it reads: defaults, and the present values of captured variables and of the globals that the
code names. A captured mutable object usually counts by identity *and* present content. When in
doubt, values differ: a needless difference costs a compile, a missed one trains another model.

A key is made of plain values, such as numbers and shardings, of ids of objects that the values
hold, and of tokens. A token is a number that only one object ever gets. Besides plain values, a key
keeps only one kind of object alive: the specs in a function that is about to be traced.
"""

import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import jax

from .._python_internals.libraries import is_users_function
from .._python_internals.weak import KeyedRef, WeakIdMap, refer
from .parts import Graph, closure_items, takes_apart
from .reader import ATOMS, MAX_WORDS, Reader, Reading, exact
from .rules import RULES, rule_for

PLAIN = ATOMS | {float}


def read(
    held: Collection[Any] = (),
    given: Collection[Any] = (),
    now: Collection[Any] = (),
    beside: Collection[Any] = (),
    *,
    explain: bool = False,
    max_words: int = MAX_WORDS,
    rebound_cells: dict[int, Any] | None = None,
) -> Reading:
    """Return the `Reading` of some values: their key, and other facts about them.

    **Arguments:**

    - `held`: values that something, such as a function, keeps a reference to.
    - `given`: values that are the arguments of a factory.
    - `now`: functions that are traced next, if possible as copies with tracers for captured arrays.
    - `beside`: other values, which are read like those in `now`, but are never copied.
    - `explain`: whether to fill `Reading.incomparable`, for errors and reports.
    - `max_words`: the most items of the key. Values with a larger key are not comparable.
    - `rebound_cells`: that of an earlier `Reading`. Its cells count with the values they had then.

    **Raises:** `HoldsArray` if one of `given` is or contains an array.
    """
    if not (held or now or beside or explain) and PLAIN.issuperset(map(type, given)):
        key: list[Hashable] = []  # as a `Reader` writes it: 6 us for adam, here 2 us
        for value in given:
            is_exact = type(value) is not float or (value and value == value)
            key += (type(value), value if is_exact else exact(value, "given"))
        return Reading(tuple(key))
    reader = Reader(RULES, rule_for, takes_apart, explain, max_words, rebound_cells)
    return reader.read(held=held, given=given, now=now, fixed=beside)


def read_call(
    fn: Any,
    beside: Iterable[Any] = (),
    *,
    before: Reading | None = None,
    explain: bool = False,
    max_words: int = MAX_WORDS,
) -> Reading:
    """Return the `Reading` of a function that is about to be traced, or was just traced.

    `Reading.arrays` has the captured arrays that can become arguments. Their values are not in the
    key. `beside` has other values to read, such as static arguments. `before` is the reading from
    before the trace, if there was a trace. The other arguments are those of `read`.
    """
    cells = None if before is None else before.rebound_cells
    options: dict[str, Any] = {"explain": explain, "max_words": max_words, "rebound_cells": cells}
    reading = read(now=(fn,), beside=(*beside,), **options)
    is_refused = reading.captures_arrays and not reading.arrays
    if is_refused and reading.is_comparable and why_not_shared(fn) is None:
        how = reading.tells_tracers or "code may reach both the array and the tracer"
        items = closure_items(fn) if isinstance(fn, types.FunctionType) else ()
        names = [name.split("'")[1] for name, part in items if isinstance(part, jax.Array)]
        named = f" ({', '.join(names)})" if names else ""
        note_not_shared(fn, _TELLS.format(named, how))  # unless a trace has noted a reason
    return reading


def keeps_state(code: Any) -> bool:
    """Return True if `code` that a program keeps, such as a callback, reads data that may change.

    Also returns True if `code` cannot be read, for example because it holds a tracer.
    """
    reading = read(beside=(code,))
    for value in reading.objects:
        # The keywords of a partial and the attributes of a function can change.
        if isinstance(value, functools.partial) and value.keywords:
            return True
        if is_users_function(value) and not vars(value).keys() <= {"__wrapped__"}:
            return True
    return reading.reads_data or not reading.is_comparable


def all_inside(value: Any) -> Iterator[Any]:
    """Yield a value and all values reachable from it, including those inside of specs."""
    pending, specs = [value], set[int]()
    while pending:
        for node in Graph(pending.pop()).nodes.values():
            yield node
            if hasattr(type(node), "__canonical_parts__") and id(node) not in specs:
                specs.add(id(node))
                pending.append(tuple(node.__canonical_parts__("now")))


# --- functions that share no program with equal ones ---------------------------------------------

_TELLS = (
    "it captures an array{}, which canonopt cannot replace by a tracer: {}. "
    "Pass the array as an argument, even if a method reads it from self."
)

# While a program holds a constant made from a NumPy array, new traces get the array's old values.
NUMPY = (
    "it reads a NumPy array, which may change in place. Before the function is made, write {}. If "
    "a shape depends on the numbers, use a tuple of Python numbers instead."
)
ONE_ARRAY = "array = jnp.asarray(array)"  # for `NUMPY`, if no name is known
KEEPS = (
    "it has a callback or a derivative rule that may read a value which can change. Pass the value "
    "as an argument, or capture a number or a tuple."
)
ENTERED = (
    "it is called inside of {}, a context that canonopt cannot compare between calls. Make the "
    "function once."
)

# For reports: maps each function to the reason why `jit` does not share its program. For methods,
# maps the instance to reasons by method name, because each access makes another bound method.
_reasons: WeakIdMap[dict[str, str]] = WeakIdMap()


def note_not_shared(fn: Any, reason: str) -> None:
    """Record why `fn` runs its own program. Reports put `reason` after "is new each time: "."""
    owner, name = _holder_of(fn)
    with contextlib.suppress(TypeError):  # `owner` cannot be weakly referenced
        _reasons.set(owner, {**(_reasons.get(owner) or {}), name: reason})


def why_not_shared(fn: Any) -> str | None:
    """Return the reason that `note_not_shared` noted for a function, or None."""
    owner, name = _holder_of(fn)
    return (_reasons.get(owner) or {}).get(name)


def _holder_of(fn: Any) -> tuple[Any, str]:
    is_method = isinstance(fn, types.MethodType)
    return (fn.__self__, getattr(fn, "__name__", "")) if is_method else (fn, "")


# --- tables -------------------------------------------------------------------------------------

T = TypeVar("T")


class Table(Generic[T]):
    """A mapping from each key to one weakly referenced object, the *anchor* of the key.

    For a spec, the anchor is its `Internals`, because a spec is a tuple, which cannot be weakly
    referenced. The two refer to each other, and live equally long.

    `clear_caches` empties the table, unless `stays` is True.
    """

    def __init__(self, stays: bool = False) -> None:
        if not stays:
            cleared.add(self)
        self._entries: dict[Hashable, KeyedRef] = {}
        # A fast path without the call of `get`: `find` returns the weak reference for a key.
        self.find = self._entries.get

    def get(self, key: Hashable) -> T | None:
        """Return the anchor of `key`, or None. Raises TypeError if the key cannot be hashed."""
        entry = self._entries.get(key)
        return None if entry is None else entry()

    def setdefault(self, key: Hashable, anchor: T) -> T:
        """Return the anchor of `key`. If there is none, set it to `anchor` first."""
        return refer(self._entries, key, anchor)[0]

    def discard(self, key: Hashable, anchor: T) -> None:
        """Remove `anchor`, if it is the anchor of `key`."""
        if self.get(key) is anchor:
            self._entries.pop(key, None)

    def clear(self) -> None:
        # Empty the dict, but do not replace it: `find` is a method of this dict.
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


# The tables and stores that `clear_caches` empties.
cleared: weakref.WeakSet[Any] = weakref.WeakSet()


def clear_caches() -> None:
    """Forget all specs, hoisted callables, and programs of `canonopt.jit`.

    Specs and callables that are built later are new objects, which JAX traces and compiles again,
    even if equal ones exist. So a test that counts traces does not depend on earlier tests:

    ```python
    >>> import canonopt
    >>> before = canonopt.adam(lr=1e-3)
    >>> canonopt.clear_caches()
    >>> canonopt.adam(lr=1e-3) is before
    False

    ```

    Specs that are in use continue to work, but are not returned again. `clear_caches` also frees
    the memory of programs that `canonopt.jit` keeps for deleted functions. To discard all compiled
    programs, call `jax.clear_caches()`.
    """
    for table in list(cleared):
        table.clear()


# --- changes ------------------------------------------------------------------------------------


class Watched:
    """A check that removes an object from its table if a value in the object's key has changed.

    A key describes its object only as long as the values that were read do not change. So they are
    read again whenever the object is traced. If a value has changed, the new program does not match
    the key: code that has the object keeps it, but the next build makes a new object.
    """

    __slots__ = ("__weakref__", "_anchor", "_key", "_read_again", "_reading", "_table")

    def __init__(self, reading: Reading, read_again: Callable[[], Reading]) -> None:
        self._reading = reading  # keeps the objects alive whose ids are in the key
        self._read_again = read_again

    def stands_in(self, table: Table[Any], key: Hashable, anchor: Any) -> None:
        """Note the table that the object is in, and the object's key and anchor there."""
        self._table, self._key, self._anchor = table, key, weakref.ref(anchor)

    def is_unchanged(self) -> bool:
        """Return True if a new reading has the same key; else remove the object from its table."""
        if self._read_again().key == self._reading.key:
            return True
        self._table.discard(self._key, self._anchor())
        return False

    def __reduce__(self) -> Any:
        return Watched, (Reading(), Reading)  # the copy is in no table, and never changes
