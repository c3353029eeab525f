"""From a spec to plain data and back, with the table of codecs."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import optax

from ...errors import ConfigError, ConfigWarning
from ..spec import Configured
from .codecs import Data, Reader, Writer, text_of

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

    **Raises:** `ConfigError` for unknown names, wrong types and extra keys, with the path in the
    data. Parameters that are missing, since another version of Optax lacks them, have their
    defaults, and a `ConfigWarning` lists them.
    """
    table, reader = enveloped(data), Reader(registry)
    written = table["canonopt"]["optax"]
    versions = f"Optax {written} wrote the data, and {optax.__version__} reads it."
    try:
        spec = reader.value(table["spec"], "spec")
    except ConfigError as error:
        if written != optax.__version__:
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


# --- data of libraries ---------------------------------------------------------------------------


def enveloped(data: Any) -> dict[str, Any]:
    """Return `data` in Python's own types. Raises `ConfigError` if they are not those of a spec."""
    match table := _plain(data, "data"):
        case {"canonopt": {"format": 1, "optax": str()}, "spec": spec} if (
            len(table) == 2 and isinstance(spec, dict) and {"optax", "canonical"} & spec.keys()
        ):
            return table
    raise ConfigError(
        f"The data need the keys canonopt and spec, and format 1, and are {text_of(table)}.",
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
