"""Values that are easily confused with each other, and a test if two values are the same."""

import enum
import math
import struct
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Color(enum.Enum):
    RED = "red"


class Text(str, enum.Enum):  # noqa: UP042, not a StrEnum: its str() is another
    RED = "red"


class Module(eqx.Module):
    leaf: object
    static: object = eqx.field(static=True)


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, child, static):
        self.child, self.static = child, static

    def tree_flatten(self):
        return (self.child,), self.static

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(children[0], static)


def same(a, b):
    """Return True if two values are the same, by another algorithm than that of canonopt."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and not isinstance(a, np.generic):
        return (a != a and b != b) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex) and not isinstance(a, np.generic):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and (
            a.tobytes() == b.tobytes() or bool(a.dtype.kind == "f" and a != a and b != b)
        )
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, frozenset | set):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, Module):
        return same(a.leaf, b.leaf) and same(a.static, b.static)
    return a is b or (type(a) in (int, bool, str, bytes) and a == b)


# Values that Python, NumPy or a hash table may treat as equal.
LOOKALIKES = [
    *(0, 0.0, -0.0, False, np.float32(0), np.float32(-0.0), np.float64(0), np.int32(0), 0j),
    *(1, 1.0, True, np.float32(1), np.float64(1), np.int32(1), np.int64(1), np.bool_(True), 1 + 0j),
    *(math.nan, -math.nan, np.float32(np.nan), math.inf, -math.inf, np.float32(np.inf), None, ...),
    *(complex(0.0, -0.0), complex(math.nan, 0.0), 2**53, 2**53 + 1, float(2**53)),
    *("", b"", (), "1", b"1", "red", Color.RED, Text.RED),
    *("float32", np.dtype("float32"), jnp.float32, np.float32, float),
    *((1,), (1.0,), (True,), ((1,),), (1, None), frozenset(), frozenset({1}), frozenset({1.0})),
]


def bits(tree):
    """Return the dtype, shape and bytes of each leaf."""
    leaves = jax.tree.leaves(tree)
    is_key = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    leaves = [jax.random.key_data(x) if k else x for x, k in zip(leaves, is_key, strict=True)]
    return [(leaf.dtype, leaf.shape, np.asarray(leaf).tobytes()) for leaf in leaves]


def updates_of(optim, params):
    return optim.update(params, optim.init(params), params)[0]


def parts_in(static):
    for part in static.parts.values():
        yield part
        yield from parts_in(part)
