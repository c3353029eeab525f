"""Assertions on how often a function is traced or compiled."""

import collections
import contextlib
import functools
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload

import equinox as eqx
import jax

from .._errors import (
    ExcessError,
    LimitError,
    NotJittedError,
    RecompileWarning,
)
from .._jax_internals import (
    functions_inside,
    is_jitted,
    is_staging,
)
from .call_key import Signature, signature_of
from .listeners import (
    check_compiles,
    counting,
    watch,
)
from .log import (
    CompileLog,
    Entry,
    FunctionLog,
)
from .ownership import (
    is_of_a_library,
    name_of,
    written_as,
)
from .statics import place_of

F = TypeVar("F", bound=Callable[..., Any])
Mode: TypeAlias = Literal["raise", "warn", "record"]

_WARNINGS = 3  # of one function in the window, after which it is clear that it goes on
_WINDOW = 60  # seconds


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
    """`fn`, that raises when it is traced more often than `max_traces` times, and says why.

    Goes below a transformation, as in `jax.jit(canonopt.assert_max_traces(f))`, and above, as in
    `canonopt.assert_max_traces(jax.jit(f))`, in whatever order with others of its kind.

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
    canonopt.ExcessError: double (...) is traced for the 2nd time, and max_traces=1.
      x: shape: float32[1] -> float32[2]
      write: pad or drop what is left over, so that x has one shape

    ```

    A trace is one run of the Python body under a transformation like `jax.jit`: also one that
    fails, by `.lower()` or in `jax.eval_shape`. A run without such is none.

    **Arguments:**

    - `fn`: a function, or what `jax.jit`, `equinox.filter_jit` or `jax.pmap` made of one, or an
        object that has such for its `__call__`. Left out, a decorator is returned.
    - `max_traces`, `n`: the limit, 1 if neither is given. `n` as for `chex.assert_max_traces`.
    - `mode`: "raise"; "warn", with a `RecompileWarning`, three in a minute at most; or "record",
        to look at `.log.traces` later.

    **Returns:** a callable of `fn`'s signature. Its attribute `log` has the counts.

    **Raises:** `ExcessError`, an `AssertionError`, when it is called and the limit is exceeded.
    `LimitError`, a `ValueError`, at once for another limit than a whole number or another mode.
    `UnsupportedVersionError` at once where JAX has changed so that traces cannot be counted.
    """
    if fn is not None and not callable(fn):
        fn, n = None, fn  # as in @chex.assert_max_traces(1)
    if max_traces is not None and n is not None:
        raise LimitError(
            f"max_traces={max_traces!r} and n={n!r} are two names of one limit. Write one of them: "
            "canonopt.assert_max_traces(f, max_traces=1)."
        )
    name, limit = ("max_traces", max_traces) if n is None else ("n", n)
    limit = 1 if limit is None else limit
    _check_arguments(name, limit, mode)
    if fn is None:
        return functools.partial(assert_max_traces, max_traces=limit, mode=mode)
    if is_jitted(fn):
        return _Jitted(fn, _Limit(fn, "traces", limit, mode))
    return _counted(fn, _Limit(fn, "traces", limit, mode))


def assert_max_compiles(jitted: Any = None, max_compiles: int = 1, *, mode: Mode = "raise") -> Any:
    """`jitted`, that raises when XLA compiles it more often than `max_compiles` times.

    Sees the second compile that comes without a trace: of an array that is committed, or sharded,
    or in another memory, where the one before was not. What is lowered by hand counts where it is
    compiled. A backward pass, which is compiled after the call, counts in `.log.backward_compiles`,
    and neither in `.log.compiles` nor towards the limit.

    ```python
    >>> import canonopt, jax, jax.numpy as jnp
    >>> double = canonopt.assert_max_compiles(jax.jit(lambda x: 2 * x))
    >>> _ = double(jnp.ones(1))
    >>> double(jax.device_put(jnp.ones(1), jax.devices()[0]))
    Traceback (most recent call last):
        ...
    canonopt.ExcessError: <lambda> (...) is compiled for the 2nd time, and max_compiles=1.
      x: commitment: not committed -> committed
      write: jax.device_put(x, sharding) before the first call, or jax.jit(step, out_shardings=...)
      so that a step gives back what it takes

    ```

    **Arguments:**

    - `jitted`: what `jax.jit`, `equinox.filter_jit` or `jax.pmap` made, or an object that has such
        for its `__call__`. Left out, a decorator is returned.
    - `max_compiles`, `mode`: as for `assert_max_traces`.

    **Returns:** a callable of the same signature. Its attribute `log` has the counts.

    **Raises:** `NotJittedError` if `jitted` is a plain function; `ExcessError` when it is called
    and the limit is exceeded. `UnsupportedVersionError`, at once or after the first call, where JAX
    has changed so that compiles cannot be counted.
    """
    _check_arguments("max_compiles", max_compiles, mode)
    if jitted is None:
        return functools.partial(assert_max_compiles, max_compiles=max_compiles, mode=mode)
    if not is_jitted(jitted):
        raise NotJittedError(
            f"canonopt.assert_max_compiles needs a jitted function, and got {jitted!r}, which is "
            "compiled only inside of another. Put it above: "
            "canonopt.assert_max_compiles(jax.jit(f))."
        )
    return _Jitted(jitted, _Limit(jitted, "compiles", max_compiles, mode))


