"""`filter_jit`: the meaning of `equinox.filter_jit`, at the price of `jax.jit`."""

import functools
import inspect
import types
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

import attrs
import equinox as eqx
import jax
import jax.core
import jax.extend.core.primitives
import jax.numpy as jnp
import jax.tree_util as jtu

from .._jax_internals import (
    HidingFailedCallbacks,
    Jitted,
    NotTraced,
    error_of_equinox,
    stand_at,
)
from .._python_internals import WeakIdMap
from .jitting import NOT_GIVEN
from .partition import Static, cut, cut_output
from .programs import Body, Calls

P = ParamSpec("P")
T = TypeVar("T")
Donate: TypeAlias = Literal["all", "all-except-first", "warn", "warn-except-first", "none"]

_DONATE = ("all", "all-except-first", "warn", "warn-except-first", "none")
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
    """`equinox.filter_jit` at the price of `jax.jit`, and for functions that are made again.

    Arrays are traced, everything else is static, and a function may return anything, just as with
    `equinox.filter_jit`. The numbers are the same.

    ```python
    >>> import canonopt, equinox as eqx, jax, jax.numpy as jnp
    >>> @canonopt.filter_jit
    ... def step(model, x):
    ...     return jax.tree.map(lambda leaf: leaf + 1, eqx.filter(model, eqx.is_array)), "done"
    >>> step({"scale": jnp.ones(2), "activation": jax.nn.relu}, jnp.ones(2))
    ({'activation': None, 'scale': Array([2., 2.], dtype=float32)}, 'done')

    ```

    Two functions that do the same (see `canonopt.jit`) share their programs. So a step that is
    made again, for example by a function that builds it, is neither traced nor compiled again.

    ```python
    >>> def make_step(factor):
    ...     def scale(x):
    ...         print("tracing")
    ...         return factor * x
    ...     return canonopt.filter_jit(scale)
    >>> make_step(2.0)(jnp.ones(2)), make_step(2.0)(jnp.ones(2))
    tracing
    (Array([2., 2.], dtype=float32), Array([2., 2.], dtype=float32))

    ```

    A call costs little more than one of `jax.jit` with a list of the arrays. To that end, modules
    that a call returns, or is given a second time, are recognized by identity, and their leaves are
    not collected again. Only modules that cannot change are recognized: those that consist of
    modules, tuples, arrays, functions, numbers and the like. A module with a list or a dict in it
    works too, and takes longer. Equinox's modules are frozen: what `object.__setattr__` does to one
    that was already in a call goes unnoticed.

    `equinox.filter_jit` waits until the program has run, so that `equinox.error_if` can raise its
    error. This one waits if the program contains something that may raise an error: a callback, or
    an operation that is not one of `jax.lax`.

    **Arguments:**

    - `fun`: any callable, such as a function, a method, a module or a `jax.tree_util.Partial`.
        Arrays in a module or a `Partial` are traced. Without `fun`, the result is a decorator.
    - `donate`: which arrays to donate: `"all"`, `"all-except-first"`, which keeps those of the
        first argument, or `"none"`. With `"warn"` and `"warn-except-first"`, JAX warns of donated
        arrays that it could not use.
    - `options`: further arguments of `jax.jit`, such as `inline`.

    **Returns:** a function with the signature of `fun`, and with the method `lower`. It is an
    `equinox.Module`, so in a class it is a method.
    """
    if fun is NOT_GIVEN:
        return functools.partial(filter_jit, donate=donate, **options)
    if donate not in _DONATE:
        raise ValueError(f"donate must be one of {', '.join(map(repr, _DONATE))}, not {donate!r}.")
    if refused := [name for name in _REFUSED if name in options]:
        raise ValueError(
            f"filter_jit decides itself what is static and donated, so it does not take "
            f"{', '.join(refused)}. Write donate=... to donate arrays."
        )
    if options:
        jax.jit(_names_of, **options)  # checks them
    static, own = None, ()
    if not (isinstance(fun, _FUNCTIONS) and jtu.all_leaves((fun,))):
        arrays, static = cut(fun)
        own = tuple(arrays)
    call = _Call(
        None if own else fun, static, inspect.signature(fun), _names_of(fun), options, donate
    )
    return eqx.module_update_wrapper(_FilterJitted(call.names[0], own, call))


# These are leaves, and each object has programs of its own. Other callables are cut like arguments.
_FUNCTIONS = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(Jitted, jax.custom_jvp, jax.custom_vjp),
)


def _names_of(fn: Any) -> tuple[str, str]:
    """The `__name__` and `__qualname__` of the innermost function."""
    while True:
        if hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        elif isinstance(fn, functools.partial):
            fn = fn.func
        else:
            break
    named = fn if hasattr(fn, "__name__") and hasattr(fn, "__qualname__") else type(fn)
    return named.__name__, named.__qualname__


# --- calls --------------------------------------------------------------------------------------


