"""What is private in `equinox.filter_jit`: the call that it passes to `jax.jit`, and its errors."""

import contextlib
import itertools
import logging
import operator
import types
from typing import Any

import equinox as eqx
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


# --- errors of `equinox.error_if` ---------------------------------------------------------------


class HidingFailedCallbacks(logging.Filterer):
    """A context in which JAX does not log that a callback has failed: an error says so.

    Relies on the name of the logger and on the text of the message. If these are others, the
    message is logged.
    """

    def __enter__(self) -> None:
        _callbacks.addFilter(self)

    def __exit__(self, *_: object) -> None:
        _callbacks.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != "jax.pure_callback failed"


_callbacks = logging.getLogger("jax._src.callback")


def error_of_equinox(error: Exception, key: bytes) -> Exception | None:
    """Return the error that `equinox.filter_jit` raises in place of `error`; None for the same.

    It is Equinox that makes the new error, of the last one that `equinox.error_if` has noted. The
    stack in it begins at the frame whose variable `__equinox_jit_id__` is `key`. Relies on the name
    of that variable, and on `equinox._jit.last_error_info`. If Equinox has moved these, the stack
    begins at the top of the program.
    """
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from equinox import _jit

        message, stack = getattr(_jit, "last_error_info", None)  # pyright: ignore
        inner = itertools.takewhile(lambda piece: piece != key, stack)
        _jit.last_error_info = message, [piece for piece in inner if isinstance(piece, str)]

    traceback = error.__traceback__

    def raise_again() -> None:
        raise error

    try:
        _filter_jit(raise_again)()
    except eqx.EquinoxRuntimeError as found:
        return found
    except type(error):
        error.__traceback__ = traceback
    return None


_filter_jit = eqx.filter_jit  # also where another stands in for it, as in the tests of Equinox


def is_given(found: Any, value: Any) -> bool:
    """Return True for one object, or one pytree that `equinox.filter_jit` has built again."""
    if found is value or type(found) is not type(value):
        return found is value
    leaves, others = jtu.tree_leaves(found), jtu.tree_leaves(value)
    is_same = len(leaves) == len(others) > 0
    return is_same and all(map(operator.is_, leaves, others))
