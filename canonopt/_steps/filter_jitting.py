"""`filter_jit`: the meaning of `equinox.filter_jit`, at the price of `jax.jit`."""

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

import attrs
import equinox as eqx
import jax
import jax.core
import jax.extend.core.primitives
import jax.numpy as jnp
import jax.tree_util as jtu

from .._identity import captured_arrays, hoist, is_in_place, read_without_arrays
from .._jax_internals import HidingFailedCallbacks, Jitted, error_of_equinox
from .jitting import JittedFunction
from .partition import Static, cut, cut_output

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
    fn: Callable[P, T], *, donate: Donate = "none", **options: Any
) -> Callable[P, T]: ...


def filter_jit(fn: Any = None, *, donate: Donate = "none", **options: Any) -> Any:
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

    - `fn`: any callable, such as a function, a method, a module or a `jax.tree_util.Partial`.
        Arrays in a module or a `Partial` are traced. Without `fn`, the result is a decorator.
    - `donate`: which arrays to donate: `"all"`, `"all-except-first"`, which keeps those of the
        first argument, or `"none"`. With `"warn"` and `"warn-except-first"`, JAX warns of donated
        arrays that it could not use.
    - `options`: further arguments of `jax.jit`, such as `inline`.

    **Returns:** a function with the signature of `fn`, and with the method `lower`. It is an
    `equinox.Module`, so in a class it is a method.
    """
    if fn is None:
        return functools.partial(filter_jit, donate=donate, **options)
    if donate not in _DONATE:
        raise ValueError(f"donate must be one of {', '.join(map(repr, _DONATE))}, not {donate!r}.")
    if refused := [name for name in _REFUSED if name in options]:
        raise ValueError(
            f"filter_jit decides itself what is static and donated, so it does not take "
            f"{', '.join(refused)}. Write donate=... to donate arrays."
        )
    names = _names_of(fn)
    jitted, function, own = _program_of(fn, names, options)
    hoisted = function if isinstance(function, Static) else hoist(fn)
    leaves, treedef = jtu.tree_flatten(options)
    key = *names, tuple(leaves), treedef
    call = _Call(jitted, function, hoisted, key, inspect.signature(fn), donate)
    return eqx.module_update_wrapper(_FilterJitted(names[0], own, call))


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
    """What `filter_jit` returns: a pytree of the arrays in the function."""

    fn: str  # for the repr
    _own: tuple[Any, ...] = eqx.field(repr=False)  # the arrays in the function
    _call: "_Call" = eqx.field(static=True, repr=False)

    @property
    def __wrapped__(self) -> Any:
        function = self._call.function
        return function.restore(iter(self._own)) if isinstance(function, Static) else function

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
        call = self._call
        return Lowered(call.jitted.lower(*call.split(self._own, args, kwargs)), call, self._own)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else eqx.Partial(self, instance)


@attrs.frozen(eq=False)
class Lowered:
    """What `filter_jit(...).lower(...)` returns. `lowered` is what `jax.jit` gives."""

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


@attrs.frozen
class _Call:
    """What all calls of one filter-jitted function have in common."""

    jitted: JittedFunction = attrs.field(eq=False)
    # The function, or what it is besides its arrays.
    function: "Static | Callable[..., Any]" = attrs.field(eq=False)
    # What stands for it in a comparison: one object for functions that do the same.
    _hoisted: Any
    _options: Any
    _signature: inspect.Signature = attrs.field(eq=False)
    _donate: Donate
    # How many arguments, all positional, `inspect.Signature.bind` would not change.
    _unchanged: range = attrs.field(eq=False, init=False)
    is_silent: bool = attrs.field(eq=False, init=False)
    # By which Equinox finds where the stack inside of the function ends.
    key: bytes = attrs.field(eq=False, init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_unchanged", _positional(self._signature))
        object.__setattr__(self, "is_silent", self._donate.startswith("all"))
        object.__setattr__(self, "key", id(self).to_bytes(8, "little"))

    def split(
        self, own: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], list[Any], tuple[Static | None, Static]]:
        """The arrays to keep, those to donate, and the static rest."""
        if kwargs or len(args) not in self._unchanged:
            bound = self._signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        arrays, static = cut((args, kwargs))
        function = self.function if isinstance(self.function, Static) else None
        if own:
            arrays += own
        if self._donate == "none":
            return arrays, [], (function, static)
        first = len(cut(args[:1])[0]) if self._donate.endswith("-except-first") else 0
        return arrays[:first], arrays[first:], (function, static)


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
    parts = call.split(own, args, kwargs)
    try:
        with HidingFailedCallbacks():
            if call.is_silent:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Some donated buffers were not usable")
                    marker, arrays, output = call.jitted(*parts)
            else:
                marker, arrays, output = call.jitted(*parts)
            if output.may_fail is not False and not isinstance(marker, jax.core.Tracer):
                marker.block_until_ready()
                if output.may_fail is None:
                    output.may_fail = _may_fail(call.jitted, parts)
        return output.build(arrays)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        found = error_of_equinox(error, call.key)
        if found is None:
            raise
    raise found  # outside of the block, so without the long error of XLA as its context


def _may_fail(jitted: Any, parts: tuple[Any, ...]) -> bool:
    """Whether a program that has just run may raise an error when it runs."""
    if jax.config.jax_disable_jit or jax.config.jax_check_tracer_leaks:  # pyright: ignore
        return True  # there is no trace, or tracing is not cached
    jaxpr = jitted.jaxpr_of(*parts)
    return bool(jaxpr.effects) or not all(
        equation.primitive in _harmless() for equation in _equations(jaxpr)
    )


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


# --- programs -------------------------------------------------------------------------------------


def _program_of(
    fn: Any, names: tuple[str, str], options: dict[str, Any]
) -> tuple[JittedFunction, "Static | Callable[..., Any]", tuple[Any, ...]]:
    """The jitted function for `fn`, the static part of `fn`, and its arrays."""
    if (isinstance(fn, _FUNCTIONS) and jtu.all_leaves((fn,))) or _is_around_functions(fn):
        return _jit(fn, *names, options), fn, ()
    arrays, static = cut(fn)
    leaves, treedef = jtu.tree_flatten(options)
    return _shared(*names, tuple(leaves), treedef), static, tuple(arrays)


def _is_around_functions(fn: Any) -> bool:
    """Whether a pytree has no arrays but functions that may be made again, which can be read.

    As `equinox.filter_grad(loss)` has.
    """
    leaves = jtu.tree_leaves(fn)
    made = (isinstance(leaf, types.FunctionType) and not is_in_place(leaf) for leaf in leaves)
    if any(map(eqx.is_array, leaves)) or not any(made):
        return False
    try:
        return read_without_arrays(fn, captured_arrays(fn)).is_comparable
    except Exception:  # something cannot be copied
        return False


@functools.lru_cache(maxsize=256)
def _shared(name: str, qualname: str, leaves: tuple[Any, ...], treedef: Any) -> JittedFunction:
    """For functions that are in the static part of each call: one for all of a name, as in Equinox.

    The same object for each, since one that is made while JAX traces would trace again.
    """
    return _jit(None, name, qualname, treedef.unflatten(leaves))


# What is read to find out whether another does the same. Other callables are static, and compared
# as Equinox compares them.
_FUNCTIONS = (
    *(types.FunctionType, types.MethodType, functools.partial),
    *(Jitted, jax.custom_jvp, jax.custom_vjp),
)


def _jit(fn: Any, name: str, qualname: str, options: dict[str, Any]) -> JittedFunction:
    """Jits `fn`, or the function in the static part of each call if there is none."""

    def call(kept: list[Any], donated: list[Any], static: tuple[Static | None, Static]) -> Any:
        function, args, kwargs = restored(kept, donated, static)
        # The first is a result of the program itself, to wait for.
        return jnp.array(0), *cut_output(function(*args, **kwargs))

    def restored(kept: list[Any], donated: list[Any], static: tuple[Static | None, Static]) -> Any:
        arrays = iter([*kept, *donated])
        static_function, static_arguments = static
        args, kwargs = static_arguments.restore(arrays)
        return static_function.restore(arrays) if static_function else fn, args, kwargs

    call.__name__, call.__qualname__ = name, qualname
    vars(call)["__call_of_user__"] = restored
    return JittedFunction(call, {**options, "donate_argnums": 1, "static_argnums": 2})
