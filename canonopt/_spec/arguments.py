"""The arguments that a spec was built from: checks, copies, and whether they changed since."""

import collections
import copy
import functools
import itertools
import operator
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs
import equinox as eqx

from .._identity import Watched, config_items, copied_config, is_config, is_namedtuple
from .._optax_compat import (
    annotation_of,
    annotations_inside,
    is_numeric,
    members_of,
    takes_number,
    takes_tree,
)
from .._python_internals import new_token
from ..errors import DynamicSpecError, ParameterError, SharedSpecError
from .parameters import FactoryParameters

# --- what a spec was built from -----------------------------------------------------------------


class SpecFactory(Protocol):
    """What a spec asks of the factory that built it."""

    name: str
    module: str
    function: Callable[..., Any]
    # Whether the function needs an array where a traced number is given.
    asks_for_arrays: bool
    # Spec classes of this factory.
    classes: dict[Any, Any]

    @functools.cached_property
    def signature(self) -> FactoryParameters: ...
    @functools.cached_property
    def is_stable(self) -> bool:
        """Whether the function belongs to a library, and never changes."""
        ...

    @property
    def expression(self) -> str:
        """Python source for the function that builds the specs."""
        ...

    def call(self, given: dict[str, Any]) -> Any:
        """What the function returns for these values."""
        ...

    def from_fields(self, fields: dict[str, Any], current: dict[str, Any] | None = None) -> Any: ...
    def describe(self, parameters: dict[str, Any]) -> str: ...
    def to_pickle(self, parameters: dict[str, Any]) -> dict[str, Any]: ...


_FEW = 16  # containers that are kept before looking for those that nobody else uses


@attrs.define(eq=False)
class Internals:
    """What a spec knows beside its parameters.

    A table holds it in place of the spec: a tuple cannot be referenced weakly.
    """

    factory: SpecFactory
    # What the factory made of the parameters, or a call of it that was put off.
    made: Any
    # What is read again when the spec is traced, if any of it can change.
    watched: Watched | None = None
    # What is read then: the factory if it is the user's, and the arguments as given.
    roots: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
    # Whether the factory is the user's and is called again for each trace, with traced values.
    is_called_again: bool = False
    # Whether what the factory made may hold tracers of a transformation that was running.
    is_temporary: bool = False
    # Whether what the factory made has kept a list, dict or set that it was given.
    keeps_containers: bool = False
    # The names of these arguments, and copies from before the factory was called with them.
    names: tuple[str, ...] = ()
    kept: tuple[Any, ...] = ()
    # The lists, dicts and sets among them for which equal ones were given later, and those equal
    # ones, as long as somebody else uses them; each with a copy from when it was given.
    shared: dict[int, tuple[Any, Any]] = attrs.field(factory=dict)
    others: list[tuple[Any, Any]] = attrs.field(factory=list)
    _most_others: int = _FEW
    # The spec, or the function that builds specs. Only if a table may hold this.
    spec: Any = None
    # What stands for the spec in a key.
    token: int = attrs.field(factory=new_token)
    # Whether the configuration was built again and found in a table.
    is_rebuilt: bool = False
    # Whether a call for it that is remembered has a zero, which equals -0.0.
    has_zero: bool = False
    # The warnings of the factory.
    warned: Any = ()
    # Whether the factory never changes, and all parameters are plain values, which lead to no
    # other object.
    is_plain: bool = False

    def build(self) -> Any:
        """What the factory makes of the parameters."""
        return self.made

    def check(self) -> None:
        """Reads again what the spec was built from.

        **Raises:** `SharedSpecError` if the containers of two builds were equal and no longer are;
        `DynamicSpecError` if the factory would now be called with other values than before.
        """
        watched = self.watched
        if watched is None:
            return
        is_unchanged = watched.is_unchanged()
        if not is_unchanged and self.is_called_again:
            raise DynamicSpecError(
                f"{self.factory.expression} reads something that has changed since the spec was "
                "built, and a traced value requires another call of it.",
                "Build the spec again, or write Python numbers instead of the arrays and of "
                "canonopt.dynamic(...).",
            )
        if is_unchanged and not self.shared:
            return
        given = [*self.shared.values(), *self.others]
        if any(is_changed(value, copy) for value, copy in given):
            name = self.factory.name
            raise SharedSpecError(
                f"{name} was given equal lists or dicts more than once, so one spec stands for all "
                "of them, and one has been changed since.",
                f"Give each its own copy: {name}(..., copy.deepcopy(value)), or change it before "
                "you build.",
            )

    def given(self) -> dict[str, Any]:
        """The arguments as given, with the earlier copy in place of one that has changed since."""
        pairs = zip(self.roots[1], self.kept, strict=True)
        values = [copy if is_changed(value, copy) else value for value, copy in pairs]
        return dict(zip(self.names, values, strict=True))

    def share(self, value: Any, earlier: Any) -> None:
        """Notes that `value` was given, which equals the argument `earlier`."""
        for new, old in pairs_of_containers(value, earlier):
            self.others.append((new, copied(new)))
            if id(old) not in self.shared:
                self.shared[id(old)] = (old, copied(old))
        if len(self.others) > self._most_others:
            # Twice as many as are left, so that looking through them stays cheap per call.
            self.others = still_held(self.others)
            self._most_others = 2 * len(self.others) + _FEW


