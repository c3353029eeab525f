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
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

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


def _known_or_cut(module: Any) -> tuple[list[Any], Static]:
    known = _known.get(module, _NEW)
    if known is _NEW:
        # Finding out whether it can change takes as long as the rest, so not at the first time.
        _known.set(module, None)
        return _partition(*jtu.tree_flatten(module))
    static = None if known is None else known[1]()
    if known is not None and static is not None:
        return known[0], static
    arrays, static, is_frozen = _cut_module(module)
    if is_frozen:
        _known.set(module, (arrays, weakref.ref(static)))
    return arrays, static


_NEW: Any = object()


def _cut_module(module: Any) -> tuple[list[Any], Static, bool]:
    """The arrays of a module, the rest of it, and whether it cannot change."""
    key: list[Hashable] = []
    arrays: list[Any] = []
    try:
        _read_frozen(module, key, arrays)
    except _CanChange:
        return *_partition(*jtu.tree_flatten(module)), False
    found = _statics.get(tuple(key))
    if found is None:
        _, static = _partition(*jtu.tree_flatten(module))
        found = _statics.setdefault(tuple(key), static)
    return arrays, found, True


class _CanChange(Exception):
    """A part of a module can change, or may be equal to something else in a way of its own."""


_ARRAY = object()


def _read_frozen(node: Any, key: list[Hashable], arrays: list[Any]) -> None:
    """Collects the arrays in the order of a flatten, and what all else is, by type and exact value.

    By exact value, because a function that takes 1 and True for one may be traced for either.
    """
    kind = type(node)
    if kind in _array_types:
        key.append(_ARRAY)
        arrays.append(node)
    elif type(kind) is _ModuleMeta:
        cls = _classes.get(kind) or _classes.setdefault(kind, _Class(node))
        fields = cls.fields_of(node)
        key.append(kind)
        try:
            for name in cls.static:
                key.append(_exact(fields[name]))
            for name in cls.dynamic:
                _read_frozen(fields[name], key, arrays)
        except KeyError:
            raise _CanChange from None  # it has other attributes instead
    elif node is None:
        key.append(None)
    elif kind is tuple or _is_plain_namedtuple(kind, node):
        key += (kind, len(node))
        for child in node:
            _read_frozen(child, key, arrays)
    elif _is_array(node):
        key.append(_ARRAY)
        arrays.append(node)
    else:
        if kind not in ATOMS and not jtu.all_leaves((node,)):
            raise _CanChange
        key.append(_exact(node))


def _is_plain_namedtuple(kind: type, node: Any) -> bool:
    if not issubclass(kind, tuple):
        return False
    level = jtu.default_registry.flatten_one_level(node)
    return level is not None and level[1] is kind


def _exact(value: Any) -> Hashable:
    """What only equals that of the same value, or of one that is alike to the last bit."""
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


class _Class:
    """The fields of a class of modules."""

    def __init__(self, module: Any) -> None:
        paths, _ = jtu.tree_flatten_with_path(module, is_leaf=lambda node: node is not module)
        self.dynamic: tuple[str, ...] = tuple(path[0].name for path, _ in paths)
        names = [field.name for field in dataclasses.fields(module)]
        self.static = tuple(name for name in names if name not in self.dynamic)
        self._count = len(names)
        self._is_frozen = type(module).__setattr__ is eqx.Module.__setattr__

    def fields_of(self, module: Any) -> dict[str, Any]:
        fields = _attributes_of(module)
        # A wrapper has attributes beside its fields, and `__init__` may still set what it sets.
        if not self._is_frozen or len(fields) != self._count or _is_in_init(module, fields):
            raise _CanChange
        return fields


# JAX keeps the classes of all pytrees too.
_classes: dict[type, _Class] = {}


def _attributes_of(module: Any) -> dict[str, Any]:
    return object.__getattribute__(module, "__dict__")  # not through a Python function of Equinox


def _is_in_init(module: Any, fields: dict[str, Any]) -> bool:
    for name, value in fields.items():
        try:
            setattr(module, name, value)
        except dataclasses.FrozenInstanceError:
            return False
        return True
    return False


# --- what a call returns ------------------------------------------------------------------------


