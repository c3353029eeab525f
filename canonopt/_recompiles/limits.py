"""Limits on how often functions are traced and compiled."""

import collections
import contextlib
import functools
import itertools
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs
import jax

from .._identity import note_not_shared
from .._jax_internals.functions import functions_inside, innermost, is_jitted, name_of
from .._jax_internals.tracing import is_staging, is_unwatched
from .._jax_internals.watching import Compile, misses
from .._python_internals.callers import frames_to_the_user, place_of
from .._python_internals.namespaces import loaded
from .._texts import times
from ..errors import ExcessError, LimitError, NotJittedError, RecompileError, RecompileWarning
from .differences import shortened
from .listeners import Recorder, active, check_compiles, is_inside_recorded, recording
from .log import CompileLog, Entry, FunctionLog, earlier_entries, ended_logs, repeated_operation
from .records import call_of
from .rules import HANDFUL, Cause

Mode: TypeAlias = Literal["raise", "warn", "record"]


# --- limits ---------------------------------------------------------------------------------------


def _check_limit(
    name: str, limit: Any, mode: object, modes: Sequence[str] = get_args(Mode)
) -> None:
    """Raise `LimitError` if the limit or the mode is invalid."""
    is_int = isinstance(limit, int) and not isinstance(limit, bool)  # to Python, True is an int
    if not is_int or limit < 0:
        wanted = "0 or more" if is_int else "an int"
        text = f"{name} must be {wanted}, not {limit!r}."
        raise LimitError(text, f"Write {name}=1.", path=name)
    if mode not in modes:
        text = f"mode must be one of {', '.join(map(repr, modes))}, not {mode!r}."
        raise LimitError(text, "Write mode='raise'.", path="mode")


def _given(fn: Any, name: str, limit: Any, mode: object) -> tuple[Any, Any]:
    """Return the function or None, and the limit. In `@assert_max_traces(2)`, `fn` is the limit."""
    if fn is not None and not callable(fn):
        fn, limit = None, fn
    _check_limit(name, limit, mode)
    return fn, limit


class _Alarm(Recorder):
    """A recorder that raises `error`, warns or only counts. The message has the cause."""

    def __init__(self, mode: Mode, error: type[ExcessError]) -> None:
        super().__init__()
        self._mode, self._error = mode, error

    def _sound(self, problem: str, told: Cause) -> None:
        if self._mode == "record":
            return
        first = next(iter(told.changes), None)
        facts = {n: getattr(first, n) for n in ("path", "before", "after") if first is not None}
        why = [line for line in told.lines() if not line.startswith("write: ")]
        fix = "\n  write: ".join(told.fixes) or None
        error = self._error("\n  ".join([problem, *why]), fix, **facts)
        if self._mode == "raise":
            raise error
        warnings.warn(str(error), RecompileWarning, stacklevel=frames_to_the_user() + 1)


# --- limits on a function -------------------------------------------------------------------------


def assert_max_traces(fn: Any = None, max_traces: int = 1, *, mode: Mode = "raise") -> Any:
    """Wrap `fn` so that it raises, and says why, when it is traced more than `max_traces` times.

    Wrap the plain function, as in `jax.jit(canonopt.assert_max_traces(f))`, or the jitted function,
    as in `canonopt.assert_max_traces(jax.jit(f))`. Assertions of chex and equinox may wrap `fn`,
    too, in any order.

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
    canonopt.errors.ExcessError: double (...) is traced twice, and max_traces=1.
      x: shape: float32[1] -> float32[2]
      hint: pad x to one shape and mask the padding (divide a mean by n), or drop a short last batch

    ```

    A trace is one run of the Python body to make a program, as under `jax.jit`. Runs that fail
    count, and so do runs by `.lower()` and `jax.eval_shape`. An eager run does not count.

    **Arguments:**

    - `fn`: a function, plain or jitted by `jax.jit`, `equinox.filter_jit` or `jax.pmap`, or an
        object with a jitted `__call__`. Without `fn`, a decorator is returned.
    - `max_traces`: the limit. In a decorator, the limit may stand alone: `@assert_max_traces(2)`.
    - `mode`: "raise", "warn" (with a `RecompileWarning`) or "record" (only count).

    **Returns:** a callable with `fn`'s signature. Its attribute `log` has the counts.

    **Raises:** `ExcessError`, an `AssertionError`, in a call that exceeds the limit. `LimitError`,
    a `ValueError`, at once if the limit or the mode is invalid. `UnsupportedVersionError`, at once
    or after a call, if JAX has changed so that canonopt cannot count.
    """
    fn, max_traces = _given(fn, "max_traces", max_traces, mode)
    if fn is None:
        return functools.partial(assert_max_traces, max_traces=max_traces, mode=mode)
    limit = _Limit(fn, "traces", max_traces, mode)
    return _Jitted(fn, limit) if is_jitted(fn) else _counted(fn, limit)


