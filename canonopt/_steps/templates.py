"""The structure of what a function returns, without the objects that belong to one call.

A program is shared by functions whose arguments hold other objects that do the same, such as a
lambda in a model. A template has a `Slot` in the place of each of these; filled with the objects
that were read for another function, it is the structure of what that function returns.
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

from .._identity import ATOMS, has_only_attributes, is_record, kind_of
from .._python_internals import (
    is_in_place,
    is_library_class,
    is_library_function,
    is_stable,
)


@attrs.frozen
class Slot:
    """Stands for one of the objects that were read, by its place in the reading."""

    place: int


class _Other(Exception):
    """A mutable object or a function that was not read."""


def slotted(structure: Any, objects: Sequence[Any]) -> Any:
    """Return the template of a structure; None if it holds any other mutable object or function."""
    places = {id(value): i for i, value in enumerate(objects)}

    def swap(value: Any) -> Any:
        is_seen = id(value) in places
        if isinstance(value, type):
            is_whole = is_seen or value is types.NoneType or is_in_place(value)
        else:
            is_spec = hasattr(type(value), "__canonicalized__")
            is_whole = _is_immutable(value) or (is_spec and not is_seen)
        if is_whole:
            return value
        if is_seen:
            return Slot(places[id(value)])
        raise _Other

    try:
        return _swapped(structure, swap)
    except _Other:
        return None


def fill(template: Any, objects: Sequence[Any]) -> Any:
    """Return the structure with these objects in the slots of its template."""
    return _swapped(template, lambda value: objects[value.place] if type(value) is Slot else value)


def _swapped(value: Any, swap: Callable[[Any], Any]) -> Any:
    """Return a value with its parts swapped; itself if they stay what they are."""
    kind = type(value)
    if kind in ATOMS or kind is float:
        return value
    if kind is jtu.PyTreeDef:
        return _swapped_structure(value, swap)
    if hasattr(kind, "with_structure"):  # an `Output`
        new = _swapped(value.structure, swap)
        return value if new is value.structure else value.with_structure(new)
    if kind is tuple or (is_record(kind) and not hasattr(kind, "__canonicalized__")):
        known: Any = kind_of(value)
        return known.mapped(value, lambda part: _swapped(part, swap))
    return swap(value)


def _swapped_structure(structure: Any, swap: Callable[[Any], Any]) -> Any:
    data = structure.node_data()
    if data is None:  # of a leaf, or of no leaf at all
        return structure
    kind, static = data
    swap(kind)  # a class that the function made belongs to it
    children = structure.children()
    made = [_swapped_structure(child, swap) for child in children]
    if issubclass(kind, dict):  # its keys, in a list that JAX makes
        new = static
        if any(_swapped(key, swap) is not key for key in _keys(static)):
            raise _Other
    else:
        new = _swapped(static, swap)
    if new is static and all(map(operator.is_, made, children)):
        return structure
    if new is not static and issubclass(kind, tuple):
        raise _Other  # a spec: JAX would take it for a named tuple
    return jtu.PyTreeDef.from_node_data_and_children(jtu.default_registry, (kind, new), made)


def _keys(static: Any) -> Sequence[Any]:
    """Return the keys of a dict, and the factory of a `defaultdict`."""
    if isinstance(static, tuple) and len(static) == 2 and isinstance(static[1], list | tuple):
        return (static[0], *static[1])
    return static


_IMMUTABLE = (
    *(enum.Enum, np.dtype, np.generic, complex, types.ModuleType, jax.ShapeDtypeStruct),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec, jax.Device),
)


def _is_immutable(value: Any) -> bool:
    """Return True if functions of one key have this very object, or one just like it."""
    if isinstance(value, _IMMUTABLE):
        return True
    if isinstance(value, types.FunctionType) and not value.__closure__ and not vars(value):
        return is_library_function(value)
    kind: Any = type(value)
    has_none = getattr(value, "__dict__", None) == {}
    if has_none and is_library_class(kind) and has_only_attributes(kind):
        return True  # a sentinel, such as what Equinox has for a field that is missing
    return is_stable(value)
