"""The arrays that a function captures, and copies of the function with others in their place.

`captured_arrays` finds them by the table of `parts`, and `with_arrays` makes a copy of the function
that has something else in their place: tracers, or what stands for an array in a key. Only what
leads to an array is copied, and nothing is changed.
"""

import functools
import hashlib
import types
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any

import attrs
import jax
import numpy as np

from .._jax_internals import Jitted
from .._python_internals import token_of
from .interning import read
from .parts import MAX_NODES, WHOLE, Copy, Graph
from .reader import Mode, Reading
from .values import is_record

MAX_HASHED = 1 << 28  # bytes of an array


@attrs.frozen(eq=False)
class Placeholder:
    """Stands in a key for an array whose values do not count."""

    index: int
    array: Any

    def __canonical_key__(self, mode: Mode) -> Hashable:
        return ("argument", self.index, *type_of(self.array))

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


@attrs.frozen(eq=False)
class Constant:
    """Stands in a key for an array whose values count."""

    array: Any

    def __canonical_key__(self, mode: Mode) -> Hashable:
        values: Any = np.asarray(self.array)  # raises an error for a tracer, so nothing is the same
        if values.nbytes > MAX_HASHED:
            return ("constant", token_of(self.array), *type_of(self.array))
        data: Any = np.ascontiguousarray(values).view(np.uint8)
        digest = hashlib.blake2b(data).digest()
        # NumPy may read and add up in the order in which the values are in memory.
        order = (values.strides, values.flags.writeable) if values is self.array else None
        return ("constant", digest, order, *type_of(self.array))

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


def type_of(array: Any) -> tuple[Hashable, ...]:
    if isinstance(array, jax.Array):
        return (jax.Array, jax.typeof(array))
    return (np.ndarray, array.shape, array.dtype.str)


def is_array(value: Any) -> bool:
    """Return True if `value` is an array that can be an argument of a program."""
    if isinstance(value, jax.Array):
        return True
    # A NumPy array without an axis is read by its value, like a number.
    return type(value) is np.ndarray and value.ndim > 0 and value.dtype.kind in "biufc"


# --- what leads to arrays -------------------------------------------------------------------------


def captured_arrays(fn: Any) -> list[Any]:
    """Return the arrays that `fn` captures, each once, in the order in which they are found."""
    return [value for value in Graph(fn).nodes.values() if is_array(value)]


def with_arrays(fn: Any, replace: Callable[[Any], Any]) -> Copy:
    """Return a copy of `fn` in which each captured array is `replace(array)`.

    An array that `replace` returns as it is stays in its place, and so does all that leads only to
    such arrays.

    **Raises:** `TypeError` if the options of a jitted function are unknown.
    """
    graph = Graph(fn)
    arrays = {key: value for key, value in graph.nodes.items() if is_array(value)}
    return Copy(graph, {key: replace(array) for key, array in arrays.items()})


def leads_to_objects(value: Any) -> bool:
    """Return True if `value` leads to an array, or to an object that may hold one."""
    if not value:  # of most specs
        return False
    pending, specs = [value], set[int]()
    while pending:
        graph = Graph(pending.pop())
        if len(graph.nodes) >= MAX_NODES:
            return True
        for node in graph.nodes.values():
            if hasattr(type(node), "__canonical_parts__"):
                if id(node) not in specs:
                    specs.add(id(node))
                    pending.append(tuple(node.__canonical_parts__("now")))
            elif is_array(node) or not (type(node) in _LEAD_ON or is_record(type(node))):
                return True
    return False


_LEAD_ON = WHOLE | {types.FunctionType, types.MethodType, functools.partial, Jitted}
_LEAD_ON |= {tuple, list, dict}


def read_without_arrays(
    fn: Any,
    captured: Sequence[Any],
    asked: Container[int] = (),
    others: Iterable[Any] = (),
    *,
    explain: bool = False,
) -> Reading:
    """Read a function that is traced now, without its arrays.

    **Arguments:**

    - `captured`: the arrays that it captures.
    - `asked`: those whose values count all the same, by index.
    - `others`: what is read besides, and not by the function: their identity never counts.
    - `explain`: as for `read`.
    """
    places = {id(array): i for i, array in enumerate(captured)}

    def replace(array: Any) -> Any:
        i = places[id(array)]
        return Constant(array) if i in asked else Placeholder(i, array)

    reading = read(now=(with_arrays(fn, replace).function,), explain=explain)
    beside = read(now=(*others,))
    return attrs.evolve(
        reading,
        key=(*reading.key, *beside.key),
        is_comparable=reading.is_comparable and beside.is_comparable,
        can_change=reading.can_change or beside.can_change,
        pinned=[*reading.pinned, *beside.pinned],
    )
