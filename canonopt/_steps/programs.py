"""Programs for functions that are made again, and the arrays that these capture.

`bind` takes the arrays that a function captures out of it, reads the rest, and looks up the program
for that. The programs are kept after their functions are gone, so they hold none. A call brings its
function along: as a static argument that equals that of any other call, since `jax.jit` hands it to
the trace. The arrays are ordinary arguments.
"""

import collections
import contextlib
import inspect
import threading
import weakref
from collections.abc import Hashable
from operator import is_
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import (
    agrees,
    captured_arrays,
    cleared,
    computes_alone,
    has_values,
    read_without_arrays,
    with_arrays,
)

# --- the programs that are kept -------------------------------------------------------------------


class Programs:
    """The programs by what they do, bounded: the one that was not looked up for longest goes."""

    def __init__(self) -> None:
        self.limit = 1024
        self._lock = threading.RLock()
        self._programs: collections.OrderedDict[Hashable, Program] = collections.OrderedDict()
        # The captured arrays whose values a function asks for, by index.
        self._asked: collections.OrderedDict[Hashable, frozenset[int]] = collections.OrderedDict()
        cleared.add(self)

    def get(self, key: Hashable) -> "Program | None":
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
            return found

    def setdefault(self, key: Hashable, program: "Program") -> "Program":
        with self._lock:
            found = self._programs.setdefault(key, program)
            self._programs.move_to_end(key)
            self.shrink()
            return found

    def asked(self, key: Hashable) -> frozenset[int]:
        return self._asked.get(key, frozenset())

    def note_asked(self, key: Hashable, asked: frozenset[int]) -> None:
        with self._lock:
            self._asked[key] = asked
            self.shrink()

    def shrink(self) -> None:
        with self._lock:
            for kept in (self._programs, self._asked):
                while len(kept) > self.limit:
                    kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()
            self._asked.clear()

    def __len__(self) -> int:
        return len(self._programs)


class Program:
    """What `jax.jit` makes of a function without what it captures."""

    def __init__(self, fn: Any, options: dict[str, Any], pinned: list[Any]) -> None:
        self.call = _jitted(fn, options)
        self.pinned = pinned  # of which the key has the ids


programs = Programs()


# --- one function and its program -----------------------------------------------------------------


class Changed(Exception):
    """The program would be traced, and what the function reads has changed since it was bound."""


class Unchecked(Exception):
    """The program would be traced with tracers for NumPy arrays, which has to be checked."""


class BodyFailed(Exception):
    """A function failed with tracers for its arrays."""


class BodyStored(Exception):
    """A function changed a list, a dict or a variable that was copied with tracers in it."""


STOPS = (Changed, Unchecked, BodyFailed, BodyStored)


