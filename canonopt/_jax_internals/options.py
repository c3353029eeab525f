"""`jax.jit` of a function that takes one argument more, before those of the user's function."""

import inspect
import types
from collections.abc import Callable
from typing import Any

import jax


def jit_with_first(
    call: Callable[..., Any], fn: Callable[..., Any], options: dict[str, Any], count: int
) -> Any:
    """Return `jax.jit(call, **options)`, where `call` takes one traced argument more, and first.

    The options are those for `fn`, of which `count` positional arguments are traced. `call` gets
    the name and the signature of `fn`, by which JAX finds static arguments.
    """
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(fn, name):
            setattr(call, name, getattr(fn, name))
    parameters = parameters_of_jitted(fn)
    name = "captured_arrays_"
    while any(parameter.name == name for parameter in parameters):
        name += "_"
    first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
    if parameters:
        # Without the defaults, which may be arrays.
        rest = [p.replace(default=p.default if p.default is p.empty else None) for p in parameters]
        signature = inspect.Signature([first, *rest])
        call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        stand_at(call, fn)
    options = dict(options)
    for kind in ("static", "donate"):
        numbers, names = named_arguments(parameters, options, kind)
        options[f"{kind}_argnums"] = [i if i < 0 else i + 1 for i in numbers]
        options[f"{kind}_argnames"] = names
    given: Any = options.get("in_shardings")
    if given is not None:
        of_each = [given] * count if _is_one_sharding(given) else given
        options["in_shardings"] = (None, *of_each)
    return jax.jit(call, **options)


def stand_at(call: Any, fn: Any) -> None:
    """Let the errors of JAX name the place of `fn` for `call`, which has a signature of its own.

    JAX names the innermost function. `fn` itself would be kept.
    """
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is not None:
        call.__wrapped__ = types.SimpleNamespace(__name__=call.__name__, __code__=code)


def parameters_of_jitted(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; none if it has no signature."""
    try:
        return list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        return []


def named_arguments(
    parameters: list[inspect.Parameter], options: dict[str, Any], kind: str
) -> tuple[list[int], list[str]]:
    """Return the numbers and names of static or donated arguments.

    Each is found from the other as `jax.jit` does it.
    """
    argnums, argnames = options.get(f"{kind}_argnums"), options.get(f"{kind}_argnames")
    numbers: list[int] = [argnums] if isinstance(argnums, int) else list(argnums or ())
    names: list[str] = [argnames] if isinstance(argnames, str) else list(argnames or ())
    by_name = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if argnums is None:
        numbers = [i for i, p in enumerate(parameters) if p in by_name and p.name in names]
    elif argnames is None:
        size = len(parameters)
        found = [parameters[i] for i in numbers if -size <= i < size]
        names = [p.name for p in found if p in by_name]
    return numbers, names


def _is_one_sharding(shardings: Any) -> bool:
    """Return True if `in_shardings` is one for all arguments."""
    is_spec = isinstance(shardings, jax.sharding.PartitionSpec)  # once a subclass of tuple
    return is_spec or not isinstance(shardings, tuple | list)
