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
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
import jax
import numpy as np

from .._jax_internals import (
    HitWatch,
    Miss,
    MissWatch,
    Retrace,
    function_of_hit,
    function_of_miss,
    functions_inside,
    innermost,
    is_same_program,
    is_unwatched,
    name_of,
    retrace_of_hit,
    retrace_of_miss,
    stands_for_others,
    users_call_of_hit,
)
from .._python_internals import (
    WeakIdMap,
    is_library_class,
    is_library_function,
    place_of_line,
)
from .._texts import place_of
from ..errors import CanonoptError, StaleReadError
from .reads import CALLABLES, NO_OBJECTS, Reads

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
        again = "traced again now, it gives another program"
        if not self.is_confirmed:
            again = "unconfirmed: it changes or reads what is outside, so it was not traced again"
        return [
            f"{self.function} goes on with an old value, since call {self.since}:",
            *(f"  {value}" for value in self.values),
            f"  {_counted(self.calls)} since; {again}",
            f"  hint: pass {' and '.join(names)} to {self.function} as an argument",
        ]


def _counted(calls: int) -> str:
    return "1 cached call" if calls == 1 else f"{calls} cached calls"


def _place(codes: dict[types.CodeType, None], path: str) -> str | None:
    """Return where a value is read: in which function, and at which line."""
    names = re.findall(r"(?<![\w'\"])[A-Za-z_]\w*", re.sub(r"\[.*?\]|^len\(|\)$", "", path))
    for code in codes:
        for inner in (code, *(c for c in code.co_consts if isinstance(c, types.CodeType))):
            for instruction in dis.get_instructions(inner):
                line = instruction.positions and instruction.positions.lineno
                if (
                    instruction.argval == names[-1]
                    and instruction.opname.startswith("LOAD")
                    and line
                ):
                    return f"{code.co_name} at {place_of_line(code.co_filename, line)}"
    return None


# --- what has been traced -------------------------------------------------------------------------


class _Program:
    """A cached program, with what its function read when it was traced."""

    def __init__(self, jaxpr: Any, reads: Reads, has_effects: bool) -> None:
        self._jaxpr = weakref.ref(jaxpr)
        # When it was traced, and when it was last compared.
        self._first = self.reads = reads
        self._has_effects = reads.has_effects or has_effects
        self._ignored: set[str] = set()
        self.objects: tuple[int, ...] = ()  # among the arguments of the trace
        self.active: StaleRead | None = None  # what its calls are now
        self._latest: Any = None  # the program that it should be now
        self._due: dict[str, int] = {}  # the call at which a value is looked at again
        self._before: dict[str, str] = {}

    def after_trace(self) -> None:
        """Leave out what the trace itself has changed, such as a counter of traces."""
        self._ignored = {*self.reads.changes()}
        if self._ignored:
            self._has_effects = True
            self._first = self.reads = self.reads.now()

    def check(self, function: Any, call: int, retrace: Callable[[], Retrace]) -> StaleRead | None:
        """Compare what is read now, and return a new report."""
        found = None
        if self.reads.differ():
            changes = {p: t for p, t in self.reads.changes().items() if p not in self._ignored}
            if not changes and self.reads.differ():  # of something that nobody has any more
                self.reads = self.reads.now()
            elif changes:
                found = self._check(changes, function, call, retrace)
        if found is None and self.active is not None:
            self.active.calls += 1
        return found

    def _check(
        self,
        changes: dict[str, tuple[str, str]],
        function: Any,
        call: int,
        retrace: Callable[[], Retrace],
    ) -> StaleRead | None:
        for path, (before, _) in changes.items():
            self._before.setdefault(path, before)
        if self._first is not self.reads and not self._first.changes():
            self.reads, self.active, self._latest = self._first, None, None
            return None
        if not any(call >= self._due.get(path, 0) for path in changes):
            return None
        verdict = self._verdict(retrace, self.reads.changed_arrays)
        # What has changed before without an effect is not the cause.
        new = {path for path in changes if path not in self._due} or {*changes}
        self._due.update((path, 2 * call) for path in changes)
        self.reads = self.reads.now()
        if verdict != "stale":
            self.active = None if verdict == "fresh" else self.active
            return None
        values = [
            ReadValue(path, self._before[path], after, _place(self.reads.codes, path))
            for path, (_, after) in changes.items()
            if path in new
        ]
        place = place_of(innermost(function))
        self.active = StaleRead(
            *(name_of(function), place, tuple(values), call, not self._has_effects)
        )
        return self.active

    def _verdict(
        self, retrace: Callable[[], Retrace], changed: list[np.ndarray]
    ) -> Literal["stale", "fresh", "unknown"]:
        if self._has_effects:
            return "stale" if self.active is None else "unknown"
        try:
            again = retrace()
            cached = self._jaxpr() or again.cached()
            with _silent():
                now = again.afresh()
                if is_same_program(now, cached, changed):
                    self._latest = None
                    return "fresh"
                if self._latest is not None and is_same_program(now, self._latest):
                    return "unknown"
                if not is_same_program(now, again.afresh()):
                    return "unknown"
        except Exception:  # the function fails now
            return "unknown"
        self._latest = now
        return "stale"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let this thread print nothing inside the block."""
    with _silence, contextlib.redirect_stdout(_Others(sys.stdout)):
        yield


_silence = threading.RLock()  # one after the other, so that each finds what the last put back


class _Others(io.TextIOBase):
    """Writes what other threads print."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str) -> int:
        is_own = threading.get_ident() == self._thread
        return len(text) if is_own else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@attrs.define(eq=False)