def assert_max_compiles(jitted: Any = None, max_compiles: int = 1, *, mode: Mode = "raise") -> Any:
    """Wrap `jitted` so that it raises when XLA compiles it more than `max_compiles` times.

    If the sharding, the memory kind or the commitment of an array changes, JAX compiles again
    without a trace, and that counts, too. The result of `.lower()` counts when it is compiled.
    A backward pass, which JAX compiles later, counts only in `.log.backward_compiles`.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> double = canonopt.assert_max_compiles(jax.jit(lambda x: 2 * x))
    >>> _ = double(jnp.ones(1))
    >>> double(jax.device_put(jnp.ones(1), jax.devices()[0]))
    Traceback (most recent call last):
        ...
    canonopt.errors.ExcessError: <lambda> (...) is compiled twice, and max_compiles=1.
      x: commitment: not committed -> committed
      hint: put x in one place before the first call: by jax.device_put ...

    ```

    **Arguments:**

    - `jitted`: a function that `jax.jit`, `equinox.filter_jit` or `jax.pmap` made, or an object
        with a jitted `__call__`. Without `jitted`, a decorator is returned.
    - `max_compiles`, `mode`: as for `assert_max_traces`.

    **Returns:** a callable with the same signature. Its attribute `log` has the counts.

    **Raises:** `NotJittedError` if `jitted` is a plain function. `ExcessError` and `LimitError`
    as for `assert_max_traces`. `UnsupportedVersionError`, at once or after a call, if JAX has
    changed so that canonopt cannot count.
    """
    jitted, max_compiles = _given(jitted, "max_compiles", max_compiles, mode)
    if jitted is None:
        return functools.partial(assert_max_compiles, max_compiles=max_compiles, mode=mode)
    if not is_jitted(jitted):
        raise NotJittedError(
            f"canonopt.assert_max_compiles needs a jitted function, not {jitted!r}.",
            "Write canonopt.assert_max_compiles(jax.jit(f)).",
        )
    return _Jitted(jitted, _Limit(jitted, "compiles", max_compiles, mode))


class _Limit(_Alarm):
    """A recorder that limits the traces or compiles of one function."""

    def __init__(self, fn: Any, what: Literal["traces", "compiles"], limit: int, mode: Mode):
        super().__init__(mode, ExcessError)
        misses.check()
        self.function_log = FunctionLog(name_of(fn), place_of(innermost(fn)))
        self._targets = functions_inside(fn)
        self._what, self._limit = what, limit

    def log_of(self, name: str, function: Any, by_library: bool) -> FunctionLog | None:
        inside = functions_inside(function)
        found = any(_is_same_function(f, target) for f in inside for target in self._targets)
        return self.function_log if found else None

    def line_of(self, site: str | None) -> None:
        """Ignore what JAX or a library compiles at a line, because only one function is counted."""

    def after_miss(self, log: FunctionLog, entry: Entry) -> None:
        if self._what == "traces" and entry.traced:
            self._check("traced", log.traces, entry)

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        if self._what == "compiles" and not compiled.is_hit:
            self._check("compiled", log.compiles, entry)

    def _check(self, done: str, count: int, entry: Entry) -> None:
        if count > self._limit:
            limit = f"max_{self._what}={self._limit}"
            problem = f"{self.function_log.title} is {done} {times(count)}, and {limit}."
            self._sound(problem, entry.told)


def _is_same_function(function: Any, target: Any) -> bool:
    """Return True for the same function, or for an `equinox.Module` and Equinox's copy of it."""
    if function is target:
        return True
    is_module = isinstance(target, loaded("equinox", "Module")) and type(function) is type(target)
    return is_module and jax.tree.structure(function) == jax.tree.structure(target)


