"""From plain data to values: lists, tables, and the tables that stand for other values."""

import enum
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._identity import is_namedtuple
from ..._numbers import converted
from ...errors import CanonoptError, ConfigError
from ..dynamic_spec import dynamic
from .form import (
    NONE,
    NUMPY_TYPES,
    RESERVED,
    TAGS,
    Data,
    factory_key,
    is_exact,
    step,
    text_of,
)
from .names import Names

# What reading a table raises that does not have the values it needs.
_UNFIT = (AttributeError, KeyError, OverflowError, TypeError, ValueError, CanonoptError)


class ValueReader:
    """Reads values, and calls `spec` for the tables of specs among them."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def spec(self, table: dict[str, Any], path: str) -> Any:
        raise NotImplementedError

    def value(self, data: Data, path: str) -> Any:
        if isinstance(data, list):
            return [self.value(item, f"{path}[{i}]") for i, item in enumerate(data)]
        if not isinstance(data, dict):
            return data
        if factory_key(data) is not None:
            return self.spec(data, path)
        tag = next((key for key in TAGS if key in data and data.keys() == {key, *TAGS[key]}), None)
        if tag is not None:
            return self._tagged(tag, data, path)
        if reserved := sorted(RESERVED & data.keys()):
            raise ConfigError(
                f"{path} has the keys {', '.join(sorted(data))}, and {reserved[0]!r} stands for a "
                "kind of value, with other keys.",
                f"For a dict with this key, write a list of pairs: "
                f'{{"dict": [["{reserved[0]}", ...]]}}.',
                path=path,
            )
        return {key: self.value(data[key], f"{path}{step(key)}") for key in sorted(data)}

    def _tagged(self, tag: str, data: dict[str, Any], path: str) -> Any:
        if tag in ("none", "default"):
            if tag == "none" and data == NONE:
                return None
            fix = "Only a parameter that has a default can have it."
            if tag == "none":
                fix = f"Write None as {text_of(NONE)}."
            raise ConfigError(f"{path} is {text_of(data)}.", fix, path=path)
        try:
            return _READ[tag](self, data, path)
        except ConfigError:
            raise
        except _UNFIT as error:
            raise ConfigError(
                f"{path} is {text_of(data)}, which is no {tag}.", _FORMS[tag], path=path
            ) from error

    def items(self, data: Any, path: str) -> list[Any]:
        if not isinstance(data, list):
            raise TypeError
        return self.value(data, path)

    def pairs(self, data: Any, path: str) -> dict[Any, Any]:
        found = {}
        for key, item in data:
            read = self.value(key, path)
            if read in found:
                raise ValueError
            found[read] = self.value(item, f"{path}{step(read)}")
        return found

    def name(self, data: Any, path: str) -> Any:
        return self._names.find(_text(data), path)

    def namedtuple(self, data: dict[str, Any], path: str) -> Any:
        cls, fields = self.name(data["namedtuple"], path), data["fields"]
        if not isinstance(cls, type) or not is_namedtuple(cls):
            raise TypeError
        made: Any = cls
        if fields.keys() != {*made._fields}:
            raise ValueError
        values = [self.value(fields[name], f"{path}.{name}") for name in made._fields]
        return tuple.__new__(made, values)

    def enum(self, data: dict[str, Any], path: str) -> Any:
        cls = self.name(data["enum"], path)
        if not isinstance(cls, type) or not issubclass(cls, enum.Enum):
            raise TypeError
        return cls.__members__[data["member"]]

    def array(self, data: dict[str, Any], name: str, path: str) -> Any:
        dtype = _numpy_dtype(name)
        values = [self.value(value, path) for value in data["values"]]
        if any(type(value) not in (bool, int, float, complex) for value in values):
            raise TypeError
        # NumPy makes those that it does not know, bfloat16 for example, of floats only.
        is_known = dtype.kind in "biufc"
        array = np.array(values, dtype if is_known else np.float64).astype(dtype)
        if dtype.kind in "biu" and array.tolist() != values:
            raise ValueError
        array = array.reshape(data["shape"])
        if list(array.shape) != data["shape"]:  # it has -1
            raise ValueError
        return array


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError
    return data


def _float(data: Any) -> float:
    value = float(_text(data))
    if math.isfinite(value):
        raise ValueError
    return value


def _complex(reader: ValueReader, data: Any, path: str) -> complex:
    real, imaginary = reader.items(data["complex"], path)
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError
    return complex(real, imaginary)


def _numpy_dtype(name: Any) -> Any:
    dtype = np.dtype(_text(name))
    if not is_exact(dtype):
        raise TypeError
    return dtype


def _jax_dtype(name: Any) -> Any:
    found = getattr(jnp, _numpy_dtype(name).name)
    if not isinstance(found, type(jnp.float32)):
        raise TypeError
    return found


def _jax_array(reader: ValueReader, data: Any, path: str) -> Any:
    array = reader.array(data, data["jax_array"], path)
    made = jnp.asarray(array)
    if made.dtype != array.dtype:
        raise ConfigError(
            f"{path} has dtype {array.dtype}, which JAX has only with jax_enable_x64.",
            "Write jax.config.update('jax_enable_x64', True).",
            path=path,
        )
    if not isinstance(data["weak_type"], bool):
        raise TypeError
    return converted(made, made.dtype, True) if data["weak_type"] else made


def _scalar(reader: ValueReader, data: Any, path: str) -> Any:
    table = {"values": [data["value"]], "shape": []}
    return reader.array(table, data["scalar"], path)[()]


_READ: dict[str, Callable[[ValueReader, dict[str, Any], str], Any]] = {
    "float": lambda reader, data, path: _float(data["float"]),
    "complex": _complex,
    "bytes": lambda reader, data, path: bytes.fromhex(_text(data["bytes"])),
    "tuple": lambda reader, data, path: tuple(reader.items(data["tuple"], path)),
    "set": lambda reader, data, path: set(reader.items(data["set"], path)),
    "frozenset": lambda reader, data, path: frozenset(reader.items(data["frozenset"], path)),
    "dict": lambda reader, data, path: reader.pairs(data["dict"], path),
    "namedtuple": ValueReader.namedtuple,
    "enum": ValueReader.enum,
    "dtype": lambda reader, data, path: _jax_dtype(data["dtype"]),
    "numpy_dtype": lambda reader, data, path: _numpy_dtype(data["numpy_dtype"]),
    "numpy_type": lambda reader, data, path: NUMPY_TYPES[data["numpy_type"]],
    "scalar": _scalar,
    "array": lambda reader, data, path: reader.array(data, data["array"], path),
    "jax_array": _jax_array,
    "dynamic": lambda reader, data, path: dynamic(reader.value(data["dynamic"], path)),
    "name": lambda reader, data, path: reader.name(data["name"], path),
}
# What to write, by the key.
_FORMS = {
    "float": 'Write a number, or {"float": "nan"}, "inf" or "-inf".',
    "complex": 'Write the real and the imaginary part: {"complex": [0.0, 1.0]}.',
    "bytes": 'Write hexadecimal digits: {"bytes": "00ff"}.',
    "tuple": 'Write a list: {"tuple": [1, 2]}.',
    "set": 'Write a list: {"set": [1, 2]}.',
    "frozenset": 'Write a list: {"frozenset": [1, 2]}.',
    "dict": 'Write a list of pairs: {"dict": [["key", 1]]}.',
    "namedtuple": 'Write the name of its class and all fields: {"namedtuple": ..., "fields": ...}.',
    "enum": 'Write the names of its class and of a member: {"enum": ..., "member": ...}.',
    "dtype": 'Write the name of a dtype of JAX: {"dtype": "bfloat16"}.',
    "numpy_dtype": 'Write the name of a dtype of NumPy: {"numpy_dtype": "float32"}.',
    "numpy_type": 'Write the name of a type of NumPy: {"numpy_type": "float32"}.',
    "scalar": 'Write a dtype and a number of that dtype: {"scalar": "float32", "value": 1.0}.',
    "array": 'Write dtype, shape and numbers: {"array": "int32", "shape": [2], "values": [1, 2]}.',
    "jax_array": 'Write dtype, shape, numbers and weak type: {"jax_array": "int32", "shape": [1], '
    '"values": [1], "weak_type": false}.',
    "dynamic": 'Write a number, or a list of numbers: {"dynamic": 0.001}.',
    "name": 'Write a name in the registry: {"name": "my_mask"}.',
}
