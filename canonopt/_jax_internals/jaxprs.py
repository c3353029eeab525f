"""What is in a traced program: whether it is the same as another, and what it keeps."""

import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.core
import numpy as np

from .._python_internals import captured_by, is_library_file

# --- whether two programs are the same ------------------------------------------------------------


def agrees(program: Any, plain: Any, arrays: Sequence[Any]) -> bool:
    """Whether a traced program is `plain`, but for `arrays`, its first arguments.

    These are constants of `plain`, which was traced from the same function as it is.
    """
    ours, theirs = program.jaxpr, plain.jaxpr
    if len(ours.eqns) != len(theirs.eqns):
        return False
    same = dict(zip(theirs.invars, ours.invars[len(arrays) :], strict=True))
    values = dict(zip(theirs.constvars, plain.consts, strict=True))
    known = dict(zip(ours.constvars, program.consts, strict=True))
    known.update(zip(ours.invars, arrays, strict=False))

    def is_same(x: Any, y: Any) -> bool:
        if hasattr(x, "val"):  # a literal
            return hasattr(y, "val") and str(x) == str(y) and x.aval == y.aval
        if x in values:
            return y in known and has_values(known[y], values[x])
        return same.get(x) is y

    for x, y in zip(theirs.eqns, ours.eqns, strict=True):
        if x.primitive is not y.primitive or not _same_parameter(x.params, y.params):
            return False
        if len(x.invars) != len(y.invars) or not all(map(is_same, x.invars, y.invars)):
            return False
        same.update(zip(x.outvars, y.outvars, strict=True))
    return len(theirs.outvars) == len(ours.outvars) and all(
        map(is_same, theirs.outvars, ours.outvars)
    )


def has_values(array: Any, new: Any) -> bool:
    """Whether `new` is what JAX makes of `array`."""
    if array is new:
        return True
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if new.shape != array.shape or jax.dtypes.canonicalize_dtype(new.dtype) != dtype:
        return False
    return np.asarray(new).astype(dtype).tobytes() == np.asarray(array).astype(dtype).tobytes()


def _same_parameter(x: Any, y: Any) -> bool:
    """Whether two parameters of an equation are the same, as far as the text of both says."""
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_same_parameter(x[name], y[name]) for name in x)
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(_same_parameter, x, y))
    if hasattr(x, "jaxpr"):
        same = len(x.consts) == len(y.consts) and all(map(_is_constant, x.consts, y.consts))
        return same and str(x.jaxpr) == str(y.jaxpr)
    # A rule for derivatives: the functions are others at each trace, and made by the same code.
    return callable(x) or str(x) == str(y)


def _is_constant(x: Any, y: Any) -> bool:
    tracers = isinstance(x, jax.core.Tracer) or isinstance(y, jax.core.Tracer)
    return x is y or (not tracers and x.dtype == y.dtype and has_values(x, y))


# --- what a program keeps -------------------------------------------------------------------------


def kept_by(program: Any) -> tuple[int, bool]:
    """The bytes of the constants of a traced program, and whether it calls the user's code later.

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
        return not (owner is None or isinstance(owner, types.ModuleType) or _is_jaxs(owner))
    is_plain = isinstance(value, type | functools.partial) or _is_jaxs(value)
    return callable(value) and not is_plain


def _is_jaxs(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


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
