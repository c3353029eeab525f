"""One table of codecs: what stands in the data for each value, and from values to data and back.

A spec is a table with the name of its factory and all of its parameters:

    {"optax": "adamw", "learning_rate": 0.001, ..., "mask": {"none": True}}

`"canonical"` stands in place of `"optax"` for a factory of the user's. Numbers, strings, lists and
tables stand for themselves, and a table with the keys of a `Codec` for another value. JSON, YAML
and TOML agree on strings, finite numbers, booleans, lists and tables only: TOML has no null, and
PyYAML and tomli-w write the keys of a table in an order of their own.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..._identity import is_namedtuple
from ..._optax_compat import is_transformation
from ...errors import CanonoptError, ConfigError
from ..dynamic_number import Dynamic
from ..dynamic_spec import dynamic
from ..factory import factory_of
from ..spec import Configured, internals_of
from .names import Names

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


def _jax_type(name: str) -> Any:
    return getattr(jnp, np.dtype(name).name)


def _scalar(name: str, value: Any) -> Any:
    made = _jax_type(name).dtype.type(value)
    if made != value and made.dtype.kind in "biu":
        raise ValueError(f"the number does not fit {name}")
    return made


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
_BY_KEYS = {frozenset(codec.example): codec for codec in CODECS}
# The default of Optax, where that is an object without a name.
_DEFAULT = {"default": True}
# `diff` has "unnamed" for what has no name.
RESERVED = frozenset(
    (*(next(iter(c.example)) for c in CODECS), "canonical", "optax", "default", "unnamed")
)


# --- writing --------------------------------------------------------------------------------------


class Writer:
    """Writes values, with the names in a registry.

    With `compares`, it also writes what has no name, for a comparison in this process.
    """

    def __init__(self, registry: Mapping[str, Any] | None, compares: bool = False) -> None:
        self._names, self._compares = Names(registry), compares

    def value(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.value(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if kind is dict:
            table = {key: self.value(item, f"{path}[{key!r}]") for key, item in value.items()}
            if list(table) == sorted(k for k in table if type(k) is str and k not in RESERVED):
                return table
            return {"dict": [[self.value(key, path), item] for key, item in table.items()]}
        if isinstance(value, Configured):
            return self._spec(internals_of(value).factory, value.parameters(), path)
        for codec in CODECS:
            if codec.test(value) and (table := self._table(codec, value, path)) is not None:
                return table
        return self._unnamed(value, path)

    def _table(self, codec: Codec, value: Any, path: str) -> dict[str, Data] | None:
        """Return the table that stands for a value; None if an object in it has no name."""
        parts, table = codec.write(value), {}
        parts = parts if len(codec.example) > 1 else [parts]
        for (key, example), part in zip(codec.example.items(), parts, strict=True):
            is_name = type(example) is Name
            table[key] = self._names.of(part) if is_name else self.value(part, path)
            if table[key] is None:
                return None
        if type(value) is set:  # whose order depends on the process
            table["set"].sort(key=repr)
        return table

    def _spec(self, factory: Any, parameters: dict[str, Any], path: str) -> dict[str, Data]:
        """Return the table of what a factory builds with these parameters."""
        if factory.made_by is not None:  # inject_hyperparams(optax.adam)
            outer, given = factory.made_by
            key, name = "optax", self._spec(outer, given, f"{path}.optax")
        else:
            key, name = self._names.of_factory(factory)
        if name is None:
            self._unnamed(factory.function, path)  # raises, unless this is for a comparison
            name = f"{factory.module}:{factory.name} at {id(factory):#x}"
        table: dict[str, Any] = {key: name}
        signature = factory.signature
        for name, value in parameters.items():
            where = f"{path}.{name}"
            if name == key:
                raise ConfigError(f"{where} has the key of the factory.", "Rename it.", path=where)
            is_default = value is signature.defaults.get(name) and self._names.of(value) is None
            if is_default and (callable(value) or is_transformation(value)):
                table[name] = _DEFAULT
            else:
                table[name] = self.value([*value] if name == signature.variadic else value, where)
        return table

    def _unnamed(self, value: Any, path: str) -> dict[str, Data]:
        if self._compares:
            return {"unnamed": repr(value), "id": id(value)}
        named = "canonopt.to_config(spec, registry={'x': ...})"
        fix = f"Define it in a module, or give it a name: {named}."
        if is_transformation(value):
            fix = "Build it with canonopt."
        elif isinstance(value, Dynamic | jax.Array | np.ndarray):
            fix = "Write canonopt.dynamic(...) of Python numbers, outside of jax.jit."
        raise ConfigError(f"{path} is {value!r}, which has no name in data.", fix, path=path)


# --- reading --------------------------------------------------------------------------------------


class Reader:
    """Reads values, which another version of Optax may have written."""

    def __init__(self, registry: Mapping[str, Any] | None) -> None:
        self._names = Names(registry)
        # Paths of parameters that are not in the data, and are as in the installed Optax.
        self.as_installed: list[str] = []

    def value(self, data: Any, path: str) -> Any:
        match data:
            case list():
                return [self.value(item, f"{path}[{i}]") for i, item in enumerate(data)]
            case {"canonical": name, **written}:
                return self._spec("canonical", name, written, path)
            case {"optax": name, **written}:
                return self._spec("optax", name, written, path)
            case dict() if codec := _BY_KEYS.get(frozenset(data)):
                fix = f"Write it as in {text_of(codec.example)}."
                items = codec.example.items()
                parts = [self._part(example, data[key], path, fix) for key, example in items]
                return _called(codec.read, parts, next(iter(codec.example)), fix, path)
            case dict() if reserved := sorted(RESERVED & data.keys()):
                raise ConfigError(
                    f"{path} is {text_of(data)}, and {reserved[0]!r} stands for something else.",
                    f'For a dict with it, write pairs: {{"dict": [["{reserved[0]}", ...]]}}.',
                    path=path,
                )
            case dict():
                return {key: self.value(data[key], f"{path}[{key!r}]") for key in sorted(data)}
        return data

    def _part(self, example: Any, data: Any, path: str, fix: str) -> Any:
        """Return what a table of a codec has in place of `example`."""
        if type(example) is Name:
            return self._names.find(data, path)
        part = self.value(data, path)
        if type(example) not in (float, type(part)):
            problem = f"{path} has {text_of(data)} in place of {text_of(example)}."
            raise ConfigError(problem, fix, path=path)
        return part

    def _spec(self, key: str, name: Data, written: dict[str, Any], path: str) -> Any:
        made = self.value(name, path) if isinstance(name, dict) else None
        # What `inject_hyperparams(optax.adam)` made, or one with a name.
        factory = factory_of(made) or self._names.find_factory(name, f"{path}.{key}", key)
        missing = (name for name in factory.signature.defaults if name not in written)
        self.as_installed += [f"{path}.{name}" for name in missing]
        named = {name: data for name, data in written.items() if data != _DEFAULT}
        given = {name: self.value(data, f"{path}.{name}") for name, data in named.items()}
        return _called(factory.from_fields, [given], factory.name, "Correct its parameters.", path)


def _called(
    function: Callable[..., Any], args: Sequence[Any], name: str, fix: str, path: str
) -> Any:
    """Return what a function returns. Its errors have the path."""
    try:
        return function(*args)
    except CanonoptError as error:
        where = f"{path}.{error.path}" if error.path else path
        raise ConfigError(f"{where}: {error.problem}", error.fix, path=where) from error
    except Warning:  # which the user has made an error
        raise
    except Exception as error:  # a factory may raise anything
        problem = f"{path}: {name} raised {type(error).__name__}: {error}."
        raise ConfigError(problem, fix, path=path) from error


def text_of(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
