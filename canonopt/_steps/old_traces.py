"""Functions for which JAX may use an old trace.

`jax.lax.cond`, `jax.checkpoint`, an inner `jax.jit` and others trace a function once. JAX finds
that trace by the function object, and uses it even if a value that the function reads has changed.
A new function object with the same code is traced with the new value. So a step that calls the old
object and a step that calls the new one must not share a program. A `Reading` has the key of the
values that a function reads, and lists the objects among them.
"""

import functools
import inspect
import types
from collections.abc import Collection, Hashable
from typing import Any

from .._identity import MAX_WORDS, Reading, read
from .._jax_internals.functions import jitted_by_equinox
from .._python_internals.libraries import is_library_class
from .._python_internals.weak import WeakIdMap, token_of

# For each function, and for each method of an object: the hash of the values that it read when it
# was first seen. The hash is None if the values have changed since.
_first: WeakIdMap[dict[Any, int | None]] = WeakIdMap()

_UNKNOWN = "<unknown>"  # in place of `file:line` for a callable object, for which JAX has none


class _Uncounted(dict[int, Any]):
    """A `Reading.rebound_cells` by which a cell that a trace may rebind counts as None in a key."""

    def setdefault(self, key: int, default: Any = None) -> Any:
        return None, None


def note_call(fn: Any) -> bool:
    """Record the values that a function reads now; return False if they have ever changed."""
    return _note(fn, _key_of(fn))


def note_calls(reading: Reading, max_words: int = MAX_WORDS) -> None:
    """Record the values that each function in a reading reads now: JAX may trace each function.

    Once the keys have `max_words` items in total, record None for the other functions, as for
    changed values. Without a limit, 100 hooks that each read a whole large trainer took 8 s.
    """
    words = 0
    for function, place in map(_traced, reading.objects):
        if place:
            key = _key_of(function) if words < max_words else None
            words += len(key or ())
            _note(function, key)


def _key_of(fn: Any) -> tuple[Hashable, ...]:
    # In functions and partials, arrays count by identity; in other callables, by type if possible.
    is_whole = isinstance(fn, types.FunctionType | functools.partial)
    how: dict[str, Any] = {"beside" if is_whole else "now": (fn,)}
    return read(**how, rebound_cells=_Uncounted()).key


def _note(fn: Any, key: tuple[Hashable, ...] | None) -> bool:
    """Record the key of what a function reads, or None; return False if it has ever changed."""
    now = None if key is None else hash(key)
    try:
        # To JAX, all bound methods of one object and one function are the same function.
        is_method = isinstance(fn, types.MethodType)
        owner, name = (fn.__self__, token_of(fn.__func__)) if is_method else (fn, None)
        known = _first.setdefault(owner, {})
    except TypeError:  # JAX needs a weak reference too, and so keeps no trace
        return True
    first = known.setdefault(name, now)
    if first != now:
        known[name] = None  # and stays None: JAX may have traced with the old or the new values
    return first == now


def traced_inside(places: Collection[str], reading: Reading) -> tuple[int, ...]:
    """Return the indices, in `reading.objects`, of functions of which JAX may keep a trace.

    `places` has the `file:line` of each inner function in the program. If JAX may trace functions
    that the program lacks, or a place is unknown, the result has every function of the reading. The
    indices also fit other readings with an equal key, even if their functions have other places.
    """
    hides = reading.hides_traces or _UNKNOWN in places
    objects = reading.objects if places or hides else ()
    # Objects in `above`, which hold arrays, were copied: JAX traced only the copies.
    found = enumerate(None if id(each) in reading.above else _traced(each)[1] for each in objects)
    return tuple(i for i, at in found if at and (hides or at in places))


def has_old_trace(inside: Collection[int], reading: Reading) -> bool:
    """Record what functions at the indices `inside` read; return True if any of it has changed."""
    return not all([note_call(_traced(reading.objects[i])[0]) for i in inside])


def _traced(value: Any) -> tuple[Any, str | None]:
    """Return the function by which JAX finds a trace, and the `file:line` that JAX has for it."""
    jitted = jitted_by_equinox(value)
    # `equinox.filter_jit` jits a function of its own, and passes the user's as a static argument.
    function, fn = (value, value) if jitted is None else (value.__wrapped__, jitted.__wrapped__)
    while isinstance(fn, functools.partial | types.MethodType):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__func__
    if not isinstance(fn, types.FunctionType):
        is_users = callable(fn) and not (isinstance(fn, type) or is_library_class(type(fn)))
        return function, _UNKNOWN if is_users else None
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return function, code and f"{code.co_filename}:{code.co_firstlineno}"
