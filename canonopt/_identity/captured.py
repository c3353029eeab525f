"""The arrays that a function captures, and copies of the function with others in their place.

`captured_arrays` finds them in captured variables, defaults and the arguments of partials, through
functions, tuples, lists, dicts, frozen dataclasses and modules. `with_arrays` makes a copy of the
function that has something else in their place: tracers, or what stands for an array in a key.
Only what leads to an array is copied, and nothing is changed.
"""

import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.tree_util as jtu
import numpy as np

from .._jax_internals import Jitted, function_of_partial, jit_options
from .._python_internals import cells_of, is_bound, is_stable, token_of
from .instances import is_frozen_record
from .interning import read
from .reader import ATOMS, Mode, Reading
from .values import instance_with, is_record, record_with

MAX_NODES = 10_000  # of what a function captures
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
    """Whether `value` is an array that can be an argument of a program."""
    if isinstance(value, jax.Array):
        return True
    # A NumPy array without an axis is read by its value, like a number.
    return type(value) is np.ndarray and value.ndim > 0 and value.dtype.kind in "biufc"


# --- what leads to arrays -------------------------------------------------------------------------


def captured_arrays(fn: Any) -> list[Any]:
    """The arrays that `fn` captures, each once, in the order in which they are found."""
    return [value for value in _Graph(fn).nodes.values() if is_array(value)]


def leads_to_objects(value: Any) -> bool:
    """Whether `value` leads to an array, or to an object that may hold any, such as a trainer."""
    if not value:  # of most specs
        return False
    pending, specs = [value], set[int]()
    while pending:
        graph = _Graph(pending.pop())
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


class _Graph:
    """What a function holds, as far as it can be copied with something else in it."""

    def __init__(self, root: Any) -> None:
        # By id; the objects are alive, because they are kept here.
        self.nodes: dict[int, Any] = {}
        self.parents: dict[int, list[int]] = {}
        pending = [root]
        while pending and len(self.nodes) < MAX_NODES:
            value = pending.pop()
            if id(value) in self.nodes:
                continue
            self.nodes[id(value)] = value
            parts = [part for part in _parts(value) if type(part) not in _NO_PARTS]
            for part in parts:
                self.parents.setdefault(id(part), []).append(id(value))
            pending += reversed(parts)

    def above(self, ids: Iterable[int]) -> set[int]:
        """The nodes that lead to one of `ids`, and these themselves."""
        found: set[int] = set()
        pending = list(ids)
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += self.parents.get(one, ())
        return found


_NO_PARTS = ATOMS | {float, complex, type, types.ModuleType, types.BuiltinFunctionType}
_LEAD_ON = _NO_PARTS | {types.FunctionType, types.MethodType, functools.partial, Jitted}
_LEAD_ON |= {tuple, list, dict}


def _parts(value: Any) -> Iterator[Any]:
    """The parts of a value that may be or lead to an array."""
    kind = type(value)
    if kind is types.FunctionType:
        if not is_stable(value):
            yield from _parts_of_function(value)
    elif isinstance(value, functools.partial):
        yield from (function_of_partial(value), *value.args, *value.keywords.values())
    elif kind is types.MethodType:
        yield from (value.__func__, value.__self__)
    elif kind in (tuple, list):
        yield from value
    elif kind is dict:
        yield from value.values()
    elif hasattr(kind, "__canonicalized__"):  # a spec, with leaves if a number of it is traced
        yield from jtu.tree_leaves(value)
    elif is_record(kind):
        yield from tuple.__iter__(value)
    elif is_frozen_record(kind):
        yield from _fields(value).values()
    elif kind is Jitted and not is_stable(value):
        yield value.__wrapped__
    elif hasattr(kind, "__captured_function__"):
        yield value.__captured_function__


def _parts_of_function(function: types.FunctionType) -> Iterator[Any]:
    attributes = vars(function)
    if "__canonical_original__" in attributes:
        yield attributes["__canonical_original__"]
        return
    if "__canonical_owner__" in attributes:
        return
    yield from (cell.cell_contents for _, cell in cells_of(function) if is_bound(cell))
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from attributes.values()


def _fields(value: Any) -> dict[str, Any]:
    """The attributes of a frozen instance without the static fields of a module."""
    attributes = getattr(value, "__dict__", {})
    if not isinstance(value, eqx.Module):
        return attributes
    static = {f.name for f in dataclasses.fields(value) if f.metadata.get("static", False)}
    return {name: part for name, part in attributes.items() if name not in static}


# --- copies ---------------------------------------------------------------------------------------


