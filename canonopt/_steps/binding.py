"""A function and its program: binding the one to the other, and looking at each trace.

`bind` takes the arrays that a function captures out of it, reads the rest, and looks up the program
for that. A call brings its function along as a static argument, the `Caller`, since `jax.jit` hands
it to the trace. Whether two callers are equal decides whether the one may run what was traced for
the other. The arrays are ordinary arguments. `traced` looks at each trace before it is used.
"""

import itertools
import operator
import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import attrs
import jax
import jax.core
import jax.tree_util as jtu

from .._identity import (
    captured_arrays,
    cleared,
    is_in_place,
    read_without_arrays,
    with_arrays,
)
from .._jax_internals import (
    NotTraced,
    agrees,
    has_values,
    is_one_sharding,
    is_staging,
    jit_with_first,
    kept_by,
    on_texts_of_tracers,
)
from .._python_internals import BoundedStore
from .leaves import as_argument, is_asked_by_jax

# --- the programs that are kept -----------------------------------------------------------------


class Program:
    """What `jax.jit` makes of a function without what it captures."""

    bytes = 0  # of its constants

    def __init__(self, fn: Any, options: dict[str, Any], pinned: Sequence[Any] = ()) -> None:
        def call(caller: "Caller", arrays: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
            return caller.bound_now().run(caller, arrays, args, kwargs)

        def users_call(caller: "Caller", _: Any, *args: Any) -> tuple[Any, tuple, Hashable]:
            bound = caller.bound_now()
            return bound.fn, args, bound.key

        vars(call)["__canonical_call__"] = users_call  # for reports
        self.call = jit_with_first(call, fn, options)
        # JAX's caches compare callers with Python code. If another thread changed such a cache
        # meanwhile, the process would crash.
        self.lock = threading.RLock()
        self.pinned = pinned  # of which the key has the ids


programs: BoundedStore[Program] = BoundedStore(1024, 1 << 28, operator.attrgetter("bytes"))
# The captured arrays whose values a function asks for, by index.
_known_to_be_asked: BoundedStore[frozenset[int]] = BoundedStore(1024)
cleared.update((programs, _known_to_be_asked))


# --- one function and its program -----------------------------------------------------------------


class BodyFailed(Exception):
    """A function failed with tracers for its arrays."""


class ValuesAsked(BaseException):
    """A function makes a text of arrays that are tracers, so it asks for their values.

    Raised in the middle of its body, where `except Exception` lets it pass, also through the bodies
    of other functions that are traced inside of it.
    """

    def __init__(self, caller: "Caller", arrays: set[int]) -> None:
        self.caller = caller
        self.arrays = frozenset(arrays)  # by index


class BodyStored(Exception):
    """A function changed a list, a dict or a variable that was copied with tracers in it."""


_numbers = itertools.count()


class Caller:
    """Stands for the function of one call, in the key of a trace.

    JAX compares it with the callers of earlier calls, and keeps the first one with the trace. So
    the reference is weak.
    """

    __slots__ = ("bound", "is_good", "is_private", "number")

    def __init__(self, bound: "Bound", is_good: bool = True) -> None:
        self.bound = bound.reference
        self.number = next(_numbers)
        # False while its trace is made and looked at, and for good if that is not to be used.
        self.is_good = is_good
        self.is_private = bound.is_private

    def bound_now(self) -> "Bound":
        bound = self.bound()
        assert bound is not None  # the caller's own frame holds it
        return bound

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Caller):
            return self is other
        old, new = (self, other) if self.number < other.number else (other, self)
        bound = new.bound()
        return old.is_good and bound is not None and bound.may_run(old)


