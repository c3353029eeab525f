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
from ..errors import ParameterError


def is_spec(value: Any) -> bool:
    """Return True for a spec. The modules below those of specs cannot ask for the class."""
    return hasattr(type(value), "__canonicalized__")


# --- parts by path ------------------------------------------------------------------------------

# Types of values without parts that could change.
WHOLE = PLAIN | {complex, types.FunctionType}
_DICTS = frozenset((dict, collections.OrderedDict, collections.defaultdict))
_MUTABLE = _DICTS | {list, collections.deque}

Parts: TypeAlias = list[tuple[str, Any]]
_Make: TypeAlias = Callable[[list[Any]], Any]


def parts_of(value: Any) -> tuple[Parts, _Make]:
    """Return the parts of a container or a node of a pytree, each with a step of a path to it.

    And a function that makes another one with other parts. What is a whole has no parts.
    """
    kind = type(value)
    if kind in WHOLE or hasattr(kind, "__canonical_key__"):  # a spec or a number of canonopt's
        return [], _nothing
    # JAX sorts the keys of a dict, and a factory may depend on their order.
    if kind in _DICTS or kind in (list, tuple) or is_namedtuple(kind):
        rule: Any = kind_of(value)
        return _named(rule.items(value)), functools.partial(rule.make, value)
    if kind is collections.deque:
        return _named(enumerate(value)), lambda parts: collections.deque(parts, value.maxlen)
    try:
        pairs, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    except Exception:  # its type was registered with functions that fail on it
        return [], _nothing
    if jtu.treedef_is_leaf(structure):
        return [], _nothing
    return [(jtu.keystr(keys), part) for keys, part in pairs], structure.unflatten


def _named(items: Any) -> Parts:
    return [(f"[{name!r}]", part) for name, part in items]


def _nothing(parts: list[Any]) -> None:
    """Stand for the function that makes what has no parts."""


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
    return value if _is_same(made, parts) else make(made)


def _is_same(made: list[Any], parts: Parts) -> bool:
    return all(map(operator.is_, made, (part for _, part in parts)))


# --- copies of containers -----------------------------------------------------------------------


class Copies:
    """Copies of the containers among the arguments of one build.

    A container that is in two places is copied once. Any other object that may change stays itself.
    With `is_plain`, configs of OmegaConf become dicts and lists, as Optax's factories need them.
    """

    def __init__(self, is_plain: bool = False) -> None:
        self._is_plain = is_plain
        # By the id of each container, which is kept so that no other object gets that id.
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        """Return `value` with copies of the containers in it."""
        kind = type(value)
        if kind in WHOLE or is_spec(value):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = value, self._copied(value, kind)
        return self._made[id(value)][1]

    def _copied(self, value: Any, kind: Any) -> Any:
        if kind is set:
            return set(value)
        if kind is np.ndarray:
            made = value.copy(order="K")
            made.flags.writeable = value.flags.writeable
            return made
        if self._is_plain and kind.__name__ in ("DictConfig", "ListConfig"):
            omegaconf: Any = sys.modules.get("omegaconf")
            if isinstance(value, getattr(omegaconf, kind.__name__, ())):
                return omegaconf.OmegaConf.to_container(value, resolve=True)
        if not (kind in _MUTABLE or kind is tuple or is_namedtuple(kind) or is_frozen_record(kind)):
            return value
        parts, make = parts_of(value)
        made = [self.of(part) for _, part in parts]
        is_needed = kind in _MUTABLE or not _is_same(made, parts)
        return make(made) if is_needed else value


def copied(parameters: dict[str, Any], is_plain: bool = False) -> dict[str, Any]:
    """Return parameters with copies of the containers in them.

    **Raises:** `ParameterError` for a container that contains itself.
    """
    copies, made = Copies(is_plain), {}
    for name, value in parameters.items():
        try:
            made[name] = copies.of(value)
        except RecursionError:
            raise ParameterError(
                f"{name} is a {type(value).__name__} that contains itself, which a spec cannot "
                "copy, show or write.",
                "Write one that does not, or an object of a class of your own.",
                path=name,
            ) from None
    return made
