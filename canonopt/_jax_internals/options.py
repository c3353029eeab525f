"""`jax.jit` of a function that takes further arguments before those of the user's function."""

import inspect
from collections.abc import Callable
from typing import Any

import jax


def jit_with_first(
    call: Callable[..., Any], fn: Callable[..., Any], options: dict[str, Any]
) -> Any:
    """`jax.jit(call, **options)`, where `call` takes two arguments more than `fn`, and first.

    The options are those for `fn`. The first of the two arguments is static, the second traced.
    `call` gets the name and the signature of `fn`, by which JAX finds static arguments.
    """
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(fn, name):
            setattr(call, name, getattr(fn, name))
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    # Under names that the function does not have.
    kind = inspect.Parameter.POSITIONAL_ONLY
    first = [inspect.Parameter(name, kind) for name in ("canonopt_caller_", "canonopt_arrays_")]
    if parameters:
        # Without the defaults, which may be arrays.
        rest = [p.replace(default=p.default if p.default is p.empty else None) for p in parameters]
        signature = inspect.Signature([*first, *rest])
        call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    options = dict(options)
    for kind in ("static", "donate"):
        numbers, names = _completed(
            parameters, options.get(f"{kind}_argnums"), options.get(f"{kind}_argnames")
        )
        numbers = [i if i < 0 else i + len(first) for i in numbers]
        options[f"{kind}_argnums"] = [0, *numbers] if kind == "static" else numbers
        options[f"{kind}_argnames"] = names
    given: Any = options.get("in_shardings")
    if not is_one_sharding(given):
        options["in_shardings"] = (None, *given)
    return jax.jit(call, **options)


def _completed(
    parameters: list[inspect.Parameter], argnums: Any, argnames: Any
) -> tuple[list[int], list[str]]:
    """The numbers and names of arguments, the ones found from the others as `jax.jit` does."""
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


def is_one_sharding(shardings: Any) -> bool:
    """Whether `in_shardings` is one for all arguments, so for those that come first too."""
    is_spec = isinstance(shardings, jax.sharding.PartitionSpec)  # once a subclass of tuple
    return is_spec or not isinstance(shardings, tuple | list)
