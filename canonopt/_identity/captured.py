"""The arrays that a function captures, and copies of the function with others in their place.

`Captured` finds them by the table of `parts`, in one walk, and copies the function with something
else in their place: tracers, or what stands for an array in a key. Only what leads to an array is
copied, and nothing is changed. `read_call` reads a function without them.
"""

import contextlib
import functools
import types
from collections.abc import Hashable, Iterable
from typing import Any

import jax

from .._jax_internals.functions import Jitted
from .._python_internals.weak import WeakIdMap
from .instances import is_record
from .interning import read
from .parts import MAX_NODES, WHOLE, Copy, Graph
from .reader import Mode, Reading
from .values import is_integer_scalar

# --- what leads to arrays -------------------------------------------------------------------------


class Captured:
    """The arrays that a function captures, each once, but those whose values are in a key."""

    def __init__(self, fn: Any) -> None:
        self._graph = Graph(fn)
        arrays = (value for value in self._graph.nodes.values() if isinstance(value, jax.Array))
        self.arrays = [array for array in arrays if not is_integer_scalar(array)]

    def replaced(self, others: Iterable[Any]) -> Copy:
        """Return a copy of the function with others in place of the arrays.

        What leads only to arrays that stay the same is not copied.

        **Raises:** `TypeError` if the options of a jitted function are unknown.
        """
        pairs = zip(self.arrays, others, strict=True)
        return Copy(self._graph, {id(array): other for array, other in pairs})


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
            elif isinstance(node, jax.Array) or not (
                type(node) in _LEAD_ON or is_record(type(node))
            ):
                return True
    return False


_LEAD_ON = WHOLE | {types.FunctionType, types.MethodType, functools.partial, Jitted}
_LEAD_ON |= {tuple, list, dict}


# --- functions that are called now ---------------------------------------------------------------


class Placeholder:
    """Stands in a key for an array whose values do not count, and notes that it was read."""

    def __init__(self, array: Any, arrays_read: list[Any]) -> None:
        self._array, self._arrays_read = array, arrays_read
        self._index: int | None = None

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if self._index is None:
            self._index = len(self._arrays_read)
            self._arrays_read.append(self._array)
        return ("argument", self._index, jax.typeof(self._array))

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        return ()


def read_call(
    fn: Any, beside: Iterable[Any] = (), *, before: Reading | None = None, explain: bool = False
) -> tuple[Reading, Captured | None]:
    """Read a function that is traced now, and the arrays that it may get as arguments.

    **Arguments:**

    - `fn`: the function.
    - `beside`: what is read besides, such as static arguments.
    - `before`: the reading from before a trace, after which `fn` is read again.
    - `explain`: as for `read`.

    **Returns:** the reading, and the arrays that `fn` captures and whose values are not in it.
    """
    cells = None if before is None else before.library_cells
    with contextlib.suppress(Exception):  # something cannot be taken apart, or made as others are
        captured = Captured(fn)
        if captured.arrays:
            arrays_read: list[Any] = []
            copy = captured.replaced(Placeholder(each, arrays_read) for each in captured.arrays)
            reading = read(now=(copy.function, *beside), explain=explain, library_cells=cells)
            # Code that meets both an object and its copy can tell them apart.
            if reading.takes_tracers and not any(map(copy.replaces, reading.objects)):
                captured.arrays = arrays_read  # in the order of the key
                return reading, captured
            if why_not_shared(fn) is None:  # the trace may have shown more
                note_not_shared(fn, _TELLS)
    return read(now=(fn, *beside), explain=explain, library_cells=cells), None


_TELLS = (
    "it captures an array, and may tell a tracer from it or keep that: it makes a text, catches "
    "errors, asks for a type, stores into objects, or compares by identity. Pass the array as an "
    "argument, also where a method reads it of self."
)

# While a program with a constant from it lives, JAX takes old values for those of the array.
NUMPY = (
    "it reads a NumPy array, which may change in place. Write array = jnp.asarray(array) before "
    "the function is made."
)
KEEPS = (
    "its program calls back into its code, as callbacks and rules for derivatives do. Define these "
    "at the top level of a module."
)

# From functions that `jit` shares with no other to the reason, for reports.
_reasons: WeakIdMap[str] = WeakIdMap()


def note_not_shared(fn: Any, reason: str) -> None:
    """Note why a function runs a program of its own. `reason` follows "it is not shared: "."""
    with contextlib.suppress(TypeError):  # it takes no weak reference
        _reasons.set(fn, reason)


def why_not_shared(fn: Any) -> str | None:
    """Return the reason that was noted for a function."""
    return _reasons.get(fn)
