"""Variables that can still be rebound: which they are, and that they count by identity."""

import functools

from canonopt._python_internals import rebindable_variables

from .support.callables import adder, key


def test_functions_of_one_loop_share_its_variable():
    functions = [lambda x: x + i for i in range(2)]  # noqa: B023
    for i in range(2):
        functions.append(lambda x: x + i)  # noqa: B023
    assert all(map(rebindable_variables, functions))
    # Two loops, so two variables, each with its last value.
    assert len(set(map(key, functions))) == 2
    assert [f(0) for f in functions] == [1] * 4


def test_a_variable_assigned_after_the_function_counts_by_identity():
    def make():
        amount = 1
        add = lambda x: x + amount  # noqa: E731
        before = key(add)
        amount = 2
        return add, before

    add, before = make()
    assert rebindable_variables(add)
    assert key(add) != before
    assert key(make()[0]) != key(add)


def test_a_nonlocal_variable_counts_by_identity():
    def make():
        amount = 1

        def set_amount(value):
            nonlocal amount
            amount = value

        return (lambda x: x + amount), set_amount

    (add, set_amount), (other, _) = make(), make()
    assert key(add) != key(other)
    before = key(add)
    assert key(add) == before
    set_amount(5)
    assert key(add) != before


def test_a_variable_that_a_function_itself_rebinds_counts_by_identity():
    def make():
        calls = 0

        def count():
            nonlocal calls
            calls += 1
            return calls

        return count

    assert key(make()) != key(make())


def test_a_variable_not_bound_yet_counts_by_identity():
    def make():
        function = lambda: later  # noqa: E731
        before = key(function)
        later = 1
        return function, before, later

    (first, before, _), (second, other, _) = make(), make()
    assert before != other
    assert first() == second() == 1


def test_functions_that_call_themselves_or_each_other():
    def make(step):
        def count_down(n):
            return 0 if n <= 0 else 1 + count_down(n - step)

        return count_down

    def make_pair():
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n > 0 and even(n - 1)

        return even, odd

    assert key(make(1)) == key(make(1)) != key(make(2))
    assert key(make_pair()[0]) == key(make_pair()[0]) != key(make_pair()[1])


def test_a_function_that_calls_the_last_of_a_loop_counts_by_identity():
    def make():
        made = []
        for _ in range(2):

            def function(n):
                return n and function(n - 1)

            made.append(function)
        return made

    assert key(make()[0]) != key(make()[0])


def test_a_deleted_variable_counts_by_identity():
    def make(delete):
        amount = 1
        function = lambda: amount  # noqa: E731
        if delete:
            del amount
        return function

    assert key(make(False)) != key(make(False))


def test_code_that_cannot_be_found_counts_by_identity():
    namespace = {}
    exec("def make(a):\n    return lambda x: x + a", namespace)
    make = namespace.pop("make")
    assert key(make(1)) != key(make(1))


def test_a_decorator_that_keeps_wrapped_is_seen_through():
    @functools.wraps(adder)
    def wrapper(amount):
        return adder(amount)

    def decorate(function):
        return functools.wraps(function)(lambda amount: function(amount))

    namespace = {"decorate": decorate}
    exec("@decorate\ndef make(a):\n    return lambda x: x + a", namespace)
    assert key(namespace["make"](1)) == key(namespace["make"](1))
    assert key(wrapper(1)) == key(adder(1))
