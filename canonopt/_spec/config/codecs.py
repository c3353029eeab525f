"""One table of codecs: what stands in the data for each value that plain data lack.

A spec is a table with the name of its factory and all of its parameters:

    {"optax": "adamw", "learning_rate": 0.001, ..., "mask": {"none": True}}

`"canonical"` stands in place of `"optax"` for a factory of the user's. Numbers, strings, lists and
tables stand for themselves, and a table with the keys of a `Codec` for another value. JSON, YAML
and TOML agree on strings, finite numbers, booleans, lists and tables only: TOML has no null, and
PyYAML and tomli-w write the keys of a table in an order of their own.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from ..._identity import is_namedtuple
from ..._optax_compat import is_transformation
from ..dynamic_number import Dynamic
from ..dynamic_spec import dynamic

Data: TypeAlias = bool | int | float | str | list["Data"] | dict[str, "Data"]


class Name(str):
    """The name of an object, in the example of a `Codec`."""


class Codec(NamedTuple):
    """How values of one kind are written and read.

    - `example`: a table that stands for a value. Others have the same keys and types, but whatever
        can be written in place of a number.
    - `test`: returns True for a value of this kind.
    - `write`: returns what the key of the table holds for a value, or a tuple of what each holds.
        This is written as other values are, or by its name.
    - `read`: returns the value for what the keys hold. May raise any error.
    """

    example: dict[str, Any]
    test: Callable[[Any], bool]
    write: Callable[[Any], Any]
    read: Callable[..., Any]


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _is_known(value: Any) -> bool:
    """Return True for a dynamic number that is neither traced nor taken out of its spec."""
    return isinstance(value, Dynamic) and not isinstance(value.numbers(), Dynamic | None)


def _scalar(name: str, value: Any) -> Any:
    made = _jax_type(name).dtype.type(value)
    if made != value and made.dtype.kind in "biu":
        raise ValueError(f"the number does not fit {name}")
    return made


def _jax_type(name: str) -> Any:
    return getattr(jnp, np.dtype(name).name)


def _not_finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        raise ValueError(f"{text} is a number itself")
    return value


def _dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    if len(made := dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _namedtuple(kind: Any, fields: dict[str, Any]) -> Any:
    if not is_namedtuple(kind) or fields.keys() != {*kind._fields}:
        raise TypeError("this is not the class, or these are not its fields")
    return tuple.__new__(kind, [fields[name] for name in kind._fields])


# The first whose test a value passes writes it, of those with names if the object has one.
CODECS = (
    Codec({"none": True}, _is(type(None)), lambda value: True, {True: None}.__getitem__),
    Codec({"float": "nan"}, _is(float), repr, _not_finite),
    Codec({"tuple": [1, 2]}, _is(tuple), list, tuple),
    Codec({"set": [1, 2]}, _is(set), list, set),
    # A dict whose order or keys a table would not keep. The writer needs the keys for the paths.
    Codec({"dict": [["key", 1]]}, lambda value: False, list, _dict),
    Codec({"dynamic": 0.001}, _is_known, Dynamic.numbers, dynamic),
    Codec(
        {"scalar": "float32", "value": 1.0},
        lambda value: isinstance(value, np.generic) and hasattr(jnp, value.dtype.name),
        # NumPy has no Python numbers for bfloat16 and others that it does not know.
        lambda v: (v.dtype.name, v.item() if v.dtype.kind in "biufc" else float(v)),
        _scalar,
    ),
    Codec({"dtype": "bfloat16"}, _is(type(jnp.float32)), lambda kind: kind.dtype.name, _jax_type),
    Codec({"name": Name("my_mask")}, lambda value: True, lambda value: value, lambda value: value),
    Codec(
        {"namedtuple": Name("train:Size"), "fields": {"height": 1}},
        lambda value: is_namedtuple(type(value)) and not is_transformation(value),
        lambda value: (type(value), dict(sorted(zip(value._fields, value, strict=True)))),
        _namedtuple,
    ),
)
BY_KEYS = {frozenset(codec.example): codec for codec in CODECS}
# `{"default": True}` is the default of Optax, where that is an object without a name. `diff` has
# "unnamed" for what has no name.
RESERVED = frozenset(
    (*(next(iter(c.example)) for c in CODECS), "canonical", "optax", "default", "unnamed")
)
