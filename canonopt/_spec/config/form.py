"""What the data of a spec look like: the tables in them, paths, and which types a parameter takes.

A spec is a table with the name of its factory and all of its parameters:

    {"optax": "adamw", "learning_rate": 0.001, ..., "mask": {"none": True}}

`"canonical"` stands in place of `"optax"` for a factory of the user's. Numbers, strings, lists and
tables stand for themselves, and what else a parameter can be is a table with one of the keys in
`TAGS`. JSON, YAML and TOML agree on strings, finite numbers, booleans, lists and tables only: TOML
has no null, and PyYAML and tomli-w write the keys of a table in an order of their own.
"""

import inspect
import json
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..._optax_compat import annotation_of, is_numeric, members_of
from ...errors import ConfigError
from ..factory import Factory
from ..spec import Configured, Spec

FORMAT = 1

Data: TypeAlias = bool | int | float | str | list["Data"] | dict[str, "Data"]

# The keys of a table that stands for a value, and the further keys that it has.
TAGS: dict[str, tuple[str, ...]] = {
    "none": (),  # True
    "float": (),  # "nan", "inf" or "-inf", which JSON does not have
    "complex": (),
    "bytes": (),  # hexadecimal
    "tuple": (),
    "set": (),
    "frozenset": (),
    # Pairs, for a dict whose order or keys a table would not keep.
    "dict": (),
    "namedtuple": ("fields",),
    "enum": ("member",),
    "dtype": (),  # jnp.float32
    "numpy_dtype": (),  # np.dtype("float32")
    "numpy_type": (),  # np.float32
    "scalar": ("value",),  # np.float32(1.0), by its dtype
    "array": ("shape", "values"),  # of NumPy, by its dtype
    "jax_array": ("shape", "values", "weak_type"),
    "dynamic": (),  # canonopt.dynamic(1e-3)
    "name": (),  # of a function, or of another object that the caller knows
    "default": (),  # True: the default of Optax, where that is an object without a name
}
FACTORY_KEYS = ("optax", "canonical")
# `diff` has "unnamed" for what has no name, beside data that can be read.
RESERVED = frozenset((*TAGS, *FACTORY_KEYS, "parameters", "unnamed"))
NONE: dict[str, Data] = {"none": True}
DEFAULT: dict[str, Data] = {"default": True}


def is_plain_table(value: dict[Any, Any]) -> bool:
    """Whether a table can stand for this dict: it is read in the order of its keys."""
    names = list(value)
    is_text = all(type(name) is str and is_unicode(name) for name in names)
    return is_text and names == sorted(names) and not RESERVED & set(names)


