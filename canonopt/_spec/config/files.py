"""From a spec to plain data and back, with the table of codecs."""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import optax

from ..._optax_compat import is_transformation, members_of
from ...errors import CanonoptError, ConfigError, ConfigWarning
from ..dynamic_number import Dynamic
from ..factory import factory_of
from ..spec import Configured, internals_of
from .codecs import BY_KEYS, CODECS, RESERVED, Codec, Data, Name
from .names import Names

if TYPE_CHECKING:
    from cattrs import Converter
    from pydantic_core import CoreSchema


def to_config(
    spec: Configured, *, registry: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Data]]:
    """Return a spec as plain data, for a JSON, YAML or TOML file.

    All parameters are written, defaults included, so that another default in a later version of
    Optax does not change a stored run.

    **Arguments:**

    - `spec`: a spec or a schedule, made by a function of canonopt.
    - `registry`: names of functions, and of other objects that are not plain data. A function at
        the top level of a module needs none: its name is `module:qualname`.

    **Returns:** a dict of dicts, lists, strings, booleans and finite numbers.

    **Raises:** `ConfigError` for a value that has no name, such as a lambda.
    """
    if not isinstance(spec, Configured):
        raise ConfigError(
            f"canonopt.to_config needs a spec, and got {spec!r}.",
            "Build it with canonopt, for example canonopt.adam(1e-3): what Optax builds does not "
            "know its parameters.",
        )
    versions: dict[str, Data] = {"format": 1, "optax": optax.__version__}
    return {"canonopt": versions, "spec": Writer(registry).value(spec, "spec")}


def from_config(data: Mapping[str, Any], *, registry: Mapping[str, Any] | None = None) -> Any:
    """Return the spec that `to_config` wrote as `data`: the same object.

    Reading imports nothing that the data name, and calls nothing but factories: those of the
    catalogue, and those of `canonopt.canonical` in the registry.

    **Arguments:**

    - `data`: what `to_config` returned, also after a JSON, YAML or TOML file.
    - `registry`: the objects that names in the data stand for, such as masks and the factories of
        `canonopt.canonical`. An object that is at the top level of a module is also found by
        `module:qualname`, whatever its name in the registry.

    **Returns:** a `canonopt.Spec` or a `canonopt.ScheduleSpec`.

    **Raises:** `ConfigError` for unknown names, wrong types, missing and extra keys, with the path
    in the data. If another version of Optax wrote them, parameters that are new have their
    defaults, and a `ConfigWarning` lists them.
    """
    table = enveloped(data)
    written, installed = table["canonopt"]["optax"], optax.__version__
    reader = _Reader(registry, is_other=written != installed)
    versions = f"Optax {written} wrote the data, and {installed} is installed."
    try:
        spec = reader.value(table["spec"], "spec")
    except ConfigError as error:
        if written != installed:
            error.add_note(versions)
        raise
    if reader.as_installed:
        warnings.warn(
            f"{versions} These are as in the installed one: {', '.join(reader.as_installed)}. "
            "Write the spec with canonopt.to_config again to keep what they are now.",
            ConfigWarning,
            stacklevel=2,
        )
    return spec


# --- writing --------------------------------------------------------------------------------------


class Writer:
    """Writes values, with the names in a registry.

    With `compares`, it also writes what has no name, for a comparison in this process.
    """

    def __init__(self, registry: Mapping[str, Any] | None, compares: bool = False) -> None:
        self._names = Names(registry)
        self._compares = compares

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
        if self._compares:
            return {"unnamed": repr(value), "id": id(value)}
        raise _without_name(value, path)

    def _table(self, codec: Codec, value: Any, path: str) -> dict[str, Data] | None:
        """Return the table that stands for a value; None if an object in it has no name."""
        keys, parts, table = codec.example, codec.write(value), {}
        for key, part in zip(keys, parts if len(keys) > 1 else [parts], strict=True):
            is_name = type(keys[key]) is Name
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
        if name is None and not self._compares:
            raise _without_name(factory.function, path)
        signature = factory.signature
        name = name or f"{factory.module}:{factory.name} at {id(factory):#x}"
        table: dict[str, Any] = {key: name}
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


def _without_name(value: Any, path: str) -> ConfigError:
    fix = "Define it in a module, or give it a name: canonopt.to_config(spec, registry={'x': ...})."
    if is_transformation(value):
        fix = "Build it with canonopt."
    elif isinstance(value, Dynamic | jax.Array | np.ndarray):
        fix = "Write canonopt.dynamic(...) of Python numbers, outside of jax.jit."
    return ConfigError(f"{path} is {value!r}, which has no name in data.", fix, path=path)


# --- reading --------------------------------------------------------------------------------------


def enveloped(data: Any) -> dict[str, Any]:
    """Return `data` in Python's own types. Raises `ConfigError` if they are not those of a spec."""
    match table := _plain(data, "data"):
        case {"canonopt": {"format": 1, "optax": str()}, "spec": spec} if (
            len(table) == 2 and isinstance(spec, dict) and {"optax", "canonical"} & spec.keys()
        ):
            return table
    raise ConfigError(
        f"The data need the keys canonopt and spec, and format 1, and are {_text(table)}.",
        "Write what canonopt.to_config returns, or install the version of canonopt that did.",
    )


