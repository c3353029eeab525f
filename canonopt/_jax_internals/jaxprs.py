"""Find what is in a traced program, and compare a cached program with one that is traced now."""

import contextlib
import functools
import itertools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.core
import jax.interpreters.partial_eval as partial_eval
import jax.numpy as jnp
import numpy as np

from .._python_internals.libraries import attribute, is_library_file, is_ours
from .._python_internals.rebinding import captured_by
from .options import CAPTURED
from .tracing import unwatched


def kept_by(program: Any) -> tuple[int, list[Any], frozenset[str]]:
    """Return the size of a program's constants in bytes, the code it keeps, and inner functions.

    The code is the user's: callbacks, which run with the program, and rules for derivatives, which
    are traced when the program is differentiated. Captured tracers are in the same list. Relies on
    the attributes in which JAX keeps functions: `callback_func` for callbacks; `f`, `transforms`
    and `f_transformed` of a `WrappedFun`.

    Inner functions are those that JAX has traced to programs of their own, as for `jax.lax.cond`,
    each as "FILE:LINE". Relies on `debug_info.func_src_info` of a `Jaxpr`: "NAME at FILE:LINE".
    """
    constants: dict[int, int] = {}
    kept = []
    places = set[str]()
    for value in values_in(program):
        if is_program(value) and value is not program:
            info = getattr(value, "jaxpr", value).debug_info
            place = info.func_src_info.rpartition(" at ")[2]
            # JAX has no line for a callable object. A line in canonopt's jit counts as unknown.
            places.add("<unknown>" if is_ours(place) else place)
        if isinstance(value, jax.core.Tracer):
            kept.append(value)
        elif isinstance(value, jax.Array | np.ndarray) or type(value).__name__ == "TypedNdArray":
            constants[id(value)] = value.size * value.dtype.itemsize
        elif _is_users_code(value):
            kept.append(value)
    return sum(constants.values()), kept, frozenset(places)


