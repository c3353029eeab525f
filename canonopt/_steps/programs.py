"""Find the program that a call may run: functions that do the same share one.

`Calls` runs the calls of one function object. The *kind* of a call is the types, structure and
static values of its arguments, and JAX's settings. The first call of a kind reads the function and
the static values. The result, a `Reading`, has their key, and the objects and arrays that they
hold. By this key and the kind, canonopt looks up a `Program`: a result of `jax.jit` that takes the
captured arrays as an argument. A program has one trace, so a function gets the trace of another
only by this lookup. A function that cannot be compared with others runs as under `jax.jit`.
"""

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import attrs
import jax
import jax.core
import jax.tree_util as jtu

from .._identity import (
    ENTERED,
    KEEPS,
    MAX_WORDS,
    NUMPY,
    ONE_ARRAY,
    Copy,
    Reading,
    cleared,
    is_in_place,
    keeps_state,
    note_not_shared,
    read_call,
)
from .._jax_internals.functions import argument_options, name_of
from .._jax_internals.jaxprs import kept_by
from .._jax_internals.options import CAPTURED, jit_with_captured
from .._jax_internals.settings import (
    bound_dimensions,
    entered_context,
    tracing_context,
    whole_context,
)
from .._jax_internals.tracing import NotTraced, unwatched
from .._python_internals.bounded_store import BoundedStore
from .._python_internals.weak import WeakIdMap
from ..errors import DeletedArrayError, ExcessError
from .leaves import as_argument, is_with_any, sharding_of
from .old_traces import has_old_trace, note_call, note_calls, traced_inside
from .templates import filled, template_of


class FunctionToJit:
    """A function to jit, with what a call of it needs."""

    fn: Any  # the function to read, and to copy with tracers in place of captured arrays
    wrapped: Callable[..., Any]  # the function for `jax.jit`, which uses its name and signature
    options: dict[str, Any]
    plain: Any  # the result of `jax.jit` for `wrapped`, for calls that cannot share a program
    statics: frozenset[int | str] = frozenset()  # the static arguments, by number and by name
    # Other values to read with `fn`. `plain` takes them after the arguments.
    beside: tuple[Any, ...] = ()

    def run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `fn`, which is `self.fn` or a copy of it."""
        __tracebackhide__ = True
        return fn(*args, **kwargs)


# --- programs -------------------------------------------------------------------------------------


class Program:
    """A result of `jax.jit` that has one trace, and takes a function's captured arrays as well."""

    bytes = 0  # the size of its constants
    inside: tuple[int, ...]  # indices in `Reading.objects`, as `traced_inside` returns them
    template: Any  # the structure of its output, as `template_of` returns it
    is_whole: bool  # whether its output holds none of the function's objects

    def __init__(self, jitted: FunctionToJit, structure: Any, pinned: list[Any]) -> None:
        mark = self.mark = object()
        # JAX matches the tree of `out_shardings` with the whole result, not with its leaves.
        returns_tree = self.returns_tree = jitted.options.get("out_shardings") is not None

        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            tracing, _thread.tracing = _thread.tracing, None
            if tracing is None or tracing.mark is not mark:
                raise NotTraced
            fn = tracing.jitted.fn
            tracers = kwargs.pop(CAPTURED, ())
            if tracers:  # without arrays, nothing needs a copy
                try:
                    tracing.copy = Copy(fn, tracing.reading, tracers)
                except _UNCOPIED as error:
                    raise NotTraced from error
                fn = tracing.copy.made
            result = tracing.jitted.run(fn, args, kwargs)
            leaves, output = jtu.tree_flatten(result)
            try:
                for leaf in leaves:
                    jax.typeof(leaf)
            except TypeError:
                return result  # JAX refuses the leaf, with an error that says where it is
            tracing.output = output
            template = tracing.template = template_of(output, tracing.reading.objects)
            # JAX keeps the tree of the output alive, and with it the objects in slots.
            return result if returns_tree or template is output else leaves

        # Reports call these two functions.
        vars(call)["__canonical_call__"] = _users_call
        vars(call)["__canonical_trace__"] = functools.partial(_traced_again, mark)
        # With `CAPTURED` in the signature, JAX would resolve negative argument numbers differently.
        options = {**jitted.options, **(argument_options(jitted.plain) or {})}
        self.call = jit_with_captured(call, jitted.wrapped, options)
        self.structure = structure  # the structure of the arguments in its trace
        self.pinned = pinned  # the objects whose ids are in the key


