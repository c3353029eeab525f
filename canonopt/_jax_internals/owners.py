"""The name of a jitted function, and whether the user or a library has jitted it."""

import contextlib
import functools
import sys
import types
from typing import Any

import jax.numpy as jnp

from .._python_internals import WeakIdMap, is_library_code, is_library_module
from .functions import attribute, functions_inside, is_jitted
from .tracing import library_callers


def name_of(function: Any) -> str:
    """The name of a function, or of the first function inside it that has one."""
    chain = _wrapped_by(function)
    names = (attribute(each, "__name__") for each in chain)
    # `jax.jit` names everything.
    name = next((name for name in names if name not in (None, "<unnamed function>")), None)
    return str(name or type(chain[-1]).__name__)


def innermost(function: Any) -> Any:
    """The innermost function under wrappers and partials."""
    return _wrapped_by(function)[-1]


def _wrapped_by(function: Any) -> list[Any]:
    chain = [function]
    while len(chain) < 64:  # an object may have an attribute of any name
        is_partial = isinstance(chain[-1], functools.partial)
        inner = chain[-1].func if is_partial else attribute(chain[-1], "__wrapped__")
        if inner is None:
            break
        chain.append(inner)
    return chain


def identity_of_code(function: Any) -> object:
    """The code and its line numbers, which tell functions of one name apart.

    By value, so that a function that `exec` makes again and again has one log.
    """
    code = attribute(innermost(function), "__code__")
    return (code, code.co_linetable) if isinstance(code, types.CodeType) else None


def is_of_jax(function: Any) -> bool:
    """Return True if JAX defines a function, as it defines those that run its operations."""
    return _package_of(function) == "jax"


def is_helper(function: Any) -> bool:
    """Return True if a library has jitted a function of its own, instead of its user.

    That is so if the function is defined inside a jitted one, or if the library's own code comes
    before the user's in the stack of the call.
    """
    if jits_itself(function):
        return True
    package = _package_of(function)
    if not _is_of_library(function):
        return False
    is_method = isinstance(function, types.MethodType)
    is_plain = isinstance(innermost(function), types.FunctionType) and not is_method
    if not is_plain and package not in ("jax", "canonopt"):
        return False  # a layer, or `apply` of a linen module: libraries do not jit these
    return any(caller in (package, "canonopt") for caller in library_callers())


_known: WeakIdMap[bool] = WeakIdMap()


def jits_itself(function: Any) -> bool:
    """Return True if a library jits its function where it is defined, as `jnp.where` is."""
    known = _known.get(function)
    if known is None:
        known = _jits_itself(function)
        with contextlib.suppress(TypeError):  # it may take no weak reference
            _known.setdefault(function, known)
    return known


def _jits_itself(function: Any) -> bool:
    if not _is_of_library(function):
        return False
    found: Any = sys.modules.get(str(attribute(innermost(function), "__module__")))
    for name in str(attribute(innermost(function), "__qualname__")).split("."):
        found = attribute(found, name)
    # A `jnp.ufunc` jits its function itself.
    if isinstance(found, jnp.ufunc):
        return True
    # Not `found` itself, nor what the user makes of it, as in `jax.jit(jax.vmap(jnp.dot))`.
    inside = functions_inside(found)[1:] if is_jitted(found) else ()
    return any(function is inner for inner in inside)


def users_function(function: Any) -> Any:
    """The user's function, where JAX jits a function of its own around it, as `jax.pmap` does."""
    if not _is_of_library(function):
        return function
    inside = (f for f in functions_inside(function) if isinstance(f, types.FunctionType))
    return next((f for f in inside if not _is_of_library(f)), function)


def is_jitted_inside(function: Any) -> bool:
    """Return True if what JAX is given is jitted already, as in `jax.pmap(jax.jit(f))`."""
    if is_jitted(function):
        return True
    user = users_function(function)
    jitted = (f for f in functions_inside(function) if is_jitted(f))
    # What is jitted may be another function that JAX was given, for example as an argument.
    return any(user is f for each in jitted for f in functions_inside(each))


def _owner(function: Any) -> Any:
    is_method = isinstance(function, types.MethodType)  # `apply` of a user's linen module
    return type(function.__self__) if is_method else innermost(function)


def _package_of(function: Any) -> str:
    return str(attribute(_owner(function), "__module__")).partition(".")[0]


def _is_of_library(function: Any) -> bool:
    owner = _owner(function)
    if isinstance(owner, types.FunctionType):
        return is_library_code(owner.__code__, owner.__globals__)
    module = sys.modules.get(str(attribute(owner, "__module__")))
    return module is not None and is_library_module(module)
