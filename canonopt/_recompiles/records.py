"""What a jit cache keys on, for one leaf, static value or pytree node, without the value itself.

`array_of`, `static_of` and `node_of` make the records. `text_of` shows a value in a message.
"""

import collections
import contextlib
import dataclasses
import functools
import inspect
import itertools
import re
import types
from collections.abc import Hashable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeAlias

import attrs
import equinox as eqx
import jax
import jax.core
import numpy as np
import optax

from .._identity import closure_items, partial_items, read
from .._python_internals import token_of

MAX_SHOWN = 80  # characters of a value in a message


def shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


@attrs.frozen
class Array:
    """An array, a NumPy array or a tracer."""

    shape: tuple[int, ...]
    dtype: str
    weak_type: bool
    # None for a tracer, which has no placement.
    sharding: Hashable = None
    committed: bool | None = None
    memory_kind: str | None = None
    layout: Hashable = None

    def differences(self, other: "Array") -> list[str]:
        """The kinds of difference, most important first. Unknown placements are left out."""
        if self == other:
            return []
        if self.is_key != other.is_key:
            return ["dtype"]  # the longer shape of an old-style key follows from its dtype
        compared = ["shape", "dtype", "weak_type"]
        if None not in (self.committed, other.committed):
            compared += ["memory_kind", "committed", "sharding"]
            # Where shapes differ, so do layouts.
            if None not in (self.layout, other.layout) and self.shape == other.shape:
                compared.append("layout")
        differing = (name for name in compared if getattr(self, name) != getattr(other, name))
        return ["commitment" if n == "committed" else n.replace("_", " ") for n in differing]

    @property
    def is_key(self) -> bool:
        return self.dtype.startswith("key<")

    def __str__(self) -> str:
        weak = ", weak" if self.weak_type else ""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{weak}"


@attrs.frozen
class Scalar:
    """A Python number that is traced: its type is in the key, its value is not."""

    type: str

    def __str__(self) -> str:
        return f"a Python {self.type}"


@attrs.frozen
class Static:
    """A value that is part of the program."""

    # Equal where `==` of the values is. Sometimes equal where it is not, since hashes collide.
    token: Hashable
    # Equal where canonopt treats the values as the same.
    key: Hashable = attrs.field(eq=False)
    text: str = attrs.field(eq=False)
    kind: str = attrs.field(eq=False)
    # By name, for example the captured variables and the defaults of a function.
    parts: Mapping[str, "Static"] = attrs.field(eq=False, factory=dict)
    place: str | None = attrs.field(eq=False, default=None)
    node: "Node | None" = attrs.field(eq=False, default=None)
    # For a canonopt spec: why another build is not the same object, and what to write.
    why_not_shared: str | None = attrs.field(eq=False, default=None)
    # Whether the class compares by identity.
    is_unique: bool = attrs.field(eq=False, default=False)

    def __str__(self) -> str:
        return shortened(self.text)


@attrs.frozen
class Node:
    """The type of a pytree node or of a static value."""

    type: str
    token: Hashable  # differs for a class that is defined again under the same name

    def __str__(self) -> str:
        return f"a {self.type}"

    def is_defined_again(self, other: "Node") -> bool:
        return self.type == other.type and self.token != other.token


@attrs.frozen
class Nothing:
    """None in place of a leaf."""

    def __str__(self) -> str:
        return "None"


Record: TypeAlias = Array | Scalar | Static | Node | Nothing


# --- arrays -----------------------------------------------------------------------------------


