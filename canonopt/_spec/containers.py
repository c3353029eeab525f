"""The lists, dicts and sets that a factory was given: copies, changes, and who else has them."""

import collections
import copy
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import equinox as eqx

from .._identity import is_namedtuple

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_CONTAINERS = (*_MAPPINGS, list, set, collections.deque)
_PLAIN = frozenset((int, float, complex, bool, str, bytes))


def _parts(value: Any) -> list[Any] | None:
    """The items of a container, tuple or module; None if `value` is something else."""
    kind = type(value)
    if kind in _MAPPINGS:
        return [*value.keys(), *value.values()]
    if kind in _CONTAINERS:
        return list(value)
    if isinstance(value, eqx.Module):
        return list(vars(value).values())
    if kind is tuple or is_namedtuple(kind):
        return list(tuple.__iter__(value))  # its class may have an `__iter__` of its own
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
    parts = _parts(value)
    if parts is None:
        return value
    made = [copied(part) for part in parts]
    if all(new is old for new, old in zip(made, parts, strict=True)):
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
    items, others = _parts(value), _parts(copy)
    if items is None or others is None:
        # An equal number may have replaced it. 0.0 == -0.0, but their texts differ.
        return type(value) not in _PLAIN or repr(value) != repr(copy)
    return len(items) != len(others) or any(map(is_changed, items, others))


def that_can_part(value: Any, other: Any) -> list[tuple[Any, Any]]:
    """The lists, dicts and sets in two equal values that are not the same object."""
    if value is other or type(value) is not type(other):
        return []
    if type(value) in _CONTAINERS:
        return [(value, other)]
    pairs = zip(_parts(value) or (), _parts(other) or (), strict=True)
    return [pair for part, another in pairs for pair in that_can_part(part, another)]


def reference_counts(values: Iterable[Any]) -> list[int]:
    """The number of references to each container, tuple and module in `values`.

    Only for comparison with the counts of the same values before: if none has grown, nobody has
    kept one of them in between.
    """
    return list(_reference_counts(values))


def _reference_counts(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        parts = _parts(value)
        if parts is not None:
            yield sys.getrefcount(value)
            yield from _reference_counts(parts)


def still_held(values: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Those of `values`, each with its copy, that somebody else has too, and so may change.

    By the number of references, compared with that of a new list in the same place. If it is
    wrong, a change is not noticed; it says nothing about what is the same.
    """
    alone: tuple[Any, Any] = ([[]], None)
    counts = [(sys.getrefcount(pair[0]), _inner(pair[0])) for pair in [alone, *values]]
    return [
        pair
        for pair, (count, inner) in zip(values, counts[1:], strict=True)
        if count > counts[0][0] or inner > counts[0][1]
    ]


def _inner(value: Any) -> int:
    """The largest number of references to a container inside of this one."""
    parts = _parts(value) or ()
    counts = [
        max(sys.getrefcount(part), _inner(part)) for part in parts if type(part) in _CONTAINERS
    ]
    return max(counts, default=0)
