"""Specs that hold arrays: pytrees whose leaves are those arrays.

Such a spec is neither interned nor hashed. Its arrays may be traced, or be whatever else a pytree
transformation puts in place of a leaf, so the factory is called only when the transformation runs.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NoReturn, TypeAlias

import attrs
import equinox as eqx
import jax
import jax.tree_util as jtu
import numpy as np

from ._errors import DynamicSpecError
from ._keys import HoldsArray, identify, identity_key, is_namedtuple, member_key
from ._spec import Configured, make

# Makes a value again, taking the children that belong into it from an iterator.
Assemble: TypeAlias = Callable[[Iterator[Any]], Any]


@attrs.frozen(eq=False)
class Template:
    """A dynamic spec without its children: what a jit cache compares."""

    cls: type[Configured]
    paths: tuple[str, ...]
    key: Hashable
    assemble: Assemble

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def make_dynamic(cls: type[Configured], parameters: dict[str, Any]) -> Configured:
    """The spec of the dynamic class `cls` with these parameters, whose arrays are its leaves."""
    children: list[tuple[str, Any]] = []
    key, assemble = _take_apart(parameters, children, "")
    paths = tuple(path for path, _ in children)
    template = Template(cls, paths, (identity_key(cls), key), assemble)
    return _put_together(template, (child for _, child in children))


def _take_apart(
    value: Any, children: list[tuple[str, Any]], path: str
) -> tuple[Hashable, Assemble]:
    """Appends the parts of `value` that are traced to `children`; the key and how to undo it.

    Containers are walked here, not by `jax.tree`, which sorts the keys of a mapping: a factory may
    read them in order.
    """
    try:
        key, copy = identify(value)
        return key, lambda _: copy
    except HoldsArray:
        pass
    kind: Any = type(value)
    if kind is dict:
        names = tuple(value)
        paths = [f"{path}[{name!r}]" if path else str(name) for name in names]
        parts = [_take_apart(v, children, p) for v, p in zip(value.values(), paths, strict=True)]
        builds = [build for _, build in parts]
        key = (kind, *zip(map(member_key, names), (key for key, _ in parts), strict=True))
        return key, lambda taken: dict(zip(names, (build(taken) for build in builds), strict=True))
    if kind in (tuple, list) or is_namedtuple(kind):
        parts = [_take_apart(v, children, f"{path}[{i}]") for i, v in enumerate(value)]
        builds = [build for _, build in parts]
        make_again = list if kind is list else functools.partial(_new_tuple, kind)
        key = (identity_key(kind), *(key for key, _ in parts))
        return key, lambda taken: make_again([build(taken) for build in builds])
    if isinstance(value, Configured) or _is_array(value):
        children.append((path, value))
        return (_take_apart,), next
    arrays, rest = eqx.partition(value, _is_array)
    children.append((path, arrays))
    key, rest = identify(rest)
    return key, lambda taken: eqx.combine(next(taken), rest)


def _new_tuple(kind: Any, items: list[Any]) -> Any:
    return tuple.__new__(kind, items)  # a named tuple's own takes its fields one by one


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _put_together(template: Template, children: Iterable[Any]) -> Configured:
    cls, children = template.cls, tuple(children)
    parameters = template.assemble(iter(children))
    made: list[Any] = []

    def build() -> Any:
        if not made:
            made.append(cls._factory.call(parameters))
        return made[0]

    spec = make(cls, parameters, build)
    # What is in place of an array need not be one, so a second look could find other leaves.
    vars(spec).update(_children=children, _template=template)
    return spec


def make_dynamic_class(static_class: type[Configured]) -> type[Configured]:
    """The subclass of a factory's spec class for specs that hold arrays, registered as a pytree."""
    cls: Any = type(static_class.__name__, (_Dynamic, static_class), {})
    cls.__module__, cls.__qualname__ = static_class.__module__, static_class.__qualname__
    jtu.register_pytree_with_keys(cls, _flatten_with_keys, _put_together, _flatten)
    return cls


def _flatten(spec: Configured) -> tuple[tuple[Any, ...], Template]:
    return vars(spec)["_children"], vars(spec)["_template"]


def _flatten_with_keys(spec: Configured) -> tuple[list[tuple[Any, Any]], Template]:
    children, template = _flatten(spec)
    return list(zip(map(jtu.GetAttrKey, template.paths), children, strict=True)), template


class _Dynamic(Configured):
    __slots__ = ()

    def __hash__(self) -> NoReturn:
        raise DynamicSpecError(
            f"{self!r} holds arrays, so it cannot be hashed and cannot be a static argument. "
            "Pass it as an ordinary argument (take it out of static_argnums and static_argnames), "
            "or write Python numbers instead of the arrays."
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __canonical_key__(self, captured: bool) -> Hashable:
        if captured:
            return identity_key(self)
        if jtu.tree_leaves(self):
            raise HoldsArray
        # Its arrays have been taken out: this is the rest of a pytree that holds a spec.
        return vars(self)["_template"].key