def _counted(fn: Any, limit: _Limit) -> Any:
    """Wrap `fn` so that each run of its body in a trace counts towards `limit`."""

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if not is_staging() or is_unwatched():
            return fn(*args, **kwargs)
        call = None
        with contextlib.suppress(Exception):  # without a record, only the explanation is missing
            # In a trace, each leaf that is not an array or a tracer is static.
            call = call_of(fn, args, kwargs, filtered=True)
        entry = Entry(call, time.perf_counter(), traced=True)
        with misses.lock:
            limit.add_trace(limit.function_log, entry)
        # If this raises an error, JAX does not cache a jaxpr, and the next call is traced again.
        limit.after_miss(limit.function_log, entry)
        return fn(*args, **kwargs)

    vars(counted)["log"] = limit.function_log
    why = "each new assertion counts from zero. Make the function and its assertion once."
    note_not_shared(counted, why)
    return counted


class _Jitted:
    """A wrapper that limits the traces or compiles of a jitted function, and has its attributes."""

    def __init__(self, jitted: Any, limit: _Limit) -> None:
        functools.update_wrapper(self, jitted, updated=())
        self._jitted, self._limit, self.log = jitted, limit, limit.function_log

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with active(self._limit):
            result = self._jitted(*args, **kwargs)
        check_compiles()
        return result

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # like a function: pickled by name, and copied as itself

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._jitted, name)
        # These three methods may trace, as a call may, so their traces count.
        if name not in ("lower", "trace", "eval_shape"):
            return found

        def watched(*args: Any, **kwargs: Any) -> Any:
            with active(self._limit):
                return found(*args, **kwargs)

        return watched


# --- a limit on everything ------------------------------------------------------------------------


def no_recompiles(
    *, mode: Literal["raise", "warn"] = "raise", allow: Sequence[str] = (), warmup: int = 0
) -> contextlib.AbstractContextManager[CompileLog]:
    """Raise if anything is traced or compiled inside the block, in any thread, and say why.

    Use it for code that a warm-up has compiled, as in a server. Cached calls cost nothing extra.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> @jax.jit
    ... def predict(x):
    ...     return 2 * x
    >>> small, large = jnp.ones(2), jnp.ones(3)
    >>> with canonopt.compile_log():
    ...     _ = predict(small)
    >>> with canonopt.no_recompiles():
    ...     _ = predict(small)
    ...     _ = predict(large)
    Traceback (most recent call last):
        ...
    canonopt.errors.RecompileError: predict (...) was traced inside of no_recompiles(), at ...
      x: shape: float32[2] -> float32[3]
      hint: pad x to one shape and mask the padding (divide a mean by n), or drop a short last batch

    ```

    With `warmup=1`, the block may hold a whole training run: each function may have one program.

    The error compares the call with earlier calls in the block, in the last four logs and guards
    that ended, and in each `CompileLog` that your code still holds. Operations that JAX and
    libraries compile outside of your functions, such as `jnp.ones(n)`, count at the line of your
    code that ran them. A program that JAX reads from its persistent cache counts, too. A trace that
    fails raises only its own error.

    **Arguments:**

    - `mode`: "raise" or "warn" (with a `RecompileWarning`).
    - `allow`: the names of functions, or of lines such as `"train.py:12"`, that may be compiled,
        spelled as in a log.
    - `warmup`: how many programs each function, and each line, may have. A line counts as one
        program, plus one for each recompile that a log calls avoidable.

    **Returns:** a context manager that gives the `CompileLog` of the block.

    **Raises:** `RecompileError`, an `AssertionError`, in the call that traces or compiles, in the
    thread of that call. `LimitError`, a `ValueError`, at once if an argument is invalid, and
    `UnknownFunctionError` at the end if `allow` has a name that no function has.
    `UnsupportedVersionError` if JAX has changed so that canonopt cannot count.
    """
    _check_limit("warmup", warmup, mode, ("raise", "warn"))
    is_one = isinstance(allow, str) or not isinstance(allow, Iterable)
    if is_one or not all(isinstance(name, str) for name in allow):
        raise LimitError(
            f"allow must be a sequence of names of functions or lines, not {allow!r}.",
            f"Write allow=({allow if isinstance(allow, str) else 'evaluate'!r},).",
            path="allow",
        )
    return _guarded(mode, frozenset(allow), warmup)


@contextlib.contextmanager
def _guarded(mode: Mode, allow: frozenset[str], warmup: int) -> Iterator[CompileLog]:
    guard = _Guard(mode, allow, warmup)  # each call of a decorated function has its own guard
    log = guard.log
    with recording(guard, all_threads=True):
        yield log
    check_compiles()
    for name in guard.allowed:
        log[name]  # raises an error if no function has this name