def _plain(data: Any, path: str) -> Any:
    """Return data in Python's own types: libraries have classes of their own for what they read."""
    if data is None:  # JSON and YAML have it
        return {"none": True}
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    if hasattr(data, "keys"):  # as `dict` asks: an `ml_collections.ConfigDict` is no `Mapping`
        items = [[_plain(key, path), _plain(data[key], f"{path}.{key}")] for key in data]
        return dict(items) if all(type(key) is str for key, _ in items) else {"dict": items}
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(data)]
    fix = "Write a number, a string, a boolean, a list or a table."
    raise ConfigError(f"{path} is {data!r}, a {type(data).__name__}.", fix, path=path)


_DEFAULT = {"default": True}


class _Reader:
    """Reads values, which another version of Optax may have written."""

    def __init__(self, registry: Mapping[str, Any] | None, is_other: bool) -> None:
        self._names = Names(registry)
        self._is_other = is_other
        # Paths of parameters that are as in the installed Optax, and not as they were written.
        self.as_installed: list[str] = []

    def value(self, data: Any, path: str) -> Any:
        match data:
            case list():
                return [self.value(item, f"{path}[{i}]") for i, item in enumerate(data)]
            case {"canonical": name, **written}:
                return self._spec("canonical", name, written, path)
            case {"optax": name, **written}:
                return self._spec("optax", name, written, path)
            case dict() if codec := BY_KEYS.get(frozenset(data)):
                fix = f"Write it as in {_text(codec.example)}."
                items = codec.example.items()
                parts = [self._part(example, data[key], path, fix) for key, example in items]
                return _called(codec.read, parts, next(iter(codec.example)), fix, path)
            case dict() if reserved := sorted(RESERVED & data.keys()):
                raise ConfigError(
                    f"{path} is {_text(data)}, and {reserved[0]!r} stands for something else.",
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
            problem = f"{path} has {_text(data)} in place of {_text(example)}."
            raise ConfigError(problem, fix, path=path)
        return part

    def _spec(self, key: str, name: Data, written: dict[str, Any], path: str) -> Any:
        made = self.value(name, path) if isinstance(name, dict) else None
        # What `inject_hyperparams(optax.adam)` made, or one with a name.
        factory = factory_of(made) or self._names.find_factory(name, f"{path}.{key}", key)
        signature, is_other = factory.signature, self._is_other and key == "optax"
        missing = [name for name in signature.defaults if name not in written]
        if missing and not is_other:
            fix = f'Write all parameters, for a default {{"{missing[0]}": {{"default": true}}}}.'
            problem = f"{path} lacks {', '.join(missing)} of {factory.name}."
            raise ConfigError(problem, fix, path=f"{path}.{missing[0]}")
        if is_other:
            missing += [name for name, data in written.items() if data == _DEFAULT]
            self.as_installed += [f"{path}.{name}" for name in missing]
        given = {}
        for name, data in written.items():
            where, known = f"{path}.{name}", signature.parameters.get(name)
            # A factory would take "false" for true.
            kinds = () if known is None else members_of(known.annotation)
            if isinstance(data, str) and kinds and {*kinds} <= {bool, int, float, type(None)}:
                fix = "Write a number or a boolean, without quotes; in YAML with a dot: 1.0e-3."
                problem = f"{where} is {_text(data)}, which {factory.name} does not take."
                raise ConfigError(problem, fix, path=where)
            if data != _DEFAULT:
                given[name] = self.value(data, where)
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


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


# --- hooks ----------------------------------------------------------------------------------------


def register_hooks(converter: "Converter", *, registry: Mapping[str, Any] | None = None) -> None:
    """Have a cattrs converter write and read specs, as `to_config` and `from_config` do.

    It serves attrs classes and dataclasses with fields of the types `canonopt.Spec` and
    `canonopt.ScheduleSpec`.

    **Arguments:**

    - `converter`: a `cattrs.Converter`. canonopt does not need cattrs otherwise.
    - `registry`: as for `to_config` and `from_config`.
    """

    def is_spec(cls: Any) -> bool:
        return isinstance(cls, type) and issubclass(cls, Configured)

    converter.register_structure_hook_func(is_spec, lambda data, cls: _spec(data, cls, registry))
    converter.register_unstructure_hook_func(is_spec, lambda s: to_config(s, registry=registry))


def pydantic_schema(cls: type[Configured]) -> "CoreSchema":
    """Return how pydantic validates and writes a field of this type, as cattrs would.

    The context of a call may have a `registry`.
    """
    from pydantic_core import core_schema

    def registry_of(info: Any) -> Any:
        return (info.context or {}).get("registry")

    table = core_schema.dict_schema()
    return core_schema.with_info_plain_validator_function(
        lambda data, info: _spec(data, cls, registry_of(info)),
        json_schema_input_schema=table,
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda spec, info: to_config(spec, registry=registry_of(info)),
            info_arg=True,
            return_schema=table,
        ),
    )


def _spec(data: Any, cls: type, registry: Mapping[str, Any] | None) -> Any:
    """Return the `cls` that `data` are, or that was written as them."""
    spec = from_config(data, registry=registry) if hasattr(data, "keys") else data
    if isinstance(spec, cls):
        return spec
    problem = f"spec is {spec!r}, and a {cls.__name__} is needed."
    raise ConfigError(problem, "Build one with canonopt, or write the data of one.", path="spec")
