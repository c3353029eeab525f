"""What a jit cache keys on of one leaf, static value or node, without the value itself."""

import contextlib
import functools
from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import attrs
import jax
import jax.core
import numpy as np

SHOWN = 80  # characters of a value


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@attrs.frozen
class Array:
    """An array, a NumPy array or a tracer."""

    shape: tuple[int, ...]
    dtype: str
    weak_type: bool
    # These four are None of a tracer, for which there is nothing to say.
    sharding: Hashable = None
    committed: bool | None = None
    memory_kind: str | None = None
    layout: Hashable = None

    def differences(self, other: "Array") -> list[str]:
        """In what the two differ, of what is known of both; what matters most first."""
        if self == other:
            return []
        if self.is_key != other.is_key:
            return ["dtype"]  # two numbers more in the shape are of the old style of keys
        is_placed = None not in (self.committed, other.committed)
        is_laid_out = None not in (self.layout, other.layout)
        type_differs = {
            "shape": self.shape != other.shape,
            "dtype": self.dtype != other.dtype,
            "weak type": self.weak_type != other.weak_type,
        }
        place_differs = {
            "memory kind": self.memory_kind != other.memory_kind,
            "commitment": self.committed != other.committed,
            "sharding": self.sharding != other.sharding,
            # Where shapes differ, so do layouts.
            "layout": is_laid_out and self.shape == other.shape and self.layout != other.layout,
        }
        differs = {**type_differs, **(place_differs if is_placed else {})}
        return [kind for kind, is_different in differs.items() if is_different]

    @property
    def is_key(self) -> bool:
        return self.dtype.startswith("key<")

    def __str__(self) -> str:
        weak = ", weak" if self.weak_type else ""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{weak}"


@attrs.frozen
class Scalar:
    """A Python number that is traced: its type counts, its value does not."""

    type: str

    def __str__(self) -> str:
        return f"a Python {self.type}"


@attrs.frozen
class Static:
    """A value that is part of the program."""

    # Equal where `==` of the values is, and now and then where it is not, for hashes are no more
    # than that. `key` is equal where canonopt takes the values for the same.
    token: Hashable
    key: Hashable = attrs.field(eq=False)
    text: str = attrs.field(eq=False)
    kind: str = attrs.field(eq=False)
    # What it is made of, by name: of a function what it captured and its defaults.
    parts: Mapping[str, "Static"] = attrs.field(eq=False, factory=dict)
    place: str | None = attrs.field(eq=False, default=None)
    node: "Node | None" = attrs.field(eq=False, default=None)
    # Of a spec of canonopt's: what stops another build from being the same, and what to write.
    stopped: str | None = attrs.field(eq=False, default=None)
    # Whether `==` takes it for no other value, were it the same in all it has.
    is_unique: bool = attrs.field(eq=False, default=False)

    def __str__(self) -> str:
        return shortened(self.text)


@attrs.frozen
class Node:
    """The type of a value, where it is not to be told from what is in it."""

    type: str
    serial: Hashable  # a class that is defined again is another one, of the same name

    def __str__(self) -> str:
        return f"a {self.type}"

    def is_defined_again(self, other: "Node") -> bool:
        return self.type == other.type and self.serial != other.serial


@attrs.frozen
class Nothing:
    """None in place of a leaf."""

    def __str__(self) -> str:
        return "None"


Record: TypeAlias = Array | Scalar | Static | Node | Nothing


def array_of(value: Any) -> Array:
    aval = value
    with contextlib.suppress(TypeError):  # of NumPy's dtypes that are none of JAX's
        aval = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    sharding = committed = memory_kind = layout = None
    if isinstance(value, np.ndarray | np.generic):
        committed, memory_kind = False, jax.devices()[0].default_memory().kind
    elif not isinstance(value, jax.core.Tracer) and value.sharding is not None:
        committed = getattr(value, "committed", True)
        memory_kind = value.sharding.memory_kind
        if committed:  # where an array that is not happens to be is not in the key
            sharding, layout = value.sharding, _layout(value)
    return Array(
        tuple(aval.shape),
        _dtype_name(_dtype(aval)),
        bool(getattr(aval, "weak_type", False)),
        sharding,
        committed,
        memory_kind,
        layout,
    )


_dtype_name = functools.lru_cache(str)  # NumPy makes it anew each time, and a call has many leaves


def _dtype(aval: Any) -> Any:
    """The dtype in a trace, which may have fewer bits than one asked for."""
    if not isinstance(aval, jax.ShapeDtypeStruct):
        return aval.dtype
    try:
        return jax.dtypes.canonicalize_dtype(aval.dtype)
    except (TypeError, ValueError):  # of keys
        return aval.dtype


def _layout(value: Any) -> Hashable:
    try:
        return value.format.layout
    except Exception:  # of keys, and of arrays that are deleted
        return None
