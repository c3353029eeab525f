"""The arguments of factories: copies of containers, parts by path, configs of OmegaConf."""

import collections
import contextlib
import copy
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import jax.tree_util as jtu
import numpy as np

from .._identity import PLAIN, is_frozen_record, is_namedtuple, kind_of


def is_spec(value: Any) -> bool:
    """Return True for a spec. The modules below those of specs cannot ask for the class."""
    return hasattr(type(value), "__canonicalized__")


def is_iterator(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__next__") and kind not in weakref.ProxyTypes  # which define all methods


# --- copies of containers -----------------------------------------------------------------------

_IMMUTABLE = PLAIN | {complex, types.FunctionType}
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
        if kind in _IMMUTABLE or is_spec(value):
            return value
        if id(value) in self._made:
            return self._made[id(value)][1]
        if kind in _SEQUENCES or kind in _MAPPINGS:
            made = copy.copy(value)
            self._made[id(value)] = (value, made)  # before its items, which may lead back to it
            for name, item in value.items() if kind in _MAPPINGS else enumerate(value):
                made[name] = self.of(item)
        else:
            made = self._copied(value, kind)
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
        if (kind is tuple or is_namedtuple(kind)) and (rule := kind_of(value)) is not None:
            return rule.mapped(value, self.of)
        if is_frozen_record(kind):  # a node of a pytree, such as a module
            with contextlib.suppress(Exception):  # of functions that it was registered with
                return _with_parts(value, lambda _, part: self.of(part))
        return value


def copied(value: Any) -> Any:
    """Return `value` with copies of the containers in it."""
    return Copies(copied_config).of(value)


# --- parts by path ------------------------------------------------------------------------------

_OPENED = _MAPPINGS | {list, tuple}


def steps(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a dict, list or tuple, each with the step of a path that leads to it."""
    is_container = type(value) in _OPENED or is_namedtuple(type(value))
    if is_container and (rule := kind_of(value)) is not None:
        yield from ((f"[{name!r}]", item) for name, item in rule.items(value))


_Change: TypeAlias = Callable[[str, Any], Any]


def mapped(parameters: dict[str, Any], change: _Change, path: str = "") -> dict[str, Any]:
    """Return parameters with other nodes where `change`, given path and node, returns another."""
    return {name: _mapped(value, change, path + name) for name, value in parameters.items()}


def _mapped(value: Any, change: _Change, path: str) -> Any:
    changed = change(path, value)
    if changed is not value or type(value) in _IMMUTABLE or is_spec(value):
        return changed
    return _with_parts(value, lambda step, part: _mapped(part, change, path + step))


def _with_parts(value: Any, change: _Change) -> Any:
    """Return a node of a pytree with other parts where `change`, given step and part, has others.

    JAX sorts the keys of a dict, and a factory may depend on their order, so containers are taken
    apart as the table of parts says.
    """
    structure, parts = None, [*steps(value)]
    if not parts:
        try:
            pairs, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
        except Exception:  # its type was registered with functions that fail on it
            return value
        if jtu.treedef_is_leaf(structure):
            return value
        parts = [(jtu.keystr(keys), part) for keys, part in pairs]
    made = [change(step, part) for step, part in parts]
    if all(new is part for new, (_, part) in zip(made, parts, strict=True)):
        return value
    rule: Any = kind_of(value)
    return rule.make(value, made) if structure is None else structure.unflatten(made)


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
