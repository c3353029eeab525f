"""One stable object for callables that do the same."""

import dataclasses
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax

from .._errors import HoistError
from .._jax_internals import (
    Jitted,
    function_of_partial,
    jit_options,
)
from .._python_internals import WeakIdMap
from .callables import contents_of_function, contents_of_partial, is_in_place
from .incomparable import Incomparable
from .interning import Table, Watched
from .keys import read
from .reader import Reading

F = TypeVar("F", bound=Callable[..., Any])

_callables: Table[Any] = Table()
# What was made by hoisting, with what it has read.
_hoisted: WeakIdMap[Watched] = WeakIdMap()
# From what was hoisted to what was made of it.
_made_from: WeakIdMap[weakref.ref[Any]] = WeakIdMap()


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

    Functions do the same if they have the same code and read the same values: defaults, captured
    variables, and the globals that the code names, with the values these have now. What can change,
    a list or an object, counts by identity and by what is in it. All of it is read again when the
    function is traced: what was traced with other values is not given out again.

    **Arguments:**

    - `fn`: any callable: functions and lambdas, partials, bound methods, callable modules, and what
        `jax.jit`, `jax.vmap`, `jax.grad`, `equinox.filter_jit` and so on make of these.
    - `strict`: whether to raise if something in `fn` is not likely to be the same in the next one
        like it, which is then another object.

    **Returns:** a callable of the same type, signature and behaviour; `fn` itself if it is stable
    already, as functions of a module are, or if it cannot be compared. It lives as long as
    something uses it, a jit cache for one.

    **Raises:** `HoistError` if `fn` is not callable; with `strict`, if a part of it stops the next
    one from being the same. The error names the part.
    """
    if not callable(fn):
        raise HoistError(
            f"canonopt.hoist needs a callable, and got {fn!r}. For a model or another pytree that "
            "holds callables, write canonopt.canonicalize(model)."
        )
    if strict and (found := read((fn,), explain=True).doubts):
        raise HoistError(_words(fn, found[0]))
    if not _can_be_referenced(fn) or _hoisted.get(fn) is not None or is_constant(fn):
        return fn
    # JAX knows a function by its identity, so the same function is the same object again, even if
    # what it reads has changed.
    made = _made_from.get(fn) if type(fn) is types.FunctionType else None
    earlier: Any = None if made is None else made()
    if earlier is not None:
        return earlier
    reading = read((fn,))
    if not reading.is_comparable:
        return fn
    found: Any = _callables.get(reading.key)
    if found is None or ((known := _hoisted.get(found)) is not None and not known.is_unchanged()):
        found = _intern(fn, reading)
    _made_from.set(fn, weakref.ref(found))
    return found


def _intern(fn: Any, reading: Reading) -> Any:
    watched = Watched(reading, lambda: read((fn,)))
    made = _guarded(fn, watched) if reading.can_change else None
    if made is None:
        # Nothing in it can read again. That its class is defined again is left to JAX, which
        # compares classes.
        return fn if reading.reads_data else _callables.setdefault(reading.key, fn)
    found = _callables.setdefault(reading.key, made)
    if found is made:
        watched.stands_in(_callables, reading.key, weakref.ref(made))
        _hoisted.setdefault(made, watched)
    return found


def one_object(made: F) -> F:
    """The one object for all that are the same as `made`, whose parts are hoisted already."""
    reading = read((made,))
    if not reading.is_comparable or reading.reads_data:
        return made
    return _callables.setdefault(("of hoisted parts", reading.key), made)


def _can_be_referenced(fn: Any) -> bool:
    return type(fn).__weakrefoffset__ != 0


def is_constant(fn: Any) -> bool:
    """Whether a module has `fn` under some name, so that it is the same object already."""
    if is_in_place(fn):
        return True
    if isinstance(fn, types.FunctionType):
        return "<locals>" not in fn.__code__.co_qualname and _is_held(fn, fn.__globals__)
    if dataclasses.is_dataclass(fn):  # one that stands for a default
        module = sys.modules.get(type(fn).__module__)
        return module is not None and _is_held(fn, vars(module))
    return False


def _is_held(thing: Any, namespace: Any) -> bool:
    return any(value is thing for value in namespace.values())


# --- what is read again when it is traced -----------------------------------------------------


def _guarded(fn: Any, watched: Watched) -> Any:
    """`fn`, made so that it reads again what it was interned with whenever it runs.

    None if there is no function in it to do that.
    """
    if isinstance(fn, functools.partial):
        function = _guard(function_of_partial(fn), watched)
        made = type(fn)(function, *fn.args, **fn.keywords)
        vars(made).update(vars(fn))
        return made
    if isinstance(fn, types.MethodType):
        return types.MethodType(_guard(fn.__func__, watched), fn.__self__)
    if isinstance(fn, Jitted):
        options = jit_options(fn)
        return None if options is None else jax.jit(_guard(fn.__wrapped__, watched), **options)
    if isinstance(fn, types.FunctionType):
        return _guard(fn, watched)
    return _guarded_object(fn, watched)


def _guard(function: Any, watched: Watched) -> Any:
    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        watched.is_unchanged()
        return function(*args, **kwargs)

    vars(call).update(getattr(function, "__dict__", {}))
    vars(call)["__wrapped__"] = function
    vars(call)["__canonical_original__"] = function
    return call


def _guarded_object(fn: Any, watched: Watched) -> Any:
    """A copy of an object that calls what is in its attributes."""
    attributes = getattr(fn, "__dict__", None) or {}
    changed = {
        name: inner
        for name, part in attributes.items()
        if callable(part) and not isinstance(part, type)
        if (inner := _guarded(part, watched)) is not None
    }
    if not changed:
        return None
    try:
        made = object.__new__(type(fn))
    except TypeError:  # it is written in C
        return None
    vars(made).update({**attributes, **changed})
    return made


# --- words ------------------------------------------------------------------------------------


def _words(fn: Any, doubt: Incomparable) -> str:
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
        if id(inner) not in seen and any(
            doubt.part is part for doubt in read((inner,), explain=True).doubts or ()
        ):
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