# --- lists, dicts and sets ----------------------------------------------------------------------

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_CONTAINERS = (*_MAPPINGS, list, set, collections.deque)
_PLAIN = frozenset((int, float, complex, bool, str, bytes))


def _is_container(kind: type) -> bool:
    return kind in _CONTAINERS or is_config(kind)


def _items(value: Any) -> list[Any] | None:
    """The items of a container, tuple or module; `None` if `value` is something else."""
    kind = type(value)
    if kind in _MAPPINGS:
        return [*value.keys(), *value.values()]
    if kind in _CONTAINERS:
        return list(value)
    if isinstance(value, eqx.Module):
        return list(vars(value).values())
    if is_config(kind):
        return _items(config_items(value))
    if kind is tuple or is_namedtuple(kind):
        return list(tuple.__iter__(value))  # the class may define another `__iter__`
    return None


def copied(value: Any) -> Any:
    """`value` with copies of the lists, dicts and sets in it, which may change later."""
    kind = type(value)
    if kind is list:
        return [copied(item) for item in value]
    if kind in (set, collections.deque):
        return copy.copy(value)
    if kind in _MAPPINGS:
        made = copy.copy(value)
        for name, item in value.items():
            made[name] = copied(item)
        return made
    if is_config(kind):
        return copied_config(value)
    items = _items(value)
    if items is None:
        return value
    made = [copied(item) for item in items]
    if all(map(operator.is_, made, items)):
        return value
    if isinstance(value, eqx.Module):
        module = object.__new__(kind)
        vars(module).update(zip(vars(value), made, strict=True))
        return module
    return tuple.__new__(kind, made)


def is_changed(value: Any, copy: Any) -> bool:
    """Whether a list, dict or set in `value` has been changed since `copied` copied it."""
    if value is copy:
        return False
    if type(value) is not type(copy):
        return True
    items, others = _items(value), _items(copy)
    if items is None or others is None:
        # An equal number may have replaced it. 0.0 == -0.0, but their texts differ.
        return type(value) not in _PLAIN or repr(value) != repr(copy)
    return len(items) != len(others) or any(map(is_changed, items, others))


def pairs_of_containers(value: Any, other: Any) -> list[tuple[Any, Any]]:
    """The lists, dicts and sets in two equal values that are two objects, so one may change."""
    if value is other or type(value) is not type(other):
        return []
    if _is_container(type(value)):
        return [(value, other)]
    pairs = zip(_items(value) or (), _items(other) or (), strict=True)
    return [pair for part, another in pairs for pair in pairs_of_containers(part, another)]


