"""What a value looks like in a message: as much of it as somebody reads."""

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Sized
from typing import Any

import attrs
import equinox as eqx
import jax
import numpy as np
import optax

from .records import array_of

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_KEPT = 1000  # characters of a text, and ten times that of a string
_ITEMS = 32  # of a container
_DEPTH = 6  # of containers in containers
_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}")}
_CONTAINERS = (*_BRACKETS, frozenset, collections.deque, collections.OrderedDict)
_SHOWN_AS_CONTAINERS = frozenset(kind.__repr__ for kind in _CONTAINERS)


def text_of(value: Any) -> str:
    """What a value looks like, made from no more of it than is kept of the text."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in _pieces(value, 0):
            pieces.append(piece)
            length += len(piece)
            if length > _KEPT and len(pieces) > 1:
                return "".join([*pieces, "..."])
    except Exception:  # of an attribute of the user's
        return object.__repr__(value)
    return "".join(pieces)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """The text of a value, made as it is asked for."""
    if isinstance(value, str | bytes):
        more = len(value) - 10 * _KEPT
        yield _repr(value[: 10 * _KEPT]) + (f" and {more} more" if more > 0 else "")
    elif isinstance(value, jax.Array | np.ndarray):
        yield str(array_of(value))
    elif isinstance(value, type):
        yield value.__qualname__ if depth else f"class {value.__qualname__}"
    elif callable(value) and not isinstance(value, eqx.Module) and hasattr(value, "__qualname__"):
        yield f"<function {value.__qualname__}>" if depth else f"function {value.__qualname__}"
    elif isinstance(value, optax.GradientTransformation) and attrs.has(type(value)):
        yield _repr(value)  # of a spec
    elif (items := _items(value)) is None:
        yield _repr(value)
    elif depth == _DEPTH:
        yield "..."
    else:
        opening, closing = _BRACKETS.get(type(value), (f"{type(value).__name__}(", ")"))
        yield opening
        i = -1
        for i, (label, item) in enumerate(items):
            yield ", " if i else ""
            if i == _ITEMS:
                yield f"{len(value)} in all" if isinstance(value, Sized) else "..."
                break
            yield label
            yield from _pieces(item, depth + 1)
        yield f",{closing}" if opening == "(" and i == 0 else closing


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a text of a value consists of, with labels, or None if it has a text of its own."""
    kind = type(value)
    if kind.__repr__ in _SHOWN_AS_CONTAINERS:
        if isinstance(value, dict):
            return ((f"{text_of(key)}: ", item) for key, item in value.items())
        return (("", item) for item in value)
    if isinstance(value, functools.partial):
        positional = (("", item) for item in (value.func, *value.args))
        return itertools.chain(positional, ((f"{n}=", v) for n, v in value.keywords.items()))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return ((f"{name}=", item) for name, item in zip(kind._fields, value, strict=False))
    names = field_names(kind)
    if not names:
        return None
    fields = attrs.fields_dict(kind) if attrs.has(kind) else kind.__dataclass_fields__
    shown = (fields[name] for name in names if fields[name].repr and hasattr(value, name))
    held = ((f, getattr(value, f.name)) for f in shown)
    return ((f"{f.name}=", item) for f, item in held if not _is_default(item, f.default))


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) in PLAIN and type(value) is type(default) and value == default
    )


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    text = re.sub(r"^<(.*) object at 0x\w+>$", r"\1 object", " ".join(text.split()))
    return re.sub(r" at 0x\w+", "", text)


def field_names(kind: type) -> list[str]:
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    return [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
