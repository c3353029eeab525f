"""Double precision in a program, even if `jax_enable_x64` is off.

Python computes `1 - b2` in double precision and gives JAX the result. In float32, `1 - b2` loses
four of its seven digits if `b2` is 0.9999. So numbers that a factory computes from hyperparameters
alone are computed as doubles, and rounded where they meet an array.

A program takes a double as a *double float*: three float32 numbers, which together hold its 53
bits. The program joins them into one float64. XLA has float64 whatever `jax_enable_x64` says: the
option only limits the dtypes that JAX gives to values.

```
number = value + rest / 2**24 + tail / 2**48      24 + 24 + 5 bits
```

Much of the code below guards against XLA, which simplifies programs by rules that hold for real
numbers but not for rounded ones. Where rounding matters, an `optimization_barrier` hides constants.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

# `value`, the nearest float32; `rest`, the nearest float32 to the error of `value`; and `tail`, the
# remaining error. The last two are `None` if JAX does not store the number as a float32.
DoubleFloat: TypeAlias = tuple[Any, Any, Any]

# `rest` and `tail` are multiplied by these factors: XLA flushes subnormal numbers to zero, and
# without the factor, the `rest` of 1e-35 would be subnormal. The factors are the same for all
# numbers, so that halving all leaves of a number halves the number.
_REST, _TAIL = 2.0**24, 2.0**48
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def split(number: Any) -> DoubleFloat:
    """Return a Python number, or an array of Python numbers, as three float32 arrays."""
    with np.errstate(all="ignore"):
        number = np.asarray(number, np.float64)
        value = number.astype(np.float32)
        error = number - _value_as_double(value, np)
        rest = (error * _REST).astype(np.float32)
        error = error - rest.astype(np.float64) / _REST
        tail = (error * _TAIL).astype(np.float32)
        # The error of an infinity is NaN.
        is_finite, zero = np.isfinite(value), np.float32(0)
        return value, np.where(is_finite, rest, zero), np.where(is_finite, tail, zero)


def join(number: DoubleFloat, xp: ModuleType = np) -> Any:
    """Return a number as float64, without a derivative: the inverse of `split`."""
    as_array = np.asarray if xp is np else lambda x: jax.lax.stop_gradient(jnp.asarray(x))
    with np.errstate(all="ignore"), jax.enable_x64(True):
        value, *others = (as_array(part) for part in number if part is not None)
        single = value.astype(np.float64)
        if not others:
            return single
        rest, tail = (part.astype(np.float64) for part in others)
        # The small parts are added first: their sum is exact, and only the last addition rounds.
        total = _value_as_double(value, xp) + (rest / _REST + tail / _TAIL)
        # -0.0 + 0.0 is 0.0, so a zero is taken from `value`, with its sign.
        # If code maps `jnp.log` over all leaves, a small part may become NaN: `value` is then used.
        return xp.where(xp.isfinite(total) & (total != 0), total, single)


def _value_as_double(value: Any, xp: ModuleType) -> Any:
    """Return `value` as float64, or zero for a subnormal: XLA flushes those, so `rest` has them."""
    return xp.where(abs(value) < _SMALLEST_NORMAL, np.float32(0), value).astype(np.float64)


# --- arithmetic ---------------------------------------------------------------------------------


def compute(function: Callable[..., Any], *numbers: Any) -> jax.Array:
    """Return `function(*numbers)` in float64. NumPy arrays become constants of the program."""
    # If XLA sees a constant, it simplifies `(x + 1) - 1` to `x`, and `x / 3` to a product.
    hide = lambda x: jax.lax.optimization_barrier(jnp.asarray(x))  # noqa: E731
    with jax.enable_x64(True):
        return function(*(x if isinstance(x, jax.Array) else hide(x) for x in numbers))


def add(a: Any, b: Any) -> Any:
    # A compiler may simplify `x + 0.0` to `x`, which is wrong if `x` is -0.0: the sum of two zeros
    # is 0.0 unless both are -0.0.
    total = a + b
    is_negative = jnp.signbit(a) & jnp.signbit(b)
    return jnp.where((total == 0) & ~is_negative, 0.0, total)


def multiply(a: Any, b: Any) -> Any:
    # A compiler may fuse `a * b + c` into one operation that does not round the product. The
    # absolute value prevents that, and multiplying by a sign is exact.
    return abs(a * b) * (jnp.sign(a) * jnp.sign(b))


# --- weak types and derivatives -----------------------------------------------------------------


def converted(x: Any, dtype: Any, is_weak: bool) -> jax.Array:
    """Return `x` as `dtype`, weakly typed if `is_weak`. No function of `jax.numpy` can do that."""
    if isinstance(x, jax.Array) and (x.dtype, x.weak_type) == (dtype, is_weak):
        return x
    with jax.enable_x64(True):
        return jax.lax.convert_element_type_p.bind(
            jnp.asarray(x), new_dtype=np.dtype(dtype), weak_type=is_weak, sharding=None
        )


@jax.custom_jvp
def with_derivative_of(smooth: jax.Array, value: jax.Array) -> jax.Array:
    """Return `value` with the derivative of `smooth`, the same number up to rounding."""
    return value


@with_derivative_of.defjvp
def _with_derivative_of_jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    # This rule calls the function itself, so that second derivatives follow the same rule.
    return with_derivative_of(*primals), tangents[0]
