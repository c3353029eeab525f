"""The arguments of factories: parts by path, and copies of containers."""

import collections
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, TypeAlias

import jax.tree_util as jtu
import numpy as np

from .._identity import PLAIN, is_frozen_record, is_namedtuple, kind_of


def is_spec(value: Any) -> bool:
    """Return True for a spec. The modules below those of specs cannot ask for the class."""
    return hasattr(type(value), "__canonicalized__")


# --- parts by path ------------------------------------------------------------------------------

# Types of values without parts that could change.
WHOLE = PLAIN | {complex, types.FunctionType}
_MUTABLE = frozenset((list, dict, collections.OrderedDict, collections.defaultdict))

Parts: TypeAlias = list[tuple[str, Any]]
_Make: TypeAlias = Callable[[list[Any]], Any]


def parts_of(value: Any) -> tuple[Parts, _Make]:
    """Return the parts of a container or a node of a pytree, each with a step of a path to it.

    And a function that makes another one with other parts. What is a whole has no parts.
    """
    kind = type(value)
    # JAX sorts the keys of a dict, and a factory may depend on their order.
    if kind in _MUTABLE or kind is tuple or is_namedtuple(kind):
        rule: Any = kind_of(value)
        named = [(f"[{name!r}]", part) for name, part in rule.items(value)]
        return named, functools.partial(rule.make, value)
    # Of a spec or a number of canonopt's, too.
    if kind in WHOLE or hasattr(kind, "__canonical_key__"):
        return [], list
    pairs, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if jtu.treedef_is_leaf(structure):
        return [], list
    return [(jtu.keystr(keys), part) for keys, part in pairs], structure.unflatten


def mapped(
    value: Any,
    change: Callable[[str, Any], Any],
    path: str,
    parts_of: Callable[[Any], tuple[Parts, _Make]] = parts_of,
) -> Any:
    """Return `value` with other nodes where `change`, given path and node, returns another."""
    changed = change(path, value)
    if changed is not value:
        return changed
    parts, make = parts_of(value)
    made = [mapped(part, change, path + step, parts_of) for step, part in parts]
    return value if all(map(operator.is_, made, (part for _, part in parts))) else make(made)


# --- copies of containers -----------------------------------------------------------------------


def copied(parameters: dict[str, Any], is_plain: bool = False) -> dict[str, Any]:
    """Return parameters with copies of the containers in them.

    A container that is in two places is copied once. Any other object that may change stays itself,
    and so does a set whose order no copy has.
    With `is_plain`, configs of OmegaConf become dicts and lists, as Optax's factories need them.
    """
    # By the id of each container, which is kept so that no other object gets that id.
    made: dict[int, tuple[Any, Any]] = {}

    def copy_of(value: Any) -> Any:
        kind = type(value)
        if kind in WHOLE or is_spec(value):
            return value
        if id(value) not in made:
            made[id(value)] = value, copy_of_container(value, kind)
        return made[id(value)][1]

    def copy_of_container(value: Any, kind: Any) -> Any:
        rule: Any = kind_of(value)
        if kind in _MUTABLE:
            return rule.make(value, [*map(copy_of, rule.parts(value))])
        if kind is tuple or is_namedtuple(kind) or is_frozen_record(kind):
            return rule.mapped(value, copy_of)
        if kind is set:
            same = set(value)
            return same if [*same] == [*value] else value  # a factory may read the order
        if kind is np.ndarray:
            array = value.copy(order="K")
            array.flags.writeable = value.flags.writeable
            return array
        if is_plain and kind.__name__ in ("DictConfig", "ListConfig"):
            omegaconf: Any = sys.modules.get("omegaconf")
            if isinstance(value, getattr(omegaconf, kind.__name__, ())):
                return omegaconf.OmegaConf.to_container(value, resolve=True)
        return value

    return {name: copy_of(value) for name, value in parameters.items()}
