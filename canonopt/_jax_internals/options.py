"""Apply `jax.jit` to a function that takes one more argument than the user's function."""

import contextlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import jax

# The extra argument, for captured arrays. It is keyword-only, so the others keep their numbers.
CAPTURED = "captured_by_canonopt"


def jit_with_captured(
    call: Callable[..., Any], fn: Callable[..., Any], options: dict[str, Any]
) -> Any:
    """Return `jax.jit(call, **options)`, where `call` takes the arguments of `fn` and `CAPTURED`.

    The options are those for `fn`. `call` gets the name and the signature of `fn`, because JAX
    finds static arguments by the signature.
    """
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(fn, name):
            setattr(call, name, getattr(fn, name))
    parameters: list[inspect.Parameter] = []
    with contextlib.suppress(ValueError, TypeError):  # some functions in C have no signature
        parameters = bare_parameters(fn)
    if parameters:
        captured = inspect.Parameter(CAPTURED, inspect.Parameter.KEYWORD_ONLY, default=None)
        parameters.insert(len(parameters) - (parameters[-1].kind is captured.VAR_KEYWORD), captured)
        vars(call)["__signature__"] = inspect.Signature(parameters)
        stand_at(call, fn)
    return jax.jit(call, **options)


def stand_at(call: Any, fn: Any) -> None:
    """Make JAX's errors name the file and line of `fn` instead of those of `call`.

    JAX names the innermost wrapped function. `call` wraps a stand-in, so that `fn` may be freed.
    """
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is not None:
        call.__wrapped__ = types.SimpleNamespace(__name__=call.__name__, __code__=code)


def bare_parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters. Drop annotations, and make defaults None: either may be an array."""
    return [
        inspect.Parameter(p.name, p.kind, default=p.default if p.default is p.empty else None)
        for p in inspect.signature(fn).parameters.values()
    ]
