"""Hooks for cattrs, which this module does not import."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..._errors import ConfigError
from ..spec import Configured
from .reading import from_config
from .writing import to_config


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

    def structure(data: Any, cls: Any) -> Any:
        spec = from_config(data, registry=registry)
        if isinstance(spec, cls):
            return spec
        raise ConfigError(
            f"spec is {spec!r}, and a {cls.__name__} is needed.",
            "Write the data of one.",
            path="spec",
        )

    converter.register_structure_hook_func(is_spec, structure)
    converter.register_unstructure_hook_func(
        is_spec, lambda spec: to_config(spec, registry=registry)
    )
