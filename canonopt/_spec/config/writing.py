"""From a spec to plain data."""

import enum
import math
import types
from collections.abc import Mapping
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import optax

from ..._identity import is_namedtuple
from ..._numbers import Dynamic
from ..._optax_compat import is_transformation
from ...errors import ConfigError
from ..builders import factory_behind
from ..factory import Factory
from ..spec import Configured, Spec
from .form import (
    DEFAULT,
    FORMAT,
    NONE,
    NUMPY_TYPES,
    Data,
    check_type,
    is_exact,
    is_plain_table,
    is_unicode,
    spec_table,
    step,
)
from .names import Names, is_same

_SCALAR_TYPE = type(jnp.float32)


def to_config(
    spec: Configured, *, registry: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Data]]:
    """A spec as plain data, for a JSON, YAML or TOML file.

    ```python
    >>> import canonopt, json
    >>> data = canonopt.to_config(canonopt.linear_schedule(1e-3, 0.0, transition_steps=100))
    >>> print(json.dumps(data, indent=2))
    {
      "canonopt": {
        "format": 1,
        "optax": "..."
      },
      "spec": {
        "optax": "linear_schedule",
        "init_value": 0.001,
        "end_value": 0.0,
        "transition_steps": 100,
        "transition_begin": 0
      }
    }
    >>> canonopt.from_config(data) is canonopt.linear_schedule(1e-3, 0.0, 100)
    True

    ```

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
    versions: dict[str, Data] = {"format": FORMAT, "optax": optax.__version__}
    return {"canonopt": versions, "spec": Writer(Names(registry)).spec(spec, "spec")}


class Writer:
    """Writes specs and values, with the names in `names`."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def spec(self, spec: Configured, path: str) -> dict[str, Data]:
        factory = factory_behind(spec)
        assert factory is not None
        return self._factory_with(factory, spec.parameters(), path)

    def _factory_with(
        self, factory: Factory, parameters: dict[str, Any], path: str
    ) -> dict[str, Data]:
        key, reference = self._factory(factory, path)
        written = {n: self.parameter(factory, n, v, path) for n, v in parameters.items()}
        return spec_table(key, reference, written)

    def _factory(self, factory: Factory, path: str) -> tuple[str, Data]:
        if factory.made_by is not None:
            outer, parameters = factory.made_by
            key, _ = self._factory(outer, path)
            return key, self._factory_with(outer, parameters, f"{path}.{key}")
        name = self._names.name_of_factory(factory)
        return self.unnamed_factory(factory, path) if name is None else name

    def parameter(self, factory: Factory, name: str, value: Any, path: str) -> Data:
        path = f"{path}.{name}"
        signature = factory.signature
        if name == signature.variadic:
            return [self.value(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if self._is_default_object(signature.defaults.get(name), value):
            return dict(DEFAULT)
        written = self.value(value, path)
        check_type(factory, name, value if isinstance(value, Spec) else written, path)
        return written

    def _is_default_object(self, default: Any, value: Any) -> bool:
        """Whether a value is a function or a transformation that only a default refers to."""
        if value is not default or not (callable(value) or is_transformation(value)):
            return False
        name = self._names.name_of(value)
        return name is None or "._" in name  # a private name, which may move

    def value(self, value: Any, path: str) -> Data:
        kind = type(value)
        if kind in (bool, int):
            return value
        if value is None:
            return dict(NONE)
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is str and is_unicode(value):
            return value
        if isinstance(value, Configured):
            return self.spec(value, path)
        if kind is complex:
            return {"complex": [self.value(part, path) for part in (value.real, value.imag)]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind in (list, tuple):
            items: list[Data] = [self.value(v, f"{path}[{i}]") for i, v in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind in (set, frozenset):
            items = [self.value(item, path) for item in value]
            return {kind.__name__: sorted(items, key=repr)}
        if kind is dict:
            return self._dict(value, path)
        if isinstance(value, Dynamic):
            return self._dynamic(value, path)
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return self._array(value, path)
        if isinstance(value, _SCALAR_TYPE):
            return {"dtype": value.dtype.name}
        if isinstance(value, np.dtype) and value.isnative and is_exact(value):
            return {"numpy_dtype": value.name}
        if isinstance(value, type) and value is NUMPY_TYPES.get(value.__name__):
            return {"numpy_type": value.__name__}
        return self._object(value, path)

    def _dict(self, value: dict[Any, Any], path: str) -> dict[str, Data]:
        items = {key: self.value(item, f"{path}{step(key)}") for key, item in value.items()}
        if is_plain_table(items):
            return items
        return {"dict": [[self.value(key, path), item] for key, item in items.items()]}

    # --- numbers and arrays -----------------------------------------------------------------------

    def _dynamic(self, value: Dynamic, path: str) -> dict[str, Data]:
        numbers = value.numbers()
        if numbers is None or isinstance(numbers, Dynamic):
            raise ConfigError(
                f"{path} has no value: it is traced, or has been taken out of the spec.",
                "Call canonopt.to_config outside of jax.jit, with the whole spec.",
                path=path,
            )
        return {"dynamic": self.value(numbers, path)}

    def _array(self, value: Any, path: str) -> dict[str, Data]:
        if isinstance(value, jax.core.Tracer):
            raise ConfigError(
                f"{path} is a tracer.", "Call canonopt.to_config outside of jax.jit.", path=path
            )
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise ConfigError(
                f"{path} is a random key, of dtype {value.dtype}.",
                "Give the seed, an int, in place of the key.",
                path=path,
            )
        array = np.asarray(value)
        if not is_exact(array.dtype):
            raise ConfigError(
                f"{path} has dtype {array.dtype}, which plain data does not have.",
                "Give it as float32, or as another dtype of JAX.",
                path=path,
            )
        items = array.reshape(-1)
        if array.dtype.kind not in "biufc":  # bfloat16, and others that NumPy does not know
            items = items.astype(np.float64)
        values: list[Data] = [self.value(item, path) for item in items.tolist()]
        name = array.dtype.name
        if isinstance(value, np.generic):
            return {"scalar": name, "value": values[0]}
        table: dict[str, Data] = {"shape": list(array.shape), "values": values}
        if isinstance(value, jax.Array):
            return {"jax_array": name, **table, "weak_type": bool(value.weak_type)}
        return {"array": name, **table}

    # --- what has a name --------------------------------------------------------------------------

    def _object(self, value: Any, path: str) -> dict[str, Data]:
        name = self._names.name_of(value)
        if name is not None:
            return {"name": name}
        if is_transformation(value):
            return self.unnamed(value, path)
        if is_namedtuple(type(value)) and (name := self._names.name_of(type(value))) is not None:
            fields = zip(value._fields, value, strict=True)
            return {
                "namedtuple": name,
                "fields": {n: self.value(item, f"{path}.{n}") for n, item in fields},
            }
        is_member = isinstance(value, enum.Enum) and value.name in type(value).__members__
        if is_member and (name := self._names.name_of(type(value))) is not None:
            return {"enum": name, "member": value.name}
        return self.unnamed(value, path)

    # Nothing stands for what has no name. `LenientWriter` overrides these two.

    def unnamed_factory(self, factory: Factory, path: str) -> tuple[str, Data]:
        raise ConfigError(
            f"The factory at {path}, {factory.name}, has no name that data can have.",
            "Move it to the top level of a module, or give it a name: "
            "canonopt.to_config(spec, registry={'my_factory': ...}).",
            path=path,
        )

    def unnamed(self, value: Any, path: str) -> dict[str, Data]:
        if is_transformation(value):
            fix = "Build it with canonopt, or give it a name"
        elif isinstance(value, types.FunctionType):
            fix = "Define it at the top level of a module, or give it a name"
        elif isinstance(value, str):
            raise ConfigError(
                f"{path} is {value!r}, which cannot be written as UTF-8.",
                "Write a string without surrogates.",
                path=path,
            )
        else:
            fix = "Give it a name"
        raise ConfigError(
            f"{path} is {value!r}, which has no name that data can have.",
            f"{fix}: canonopt.to_config(spec, registry={{'my_name': ...}}), and the same in "
            "canonopt.from_config.",
            path=path,
        )


class LenientWriter(Writer):
    """For a comparison: also writes what has no name, with a number for each that differs."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._unnamed: list[Any] = []

    def unnamed_factory(self, factory: Factory, path: str) -> tuple[str, Data]:
        name = f"{factory.module}:{factory.name}"
        return "canonical", f"{name} ({self._number(factory.function)})"

    def unnamed(self, value: Any, path: str) -> dict[str, Data]:
        return {"unnamed": repr(value), "number": self._number(value)}

    def _number(self, value: Any) -> int:
        for number, known in enumerate(self._unnamed):
            if is_same(known, value):
                return number
        self._unnamed.append(value)
        return len(self._unnamed) - 1
