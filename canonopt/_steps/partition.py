"""Cuts pytrees into arrays and a static rest, and remembers how it cut modules.

`cut` is for the arguments of a call, `Output` for what it returns. Modules that came out of a call,
or went into one, are known by identity, so their leaves are not collected again. That is sound only
for a module that cannot change: one of frozen modules, tuples, arrays and immutable values. Others,
for example a module with a list in it, are cut anew each time. An array that is changed in place,
as NumPy's can be, is the same array. `object.__setattr__` on a module goes unnoticed.
"""

import collections
import dataclasses
import enum
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import attrs
import equinox as eqx
import jax.core
import jax.tree_util as jtu
import numpy as np

from .._identity import ATOMS, Table
from .._python_internals import WeakIdMap, token_of


class Static:
    """A pytree without its arrays: its structure, and the leaves that are not arrays.

    Modules in a pytree have a `Static` of their own. Two are equal if `equinox.filter_jit` would
    take one for the other: if structures and leaves are equal by `==`.
    """

    __slots__ = ("__weakref__", "_equals", "_hash", "_others", "_treedef")

    def __init__(self, treedef: Any, others: tuple[tuple[int, Any], ...]) -> None:
        self._treedef = treedef
        # The leaves that are no arrays, and modules, each with its place among the leaves.
        self._others = others
        self._hash: int | None = None
        # Some that are equal. A program has one of them, and a known module may have another.
        self._equals: tuple[Static, ...] = ()

    def __hash__(self) -> int:
        if self._hash is None:  # raises TypeError for a leaf that cannot be hashed, for JAX to see
            self._hash = hash((self._treedef, self._others))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Static:
            return False
        for equal in self._equals:
            if equal is other:
                return True
        if self._treedef != other._treedef or self._others != other._others:
            return False
        self._equals = (other, *self._equals[:3])
        other._equals = (self, *other._equals[:3])
        return True

    # --- for the reader of functions, which reads exact values --------------------------------

    def __canonical_key__(self, _: object) -> Hashable:
        return tuple(i for i, _ in self._others)

    def __canonical_parts__(self, _: object) -> tuple[Any, ...]:
        return (self._treedef, *(leaf for _, leaf in self._others))

    def restore(self, arrays: Iterator[Any]) -> Any:
        """Return the pytree, with the next of `arrays` in the places where it had arrays."""
        others = dict(self._others)
        leaves = []
        for i in range(self._treedef.num_leaves):
            leaf = others[i] if i in others else next(arrays)
            leaves.append(leaf.restore(arrays) if type(leaf) is Static else leaf)
        return self._treedef.unflatten(leaves)


def cut(tree: Any) -> tuple[list[Any], Static]:
    """The arrays in a pytree, and the rest of it."""
    return _partition(*jtu.tree_flatten(tree, is_leaf=_is_module))


def _partition(leaves: list[Any], treedef: Any) -> tuple[list[Any], Static]:
    others = [(i, leaf) for i, leaf in enumerate(leaves) if type(leaf) not in _array_types]
    if not others:
        return leaves, Static(treedef, ())
    if _other_types.issuperset([type(leaf) for _, leaf in others]):
        arrays = [leaf for leaf in leaves if type(leaf) in _array_types]
        return arrays, Static(treedef, tuple(others))
    arrays, others = [], []
    for i, leaf in enumerate(leaves):
        if _is_module(leaf):
            inner, static = _known_or_cut(leaf)
            arrays += inner
            others.append((i, static))
        elif _is_array(leaf):
            arrays.append(leaf)
        else:
            others.append((i, leaf))
    return arrays, Static(treedef, tuple(others))


_ModuleMeta: Any = type(eqx.Module)


def _is_module(node: Any) -> bool:
    return type(type(node)) is _ModuleMeta  # `isinstance` takes ten times as long, for an ABC


# The types of leaves that have been seen: to ask `equinox.is_array` of each leaf takes too long.
_array_types: set[type] = set()
_other_types: set[type] = set()


def _is_array(leaf: Any) -> bool:
    kind = type(leaf)
    if kind in _array_types or kind in _other_types:
        return kind in _array_types
    is_array = eqx.is_array(leaf)
    is_of_library = str(kind.__module__).partition(".")[0] in _LIBRARIES
    # Of a tracer, its type does not say whether it is an array.
    if is_of_library and not isinstance(leaf, jax.core.Tracer):
        (_array_types if is_array else _other_types).add(kind)
    return is_array


