"""The arguments of a callable, past the wrappers that pass them on unchanged."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters by name; `*args` and `**kwargs` if there is no signature."""
    function, follow = _past_wrappers(function)
    for eval_str in (True, False):
        try:
            found = inspect.signature(function, follow_wrapped=follow, eval_str=eval_str)
            return dict(found.parameters)
        except Exception:  # an annotation with an unknown name, or a function written in C
            continue
    return dict(inspect.signature(lambda *args, **kwargs: None).parameters)


# Libraries whose wrappers pass the arguments on unchanged. Other wrappers may take arguments of
# their own, have other defaults, or depend on which ones were given by position, so the signature
# of the function inside does not describe them.
_PASS_ON = frozenset(
    (
        *("canonopt", "chex", "contextlib", "equinox", "jax", "jaxlib", "jaxtyping", "optax"),
        *("typing_extensions", "warnings", "_py_warnings"),
    )
)


def _past_wrappers(function: Any) -> tuple[Any, bool]:
    """Return a function with this signature, and True if `inspect` may unwrap it further."""
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
    return module == "functools" or module.partition(".")[0] in _PASS_ON  # functools.lru_cache


def signature_with_alias(
    function: Callable[..., Any], name: str, alias: str, default: Any
) -> inspect.Signature | None:
    """Return the signature of `function` with a keyword, `alias`, as another name of a parameter.

    `None` if there is no such parameter, or if `alias` may be one of its own.
    """
    is_plain = isinstance(function, types.FunctionType) and not vars(function)
    if is_plain and name not in function.__code__.co_varnames:  # faster than the signature
        return None
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):  # a function written in C
        return None
    aliased, parameters = found.parameters.get(name), list(found.parameters.values())
    takes_others = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if aliased is None or takes_others or alias in found.parameters:
        return None
    if aliased.kind not in (aliased.POSITIONAL_OR_KEYWORD, aliased.KEYWORD_ONLY):
        return None
    added = aliased.replace(name=alias, kind=aliased.KEYWORD_ONLY, default=default)
    return found.replace(parameters=[*parameters, added])
