"""Cut pytrees into arrays and a static rest, and remember how modules were cut.

`cut` is for the arguments of a call, `Output` for its result. A module that a call returned, or
that went into two calls, is recognized by identity, and its leaves are not collected again. Only
modules that cannot change are recognized: they consist of frozen modules, tuples, arrays and
immutable values. Any other module, such as one with a list, is cut at each call. If a NumPy array
changes in place, the next call gets the new values. If `object.__setattr__` changes a module, calls
use the old attributes, except for `__class__`, which reloaders such as `%autoreload` replace.
"""

import dataclasses
import enum
import functools
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, TypeAlias

import attrs
import equinox as eqx
import jax
import jax.core
import jax.tree_util as jtu
import numpy as np

from .._identity import ATOMS, attributes_of
from .._python_internals.libraries import is_library_class
from .._python_internals.weak import WeakIdMap

# A pytree without its arrays: its structure, and (index, leaf) for each leaf that is not an array.
# A module counts as one such leaf: its `_StaticModule`.
Static: TypeAlias = tuple[Any, tuple[tuple[int, Any], ...]]
_MAX_EQUAL = 64


class HoldsStatic:
    """Base class of objects that count in a key by the exact values in `static`, not by `==`."""

    __slots__ = ()
    static: Static

    def __canonical_key__(self, _: object) -> Hashable:
        return type(self).__name__

    def __canonical_parts__(self, _: object) -> Static:
        return self.static


class _StaticModule(HoldsStatic):
    """A module without its arrays.

    As for `equinox.filter_jit`, two static modules are equal if their structures and leaves are
    equal by `==`.
    """

    __slots__ = ("__weakref__", "_equals", "_hash", "static")

    def __init__(self, static: Static) -> None:
        self.static = static
        self._hash: int | None = None
        # Some equal objects, kept alive with this one: `_Known.static` is only a weak reference.
        self._equals: tuple[_StaticModule, ...] = ()

    def __hash__(self) -> int:
        if self._hash is None:  # raises TypeError for JAX if a leaf has no hash
            self._hash = hash(self.static)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not _StaticModule:
            return False
        for equal in self._equals:
            if equal is other:
                return True
        if self.static != other.static:
            return False
        self._equals = (other, *self._equals[: _MAX_EQUAL - 1])
        other._equals = (self, *other._equals[: _MAX_EQUAL - 1])
        return True


def cut(tree: Any) -> tuple[list[Any], Static]:
    """Return the arrays in a pytree, and its static rest."""
    leaves, treedef = jtu.tree_flatten(tree, is_leaf=_is_module)
    if _array_types.issuperset(map(type, leaves)):
        return leaves, (treedef, ())
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
    return arrays, (treedef, tuple(others))


def restored(static: Static, arrays: Iterator[Any]) -> Any:
    """Return the pytree that was cut, with `arrays` in the places of its arrays, in order."""
    treedef, others = static[0], dict(static[1])
    leaves = []
    for i in range(treedef.num_leaves):
        leaf = others[i] if i in others else next(arrays)
        leaves.append(restored(leaf.static, arrays) if type(leaf) is _StaticModule else leaf)
    return treedef.unflatten(leaves)


_ModuleMeta: Any = type(eqx.Module)


def _is_module(node: Any) -> bool:
    return type(type(node)) is _ModuleMeta  # `isinstance` of an ABC takes ten times as long


@attrs.frozen(eq=False)
class _Place:
    """A placeholder for an array in an output: the index of the array."""

    __canonicalized__ = True  # so that templates keep it as it is
    number: int


# The types of arrays seen so far: for a leaf it takes 0.06 us, and `equinox.is_array` 0.17 us.
_array_types: set[type] = {np.ndarray, _Place}


def _is_array(leaf: Any) -> bool:
    if type(leaf) in _array_types:
        return True
    # The type of a tracer is not remembered, since not every tracer of that type is an array.
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
        _array_types.add(type(leaf))
    return eqx.is_array(leaf)


# --- modules that are known ---------------------------------------------------------------------


class _Known(NamedTuple):
    """The parts of a known module: its arrays, its static rest, and the user's modules in it.

    A static leaf, such as a closure, may refer to the module, so the references are weak. The
    programs that were made for the static rest keep that rest alive.
    """

    arrays: list[Any]
    static: Callable[[], _StaticModule | None]
    modules: list[tuple[weakref.ref[Any], type]]  # each with its class, which a reloader replaces


# Marks a module that was in one call: to check if it can change would double that call's time.
_SEEN = _Known([], lambda: None, [])
_known: WeakIdMap[_Known] = WeakIdMap()


def _known_or_cut(module: Any) -> tuple[list[Any], _StaticModule]:
    known = _known.get(module)
    if known is not None and (static := known.static()) is not None:
        for each, cls in known.modules:  # `all` of a generator takes three times as long
            if type(each()) is not cls:
                break
        else:
            return known.arrays, static
    arrays, static = _cut_module(module)
    if known is None:
        _known.set(module, _SEEN)
    elif modules := _modules_in(module):
        references = [(weakref.ref(each), type(each)) for each in modules]
        _known.set(module, _Known(arrays, weakref.ref(static), references))
    return arrays, static


def _cut_module(module: Any) -> tuple[list[Any], _StaticModule]:
    leaves, treedef = jtu.tree_flatten(module)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    others = tuple((i, leaf) for i, leaf in enumerate(leaves) if not _is_array(leaf))
    return arrays, _StaticModule((treedef, others))


