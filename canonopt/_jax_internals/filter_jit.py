"""The call that `equinox.filter_jit` passes to `jax.jit`, which is private."""

import operator
import types
from typing import Any

import jax.tree_util as jtu


def is_of_filter_jit(function: Any) -> bool:
    """Return True if `equinox.filter_jit` made `function` and gave it to `jax.jit`.

    Relies on the qualified name of the function inside of `equinox._jit._filter_jit_cache`.
    """
    # The name in the code, since Equinox gives the function itself the name of the user's.
    name = "_filter_jit_cache.<locals>.fun_wrapped"
    return isinstance(function, types.FunctionType) and function.__code__.co_qualname == name


def call_of_filter_jit(function: Any, args: tuple) -> tuple[Any, tuple, dict[str, Any]] | None:
    """The function and arguments of the user's call. None if it is not a call of `filter_jit`.

    Equinox passes them in three parts, each partitioned into arrays and the rest. What
    `canonopt.filter_jit` gives to `jax.jit` has a function that puts them together.
    """
    if isinstance(function, types.FunctionType) and "__call_of_user__" in vars(function):
        return vars(function)["__call_of_user__"](*args)
    if not is_of_filter_jit(function):
        return None
    try:
        donated, kept, static = args
        dynamic = {**donated, **kept}
        names = ("fun", "first", "rest")
        users, first, (rest, kwargs) = (
            combined(dynamic[name], part) for name, part in zip(names, static, strict=True)
        )
    # With an Equinox that passes other parts. Then `_check_misses` raises an error.
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return users, (first, *rest)[:-1], kwargs  # equinox appends a None


def combined(dynamic: tuple, static: tuple) -> Any:
    """The pytree that Equinox partitioned into arrays and the rest."""
    leaves, structure = static
    parts = zip(dynamic, leaves, strict=True)
    # In the static part None stands for an array, as after `equinox.partition`.
    return jtu.tree_unflatten(structure, [d if s is None else s for d, s in parts])


def is_given(found: Any, value: Any) -> bool:
    """Return True for one object, or one pytree that `equinox.filter_jit` has built again."""
    if found is value or type(found) is not type(value):
        return found is value
    leaves, others = jtu.tree_leaves(found), jtu.tree_leaves(value)
    is_same = len(leaves) == len(others) > 0
    return is_same and all(map(operator.is_, leaves, others))
