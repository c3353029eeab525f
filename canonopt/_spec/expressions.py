"""Values as the expressions that make them."""

import enum
import math
import sys
import types
from typing import Any

import jax.numpy as jnp

from .._identity import is_namedtuple


def expression(value: Any) -> str:
    """Python source for `value`, given the modules it names; for what has none, its `repr`."""
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if isinstance(value, type(jnp.float32)):
        return repr(value.dtype.name)
    if type(value) is tuple:
        return f"({', '.join(map(expression, value))}{',' * (len(value) == 1)})"
    if type(value) is list:
        return f"[{', '.join(map(expression, value))}]"
    if type(value) is dict:
        items = (f"{expression(k)}: {expression(v)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    factory = getattr(value, "factory", None) if isinstance(value, types.FunctionType) else None
    if factory is not None:
        return factory.expression
    if isinstance(value, types.FunctionType | type):
        package = value.__module__.partition(".")[0]
        public = getattr(sys.modules.get(package), value.__qualname__, None) is value
        return f"{package if public else value.__module__}.{value.__qualname__}"
    if is_namedtuple(type(value)):
        items = (f"{n}={expression(v)}" for n, v in zip(value._fields, value, strict=True))
        return f"{expression(type(value))}({', '.join(items)})"
    return repr(value)
