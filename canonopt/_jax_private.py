"""What JAX keeps to itself and canonopt has to know. Nowhere else is anything private read.

Each function says what it relies on and what it gives where that is gone. `tests/test_jax_private`
fails where JAX has moved it.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import jax

Jitted = type(jax.jit(lambda: None))

_OPTIONS = (
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "keep_unused",
    "inline",
)


def jit_options(jitted: Any) -> dict[str, Any] | None:
    """What `jax.jit` was given besides the function, as keyword arguments for it.

    Read from the attribute `_jit_info`, a named tuple of what `jax.jit` made of its arguments. None
    where that is not all there is to `jitted`, or where `jax.jit` makes something else of these.
    """
    try:
        info = jitted._jit_info._asdict()
        options = {name: info[name] for name in _OPTIONS}
        options["compiler_options"] = dict(info["compiler_options_kvs"]) or None
        if info["user_specified_in_shardings"]:
            options["in_shardings"] = info["in_shardings_treedef"].unflatten(
                info["in_shardings_leaves"]
            )
        unspecified: Any = jax.jit(lambda: None)
        if info["out_shardings_leaves"] != unspecified._jit_info.out_shardings_leaves:
            options["out_shardings"] = info["out_shardings_treedef"].unflatten(
                info["out_shardings_leaves"]
            )
        again = jax.jit(jitted.__wrapped__, **options)
        made: Any = again
        same = made._jit_info._asdict() == info and _attributes(again) == _attributes(jitted)
    except Exception:
        return None
    return options if same else None


def _attributes(jitted: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(jitted).items() if name != "_jit_info"}


def rebinds_only_if_set(function: types.FunctionType, name: str) -> bool:
    """Whether `function` binds its captured variable `name` anew only if that is not None.

    No proof in general, but a fact about the function inside of `jax.vmap`: it sets
    `spmd_axis_name` to None, after having asked whether it is something else.
    """
    return (
        name == "spmd_axis_name"
        and function.__code__.co_qualname == "vmap.<locals>.vmap_f"
        and function.__globals__ is _globals_inside(jax.vmap)
    )


def _globals_inside(transform: Any) -> dict[str, Any]:
    while hasattr(transform, "__wrapped__"):
        transform = transform.__wrapped__
    return transform.__globals__


def function_of_partial(partial: functools.partial) -> Callable[..., Any]:
    """What `jax.tree_util.Partial` was given.

    A `functools.partial` is put in an object with the attribute `fun`, lest Python merges the two.
    """
    inner = getattr(partial.func, "fun", None)
    return inner if isinstance(inner, functools.partial) else partial.func