def _check_arguments(name: str, limit: object, mode: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise LimitError(
            f"{name} is {limit!r}, which is no int. Write {name}=1, or how many may be."
        )
    if limit < 0:
        raise LimitError(f"{name} is {limit}, less than none. Write {name}=1, or how many may be.")
    if mode not in get_args(Mode):
        modes = ", ".join(map(repr, get_args(Mode)))
        raise LimitError(f"mode is {mode!r}. Write one of {modes}.")


class _Limit(CompileLog):
    """The log of one function, that says when there is too much of something."""

    _explains_helpers = True

    def __init__(self, fn: Any, what: Literal["traces", "compiles"], limit: int, mode: Mode):
        super().__init__()
        watch()
        self.function = FunctionLog(name_of(fn), place_of(written_as(fn)))
        self._targets = functions_inside(fn)
        self._what: Literal["traces", "compiles"] = what
        self._limit = limit
        self._mode = mode
        # Without what is compiled when the call is long over.
        self._compiles = 0
        self._warned: collections.deque[float] = collections.deque(maxlen=_WARNINGS)
        # JAX keeps a trace that was one too many, and would run it in silence the next time.
        self._refused: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def _of(self, name: str, function: Any, by_library: bool = False) -> FunctionLog | None:
        inside = functions_inside(function) if function is not None else ()
        found = any(_is_one(f, target) for f in inside for target in self._targets)
        return self.function if found else None

    def note_trace(self, signature: Signature | None) -> None:
        """Counts a trace that is seen from inside of the function."""
        entry = Entry(signature, time.perf_counter(), traced=True)
        with self._lock:
            self.function._add_trace(entry)
        self._missed(self.function, entry, None)

    def _missed(self, log: FunctionLog, entry: Entry, program: Any) -> None:
        if self._what != "traces":
            return
        if entry.traced:
            self._check(log.traces, entry, program)
        elif program is not None and (text := self._refused.get(program)):
            raise ExcessError(text)

    def _compiled(self, log: FunctionLog, entry: Entry) -> None:
        with self._lock:
            self._compiles += 1
        if self._what == "compiles":
            self._check(self._compiles, entry)

    def _check(self, count: int, entry: Entry, program: Any = None) -> None:
        if count <= self._limit or self._mode == "record":
            return
        log, verb = self.function, {"traces": "traced", "compiles": "compiled"}[self._what]
        where = f" ({log.place})" if log.place else ""
        text = f"{log.name}{where} is {verb} for the {_nth(count)} time, and max_{self._what}="
        text = "\n  ".join([f"{text}{self._limit}.", *entry.why.splitlines()])
        if self._mode == "raise":
            entry.refused = True
            if program is not None:
                self._refused[program] = text
            raise ExcessError(text)
        now = time.monotonic()
        if len(self._warned) == _WARNINGS and now - self._warned[0] < _WINDOW:
            return
        self._warned.append(now)
        if len(self._warned) == _WARNINGS and now - self._warned[0] < _WINDOW:
            text += f"\n  It goes on; no more warnings within {_WINDOW} s."
        warnings.warn(text, RecompileWarning, stacklevel=_frames_to_the_user() + 1)


def _frames_to_the_user() -> int:
    """How many frames above the caller of this stands a line of the user's."""
    frame, count = sys._getframe(1), 0
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__"))
        if not is_of_a_library(module) and module.partition(".")[0] != "canonopt":
            break
        frame, count = frame.f_back, count + 1
    return count


def _nth(count: int) -> str:
    last = 0 if count % 100 in (11, 12, 13) else count % 10
    return f"{count}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def _is_one(function: Any, target: Any) -> bool:
    """Whether two are one function, or one module of which equinox has made a copy."""
    if function is target or not isinstance(target, eqx.Module):
        return function is target
    return type(function) is type(target) and (
        jax.tree.structure(function) == jax.tree.structure(target)
    )


def _counted(fn: Any, limit: _Limit) -> Any:
    """A function that counts the runs of its body in a trace."""

    @functools.wraps(fn)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if is_staging():
            limit.note_trace(_signature(fn, args, kwargs))
        return fn(*args, **kwargs)

    vars(counted)["log"] = limit.function
    return counted


def _signature(fn: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    with contextlib.suppress(Exception):  # to explain is not worth a step that fails
        return signature_of(fn, args, kwargs, filtered=True)
    return None


class _Jitted:
    """A jitted function under watch. All else of it is as it was."""

    def __init__(self, jitted: Any, limit: _Limit) -> None:
        functools.update_wrapper(self, jitted, updated=())
        self._jitted = jitted
        self._limit = limit
        self.log = limit.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with counting(self._limit):
            result = self._jitted(*args, **kwargs)
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
        if name not in ("lower", "trace", "eval_shape"):
            return found

        def watched(*args: Any, **kwargs: Any) -> Any:
            with counting(self._limit):
                return found(*args, **kwargs)

        return watched
