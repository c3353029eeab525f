"""Find the signature of a callable inside wrappers that pass the arguments on unchanged."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, or that of `*args, **kwargs` if it has none."""
    function, follow = _past_wrappers(function)
    for eval_str in (True, False):
        try:
            return inspect.signature(function, follow_wrapped=follow, eval_str=eval_str)
        except Exception:  # an annotation with an unknown name, or a function written in C
            continue
    return inspect.signature(lambda *args, **kwargs: None)


# Wrappers of these libraries pass the arguments on unchanged. Other wrappers may take arguments of
# their own, have other defaults, or depend on which arguments were given by position, so the
# signature of the function inside does not describe them.
_PASS_ON = frozenset(
    (
        *("canonopt", "chex", "contextlib", "equinox", "jax", "jaxlib", "jaxtyping", "optax"),
        *("typing_extensions", "warnings", "_py_warnings"),
    )
)


def _past_wrappers(function: Any) -> tuple[Any, bool]:
    """Return a function with the same signature, and whether `inspect` may unwrap it further."""
    if isinstance(function, types.MethodType):
        inner, follow = _past_wrappers(function.__func__)
        return types.MethodType(inner, function.__self__), follow
    if isinstance(function, functools.partial):
        inner, follow = _past_wrappers(function.func)
        return functools.partial(inner, *function.args, **function.keywords), follow
    function = inspect.unwrap(function, stop=lambda f: not _passes_on(f))
    return function, not hasattr(function, "__wrapped__")


def _passes_on(wrapper: Any) -> bool:
    if hasattr(wrapper, "__signature__") and not hasattr(wrapper, "__canonical_owner__"):
        return False
    if isinstance(wrapper, types.FunctionType):
        written_in = wrapper.__globals__.get("__name__", "")
        # Beartype defines its wrapper in the module of the function that it wraps.
        is_beartype = wrapper.__code__.co_filename.startswith("<@beartype(")
        return is_beartype or written_in.partition(".")[0] in _PASS_ON
    module = type(wrapper).__module__
    return module == "functools" or module.partition(".")[0] in _PASS_ON  # such as `lru_cache`
