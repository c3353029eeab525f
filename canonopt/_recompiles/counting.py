"""How often functions are traced and compiled: the log of a block, and limits on functions."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar, overload

import jax

from .._jax_internals import (
    Compile,
    functions_inside,
    innermost,
    is_jitted,
    is_staging,
    is_unwatched,
    jits_itself,
    name_of,
    without_own_frame,
)
from .._python_internals import loaded
from .._texts import place_of
from ..errors import LimitError, NotJittedError
from .alarm import Alarm, Mode, check_limit, check_mode
from .causes import nth
from .listeners import Recorder, active, check_compiles, recording, watch
from .log import CompileLog, Entry, FunctionLog
from .records import Call, call_of
from .stale import StaleWatch

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def compile_log(*, all_threads: bool = False, stale: bool = False) -> Iterator[CompileLog]:
    """Counts, by function, what is traced and compiled inside the block, whoever jitted it.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> @jax.jit
    ... def double(x):
    ...     return 2 * x
    >>> with canonopt.compile_log() as log:
    ...     for n in (1, 2, 2):
    ...         _ = double(jnp.ones(n))
    >>> log["double"].traces, log["double"].compiles
    (2, 2)
    >>> print(log["double"].recompiles[0].explanation)
    x: shape: float32[1] -> float32[2]
      hint: pad or drop what is left over, so that x has one shape

    ```

    A trace is one run of the Python body. Runs inside another trace, by `.lower()` and by
    `jax.eval_shape` count, and so do those that fail. A compile is one XLA compile. If JAX's
    persistent cache has the program, it is a cache hit instead. The backward pass that `jax.grad`
    makes of a jitted function is a program of its own, counted in `backward_compiles`.

    **Arguments:**

    - `all_threads`: whether to count what other threads do in the meantime, too.
    - `stale`: whether to report cached calls that go on with a value that has changed since they
        were traced, as `assert_not_stale` finds them. They are in `log.stale` and in the table.

    **Returns:** a context manager that gives a `CompileLog`: `log[name]` for a function's counts,
    `log.functions`, `log.helpers` for what JAX and libraries compile, by the line of yours that ran
    it, and `print(log)` for a table with what differed each time, and whether it could be avoided.

    **Raises:** `UnsupportedVersionError` if JAX has changed so that canonopt cannot count: at the
    start, or at the end if JAX reported no compiles.
    """
    log = CompileLog()
    with recording(Recorder(log), all_threads), contextlib.ExitStack() as block:
        if stale:
            block.enter_context(StaleWatch(log.stale.append, log.note_problem, all_threads))
        yield log
    check_compiles()


@overload
def assert_max_traces(
    fn: F, max_traces: int | None = None, *, n: int | None = None, mode: Mode = "raise"
) -> F: ...
@overload
def assert_max_traces(
    fn: int | None = None,
    max_traces: int | None = None,
    *,
    n: int | None = None,
    mode: Mode = "raise",
) -> Callable[[F], F]: ...
def assert_max_traces(
    fn: Any = None, max_traces: int | None = None, *, n: int | None = None, mode: Mode = "raise"
) -> Any:
    """Wraps `fn` so that it raises when it is traced more than `max_traces` times, and says why.

    Goes below a transformation, as in `jax.jit(canonopt.assert_max_traces(f))`, or above, as in
    `canonopt.assert_max_traces(jax.jit(f))`, in any order with those of chex and equinox.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> @jax.jit
    ... @canonopt.assert_max_traces(max_traces=1)
    ... def double(x):
    ...     return 2 * x
    >>> _ = double(jnp.ones(1))
    >>> double(jnp.ones(2))
    Traceback (most recent call last):
        ...
    canonopt.errors.ExcessError: double (...) is traced for the 2nd time, and max_traces=1.
      x: shape: float32[1] -> float32[2]
      hint: pad or drop what is left over, so that x has one shape

    ```

    A trace is one run of the Python body under a transformation like `jax.jit`. Runs that fail
    count, and so do those by `.lower()` and `jax.eval_shape`. An eager run does not count.

    **Arguments:**

    - `fn`: a function, jitted by `jax.jit`, `equinox.filter_jit` or `jax.pmap` or not, or an object
        with a jitted `__call__`. Without it, a decorator is returned.
    - `max_traces`, `n`: the limit, 1 by default. `n` is its name in `chex.assert_max_traces`.
    - `mode`: "raise"; "warn", at most three times a minute, with a `RecompileWarning`; or "record",
        which only counts, in `.log.traces`.

    **Returns:** a callable with `fn`'s signature. Its attribute `log` has the counts.

    **Raises:** `ExcessError`, an `AssertionError`, in a call that exceeds the limit. `LimitError`,
    a `ValueError`, at once if the limit is not an int or the mode is unknown.
    `UnsupportedVersionError` at once if JAX has changed so that canonopt cannot count traces.
    """
    if fn is not None and not callable(fn):
        fn, n = None, fn  # as in @chex.assert_max_traces(1)
    if max_traces is not None and n is not None:
        raise LimitError(
            f"max_traces={max_traces!r} and n={n!r} are two names of one limit.",
            "Write one of them: canonopt.assert_max_traces(f, max_traces=1).",
            path="n",
        )
    name, limit = ("max_traces", max_traces) if n is None else ("n", n)
    limit = 1 if limit is None else limit
    check_limit(name, limit)
    check_mode(mode)
    if fn is None:
        return functools.partial(assert_max_traces, max_traces=limit, mode=mode)
    if is_jitted(fn):
        return _Jitted(fn, _Limit(fn, "traces", limit, mode))
    return _counted(fn, _Limit(fn, "traces", limit, mode))


def assert_max_compiles(jitted: Any = None, max_compiles: int = 1, *, mode: Mode = "raise") -> Any:
    """Wraps `jitted` so that it raises when XLA compiles it more than `max_compiles` times.

    This sees a second compile without a trace: for an array that is committed, sharded or in
    another kind of memory, unlike the one before. What `.lower()` gives counts when it is compiled.
    A backward pass, which is compiled after the call, counts only in `.log.backward_compiles`.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> double = canonopt.assert_max_compiles(jax.jit(lambda x: 2 * x))
    >>> _ = double(jnp.ones(1))
    >>> double(jax.device_put(jnp.ones(1), jax.devices()[0]))
    Traceback (most recent call last):
        ...
    canonopt.errors.ExcessError: <lambda> (...) is compiled for the 2nd time, and max_compiles=1.
      x: commitment: not committed -> committed
      hint: put x in one place before the first call: jax.device_put(x, jax.devices()[0])

    ```

    **Arguments:**

    - `jitted`: a function that `jax.jit`, `equinox.filter_jit` or `jax.pmap` made, or an object
        with a jitted `__call__`. Without it, a decorator is returned.
    - `max_compiles`, `mode`: as for `assert_max_traces`.

    **Returns:** a callable with the same signature. Its attribute `log` has the counts.

    **Raises:** `NotJittedError` if `jitted` is a plain function. `ExcessError` in a call that
    exceeds the limit. `UnsupportedVersionError`, at once or after the first call, if JAX has
    changed so that canonopt cannot count compiles.
    """
    check_limit("max_compiles", max_compiles)
    check_mode(mode)
    if jitted is None:
        return functools.partial(assert_max_compiles, max_compiles=max_compiles, mode=mode)
    if not is_jitted(jitted):
        raise NotJittedError(
            f"canonopt.assert_max_compiles needs a jitted function, not {jitted!r}.",
            "Write canonopt.assert_max_compiles(jax.jit(f)).",
        )
    return _Jitted(jitted, _Limit(jitted, "compiles", max_compiles, mode))


class _Limit(Recorder):
    """Counts the traces or compiles of one function, and raises or warns above the limit."""

    def __init__(self, fn: Any, what: Literal["traces", "compiles"], limit: int, mode: Mode):
        super().__init__()
        watch.start()  # only to find out whether that works
        watch.stop()
        self.function_log = FunctionLog(name_of(fn), place_of(innermost(fn)))
        self._targets = functions_inside(fn)
        # The user asked about this function, even if a library jits it.
        self.follows_libraries = any(map(jits_itself, self._targets))
        self._what: Literal["traces", "compiles"] = what
        self._limit = limit
        self._alarm = Alarm(mode)
        # Unlike the log, without a compile long after the call.
        self._compiles = 0

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        inside = functions_inside(function) if function is not None else ()
        found = any(_is_same_function(f, target) for f in inside for target in self._targets)
        return self.function_log if found else None

    def add_operation(self, entry: Entry, compiled: Compile) -> None:
        """Ignore it."""

    def note_problem(self, problem: str) -> None:
        """Ignore it: an explanation is not worth a failing step."""

    def count_trace(self, call: Call | None) -> None:
        """Counts a trace that is seen from inside the function."""
        entry = Entry(call, time.perf_counter(), traced=True)
        self.add_trace(self.function_log, entry)
        # There is no jaxpr yet. If this raises, JAX caches none, and the next call is traced again.
        self.after_miss(self.function_log, entry, None)

    def after_miss(self, log: FunctionLog, entry: Entry, program: Any) -> None:
        if self._what != "traces":
            return
        if entry.traced:
            self._check("traced", log.traces, entry, program)
        else:
            self._alarm.repeat(program)

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        if compiled.is_hit:
            return
        with self.lock:
            self._compiles += 1
        if self._what == "compiles":
            self._check("compiled", self._compiles, entry)

    def _check(self, done: str, count: int, entry: Entry, program: Any = None) -> None:
        if count > self._limit:
            log, limit = self.function_log, f"max_{self._what}={self._limit}"
            problem = f"{log.title} is {done} for the {nth(count)} time, and {limit}."
            self._alarm.sound(log, entry, problem, program)


def _is_same_function(function: Any, target: Any) -> bool:
    """Return True for one function, or for copies of one module, which equinox makes."""
    if function is target or not isinstance(target, loaded("equinox", "Module")):
        return function is target
    return type(function) is type(target) and (
        jax.tree.structure(function) == jax.tree.structure(target)
    )


def _counted(fn: Any, limit: _Limit) -> Any:
    """A function that counts the runs of its body in a trace."""

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if not is_staging() or is_unwatched():
            return fn(*args, **kwargs)
        key = _call_of(fn, args, kwargs)
        limit.count_trace(key)
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            without_own_frame(error)
            raise
        if key is not None:
            key.note_returned(jax.tree.leaves(result))
        return result

    vars(counted)["log"] = limit.function_log
    return counted


def _call_of(fn: Any, args: tuple, kwargs: dict[str, Any]) -> Call | None:
    # In a trace, arguments that are traced have become tracers. What is no array was static.
    with contextlib.suppress(Exception):  # an explanation is not worth a failing step
        return call_of(fn, args, kwargs, filtered=True)
    return None


class _Jitted:
    """A jitted function whose traces or compiles are limited, with all of its attributes."""

    def __init__(self, jitted: Any, limit: _Limit) -> None:
        functools.update_wrapper(self, jitted, updated=())
        self._jitted = jitted
        self._limit = limit
        self.log = limit.function_log

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with active(self._limit):
                result = self._jitted(*args, **kwargs)
        except BaseException as error:
            without_own_frame(error)
            raise
        check_compiles()
        return result

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __copy__(self) -> "_Jitted":
        return self  # as functions do

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Jitted":
        return self

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._jitted, name)
        # These three look for a trace as a call does, so what they trace counts.
        if name not in ("lower", "trace", "eval_shape"):
            return found

        def watched(*args: Any, **kwargs: Any) -> Any:
            with active(self._limit):
                return found(*args, **kwargs)

        return watched
