"""Find the functions that `jax.jit`, `jax.vmap` and the like have wrapped, and who wrote them."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu

from .._python_internals.libraries import attribute, is_library_function, is_library_module
from .._python_internals.namespaces import loaded
from .._python_internals.rebinding import captured_by
from .._python_internals.weak import known_by_identity
from .settings import private
from .tracing import library_callers

_WITHOUT_OPTIONS: Any = jax.jit(lambda: None)
Jitted = type(_WITHOUT_OPTIONS)

_OF_ARGUMENTS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
JIT_OPTIONS = (*_OF_ARGUMENTS, "keep_unused", "inline")


def jit_options(jitted: Any) -> dict[str, Any] | None:
    """Return the keyword arguments that `jax.jit` was given for `jitted`.

    Relies on the attribute `_jit_info`, a named tuple that `jax.jit` makes of its arguments.
    Returns None if it is gone, or if the options found do not explain all attributes of `jitted`.
    """
    try:
        info = jitted._jit_info._asdict()
        options = {name: info[name] for name in JIT_OPTIONS}
        options["compiler_options"] = dict(info["compiler_options_kvs"]) or None
        if info["user_specified_in_shardings"]:
            options["in_shardings"] = info["in_shardings_treedef"].unflatten(
                info["in_shardings_leaves"]
            )
        # JAX notes whether `in_shardings` were given, but not whether `out_shardings` were.
        if info["out_shardings_leaves"] != _WITHOUT_OPTIONS._jit_info.out_shardings_leaves:
            options["out_shardings"] = info["out_shardings_treedef"].unflatten(
                info["out_shardings_leaves"]
            )
        # The comparison fails if `jitted` has an option that is not read above, such as `backend`,
        # or an attribute that somebody has set.
        again: Any = jax.jit(jitted.__wrapped__, **options)
        one, other = ({**vars(f), "_jit_info": f._jit_info._asdict()} for f in (again, jitted))
        return options if one == other else None
    except Exception:
        return None


def argument_options(jitted: Any) -> dict[str, tuple[Any, ...]] | None:
    """Return the options of a result of `jax.jit` that name its static and donated arguments.

    JAX infers the numbers from the names, and the names from the numbers. Relies on the attribute
    `_jit_info`; returns None if that is gone, and for any other function.
    """
    info = getattr(jitted, "_jit_info", None)
    return None if info is None else {name: getattr(info, name) for name in _OF_ARGUMENTS}


def statics_of(jitted: Any) -> frozenset[int | str] | None:
    """Return the numbers and names of the static arguments; None if they are unknown."""
    if (found := argument_options(jitted)) is None:
        return None
    return frozenset((*found["static_argnums"], *found["static_argnames"]))


def has_programs(jitted: Any) -> bool:
    """Return True if a result of `jax.jit` or `equinox.filter_jit` has programs in its jit cache.

    Relies on the method `_cache_size`. If a jitted function lacks this method, returns True.
    """
    jitted = jitted_by_equinox(jitted) or jitted
    cache_size = getattr(jitted, "_cache_size", None)
    return type(jitted) is Jitted and (cache_size is None or cache_size() > 0)


def jitted_by_equinox(value: Any) -> Any:
    """Return the jitted function inside a result of `equinox.filter_jit`; None for other values.

    Equinox makes one jitted function for all functions with the same name and options. Relies on
    the class name `_JitWrapper` and on the attribute `_cached`.
    """
    is_made_by_it = issubclass(type(value), loaded("equinox._jit", "_JitWrapper"))
    return getattr(value, "_cached", None) if is_made_by_it else None


# Python merges a partial of a partial into one. `jax.tree_util.Partial` prevents that by wrapping
# the inner partial in an object with the attribute `fun`.
_Shim = type(jtu.Partial(functools.partial(len)).func)


def function_of_partial(partial: functools.partial) -> Callable[..., Any]:
    """Return the function from which a partial or a `jax.tree_util.Partial` was made."""
    function = partial.func
    return vars(function).get("fun", function) if type(function) is _Shim else function


def functions_inside(function: Any) -> list[Any]:
    """Return `function` and the functions that it wraps, as far as they can be found.

    Relies on the attributes in which `functools.wraps`, partials, JAX and Flax keep functions, and
    on the variables that the closures of JAX (for example in `jax.pmap`) and of
    `equinox.filter_pmap` capture.
    """
    found = [function]
    for outer in found:
        # A user's object may have an unrelated function as `f`.
        library = type(outer).__module__.partition(".")[0]
        names = ("__wrapped__", "func", "fun", "f") if library in _WRAPPING else ("__wrapped__",)
        inner: list[Any] = [*(attribute(outer, name) for name in names), _wrapped_call(outer)]
        if isinstance(outer, types.FunctionType):
            # The globals tell if JAX made `outer`. Its `__module__` is that of the function inside.
            if str(outer.__globals__.get("__name__")).startswith("jax."):
                inner += captured_by(outer).values()
            # Equinox captures the tuple `static`, whose first item is the user's function.
            elif outer.__code__.co_qualname.startswith("_filter_pmap_cache.<locals>."):
                inner += captured_by(outer).get("static", ())[:1]
        # JAX captures a `WrappedFun`, or one of its methods: its `f` is the inner function.
        owners = (*inner, attribute(outer, "__self__"))
        inner += [each.f for each in owners if hasattr(type(each), "call_wrapped")]
        for new in inner:
            if callable(new) and len(found) < 64 and not any(new is f for f in found):
                found.append(new)
    return found


_WRAPPING = frozenset(("functools", "jax", "jaxlib", "equinox", "flax"))


def is_jitted(function: Any) -> bool:
    """Return True for a result of `jax.jit`, `equinox.filter_jit` or the like, or a wrapper of one.

    Also returns True for an object whose class has such a function as `__call__`.
    """
    chain = _wrapped_by(function)
    chain += _wrapped_by(_wrapped_call(chain[-1]))
    both = ((attribute(f, "__wrapped__"), attribute(f, "lower")) for f in chain)
    return any(wrapped is not None and lower is not None for wrapped, lower in both)


def _wrapped_call(value: Any) -> Any:
    """Return the `__call__` of the class of `value` if it wraps another function; else None."""
    call = attribute(type(value), "__call__")
    return call if attribute(call, "__wrapped__") is not None else None


def name_in_events(function: Any) -> str:
    """Return the name that the events of `jax.monitoring` use for a function given to `jax.jit`."""
    while isinstance(function, functools.partial) and not hasattr(function, "__name__"):
        function = function.func
    return str(getattr(function, "__name__", "<unnamed function>"))


def is_module_class(kind: Any) -> bool:
    """Return True for `equinox.Module` and its subclasses. Equinox need not be imported."""
    # Check the metaclass: `issubclass` takes ten times as long, because a module is an ABC.
    return isinstance(kind, type(loaded("equinox", "Module")))


def node_functions(kind: type) -> tuple[Any, ...] | None:
    """Return the functions with which a pytree type was registered; an empty tuple if none.

    Also returns an empty tuple for modules of Equinox, which flattens them by their fields. Relies
    on `_registry` of `jax._src.tree_util`; returns None if it is gone.
    """
    if is_module_class(kind):
        return ()
    try:
        return tuple(private("jax._src.tree_util._registry").get(kind, ()))
    except (AttributeError, TypeError):
        return None


# --- who wrote a function -------------------------------------------------------------------------


def name_of(function: Any) -> str:
    """Return the first name from `function` inwards; else the innermost object's class name."""
    chain = _wrapped_by(function)
    names = (attribute(each, "__name__") for each in chain)
    # `jax.jit` names a nameless function `<unnamed function>`.
    name = next((name for name in names if name not in (None, "<unnamed function>")), None)
    return str(name or type(chain[-1]).__name__)