def _is_users_code(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return not _is_library_code(value)
    if isinstance(value, functools.partial):
        return not _is_library_code(value.func)
    if isinstance(value, types.MethodType | types.BuiltinFunctionType):
        owner = value.__self__
        return not (owner is None or isinstance(owner, types.ModuleType) or _is_of_library(owner))
    return callable(value) and not (isinstance(value, type) or _is_of_library(value))


def _is_library_code(value: Any) -> bool:
    is_function = isinstance(value, types.FunctionType)
    return is_function and is_library_file(value.__code__.co_filename)


def _is_of_library(value: Any) -> bool:
    """Return True for an object of JAX or Equinox, which may hold objects of the user."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "equinox")


def is_program(value: Any) -> bool:
    """Return True for a `Jaxpr` or a `ClosedJaxpr`."""
    return _is_of_library(value) and hasattr(value, "eqns")


_NUMBERS = int | float | complex


def values_in(program: Any) -> Iterator[Any]:
    """Yield a program and what it holds: inner programs, constants, functions, captured values.

    Leaves out numbers among the parameters of an operation, because the text of the program has
    them. Leaves out the attributes of the user's own objects, which may be anything.
    """
    seen: dict[int, Any] = {}
    pending = [program]
    while pending:
        value = pending.pop()
        if isinstance(value, _NUMBERS):  # yield each, even if equal numbers are one object
            yield value
            continue
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, tuple | list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, functools.partial):
            pending += (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, types.MethodType):
            pending += (value.__func__, value.__self__)
        elif isinstance(value, types.FunctionType):
            held = captured_by(value).values()
            if _is_library_code(value):  # JAX fills a dict with the derivatives that were asked for
                held = [each for each in held if type(each) is not dict]
            pending += (*held, *(value.__defaults__ or ()))
        elif not _is_of_library(value):
            continue
        elif hasattr(value, "eqns"):
            for equation in value.eqns:
                pending += _without_numbers(equation.params.values())
                pending += (x.val for x in equation.invars if hasattr(x, "val"))
            pending += getattr(value, "consts", ())
        elif hasattr(value, "call_wrapped"):  # a `WrappedFun`
            pending += (value.f, value.transforms, getattr(value, "f_transformed", None))
        elif hasattr(value, "__wrapped__"):  # a rule of `jax.custom_batching.custom_vmap`
            pending.append(value.__wrapped__)
        elif hasattr(value, "callback_func"):  # a callback, for example of `jax.pure_callback`
            pending.append(value.callback_func)
        elif type(value).__module__.startswith("equinox.") and hasattr(value, "__dict__"):
            pending += vars(value).values()  # as for `equinox.filter_custom_vjp`


def _without_numbers(parameters: Iterable[Any]) -> Iterator[Any]:
    """Yield the parameters that are not numbers; for a container, yield its items likewise."""
    for value in parameters:
        if isinstance(value, tuple | list | dict):
            yield from _without_numbers(value.values() if isinstance(value, dict) else value)
        elif not isinstance(value, _NUMBERS):
            yield value


# --- comparing programs ---------------------------------------------------------------------------

# A traced program, and the captured arrays that it takes as arguments.
Traced: TypeAlias = tuple[Any, Sequence[Any]]


def is_same_program(one: Traced, other: Traced, changed: Sequence[np.ndarray] = ()) -> bool:
    """Return True if two traced programs have the same operations, parameters and constants.

    Functions in parameters, such as callbacks and rules for derivatives, are compared by name.
    Dead code, on which no output depends, is left out, with arrays that only dead code uses.
    Relies on `dce_jaxpr` of `jax.interpreters.partial_eval`, which removes dead code, and on
    `debug_info.arg_names` of a `Jaxpr`, which tells captured arrays from other arguments. If JAX
    lacks either name, dead code is compared too.

    `changed` lists NumPy arrays that were changed in place after the compile. A jaxpr shares the
    memory of a captured array and so has the new values, although the compiled program has the old
    ones. If `other` holds one of these arrays, the programs count as different.
    """
    one, other = map(_without_dead_code, (one, other))
    # Leave out the addresses of functions.
    ours, theirs = (re.sub(r"0x[0-9a-fA-F]+", "", str(program)) for program, _ in (one, other))
    if ours != theirs:
        return False
    ours, theirs = _constants(one), _constants(other)
    for array in changed:
        # If JAX converts the dtype, for example from float64, a program holds a copy. While the
        # program lives, JAX uses this copy with the old values, even in a new trace.
        with unwatched():
            held = jax.make_jaxpr(functools.partial(jax.lax.expand_dims, array, (0,)))().consts
        if any(np.may_share_memory(v, np.asarray(each)) for v in theirs for each in held):
            return False
    return len(ours) == len(theirs) and all(
        (v.dtype, v.shape, v.tobytes()) == (w.dtype, w.shape, w.tobytes())
        for v, w in zip(ours, theirs, strict=True)
    )


def _without_dead_code(traced: Traced) -> Traced:
    program, arrays = traced
    with contextlib.suppress(Exception):  # JAX has no rule for some kinds of effects
        names = program.jaxpr.debug_info.arg_names
        jaxpr, _ = partial_eval.dce_jaxpr(
            program.jaxpr, [True] * len(program.jaxpr.outvars), instantiate=True
        )
        used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars}.union(map(id, jaxpr.outvars))
        pairs = zip(jaxpr.constvars, program.consts, strict=True)
        kept = [(var, value) for var, value in pairs if id(var) in used]
        captured = [v for n, v in zip(names, jaxpr.invars, strict=True) if CAPTURED in n]
        arrays = [each for v, each in zip(captured, arrays, strict=True) if id(v) in used]
        jaxpr = jaxpr.replace(constvars=[var for var, _ in kept])
        program = program.replace(jaxpr=jaxpr, consts=[value for _, value in kept])
    return program, arrays


def _constants(traced: Traced) -> list[np.ndarray]:
    """Return the arrays and numbers in a program, because its text may not show all of them."""
    found = []
    for value in values_in(traced):
        if hasattr(type(value), "__array__") or isinstance(value, _NUMBERS):
            is_key = jnp.issubdtype(getattr(value, "dtype", float), jax.dtypes.extended)
            found.append(np.asarray(jax.random.key_data(value) if is_key else value))
    return found


_contexts = itertools.count()


class CachedCall:
    """A call whose program JAX has cached.

    **Arguments:**

    - `trace`: the method `trace` of the jitted function.
    - `call`: the function that `jax.jit` was given, its positional and its keyword arguments.
    - `jaxpr`: the program that JAX has cached, if it is known.
    """

    def __init__(
        self, trace: Callable[..., Any], call: tuple[Any, tuple, dict[str, Any]], jaxpr: Any = None
    ) -> None:
        self.call, self._jaxpr = call, jaxpr
        given, args, kwargs = call
        self._trace = plain = functools.partial(trace, *args, **kwargs)
        again = attribute(given, "__canonical_trace__")
        # True for a call of a `canonopt.jit` function: other functions may run its program.
        self.is_shared = again is not None
        # `__canonical_trace__` returns a function that returns a new trace and captured arrays.
        self._again = again(trace, args, kwargs) if again else lambda: (plain(), ())

    def jaxpr(self) -> Any:
        """Return the cached program. JAX finds its trace, so the function does not run."""
        if self._jaxpr is None:
            with unwatched():
                self._jaxpr = self._trace().jaxpr
        return self._jaxpr

    def cached(self) -> Traced:
        """Return the cached program, and the captured arrays that it takes as arguments."""
        return self.jaxpr(), self.call[2].get(CAPTURED, ())

    def afresh(self) -> Traced:
        """Trace the function again, and all that it calls. Return the program and captured arrays.

        Each call enters another context of `set_xla_metadata`, so that JAX finds no earlier trace.
        `jax.make_user_context` would also work, but making such a context empties all jit caches.
        """
        from jax.experimental.xla_metadata import set_xla_metadata

        with unwatched(), set_xla_metadata(canonopt_traced_again=str(next(_contexts))):
            traced, arrays = self._again()
            return traced.jaxpr, arrays
