"""Records of values that are part of the program, and of what these are made of."""

import contextlib
import functools
import inspect
import itertools
import types
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

import attrs
import optax

from .._identity import closure_items, partial_items, read
from .._python_internals import WeakIdMap
from .records import Node, Static
from .texts import (
    PLAIN,
    field_names,
    text_of,
)

T = TypeVar("T")

_DEPTH = 16  # of parts in parts: an optimizer of a schedule in a chain has ten
_ENDS = 64  # items at each end of a container are looked into: what is in between is not
PARTS = 1000  # of all that is static in a call
INSIDE = "function"
_serials = itertools.count()
_serial_of: WeakIdMap[int] = WeakIdMap()


def static_of(
    value: Any, room: Iterator[int] | None = None, depth: int = 0, seen: set[int] | None = None
) -> Static:
    """The record of a value that is static.

    **Arguments:**

    - `room`: one item for each part that there is room for still.
    """
    room = iter(range(PARTS)) if room is None else room
    if type(value) in PLAIN:
        is_rounded = type(value) in (float, complex)
        token = (type(value), repr(value) if is_rounded else value)
        return Static(token, token, text_of(value), "value")
    kind, place, parts = "value", None, {}
    with contextlib.suppress(Exception):  # of an attribute of the user's
        kind, place = _kind(value), place_of(value)
        for name, part in _parts(value, room, depth + 1, set() if seen is None else seen):
            parts[name] = part
    return Static(
        # Of parts, it is asked of functions only.
        _token(value) if depth == 0 or kind != "value" else None,
        _key(value),
        text_of(value),
        kind,
        parts,
        place,
        node_of(type(value)),
        _what_stopped(value),
        is_unique=type(value).__eq__ is object.__eq__,
    )


def _token(value: Any) -> Hashable:
    """Equal to that of another value as long as `==` takes the two for the same."""
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return serial_of(value)
    kind = serial_of(type(value))
    try:
        token = hash(value)
    except Exception:
        return (kind, text_of(value))
    return (kind, *map(_token, value)) if type(value) is tuple else (kind, token)


def serial_of(value: Any) -> Hashable:
    """A number that no other object has or will have."""
    known = _serial_of.get(value)
    if known is None:
        known = next(_serials)
        try:
            known = _serial_of.setdefault(value, known)
        except TypeError:  # its id is the best there is
            return ("object", serial_of(type(value)), id(value))
    return ("object", known)


def node_of(kind: type) -> Node:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return Node(f"{module}{kind.__qualname__}", serial_of(kind))


def _key(value: Any) -> Hashable:
    try:
        return read((value,)).key
    except Exception:
        return None


def _is_spec(value: Any) -> bool:
    return isinstance(value, optax.GradientTransformation) and attrs.has(type(value))


def _what_stopped(value: Any) -> str | None:
    """What stops another build of a spec from being the same, and what to write."""
    if not _is_spec(value):
        return None
    found = read((*value.parameters().values(),), explain=True).incomparable
    return f"{text_of(found[0].part)} {found[0].why}. {found[0].fix}" if found else None


def _kind(value: Any) -> str:
    if isinstance(value, optax.GradientTransformation):
        return "transformation"
    if isinstance(value, type):
        return "class"
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType) and value.__code__.co_name in ("init_fn", "update_fn"):
        return "transformation" if module.startswith("optax.") else "callable"
    return "callable" if callable(value) else "value"


def _parts(
    value: Any, room: Iterator[int], depth: int, seen: set[int]
) -> Iterator[tuple[str, Static]]:
    if depth > _DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    for (name, content), _ in zip(_contents(value), room, strict=False):
        # What a global function is made of is none of the function's.
        inner = _DEPTH if name.startswith("global") else depth
        yield name, static_of(content, room, inner, seen)


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield from closure_items(value)
        for name in value.__code__.co_names:
            found = value.__globals__.get(name)
            if type(found) in PLAIN[:-1] or isinstance(found, types.FunctionType):
                yield f"global {name!r}", found
    elif isinstance(value, functools.partial):
        yield from partial_items(value)
    elif isinstance(value, types.MethodType):
        yield INSIDE, value.__func__
        yield "object", value.__self__
    elif _is_spec(value):
        # A spec: by the parameters that it was built from.
        names = [name for name in field_names(type(value)) if name != "_internals"]
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
    elif isinstance(value, tuple | list):
        names = getattr(type(value), "_fields", None)
        for i in _ends(range(len(value))):
            yield f"field {names[i]!r}" if names else f"item {i}", value[i]
    elif isinstance(value, dict):
        for key in _ends(list(value)):
            yield f"item {text_of(key)}", value[key]
    elif names := field_names(type(value)):
        yield from ((f"field {n!r}", getattr(value, n)) for n in _ends(names) if hasattr(value, n))
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield INSIDE, inspect.unwrap(value)
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        for name in _ends(list(vars(value))):
            yield f"attribute {name!r}", vars(value)[name]


def _ends(items: Sequence[T]) -> Sequence[T]:
    return items if len(items) <= 2 * _ENDS else [*items[:_ENDS], *items[-_ENDS:]]


def place_of(value: Any) -> str | None:
    """Where a function is defined, as `file:line`."""
    value = inspect.unwrap(value) if callable(value) else value
    code = getattr(value, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