def _users_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the function and the arguments that `jax.jit` would get without a shared program."""
    jitted = _thread.jitted  # of the innermost call in this thread, which misses JAX's cache
    named = {name: arg for name, arg in kwargs.items() if name != CAPTURED}
    return jitted.wrapped, (*args, *jitted.beside), named


def _traced_again(
    mark: object, trace: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], tuple[Any, Sequence[Any]]]:
    """Return a function that traces a call again and returns the trace and the captured arrays."""
    jitted = _thread.jitted

    def again() -> tuple[Any, Sequence[Any]]:
        # The function may capture other arrays by now.
        reading = read_call(jitted.fn, jitted.beside)
        _thread.tracing = _Tracing(mark, jitted, reading)
        try:
            return trace(*args, **{**kwargs, **_as_keyword(reading.arrays)}), reading.arrays
        finally:
            _thread.tracing = None

    return again


class _Thread(threading.local):
    jitted: Any = None  # the function whose call JAX runs
    tracing: "_Tracing | None" = None  # the trace that is about to begin


_thread = _Thread()
programs: BoundedStore[Program] = BoundedStore(1024, 1 << 28, operator.attrgetter("bytes"))
# Maps the key of each traced function that cannot share a program to the reason.
_not_shared: BoundedStore[str] = BoundedStore(1024)
cleared.update((programs, _not_shared))


@attrs.define(eq=False)
class _Tracing:
    """One trace of a program: the function that is traced, and the structure of its result."""

    mark: object
    jitted: FunctionToJit
    reading: Reading
    output: Any = None  # the structure of the function's result
    template: Any = None  # of `output`
    copy: Any = None


# --- calls ----------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Use:
    """A program, with the captured arrays and the output structure of one function."""

    program: Program
    captured: dict[str, Any]
    output: Any

    @functools.cached_property
    def _committed(self) -> Any:
        """Return a committed captured array; None if no captured array is committed."""
        arrays = self.captured.get(CAPTURED, ())
        return next((array for array in arrays if sharding_of(array) is not None), None)

    def __call__(self, jitted: FunctionToJit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the program; return `_UNTRACED` if its trace or arrays do not fit the arguments."""
        __tracebackhide__ = True
        array = self._committed
        if array is not None and not is_with_any(array, _arrays_in(args, kwargs)):
            return _UNTRACED  # no argument is committed to the array's devices
        outer, _thread.jitted = _thread.jitted, jitted
        try:
            result = self.program.call(*args, **self.captured, **kwargs)
        except NotTraced:
            return _UNTRACED
        except (ValueError, RuntimeError) as error:
            for array in self.captured.get(CAPTURED, ()):
                if not isinstance(array, jax.core.Tracer) and array.is_deleted():
                    raise DeletedArrayError(
                        f"{name_of(jitted.wrapped)} captures a {array.dtype.name}{[*array.shape]} "
                        "array that has been deleted or donated. `jax.jit` copies captured arrays "
                        "into each program, but canonopt passes them to the program at each call.",
                        "Capture a copy: `jnp.copy(array)`.",
                    ) from error
            raise
        finally:
            _thread.jitted = outer
        if self.program.is_whole:
            return result
        leaves = jtu.tree_leaves(result) if self.program.returns_tree else result
        return self.output.unflatten(leaves)


_UNTRACED: Any = object()


def _as_keyword(arrays: Sequence[Any]) -> dict[str, Any]:
    return {CAPTURED: tuple(arrays)} if arrays else {}


MAX_KINDS = 4096  # JAX also remembers this many calls of one function


def is_debugging() -> bool:
    """Return True if JAX does not jit, or runs functions again to find a nan."""
    names = ("disable_jit", "debug_nans", "debug_infs")
    return any(getattr(jax.config, f"jax_{name}") for name in names)


