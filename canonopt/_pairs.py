"""Numbers as unevaluated sums of two float32: 48 bits, where one has 24.

Python computes `1 - b2` in double precision, and JAX is given the result. Computed in float32 it
has lost four of its seven digits already if `b2` is 0.9999. So whatever a factory computes from its
hyperparameters alone is computed with pairs, and rounded where it meets an array.

The algorithms are the classic ones of Dekker and Knuth, but for the product. Compilers may fuse
`a * b + c` into one operation that does not round the product; here all products that are added
are exact, so that makes no difference.
"""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

# The nearest float32, and the nearest one to what that leaves. Each is a number or an array.
Pair: TypeAlias = tuple[Any, Any]

_LARGEST_POWER = 64


def split(number: Any) -> tuple[Any, Any]:
    """The pair of a Python number or of an array of float64."""
    number = np.asarray(number, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        high = number.astype(np.float32)
        low = (number - high).astype(np.float32)
    low = np.where(np.isfinite(high), low, np.float32(0))
    return high.astype(np.float64).tolist(), low.astype(np.float64).tolist()


def constant(number: float) -> Pair:
    """The pair of a Python number, to compute with.

    XLA takes `(x + 1) - 1` for `x`, and that is the rounding error being computed. What it cannot
    see as a constant it leaves alone.
    """
    high, low = split(number)
    return jax.lax.optimization_barrier((jnp.asarray(high), jnp.asarray(low)))


def add(a: Pair, b: Pair) -> Pair:
    high, error = _two_sum(a[0], b[0])
    low, rest = _two_sum(a[1], b[1])
    high, low = _normal(high, error + low)
    return _checked(*_normal(high, low + rest), a[0] + b[0])


def negative(a: Pair) -> Pair:
    return -a[0], -a[1]


def multiply(a: Pair, b: Pair) -> Pair:
    # Each half has 12 bits, so their products are exact.
    (a1, a2), (b1, b2) = _halves(a[0]), _halves(b[0])
    high, first = _two_sum(a1 * b1, a1 * b2)
    high, second = _two_sum(high, a2 * b1)
    low = first + second + (a2 * b2 + (a[0] * b[1] + a[1] * b[0]))
    return _checked(*_normal(high, low), a[0] * b[0])


def divide(a: Pair, b: Pair) -> Pair:
    quotient = a[0] / b[0]
    rest, _ = add(a, negative(multiply((quotient, 0.0), b)))
    return _checked(*_normal(quotient, rest / b[0]), quotient)


def square_root(a: Pair) -> Pair:
    root = jnp.sqrt(a[0])
    rest, _ = add(a, negative(multiply((root, 0.0), (root, 0.0))))
    # Of zero it is zero, and not what is left of 0 / 0.
    low = jnp.where(root > 0, rest / (2 * root), 0.0)
    return _checked(*_normal(root, low), root)


def power(a: Pair, exponent: int | float) -> Pair | None:
    """`a` to the power of a Python number, if there is a way that keeps all bits."""
    if exponent == 0.5:
        return square_root(a)
    if exponent != int(exponent) or not 1 <= abs(exponent) <= _LARGEST_POWER:
        return None
    result, left = None, abs(int(exponent))
    while left:
        if left % 2:
            result = a if result is None else multiply(result, a)
        left //= 2
        a = multiply(a, a) if left else a
    assert result is not None
    return divide((1.0, 0.0), result) if exponent < 0 else result


def _two_sum(a: Any, b: Any) -> Pair:
    """The sum, and its rounding error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _normal(a: Any, b: Any) -> Pair:
    """The same for a `b` that is small beside `a`."""
    total = a + b
    return total, b - (total - a)


def _halves(a: Any) -> Pair:
    if isinstance(a, float):
        bits = np.float32(a).view(np.uint32) & np.uint32(0xFFFFF000)
        upper = float(bits.view(np.float32))
    else:
        upper = jax.lax.reduce_precision(a, exponent_bits=8, mantissa_bits=11)
    return upper, a - upper


def _checked(high: Any, low: Any, plain: Any) -> Pair:
    """The pair, or what float32 gives where an infinity or no number is in it."""
    is_finite = jnp.isfinite(high) & jnp.isfinite(low)
    return jnp.where(is_finite, high, plain), jnp.where(is_finite, low, 0.0)
