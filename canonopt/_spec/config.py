"""Specs as plain data: for JSON, YAML and TOML files, run logs and sweeps.

`to_config` writes the data, `from_config` reads them, `fingerprint` and `diff` compare specs and
stored data. `register_hooks` and `pydantic_schema` let cattrs and pydantic write and read specs;
neither library is needed otherwise.

A spec is written as a table (in Python, a dict) with the name of its factory and its parameters:

    {"optax": "adamw", "learning_rate": 0.001, ..., "mask": {"none": True}}

For a user's factory, the key is `"canonical"` in place of `"optax"`. Strings, finite numbers,
booleans, lists and tables stand for themselves, since JSON, YAML and TOML agree on only these. A
dict value is a table only if its keys are sorted strings: PyYAML and tomli-w reorder keys. Any
other value, such as None, is written as a table with one key: `"name"` or a key of `CODECS`.
"""

import difflib
import functools
import hashlib
import json
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._identity import hoist, is_namedtuple
from .._optax_compat import is_transformation
from ..errors import CanonoptError, ConfigError
from .builders import catalogue
from .dynamic_number import Dynamic
from .dynamic_spec import dynamic
from .factory import Factory, factory_of, found_in
from .spec import Configured, internals_of

if TYPE_CHECKING:
    from cattrs import Converter
    from pydantic_core import CoreSchema

# --- the table of codecs --------------------------------------------------------------------------

Data: TypeAlias = bool | int | float | str | list["Data"] | dict[str, "Data"]
Source: TypeAlias = Configured | Mapping[str, Any]  # a spec, or its data
Registry: TypeAlias = Mapping[str, Any] | None  # maps names in data to objects


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _tuple_of(items: Any) -> tuple[Any, ...]:
    if isinstance(items, tuple):  # such as a spec, which is a tuple of functions
        raise TypeError('a tuple is written as a list: {"tuple": [...]}')
    return tuple(items)


# A codec writes values of one kind as a table with one key, and reads them again. It has a test for
# such values, a function that returns the data under the key, and a function that reads these data.
CODECS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "none": (_is(type(None)), lambda value: True, {True: None}.__getitem__),
    "float": (_is(float), repr, float),  # finite floats are written as they are
    "tuple": (_is(tuple), list, _tuple_of),
    # For a dict with keys or an order that a table would not keep.
    "dict": (_is(dict), lambda value: [[*pair] for pair in value.items()], dict),
    "dynamic": (
        # `numbers()` is None for a tracer, and for a number that `eqx.partition` has taken out.
        lambda value: isinstance(value, Dynamic) and value.numbers() is not None,
        Dynamic.numbers,
        dynamic,
    ),
    "scalar": (
        lambda value: isinstance(value, np.generic) and hasattr(jnp, value.dtype.name),
        # NumPy cannot turn bfloat16 and other dtypes of ml_dtypes into Python numbers.
        lambda v: [v.dtype.name, v.item() if v.dtype.kind in "biufc" else float(v)],
        lambda data: getattr(jnp, np.dtype(data[0]).name).dtype.type(data[1]),
    ),
    "dtype": (
        _is(type(jnp.float32)),
        lambda kind: kind.dtype.name,
        lambda name: getattr(jnp, np.dtype(str(name)).name),  # `np.dtype(None)` would be float64
    ),
    "namedtuple": (
        lambda value: is_namedtuple(type(value)) and not is_transformation(value),
        lambda value: [type(value), value._asdict()],
        # The class is not called, since reading data calls factories only.
        lambda data: tuple.__new__(data[0], [data[1][name] for name in data[0]._fields]),
    ),
}
# A table with one of these keys never stands for a dict.
RESERVED = frozenset((*CODECS, "canonical", "name", "optax"))


# --- names ----------------------------------------------------------------------------------------


def _qualified_name(value: Any) -> str | None:
    """Return `"module:qualname"` if `value` is found under that name, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or module.startswith("optax._"):
        return None  # a private name of Optax may move
    return f"{module}:{name}" if found_in(sys.modules.get(module), name) is value else None


@functools.cache
def _known() -> tuple[dict[Any, Any], dict[int, str]]:
    """Return the objects that need no registry, keyed by name, and their names, keyed by id."""
    found: dict[Any, Any] = {}
    # `optax.tree` is before `optax.tree_utils`, which has other names for the same objects.
    modules = [m for m in vars(optax).values() if isinstance(m, types.ModuleType)]
    for module in (optax, optax.tree, *modules):
        for name, value in vars(module).items():
            owner = getattr(value, "__module__", None) if callable(value) else None
            if name[0] != "_" and str(owner).startswith("optax."):
                found.setdefault(f"{module.__name__}:{name}", value)
    found |= {f"canonopt:{name}": builder for name, builder in catalogue().items()}
    found |= {f"builtins:{kind.__name__}": kind for kind in (bool, int, float, complex)}  # dtypes
    # The first name of an object counts: `optax:adam`, not its name in another module.
    return found, {id(value): name for name, value in reversed(found.items())}


def _found(name: Any, known: Mapping[Any, Any], path: str, what: str, fix: str = "") -> Any:
    if isinstance(name, str) and name in known:
        return known[name]
    bare = str(name).removeprefix("canonopt.").removeprefix("optax.")
    near = [key for key in filter(None, known) if key.endswith(f".{bare}")]
    near = near or difflib.get_close_matches(bare, filter(None, known), n=1)
    fix = fix or f"Pass the object: canonopt.from_config(data, registry={{{name!r}: ...}})."
    fix = f"Did you mean {near[0]!r}?" if near else fix
    problem = f"{path} is {name!r}, which is {what}. Names in data are never imported."
    raise ConfigError(problem, fix, path=path)


def _one_of(value: Any) -> Any:
    """Return one object for all callables that do the same. Return other values unchanged."""
    return hoist(value) if callable(value) else value


# --- writing and reading --------------------------------------------------------------------------


class _Converter:
    """A writer and reader of values, which knows the names of Optax and of the caller's registry.

    Reading looks up no other names, so it imports nothing, and calls only factories. With
    `compares`, values without a name are written too, for a comparison in this process.
    """

    def __init__(self, registry: Registry, compares: bool = False) -> None:
        self._compares, self._kept = compares, list[Any]()
        registry = {**(registry or {})}
        # Keyed by the id of `_one_of(value)`, which the entry keeps alive, so that no id is reused.
        own = [(_one_of(value), name) for name, value in reversed(registry.items())]
        self._own = {id(value): (value, name) for value, name in own}
        self._objects = {_qualified_name(v): v for v in registry.values()} | registry

    def write(self, value: Any, path: str) -> Any:
        """Return the data for `value`. Raises `ConfigError` if it needs a name and has none."""
        kind = type(value)
        if kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.write(item, f"{path}[{i}]") for i, item in enumerate(value)]
        # Files may reorder keys, so reading sorts them: only a dict with sorted keys is a table.
        is_table = kind is dict and RESERVED.isdisjoint(value)
        if is_table and [*value] == sorted(filter(_is(str), value)):
            return {key: self.write(item, f"{path}[{key!r}]") for key, item in value.items()}
        if isinstance(value, Configured):
            return self._write_spec(internals_of(value).factory, value.parameters(), path)
        for key, (is_of_kind, write, _) in CODECS.items():
            if is_of_kind(value):
                return {key: self.write(write(value), path)}
        return {"name": self._name_of(value) or self._unnamed(value, path)}

    def _write_spec(self, factory: Factory, values: dict[str, Any], path: str) -> dict[str, Data]:
        """Return the table for the spec that `factory` builds from these parameter values."""
        room, _, name = _known()[1].get(id(factory.builder), "").partition(":")
        if factory.made_by is not None:  # as for inject_hyperparams(optax.adam)
            table: dict[str, Any] = {"optax": self._write_spec(*factory.made_by, f"{path}.optax")}
        elif room == "canonopt":
            table = {"optax": name}
        else:
            name = self._name_of(factory.builder) or _qualified_name(factory.function)
            table = {"canonical": name or self._unnamed(factory.function, path)}
        defaults, variadic = factory.signature.defaults, factory.signature.variadic
        for name, value in values.items():
            # Omit a default that has no name, such as a private function of Optax.
            is_unnamed = value is defaults.get(name) and self._name_of(value) is None
            if is_unnamed and (callable(value) or is_transformation(value)):
                continue
            table[name] = self.write([*value] if name == variadic else value, f"{path}.{name}")
        return table

    def _name_of(self, value: Any) -> str | None:
        _, own = self._own.get(id(_one_of(value)), (None, None))
        return own or _known()[1].get(id(value)) or _qualified_name(value)

    def _unnamed(self, value: Any, path: str) -> str:
        if self._compares:
            self._kept.append(value := _one_of(value))  # so that no id is reused
            return f"{value!r} at {id(value):#x}"
        fix = "Define it in a module, or write canonopt.to_config(spec, registry={'x': ...})."
        if is_transformation(value):
            fix = "Build it with canonopt."
        elif isinstance(value, Dynamic | jax.Array | np.ndarray):
            fix = (
                "Write Python numbers, or canonopt.dynamic(...) of them, outside jax.jit. Or name "
                "the array: canonopt.to_config(spec, registry={'x': ...})."
            )
        raise ConfigError(f"{path} is {value!r}, which has no name to write.", fix, path=path)

    def read(self, data: Any, path: str) -> Any:
        """Return the value that `data` describe. Raise any error as a `ConfigError` with a path."""
        try:
            return self._read(data, path)
        except ConfigError:
            raise
        except CanonoptError as error:
            where = f"{path}.{error.path}" if error.path else path
            raise ConfigError(f"In {where}, {error.problem}", error.fix, path=where) from error
        except Exception as error:  # a factory may raise anything
            problem = f"Reading {path} raised {type(error).__name__}: {error}."
            fix = (
                'Write it as to_config does: adam as {"optax": "adam"}, a chain with "args": [...].'
            )
            raise ConfigError(problem, fix, path=path) from error

    def _read(self, data: Any, path: str) -> Any:
        match data:
            case list():
                return [self.read(item, f"{path}[{i}]") for i, item in enumerate(data)]
            case {"canonical": name, **written} | {"optax": name, **written}:
                factory = self._factory(name, "canonical" in data, path)
                given = {n: self.read(part, f"{path}.{n}") for n, part in written.items()}
                return factory.from_fields(given)
            case {"name": name} if len(data) == 1:
                what = "neither a name of Optax nor in the registry"
                return _found(name, _known()[0] | self._objects, path, what)
            case dict() if len(data) == 1 and (key := next(iter(data))) in CODECS:
                return CODECS[key][2](self.read(data[key], path))
            case dict() if reserved := sorted(RESERVED & data.keys()):
                raise ConfigError(
                    f"{path} is {_text(data)}, which has the reserved key {reserved[0]!r}.",
                    f'Write the dict as pairs: {{"dict": [["{reserved[0]}", ...]]}}.',
                    path=path,
                )
            case dict():
                return {key: self.read(data[key], f"{path}[{key!r}]") for key in sorted(data)}
        return data

    def _factory(self, name: Data, is_canonical: bool, path: str) -> Factory:
        if is_canonical:
            named = {n: f for n, v in self._objects.items() if (f := factory_of(v)) is not None}
            known = {_qualified_name(f.function): f for f in named.values()} | named
            return _found(name, known, f"{path}.canonical", "not a factory in the registry")
        # A table in place of the name stands for `inject_hyperparams(optax.adam)` and the like.
        made = self.read(name, f"{path}.optax") if isinstance(name, dict) else None
        known = {n: factory_of(builder) for n, builder in catalogue().items()}
        what = f"not a factory of Optax {optax.__version__}"
        fix = 'For a factory of your own, write "canonical" in place of "optax".'
        return factory_of(made) or _found(name, known, f"{path}.optax", what, fix)


def _text(data: Any) -> str:
    """Return data as JSON with sorted keys and exact floats."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False)