class _FilterJitted(eqx.Module):
    """The result of `filter_jit`: a pytree of the arrays in the function."""

    fn: str  # for the repr
    _own: tuple[Any, ...] = eqx.field(repr=False)  # the arrays in the function
    _call: "_Call" = eqx.field(static=True, repr=False)

    @property
    def __wrapped__(self) -> Any:
        fn, static = self._call.fn, self._call.static
        return static.restore(iter(self._own)) if fn is None and static is not None else fn

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        # Not through `__getattribute__`, which is a Python function of Equinox.
        attributes = object.__getattribute__(self, "__dict__")
        try:
            return _run(attributes["_call"], attributes["_own"], args, kwargs)
        except eqx.EquinoxRuntimeError as error:
            error.__traceback__ = None  # it ends in canonopt, and the message has the stack
            raise

    def lower(self, /, *args: Any, **kwargs: Any) -> "Lowered":
        kept, donated, static = self._call.split(self._own, args, kwargs)
        return Lowered(self._call.program_for(static).lowered(kept, donated), self._call, self._own)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else eqx.Partial(self, instance)

    def __reduce__(self) -> Any:
        return functools.partial(filter_jit, **self.__captured_options__), (self.__wrapped__,)

    # --- for the reader of functions ----------------------------------------------------------

    @property
    def __captured_function__(self) -> Any:
        return self.__wrapped__

    @property
    def __captured_options__(self) -> dict[str, Any]:
        return {**self._call.options, "donate": self._call.donate}

    def with_function(self, fn: Any) -> Any:
        """Return the same for another function."""
        return filter_jit(fn, **self.__captured_options__)


@attrs.frozen(eq=False)
class Lowered:
    """The result of `filter_jit(...).lower(...)`. `lowered` is that of `jax.jit`."""

    lowered: jax.stages.Lowered
    _call: "_Call"
    _own: tuple[Any, ...]

    def as_text(self) -> str:
        return self.lowered.as_text()

    def compile(self, /, compiler_options: dict[str, str | bool] | None = None) -> "Compiled":
        compiled = self.lowered.compile(compiler_options=compiler_options)
        return Compiled(compiled, self._call, self._own)


@attrs.frozen(eq=False)
class Compiled:
    """A compiled program, to call with arguments like those it was lowered for."""

    compiled: jax.stages.Compiled
    _call: "_Call"
    _own: tuple[Any, ...]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        kept, donated, _ = self._call.split(self._own, args, kwargs)
        _, arrays, output = self.compiled(kept, donated)
        return output.build(arrays)


# The static part of a call: of the function, if that is no leaf, and of the arguments.
_Statics: TypeAlias = tuple[Static | None, Static]
_MAX_STATICS = 4096  # as many as JAX remembers calls of one function


class _Call:
    """The facts that all calls of one filter-jitted function share."""

    def __init__(
        self,
        fn: Any,
        static: Static | None,
        signature: inspect.Signature,
        names: tuple[str, str],
        options: dict[str, Any],
        donate: Donate,
    ) -> None:
        # The function, if it has no arrays, and its static part, if it is no leaf.
        self.fn, self.static = fn, static
        self.names, self.options, self.donate = names, options, donate
        self._signature = signature
        # How many arguments, all positional, `inspect.Signature.bind` would not change.
        self._unchanged = _positional(signature)
        self.is_silent = donate.startswith("all")
        # By which Equinox finds where the stack inside of the function ends.
        self.key = id(self).to_bytes(8, "little")
        leaves, structure = jtu.tree_flatten(options)
        key = (donate, *leaves, structure)
        # As in Equinox, functions of one name that are equal have one set of programs.
        if static is not None:
            self._programs = _programs_of(*names, *key)
        elif isinstance(fn, types.MethodType):  # methods of one object are equal
            of_object = _known.setdefault(fn.__self__, {})
            self._programs = of_object.setdefault((fn.__func__, *key), {})
        else:
            self._programs = _known.setdefault(fn, {}).setdefault(key, {})
        self._last: tuple[_Statics, _Program] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self._programs is other._programs

    def __hash__(self) -> int:
        return hash(self.names)

    def split(
        self, own: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], list[Any], _Statics]:
        """Return the arrays to keep, those to donate, and the static rest."""
        if kwargs or len(args) not in self._unchanged:
            bound = self._signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        arrays, static = cut((args, kwargs))
        if own:
            arrays += own
        if self.donate == "none":
            return arrays, [], (self.static, static)
        first = len(cut(args[:1])[0]) if self.donate.endswith("-except-first") else 0
        return arrays[:first], arrays[first:], (self.static, static)

    def program_for(self, statics: _Statics) -> "_Program":
        """Return the program for a function and arguments whose static parts are these."""
        last = self._last
        if last is not None and last[0] == statics:
            last[1].parts = statics
            return last[1]
        found = self._programs.get(statics)
        if found is None:
            while len(self._programs) >= _MAX_STATICS:
                self._programs.pop(next(iter(self._programs)), None)
            made = _Program(self.fn, statics, self.names, self.options)
            found = self._programs.setdefault(statics, made)
        found.parts = statics
        self._last = statics, found
        return found


