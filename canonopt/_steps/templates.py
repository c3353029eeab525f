"""The structure of a function's result, without the objects that belong to one call.

Functions share a program even if their arguments hold different objects that do the same, such as a
lambda in a model. A template has a slot in place of each such object. Filling the slots with the
objects that were read for another function gives the structure of that function's result.
"""

import enum
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax
import jax.tree_util as jtu
import numpy as np

from .._identity import ATOMS, is_record, is_sentinel, kind_of
from .._python_internals.libraries import is_in_place, is_library_function
from .._python_internals.namespaces import is_stable


@attrs.frozen
class _Slot:
    """A placeholder for one of the objects that were read: its index in `Reading.objects`."""

    place: int


class _Other(Exception):
    """An error for a mutable object, a function or a class that was not read."""


def template_of(structure: Any, objects: Sequence[Any]) -> Any:
    """Return `structure` with a `_Slot` in place of each part that is in `objects`.

    Immutable parts and classes stay. Returns None if another part or a local class is not in it.
    """
    places = {id(value): i for i, value in enumerate(objects)}

    def swap(value: Any) -> Any:
        if _is_immutable(value):
            return value
        place, kind = places.get(id(value)), type(value)
        if place is not None:
            return value if isinstance(value, type) else _Slot(place)
        if is_record(kind) or hasattr(kind, "__canonicalized__"):  # has parts, or is ours
            return value
        raise _Other

    try:
        return _swapped(structure, swap)
    except _Other:
        return None


def filled(template: Any, objects: Sequence[Any]) -> Any:
    """Return the structure of a template, with `objects` in its slots."""
    return _swapped(template, lambda v: objects[v.place] if type(v) is _Slot else v)


def _swapped(value: Any, swap: Callable[[Any], Any]) -> Any:
    """Return a value with `swap` applied to its parts; the value itself if no part changes."""
    kind = type(value)
    if kind in ATOMS or kind is float:
        return value
    if kind is jtu.PyTreeDef:
        return _swapped_structure(value, swap)
    if hasattr(kind, "with_structure"):  # an `Output`
        new = _swapped(value.structure, swap)
        return value if new is value.structure else value.with_structure(new)
    new = value if kind is tuple else swap(value)
    is_apart = is_record(kind) and not hasattr(kind, "__canonicalized__")
    if new is value and (kind is tuple or is_apart):
        known: Any = kind_of(value)
        return known.mapped(value, lambda part: _swapped(part, swap))
    return new


def _swapped_structure(structure: Any, swap: Callable[[Any], Any]) -> Any:
    data = structure.node_data()
    if data is None:  # it is a leaf
        return structure
    kind, static = data
    swap(kind)  # raises `_Other` for a local class that was not read
    children = structure.children()
    made = [_swapped_structure(child, swap) for child in children]
    if kind is dict and all(_swapped(key, swap) is key for key in static):
        new = static  # the list of keys, which JAX itself has made
    else:
        new = _swapped(static, swap)
    if new is static and all(map(operator.is_, made, children)):
        return structure
    if new is not static and issubclass(kind, tuple):
        raise _Other  # a transformation of canonopt, which JAX would treat as a named tuple
    return jtu.PyTreeDef.from_node_data_and_children(jtu.default_registry, (kind, new), made)


_IMMUTABLE = (
    *(enum.Enum, np.dtype, np.generic, complex, types.ModuleType, jax.ShapeDtypeStruct),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec, jax.Device),
)


def _is_immutable(value: Any) -> bool:
    """Return True if functions with equal keys hold this very object, or an equal one."""
    if isinstance(value, type):
        return value is types.NoneType or is_in_place(value)
    if isinstance(value, _IMMUTABLE):
        return True
    if isinstance(value, types.FunctionType) and not value.__closure__ and not vars(value):
        return is_library_function(value)
    return is_sentinel(value) or is_stable(value)