_LIBRARIES = ("builtins", "jax", "jaxlib", "numpy")


# --- modules that are known ---------------------------------------------------------------------

# From each known module to its arrays and its static rest, and from each module that was in a call
# once to None. A static leaf, such as a closure, may refer to the module, so the rest is referenced
# weakly: the programs that it belongs to keep it.
_known: WeakIdMap[tuple[list[Any], weakref.ref[Static]] | None] = WeakIdMap()
_statics: Table[Static] = Table(stays=True)
_NEW: Any = object()


def _known_or_cut(module: Any) -> tuple[list[Any], Static]:
    known = _known.get(module, _NEW)
    if known is not _NEW and known is not None and (static := known[1]()) is not None:
        return known[0], static
    arrays, static = _partition(*jtu.tree_flatten(module))
    if known is _NEW:
        # Finding out whether it can change takes as long as the rest, so not at the first time.
        _known.set(module, None)
    elif (key := _exact_key(module)) is not None:
        static = _statics.setdefault(key, static)
        _known.set(module, (arrays, weakref.ref(static)))
    return arrays, static


class _CanChange(Exception):
    """A part of a module can change, or may be equal to something else in a way of its own."""


def _exact_key(module: Any) -> Hashable:
    """Return what all but the arrays of a module is, by type and exact value.

    By exact value, because a function that takes 1 and True for one may be traced for either. None
    if the module can change.
    """
    key: list[Hashable] = []
    pending = [module]
    try:
        while pending:
            node = pending.pop()
            level = None if type(node) in _array_types else _flatten_one_level(node)
            if level is not None:
                children, static = level
                _check_frozen(node, static)
                key += (type(node), len(children), _exact(static))
                pending += children
            else:
                key.append(_ARRAY if _is_array(node) else _exact(node))
    except _CanChange:
        return None
    return tuple(key)


_flatten_one_level = jtu.default_registry.flatten_one_level
_ARRAY = object()


def _check_frozen(node: Any, static: Any) -> None:
    """Raise `_CanChange` for a node other than a frozen module, a tuple or a named tuple."""
    if _is_module(node):
        # `__init__` may still set what it sets, and so may others if the class allows it.
        try:
            for name, value in _attributes_of(node).items():
                setattr(node, name, value)
                raise _CanChange
        except dataclasses.FrozenInstanceError:
            pass
    elif not (node is None or type(node) is tuple or static is type(node)):
        raise _CanChange


def _attributes_of(module: Any) -> dict[str, Any]:
    return object.__getattribute__(module, "__dict__")  # not through a Python function of Equinox


def _exact(value: Any) -> Hashable:
    """Return what only equals that of the same value, or of one that is alike to the last bit."""
    kind = type(value)
    if kind in ATOMS:
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 == -0.0
    if kind is tuple:
        return kind, *map(_exact, value)
    if isinstance(value, np.dtype):
        return kind, value
    if isinstance(value, type | enum.Enum | types.BuiltinFunctionType) or (
        kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    ):
        try:
            return token_of(value)
        except TypeError:
            pass
    raise _CanChange


# --- what a call returns ------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Place:
    """Stands for an array in an output, by its place among the arrays."""

    __canonicalized__ = True  # each is like the other
    number: int = -1

    def __repr__(self) -> str:
        return "array"


_PLACE = _Place()
_array_types.add(_Place)


def cut_output(out: Any) -> tuple[list[Any], "Output"]:
    """Return the arrays in what a function returned, and what builds the like of other arrays."""
    leaves, treedef = jtu.tree_flatten(out)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    return arrays, Output((treedef, *(_PLACE if _is_array(leaf) else leaf for leaf in leaves)))


@jtu.register_static
class Output:
    """The output of a function when it was traced, without its arrays.

    Modules are built from copies of their attributes, all in one go, which takes half as long as
    unflattening them, and are known from then on.
    """

    def __init__(self, structure: tuple[Any, ...], may_fail: bool | None = None) -> None:
        # The structure of the pytree, and its leaves that are not arrays.
        self.structure = structure
        # Whether the program may raise an error while it runs, so that a call has to wait for it.
        # None as long as it is not known.
        self.may_fail = may_fail

    def with_structure(self, structure: tuple[Any, ...]) -> "Output":
        """Return an output of the same program with other objects."""
        return Output(structure, self.may_fail)

    @functools.cached_property
    def build(self) -> Callable[[list[Any]], Any]:
        """The function that returns what the function returned, with other arrays."""
        treedef, *found = self.structure
        numbers = itertools.count()
        leaves = [_Place(next(numbers)) if leaf is _PLACE else leaf for leaf in found]
        leaves, treedef = jtu.tree_flatten(treedef.unflatten(leaves), is_leaf=_is_module)
        return _Builder(treedef, leaves, next(numbers)).build


