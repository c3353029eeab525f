"""`jit`: one program for all functions that do the same, such as a step that is made again."""

import copy
import functools
import types
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import jax

from .._jax_internals.functions import statics_of
from ..errors import LimitError
from .programs import Calls, FunctionToJit, known_of, programs

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")


class JittedFunction(Generic[P, T]):
    """The result of `canonopt.jit`. Use it like the result of `jax.jit`."""

    __wrapped__: Callable[P, T]

    def __init__(self, fn: Callable[P, T], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, fn)
        # This is canonopt's only attribute: the user's function may have attributes of any name.
        self._canonopt = _Jitted(fn, options)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        jitted = self._canonopt
        return jitted.calls(jitted, args, kwargs)

    # --- for `_identity`, which makes keys of functions -----------------------------------------

    __captured_fields__ = ("_canonopt",)

    @property
    def __captured_options__(self) -> dict[str, Any]:
        return self._canonopt.options

    # --- the methods of `jax.jit` ---------------------------------------------------------------

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Lowered:
        return self._canonopt.calls.staged("lower", self._canonopt, *args, **kwargs)

    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Traced:
        return self._canonopt.calls.staged("trace", self._canonopt, *args, **kwargs)

    def eval_shape(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._canonopt.calls.staged("eval_shape", self._canonopt, *args, **kwargs)

    def clear_cache(self) -> None:
        """Forget the programs of this function, so that it is traced again."""
        self._canonopt.plain.clear_cache()
        self._canonopt.calls.clear()

    def _cache_size(self) -> int:
        return self._canonopt.plain._cache_size() + len(self._canonopt.calls)  # noqa: SLF001

    @overload
    def __get__(self, instance: None, owner: Any = None) -> "JittedFunction[P, T]": ...
    @overload
    def __get__(
        self: "JittedFunction[Concatenate[Any, Q], T]", instance: object, owner: Any = None
    ) -> Callable[Q, T]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        return functools.partial(jit, **self.__captured_options__), (self.__wrapped__,)

    def __deepcopy__(self, _: Any) -> "JittedFunction[P, T]":
        return copy.copy(self)  # as with `jax.jit`, the user's function is not copied

    def __repr__(self) -> str:
        return f"canonopt.jit({self.__wrapped__!r})"


class _Jitted(FunctionToJit):
    """A function and its options, with the programs that its calls may run."""

    def __init__(self, fn: Any, options: dict[str, Any]) -> None:
        self.fn = self.wrapped = fn
        self.options = options
        self.plain = jax.jit(fn, **options)  # checks `fn` and the options
        # All results of `jit` for one function and the same options share one `Calls`.
        self.calls = known_of(fn, "jit", options, Calls)
        if (statics := statics_of(self.plain)) is None:
            self.calls.is_plain = True
        else:
            self.statics = statics


NOT_GIVEN: Any = object()


@overload
def jit(**options: Any) -> Callable[[Callable[P, T]], JittedFunction[P, T]]: ...
@overload
def jit(fn: Callable[P, T], /, **options: Any) -> JittedFunction[P, T]: ...
def jit(fn: Any = NOT_GIVEN, /, **options: Any) -> Any:
    """Jit a function as `jax.jit` does, with one program for all functions that do the same.

    `jax.jit` compares functions by identity. So a step that is made inside of `fit()` is traced and
    compiled at each call of `fit()`. With `canonopt.jit`, the step runs the same program as long as
    it does the same. The arrays that it captures are arguments of the program.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> def fit(data):
    ...     @canonopt.jit
    ...     def step(x):
    ...         print("tracing")
    ...         return x - 0.5 * (x - data)
    ...     return float(step(1.0))
    >>> fit(0.0), fit(0.0)
    tracing
    (0.5, 0.5)

    ```

    Functions do the same if they have the same code and read the same values, as in
    `canonopt.hoist`. A value that can change is compared by its content: a trainer with another
    `self.lr` gets another program. If something cannot be read, the function counts as a new one
    each time it is made, as in `jax.jit`.

    As with `jax.jit`, a function is traced each time it is made if it reads a NumPy array, or if
    its trace needs the value of a captured array or changes what it reads. `compile_log` says why.

    **Arguments:**

    - `fn`: the function. Without it, the result is a decorator.
    - `options`: the options of `jax.jit`.

    **Returns:** a function like those of `jax.jit`, with the methods `lower`, `trace`, `eval_shape`
    and `clear_cache`. Unless a call was made before, these end the sharing: later calls act as with
    `jax.jit`.

    **Raises:** the errors of `jax.jit`, and `DeletedArrayError` if a captured array was deleted or
    donated, since the program holds no copy of the array.
    """
    if fn is NOT_GIVEN:
        return functools.partial(jit, **options)
    return JittedFunction(fn, options)


def keep_programs(limit: int) -> None:
    """Set how many programs `canonopt.jit` and `canonopt.filter_jit` keep (default 1,024).

    The programs that were used least recently are dropped first. A program that a function uses
    stays as long as the function does.

    ```python
    >>> import canonopt
    >>> canonopt.keep_programs(1024)

    ```

    **Raises:** `LimitError` if `limit` is not an integer of at least 0.
    """
    if type(limit) is not int or limit < 0:
        raise LimitError(
            f"canonopt.keep_programs takes an integer of at least 0, not {limit!r}.",
            "Write canonopt.keep_programs(1024).",
        )
    programs.limit = limit
    programs.shrink()
