"""`jit`: one program for functions that are made again and do the same."""

import functools
import types
from typing import Any

import jax
from jax.core import Tracer

from .._errors import DeletedArrayError, LimitError
from .._jax_internals import NotTraced, name_of
from .binding import Bound, Caller, bind, programs, traced


class JittedFunction:
    """What `canonopt.jit` returns. Used like what `jax.jit` returns."""

    def __init__(self, fn: Any, options: dict[str, Any]) -> None:
        # Checks both, and is called where no program can be shared.
        self._plain: Any = jax.jit(fn, **options)
        vars(self).update(getattr(fn, "__dict__", {}), **vars(self))
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self.options = options
        self._bound: Bound | None = None

    @property
    def __captured_function__(self) -> Any:
        return self.__wrapped__

    def with_function(self, fn: Any) -> "JittedFunction":
        """The same for another function."""
        return JittedFunction(fn, self.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._bound
        if bound is None:
            bound = self._bound = bind(self.__wrapped__, self.options, args, kwargs)
        if bound.program is None:
            return self._plain(*args, **kwargs)
        caller = Caller(bound)
        try:
            if not bound.is_new:
                with bound.program.lock:
                    return bound.program.call(caller, bound.arguments, *args, **kwargs)
        except NotTraced:
            # After an error JAX would not run this call without Python any more. So no later caller
            # may equal the one of this call.
            caller.is_good = False
        except (ValueError, RuntimeError) as error:
            _check_arrays_exist(bound, error)
            is_placed = isinstance(error, ValueError) and bound.arguments
            if not is_placed or not bound.set_arguments(args, kwargs):  # on other devices
                raise
        finally:
            bound.is_fresh &= bound.is_new
        return self._trace_and_call(bound, args, kwargs)

    def _trace_and_call(self, bound: Bound, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._bound, is_traced = traced(bound, self._plain, args, kwargs)
        bound = self._bound
        bound.is_fresh = False
        if not is_traced or bound.program is None:
            return self._plain(*args, **kwargs)
        try:
            with bound.program.lock:
                return bound.program.call(Caller(bound), bound.arguments, *args, **kwargs)
        except NotTraced:  # another thread has cleared the program since
            return self._plain(*args, **kwargs)
        except (ValueError, RuntimeError) as error:
            _check_arrays_exist(bound, error)
            raise

    def jaxpr_of(self, *args: Any, **kwargs: Any) -> Any:
        """The traced program that a call with these arguments has run."""
        bound = self._bound
        if bound is None or bound.program is None:
            return self._plain.trace(*args, **kwargs).jaxpr
        try:
            with bound.program.lock:
                made = bound.program.call.trace(Caller(bound), bound.arguments, *args, **kwargs)
            return made.jaxpr
        except NotTraced:  # the call ran the function as `jax.jit` has it, since it had changed
            return self._plain.trace(*args, **kwargs).jaxpr

    # --- as `jax.jit` has them --------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain.lower(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain.trace(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets the programs, also for other functions that do the same."""
        self._plain.clear_cache()
        if self._bound is not None and self._bound.program is not None:
            with self._bound.program.lock:
                self._bound.program.call.clear_cache()
        self._bound = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"canonopt.jit({self.__wrapped__!r})"


def _check_arrays_exist(bound: Bound, error: Exception) -> None:
    """Raises `DeletedArrayError` if a call failed since a captured array has been deleted."""
    for array in bound.replaced:
        if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.is_deleted():
            raise DeletedArrayError(
                f"{name_of(bound.fn)} captures a {array.dtype.name}{[*array.shape]} array that has "
                f"been deleted or donated. `jax.jit` copies captured arrays into each program; "
                f"`canonopt.jit` passes them to it at each call.",
                "Capture a copy: `jnp.copy(array)`.",
            ) from error


def jit(fn: Any = None, /, **options: Any) -> Any:
    """`jax.jit`, for functions that are made again: one program for all that do the same.

    `jax.jit` knows a function by identity. So a step that is made inside of a `fit()` is traced and
    compiled at each call of `fit()`. Here it runs the same program as long as the function does the
    same, and the arrays that it captures are arguments of the program.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> traces = []
    >>> def fit(data):
    ...     @canonopt.jit
    ...     def step(x):
    ...         traces.append(x)
    ...         return x - 0.5 * (x - data.mean())
    ...     return step(1.0)
    >>> float(fit(jnp.zeros(4))), float(fit(jnp.ones(4))), len(traces)
    (0.5, 1.0, 1)

    ```

    Functions do the same if they have the same code and read the same values, as in
    `canonopt.hoist`. What can change counts by its content: a trainer whose `self.lr` is another
    one gets another program. If something cannot be read, the function is a new one at each call,
    as in `jax.jit`.

    A captured array whose value the function asks for in Python, as in `int(n)`, `if flag:` or
    `print(n)`, is part of the program. So is a NumPy array that NumPy computes with.

    **Arguments:**

    - `fn`: the function. Without it, the result is a decorator.
    - `options`: those of `jax.jit`.

    **Returns:** a function that is called as that of `jax.jit`, with its methods: `lower`, `trace`,
    `eval_shape` (these three trace the function again) and `clear_cache`.

    **Raises:** what `jax.jit` raises, and `DeletedArrayError` if a captured array has been deleted
    or donated: its data is not in the program.
    """
    if fn is None:
        return functools.partial(jit, **options)
    return JittedFunction(fn, options)


def keep_programs(limit: int) -> None:
    """Sets how many programs `canonopt.jit` and `canonopt.filter_jit` keep, 1,024 at first.

    Those that were used least recently go first. A program that is in use stays as long as its
    function does.

    ```python
    >>> import canonopt
    >>> canonopt.keep_programs(1024)

    ```

    **Raises:** `LimitError` if `limit` is not an integer of at least 0.
    """
    if type(limit) is not int or limit < 0:
        raise LimitError(
            f"canonopt.keep_programs needs an integer of at least 0, and got {limit!r}.",
            "Write canonopt.keep_programs(1024).",
        )
    programs.limit = limit
    programs.shrink()