def array_of(value: Any) -> Array:
    aval = value
    with contextlib.suppress(TypeError):  # NumPy has dtypes that JAX lacks
        aval = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    dtype = aval.dtype
    if isinstance(aval, jax.ShapeDtypeStruct):
        with contextlib.suppress(TypeError, ValueError):  # random keys
            dtype = jax.dtypes.canonicalize_dtype(dtype)  # as in a trace, where x64 may be off
    sharding = committed = memory_kind = layout = None
    if isinstance(value, np.ndarray | np.generic):
        committed, memory_kind = False, jax.devices()[0].default_memory().kind
    elif not isinstance(value, jax.core.Tracer) and value.sharding is not None:
        committed = getattr(value, "committed", True)
        memory_kind = value.sharding.memory_kind
        if committed:  # the device of an uncommitted array is not in the key
            sharding = value.sharding
            with contextlib.suppress(Exception):  # random keys and deleted arrays have none
                layout = value.format.layout
    return Array(
        tuple(aval.shape),
        _dtype_name(dtype),
        bool(getattr(aval, "weak_type", False)),
        sharding,
        committed,
        memory_kind,
        layout,
    )


_dtype_name = functools.lru_cache(
    str
)  # NumPy builds the name each time, and a call has many leaves


# --- static values ----------------------------------------------------------------------------

MAX_PARTS = 1000  # of all static values of a call together
_MAX_DEPTH = 16  # of parts in parts: an optimizer of a schedule in a chain has ten
_ENDS = 64  # items that are read at each end of a container
WRAPPED_FUNCTION = "function"  # the name of this part
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def static_of(
    value: Any, budget: Iterator[int] | None = None, depth: int = 0, seen: set[int] | None = None
) -> Static:
    """The record of a static value.

    **Arguments:**

    - `budget`: yields once for each part that may still be recorded.
    """
    budget = iter(range(MAX_PARTS)) if budget is None else budget
    if type(value) in _PLAIN:
        is_float = type(value) in (float, complex)
        token = (type(value), repr(value) if is_float else value)  # NaN equals NaN, 0.0 is not -0.0
        return Static(token, token, text_of(value), "value")
    kind, key, place, parts = "value", None, None, {}
    with contextlib.suppress(Exception):
        key = read((value,)).key
    with contextlib.suppress(Exception):  # from an attribute of a user's class
        kind, place = _kind(value), place_of(value)
        for name, part in _parts(value, budget, depth + 1, set() if seen is None else seen):
            parts[name] = part
    return Static(
        # Among the parts, only functions are compared by token.
        _equality_token(value) if depth == 0 or kind != "value" else None,
        key,
        text_of(value),
        kind,
        parts,
        place,
        node_of(type(value)),
        _why_not_shared(value),
        is_unique=type(value).__eq__ is object.__eq__,
    )


def node_of(kind: type) -> Node:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return Node(f"{module}{kind.__qualname__}", _object_token(kind))


def _equality_token(value: Any) -> Hashable:
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return _object_token(value)
    kind = _object_token(type(value))
    try:
        hashed = hash(value)
    except Exception:
        return (kind, text_of(value))
    return (kind, *map(_equality_token, value)) if type(value) is tuple else (kind, hashed)


def _object_token(value: Any) -> Hashable:
    """Stands for this object and no other; by its id if it has no weak references."""
    try:
        return ("object", token_of(value))
    except TypeError:
        return ("object", token_of(type(value)), id(value))


def _is_spec(value: Any) -> bool:
    return isinstance(value, optax.GradientTransformation) and attrs.has(type(value))


def _why_not_shared(value: Any) -> str | None:
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
    value: Any, budget: Iterator[int], depth: int, seen: set[int]
) -> Iterator[tuple[str, Static]]:
    if depth > _MAX_DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    for (name, content), _ in zip(_contents(value), budget, strict=False):
        # A function that is read as a global has no parts here, which bounds the search.
        inner = _MAX_DEPTH if name.startswith("global") else depth
        yield name, static_of(content, budget, inner, seen)


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield from closure_items(value)
        for name in value.__code__.co_names:
            found = value.__globals__.get(name)
            if type(found) in _PLAIN[:-1] or isinstance(found, types.FunctionType):
                yield f"global {name!r}", found
    elif isinstance(value, functools.partial):
        yield from partial_items(value)
    elif isinstance(value, types.MethodType):
        yield WRAPPED_FUNCTION, value.__func__
        yield "object", value.__self__
    elif _is_spec(value):  # by its parameters
        names = [field.name for field in fields_of(type(value)) if field.name != "_internals"]
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
    elif isinstance(value, tuple | list):
        names = getattr(type(value), "_fields", None)
        for i in _ends(range(len(value))):
            yield f"field {names[i]!r}" if names else f"item {i}", value[i]
    elif isinstance(value, dict):
        for key in _ends(list(value)):
            yield f"item {text_of(key)}", value[key]
    elif fields := fields_of(type(value)):
        names = (field.name for field in _ends(fields) if hasattr(value, field.name))
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield WRAPPED_FUNCTION, inspect.unwrap(value)
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        for name in _ends(list(vars(value))):
            yield f"attribute {name!r}", vars(value)[name]


