"""Variables that can still be rebound: which they are, and that they count by identity.

`tests/identity/test_hoisting.py` rebinds variables in every way that Python has.
"""

import functools

import pytest

from canonopt._python_internals import rebindable_variables

from .support.callables import adder, key


def chosen(flag):
    if flag:
        amount = 1
    else:
        amount = 2
    return lambda x: x + amount


def after_a_loop(count):
    total = 0
    for i in range(count):
        total = total + i
    return lambda x: x + total


def with_a_new_value_for_an_argument(amount):
    if amount is None:
        amount = 1
    return lambda x: x + amount


def counting_down(step):
    def count_down(n):
        return 0 if n <= 0 else 1 + count_down(n - step)

    return count_down


def a_pair(_):
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n > 0 and even(n - 1)

    return even


class Owner:
    def __init__(self, amount):
        self.add = lambda x: x + amount

    @staticmethod
    def static(amount):
        return lambda x: x + amount


def renamed(amount):
    function = adder(amount)
    function.__qualname__ = "elsewhere.<locals>.renamed"
    return function


@functools.wraps(adder)
def wrapper(amount):
    return adder(amount)


def decorated(amount):
    def decorate(function):
        return functools.wraps(function)(lambda amount: function(amount))

    exec("@decorate\ndef make(a):\n    return lambda x: x + a", namespace := {"decorate": decorate})
    return namespace["make"](amount)


FIXED = [
    *(adder, chosen, after_a_loop, with_a_new_value_for_an_argument, counting_down, a_pair),
    *(Owner.static, lambda amount: Owner(amount).add),
    *(renamed, wrapper),
]


@pytest.mark.parametrize("make", FIXED)
def test_variables_that_no_store_can_reach_count_by_value(make):
    assert rebindable_variables(make(1)) == []
    assert key(make(1)) == key(make(1))


def test_a_decorator_that_keeps_wrapped_is_seen_through():
    assert rebindable_variables(decorated(1)) == []


def test_functions_of_one_loop_share_its_variable():
    functions = [lambda x: x + i for i in range(2)]  # noqa: B023
    for i in range(2):
        functions.append(lambda x: x + i)  # noqa: B023
    assert all(map(rebindable_variables, functions))
    # Two loops, so two variables, each with its last value.
    assert len(set(map(key, functions))) == 2
    assert [f(0) for f in functions] == [1] * 4


def assigned_after():
    amount = 1
    add = lambda x: x + amount  # noqa: E731
    amount = 2
    return add


def counting():
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        return calls

    return count


def the_last_of_a_loop():
    for _ in range(2):

        def function(n):
            return n and function(n - 1)

    return function


def of_code_that_is_gone():
    exec("def make(a):\n    return lambda x: x + a", namespace := {})
    return namespace.pop("make")(1)


@pytest.mark.parametrize(
    "make", [assigned_after, counting, the_last_of_a_loop, of_code_that_is_gone]
)
def test_variables_that_may_be_rebound_count_by_identity(make):
    function = make()
    assert rebindable_variables(function)
    assert key(function) == key(function) != key(make())
