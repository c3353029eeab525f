"""Lists, dicts and sets that a factory was given: copies of them, and whether they have changed."""

import collections
import copy
import sys
from typing import Any

import equinox as eqx

from .values import is_namedtuple

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_PLAIN = frozenset((int, float, complex, bool, str, bytes))
_CONTAINERS = (*_MAPPINGS, list, set, collections.deque)


def copied(value: Any) -> Any:
    """`value` with new lists, dicts and sets in place of those in it, which may change later."""
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
    if isinstance(value, eqx.Module):
        parts = {name: copied(part) for name, part in vars(value).items()}
        if all(part is vars(value)[name] for name, part in parts.items()):
            return value
        module = object.__new__(kind)
        vars(module).update(parts)
        return module
    if kind is tuple or is_namedtuple(kind):
        made = [copied(item) for item in tuple.__iter__(value)]
        if all(new is old for new, old in zip(made, tuple.__iter__(value), strict=True)):
            return value
        return tuple.__new__(kind, made)
    return value


def is_changed(value: Any, copy: Any) -> bool:
    """Whether a list, dict or set in `value` has been changed since `copied` copied it."""
    if value is copy:
        return False
    kind = type(value)
    if kind is not type(copy):
        return True
    if kind in _MAPPINGS:
        items, others = ([*each.keys(), *each.values()] for each in (value, copy))
    elif isinstance(value, eqx.Module):
        items, others = (list(vars(each).values()) for each in (value, copy))
    elif kind in _CONTAINERS or kind is tuple or is_namedtuple(kind):
        items, others = (list(kind.__iter__(each)) for each in (value, copy))
    else:
        # The same number may have been put in its place. 0.0 == -0.0, while their texts are right.
        return kind not in _PLAIN or repr(value) != repr(copy)
    return len(items) != len(others) or any(map(is_changed, items, others))


def that_can_part(value: Any, other: Any) -> list[tuple[Any, Any]]:
    """The lists, dicts and sets in two equal values that are not the same object."""
    if value is other or type(value) is not type(other):
        return []
    if type(value) in _CONTAINERS:
        return [(value, other)]
    if isinstance(value, eqx.Module):
        parts = zip(vars(value).values(), vars(other).values(), strict=True)
    elif type(value) is tuple or is_namedtuple(type(value)):
        parts = zip(tuple.__iter__(value), tuple.__iter__(other), strict=True)
    else:
        return []
    return [pair for part, another in parts for pair in that_can_part(part, another)]


def still_held(values: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Those of `values`, each with its copy, that somebody else has too, and so may change.

    By the count of references, compared with that of a new list in the same place. If it errs, a
    change is not noticed; it says nothing about what is the same.
    """
    alone: tuple[Any, Any] = ([[]], None)
    counts = [(sys.getrefcount(pair[0]), _inner(pair[0])) for pair in [alone, *values]]
    return [
        pair
        for pair, (count, inner) in zip(values, counts[1:], strict=True)
        if count > counts[0][0] or inner > counts[0][1]
    ]


def _inner(value: Any) -> int:
    """The largest count of references to a container inside of this one."""
    if isinstance(value, eqx.Module):
        parts = vars(value).values()
    else:
        parts = value.values() if isinstance(value, _MAPPINGS) else value
    counts = [
        max(sys.getrefcount(part), _inner(part)) for part in parts if type(part) in _CONTAINERS
    ]
    return max(counts, default=0)