def _ends(items: Sequence[Any]) -> Sequence[Any]:
    return items if len(items) <= 2 * _ENDS else [*items[:_ENDS], *items[-_ENDS:]]


def place_of(value: Any) -> str | None:
    """Where a function is defined, as `file:line`."""
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def fields_of(kind: type) -> Sequence[Any]:
    if attrs.has(kind):
        return attrs.fields(kind)
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


# --- texts ------------------------------------------------------------------------------------
# Not `equinox.tree_pformat`, which shows all of a large value and memory addresses; nor `reprlib`,
# which bounds each container and not the whole, and leaves out how many items there are.

_MAX_TEXT = 1000  # characters, and ten times as many of a string
_MAX_ITEMS = 32  # of a container
_MAX_NESTING = 6
_BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}"}
_CONTAINERS = (*_BRACKETS, frozenset, collections.deque, collections.OrderedDict)
_SHOWN_AS_CONTAINERS = {kind.__repr__ for kind in _CONTAINERS}


def text_of(value: Any) -> str:
    """A bounded `repr` without memory addresses. It reads no more of the value than it shows."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in _pieces(value, 0):
            pieces.append(piece)
            length += len(piece)
            if length > _MAX_TEXT and len(pieces) > 1:
                return "".join([*pieces, "..."])
    except Exception:  # from an attribute of a user's class
        return object.__repr__(value)
    return "".join(pieces)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str | bytes):
        more = len(value) - 10 * _MAX_TEXT
        yield _repr(value[: 10 * _MAX_TEXT]) + (f" and {more} more" if more > 0 else "")
    elif isinstance(value, jax.Array | np.ndarray):
        yield str(array_of(value))
    elif isinstance(value, type):
        yield value.__qualname__ if depth else f"class {value.__qualname__}"
    elif callable(value) and not isinstance(value, eqx.Module) and hasattr(value, "__qualname__"):
        yield f"<function {value.__qualname__}>" if depth else f"function {value.__qualname__}"
    elif _is_spec(value) or (items := _items(value)) is None:
        yield _repr(value)
    elif depth == _MAX_NESTING:
        yield "..."
    else:
        opening, closing = _BRACKETS.get(type(value), (f"{type(value).__name__}(", ")"))
        yield opening
        i = -1
        for i, (label, item) in enumerate(items):
            yield ", " if i else ""
            if i == _MAX_ITEMS:
                yield f"{len(value)} in all" if isinstance(value, Sized) else "..."
                break
            yield label
            yield from _pieces(item, depth + 1)
        yield f",{closing}" if opening == "(" and i == 0 else closing


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The items or fields of a value with their labels, or None if it has its own `repr`."""
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
    if not (fields := fields_of(kind)):
        return None
    held = ((f, getattr(value, f.name)) for f in fields if f.repr and hasattr(value, f.name))
    return ((f"{f.name}=", item) for f, item in held if not _is_default(item, f.default))


def _is_default(value: Any, default: Any) -> bool:
    is_plain = type(value) in _PLAIN and type(value) is type(default)
    return value is default or (is_plain and value == default)


def _repr(value: Any) -> str:
    text = object.__repr__(value)
    with contextlib.suppress(Exception):
        text = repr(value)
    text = re.sub(r"^<(.*) object at 0x\w+>$", r"\1 object", " ".join(text.split()))
    return re.sub(r" at 0x\w+", "", text)
