"""Cached programs that go on with a value that has changed since they were traced.

JAX looks at the arguments of a call, not at what else the function reads: globals, captured
variables, attributes, items of containers. `Reads` notes these values, by name, when a function is
traced. JAX's hook after cached calls compares them. Where one differs, the function is traced once
more, apart from JAX's caches, and what is reported is only what gives another program.
"""

import contextlib
import dis
import functools
import io
import re
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from .._jax_internals import (
    CachedCall,
    HitWatch,
    Miss,
    MissWatch,
    attribute,
    function_finder,
    innermost,
    is_same_program,
    is_unwatched,
    name_of,
)
from .._python_internals import WeakIdMap, place_of_line
from .._texts import place_of
from ..errors import CanonoptError, StaleReadError
from .reads import Changes, Reads, reads_of_call

# --- what is reported -----------------------------------------------------------------------------


@attrs.frozen
class ReadValue:
    """A value that a program has, and that has changed."""

    path: str
    before: str
    after: str
    place: str | None  # where it is read

    def __str__(self) -> str:
        change = f"was {self.before} when it was traced, and is {self.after} now"
        return f"{self.path} {change}" + (f" (read in {self.place})" if self.place else "")


@attrs.define(eq=False)
class StaleRead:
    """A cached program that went on with an old value."""

    function: str
    place: str | None
    values: tuple[ReadValue, ...]
    since: int  # the call of the function, counted in the block
    is_confirmed: bool  # False if the function has effects, and so was not traced again
    calls: int = 1

    def lines(self) -> list[str]:
        """Return the report."""
        names = [re.sub(r"^len\((.*)\)$", r"\1", value.path) for value in self.values]
        calls = "1 cached call" if self.calls == 1 else f"{self.calls} cached calls"
        again = "traced again now, it gives another program"
        if not self.is_confirmed:
            again = "unconfirmed: it changes or reads what is outside, so it was not traced again"
        return [
            f"{self.function} goes on with an old value, since call {self.since}:",
            *(f"  {value}" for value in self.values),
            f"  {calls} since; {again}",
            f"  hint: pass {' and '.join(names)} to {self.function} as an argument",
        ]


def _place(codes: list[types.CodeType], path: str) -> str | None:
    """Return where a value is read: in which function, and at which line."""
    name = re.findall(r"(?<![\w'\"])[A-Za-z_]\w*", re.sub(r"\[.*?\]|^len\(|\)$", "", path))[-1]
    for code in codes:
        for inner in (code, *(c for c in code.co_consts if isinstance(c, types.CodeType))):
            for each in dis.get_instructions(inner):
                line = each.positions and each.positions.lineno
                if line and each.argval == name and each.opname.startswith("LOAD"):
                    return f"{code.co_name} at {place_of_line(code.co_filename, line)}"
    return None


# --- what has been traced -------------------------------------------------------------------------


class _Program:
    """A cached program, with what its function read when it was traced, and at the last check."""

    def __init__(self, reads: Reads, is_traced: bool) -> None:
        self.active: StaleRead | None = None  # what its calls are now
        # From what has changed without an effect to the call at which it is looked at again.
        self._due: dict[str, int] = {}
        self._has_effects = reads.has_effects or (reads.may_change_objects and not is_traced)
        if is_traced and (changes := reads.changes()):  # by the trace, such as a counter of traces
            reads, self._has_effects = reads.now(ignored=changes), True
        self._first = self.reads = reads

    def check(self, function: Any, call: int, cached: CachedCall) -> StaleRead | None:
        """Compare what is read now, and return a new report."""
        if self.active is not None:
            if self._first.changes().keys() - self._due.keys():
                self.active.calls += 1
                return None
            self.active, self.reads = None, self._first
        changes = self.reads.changes() if self.reads.differ() else {}
        if not any(call >= self._due.get(path, 0) for path in changes):
            return None
        codes, self.reads = self.reads.codes, self.reads.now()
        # What has changed before without an effect is not the cause.
        found = [path for path in changes if path not in self._due] or [*changes]
        if not (self._has_effects or _gives_another_program(cached, changes)):
            self._due.update(dict.fromkeys(changes, 2 * call))
            return None
        self._due = {path: due for path, due in self._due.items() if path not in found}
        before = {**changes, **self._first.changes()}
        values = (ReadValue(path, *before[path][:2], _place(codes, path)) for path in found)
        place, is_confirmed = place_of(innermost(function)), not self._has_effects
        self.active = StaleRead(name_of(function), place, (*values,), call, is_confirmed)
        return self.active