def _modules_in(module: Any) -> list[Any]:
    """Return a module and the user's modules inside of it; an empty list if the module can change.

    A module cannot change if it consists of frozen modules, tuples, arrays and constants.
    """
    pending, modules = [module], []
    while pending:
        node = pending.pop()
        level = None if type(node) in _array_types else _flatten_one_level(node)
        if level is None:
            if not (_is_array(node) or _is_constant(node)):
                return []
        else:
            children, static = level
            # A named tuple must be a library's, because a reloader may replace a class of the user.
            # That is noticed only for modules: tuples take no weak references.
            is_named = static is type(node) and is_library_class(static)
            is_tuple = node is None or type(node) is tuple or is_named
            if not (is_tuple or (_is_module(node) and _is_frozen(node) and _is_constant(static))):
                return []
            if _is_module(node) and (node is module or not is_library_class(type(node))):
                modules.append(node)
            pending += children
    return modules


_flatten_one_level = jtu.default_registry.flatten_one_level


def _is_frozen(module: Any) -> bool:
    # Set an attribute to its own value: only a frozen module outside of `__init__` raises an error.
    try:  # `contextlib.suppress` would be slower, at each call
        for name, value in attributes_of(module).items():
            setattr(module, name, value)
            return False
    except dataclasses.FrozenInstanceError:
        pass
    return True


# This is a fifth faster than `object.__setattr__`.
_set_attributes = vars(eqx.Module)["__dict__"].__set__

_CONSTANTS = (float, complex, np.dtype, type, enum.Enum, types.BuiltinFunctionType)


def _is_constant(value: Any) -> bool:
    """Return True if `==` and `hash` of a value always give the same results."""
    kind = type(value)
    if kind is tuple:
        return all(map(_is_constant, value))
    is_by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    return kind in ATOMS or is_by_identity or isinstance(value, _CONSTANTS)


# --- what a call returns ------------------------------------------------------------------------


def cut_output(out: Any) -> tuple[list[Any], "Output"]:
    """Return the arrays in the result of a function, and an `Output` that builds such results."""
    leaves, treedef = jtu.tree_flatten(out)
    arrays = []
    for i, leaf in enumerate(leaves):
        if _is_array(leaf):
            leaves[i] = _Place(len(arrays))
            arrays.append(leaf)
    return arrays, Output((treedef, *leaves))


@jtu.register_static
class Output:
    """The output of a traced function, with a `_Place` for each array."""

    def __init__(self, structure: tuple[Any, ...], may_fail: bool | None = None) -> None:
        self.structure = structure  # the structure of the pytree, and its leaves
        # True if the program may raise an error while it runs, so that a call has to wait for it;
        # None as long as that is not known.
        self.may_fail = may_fail

    def with_structure(self, structure: tuple[Any, ...]) -> "Output":
        """Return an output of the same program, with another structure."""
        return Output(structure, self.may_fail)

    @functools.cached_property
    def build(self) -> Callable[[list[Any]], Any]:
        """Return a generated function that builds the result, with a line for each node.

        A loop over the 86 nodes of a 25-layer MLP with adam takes 1.3 times as long. A module gets
        all of its attributes at once, which takes half as long as unflattening it. From then on,
        `cut` recognizes the module.
        """
        treedef, *leaves = self.structure
        tree = treedef.unflatten(leaves)
        given = [f"a{i}" for i in range(sum(type(leaf) is _Place for leaf in leaves))]
        lines = [f"[{', '.join(given)}] = arrays"]
        constants: list[Any] = []
        names: dict[int, str] = {}

        def constant(value: Any) -> str:
            constants.append(value)
            return f"c{len(constants) - 1}"

        def add(node: Any, *, is_inside: bool) -> str:
            """Add the lines that build a node, and return its name in the code."""
            if type(node) is _Place:
                return f"a{node.number}"
            level = _flatten_one_level(node)
            if level is None or node is None:
                return constant(node)  # the same object in each output
            # Plain loops, since each comprehension or lambda would add frames to a deep recursion.
            parts: list[str] = []
            if is_module := _is_module(node):
                children = {*map(id, level[0])}
                for key, value in attributes_of(node).items():
                    is_child = id(value) in children
                    made = add(value, is_inside=True) if is_child else constant(value)
                    parts.append(f"{key!r}: {made}")
                made = f"new({constant(type(node))})"
            else:
                inner, structure = jtu.tree_flatten(node, is_leaf=lambda each: each is not node)
                for child in inner:
                    parts.append(add(child, is_inside=is_inside))
                made = f"{constant(structure)}.unflatten([{', '.join(parts)}])"
            name = names[id(node)] = f"n{len(lines)}"
            lines.append(f"{name} = {made}")
            if is_module:
                lines.append(f"set_attributes({name}, {{{', '.join(parts)}}})")
            if is_module and not is_inside and (modules := _modules_in(node)):
                arrays, static = _cut_module(node)
                of_arrays = slice(arrays[0].number, arrays[-1].number + 1) if arrays else slice(0)
                known = f"arrays[{constant(of_arrays)}], ref({constant(static)})"
                each = (f"(ref({names[id(one)]}), {constant(type(one))})" for one in modules)
                lines.append(f"note_known({name}, Known({known}, [{', '.join(each)}]))")
            return name

        lines.append(f"return {add(tree, is_inside=False)}")
        scope: dict[str, Any] = {f"c{i}": value for i, value in enumerate(constants)}
        scope.update(new=object.__new__, set_attributes=_set_attributes, ref=weakref.ref)
        scope.update(note_known=_known.set, Known=_Known)
        body = "\n  ".join(lines)
        exec(_compiled(f"def build(arrays):\n  {body}", "<canonopt>", "exec"), scope)
        return scope["build"]


# Compiling takes 20 ms for a model of 1,000 leaves.
_compiled = functools.lru_cache(256)(compile)