class Calls:
    """The calls of one function object.

    A call finds its program by what `jax.jit` compares: the types of arrays, the structure, and
    static values by type and `==`. So the calls of one function find programs as with `jax.jit`.
    """

    __slots__ = ("__weakref__", "_by_kind", "_last", "_steady", "is_plain")

    def __init__(self) -> None:
        self._by_kind: dict[Hashable, _Use] = {}
        self._last: _Use | None = None
        # The program that the last two calls both ran, else None. To try it first is faster than a
        # lookup by the arguments, but costs 0.8 ms if it has no trace for the arguments.
        self._steady: _Use | None = None
        self.is_plain = False  # True if `jax.jit` runs all calls of new kinds

    def __call__(self, jitted: FunctionToJit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        use = self._steady
        result = _UNTRACED if use is None else use(jitted, args, kwargs)
        if result is _UNTRACED:
            use, result = self._looked_up(jitted, args, kwargs)
            if use is None:
                result = jitted.plain(*args, *jitted.beside, **kwargs)
            self._steady, self._last = use if use is self._last else None, use
        return result

    def _looked_up(
        self, jitted: FunctionToJit, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_Use | None, Any]:
        """Return the program and the result; (None, None) if `jax.jit` has to run the call."""
        __tracebackhide__ = True
        if (self.is_plain and not self._by_kind) or is_debugging():
            return None, None
        try:
            kind = _kind_of(jitted, args, kwargs)
            use = self._by_kind.get(kind)
            if use is None and self._by_kind:
                use = self._by_kind.get(_without_meshes(kind))
        except (TypeError, ValueError):  # `jax.jit` raises its own error
            return None, None
        result = _UNTRACED if use is None else use(jitted, args, kwargs)
        if result is not _UNTRACED:  # otherwise, JAX may have forgotten the trace
            return use, result
        if self.is_plain:
            return None, None
        use, result = self._started(kind, jitted, args, kwargs)
        self.is_plain = use is None
        if use is None:
            self._by_kind.pop(kind, None)
        return use, result

    def _started(
        self, kind: Any, jitted: FunctionToJit, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_Use | None, Any]:
        """Find or trace a program for a kind of call and run it. Returns what `_looked_up` does."""
        __tracebackhide__ = True
        avals, structure, static, _ = kind
        fn, options = jitted.fn, jitted.options
        in_options = ((name, *jtu.tree_flatten(o)) for name, o in sorted(options.items()))
        beside = (*jitted.beside, structure, *static, *in_options)
        reading = read_call(fn, beside)
        arrays = reading.arrays
        dimensions = bound_dimensions() if reading.reads_dimensions else None
        key = (reading.key, avals, whole_context(), dimensions)
        reason = NUMPY.format(ONE_ARRAY) if reading.has_numpy else _not_shared.get(key)
        context = entered_context()
        if any(type(v).__hash__ is object.__hash__ and not is_in_place(v) for *_, v in static):
            reason = _STATIC
        elif arrays and "in_shardings" in options:
            reason = _SHARDINGS
        elif context:
            reason = ENTERED.format(context)
        if reason is not None:
            note_not_shared(fn, reason)
        if reason is not None or not reading.is_comparable:
            # JAX keeps traces from a context after it ends, so 0 records None for all functions.
            note_calls(reading, 0 if context else MAX_WORDS)
            return None, None
        donates = not {"donate_argnums", "donate_argnames"}.isdisjoint(options)
        others = _arrays_in(args, kwargs) if arrays else []
        with jax.ensure_compile_time_eval():  # copy arrays now, even if an outer function is traced
            lifted = [as_argument(array, others, donates) for array in arrays]
        if any(array is None for array in lifted):
            note_not_shared(fn, _PLACED)
            return None, None
        captured = _as_keyword(lifted)
        if not arrays:  # with arrays, JAX traces a copy of the function
            note_call(fn)
        program = programs.get(key)
        is_shared = program is not None
        if program is not None:
            if has_old_trace(program.inside, reading):
                reason = _OLD
            elif structure != program.structure:
                reason = _UNEQUAL
            output = filled(program.template, reading.objects) if reason is None else None
        else:
            program = Program(jitted, structure, reading.pinned)
            call = args, {**captured, **kwargs}
            reason, output = _trace(program, jitted, beside, reading, call)
            if reason is not None:
                _not_shared.setdefault(key, reason)
            if output is not None and has_old_trace(program.inside, reading):
                reason = _OLD
            elif reason is None:
                programs.setdefault(key, program)
        if reason is not None:
            note_not_shared(fn, reason)
        if output is None:
            return None, None
        while len(self._by_kind) >= MAX_KINDS:
            self._by_kind.pop(next(iter(self._by_kind)), None)
        # Keep the program before its first run, which may raise an error.
        use = self._by_kind[kind] = _Use(program, captured, output)
        result = use(jitted, args, kwargs)
        if result is not _UNTRACED:
            return use, result
        programs.discard(key, program)  # JAX has kept no trace
        return self._started(kind, jitted, args, kwargs) if is_shared else (None, None)

    def jaxpr_of(self, jitted: FunctionToJit, args: tuple[Any, ...]) -> Any:
        """Return the jaxpr of the program that a call with these arguments has just run.

        Raises `NotTraced` if JAX has forgotten the trace.
        """
        use = self._last
        with unwatched():  # reports count only the user's own calls
            if use is None:
                return jitted.plain.trace(*args, *jitted.beside).jaxpr
            return use.program.call.trace(*args, **use.captured).jaxpr

    def staged(self, how: str, jitted: FunctionToJit, /, *args: Any, **kwargs: Any) -> Any:
        """Call `how`, such as "lower", on a whole program without captures, else on `plain`."""
        with contextlib.suppress(TypeError, ValueError, NotTraced):
            use = self._by_kind.get(_kind_of(jitted, args, kwargs))
            if use is not None and use.program.is_whole and not use.captured:
                outer, _thread.jitted = _thread.jitted, jitted
                try:
                    return getattr(use.program.call, how)(*args, **kwargs)
                finally:
                    _thread.jitted = outer
        note_calls(read_call(jitted.fn, (*args, *jitted.beside, *kwargs.values())))
        if not self.is_plain:  # else keep any earlier reason
            note_not_shared(jitted.fn, _STAGED)
        self.is_plain = True
        return getattr(jitted.plain, how)(*args, *jitted.beside, **kwargs)

    def __len__(self) -> int:
        return len(self._by_kind)

    def clear(self) -> None:
        """Forget the programs. `jax.jit` runs the later calls, and so traces the function again."""
        self._by_kind.clear()
        self._last, self._steady, self.is_plain = None, None, True


def _kind_of(jitted: FunctionToJit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the types, structure, static values and settings by which JAX finds a trace."""
    statics = jitted.statics | {i + len(args) for i in jitted.statics if type(i) is int and i < 0}
    given = (*enumerate(args), *sorted(kwargs.items()))
    static = tuple((place, type(arg), arg) for place, arg in given if place in statics)
    dynamic = [arg for place, arg in enumerate(args) if place not in statics]
    named = {name: arg for name, arg in kwargs.items() if name not in statics}
    leaves, structure = jtu.tree_flatten((dynamic, named))
    return tuple(map(jax.typeof, leaves)), structure, static, tracing_context()


def _without_meshes(kind: Any) -> Any:
    """Return `kind` without the meshes in its types: JAX may find a program by that kind.

    A result of a function that captures an array on a mesh has the mesh in its type, even if the
    result is not committed. Given such a result, JAX runs the program for arrays without a mesh.
    Types inside of `jax.shard_map` keep theirs.
    """
    avals, *rest = kind
    return (*map(_without_mesh, avals),), *rest


def _without_mesh(aval: Any) -> Any:
    mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
    if mesh is None or jax.sharding.AxisType.Manual in mesh.axis_types:
        return aval
    return aval.update(sharding=None)


Known = TypeVar("Known")
_known: WeakIdMap[dict[Hashable, Any]] = WeakIdMap()


def known_of(
    owner: Any, key: Hashable, options: dict[str, Any], make: Callable[[], Known]
) -> Known:
    """Return the first result of `make` for an owner, a key and options, while the owner lives.

    So a function that is jitted again finds its programs.
    """
    leaves, structure = jtu.tree_flatten(options)
    try:
        known, whole = _known.setdefault(owner, {}), (key, *leaves, structure)
        return known[whole] if whole in known else known.setdefault(whole, make())
    except TypeError:  # `owner` takes no weak reference, or an option has no hash
        return make()


# --- the first trace of a program -----------------------------------------------------------------


def _trace(
    program: Program,
    jitted: FunctionToJit,
    beside: tuple[Any, ...],
    reading: Reading,
    given: tuple[tuple[Any, ...], dict[str, Any]],
) -> tuple[str | None, Any]:
    """Trace a new program, and find out if other functions may run it.

    **Returns:** the reason why they may not, or None; and the structure of the output, or None if
    this function may not run the program either.
    """
    __tracebackhide__ = True
    fn = jitted.fn
    tracing = _thread.tracing = _Tracing(program.mark, jitted, reading)
    outer, _thread.jitted = _thread.jitted, jitted
    try:
        traced = program.call.trace(*given[0], **given[1])
    except NotTraced:
        return _WHOLE, None
    except Exception as error:
        note_calls(reading)
        if tracing.copy is None or isinstance(error, ExcessError):
            raise
        # If this trace has changed something, a second trace would change it again.
        if read_call(fn, beside, before=reading).key != reading.key:
            raise
        return _ASKS, None
    finally:
        _thread.tracing, _thread.jitted = None, outer
    program.bytes, kept, places = kept_by(traced.jaxpr)
    program.inside = traced_inside(places, reading)
    template = tracing.template
    program.is_whole = template is tracing.output
    after = read_call(fn, beside, before=reading)
    # A trace may put an equal object in the place of the earlier one: `self.cache = {}`.
    is_same = after.key == reading.key and all(map(operator.is_, after.objects, reading.objects))
    if not is_same or (tracing.copy is not None and not tracing.copy.is_unchanged()):
        reason = _CHANGES
    elif program.inside and reading.passes_objects:
        reason = _PASSES
    elif any(map(keeps_state, kept)):
        reason = KEEPS
    elif template is None:
        reason = _RETURNS
    else:
        program.template = template
        return None, tracing.output
    # If arrays are captured, the copied or new objects may hold tracers of this trace: drop it, and
    # let `jax.jit` trace again. But if the trace has changed the user's objects, and the output has
    # no new objects, keep the trace: a second trace would change the user's objects again.
    is_left = bool(reading.arrays) and (is_same or template is None)
    return reason, None if is_left else tracing.output


# `Copy` raises these errors: the last two if another thread changes an object meanwhile.
_UNCOPIED = (TypeError, RecursionError, ValueError, RuntimeError)
_STAGED = "it was lowered or traced by hand. Make it once."
_WHOLE = (
    "it captures an array in an object that canonopt cannot copy, or may call isinstance "
    "with a class that treats tracers and arrays differently. Pass the array as an argument."
)
_OLD = (
    "an inner function reads a value that has changed since JAX traced that function, and JAX "
    "still uses the old trace. Pass the value as an argument."
)
_UNEQUAL = (
    "an argument holds an object that equals only itself, such as a method of a model. Write "
    "argument = canonopt.canonicalize(argument) once, where it is made."
)
_PASSES = (
    "it gives an inner function an object that equals only itself, and JAX may find an old trace "
    "for that object. Pass only the attributes that the inner function needs, or define __eq__ "
    "and __hash__ in the class of the object."
)
_ASKS = (
    "it needs the value of a captured array while it is traced. Capture a Python number or a tuple "
    "of numbers instead."
)
_CHANGES = (
    "while it is traced, it changes a value that it reads or captures. To count traces, use "
    "canonopt.compile_log. To keep a value, return it. An OmegaConf config changes when it is "
    "read: write lr = config.lr outside of the function."
)
_RETURNS = (
    "it makes and returns an object that is not an array, such as a function. Make the object "
    "outside, or return its arrays: jax.tree.leaves(object)."
)
# With `in_shardings`, JAX refuses keyword arguments, such as `CAPTURED`.
_SHARDINGS = "it captures an array and has in_shardings. Pass the array as an argument."
_PLACED = (
    "it captures an array in host memory, on a mesh with explicit axes, or on other hosts, and no "
    "argument is committed to the array's devices. Pass the array as an argument."
)
# A program keeps its static arguments alive. If one of them equals only itself, and no module has
# it under its name, no later call is likely to find the program.
_STATIC = (
    "one of its static arguments equals only itself. Let the function capture that argument "
    "instead, or define __eq__ and __hash__ in its class."
)


def _arrays_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[jax.Array]:
    return [leaf for leaf in jtu.tree_leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
