"""The arguments of factories: copies of containers, parts by path, configs of OmegaConf."""

import collections
import copy
import functools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax.tree_util as jtu
import numpy as np

from .._identity import PLAIN, is_frozen_record, is_in_place, is_namedtuple, kind_of


def is_spec(value: Any) -> bool:
    """Return True for a spec. The modules below those of specs cannot ask for the class."""
    return hasattr(type(value), "__canonicalized__")


def is_iterator(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__next__") and kind not in weakref.ProxyTypes  # which define all methods


def is_data(value: Any) -> bool:
    """Return True if unpickling `value` gives the same value again."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(is_data, value))
    if type(value) is dict:
        return all(map(is_data, (*value, *value.values())))
    if isinstance(value, int | float | complex | str | bytes) or value is None or is_spec(value):
        return True
    try:
        return is_in_place(value)
    except Exception:  # raised by an attribute of the user's object
        return False


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


_Change: TypeAlias = Callable[[str, Any], Any]


def mapped(parameters: dict[str, Any], change: _Change, path: str = "") -> dict[str, Any]:
    """Return parameters with other nodes where `change`, given path and node, returns another."""
    return {name: _mapped(value, change, path + name) for name, value in parameters.items()}


def _mapped(value: Any, change: _Change, path: str) -> Any:
    changed = change(path, value)
    if changed is not value:
        return changed
    parts, make = parts_of(value)
    made = [_mapped(part, change, path + step) for step, part in parts]
    return value if _is_same(made, parts) else make(made)


def _is_same(made: list[Any], parts: Parts) -> bool:
    return all(map(operator.is_, made, (part for _, part in parts)))


# --- copies of containers -----------------------------------------------------------------------


class ContainsItself(Exception):
    """A container leads to itself."""


class Copies:
    """Copies of the containers among the arguments of one build.

    A container that is in two places is copied once. Any other object that may change stays itself.
    `of_config` says what becomes of a config of OmegaConf's.
    """

    def __init__(self, of_config: Callable[[Any], Any]) -> None:
        self._of_config = of_config
        # By the id of each container, which is kept so that no other object gets that id.
        self._made: dict[int, list[Any]] = {}
        # False if something is left that cannot be copied as it is.
        self.is_complete = True

    def of(self, value: Any) -> Any:
        """Return `value` with copies of the containers in it. Raises `ContainsItself`."""
        kind = type(value)
        if kind in WHOLE or is_spec(value):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = [value]
            self._made[id(value)].append(self._copied(value, kind))
        elif len(self._made[id(value)]) == 1:  # it is being copied
            raise ContainsItself
        return self._made[id(value)][1]

    def _copied(self, value: Any, kind: Any) -> Any:
        if kind is set:
            made = set(value)
            if [*made] == [*value]:
                return made
            self.is_complete = False  # a factory may read the order, which no copy has
            return value
        if kind is np.ndarray:
            made = value.copy(order="K")
            made.flags.writeable = value.flags.writeable
            return made
        if is_config(kind):
            return self._of_config(value)
        if not (kind in _MUTABLE or kind is tuple or is_namedtuple(kind) or is_frozen_record(kind)):
            return value
        parts, make = parts_of(value)
        made = [self.of(part) for _, part in parts]
        is_needed = kind in _MUTABLE or not _is_same(made, parts)
        return make(made) if is_needed else value


def copied(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with copies of the containers in them."""
    copies = Copies(copied_config)
    return {name: copies.of(value) for name, value in parameters.items()}


# --- OmegaConf ----------------------------------------------------------------------------------

# Optax's factories get plain containers. Another factory may read `config.lr`, so it gets a config.


def is_config(kind: type) -> bool:
    """Return True for OmegaConf's types of dicts and lists, which need not be installed."""
    return kind.__name__ in ("DictConfig", "ListConfig") and kind.__module__.startswith("omegaconf")


def plain_config(value: Any) -> Any:
    """Return a config as a dict or a list, with interpolations resolved."""
    return sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=True)


def copied_config(value: Any) -> Any:
    """Return a copy of a config that does not change with it, nor with another it refers to."""
    omegaconf, made = sys.modules["omegaconf"], copy.deepcopy(value)
    with omegaconf.read_write(made):
        omegaconf.OmegaConf.resolve(made)
    return made


def in_key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what is read in place of arguments: configs by what is in them."""
    if "omegaconf" not in sys.modules:
        return values
    copies = Copies(_config_in_key)
    return tuple(map(copies.of, values))


def _config_in_key(value: Any) -> Any:
    config = sys.modules["omegaconf"].OmegaConf
    names = list(value) if isinstance(value, Mapping) else range(len(value))
    items = in_key(tuple(None if config.is_missing(value, n) else value[n] for n in names))
    kind, options = config.get_type(value), (config.is_readonly(value), config.is_struct(value))
    return type(value), kind, options, list(names), [*items]
