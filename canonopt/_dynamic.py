"""Specs that hold arrays: pytrees whose leaves are those arrays.

Such a spec is neither interned nor hashed. Its arrays may be traced, or be whatever else a pytree
transformation puts in place of a leaf, so the factory is called only when the transformation runs.
"""

from collections.abc import Hashable
from typing import Any, NoReturn

import attrs
import equinox as eqx
import jax
import jax.tree_util as jtu
import numpy as np

from ._errors import DynamicSpecError
from ._keys import HoldsArray, identify, identity_key
from ._spec import Configured, make


def is_array(leaf: Any) -> bool:
    """Whether a parameter's value is a leaf of its spec."""
    return isinstance(leaf, jax.Array | np.ndarray)


@attrs.frozen(eq=False)
class Template:
    """The static part of a dynamic spec: what a jit cache compares.

    `static` has the parameters with `None` for each array, `key` what they are compared by.
    """

    cls: type[Configured]
    dynamic: tuple[str, ...]
    static: dict[str, Any]
    key: Hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def template_of(spec: Configured) -> tuple[tuple[Any, ...], Template]:
    """The arrays of `spec`, a pytree for each parameter that has any, and the rest."""
    dynamic, static = {}, {}
    keys = []
    for name, value in spec.parameters().items():
        try:
            key, static[name] = identify(value)
        except HoldsArray:
            dynamic[name], rest = eqx.partition(value, is_array)
            key, static[name] = identify(rest)
        keys.append(key)
    key = (identity_key(type(spec)), tuple(dynamic), *keys)
    return tuple(dynamic.values()), Template(type(spec), tuple(dynamic), static, key)


def _unflatten(template: Template, children: tuple[Any, ...]) -> Configured:
    parameters = dict(template.static)
    for name, child in zip(template.dynamic, children, strict=True):
        parameters[name] = eqx.combine(child, parameters[name])
    return make_lazily(template.cls, parameters)


def make_lazily(cls: type[Configured], parameters: dict[str, Any]) -> Configured:
    """A spec of the dynamic class `cls` that calls its factory when it first runs."""
    made: list[Any] = []

    def build() -> Any:
        if not made:
            made.append(cls._factory.call(parameters))
        return made[0]

    return make(cls, parameters, build)


def make_dynamic_class(static_class: type[Configured]) -> type[Configured]:
    """The subclass of a factory's spec class for specs that hold arrays, registered as a pytree."""

    def flatten_with_keys(spec: Configured) -> tuple[list[tuple[Any, Any]], Template]:
        children, template = template_of(spec)
        keys = map(jtu.GetAttrKey, template.dynamic)
        return list(zip(keys, children, strict=True)), template

    cls: Any = type(static_class.__name__, (_Dynamic, static_class), {})
    cls.__module__, cls.__qualname__ = static_class.__module__, static_class.__qualname__
    jtu.register_pytree_with_keys(cls, flatten_with_keys, _unflatten, template_of)
    return cls


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
        children, template = template_of(self)
        if any(map(is_array, jax.tree.leaves(children))) and not captured:
            raise HoldsArray
        # With every array taken out it is part of another spec's template.
        return identity_key(self) if captured else template.key