class _Function:
    """The programs of a function."""

    is_followed: bool  # False for those of libraries
    stands_for_others: bool = False
    calls: int = 0
    programs: list[_Program] = attrs.field(factory=list)
    by_jaxpr: WeakIdMap[_Program] = attrs.field(factory=WeakIdMap)

    def add(self, jaxpr: Any, program: _Program) -> _Program:
        self.by_jaxpr.set(jaxpr, program)
        self.programs = [*self.programs[1 - _MAX_PROGRAMS :], program]
        return program


_MAX_PROGRAMS = 16  # of a function


class StaleWatch:
    """Compares what functions read, and calls `on_report` with each stale read.

    **Arguments:**

    - `on_report`: may raise; then the call raises.
    - `on_problem`: is called with what failed in canonopt itself.
    - `thread`: the thread to watch, or None for all.
    """

    def __init__(
        self,
        on_report: Callable[[StaleRead], None],
        on_problem: Callable[[str], Any],
        thread: int | None,
    ) -> None:
        self._on_report, self._on_problem, self.thread = on_report, on_problem, thread
        self._lock = threading.RLock()
        self._functions: WeakIdMap[_Function] = WeakIdMap()
        self._programs: WeakIdMap[_Program] = WeakIdMap()  # by jaxpr

    def known(self, function: Any) -> _Function:
        found = self._functions.get(function)
        if found is None:
            found = _Function(_is_of_user(function), stands_for_others(function))
            with contextlib.suppress(TypeError):
                self._functions.set(function, found)
        return found

    def on_hit(self, jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Compare what the function of a cached call reads."""
        report = None
        try:
            function = getattr(jitted, "__wrapped__", None)
            if function is None:  # as of some functions of JAX
                return
            known = self.known(function)
            if known.stands_for_others:
                function = function_of_hit(jitted, args)
                known = self.known(function)
            if not known.is_followed:
                return
            known.calls += 1
            for program in known.programs:
                if program.active is not None or program.reads.differ():
                    break
            else:
                if known.programs:
                    return
            with self._lock:
                report = self._compare(known, function, jitted, args, kwargs)
        except Exception as error:
            self._note(error)
        if report is not None:
            self._on_report(report)

    def _compare(
        self, known: _Function, function: Any, jitted: Any, args: tuple, kwargs: dict[str, Any]
    ) -> StaleRead | None:
        if is_unwatched():  # of a function that is traced again
            return None
        again = retrace_of_hit(jitted, args, kwargs)
        if len(known.programs) == 1:
            return known.programs[0].check(function, known.calls, lambda: again)
        jaxpr = again.cached()
        program = known.by_jaxpr.get(jaxpr)
        if program is None:
            if function is jitted.__wrapped__:
                program = self._programs.get(jaxpr)  # of an equal method
            if program is None:
                reads = Reads.of_call(*users_call_of_hit(jitted, args, kwargs))
                program = _Program(jaxpr, reads, reads.may_change_objects)
            known.add(jaxpr, program)
        return program.check(function, known.calls, lambda: again)

    def enter(self, miss: Miss) -> Any:
        """Note what a function reads before it is traced, if it is."""
        try:
            function = function_of_miss(miss)
            known = self.known(function)
            if not known.is_followed:
                return None
            call = miss.function, miss.args, miss.kwargs
            objects = _objects_in(*call[1:])
            reads = (p.reads for p in known.programs if p.objects == objects)
            same = next((each for each in reads if not each.differ()), None)
            return miss, function, known, same or Reads.of_call(*call), objects
        except Exception as error:
            self._note(error)
            return None

    def leave(self, entered: Any, traced: bool, jaxpr: Any) -> None:
        """Note the program of a miss, and compare what it reads if it was there before."""
        if entered is None or jaxpr is None:
            return
        miss, function, known, reads, objects = entered
        report = None
        try:
            with self._lock:
                known.calls += miss.is_call
                program = known.by_jaxpr.get(jaxpr)
                if program is None:
                    if not (traced or miss.is_shared):
                        program = self._programs.get(jaxpr)  # of an equal method
                    if program is None:
                        program = _Program(jaxpr, reads, not traced and reads.may_change_objects)
                        program.objects = objects
                        if traced:
                            program.after_trace()
                    known.add(jaxpr, program)
                    self._programs.set(jaxpr, program)
                if not traced:
                    again = functools.partial(retrace_of_miss, miss)
                    report = program.check(function, known.calls, again)
        except Exception as error:
            self._note(error)
        if report is not None:
            self._on_report(report)

    def _note(self, error: Exception) -> None:
        self._on_problem(f"{type(error).__name__}: {error}")


def _objects_in(args: tuple, kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Return the identities of the arguments that JAX compares as a whole."""
    values = (*args, *kwargs.values())
    objects = (each for each in values if not isinstance(each, NO_OBJECTS))
    return tuple(id(each) for each in objects if jax.tree_util.all_leaves((each,)))


def _is_of_user(function: Any) -> bool:
    """Return True if a function is the user's, or calls one of the user's."""
    if stands_for_others(function):
        return True
    inside = functions_inside(function)
    for inner in (*inside, *(each.__func__ for each in inside if hasattr(each, "__func__"))):
        if isinstance(inner, types.MethodType):
            is_users = not is_library_class(type(inner.__self__))
        elif isinstance(inner, types.FunctionType):
            is_users = not is_library_function(inner)
        else:
            is_users = not (isinstance(inner, CALLABLES) or is_library_class(type(inner)))
        if is_users:
            return True
    return False


# --- listening ------------------------------------------------------------------------------------

_watches: list[StaleWatch] = []


def _here() -> list[StaleWatch]:
    thread = threading.get_ident()
    return [each for each in _watches if each.thread is None or each.thread == thread]


def _on_hit(jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    for each in _watches:
        if each.thread is None or each.thread == threading.get_ident():
            each.on_hit(jitted, args, kwargs)


def _enter(miss: Miss) -> list[tuple[StaleWatch, Any]]:
    return [(each, each.enter(miss)) for each in _here()]


def _leave(entered: list[tuple[StaleWatch, Any]], traced: bool, jaxpr: Any) -> None:
    for each, token in entered:
        each.leave(token, traced, jaxpr)


def _passes(function: Any) -> bool:
    return not any(each.known(function).is_followed for each in _here())


@functools.cache  # if it raises, the next use checks again
def _listeners() -> tuple[HitWatch, MissWatch]:
    return HitWatch(_on_hit), MissWatch(_enter, _leave, _passes)


def watch_everywhere(
    on_report: Callable[[StaleRead], None], on_problem: Callable[[str], Any]
) -> None:
    """Watch for stale reads in all threads, from now on."""
    _start(StaleWatch(on_report, on_problem, None))


def _start(watch: StaleWatch) -> StaleWatch:
    hits, misses = _listeners()
    hits.start(watch.thread is None)
    _watches.append(watch)
    if len(_watches) == 1:
        misses.start()
    return watch


@contextlib.contextmanager
def watching(
    on_report: Callable[[StaleRead], None],
    on_problem: Callable[[str], Any],
    all_threads: bool = False,
) -> Iterator[None]:
    """Watch for stale reads inside the block."""
    hits, misses = _listeners()
    thread = None if all_threads else threading.get_ident()
    watch = _start(StaleWatch(on_report, on_problem, thread))
    try:
        yield
    finally:
        _watches.remove(watch)
        hits.stop(all_threads)
        if not _watches:
            misses.stop()


@contextlib.contextmanager
def assert_not_stale(*, all_threads: bool = False) -> Iterator[None]:
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

    The program has run when this raises, and its result is lost, also if arguments were donated.

    **Arguments:**

    - `all_threads`: whether to watch what other threads call in the meantime, too.

    **Raises:** `StaleReadError`, an `AssertionError`, in the call. `UnsupportedVersionError` at the
    start if JAX has changed so that canonopt cannot see cached calls.
    """

    def fail(report: StaleRead) -> None:
        if report.is_confirmed:
            first, *rest, hint = report.lines()
            value = report.values[0]
            raise StaleReadError(
                "\n".join((first, *rest)),
                hint,
                path=value.path,
                before=value.before,
                after=value.after,
            )

    problems: list[str] = []
    with watching(fail, problems.append, all_threads):
        yield
    if problems:
        raise CanonoptError(
            f"canonopt failed to look for stale reads: {problems[0]}",
            "Write canonopt.compile_log(stale=True), which goes on.",
        )