def is_unicode(text: str) -> bool:
    """Whether `text` can be written to a file. One half of a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def factory_key(table: Any) -> str | None:
    """`"optax"` or `"canonical"` if this table stands for a spec."""
    if not isinstance(table, dict):
        return None
    return next((key for key in FACTORY_KEYS if key in table), None)


def parameters_in(table: dict[str, Any]) -> dict[str, Any]:
    """The parameters in the table of a spec."""
    key = factory_key(table)
    # Where a parameter has a reserved name, they are in a table of their own.
    if table.keys() == {key, "parameters"} and isinstance(table["parameters"], dict):
        return table["parameters"]
    return {name: value for name, value in table.items() if name != key}


def spec_table(key: str, factory: Data, parameters: dict[str, Data]) -> dict[str, Data]:
    if {*FACTORY_KEYS, "parameters"} & parameters.keys():
        return {key: factory, "parameters": parameters}
    return {key: factory, **parameters}


def step(key: Any) -> str:
    """The step of a path to the value under this key of a table."""
    return f"[{key!r}]"


def parts(data: Data, path: str) -> list[tuple[str, Data]]:
    """The parts of lists and tables, each with its path."""
    if isinstance(data, list):
        return [(f"{path}[{i}]", item) for i, item in enumerate(data)]
    if not isinstance(data, dict):
        return []
    key = factory_key(data)
    if key is None:
        # Pairs and tuples are lists by themselves.
        is_tag = any(tag in data for tag in TAGS)
        return [(path if is_tag else f"{path}{step(k)}", item) for k, item in data.items()]
    items = parameters_in(data).items()
    return [(f"{path}.{key}", data[key]), *((f"{path}.{name}", item) for name, item in items)]


# NumPy's types of numbers, by name.
NUMPY_TYPES = {np.dtype(code).type.__name__: np.dtype(code).type for code in "?bhilqBHILQefdFD"}


def is_exact(dtype: Any) -> bool:
    """Whether each number of this dtype is a Python int, float or complex."""
    if dtype.kind in "biu":
        return True
    if dtype.kind in "fc":
        return dtype.itemsize <= (8 if dtype.kind == "f" else 16)
    return dtype.kind == "V" and hasattr(jnp, dtype.name)  # bfloat16 and others that JAX adds


# --- plain data -----------------------------------------------------------------------------------


def plain(data: Any, path: str) -> Data:
    """`data` in Python's own types: a library may have classes of its own for what it has read.

    **Raises:** `ConfigError` for what is none of the types that `Data` has.
    """
    if data is None:  # JSON and YAML have it
        return dict(NONE)
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    if hasattr(data, "keys"):  # as `dict` asks: an `ml_collections.ConfigDict` is no `Mapping`
        data = dict(data)
        for key in data:
            if not isinstance(key, str):
                raise ConfigError(
                    f"{path or 'The data'} has the key {key!r}, which is not a string.",
                    f'Write a list of pairs: {{"dict": [[{key!r}, ...], ...]}}.',
                    path=path,
                )
        steps = {key: f".{key}" if key.isidentifier() else step(key) for key in data}
        return {
            str(key): plain(value, f"{path}{steps[key]}" if path else key)
            for key, value in data.items()
        }
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        return [plain(value, f"{path}[{i}]") for i, value in enumerate(data)]
    raise ConfigError(
        f"{path or 'The data'} is {data!r}, a {type(data).__name__}.",
        "Write a number, a string, a boolean, a list or a table.",
        path=path,
    )


def text_of(data: Data) -> str:
    return json.dumps(data, ensure_ascii=False)


# --- types of parameters --------------------------------------------------------------------------

_IS: dict[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}
_ARRAY_LIKE = frozenset(typing.get_args(jax.typing.ArrayLike)) - {bool, int, float, complex}


def check_type(factory: Factory, name: str, value: Data | Configured, path: str) -> None:
    """Raises `ConfigError` if the annotation of a parameter says that it does not take `value`.

    That is plain data or a spec. Only annotations of types that are known here are checked, and no
    schedules and no objects with a name. Optax's own checks find the rest.
    """
    parameters = factory.signature.parameters
    found = _kind(value)
    if found is None or name not in parameters:
        return
    parameter = parameters[name]
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return
    annotation = annotation_of(parameter) if factory.is_checked else parameter.annotation
    if annotation is inspect.Parameter.empty or annotation is type(None):
        return
    taken = _taken(annotation)
    # Optax annotates a mask that is `True` by default as a tree or a function.
    if taken is None or found in taken or found == _kind(parameter.default):
        return
    if found == "None" and not taken & {"a number", "a boolean"}:
        return
    if isinstance(value, str) and "a number" in taken and is_numeric(value):
        number = float(value)
        fix = f"Write {number!r} without quotes; in YAML with a dot, as in 1.0e-3."
        fix = fix if math.isfinite(number) else f'Write {{"float": "{number}"}}.'
    else:
        fix = f"Write {' or '.join(sorted(taken - {'None'})) or 'a name'}."
    shown = "" if found == "None" else f", {value!r}"
    raise ConfigError(
        f"{path} of {factory.name} is {found}{shown}, which the parameter does not take.",
        fix,
        path=path,
    )


def _kind(value: Any) -> str | None:
    """What plain data, a spec or a default is. `None` for what is not checked."""
    if value is None or value == NONE:
        return "None"
    if isinstance(value, Spec):
        return "a transformation"
    if isinstance(value, dict) and RESERVED & value.keys():
        return None
    return _IS.get(type(value))


def _taken(annotation: Any) -> set[str] | None:
    """What plain data fits an annotation. `None` if anything may."""
    taken: set[str] = set()
    for member in members_of(annotation):
        kind = typing.get_origin(member) or member
        if kind is typing.Literal:
            taken |= {_IS.get(type(each), "a string") for each in typing.get_args(member)}
        elif kind in (int, float, complex):
            taken.add("a number")
        elif kind in (bool, str):
            taken.add(_IS[kind])
        elif kind is type(None):
            taken.add("None")
        elif member in _ARRAY_LIKE:
            taken.add("a number")
        elif kind in (object, Any) or not isinstance(kind, type):
            return None
        elif issubclass(kind, optax.GradientTransformation):  # it is a tuple too
            taken.add("a transformation")
        elif issubclass(kind, tuple):
            taken.add("a list")
        elif kind is not Callable:
            try:
                containers = {_IS[each] for each in (list, dict) if issubclass(each, kind)}
            except TypeError:  # a protocol
                return None
            if not containers:
                return None
            taken |= containers
    if np.bool_ in members_of(annotation) and "a list" not in taken:
        taken.discard("a boolean")  # `ArrayLike` lists it, but means a number
    return taken