def innermost(function: Any) -> Any:
    """Return the innermost function under wrappers and partials."""
    return _wrapped_by(function)[-1]


def _wrapped_by(function: Any) -> list[Any]:
    chain = [function]
    while len(chain) < 64:  # bounded, since some objects have every attribute
        is_partial = isinstance(chain[-1], functools.partial)
        inner = chain[-1].func if is_partial else attribute(chain[-1], "__wrapped__")
        if inner is None:
            break
        chain.append(inner)
    return chain


def identity_of_code(function: Any) -> object:
    """Return the code and the line numbers of a function, or None if it is not written in Python.

    They tell functions of the same name apart. They are compared by value, so a function that
    `exec` makes many times counts as one function.
    """
    code = attribute(innermost(function), "__code__")
    return (code, code.co_linetable) if isinstance(code, types.CodeType) else None


def is_of_jax(function: Any) -> bool:
    """Return True if JAX defines the function, such as `jnp.where`."""
    return _package_of(function) == "jax"


def is_helper(function: Any) -> bool:
    """Return True if a library defines `function`, and the library, not its user, has jitted it.

    That is so if `jits_itself(function)`, or if the stack has code of the library between the call
    and the user's code.
    """
    if not _is_of_library(function):
        return False
    if jits_itself(function):
        return True
    package = _package_of(function)
    if not isinstance(_owner(function), types.FunctionType) and package not in ("jax", "canonopt"):
        return False  # a layer, or `apply` of a linen module: libraries do not jit these
    return any(caller in (package, "canonopt") for caller in library_callers())