class Caller(int):
    """Stands for the function of a call, and equals that of any other call of the program.

    JAX keeps the first one, so the reference is weak.
    """

    bound: "weakref.ref[Bound]"


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
    is_fresh: bool = True  # bound in this very call
    is_checked: bool = False  # whether a trace is looked at before the program is used
    caller: Caller = attrs.Factory(Caller)

    def __attrs_post_init__(self) -> None:
        self.caller.bound = weakref.ref(self)

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

    @property
    def needs_check(self) -> bool:
        """Whether the program has NumPy arrays as arguments."""
        return not self.numpy_arrays <= self.asked

    def run(self, arrays: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the function, in a trace, with tracers for its arrays."""
        if not self.is_fresh and self.has_changed():
            raise Changed
        if not any(isinstance(array, jax.core.Tracer) for array in arrays):
            return self.fn(*args, **kwargs)  # it captures none, or JAX does not jit now
        if self.needs_check and not self.is_checked:
            raise Unchecked
        tracers = {id(array): new for array, new in zip(self.replaced, arrays, strict=True)}
        copy = with_arrays(self.fn, lambda array: tracers.get(id(array), array))
        try:
            result = copy.function(*args, **kwargs)
        except Exception as error:
            raise BodyFailed from error
        if not copy.is_unchanged():
            raise BodyStored
        return result

    def has_changed(self) -> bool:
        captured = captured_arrays(self.fn)
        if len(captured) != len(self.captured) or not all(map(is_, captured, self.captured)):
            return True
        if read_without_arrays(self.fn, captured, self.asked, _flat(self.options)).key != self.key:
            return True
        pairs = zip(self.replaced, self.arguments, strict=True)
        return not all(isinstance(old, jax.Array) or has_values(old, new) for old, new in pairs)


def _flat(options: dict[str, Any]) -> list[Any]:
    return [(name, *jtu.tree_flatten(option)) for name, option in sorted(options.items())]


# --- `jax.jit` of a function without what it captures -------------------------------------------


def _jitted(fn: Any, options: dict[str, Any]) -> Any:
    """A jitted function that takes the caller and the captured arrays, then the arguments."""

    def call(caller: Caller, arrays: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        bound = caller.bound()
        assert bound is not None  # the caller's own frame holds it
        return bound.run(arrays, args, kwargs)

    def users_call(
        caller: Caller, arrays: Any, *args: Any
    ) -> tuple[Any, tuple[Any, ...], Hashable]:
        """The function and the arguments of the user's call, and what the program is known by."""
        bound = caller.bound()
        assert bound is not None
        return bound.fn, args, bound.key

    vars(call)["__canonical_call__"] = users_call  # for reports
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(fn, name):
            setattr(call, name, getattr(fn, name))
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    first = list(inspect.signature(lambda caller, arrays, /: None).parameters.values())
    if parameters:
        # Without the defaults, which may be arrays.
        rest = [p.replace(default=p.default if p.default is p.empty else None) for p in parameters]
        call.__signature__ = inspect.Signature([*first, *rest])  # pyright: ignore[reportFunctionMemberAccess]
    options = dict(options)
    for kind in ("static", "donate"):
        numbers, names = _completed(
            parameters, options.get(f"{kind}_argnums"), options.get(f"{kind}_argnames")
        )
        numbers = [i if i < 0 else i + len(first) for i in numbers]
        options[f"{kind}_argnums"] = [0, *numbers] if kind == "static" else numbers
        options[f"{kind}_argnames"] = names
    if isinstance(given := options.get("in_shardings"), tuple | list):
        options["in_shardings"] = (None, *given)
    return jax.jit(call, **options)


def _completed(
    parameters: list[inspect.Parameter], argnums: Any, argnames: Any
) -> tuple[list[int], list[str]]:
    """The numbers and names of arguments, the ones found from the others as `jax.jit` does."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums or ())
    names = [argnames] if isinstance(argnames, str) else list(argnames or ())
    by_name = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if argnums is None:
        numbers = [i for i, p in enumerate(parameters) if p in by_name and p.name in names]
    elif argnames is None:
        size = len(parameters)
        found = [parameters[i] for i in numbers if -size <= i < size]
        names = [p.name for p in found if p in by_name]
    return numbers, names


# --- finding the program --------------------------------------------------------------------------


def _argument(array: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a program is called with for a captured array: what it is now."""
    if isinstance(array, jax.core.Tracer):
        return array
    with jax.ensure_compile_time_eval():  # also if an outer function is traced
        if not isinstance(array, jax.Array):
            return jnp.array(array)
        if array.committed and len(array.sharding.device_set) == 1 and not array.weak_type:
            # A constant commits the results of a program to no device, an argument does.
            given = (x for x in jtu.tree_leaves((args, kwargs)) if isinstance(x, jax.Array))
            if not any(_is_with(array, other) for other in given):
                with contextlib.suppress(TypeError):  # of random keys, which NumPy does not have
                    return jnp.array(np.asarray(array))
    return array


def _is_with(array: Any, other: Any) -> bool:
    if isinstance(other, jax.core.Tracer):
        return True
    return other.committed and other.sharding.device_set == array.sharding.device_set


# --- the public function --------------------------------------------------------------------------


def bind(
    fn: Any,
    options: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    asked: frozenset[int] | None = None,
    made: "Program | None" = None,
) -> Bound:
    """Reads a function that is called with these arguments, and looks up its program.

    `asked` are the captured arrays whose values it asks for; None if that is not known. `made` is
    a program for the function that may be kept.
    """
    captured = captured_arrays(fn)
    reading = read_without_arrays(fn, captured, (), _flat(options))
    if asked is None:
        # One sharding for all arguments would be that of the arrays too.
        is_wary = isinstance(options.get("in_shardings"), jax.sharding.Sharding)
        is_wary |= reading.can_tell_tracers
        asked = frozenset(range(len(captured))) if is_wary else programs.asked(reading.key)
    if asked and reading.is_comparable:
        reading = read_without_arrays(fn, captured, asked, _flat(options))
    if not reading.is_comparable:
        return Bound(fn, options)
    program = programs.get(reading.key)
    bound = Bound(fn, options, program, reading.key, captured, asked)
    bound.arguments = tuple(_argument(array, args, kwargs) for array in bound.replaced)
    if program is None:
        bound.program = Program(fn, options, reading.pinned)
        if not bound.needs_check:
            bound.program.call = bound.program.call if made is None else made.call
            bound.program = programs.setdefault(reading.key, bound.program)
    return bound


def bind_again(
    bound: Bound,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    asked: frozenset[int],
    made: "Program | None" = None,
) -> Bound:
    """Binds the same function, now that these arrays are known to be asked for their values."""
    unread = read_without_arrays(bound.fn, bound.captured, (), _flat(bound.options))
    programs.note_asked(unread.key, asked)
    return bind(bound.fn, bound.options, args, kwargs, asked, made)


def checked(
    bound: Bound, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Bound | None:
    """`bound` with a program that was traced for these arguments.

    None if that program is not `plain`, the function as `jax.jit` has it.
    """
    assert bound.program is not None
    program = Program(bound.fn, bound.options, bound.program.pinned)
    found = attrs.evolve(bound, program=program, is_fresh=True, is_checked=True, caller=Caller())
    traced = program.call.trace(found.caller, found.arguments, *args, **kwargs).jaxpr
    if computes_alone(traced, bound.replaced) and not agrees(
        traced, plain.trace(*args, **kwargs).jaxpr, bound.replaced
    ):
        return None
    found.program = bound.program = programs.setdefault(bound.key, program)
    return found


def with_fewer_arguments(
    bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Bound | None:
    """A bound function with the arrays as constants whose values it asks for.

    None if it fails with all arrays as constants too.
    """

    def tried(asked: frozenset[int]) -> Bound | None:
        program = Program(bound.fn, bound.options, [])
        found = attrs.evolve(
            bound, program=program, asked=asked, is_fresh=True, is_checked=True, caller=Caller()
        )
        found.arguments = tuple(_argument(array, args, kwargs) for array in found.replaced)
        try:
            program.call.eval_shape(found.caller, found.arguments, *args, **kwargs)
        except Exception:
            return None
        return found

    # Without the largest arrays first, because a small one is more likely to be asked.
    order = sorted(bound.all_arrays - bound.asked, key=lambda i: -bound.captured[i].size)
    best = tried(bound.all_arrays)
    if best is None:
        return None
    for i in order:
        fewer = best.asked - {i}
        if fewer != bound.asked:  # which failed
            best = tried(fewer) or best
    return bind_again(bound, args, kwargs, best.asked, best.program)
