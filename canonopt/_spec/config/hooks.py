"""Hooks for cattrs and pydantic, neither of which `import canonopt` imports."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import ConfigError
from ..spec import Configured
from .reading import from_config
from .writing import to_config

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


def _structured(data: Any, cls: type, registry: Mapping[str, Any] | None) -> Any:
    """The `cls` that `data` are, or that was written as them."""
    spec = from_config(data, registry=registry) if hasattr(data, "keys") else data
    if isinstance(spec, cls):
        return spec
    raise ConfigError(
        f"spec is {spec!r}, and a {cls.__name__} is needed.",
        "Build one with canonopt, or write the data of one.",
        path="spec",
    )


# --- cattrs ---------------------------------------------------------------------------------------


class Converter(Protocol):
    """What is used of a `cattrs.Converter`."""

    def register_structure_hook_func(
        self, check_func: Callable[[Any], bool], func: Callable[[Any, Any], Any]
    ) -> None: ...
    def register_unstructure_hook_func(
        self, check_func: Callable[[Any], bool], func: Callable[[Any], Any]
    ) -> None: ...


def register_hooks(converter: Converter, *, registry: Mapping[str, Any] | None = None) -> None:
    """Has a cattrs converter write and read specs, as `to_config` and `from_config` do.

    For attrs classes and dataclasses with fields of the types `canonopt.Spec` and
    `canonopt.ScheduleSpec`.

    ```python
    converter = cattrs.Converter()
    canonopt.register_hooks(converter)
    data = converter.unstructure(Experiment(optimizer=canonopt.adam(1e-3)))
    converter.structure(data, Experiment)
    ```

    **Arguments:**

    - `converter`: a `cattrs.Converter`. canonopt does not need cattrs otherwise.
    - `registry`: as for `to_config` and `from_config`.
    """

    def is_spec(cls: Any) -> bool:
        return isinstance(cls, type) and issubclass(cls, Configured)

    converter.register_structure_hook_func(
        is_spec, lambda data, cls: _structured(data, cls, registry)
    )
    converter.register_unstructure_hook_func(
        is_spec, lambda spec: to_config(spec, registry=registry)
    )


# --- pydantic -------------------------------------------------------------------------------------


def _pydantic_schema(cls: type[Configured], source: Any, handler: Any) -> "CoreSchema":
    """How pydantic validates and writes a field of this type: it asks the type.

    A spec stays as it is, data are read with `from_config`, and `to_config` writes them. The
    context of a call may have the `registry` of these two.
    """
    from pydantic_core import core_schema

    def registry_of(info: Any) -> Any:
        return (info.context or {}).get("registry")

    table = core_schema.dict_schema()
    return core_schema.with_info_plain_validator_function(
        lambda data, info: _structured(data, cls, registry_of(info)),
        json_schema_input_schema=table,
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda spec, info: to_config(spec, registry=registry_of(info)),
            info_arg=True,
            return_schema=table,
        ),
    )


# `spec` cannot import this module.
Configured.__get_pydantic_core_schema__ = classmethod(  # pyright: ignore[reportAttributeAccessIssue]
    _pydantic_schema
)
