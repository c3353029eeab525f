"""Read functions that are traced now, and note why some share no program with equal ones.

`read_call` leaves the values of captured JAX arrays out of the key if the arrays can be arguments
of the program. `parts.Copy` copies a function with other values, such as tracers, for these arrays.
"""

import contextlib
import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from .._python_internals.libraries import is_users_function
from .._python_internals.weak import WeakIdMap
from .interning import read
from .parts import Graph, closure_items
from .reader import MAX_WORDS, Reading


def all_inside(value: Any) -> Iterator[Any]:
    """Yield a value and all values reachable from it, including those inside of specs."""
    pending, specs = [value], set[int]()
    while pending:
        for node in Graph(pending.pop()).nodes.values():
            yield node
            if hasattr(type(node), "__canonical_parts__") and id(node) not in specs:
                specs.add(id(node))
                pending.append(tuple(node.__canonical_parts__("now")))


def read_call(
    fn: Any,
    beside: Iterable[Any] = (),
    *,
    before: Reading | None = None,
    explain: bool = False,
    max_words: int = MAX_WORDS,
) -> Reading:
    """Read a function that is traced now, and find captured arrays that can become arguments.

    `beside` has other values to read, such as static arguments. `before` is the result from before
    the trace, if this call reads `fn` again after the trace. The rest is as for `read`.
    """
    cells = None if before is None else before.library_cells
    options: dict[str, Any] = {"explain": explain, "max_words": max_words, "library_cells": cells}
    reading = read(now=(fn,), beside=(*beside,), **options)
    is_alone = reading.captures_arrays and not reading.arrays
    if is_alone and reading.is_comparable and why_not_shared(fn) is None:
        how = reading.tells_tracers or "code may meet both the array and its copy"
        items = closure_items(fn) if isinstance(fn, types.FunctionType) else ()
        names = [name.split("'")[1] for name, part in items if isinstance(part, jax.Array)]
        named = f" ({', '.join(names)})" if names else ""
        note_not_shared(fn, _TELLS.format(named, how))  # unless a trace has noted a reason
    return reading


def keeps_state(code: Any) -> bool:
    """Return True if `code`, kept by a program, reads data that may change before the next run.

    Also returns True if `code` holds a tracer that stands for a captured array.
    """
    reading = read(beside=(code,))
    for value in reading.objects:
        # The keywords of a partial and the attributes of a function can change.
        if isinstance(value, functools.partial) and value.keywords:
            return True
        if is_users_function(value) and not vars(value).keys() <= {"__wrapped__"}:
            return True
    return reading.reads_data or not reading.is_comparable


_TELLS = (
    "it captures an array{}, and may tell a tracer from the array or keep the tracer: {}. Pass the "
    "array as an argument, also where a method reads it from self."
)

# While a program holds a constant made from a NumPy array, JAX uses the array's old values.
NUMPY = (
    "it reads a NumPy array, which may change in place. Write {} before the function is made, or a "
    "tuple of Python numbers if a shape needs them."
)
KEEPS = (
    "its program calls back into Python, as callbacks and derivative rules do, and the code there "
    "reads what can change. Pass that as an argument, or capture a number or a tuple."
)

# By function, for reports: the reason why `jit` does not share its program. For a method, the key
# is the instance, with reasons by method name, because each access makes another bound method.
_reasons: WeakIdMap[dict[str, str]] = WeakIdMap()


def note_not_shared(fn: Any, reason: str) -> None:
    """Note why a function runs a program of its own. `reason` follows "is new each time: "."""
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