class _Place:
    """Stands for an array in an output."""

    __canonicalized__ = True  # each is like the other

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
    """What a function returned when it was traced, without its arrays.

    Modules are built from copies of their attributes, all in one go, which takes half as long as
    unflattening them, and are known from then on.
    """

    def __init__(self, structure: tuple[Any, ...], may_fail: bool | None = None) -> None:
        # The structure of the pytree, and its leaves that are not arrays.
        self.structure = structure
        # Whether the program may raise an error while it runs, so that a call has to wait for it.
        # None as long as it is not known.
        self.may_fail = may_fail
        self._is_planned = False

    def with_structure(self, structure: tuple[Any, ...]) -> "Output":
        """Return an output of the same program with other objects."""
        return Output(structure, self.may_fail)

    def _make_plan(self) -> None:
        treedef, *found = self.structure
        plan = _Plan()
        leaves, self._treedef = jtu.tree_flatten(treedef.unflatten(found), is_leaf=_is_module)
        places = [plan.add(leaf) for leaf in leaves]
        # Parts are in one list: arrays, then modules, then tuples and all else.
        starts = 0, plan.arrays, plan.arrays + len(plan.kinds)

        def place_of(place: _Where) -> int:
            return starts[place[0]] + place[1]

        self._kinds, self._attributes = plan.kinds, plan.attributes
        self._rest = [(make, [*map(place_of, parts)]) for make, parts in plan.rest]
        self._owners = _getter([owner for owner, _, _ in plan.fields])
        self._names = [name for _, name, _ in plan.fields]
        self._values = _getter([place_of(place) for _, _, place in plan.fields])
        self._known = [
            (place_of(place), start, stop, static) for place, start, stop, static in plan.known
        ]
        self._leaves = [*map(place_of, places)]
        self._is_planned = True

    def build(self, arrays: list[Any]) -> Any:
        """Return what the function returned, with these arrays."""
        if not self._is_planned:
            self._make_plan()
        modules = [*map(object.__new__, self._kinds)]
        attributes = [*map(dict.copy, self._attributes)]
        parts = arrays + modules
        for make, places in self._rest:
            parts.append(make([parts[place] for place in places]))
        _exhaust(map(operator.setitem, self._owners(attributes), self._names, self._values(parts)))
        _exhaust(map(object.__setattr__, modules, itertools.repeat("__dict__"), attributes))
        for place, start, stop, static in self._known:
            _known.set(parts[place], (arrays[start:stop], weakref.ref(static)))
        return self._treedef.unflatten([parts[place] for place in self._leaves])


_exhaust = collections.deque[Any](maxlen=0).extend


def _getter(places: list[int]) -> Callable[[list[Any]], Iterable[Any]]:
    """What gets the items at `places` from a list."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda items: [items[place] for place in places]


# Whether a part is an array (0), a module (1) or something else (2), and which one of these.
_Where: TypeAlias = tuple[int, int]


class _Plan:
    """The steps in which an output is built."""

    def __init__(self) -> None:
        self.arrays = 0
        self.kinds: list[type] = []
        self.attributes: list[dict[str, Any]] = []  # of each module, without its arrays
        self.fields: list[tuple[int, str, _Where]] = []  # of which module, and what it holds
        self.rest: list[tuple[Callable[[list[Any]], Any], list[_Where]]] = []
        self.known: list[tuple[_Where, int, int, Static]] = []

    def add(self, leaf: Any) -> _Where:
        if not _is_module(leaf):
            return self._add_frozen(leaf)
        start = self.arrays
        arrays, static, is_frozen = _cut_module(leaf)
        stop = start + len(arrays)
        if is_frozen:
            place = self._add_frozen(leaf)
            if place[0] == 1:
                self.known.append((place, start, stop, static))
            return place
        self.arrays = stop
        return self._add_rest(
            lambda parts: static.restore(iter(parts)), [(0, i) for i in range(start, stop)]
        )

    def _add_frozen(self, node: Any) -> _Where:
        if _is_array(node):
            self.arrays += 1
            return 0, self.arrays - 1
        if not any(map(_is_array, jtu.tree_leaves(node))):
            return self._add_rest(lambda _: node, [])
        if not _is_module(node):
            make = tuple if type(node) is tuple else type(node)._make
            return self._add_rest(make, [self._add_frozen(child) for child in node])
        attributes = dict(_attributes_of(node))
        number = len(self.kinds)
        self.kinds.append(type(node))
        self.attributes.append(attributes)
        for name in _classes[type(node)].dynamic:
            if any(map(_is_array, jtu.tree_leaves(attributes[name]))):
                self.fields.append((number, name, self._add_frozen(attributes[name])))
                attributes[name] = None
        return 1, number

    def _add_rest(self, make: Callable[[list[Any]], Any], parts: list[_Where]) -> _Where:
        self.rest.append((make, parts))
        return 2, len(self.rest) - 1