@attrs.define(eq=False)
class Bound:
    """A function as it was when it was read, with the program for it."""

    fn: Any
    options: dict[str, Any]
    program: Program | None = None  # None if no other function is known to do the same
    key: Hashable = None
    captured: list[Any] = attrs.Factory(list)
    # The captured arrays whose values the function asks for, by index: constants of the program.
    asked: frozenset[int] = frozenset()
    # What the program is called with for the others.
    arguments: tuple[Any, ...] = ()
    is_new: bool = False  # whether the program has no trace yet
    is_fresh: bool = True  # bound in this very call
    # Whether the function has been called after something that it reads had changed.
    has_diverged: bool = False
    is_private: bool = False  # whether its traces are for this function only
    # The callers of others whose traces it has run, by id.
    known: dict[int, Caller] = attrs.Factory(dict)
    reference: Any = None

    def __attrs_post_init__(self) -> None:
        self.reference = weakref.ref(self)

    @property
    def replaced(self) -> list[Any]:
        """The captured arrays that are arguments of the program."""
        return [array for i, array in enumerate(self.captured) if i not in self.asked]

    @property
    def all_arrays(self) -> frozenset[int]:
        return frozenset(range(len(self.captured)))

    @property
    def numpy_arrays(self) -> frozenset[int]:
        arrays = enumerate(self.captured)
        return frozenset(i for i, array in arrays if not isinstance(array, jax.Array))

    def may_run(self, caller: Caller) -> bool:
        """Whether this function may run what was traced for another.

        `jax.jit` runs its earlier programs for types of arguments that it knows, and traces what
        the function is now for others. So a function that has changed may run what it has run
        before, and nothing else.
        """
        if caller.bound() is self or id(caller) in self.known:
            return True
        if caller.is_private or self.is_private or not self.is_current():
            return False
        self.known[id(caller)] = caller
        return True

    def is_current(self) -> bool:
        """Whether the function has always been what it was when it was bound."""
        if not self.is_fresh and not self.has_diverged:
            self.has_diverged = self.has_changed()
        return not self.has_diverged

    def run(
        self, caller: Caller, arrays: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs the function, in a trace, with tracers for its arrays."""
        config: Any = jax.config
        is_eager = config.jax_disable_jit or not is_staging()  # as JAX does to find a nan
        if is_eager or not (arrays or caller.is_good):
            return self.fn(*args, **kwargs)
        if caller.is_good:
            raise NotTraced  # the program has no trace for these arguments
        tracers = {id(array): new for array, new in zip(self.replaced, arrays, strict=True)}
        asked: set[int] = set()
        given = {id(leaf) for leaf in jtu.tree_leaves((args, kwargs))}

        def text_made(tracer: Any) -> None:
            asked.update(i for i, a in enumerate(self.captured) if tracers.get(id(a)) is tracer)
            if not asked and id(tracer) not in given:
                # What NumPy computes with its arrays is concrete, too.
                asked.update(self.numpy_arrays - self.asked)
            if asked:
                raise ValuesAsked(caller, asked)

        try:
            with on_texts_of_tracers(text_made):
                copy = with_arrays(self.fn, lambda array: tracers.get(id(array), array))
                result = copy.function(*args, **kwargs)
        except Exception as error:
            raise (ValuesAsked(caller, asked) if asked else BodyFailed()) from error
        if asked:  # and something has caught the error
            raise ValuesAsked(caller, asked)
        if not copy.is_unchanged():
            raise BodyStored
        return result

    def has_changed(self) -> bool:
        try:
            captured = captured_arrays(self.fn)
            if len(captured) != len(self.captured) or not all(
                map(operator.is_, captured, self.captured)
            ):
                return True
            now = read_without_arrays(self.fn, captured, self.asked, _flat(self.options))
            pairs = zip(self.replaced, self.arguments, strict=True)
            return now.key != self.key or not all(
                isinstance(old, jax.Array) or has_values(old, new) for old, new in pairs
            )
        except Exception:  # it cannot be copied any more
            return True

    def set_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Sets the arguments for a call with these others. Whether they are not as before."""
        given = [x for x in jtu.tree_leaves((args, kwargs)) if isinstance(x, jax.Array)]
        donates = not {"donate_argnums", "donate_argnames"}.isdisjoint(self.options)
        before = self.arguments
        self.arguments = tuple(as_argument(array, given, donates) for array in self.replaced)
        return len(before) != len(self.arguments) or not all(
            map(operator.is_, before, self.arguments)
        )


def _flat(options: dict[str, Any]) -> list[Any]:
    return [(name, *jtu.tree_flatten(option)) for name, option in sorted(options.items())]


# --- finding the program --------------------------------------------------------------------------


def bind(
    fn: Any,
    options: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    asked: frozenset[int] | None = None,
) -> Bound:
    """Reads a function that is called with these arguments, and looks up its program.

    `asked` are the captured arrays whose values it asks for; None if that is not known.
    """
    try:
        captured = captured_arrays(fn)
        reading = read_without_arrays(fn, captured, (), _flat(options))
        if asked is None:
            shardings = options.get("in_shardings")
            asked = _known_to_be_asked.get(reading.key) or frozenset()
            # One sharding for all arguments would be that of the arrays too.
            if reading.can_tell_tracers or (shardings is not None and is_one_sharding(shardings)):
                asked = frozenset(range(len(captured)))
        asked |= {i for i, array in enumerate(captured) if is_asked_by_jax(array)}
        if asked and reading.is_comparable:
            reading = read_without_arrays(fn, captured, asked, _flat(options))
    except Exception:  # something cannot be copied, or is nested too deeply for it
        return Bound(fn, options)
    if not reading.is_comparable:
        return Bound(fn, options)
    program = programs.get(reading.key)
    bound = Bound(fn, options, program, reading.key, captured, asked)
    bound.set_arguments(args, kwargs)
    if program is None:
        bound.is_new = True
        bound.program = programs.setdefault(reading.key, Program(fn, options, reading.pinned))
    return bound


def _bind_again(
    bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any], asked: frozenset[int]
) -> Bound:
    """Binds the same function, now that these arrays are known to be asked for their values."""
    unread = read_without_arrays(bound.fn, bound.captured, (), _flat(bound.options))
    _known_to_be_asked.set(unread.key, asked)
    return bind(bound.fn, bound.options, args, kwargs, asked)