class _Guard(_Alarm):
    def __init__(self, mode: Mode, allow: frozenset[str], warmup: int) -> None:
        super().__init__(mode, RecompileError)
        self.allowed, self._warmup = allow, warmup

    def add_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> Entry:
        # A backward pass counts, too, although it has no entry of its own.
        return super().add_compile(log, entry, compiled) or entry

    def after_miss(self, log: FunctionLog, entry: Entry) -> None:
        if entry.traced and entry.error is None and not self._is_allowed(log):
            # If an outer trace began before the guard, this trace is not in `programs`: count one.
            self._check(log, entry, max(_programs(log), 1), "traced")

    def after_compile(self, log: FunctionLog, entry: Entry, compiled: Compile) -> None:
        # If the guard has warned of a trace, it does not warn again of the compile that follows.
        if entry.refused is False or self._is_allowed(log):
            return
        # A line counts as one program, plus the recompiles that its report calls avoidable.
        again = log.avoidable if log.is_line and entry.compiled_again else 0
        count = 1 + again if log.is_line else _programs(log)
        done = "read from JAX's persistent cache" if compiled.is_hit else "compiled"
        part = "The backward pass of " if compiled.in_backward_pass and not log.is_line else ""
        self._check(log, entry, count, done, part)

    def _is_allowed(self, log: FunctionLog) -> bool:
        # A function that is traced inside another function is a part of the outer program.
        return log.name in self.allowed or is_inside_recorded(self)

    def _check(self, log: FunctionLog, entry: Entry, count: int, done: str, part: str = "") -> None:
        if count <= self._warmup:
            return
        entry.refused = self._mode == "raise"
        given = f"warmup={self._warmup}" if self._warmup else ""
        # `count` is that of a whole line, and the message is about one operation of it.
        often = (" again" if log.is_line else f" {times(count)}") if self._warmup else ""
        subject = f"{log.place or log.name}: {entry.operation}" if log.is_line else log.title
        site = f", at {entry.site}" if entry.site and not log.is_line else ""
        problem = f"{part}{subject} was {done}{often} inside of no_recompiles({given}){site}."
        self._sound(problem, _told(log, entry))


def _programs(log: FunctionLog) -> int:
    """Return the number of programs that a function has."""
    # One program may be traced, compiled and have a backward pass, so the counts are not added.
    return max(log.programs, log.compiles + log.cache_hits, log.backward_compiles)


# --- why --------------------------------------------------------------------------------------

_MAX_SHOWN = 4  # maximum number of leaves of a call in a message
_HOW_TO_RECORD = (
    "let the warm-up make this call too. To see how it differs from the calls of the warm-up, put "
    "the warm-up under `with canonopt.compile_log():`"
)


def _told(log: FunctionLog, entry: Entry) -> Cause:
    """Return why something was traced or compiled, by comparison with the calls in logs."""
    earlier = earlier_entries(log, entry, itertools.chain(*ended_logs))
    if entry.shapes is None:
        entry.compare_with(earlier)
        return entry.explanation or Cause(note=_called(entry), hints=(_HOW_TO_RECORD,))
    first, before = f"for {shortened(entry.shapes)}", [e.shapes for e in earlier if e.shapes]
    if entry.shapes in before and (told := repeated_operation(str(entry.operation), HANDFUL)):
        return attrs.evolve(told, note=f"{first}\n{told.note}")
    if before:
        hint = "let the warm-up make this call too, or use only the shapes of the warm-up"
        return Cause(note=f"{first}\nand before that for {shortened(before[-1])}", hints=(hint,))
    return Cause(note=first, hints=(_HOW_TO_RECORD,))


def _called(entry: Entry) -> str | None:
    if (call := entry.call) is None:
        return None
    found = call.leaves
    told = [p for p, leaf in found.items() if not p.startswith("<") and leaf.kind != "node"]
    # Arguments with few leaves, such as a batch, come first: they differ most often. Larger ones,
    # such as a model, follow. Static fields, which seldom change, come last.
    sizes = collections.Counter(map(call.root, told))
    is_last = lambda path: found[path].is_static and not path.isidentifier()  # noqa: E731
    told.sort(key=lambda path: (is_last(path), sizes[call.root(path)]))
    leaves = [f"{path}: {shortened(found[path].text)}" for path in told]
    more = len(leaves) - _MAX_SHOWN
    shown = [*leaves[:_MAX_SHOWN], *([f"{more} more"] if more > 0 else [])]
    return f"called with {', '.join(shown)}" if shown else None
