"""One stable object for callables that do the same."""

import functools
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import equinox as eqx

from ._contents import contents_of_function, contents_of_partial
from ._doubts import Doubt
from ._errors import HoistError
from ._interning import Table
from ._jax_private import Jitted
from ._keys import doubts, identify, identity_key

F = TypeVar("F", bound=Callable[..., Any])

_callables: Table[Any] = Table()
# Those in the table, by identity: they need no key to be found again.
_hoisted: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def hoist(fn: F, *, strict: bool = False) -> F:
    """The one object for all callables that do what `fn` does.

    `jax.jit` and `equinox.filter_jit` compare functions by identity, so a lambda, a closure, a
    partial or a jitted function that is made anew is another trace. Hoisted, it is the same object
    as before, as if it were a function of a module.

    ```python
    >>> import canonopt, functools, jax
    >>> def scaled(factor):
    ...     return canonopt.hoist(lambda x: factor * x)
    >>> scaled(2.0) is scaled(2.0), scaled(2.0) is scaled(3.0)
    (True, False)
    >>> canonopt.hoist(jax.nn.relu) is jax.nn.relu
    True

    ```

    Functions do the same when their code is the same object, and their globals, defaults, captured
    values and so on are the same values. Neither source text nor name says so. What cannot be
    compared counts by identity: arrays, what can be changed in place, variables that can be bound
    anew. What is hoisted is a copy, so nothing that is done to `fn` later reaches it.

    **Arguments:**

    - `fn`: any callable: functions and lambdas, partials, bound methods, callable modules, and what
        `jax.jit`, `jax.vmap`, `jax.grad`, `equinox.filter_jit` and so on make of these.
    - `strict`: whether to raise where something in `fn` counts by identity, so that the next one
        like it is another object.

    **Returns:** a callable of the same type, signature and behaviour; `fn` itself if it is stable
    already, as functions of a module are. It lives as long as something uses it, a jit cache for
    one.

    **Raises:** `HoistError` if `fn` is not callable; with `strict`, if some part of it counts by
    identity. The error names the part.
    """
    if not callable(fn):
        raise HoistError(
            f"canonopt.hoist needs a callable, and got {fn!r}. For a model or another pytree that "
            "holds callables, write canonopt.canonicalize(model)."
        )
    if strict and (found := doubts(fn)):
        raise HoistError(_words(fn, found[0]))
    if _hoisted.get(id(fn)) is fn:
        return fn
    key, copy = identify(fn, True)
    return fn if key == identity_key(fn) else _one_for(key, copy)


def one_object(made: F) -> F:
    """The one object for all that are the same as `made`, whose parts are hoisted and stay so."""
    key, _ = identify(made, True)
    return made if key == identity_key(made) else _one_for(key, made)


def _one_for(key: Hashable, made: Any) -> Any:
    try:
        found = _callables.setdefault(key, made)
        _hoisted[id(found)] = found
        return found
    except TypeError:  # a tuple that can be called: jax compares it by value, and nothing holds it
        return made


# --- words ------------------------------------------------------------------------------------


def _words(fn: Any, doubt: Doubt) -> str:
    path = " of ".join(reversed(list(_path_to(doubt.part, fn, set()))))
    where = f"its {path}, {_short(doubt.part)}," if path else "it"
    name = getattr(fn, "__qualname__", type(fn).__qualname__)
    return (
        f"{name} counts by identity, because {where} {doubt.why}. {doubt.remedy} Without "
        "strict=True it is hoisted for what can be compared."
    )


def _path_to(part: Any, value: Any, seen: set[int]) -> Iterator[str]:
    """The names of what leads from a callable to a part of it, as far as they go."""
    seen.add(id(value))
    for name, inner in _parts_of(value):
        if id(inner) not in seen and any(doubt.part is part for doubt in doubts(inner)):
            yield name
            yield from _path_to(part, inner, seen)
            return


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield from contents_of_function(value)
        if "__wrapped__" in vars(value):
            yield "wrapped function", vars(value)["__wrapped__"]
    elif isinstance(value, functools.partial):
        yield from contents_of_partial(value)
    elif isinstance(value, types.MethodType):
        yield "function", value.__func__
        yield "owner", value.__self__
    elif isinstance(value, Jitted):
        yield "jitted function", vars(value)["__wrapped__"]
    elif hasattr(value, "__dict__"):
        for name, attribute in vars(value).items():
            yield f"attribute {name!r}", attribute


def _short(value: Any) -> str:
    text = eqx.tree_pformat(value, width=10_000)
    return text if len(text) <= 60 else f"{text[:57]}..."
