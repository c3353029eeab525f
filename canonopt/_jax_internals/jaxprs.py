"""Finds the constants of a traced program, and the code that runs with it or after it."""

import functools
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.core
import numpy as np

from .._python_internals import captured_by, is_library_file


def kept_by(program: Any) -> tuple[int, bool]:
    """Return the bytes of the constants of a traced program, and whether it keeps the user's code.

    Such code is that of callbacks, which run with the program, and of the rules for derivatives,
    which are traced when the program is differentiated. It reads the variables of the function that
    was traced, not those of another one that does the same. A function that captures nothing does
    not count. Relies on the attributes of the objects in which JAX keeps functions: `callback_func`
    of those of callbacks, `f`, `transforms` and `f_transformed` of a `WrappedFun`.
    """
    constants: dict[int, int] = {}
    is_code_kept = False
    for value in _values_in(program):
        if isinstance(value, jax.core.Tracer):
            is_code_kept = True
        elif isinstance(value, jax.Array | np.ndarray) or type(value).__name__ == "TypedNdArray":
            constants[id(value)] = value.size * value.dtype.itemsize
        else:
            is_code_kept |= _is_users_code(value)
    return sum(constants.values()), is_code_kept


def _is_users_code(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        is_users = not is_library_file(value.__code__.co_filename)
        return is_users and bool(value.__closure__ or value.__defaults__)
    if isinstance(value, types.MethodType | types.BuiltinFunctionType):
        owner = value.__self__
        return not (owner is None or isinstance(owner, types.ModuleType) or _is_of_library(owner))
    is_plain = isinstance(value, type | functools.partial) or _is_of_library(value)
    return callable(value) and not is_plain


def _is_of_library(value: Any) -> bool:
    """Return True for an object of JAX or Equinox. What those of Equinox hold counts, not they."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "equinox")


def _values_in(program: Any) -> Iterator[Any]:
    """The constants, and the functions with what they capture, in a program and those inside."""
    seen: dict[int, Any] = {}
    pending = [program]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if hasattr(value, "eqns"):
            for equation in value.eqns:
                pending += equation.params.values()
                pending += (x.val for x in equation.invars if hasattr(x, "val"))
            pending += getattr(value, "consts", ())
        elif isinstance(value, tuple | list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, functools.partial):
            pending += (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, types.MethodType):
            pending += (value.__func__, value.__self__)
        elif isinstance(value, types.FunctionType):
            pending += (*captured_by(value).values(), *(value.__defaults__ or ()))
        elif hasattr(value, "call_wrapped"):  # a `WrappedFun`
            pending += (value.f, value.transforms, getattr(value, "f_transformed", None))
        elif hasattr(value, "callback_func"):  # of `jax.pure_callback`
            pending.append(value.callback_func)
        elif type(value).__module__.startswith("equinox.") and hasattr(value, "__dict__"):
            pending += vars(value).values()  # as of `equinox.filter_custom_vjp`