def steps(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a dict, list, tuple or config, each with the step of a path that leads to it."""
    if is_config(type(value)):
        yield from steps(config_items(value))
    # Of these exact types, because whoever replaces an item has to make the container again.
    elif type(value) is dict:
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif type(value) in (tuple, list) or is_namedtuple(type(value)):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))


def reference_counts(values: Iterable[Any]) -> list[int]:
    """The number of references to each container, tuple and module in `values`.

    Only to be compared with earlier counts for the same values: if none has grown, nobody has kept
    one of them in between.
    """
    return list(_reference_counts(values))


def _reference_counts(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        items = _items(value)
        if items is not None:
            yield sys.getrefcount(value)
            yield from _reference_counts(items)


def still_held(values: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Those of `values`, each with its copy, that somebody else uses too, and so may change.

    Decided by the number of references, compared with that of a new list in the same place. Where
    that is wrong, a change goes unnoticed; it never makes two different values the same.
    """
    alone: tuple[Any, Any] = ([[]], None)
    counts = [(sys.getrefcount(pair[0]), _inner_count(pair[0])) for pair in [alone, *values]]
    return [
        pair
        for pair, (count, inner) in zip(values, counts[1:], strict=True)
        if count > counts[0][0] or inner > counts[0][1]
    ]


def _inner_count(value: Any) -> int:
    """The largest number of references to a container inside `value`."""
    counts = [
        max(sys.getrefcount(item), _inner_count(item))
        for item in _items(value) or ()
        if _is_container(type(item))
    ]
    return max(counts, default=0)


# --- iterators ----------------------------------------------------------------------------------


def is_iterator(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__next__") and kind not in weakref.ProxyTypes  # which define all methods


def split_iterators(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`given` twice, with iterators of their own: one for the factory, one to keep."""
    pairs = {name: itertools.tee(v) for name, v in given.items() if is_iterator(v)}
    one, other = ({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))
    return given | one, given | other


# --- values from configuration files ------------------------------------------------------------


def check_plain(parameters: FactoryParameters, given: Mapping[str, Any]) -> None:
    """Raises `ParameterError` for an argument of Optax that a configuration file often gets wrong.

    That is text in place of a number, or an OmegaConf config in place of a tree: JAX would take it
    for a leaf.
    """
    for name, value in given.items():
        if name in parameters.transformations:
            continue  # `check_transformations` looks at these
        if isinstance(value, str | Mapping | Sequence):
            annotation = annotation_of(parameters.parameters[name])
            _check_numbers(parameters.factory, value, annotation, name)
            if takes_tree(annotation):
                _check_tree(parameters.factory, value, name)


def _check_numbers(factory: str, value: Any, annotation: Any, path: str) -> None:
    if isinstance(value, str):
        if takes_number(annotation) and is_numeric(value):
            is_int = float not in members_of(annotation) and value.isdecimal()
            raise ParameterError(
                f"{factory} needs a number for {path}, and got the string {value!r}.",
                f"Write {'int' if is_int else 'float'}({value!r}){_in_yaml(value)}.",
                path=path,
            )
        return
    for step, item in steps(value):
        for inside in annotations_inside(annotation):
            _check_numbers(factory, item, inside, path + step)


def _check_tree(factory: str, value: Any, path: str) -> None:
    if is_config(type(value)):
        raise ParameterError(
            f"{factory} needs a tree for {path}, and JAX takes an OmegaConf {type(value).__name__} "
            "for a leaf.",
            "Write OmegaConf.to_container(value, resolve=True), or _convert_: all in a config for "
            "Hydra.",
            path=path,
        )
    for step, item in steps(value):
        _check_tree(factory, item, path + step)


def _in_yaml(text: str) -> str:
    """How to write the number in YAML, if YAML reads this spelling of it as a string."""
    number = re.fullmatch(r"([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)", text)
    if number is None:
        return ""
    digits, fraction, sign, exponent = number.groups()
    return f", or {digits}{fraction or '.0'}e{sign or '+'}{exponent} in YAML"
