"""One program for functions that are made again: which call may run which program.

`Calls` has the calls of one function object. The first call with arguments of a kind reads all that
the function and its arguments bring, and looks up the program for that key. A program is what
`jax.jit` makes of the function without the arrays that it captures: these are its first argument.
It has one trace, so nothing that another function has traced is run without such a look. What
cannot be shown to be the same is called as `jax.jit` calls it.
"""

import functools
import operator
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

import attrs
import jax
import jax.core
import jax.tree_util as jtu

from .._identity import (
    cleared,
    is_in_place,
    note_not_shared,
    read_call,
    with_arrays,
)
from .._jax_internals import (
    NotTraced,
    jit_with_first,
    kept_by,
    name_of,
    tracing_context,
    unwatched,
    whole_context,
)
from .._python_internals import BoundedStore
from ..errors import DeletedArrayError, ExcessError
from .leaves import as_argument
from .templates import fill, slotted

# --- programs -------------------------------------------------------------------------------------


class Program:
    """A result of `jax.jit` for a function without the arrays that it captures, for one trace."""

    bytes = 0  # of its constants
    template: Any = None  # the structure of its output, see `slotted`
    has_slots = False  # whether that is another one for each function

    def __init__(self, jitted: "Jitted", count: int, pinned: Iterable[Any]) -> None:
        mark = self.mark = object()

        def call(arrays: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
            tracing, _thread.tracing = _thread.tracing, None
            if tracing is None or tracing.mark is not mark:
                raise NotTraced(mark)
            return tracing.run(arrays, args, kwargs)

        # For reports. The call that misses JAX's cache is always the last one of this thread.
        vars(call)["__canonical_call__"] = lambda _, *args: (_thread.jitted.wrapped, args)
        vars(call)["__canonical_trace__"] = functools.partial(_traced_again, mark)
        self.call = jit_with_first(call, jitted.wrapped, jitted.options, count)
        self.pinned = pinned  # of which the key has the ids


def _traced_again(
    mark: object, trace: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    """Return what traces the function of the call that runs now, as it is then."""
    jitted = _thread.jitted

    def again() -> Any:
        body = jitted.body()
        # What the function captures may be other arrays by now.
        arrays = read_call(body.fn, body.beside)[1] if args[0] else []
        _thread.tracing = _Tracing(mark, body, arrays)
        try:
            return trace(tuple(arrays), *args[1:], **kwargs)
        finally:
            _thread.tracing = None

    return again


class _Thread(threading.local):
    jitted: Any = None  # what JAX is called for
    tracing: "_Tracing | None" = None  # what is traced next


_thread = _Thread()
programs: BoundedStore[Program] = BoundedStore(1024, 1 << 28, operator.attrgetter("bytes"))
# From keys of functions that were traced and cannot share a program to the reason.
_not_shared: BoundedStore[str] = BoundedStore(1024)
cleared.update((programs, _not_shared))


class Jitted(Protocol):
    """A function that is jitted."""

    wrapped: Callable[..., Any]  # what `jax.jit` is given: its name and signature count
    options: dict[str, Any]
    plain: Any  # what `jax.jit` makes of it
    # The static arguments, by number and by name.
    statics: tuple[frozenset[int], frozenset[str]]

    def body(self) -> "Body":
        """Return what is called now."""
        ...


@attrs.frozen(eq=False)
class Body:
    """The function that is called, and how, at one moment."""

    fn: Any  # is copied with tracers in place of the arrays that it captures
    run: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]  # calls `fn` or its copy
    beside: tuple[Any, ...] = ()  # what else is read


class NotShared(Exception):
    """A function failed with tracers for its arrays. `jax.jit` traces it again."""


@attrs.define(eq=False)
class _Tracing:
    """The function that a program is traced for."""

    mark: object
    body: Body
    arrays: list[Any]
    output: Any = None  # the structure of what the function returned
    copy: Any = None

    def run(self, tracers: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        fn = self.body.fn
        if self.arrays:
            new = {id(array): tracer for array, tracer in zip(self.arrays, tracers, strict=True)}
            self.copy = with_arrays(fn, lambda array: new.get(id(array), array))
            fn = self.copy.function
        try:
            result = self.body.run(fn, args, kwargs)
        except Exception as error:
            if self.copy is None:
                raise
            raise NotShared(_ASKS) from error
        leaves, output = jtu.tree_flatten(result)
        if not all(map(_is_typed, leaves)):
            return result  # which JAX refuses, and names the place
        self.output = output
        return leaves


def _is_typed(leaf: Any) -> bool:
    try:
        jax.typeof(leaf)
    except TypeError:
        return False
    return True


# --- calls ----------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Use:
    """A program, as one function runs it."""

    program: Program
    arrays: tuple[Any, ...]
    output: Any

    def __call__(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the program; `_UNTRACED` if it has no trace for these arguments."""
        _thread.jitted = jitted
        try:
            leaves = self.program.call(self.arrays, *args, **kwargs)
        except NotTraced as error:
            if error.args[0] is not self.program.mark:  # of a function that this one calls
                raise
            return _UNTRACED
        except (ValueError, RuntimeError) as error:
            for array in self.arrays:
                if not isinstance(array, jax.core.Tracer) and array.is_deleted():
                    raise _deleted(jitted, array) from error
            raise
        finally:
            _thread.jitted = None
        return self.output.unflatten(leaves)


_UNTRACED: Any = object()


def _deleted(jitted: Jitted, array: Any) -> DeletedArrayError:
    return DeletedArrayError(
        f"{name_of(jitted.wrapped)} captures a {array.dtype.name}{[*array.shape]} array that has "
        f"been deleted or donated. `jax.jit` copies captured arrays into each program; "
        f"`canonopt.jit` passes them to it at each call.",
        "Capture a copy: `jnp.copy(array)`.",
    )


_MAX_KINDS = 4096  # as many as JAX remembers calls of one function


class Calls:
    """The calls of one function object.

    Its programs are found by what `jax.jit` compares: types of arrays, structure, and static values
    by `==`. So within one function, calls hit as they do with `jax.jit`.
    """

    __slots__ = ("__weakref__", "_by_kind", "_is_steady", "_last", "is_plain")

    def __init__(self) -> None:
        # None for those that are called as `jax.jit` calls them.
        self._by_kind: dict[Hashable, tuple[_Use, ...] | None] = {}
        self._last: _Use | None = None
        # Whether the last two calls ran one program. Then it is tried first: that costs less than
        # to look at the arguments, but 0.8 ms if it fails.
        self._is_steady = False
        self.is_plain = False  # whether new kinds of arguments are no longer looked at

    def __call__(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        use = self._last
        if use is not None and self._is_steady:
            result = use(jitted, args, kwargs)
            if result is not _UNTRACED:
                return result
        if self.is_plain and not self._by_kind:
            return jitted.plain(*args, **kwargs)
        return self._look_up(jitted, args, kwargs)

    def _look_up(self, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        config: Any = jax.config
        if config.jax_disable_jit:
            return jitted.plain(*args, **kwargs)
        try:
            kind = _kind_of(jitted, args, kwargs)
            uses = self._by_kind.get(kind, ())
        except (TypeError, ValueError):  # `jax.jit` says what is wrong
            return jitted.plain(*args, **kwargs)
        if uses is None:
            self._last = None
            return jitted.plain(*args, **kwargs)
        for use in uses:
            result = use(jitted, args, kwargs)
            if result is not _UNTRACED:  # JAX has forgotten it, or tells 1 from True here
                self._is_steady, self._last = use is self._last, use
                return result
        # To find a nan, JAX runs the function again; to find leaks, it keeps no traces.
        self.is_plain |= config.jax_debug_nans or config.jax_debug_infs
        self.is_plain |= config.jax_check_tracer_leaks
        use, result = (None, None) if self.is_plain else _started(kind, jitted, args, kwargs)
        self.is_plain |= use is None
        if use is not None or self._by_kind:
            while len(self._by_kind) >= _MAX_KINDS:
                self._by_kind.pop(next(iter(self._by_kind)), None)
            self._by_kind[kind] = None if use is None else (*uses[-3:], use)
        self._is_steady, self._last = len(self._by_kind) == 1, use
        return jitted.plain(*args, **kwargs) if use is None else result

    def jaxpr_of(self, jitted: Jitted, args: tuple[Any, ...]) -> Any:
        """Return the traced program that a call with these arguments has just run.

        Raises `NotTraced` if JAX has forgotten it.
        """
        use = self._last
        with unwatched():  # it is no call of the user's
            if use is None:
                return jitted.plain.trace(*args).jaxpr
            return use.program.call.trace(use.arrays, *args).jaxpr

    def __len__(self) -> int:
        return sum(len(uses or ()) for uses in [*self._by_kind.values()])

    def clear(self) -> None:
        """Forget the programs, and look for no others: the function is to be traced again."""
        self._by_kind.clear()
        self._last, self._is_steady, self.is_plain = None, False, True


def _kind_of(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what `jax.jit` compares of a call to find a trace."""
    numbers, names = jitted.statics
    count = len(args)
    numbers = {i + count if i < 0 else i for i in numbers}
    static = tuple(arg for i, arg in enumerate(args) if i in numbers)
    static += tuple((name, kwargs[name]) for name in sorted(names & kwargs.keys()))
    dynamic = [arg for i, arg in enumerate(args) if i not in numbers]
    named = {name: arg for name, arg in kwargs.items() if name not in names}
    leaves, structure = jtu.tree_flatten((dynamic, named))
    return tuple(map(jax.typeof, leaves)), structure, static, tracing_context()


# --- the first call with arguments of a kind ------------------------------------------------------


def _started(
    kind: Any, jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[_Use | None, Any]:
    """Return the program for a function and arguments of this kind, and its result for these.

    None if the function is to be called as `jax.jit` calls it.
    """
    avals, structure, static, _ = kind
    body = jitted.body()
    beside = (*body.beside, structure, *static, *_flat(jitted.options))
    reading, arrays = read_call(body.fn, beside)
    key = (reading.key, avals, whole_context())
    reason = _NUMPY if reading.has_numpy else _not_shared.get(key)
    if reason is not None:
        note_not_shared(body.fn, reason)
    if reason is not None or not reading.is_comparable:
        return None, None
    leaves = jtu.tree_leaves((args, kwargs)) if arrays else ()
    given = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    donates = not {"donate_argnums", "donate_argnames"}.isdisjoint(jitted.options)
    values = tuple(as_argument(array, given, donates) for array in arrays)
    program = programs.get(key)
    if program is not None:
        template = program.template
        output = fill(template, reading.objects) if program.has_slots else template
        use = _Use(program, values, output)
        result = use(jitted, args, kwargs)
        if result is not _UNTRACED:
            return use, result
        programs.discard(key, program)  # JAX has forgotten its programs
    program = Program(jitted, len(structure.children()[0].children()), reading.pinned)
    tracing = _thread.tracing = _Tracing(program.mark, body, arrays)
    _thread.jitted = jitted
    try:
        traced = program.call.trace(values, *args, **kwargs)
    except Exception as error:
        if tracing.copy is None or isinstance(error, ExcessError):
            raise
        _refuse(key, body.fn, _ASKS)
        return None, None
    finally:
        _thread.tracing = _thread.jitted = None
    program.bytes, keeps_code = kept_by(traced.jaxpr)
    template = slotted(tracing.output, reading.objects)
    is_same = read_call(body.fn, beside, before=reading)[0].key == reading.key
    is_copy_same = tracing.copy is None or tracing.copy.is_unchanged()
    reason = _KEEPS if keeps_code else _RETURNS if template is None else None
    reason = _CHANGES if not (is_same and is_copy_same) else reason
    if reason is not None:
        _refuse(key, body.fn, reason)
        if arrays and (keeps_code or template is None or not is_copy_same):
            return None, None  # tracers are left in what it made or changed
    use = _Use(program, values, tracing.output)
    result = use(jitted, args, kwargs)
    if result is _UNTRACED:  # JAX keeps no traces
        return None, None
    # A static argument that only equals itself would be kept, for nobody to find.
    if reason is None and not any(map(_is_object, static)):
        program.template, program.has_slots = template, template is not tracing.output
        programs.setdefault(key, program)
    return use, result


_ASKS = (
    "it asks for the value of an array that it captures. Pass the array as an argument, or capture "
    "a Python number."
)
_CHANGES = (
    "it changes what it reads or captures while it is traced. Return what the trace is to keep; "
    "to count traces, use canonopt.compile_log."
)
_KEEPS = (
    "its program calls code of it again, as callbacks and rules for derivatives do. Define these "
    "at the top level of a module."
)
_RETURNS = "it returns an object that is not one of its arguments. Make that outside of it."
# While a program with a constant from it lives, JAX takes old values for those of the array.
_NUMPY = "it reads a NumPy array, which may change in place. Read jnp.asarray(array) instead."


def _refuse(key: Hashable, fn: Any, reason: str) -> None:
    _not_shared.setdefault(key, reason)
    note_not_shared(fn, reason)


def _flat(options: dict[str, Any]) -> list[Any]:
    return [(name, *jtu.tree_flatten(option)) for name, option in sorted(options.items())]


def _is_object(value: Any) -> bool:
    """Return True if a value equals only itself and is not what a module has under a name."""
    return type(value).__hash__ is object.__hash__ and not is_in_place(value)
