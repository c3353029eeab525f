"""The part of a jit cache key that an array gives."""

import contextlib
import functools
from collections.abc import Hashable
from typing import Any

import attrs
import jax
import jax.core
import numpy as np

from .shardings import spans_devices


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
        differing = [name for name in compared if getattr(self, name) != getattr(other, name)]
        # From one device to a mesh is a sharding, whatever is committed.
        if spans_devices(self.sharding) or spans_devices(other.sharding):
            differing = [name for name in differing if name != "committed"]
        return ["commitment" if n == "committed" else n.replace("_", " ") for n in differing]

    def in_words(self, kind: str) -> str:
        if kind == "commitment":
            return "committed" if self.committed else "not committed"
        if kind == "sharding":
            where = self.sharding
            return "not committed" if where is None else str(getattr(where, "spec", where))
        if kind == "memory kind":
            return str(self.memory_kind)
        if kind == "layout":
            return f"major to minor {getattr(self.layout, 'major_to_minor', self.layout)}"
        return str(self)

    @property
    def is_key(self) -> bool:
        return self.dtype.startswith("key<")

    def __str__(self) -> str:
        return _text(self.shape, self.dtype, self.weak_type)


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


# NumPy builds the name each time, and a call has many leaves.
_dtype_name = functools.lru_cache(str)


def array_text(value: Any) -> str:
    """The dtype and the shape of an array or a tracer."""
    aval = value
    with contextlib.suppress(TypeError):  # NumPy has dtypes that JAX lacks
        aval = jax.typeof(value)
    return _text(aval.shape, aval.dtype, bool(getattr(aval, "weak_type", False)))


def _text(shape: tuple[int, ...], dtype: object, weak_type: bool) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]{', weak' if weak_type else ''}"
