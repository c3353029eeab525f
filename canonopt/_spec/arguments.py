"""The arguments of factories: copies of containers, configs of OmegaConf, iterators."""

import collections
import copy
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.tree_util as jtu
import numpy as np

from .._identity import (
    is_frozen_record,
    is_namedtuple,
)

# --- copies of containers -----------------------------------------------------------------------

_IMMUTABLE = frozenset((int, float, complex, bool, str, bytes, type(None), types.FunctionType))
_MAPPINGS = frozenset((dict, collections.OrderedDict, collections.defaultdict))
_SEQUENCES = frozenset((list, collections.deque))


class Copies:
    """Copies of the containers among the arguments of one build.

    A container that is in two places is copied once. Any other object that may change stays itself.
    `of_config` says what becomes of a config of OmegaConf's.
    """

    def __init__(self, of_config: Callable[[Any], Any]) -> None:
        self._of_config = of_config
        # By the id of each container, which is kept so that no other object gets that id.
        self._made: dict[int, tuple[Any, Any]] = {}
        # False if something is left that cannot be copied as it is.
        self.is_complete = True

    def of(self, value: Any) -> Any:
        """Return `value` with copies of the containers in it."""
        kind = type(value)
        if kind in _IMMUTABLE or hasattr(kind, "__canonicalized__"):  # a spec
            return value
        if id(value) in self._made:
            return self._made[id(value)][1]
        if kind in _SEQUENCES or kind in _MAPPINGS:
            made = copy.copy(value)
            self._made[id(value)] = (value, made)  # before its items, which may lead back to it
            for name, item in value.items() if kind in _MAPPINGS else enumerate(value):
                made[name] = self.of(item)
            return made
        made = self._copied(value, kind)
        if made is not value:
            self._made[id(value)] = (value, made)
        return made

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
        if kind is tuple or is_namedtuple(kind):
            items = list(tuple.__iter__(value))  # the class may define another `__iter__`
            made = [*map(self.of, items)]
            return value if all(map(operator.is_, made, items)) else tuple.__new__(kind, made)
        return self._copied_node(value) if is_frozen_record(kind) else value

    def _copied_node(self, value: Any) -> Any:
        """Copy a frozen node of a pytree, such as a module, if there is a container below it."""
        try:
            children, structure = jtu.tree_flatten(value, is_leaf=lambda node: node is not value)
            if jtu.treedef_is_leaf(structure):
                return value
            made = [*map(self.of, children)]
            return value if all(map(operator.is_, made, children)) else structure.unflatten(made)
        except Exception:  # its type was registered with functions that fail on it
            return value


def copied(value: Any) -> Any:
    """Return `value` with copies of the containers in it."""
    return Copies(copied_config).of(value)


def steps(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a dict, list or tuple, each with the step of a path that leads to it."""
    # Of these exact types, because whoever replaces an item has to make the container again.
    if type(value) is dict:
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif type(value) in (tuple, list) or is_namedtuple(type(value)):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))


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


def in_key(value: Any) -> Any:
    """Return what is read in place of an argument: configs by what is in them."""
    return Copies(_config_in_key).of(value) if "omegaconf" in sys.modules else value


def _config_in_key(value: Any) -> Any:
    config = sys.modules["omegaconf"].OmegaConf
    names = list(value) if isinstance(value, Mapping) else range(len(value))
    items = [in_key(None if config.is_missing(value, n) else value[n]) for n in names]
    kind, options = config.get_type(value), (config.is_readonly(value), config.is_struct(value))
    return type(value), kind, options, list(names), items


# --- iterators ----------------------------------------------------------------------------------


def is_iterator(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__next__") and kind not in weakref.ProxyTypes  # which define all methods