def with_arrays(fn: Any, replace: Callable[[Any], Any]) -> "Copy":
    """A copy of `fn` in which each captured array is `replace(array)`.

    An array that `replace` returns as it is stays in its place, and so does all that leads only to
    such arrays.

    **Raises:** `ValueError` if the options of a jitted function are unknown.
    """
    graph = _Graph(fn)
    made = {key: replace(value) for key, value in graph.nodes.items() if is_array(value)}
    changed = graph.above(key for key, new in made.items() if new is not graph.nodes[key])
    return Copy(fn, changed, made)


class Copy:
    """A copy of a function. `is_unchanged` says whether its new parts are still as they were."""

    def __init__(self, fn: Any, changed: set[int], made: dict[int, Any]) -> None:
        self._changed, self._made = changed, made
        self._cells: dict[int, types.CellType] = {}
        self._filled: list[tuple[types.CellType, Any]] = []
        self._containers: list[tuple[Any, Any]] = []
        self.function = self._copy(fn)

    def is_unchanged(self) -> bool:
        """Whether nobody has changed a variable, a list or a dict that was copied."""
        return all(
            is_bound(cell) and cell.cell_contents is content for cell, content in self._filled
        ) and all(_same_items(now, then) for now, then in self._containers)

    def _copy(self, value: Any) -> Any:
        if id(value) not in self._changed:
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._copy_node(value)
        return self._made[id(value)]

    def _copies(self, values: Iterable[Any]) -> list[Any]:
        return [self._copy(value) for value in values]

    def _copy_named(self, values: dict[Any, Any]) -> dict[Any, Any]:
        return {name: self._copy(value) for name, value in values.items()}

    def _copy_node(self, value: Any) -> Any:
        kind = type(value)
        if kind is types.FunctionType:
            return self._copy_function(value)
        if isinstance(value, functools.partial):
            args, keywords = self._copies(value.args), self._copy_named(value.keywords)
            made = kind(self._copy(function_of_partial(value)), *args, **keywords)
            vars(made).update(vars(value))
            return made
        if kind is types.MethodType:
            return types.MethodType(self._copy(value.__func__), self._copy(value.__self__))
        if kind is list:
            made = self._made[id(value)] = []  # before its items, which may lead back to it
            made += self._copies(value)
            self._containers.append((made, [*made]))
            return made
        if kind is dict:
            made = self._made[id(value)] = {}
            made.update(self._copy_named(value))
            self._containers.append((made, {**made}))
            return made
        if kind is tuple:
            return tuple(self._copies(value))
        if hasattr(kind, "__canonicalized__"):
            leaves, structure = jtu.tree_flatten(value)
            return jtu.tree_unflatten(structure, self._copies(leaves))
        if is_record(kind):
            return record_with(value, self._copies(tuple.__iter__(value)))
        if kind is Jitted:
            options = jit_options(value)
            if options is None:
                raise ValueError("A jitted function whose options are unknown cannot be copied.")
            return jax.jit(self._copy(value.__wrapped__), **options)
        if hasattr(kind, "__captured_function__"):
            return value.with_function(self._copy(value.__captured_function__))
        return instance_with(value, self._copy_named(_fields(value)))

    def _copy_function(self, function: types.FunctionType) -> Any:
        attributes = vars(function)
        if "__canonical_original__" in attributes:
            return self._copy(attributes["__canonical_original__"])
        cells = tuple(self._copy_cell(cell) for _, cell in cells_of(function))
        made = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, None, cells or None
        )
        self._made[id(function)] = made  # before what it captures, which may lead back to it
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__doc__, made.__annotations__ = function.__doc__, function.__annotations__
        vars(made).update(self._copy_named(attributes))
        if function.__defaults__:
            made.__defaults__ = tuple(self._copies(function.__defaults__))
        if function.__kwdefaults__:
            made.__kwdefaults__ = self._copy_named(function.__kwdefaults__)
        for _, cell in cells_of(function):
            self._fill_cell(cell)
        return made

    def _copy_cell(self, cell: types.CellType) -> types.CellType:
        """A new variable for one whose value is copied; functions that share one still do."""
        if not is_bound(cell) or id(cell.cell_contents) not in self._changed:
            return cell
        return self._cells.setdefault(id(cell), types.CellType())

    def _fill_cell(self, cell: types.CellType) -> None:
        new = self._cells.get(id(cell))
        if new is not None and not is_bound(new):
            new.cell_contents = content = self._copy(cell.cell_contents)
            self._filled.append((new, content))


def _same_items(now: Any, then: Any) -> bool:
    if type(now) is dict:
        now, then = [*now, *now.values()], [*then, *then.values()]
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))


def read_without_arrays(
    fn: Any,
    captured: Sequence[Any],
    asked: Container[int] = (),
    others: Iterable[Any] = (),
    *,
    explain: bool = False,
) -> Reading:
    """Reads a function that is traced now, without its arrays.

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
