"""Numbers in double precision: rounded where they meet an array, and not before."""

import jax
import numpy as np
import pytest

import canonopt

RANDOM = np.random.default_rng(0)
# Close to one, as a decay is; small, as an epsilon is; anything.
NUMBERS = [
    *(1 - 10.0 ** RANDOM.uniform(-6, -1, 12)),
    *(10.0 ** RANDOM.uniform(-9, 0, 12)),
    *RANDOM.uniform(-3, 3, 12),
]
OPERATIONS = {
    "1 - x": lambda x, y: 1 - x,
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "0.1 * x": lambda x, y: 0.1 * x,
    "x / y": lambda x, y: x / y,
    "3.7 / x": lambda x, y: 3.7 / x,
    "x / 3": lambda x, y: x / 3,
    "x**2": lambda x, y: x**2,
    "x**-3": lambda x, y: x**-3,
    "(x * x)**0.5": lambda x, y: (x * x) ** 0.5,
    "(1 - x) / (1 - x**7)": lambda x, y: (1 - x) / (1 - x**7),
    "1 - (1 - x) * y": lambda x, y: 1 - (1 - x) * y,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_is_computed_is_what_python_rounds(operation):
    # XLA would simplify what computes a rounding error, if it saw the constants in it.
    jitted = jax.jit(operation)
    for x, y in zip(NUMBERS, reversed(NUMBERS), strict=True):
        x, y = float(x), float(y)
        expected = np.float32(operation(x, y))
        for run in (operation, jitted):
            found = run(canonopt.dynamic(x), canonopt.dynamic(y))
            assert found.weak_type
            np.testing.assert_equal(np.float32(found.value), expected)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 0.0, 1e30])
def test_infinities_are_those_of_float32(number):
    for operation in (
        lambda x: 1 - x,
        lambda x: 10.0 * x,
        lambda x: x * x,
        lambda x: 1.0 / (2 + x),
    ):
        with np.errstate(over="ignore"):
            expected = np.float32(operation(number))
        np.testing.assert_equal(np.float32(operation(canonopt.dynamic(number)).value), expected)