class _Builder:
    """Builds an output in as few steps as there are.

    The parts of an output are in one list: the arrays, then the modules, then all else.
    """

    def __init__(self, treedef: Any, leaves: list[Any], count: int) -> None:
        self._treedef = treedef
        self._modules = [module for leaf in leaves for module in _modules_in(leaf)]
        self._places = {id(module): count + i for i, module in enumerate(self._modules)}
        self._kinds = [*map(type, self._modules)]
        self._first = count + len(self._modules)  # of the rest
        self._attributes = [dict(_attributes_of(module)) for module in self._modules]
        # What makes a part, and the places of what it is made of.
        self._rest: list[tuple[Callable[[list[Any]], Any], list[int]]] = []
        # For each attribute that is built: the number of its module, its name, the place of it.
        fields: list[tuple[int, str, int]] = []
        for i, (module, attributes) in enumerate(zip(self._modules, self._attributes, strict=True)):
            nodes = [id(child) for child in _flatten_one_level(module)[0] if _is_made(child)]
            for name, value in attributes.items():
                if id(value) in nodes:
                    fields.append((i, name, self._place_of(value)))
                    attributes[name] = None
        self._leaves = [*map(self._place_of, leaves)]
        self._owners = _getter([owner for owner, _, _ in fields])
        self._values = _getter([place for _, _, place in fields])
        self._names = [name for _, name, _ in fields]
        # Modules that are known from then on, with the places of their arrays.
        self._known: list[tuple[int, slice, Static]] = []
        for place, leaf in zip(self._leaves, leaves, strict=True):
            if _is_module(leaf) and (key := _exact_key(leaf)) is not None:
                arrays, static = _partition(*jtu.tree_flatten(leaf))
                start = arrays[0].number if arrays else 0
                of_arrays = slice(start, start + len(arrays))
                self._known.append((place, of_arrays, _statics.setdefault(key, static)))

    def _place_of(self, node: Any) -> int:
        if type(node) is _Place:
            return node.number
        if id(node) in self._places:
            return self._places[id(node)]
        if _flatten_one_level(node) is None:
            make, places = (lambda _: node), []
        else:
            children, structure = jtu.tree_flatten(node, is_leaf=lambda inner: inner is not node)
            make, places = structure.unflatten, [*map(self._place_of, children)]
        self._rest.append((make, places))
        return self._first + len(self._rest) - 1

    def build(self, arrays: list[Any]) -> Any:
        """Return the output with these arrays."""
        modules = [*map(object.__new__, self._kinds)]
        attributes = [*map(dict.copy, self._attributes)]
        parts = arrays + modules
        for make, places in self._rest:
            parts.append(make([parts[place] for place in places]))
        _exhaust(map(operator.setitem, self._owners(attributes), self._names, self._values(parts)))
        _exhaust(map(object.__setattr__, modules, itertools.repeat("__dict__"), attributes))
        for place, of_arrays, static in self._known:
            _known.set(parts[place], (arrays[of_arrays], weakref.ref(static)))
        return self._treedef.unflatten([parts[place] for place in self._leaves])


_exhaust = collections.deque[Any](maxlen=0).extend


def _modules_in(node: Any) -> Iterator[Any]:
    """Yield all modules in a pytree."""
    level = None if type(node) is _Place else _flatten_one_level(node)
    if level is not None:
        if _is_module(node):
            yield node
        for child in level[0]:
            yield from _modules_in(child)


def _is_made(node: Any) -> bool:
    """Return True for an array, and for a node, which is another object in each output."""
    return type(node) is _Place or (node is not None and _flatten_one_level(node) is not None)


def _getter(places: list[int]) -> Callable[[list[Any]], Iterable[Any]]:
    """Return what gets the items at `places` from a list."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda items: [items[place] for place in places]