_known: WeakIdMap[dict[Any, dict[_Statics, "_Program"]]] = WeakIdMap()


@functools.lru_cache(maxsize=256)
def _programs_of(*_: Hashable) -> dict[_Statics, "_Program"]:
    return {}


class _Program:
    """The function of the calls with equal static parts, which takes the arrays."""

    statics = (frozenset[int](), frozenset[str]())

    def __init__(
        self, fn: Any, parts: _Statics, names: tuple[str, str], options: dict[str, Any]
    ) -> None:
        # A function has this as long as it lives.
        self._find = _weakly(fn) if parts[0] is None else lambda: fn
        # The static parts of the last call. A trace has those of the call that it is made for.
        self.parts = parts
        self.options = {**options, "donate_argnums": 1}

        def call(kept: list[Any], donated: list[Any]) -> Any:
            body = self.body()
            return body.run(body.fn, (kept, donated), {})

        call.__name__, call.__qualname__ = names
        vars(call)["__signature__"] = inspect.signature(call)
        stand_at(call, fn)
        vars(call)["__call_of_user__"] = lambda *arrays: _restored(
            self._find(), self.parts, *arrays
        )
        self.wrapped = call
        self.plain: Any = jax.jit(call, **self.options)
        self.calls = Calls()

    def lowered(self, kept: list[Any], donated: list[Any]) -> Any:
        """Lower what `jax.jit` made, and call that from now on: it knows what it has traced."""
        self.calls.is_plain = True
        return self.plain.lower(kept, donated)

    def body(self) -> Body:
        fn, parts = self._find(), self.parts

        def run(fn: Any, arrays: tuple[list[Any], list[Any]], _: dict[str, Any]) -> Any:
            function, args, kwargs = _restored(fn, parts, *arrays)
            # The first is a result of the program itself, to wait for.
            return jnp.array(0), *cut_output(function(*args, **kwargs))

        return Body(fn, run, parts if fn is None else parts[1:])


def _weakly(fn: Any) -> Callable[[], Any]:
    """Return what finds a function as long as it lives, and a method as long as its object does."""
    if not isinstance(fn, types.MethodType):
        return weakref.ref(fn)
    function, owner = fn.__func__, weakref.ref(fn.__self__)
    return lambda: types.MethodType(function, owner())


def _restored(fn: Any, parts: _Statics, kept: list[Any], donated: list[Any]) -> Any:
    """Return the function and the arguments of a call, given their static parts and arrays."""
    arrays = iter([*kept, *donated])
    of_function, of_arguments = parts
    args, kwargs = of_arguments.restore(arrays)
    if fn is None and of_function is not None:
        fn = of_function.restore(arrays)
    return fn, args, kwargs


def _positional(signature: inspect.Signature) -> range:
    """How many arguments a function takes if all are positional."""
    fewest = most = 0
    for parameter in signature.parameters.values():
        is_required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = 1 << 30
        elif parameter.kind is parameter.KEYWORD_ONLY and is_required:
            return range(0)
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            fewest, most = fewest + is_required, most + 1
    return range(fewest, most + 1)


def _run(call: _Call, own: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    __equinox_jit_id__ = call.key  # noqa: F841, for `error_of_equinox`
    kept, donated, statics = call.split(own, args, kwargs)
    try:
        program = call.program_for(statics)
    except TypeError as error:  # a static part has no hash
        raise ValueError(_NOT_HASHABLE.format(error)) from error
    try:
        with HidingFailedCallbacks():
            if call.is_silent:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Some donated buffers were not usable")
                    marker, arrays, output = program.calls(program, (kept, donated), {})
            else:
                marker, arrays, output = program.calls(program, (kept, donated), {})
            if output.may_fail is not False and not isinstance(marker, jax.core.Tracer):
                marker.block_until_ready()
                if output.may_fail is None:
                    output.may_fail = _may_fail(program, kept, donated)
        return output.build(arrays)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        found = error_of_equinox(error, call.key)
        if found is None:
            raise
    raise found  # outside of the block, so without the long error of XLA as its context


def _may_fail(program: Any, *arrays: list[Any]) -> bool:
    """Return True if a program that has just run may raise an error when it runs."""
    if jax.config.jax_disable_jit or jax.config.jax_check_tracer_leaks:  # pyright: ignore
        return True  # there is no trace, or tracing is not cached
    try:
        jaxpr = program.calls.jaxpr_of(program, arrays)
    except NotTraced:
        return True
    return bool(jaxpr.effects) or not all(
        equation.primitive in _harmless() for equation in _equations(jaxpr)
    )


# As JAX says it.
_NOT_HASHABLE = "Non-hashable static arguments are used in a jit function: {}"


@functools.cache
def _harmless() -> frozenset[Any]:
    """The operations of JAX, among which is no callback."""
    return frozenset(
        value
        for name, value in vars(jax.extend.core.primitives).items()
        if name.endswith("_p") and "callback" not in name
    )


def _equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of all inside of it."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _equations(inner)
