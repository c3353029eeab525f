"""Functions of which JAX may have an old trace.

`jax.lax.cond`, `jax.checkpoint`, an inner `jax.jit` and others trace a function once. JAX finds
that trace by the function, and goes on with it when what the function reads has changed. An equal
function that is made again is traced anew, so the two may not share a program.
"""

import functools
import types
from collections.abc import Collection, Iterable
from typing import Any

from .._identity import read
from .._jax_internals import jitted_by_equinox
from .._python_internals import WeakIdMap

# From functions to a hash of what they read when they were seen first, None if that has changed.
_first: WeakIdMap[int | None] = WeakIdMap()


def note_call(fn: Any) -> bool:
    """Note what a function reads now; return False if it has ever read anything else."""
    now = hash(read(now=(fn,)).key)
    try:
        first = _first.setdefault(fn, now)
        if first != now:
            _first.set(fn, None)  # for good: JAX may have traced it with either
    except TypeError:  # it takes no weak reference, which JAX needs, too
        return True
    return first == now


def has_old_trace(inside: Collection[str], objects: Iterable[Any]) -> bool:
    """Return True if JAX may have an old trace of a function inside of a program.

    `inside` has the places of these functions, and `objects` is all that the program was read from.
    """
    return not all([note_call(fn) for fn in objects if _place_of(fn) in inside])


def _place_of(fn: Any) -> str | None:
    while not isinstance(fn, types.FunctionType):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif jitted := jitted_by_equinox(fn):
            fn = jitted.__wrapped__
        else:
            return None
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