def _gives_another_program(call: CachedCall, changes: Changes) -> bool:
    """Return True if the function of a call, traced again, gives another program, and twice."""
    arrays = [value for *_, value in changes.values() if isinstance(value, np.ndarray)]
    try:
        cached = call.cached()
        with _silence, contextlib.redirect_stdout(io.StringIO()):
            now = call.afresh()
            is_other = not is_same_program(now, cached, arrays)
            return is_other and is_same_program(now, call.afresh())
    except Exception:  # the function fails now
        return False


# One after the other, so that each finds what the last put back. What another thread prints in
# these milliseconds is lost, too.
_silence = threading.RLock()


@attrs.define(eq=False)
class _Function:
    """A function that JAX calls, with the latest programs, each by its jaxpr."""

    is_followed: bool  # False for those of libraries
    find: Callable[[tuple], Any] | None  # the user's function, by the arguments of the call
    calls: int = 0
    programs: tuple[tuple[weakref.ref[Any], _Program], ...] = ()

    def add(self, jaxpr: Any, program: _Program) -> None:
        self.programs = (*self.programs[1 - _MAX_PROGRAMS :], (weakref.ref(jaxpr), program))


_MAX_PROGRAMS = 16  # of a function


class StaleWatch:
    """Compares what functions read from `start` to `stop`, also as a context manager.

    **Arguments:**

    - `on_report`: is called with each stale read. It may raise a `StaleReadError`, which the call
        raises.
    - `on_problem`: is called with what failed in canonopt itself.
    """

    def __init__(
        self, on_report: Callable[[StaleRead], None], on_problem: Callable[[str], Any]
    ) -> None:
        self._on_report, self._on_problem = on_report, on_problem
        self._lock = threading.RLock()
        self._functions: WeakIdMap[_Function] = WeakIdMap()
        self._programs: WeakIdMap[_Program] = WeakIdMap()  # by jaxpr

    def start(self) -> None:
        hits, misses = _listeners()
        with _changing:
            hits.start()  # again, since a thread may have a hook of its own
            if not _watches:
                misses.start()
            _watches.append(self)

    def stop(self, *_: object) -> None:
        with _changing:
            _watches.remove(self)
            if not _watches:
                for listener in _listeners():
                    listener.stop()

    __enter__, __exit__ = start, stop

    def noting(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call a method, and note what fails in canonopt, which stops no step."""
        try:
            return call(*args)
        except StaleReadError:
            raise
        except Exception as error:
            self._on_problem(f"{type(error).__name__}: {error}")

    def users(self, given: Any, args: tuple) -> tuple[Any, _Function]:
        """Return the user's function of a call of what `jax.jit` was given."""
        if (known := self._functions.get(given)) is None:
            find = function_finder(given)
            is_users = find is not None or attribute(given, "__call_of_user__") is not None
            known = _Function(is_users or bool(reads_of_call(given, (), {}).codes), find)
            with contextlib.suppress(TypeError):
                self._functions.set(given, known)
        return (given, known) if known.find is None else self.users(known.find(args), ())

    def on_hit(self, jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Compare what the function of a cached call reads."""
        if (given := getattr(jitted, "__wrapped__", None)) is None:  # as of some functions of JAX
            return
        function, known = self.users(given, args)
        if not known.is_followed:
            return
        known.calls += 1
        for _, program in known.programs:
            if program.active is not None or program.reads.differ():
                break
        else:
            if known.programs:
                return
        if not is_unwatched():  # as a function that is traced again is
            self.compare(known, function, CachedCall(given, args, kwargs, jitted.trace))

    def compare(self, known: _Function, function: Any, cached: CachedCall) -> None:
        """Compare what a call reads that was not traced."""
        with self._lock:
            jaxpr = cached.cached()
            program = next((each for found, each in known.programs if found() is jaxpr), None)
            if program is None:
                # An equal method has the same program. Others that share one read other values.
                program = None if cached.is_shared else self._programs.get(jaxpr)
                program = program or _Program(reads_of_call(*cached.users_call()), False)
                known.add(jaxpr, program)
            report = program.check(function, known.calls, cached)
        if report is not None:
            self._on_report(report)

    def before_miss(self, miss: Miss) -> tuple[Any, _Function, Miss, Reads] | None:
        """Note what a function reads before it is traced, if it is."""
        function, known = self.users(miss.jitted, miss.given[0])
        if not known.is_followed:
            return None
        return function, known, miss, reads_of_call(miss.function, miss.args, miss.kwargs)

    def after_miss(
        self, function: Any, known: _Function, miss: Miss, reads: Reads, traced: bool, jaxpr: Any
    ) -> None:
        """Note the program of a miss, or compare what it reads if it was there before."""
        known.calls += miss.is_call
        if traced:
            program = _Program(reads, is_traced=True)
            known.add(jaxpr, program)
            self._programs.set(jaxpr, program)
        else:
            self.compare(known, function, CachedCall.of_miss(miss, jaxpr))


# --- listening ------------------------------------------------------------------------------------

_watches: list[StaleWatch] = []
_changing = threading.Lock()


def _on_hit(jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    for each in _watches:
        each.noting(each.on_hit, jitted, args, kwargs)


def _enter(miss: Miss) -> list[tuple[StaleWatch, Any]]:
    return [(each, each.noting(each.before_miss, miss)) for each in _watches]


def _leave(entered: list[tuple[StaleWatch, Any]], traced: bool, jaxpr: Any) -> None:
    for each, noted in entered:
        if noted is not None and jaxpr is not None:
            each.noting(each.after_miss, *noted, traced, jaxpr)


@functools.cache  # if it raises, the next use checks again
def _listeners() -> tuple[HitWatch, MissWatch]:
    return HitWatch(_on_hit), MissWatch(_enter, _leave)


@contextlib.contextmanager
def assert_not_stale() -> Iterator[None]:
    """Raise in a cached call that goes on with a value that has changed since it was traced.

    A jitted function reads its globals, captured variables and attributes when it is traced. A
    cached call has the values from then, whatever they are now, and says nothing.

    ```python
    >>> import canonopt, jax, types
    >>> runtime = types.SimpleNamespace(weight=1.0)
    >>> @jax.jit
    ... def loss(x):
    ...     return runtime.weight * x
    >>> with canonopt.assert_not_stale():
    ...     _ = loss(2.0)
    ...     runtime.weight = 5.0
    ...     loss(2.0)
    Traceback (most recent call last):
        ...
    canonopt.errors.StaleReadError: loss goes on with an old value, since call 2:
      runtime.weight was 1.0 when it was traced, and is 5.0 now (read in loss at ...)
      1 cached call since; traced again now, it gives another program
      hint: pass runtime.weight to loss as an argument

    ```

    What a function and the functions of yours that it calls read is found by the names in their
    code. Where one has another value, the function is traced again, apart from JAX's caches. If
    that gives the same program, nothing is raised. A function that has effects (it counts its runs,
    reads a file) is not traced again, and raises nothing; `compile_log(stale=True)` reports it as
    unconfirmed. A function that was traced before the block is compared with what it read at its
    first call in the block.

    This watches all threads. The program has run when it raises, and its result is lost, also if
    arguments were donated.

    **Raises:** `StaleReadError`, an `AssertionError`, in the call. `UnsupportedVersionError` at the
    start if JAX has changed so that canonopt cannot see cached calls.
    """

    def fail(report: StaleRead) -> None:
        if report.is_confirmed:
            first, *rest, hint = report.lines()
            value = report.values[0]
            facts = {"path": value.path, "before": value.before, "after": value.after}
            raise StaleReadError("\n".join((first, *rest)), hint, **facts)

    problems: list[str] = []
    with StaleWatch(fail, problems.append):
        yield
    if problems:
        raise CanonoptError(
            f"canonopt failed to look for stale reads: {problems[0]}",
            "Write canonopt.compile_log(stale=True), which goes on.",
        )
