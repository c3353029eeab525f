"""Write values as Python source."""

import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._identity import is_namedtuple


def expression(value: Any) -> str:
    """Return Python source for `value`, with module names; its `repr` if no rule applies."""
    kind = type(value)
    if rule := _RULES.get(kind):
        return rule(value)
    if isinstance(value, types.FunctionType):
        # `factory` may be an attribute of the user's own, or a copy that `functools.wraps` made.
        factory: Any = vars(value).get("factory")
        return factory.expression if getattr(factory, "builder", None) is value else _named(value)
    if isinstance(value, type):
        return _named(value)
    if is_namedtuple(kind):
        return call_expression(_named(kind), (), dict(zip(value._fields, value, strict=True)))
    if isinstance(value, np.generic) and isinstance(number := value.item(), int | float):
        is_exact = kind.__module__ == "numpy" and math.isfinite(number)
        # Other types may have no exact `repr`: that of `ml_dtypes.bfloat16(0.1)` is 0.100098.
        return repr(value) if is_exact else f"{_named(kind)}({expression(number)})"
    return repr(value)


def _named(value: Any) -> str:
    """Return the name of a function or a class, with its module."""
    if value.__module__ in ("builtins", None):
        return value.__qualname__
    # The name is `optax.adam`, not `optax._src.alias.adam`, which may move.
    package = value.__module__.partition(".")[0]
    public = getattr(sys.modules.get(package), value.__qualname__, None) is value
    return f"{package if public else value.__module__}.{value.__qualname__}"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(expression, values))


def call_expression(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
    """Return Python source for a call."""
    words = [*map(expression, args), *(f"{n}={expression(v)}" for n, v in kwargs.items())]
    return f"{name}({', '.join(words)})"


_RULES: dict[Any, Callable[[Any], str]] = {
    # Python does not define the names `inf` and `nan`.
    float: lambda value: repr(value) if math.isfinite(value) else f"float('{value}')",
    tuple: lambda value: f"({_listed(value)}{',' * (len(value) == 1)})",
    list: lambda value: f"[{_listed(value)}]",
    dict: lambda value: f"{{{', '.join(': '.join(map(expression, i)) for i in value.items())}}}",
    type(jnp.float32): lambda value: f"jax.numpy.{value.dtype.name}",
}