# --- from a spec to data and back -----------------------------------------------------------------


def to_config(spec: Configured, *, registry: Registry = None) -> dict[str, Data]:
    """Return a spec as plain data, for a JSON, YAML or TOML file.

    Defaults are written too, so a stored run stays the same if a later version of Optax changes a
    default. Only a default function without a name, such as a private one of Optax, is left out.

    **Arguments:**

    - `spec`: a spec or a schedule, made by a function of canonopt.
    - `registry`: a dict from names to functions and other objects that are not plain data. A
        function at the top level of a module needs no entry: its name is `module:qualname`.

    **Returns:** a dict of dicts, lists, strings, booleans and finite numbers.

    **Raises:** `ConfigError` for a value that has no name, such as a lambda.
    """
    if not isinstance(spec, Configured):
        problem = f"canonopt.to_config takes a spec, not {spec!r}."
        raise ConfigError(problem, "Build it with canonopt, for example canonopt.adam(1e-3).")
    versions: dict[str, Data] = {"format": 1, "optax": optax.__version__}
    return {"canonopt": versions, "spec": _Converter(registry).write(spec, "spec")}


def from_config(data: Mapping[str, Any], *, registry: Registry = None) -> Any:
    """Return the spec that `to_config` wrote as `data`: the same object, if no number is dynamic.

    Reading does not import the names in the data, and calls only factories: Optax's, and those in
    the registry that `canonopt.canonical` returned.

    **Arguments:**

    - `data`: the result of `to_config`, even if it went through a JSON, YAML or TOML file.
    - `registry`: a dict from names in the data to objects, such as masks and the factories of
        `canonopt.canonical`. The data may also name one of these by `module:qualname`, if it is
        at the top level of a module.

    **Returns:** a `canonopt.Spec` or a `canonopt.ScheduleSpec`.

    **Raises:** `ConfigError` for unknown names, wrong types and extra keys, with the path in the
    data. Missing parameters take their defaults.
    """
    return _Converter(registry).read(_spec_in(data), "spec")