# --- traces ---------------------------------------------------------------------------------------


def traced(
    bound: Bound, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Bound, bool]:
    """Traces a program for these arguments. Returns the function, bound to it, and whether to run
    that, and not `plain`, the function as `jax.jit` has it.
    """
    while bound.program is not None and bound.is_current():
        caller = Caller(bound, is_good=False)
        try:
            with bound.program.lock:
                new = bound.program.call.trace(caller, bound.arguments, *args, **kwargs).jaxpr
        except BodyFailed:
            asked = _asked(bound, args, kwargs)
            if asked is None:
                return bound, False  # which raises the error of the function
            bound = _bind_again(bound, args, kwargs, asked)
            continue
        except ValuesAsked as error:
            if error.caller is not caller:
                raise
            bound = _bind_again(bound, args, kwargs, bound.asked | error.arrays)
            continue
        except BodyStored:
            _bind_again(bound, args, kwargs, bound.all_arrays)
            return Bound(bound.fn, bound.options), False  # so that it stores once
        bound.is_new = False
        size, keeps_code = kept_by(new)
        has_changed = bound.has_changed()  # by its own body
        if has_changed or keeps_code:
            programs.discard(bound.key, bound.program)
            if keeps_code and bound.replaced:  # the code may have the tracers
                bound = _bind_again(bound, args, kwargs, bound.all_arrays)
                continue
            bound.is_private = caller.is_private = True
        elif not bound.numpy_arrays <= bound.asked:
            # NumPy computes with its arrays before JAX sees them, and may round in another way.
            is_same = agrees(new, plain.trace(*args, **kwargs).jaxpr, bound.replaced)
            if bound.has_changed():
                return Bound(bound.fn, bound.options), False
            if not is_same:
                bound = _bind_again(bound, args, kwargs, bound.asked | bound.numpy_arrays)
                continue
        if any(map(_is_object, jtu.tree_leaves((args, kwargs)))):
            # A static argument, which the program would keep.
            programs.discard(bound.key, bound.program)
        bound.program.bytes += size
        programs.shrink()
        caller.is_good = True
        return bound, True
    return bound, False


def _is_object(value: Any) -> bool:
    """Whether a value equals only itself and is not what a module has under a name."""
    return type(value).__hash__ is object.__hash__ and not is_in_place(value)


def _asked(bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int] | None:
    """The captured arrays whose values a function asks for. None if it fails with all of them."""

    def fails(asked: frozenset[int]) -> bool:
        trial = Bound(bound.fn, bound.options, None, None, bound.captured, asked)
        trial.set_arguments(args, kwargs)
        call = Program(bound.fn, bound.options).call
        caller = Caller(trial, is_good=False)
        try:
            call.eval_shape(caller, trial.arguments, *args, **kwargs)
        except ValuesAsked as error:
            if error.caller is not caller:
                raise
            return True
        except Exception:
            return True
        return False

    def needed(known: frozenset[int], is_new: bool, among: list[int]) -> frozenset[int]:
        """The fewest of some arrays to ask for besides those that are known (QuickXplain)."""
        if is_new and not fails(known):
            return frozenset()
        if len(among) == 1:
            return frozenset(among)
        first, second = among[: len(among) // 2], among[len(among) // 2 :]
        of_second = needed(known | {*first}, bool(first), second)
        return of_second | needed(known | of_second, bool(of_second), first)

    if fails(bound.all_arrays):
        return None
    # The smallest first, because they are more likely to be asked.
    order = sorted(bound.all_arrays - bound.asked, key=lambda i: bound.captured[i].size)
    return bound.asked | needed(bound.asked, False, order)