@known_by_identity
def jits_itself(function: Any) -> bool:
    """Return True if the library that defines a function also jits it, as JAX jits `jnp.where`."""
    if not _is_of_library(function):
        return False
    inner = innermost(function)
    found: Any = sys.modules.get(str(attribute(inner, "__module__")))
    for name in str(attribute(inner, "__qualname__")).split("."):
        found = attribute(found, name)
    # Leave out `found` itself: in a user's `jax.jit(jnp.dot)`, the user jits `jnp.dot`.
    inside = functions_inside(found)[1:] if is_jitted(found) else ()
    # A `jnp.ufunc` jits its function itself.
    return isinstance(found, jnp.ufunc) or any(function is each for each in inside)


def users_function(function: Any) -> Any:
    """Return the user's function in a library's wrapper, such as `jax.pmap`'s; else `function`."""
    if not _is_of_library(function):
        return function
    users = [f for f in functions_inside(function) if not _is_of_library(f)]
    functions = [f for f in users if isinstance(f, types.FunctionType)]
    return next(iter(functions + users), function)  # an object or a method if none is a function


def call_of_pmap(
    function: Any, flat_args: tuple
) -> tuple[Any, tuple, dict[str, Any], Callable[[str | int], bool]] | None:
    """Return the function, `args`, `kwargs` of a call through `jax.pmap`, and a test of arguments.

    The test returns True for the number of a static argument. `jax.pmap` jits a wrapper, which
    takes the leaves of the arguments as `flat_args`. Relies on the arguments' `PyTreeDef`, held by
    the wrapper or by a transform of a `WrappedFun`, and on the transform `_argnums_partial`, which
    has the static arguments. Returns None for other functions, and if JAX has changed.
    """
    inside = functions_inside(function)
    held = [attribute(inner, "__self__") for inner in inside]
    of_jax = (f for f in inside if isinstance(f, types.FunctionType) and _is_of_library(f))
    held += (value for inner in of_jax for value in captured_by(inner).values())
    wrapped = [value for value in held if hasattr(type(value), "call_wrapped")]
    transforms = [(w, transform, given) for w in wrapped for transform, given in w.transforms]
    held += (value for *_, given in transforms for value in given)
    trees = (v for v in held if isinstance(v, jtu.PyTreeDef) and v.num_leaves == len(flat_args))
    both = (tree.unflatten(flat_args) for tree in trees)
    found = next((b for b in both if type(b) is tuple and [*map(type, b)] == [tuple, dict]), None)
    if found is None:
        return None
    args, kwargs = found
    for one, transform, given in transforms:
        if transform.__name__ == "_argnums_partial":
            dynamic, fixed = given
            numbers = [i for i in range(len(dynamic) + len(fixed)) if i not in dynamic]
            values = dict(zip(numbers, (each.val for each in fixed), strict=True))
            values |= dict(zip(dynamic, args, strict=False))
            every = tuple(value for _, value in sorted(values.items()))
            return one.f, every, kwargs, numbers.__contains__
    partial = next((f for f in inside if isinstance(f, functools.partial)), None)
    mapped = users_function(function)
    given = partial if partial is not None and partial.func is mapped else mapped
    return given, args, kwargs, lambda _: False


def is_jitted_inside(function: Any) -> bool:
    """Return True if a function is jitted or wraps a jitted one, as in `jax.pmap(jax.jit(f))`."""
    if is_jitted(function):
        return True
    user = users_function(function)
    jitted = (f for f in functions_inside(function) if is_jitted(f))
    # A jitted function counts only if it wraps `user`: JAX may hold another one as an argument.
    return any(user is f for each in jitted for f in functions_inside(each))


def _owner(function: Any) -> Any:
    is_method = isinstance(function, types.MethodType)  # it may be `apply` of a user's linen module
    return type(function.__self__) if is_method else innermost(function)


def _package_of(function: Any) -> str:
    return str(attribute(_owner(function), "__module__")).partition(".")[0]


def _is_of_library(function: Any) -> bool:
    owner = _owner(function)
    if isinstance(owner, types.FunctionType):
        return is_library_function(owner)
    module = sys.modules.get(str(attribute(owner, "__module__")))
    return module is not None and is_library_module(module)