def _spec_in(data: Any) -> dict[str, Any]:
    """Return the table of the spec in `data`, in Python's built-in types."""
    if isinstance(data, optax.GradientTransformation) or callable(data):
        problem = f"A value of type {type(data).__name__} is not the data of a spec."
        fix = "Pass canonopt.to_config(spec) for a spec made by canonopt."
        raise ConfigError(problem, fix, path="data")
    match table := _plain(data, "data"):
        case {"canonopt": {"format": 1}, "spec": {"optax": _} | {"canonical": _} as spec}:
            return spec
    example = {"canonopt": {"format": 1}, "spec": {"optax": "adam", "learning_rate": 0.001}}
    raise ConfigError(
        f"The data must have the form {json.dumps(example)}, not {_text(table)}.",
        "Pass what canonopt.to_config returned. If a newer canonopt wrote the data, upgrade "
        "canonopt.",
    )


def _plain(data: Any, path: str) -> Any:
    """Return data in Python's built-in types, since config libraries have their own classes."""
    if data is None:  # JSON and YAML have null
        return {"none": True}
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    if hasattr(data, "keys"):  # an `ml_collections.ConfigDict` is not a `Mapping`
        items = [[_plain(key, path), _plain(data[key], f"{path}.{key}")] for key in data]
        return dict(items) if all(type(key) is str for key, _ in items) else {"dict": items}
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(data)]
    fix = "Write a number, a string, a boolean, a list or a table."
    problem = f"The data of a spec cannot contain a value of type {type(data).__name__}."
    raise ConfigError(f"{path} is {data!r}. {problem}", fix, path=path)


# --- fingerprints and differences -----------------------------------------------------------------


def fingerprint(spec: Source, *, registry: Registry = None) -> str:
    """Return a digest of a spec. Equal specs have the same digest on every host and in every run.

    The digest is the SHA-256 of the data that `to_config` writes, without the version of Optax.
    Functions count by their names, and not by their code.

    **Arguments:**

    - `spec`: a spec, or the result of `to_config`.
    - `registry`: names of functions, as for `to_config`.

    **Returns:** 64 hexadecimal digits.

    **Raises:** `ConfigError` for a function without a name.
    """
    text = _text(_data_of(spec, _Converter(registry)))
    return hashlib.sha256(text.encode()).hexdigest()


def _data_of(spec: Any, converter: _Converter) -> Data:
    """Return the data of `spec`, which is a spec or already data."""
    return converter.write(spec, "spec") if isinstance(spec, Configured) else _spec_in(spec)


class Difference(NamedTuple):
    """One difference between two specs.

    - `path`: a path as in `spec.hyperparameters()`, or empty if the specs differ as a whole.
    - `before`, `after`: the data at this path, as `to_config` writes them; `None` for a spec that
        has nothing at this path.
    """

    path: str
    before: Data | None
    after: Data | None

    def __str__(self) -> str:
        return f"{self.path or 'spec'}: {_described(self.before)} -> {_described(self.after)}"


class Differences(tuple[Difference, ...]):
    """The differences between two specs: a tuple that prints each on its own line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def diff(a: Source, b: Source, *, registry: Registry = None) -> Differences:
    """Return the differences between two specs, with their paths, to print in a run log.

    ```python
    >>> import canonopt
    >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3))
    >>> print(canonopt.diff(optim, optim.replace(lr=3e-4)))
    args[1].learning_rate: 0.001 -> 0.0003

    ```

    **Arguments:**

    - `a`, `b`: specs, or results of `to_config`.
    - `registry`: names of functions, as for `to_config`. Functions without a name count as the
        same if `canonopt.hoist` returns one object for them.

    **Returns:** a tuple of `Difference`s. Its `str` has one line for each.
    """
    converter = _Converter(registry, compares=True)
    return Differences(_differences(_data_of(a, converter), _data_of(b, converter), ""))


def _differences(before: Data | None, after: Data | None, path: str) -> Iterator[Difference]:
    (kind, old), (other, new) = _taken_apart(before), _taken_apart(after)
    if kind == other and (old or new):
        for step in {**old, **new}:
            yield from _differences(old.get(step), new.get(step), f"{path}{step}")
    elif _text(before) != _text(after):
        yield Difference(path.removeprefix("."), before, after)


def _taken_apart(data: Any) -> tuple[Any, dict[str, Data]]:
    """Return the kind of `data`, and its parts, keyed by path steps such as `[0]` and `.mask`."""
    match data:
        case list(items) | {"tuple": list(items)}:
            kind = "list" if items is data else "tuple"
            return kind, {f"[{i}]": item for i, item in enumerate(items)}
        case {"dict": [[_, _], *_] as pairs}:  # the order of the keys counts
            return [key for key, _ in pairs], {f"[{_described(key)}]": v for key, v in pairs}
        case {"canonical": name, **parts} | {"optax": name, **parts}:
            return name, {f".{name}": item for name, item in parts.items()}
        case dict() if RESERVED.isdisjoint(data):
            return "table", {f"[{name!r}]": item for name, item in data.items()}
    return type(data), {}


def _described(data: Data | None) -> str:
    """Return data as short text: a spec as a call, a name or constant as it is, else JSON."""
    match data:
        case None:
            return "nothing"
        case {"canonical": str(name), **parts} | {"optax": str(name), **parts}:
            return f"{name}({', '.join(f'{n}={_described(item)}' for n, item in parts.items())})"
        case {"name": text} | {"dtype": text} | {"float": text}:
            return str(text)
        case {"none": _} | bool():
            return "None" if isinstance(data, dict) else str(data)
    return _text(data)


# --- hooks ----------------------------------------------------------------------------------------


def register_hooks(converter: "Converter", *, registry: Registry = None) -> None:
    """Let a cattrs converter write and read specs, as `to_config` and `from_config` do.

    The hooks serve attrs classes and dataclasses with fields of the types `canonopt.Spec` and
    `canonopt.ScheduleSpec`.

    **Arguments:**

    - `converter`: a `cattrs.Converter`. canonopt does not need cattrs otherwise.
    - `registry`: as for `to_config` and `from_config`.
    """
    read = lambda data, cls: _spec(data, cls, registry)  # noqa: E731
    converter.register_structure_hook(Configured, read)
    converter.register_unstructure_hook(Configured, lambda s: to_config(s, registry=registry))


def pydantic_schema(cls: type[Configured]) -> "CoreSchema":
    """Return the schema by which pydantic validates and writes a field of this type."""
    from pydantic_core import core_schema

    table = core_schema.dict_schema()
    write = core_schema.plain_serializer_function_ser_schema(to_config, return_schema=table)
    return core_schema.no_info_plain_validator_function(
        lambda data: _spec(data, cls, None), json_schema_input_schema=table, serialization=write
    )


def _spec(data: Any, cls: type, registry: Registry) -> Any:
    """Return `data` if it is an instance of `cls`, else the instance that the data describe."""
    spec = from_config(data, registry=registry) if hasattr(data, "keys") else data
    if isinstance(spec, cls):
        return spec
    problem = f"spec must be a {cls.__name__}, not {spec!r}."
    fix = "Build one with canonopt, or give the data that canonopt.to_config returns."
    raise ConfigError(problem, fix, path="spec")
