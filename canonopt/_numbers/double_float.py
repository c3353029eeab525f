"""Double precision in a program, also where `jax_enable_x64` is off.

Python computes `1 - b2` in double precision, and JAX is given the result. Computed in float32 it
has lost four of its seven digits already if `b2` is 0.9999. So whatever a factory computes from its
hyperparameters alone is computed with doubles, and rounded where it meets an array.

A program takes a double as three float32 numbers, which together hold its 53 bits. In the program
they are joined to one float64. XLA has that type whatever `jax_enable_x64` says: that option only
decides what JAX makes of a Python number.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core.primitives import convert_element_type_p

# The nearest float32, the nearest one to what that leaves, and what both leave. The last two may
# be `None`.
Parts: TypeAlias = tuple[Any, Any, Any]

# The second and the third part are stored times these, for XLA takes a subnormal number for zero.
# The factors are the same for all numbers: so the parts of `2 * x` are twice those of `x`.
_SECOND, _THIRD = 2.0**24, 2.0**48
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def split(number: Any) -> Parts:
    """The parts of a Python number, or of a list, as NumPy arrays."""
    with np.errstate(all="ignore"):
        return _split(as_double(number), np, lambda x: x)


def split_traced(number: jax.Array) -> Parts:
    with jax.enable_x64(True):
        # XLA may drop a conversion with its inverse, and then nothing is left for the second part.
        return _split(number, jnp, jax.lax.optimization_barrier)


def join(parts: Parts) -> np.ndarray:
    with np.errstate(all="ignore"):
        first, second, third = (None if part is None else np.asarray(part) for part in parts)
        return _join(first, second, third, np)


def join_traced(parts: Parts) -> jax.Array:
    """The number with these parts, without a derivative."""
    with jax.enable_x64(True):
        first, second, third = (None if part is None else _constant(part) for part in parts)
        return _join(first, second, third, jnp)


def _constant(part: Any) -> Any:
    return jax.lax.stop_gradient(part) if isinstance(part, jax.core.Tracer) else jnp.asarray(part)


def _split(number: Any, xp: ModuleType, barrier: Callable[[Any], Any]) -> Parts:
    first = number.astype(np.float32)
    left = number - _first_as_double(barrier(first), xp)
    second = (left * _SECOND).astype(np.float32)
    left = left - barrier(second).astype(np.float64) / _SECOND
    third = (left * _THIRD).astype(np.float32)
    is_finite, zero = xp.isfinite(first), np.float32(0)
    return first, xp.where(is_finite, second, zero), xp.where(is_finite, third, zero)


def _join(first: Any, second: Any, third: Any, xp: ModuleType) -> Any:
    whole = first.astype(np.float64)
    if second is None:
        return whole
    left = second.astype(np.float64) / _SECOND
    left = left if third is None else left + third.astype(np.float64) / _THIRD
    total = _first_as_double(first, xp) + left
    # -0.0 + 0.0 is 0.0.
    return xp.where(xp.isfinite(first) & (total != 0), total, whole)


def _first_as_double(first: Any, xp: ModuleType) -> Any:
    """The first part, or zero if it is subnormal: then the second part holds all of the number."""
    return xp.where(abs(first) < _SMALLEST_NORMAL, np.float32(0), first).astype(np.float64)


# --- arithmetic ---------------------------------------------------------------------------------


def compute(function: Callable[..., Any], *numbers: Any) -> jax.Array:
    """`function` of float64 numbers. What is a NumPy array is a constant of the program."""
    with jax.enable_x64(True):
        return function(*map(_hidden, numbers))


def _hidden(x: Any) -> jax.Array:
    # XLA takes `(x + 1) - 1` for `x`, and `x / 3` for a product, if it sees the constant.
    return x if isinstance(x, jax.Array) else jax.lax.optimization_barrier(jnp.asarray(x))


def as_double(number: Any) -> np.ndarray:
    """A Python number or a list of them as float64, infinity for an integer that is too large."""
    try:
        return np.asarray(number, np.float64)
    except OverflowError:
        return np.asarray(_as_floats(np.asarray(number, object)), np.float64)


@functools.partial(np.frompyfunc, nin=1, nout=1)
def _as_floats(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def multiply(a: Any, b: Any) -> Any:
    # A compiler may fuse `a * b + c` into one operation, which does not round the product. It does
    # not see through the absolute value, and a product with a sign is exact.
    return abs(a * b) * (jnp.sign(a) * jnp.sign(b))


def floor_divide(a: Any, b: Any) -> Any:
    """`a // b` as Python computes it."""
    rest = jnp.fmod(a, b)
    quotient = (a - rest) / b
    quotient = jnp.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    floor = jnp.floor(quotient)
    floor = jnp.where(quotient - floor > 0.5, floor + 1, floor)
    return jnp.where((quotient == 0) | (b == 0), jnp.copysign(floor, a / b), floor)


def remainder(a: Any, b: Any) -> Any:
    """`a % b` as Python computes it."""
    rest = jnp.fmod(a, b)
    rest = jnp.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)
    return jnp.where(rest == 0, jnp.copysign(0.0, b), rest)


def map_numbers(function: Callable[..., Any], *numbers: Any) -> Any:
    """What Python computes of numbers or lists of them; infinities where it raises an error.

    A program cannot raise one, and gives the same results.
    """

    def apply(*numbers: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                result = function(*numbers)
        except (ZeroDivisionError, OverflowError):
            if all(isinstance(x, int) for x in numbers) and function.__name__ in _OF_INTEGERS:
                raise
            with np.errstate(all="ignore"):
                result = float(function(*map(as_double, numbers)))
        # Of a negative number to the power of a fraction Python makes a complex one.
        is_complex = isinstance(result, complex) and not any(
            isinstance(x, complex) for x in numbers
        )
        return np.nan if is_complex else result

    if not any(isinstance(x, list) for x in numbers):
        return apply(*numbers)
    found = np.frompyfunc(apply, len(numbers), 1)(*(np.asarray(x, object) for x in numbers))
    return found.tolist()


_OF_INTEGERS = ("floordiv", "mod")


# --- weak types and derivatives -----------------------------------------------------------------


def converted(x: Any, dtype: Any, is_weak: bool) -> jax.Array:
    """`x` with another dtype, weakly typed or not, which no function of `jax.numpy` can say."""
    with jax.enable_x64(True):
        return convert_element_type_p.bind(
            jnp.asarray(x), new_dtype=np.dtype(dtype), weak_type=is_weak, sharding=None
        )


@jax.custom_jvp
def with_derivative_of(smooth: jax.Array, value: jax.Array) -> jax.Array:
    """`value`, with the derivative of `smooth`: the same number in single precision."""
    return value


@with_derivative_of.defjvp
def _with_derivative_of_jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    # A second derivative goes the same way.
    return with_derivative_of(*primals), tangents[0]
