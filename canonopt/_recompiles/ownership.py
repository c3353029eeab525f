"""What a function is called, and whose it is: the user's, or a library's."""

import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp

from .._jax_internals import (
    attribute,
    functions_inside,
    is_jitted,
)


def name_of(function: Any) -> str:
    """The name of a function, or of the first that it wraps and that has one."""
    chain = _wrapped_by(function)
    names = (attribute(each, "__name__") for each in chain)
    # `jax.jit` has a name for everything.
    name = next((name for name in names if name not in (None, "<unnamed function>")), None)
    return str(name or type(chain[-1]).__name__)


def written_as(function: Any) -> Any:
    """The innermost of the functions that one wraps, partials or other."""
    return _wrapped_by(function)[-1]


def _wrapped_by(function: Any) -> list[Any]:
    chain = [function]
    while len(chain) < 64:
        is_partial = isinstance(chain[-1], functools.partial)
        inner = chain[-1].func if is_partial else attribute(chain[-1], "__wrapped__")
        if inner is None:
            break
        chain.append(inner)
    return chain


def code_of(function: Any) -> object:
    """What tells two functions of one name on one line apart: their code, and where it stands.

    By value, so that a function that is made again and again by `exec` has one log.
    """
    code = attribute(written_as(function), "__code__")
    return (code, code.co_linetable) if isinstance(code, types.CodeType) else None


# Of what their functions compile users know nothing, and can change nothing about it.
_LIBRARIES = frozenset(("jax", "jaxlib", "equinox", "optax", "flax", "chex", "diffrax", "lineax"))


def is_helper(function: Any, callers: Iterable[str] = ()) -> bool:
    """Whether a library, and not its user, has jitted a function.

    It has if the function is inside of a jitted one where it is defined, or where the modules that
    the call came through, from the nearest one on, are the library's before they are the user's.
    """
    package = _library_of(function)
    if package is None:
        return False
    written = written_as(function)
    found = _found_where_defined(written)
    # And not `found` itself, or what the user makes of it, as in `jax.jit(jax.vmap(jnp.dot))`.
    is_inside = any(function is inner for inner in functions_inside(found)[1:])
    if isinstance(found, jnp.ufunc) or (is_jitted(found) and is_inside):
        return True
    is_plain = isinstance(written, types.FunctionType) and not isinstance(
        function, types.MethodType
    )
    if not is_plain and package not in ("jax", "canonopt"):
        return False  # `apply` of a linen module, a layer: these are not jitted where they are made
    for module in callers:
        if module.partition(".")[0] in (package, "canonopt"):
            return True
        if not is_of_a_library(module):
            return False
    return False


def users_function(function: Any) -> Any:
    """What the user wrote, where JAX jits a function of its own around it, as `jax.pmap` does."""
    if _library_of(function) is None:
        return function
    inside = (f for f in functions_inside(function) if isinstance(f, types.FunctionType))
    return next((f for f in inside if _library_of(f) is None), function)


def _library_of(function: Any) -> str | None:
    is_method = isinstance(function, types.MethodType)  # `apply` of a user's linen module
    owner = type(function.__self__) if is_method else written_as(function)
    package = str(attribute(owner, "__module__")).partition(".")[0]
    return package if is_of_a_library(package) or package == "canonopt" else None


def _found_where_defined(function: Any) -> Any:
    found: Any = sys.modules.get(str(attribute(function, "__module__")))
    for name in str(attribute(function, "__qualname__")).split("."):
        found = attribute(found, name)
    return found


def is_of_a_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES
