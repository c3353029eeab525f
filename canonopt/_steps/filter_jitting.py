"""`filter_jit`, which acts as `equinox.filter_jit`, with calls about as fast as `jax.jit`'s."""

import contextlib
import functools
import inspect
import types
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, get_args, overload

import attrs
import equinox as eqx
import jax
import jax.core
import jax.extend.core.primitives
import jax.numpy as jnp
import jax.tree_util as jtu

from .._jax_internals.equinox_errors import HidingFailedCallbacks, error_of_equinox
from .._jax_internals.functions import Jitted, innermost
from .._jax_internals.jaxprs import is_program, values_in
from .._jax_internals.options import bare_parameters, stand_at
from .._jax_internals.tracing import NotTraced
from .._python_internals.weak import new_token
from .jitting import NOT_GIVEN
from .partition import HoldsStatic, Static, cut, cut_output, restored
from .programs import MAX_KINDS, Calls, FunctionToJit, is_debugging, known_of

P = ParamSpec("P")
T = TypeVar("T")
Donate: TypeAlias = Literal["all", "all-except-first", "warn", "warn-except-first", "none"]

_DONATE = get_args(Donate)
_REFUSED = ("static_argnums", "static_argnames", "donate_argnums", "in_shardings", "out_shardings")


@overload
def filter_jit(
    *, donate: Donate = "none", **options: Any
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


@overload
def filter_jit(
    fun: Callable[P, T], *, donate: Donate = "none", **options: Any
) -> Callable[P, T]: ...


def filter_jit(fun: Any = NOT_GIVEN, *, donate: Donate = "none", **options: Any) -> Any:
    """Jit a function as `equinox.filter_jit` does, with shared programs and the speed of `jax.jit`.

    Arrays are traced, everything else is static, and a function may return anything, as with
    `equinox.filter_jit`. The numbers are the same.

    ```python
    >>> import canonopt, equinox as eqx, jax, jax.numpy as jnp
    >>> @canonopt.filter_jit
    ... def step(model, x):
    ...     return jax.tree.map(lambda leaf: leaf + 1, eqx.filter(model, eqx.is_array)), "done"
    >>> step({"scale": jnp.ones(2), "activation": jax.nn.relu}, jnp.ones(2))
    ({'activation': None, 'scale': Array([2., 2.], dtype=float32)}, 'done')

    ```

    Functions that do the same share their programs, as with `canonopt.jit`. So a step that is made
    again, for example by a function that builds it, is neither traced nor compiled again.

    A call costs little more than a call of `jax.jit` with a list of arrays. To that end, a module
    that a call has returned, or that went into two calls, is recognized by identity, and its
    leaves are not collected again. Only modules that cannot change are recognized: those that
    consist of modules, tuples, arrays, functions, numbers and the like. A module with a list or a
    dict in it works too, but takes longer. Equinox's modules are frozen: if `object.__setattr__`
    changes a module that was already in a call, the change goes unnoticed.

    `equinox.filter_jit` waits until the program has run, so that `equinox.error_if` can raise its
    error. `canonopt.filter_jit` waits for the first run of a program. It waits for a later run only
    if the program may raise an error: by a callback, or an operation that is not one of `jax.lax`.

    **Arguments:**

    - `fun`: any callable, such as a function, a method, a module or a `jax.tree_util.Partial`.
        Arrays in a module or a `Partial` are traced. Without `fun`, the result is a decorator.
    - `donate`: which arrays to donate: `"none"`, `"all"`, or `"all-except-first"` (all but those of
        the first argument). `"warn"` and `"warn-except-first"` donate the same arrays, and let JAX
        warn of those that it could not use.
    - `options`: further arguments of `jax.jit`, such as `inline`.

    **Returns:** a function with the signature of `fun`, and with the method `lower`. The function
    is an `equinox.Module`. As an attribute of a class, it acts as a method.
    """
    if fun is NOT_GIVEN:
        return functools.partial(filter_jit, donate=donate, **options)
    if donate not in _DONATE:
        raise ValueError(f"donate must be one of {', '.join(map(repr, _DONATE))}, not {donate!r}.")
    if refused := [name for name in _REFUSED if name in options]:
        raise ValueError(
            f"filter_jit does not take {', '.join(refused)}: only arrays are traced. Write "
            "donate=... to donate them, and eqx.filter_shard in the function to place them."
        )
    if options:
        jax.jit(_names_of, **options)  # checks the options
    wrapper = _FilterJitted(_names_of(fun)[0], _Held(fun), _function_of(fun, donate, options))
    return eqx.module_update_wrapper(wrapper)


def _unhashable(error: TypeError) -> ValueError:
    """Return JAX's error for a static part without a hash."""
    return ValueError(f"Non-hashable static arguments are used in a jit function: {error}")


def _names_of(fn: Any) -> tuple[str, str]:
    """Return the `__name__` and `__qualname__` of `innermost(fn)`, or else of its type."""
    fn = innermost(fn)
    named = fn if hasattr(fn, "__name__") and hasattr(fn, "__qualname__") else type(fn)
    return named.__name__, named.__qualname__


# --- results ------------------------------------------------------------------------------------


@jtu.register_pytree_node_class
@attrs.frozen(eq=False)
class _Held:
    """A function as a pytree: only its arrays are leaves."""

    fun: Any
    _flat: tuple[list[Any], Static] | None = None  # from `tree_unflatten`; may hold non-arrays

    def tree_flatten(self) -> tuple[list[Any], Static]:
        return self._flat or cut(self.fun)

    @classmethod
    def tree_unflatten(cls, static: Static, leaves: Iterable[Any]) -> "_Held":
        leaves = [*leaves]
        return cls(restored(static, iter(leaves)), (leaves, static))


class _FilterJitted(eqx.Module):
    """The result of `filter_jit`: a pytree of the arrays in the function."""

    fn: str  # the name of the function, for the repr
    _held: _Held = eqx.field(repr=False)
    _function: "_Function" = eqx.field(static=True, repr=False)

    @property
    def __wrapped__(self) -> Any:
        return self._held.fun

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        # `self._function` would be slower: `__getattribute__` is a Python function of Equinox.
        attributes = object.__getattribute__(self, "__dict__")
        function, fun = attributes["_function"], attributes["_held"].fun
        __equinox_jit_id__ = function.key  # noqa: F841, for `error_of_equinox`
        kept, donated, rest = function.split(fun, args, kwargs)
        call = _Call(function, fun, rest)
        try:
            calls = function.calls_of(rest.static)
        except TypeError as error:
            raise _unhashable(error) from error
        try:
            with HidingFailedCallbacks(), function.quietly():
                marker, arrays, output = calls(call, (kept, donated), {})
                if output.may_fail is not False and not isinstance(marker, jax.core.Tracer):
                    marker.block_until_ready()
                    if output.may_fail is None:
                        output.may_fail = _may_fail(calls, call, kept, donated)
            return output.build(arrays)
        except eqx.EquinoxRuntimeError as error:
            found = error
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            found = error_of_equinox(error, function.key)
            if found is None:
                raise
        found.__traceback__ = None  # the message has the user's stack
        try:
            raise found  # outside of `except`, so that the long error of XLA is not its context
        finally:
            del found  # or its traceback would keep this frame alive, with the arrays

    def lower(self, /, *args: Any, **kwargs: Any) -> "Lowered":
        function = self._function
        kept, donated, rest = function.split(self.__wrapped__, args, kwargs)
        try:
            calls = function.calls_of(rest.static)
        except TypeError as error:
            raise _unhashable(error) from error
        lowered = calls.staged("lower", _Call(function, self.__wrapped__, rest), kept, donated)
        return Lowered(lowered, self, rest if len(lowered.args_info[0]) == 2 else None)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else eqx.Partial(self, instance)

    def __reduce__(self) -> Any:
        return functools.partial(filter_jit, **self.__captured_options__), (self.__wrapped__,)

    # --- for `_identity`, which makes keys of functions -----------------------------------------

    __captured_fields__ = ("fn", "_held", "_function")

    @property
    def __captured_options__(self) -> dict[str, Any]:
        return {**self._function.given, "donate": self._function.donate}


@attrs.frozen(eq=False)
class Lowered:
    """The result of `filter_jit(...).lower(...)`. `lowered` is JAX's own object."""

    lowered: jax.stages.Lowered
    _jitted: _FilterJitted
    _rest: Any  # the static rest if `lowered` does not take it, else None

    def as_text(self) -> str:
        return self.lowered.as_text()

    def compile(self, /, compiler_options: dict[str, str | bool] | None = None) -> "Compiled":
        compiled = self.lowered.compile(compiler_options=compiler_options)
        return Compiled(compiled, self._jitted, self._rest)


@attrs.frozen(eq=False)
class Compiled:
    """A compiled program. It takes arguments like the ones that `lower` was given."""

    compiled: jax.stages.Compiled
    _jitted: _FilterJitted
    _rest: Any

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        function, fun = self._jitted._function, self._jitted.__wrapped__  # noqa: SLF001
        given = function.split(fun, args, kwargs)
        _, arrays, output = self.compiled(*(given[:2] if given[2] == self._rest else given))
        return output.build(arrays)


# --- functions ----------------------------------------------------------------------------------

# A callable of these types is recognized by identity, unless it is a pytree, such as a
# `jax.tree_util.Partial`. Any other callable is cut into arrays and a static rest.
_FUNCTIONS = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(Jitted, jax.custom_jvp, jax.custom_vjp),
)


def _function_of(fn: Any, donate: Donate, options: dict[str, Any]) -> "_Function":
    """Return the `_Function` for `fn`: the same for all callables that Equinox treats as equal."""
    signature = inspect.Signature(bare_parameters(fn))
    if isinstance(fn, _FUNCTIONS) and jtu.all_leaves((fn,)):
        is_method = isinstance(fn, types.MethodType)  # each access makes another bound method
        owner, key = (fn.__self__, fn.__func__) if is_method else (fn, None)
        try:
            find = weakref.WeakMethod(fn) if is_method else weakref.ref(fn)
        except TypeError:  # `owner` cannot be weakly referenced; `known_of` then stores nothing
            find = lambda: fn  # noqa: E731
    else:
        arrays, static = cut(fn)
        find, key = lambda: None if arrays else fn, None
        try:
            owner = _owner_of(signature, *_names_of(fn), None if arrays else static)
        except TypeError:  # a static part has no hash
            owner = _Owner()
    make = functools.partial(_Function, fn, find, signature, donate, options)
    return known_of(owner, (key, donate), options, make)


class _Owner:
    """One object for equal callable pytrees. If they hold arrays, only name and signature count."""


@functools.lru_cache(maxsize=256)
def _owner_of(*_: Hashable) -> _Owner:
    return _Owner()


class _Function:
    """A function, or all callable pytrees with one `_Owner`, and the programs for their calls."""

    def __init__(
        self,
        fn: Any,
        find: Callable[[], Any],
        signature: inspect.Signature,
        donate: Donate,
        options: dict[str, Any],
    ) -> None:
        self.given, self.donate = options, donate
        self.options = options if donate == "none" else {**options, "donate_argnums": 1}
        # False for a pytree with arrays: the pytree is then an argument of each call.
        self.is_whole = find() is not None
        self._signature = signature
        # A unique key, by which Equinox finds the frame where the stack of its error begins.
        self.key = new_token().to_bytes(8, "little")
        self.quietly = _no_warnings if donate.startswith("all") else contextlib.nullcontext
        # Calls with equal static parts share one `Calls`.
        self.calls_of = functools.lru_cache(MAX_KINDS)(lambda _: Calls())

        def call(kept: list[Any], donated: list[Any], rest: Any = None) -> Any:
            __tracebackhide__ = True
            return _run(find(), kept, donated, rest)

        call.__name__, call.__qualname__ = _names_of(fn)
        vars(call)["__signature__"] = inspect.signature(call)
        stand_at(call, fn)
        vars(call)["__call_of_user__"] = lambda *args: _restored(find(), *args)
        self.wrapped = call
        self.plain: Any = jax.jit(call, **self.options)

    def split(
        self, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], list[Any], "_Rest"]:
        """Return the arrays to keep, the arrays to donate, and the static rest."""
        if kwargs:
            bound = self._signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        arrays, static = cut((args, kwargs, None if self.is_whole else fun))
        rest = _Rest(self.key, static)
        if self.donate == "none":
            return arrays, [], rest
        first = len(cut(args[:1])[0]) if self.donate.endswith("-except-first") else 0
        return arrays[:first], arrays[first:], rest


@jtu.register_static
@attrs.frozen
class _Rest(HoldsStatic):
    """The static part of a call, as an argument of the jitted function.

    JAX may compare it with the static part of another function's call. Then `key` differs, and
    `static` is not compared: its `==` may raise an error, for example for NumPy arrays.
    """

    key: bytes
    static: Static


class _Call(FunctionToJit):
    """A function with the static part of the arguments of one call."""

    def __init__(self, function: _Function, fun: Any, rest: _Rest) -> None:
        self.fn = fun if function.is_whole else None
        self.beside = (rest,)
        self.wrapped, self.options, self.plain = function.wrapped, function.options, function.plain

    def run(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        return _run(fn, *args, *self.beside)


def _run(fn: Any, kept: list[Any], donated: list[Any], rest: _Rest) -> Any:
    __tracebackhide__ = True
    function, args, kwargs = _restored(fn, kept, donated, rest)
    # `filter_jit` waits for this new array: other outputs may be arguments, ready before the run.
    return jnp.array(0), *cut_output(function(*args, **kwargs))


def _restored(fn: Any, kept: list[Any], donated: list[Any], rest: _Rest) -> Any:
    """Return the function and the arguments of a call, given their arrays and static rest."""
    args, kwargs, tree = restored(rest.static, iter([*kept, *donated]))
    return tree if fn is None else fn, args, kwargs


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        yield


# --- programs that may raise an error when they run -----------------------------------------------


def _may_fail(calls: Calls, call: _Call, *arrays: list[Any]) -> bool:
    """Return True if the program that has just run for `call` may raise an error in another run."""
    if is_debugging():
        return True  # there may be no trace to look at
    try:
        jaxpr = calls.jaxpr_of(call, arrays)
    except NotTraced:
        return True
    equations = (eqn for value in values_in(jaxpr) if is_program(value) for eqn in value.eqns)
    return bool(jaxpr.effects) or not all(eqn.primitive in _HARMLESS for eqn in equations)


# The primitives of JAX that raise no error when they run: all but callbacks.
_HARMLESS = frozenset(
    value
    for name, value in vars(jax.extend.core.primitives).items()
    if name.endswith("_p") and "callback" not in name
)
