"""Values as Python source, and as what a pickle needs."""

import enum
import math
import sys
import types
from typing import Any

import jax.numpy as jnp

from .._identity import is_in_place, is_namedtuple
from .arguments import is_spec


def is_data(value: Any) -> bool:
    """Return True if unpickling `value` gives the same value again."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(is_data, value))
    if type(value) is dict:
        return all(map(is_data, (*value, *value.values())))
    if isinstance(value, int | float | complex | str | bytes) or value is None or is_spec(value):
        return True
    try:
        return is_in_place(value)
    except Exception:  # raised by an attribute of the user's object
        return False


def expression(value: Any) -> str:
    """Return Python source for `value`, given the modules it names; `repr` for anything else."""
    if type(value) is float:
        # `inf` and `nan` are no Python expressions.
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
        # The `repr` of a member is no Python expression.
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    factory = getattr(value, "factory", None) if isinstance(value, types.FunctionType) else None
    if factory is not None:
        return factory.expression
    if isinstance(value, types.FunctionType | type):
        # `optax.adam`, not `optax._src.alias.adam`, which may move.
        package = value.__module__.partition(".")[0]
        public = getattr(sys.modules.get(package), value.__qualname__, None) is value
        return f"{package if public else value.__module__}.{value.__qualname__}"
    if is_namedtuple(type(value)):
        items = (f"{n}={expression(v)}" for n, v in zip(value._fields, value, strict=True))
        return f"{expression(type(value))}({', '.join(items)})"
    return repr(value)
