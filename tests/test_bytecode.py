"""Functions are merged exactly when they cannot behave differently."""

import functools
import gc

import jax.numpy as jnp
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canonopt
from canonopt._identity.keys import read
from canonopt._python_internals.bytecode import _known, rebindable

KEPT = []  # or an id in a key could be that of another function later


def key(function):
    reading = read((function,))
    KEPT.append((function, reading))
    return reading.key


def adder(amount):
    return lambda x: x + amount


def with_default(amount):
    def add(x, amount=amount):
        return x + amount

    return add


def with_keyword_default(amount):
    def add(x, *, amount=amount):
        return x + amount

    return add


def chosen(flag):
    if flag:
        amount = 1
    else:
        amount = 2
    return lambda x: x + amount


def nested(amount):
    def outer():
        return lambda x: x + amount

    return outer()


def after_a_loop(count):
    total = 0
    for i in range(count):
        total = total + i
    return lambda x: x + total


def capturing_a_function(amount):
    inner = adder(amount)
    return lambda x: inner(x)


class Owner:
    def __init__(self, amount):
        self.add = lambda x: x + amount

    @staticmethod
    def static(amount):
        return lambda x: x + amount

    @functools.cached_property
    def cached(self):
        one = 1
        return lambda x: x + one


FACTORIES = [
    adder,
    with_default,
    with_keyword_default,
    chosen,
    nested,
    after_a_loop,
    capturing_a_function,
    lambda amount: Owner(amount).add,
    Owner.static,
    lambda amount: functools.partial(adder(amount)),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_built_again_is_the_same(make):
    assert key(make(1)) == key(make(1))


@given(st.sampled_from(FACTORIES), st.integers(0, 3), st.integers(0, 3), st.integers())
def test_merged_functions_agree_on_every_input(make, a, b, x):
    first, second = make(a), make(b)
    if key(first) == key(second):
        assert first(x) == second(x)
    if a == b:
        assert key(first) == key(second)


@given(st.floats() | st.integers() | st.booleans(), st.floats() | st.integers() | st.booleans())
def test_captured_values_count_as_parameters_do(a, b):
    same = read((), (a,)).key == read((), (b,)).key
    assert (key(adder(a)) == key(adder(b))) == same
    assert (key(with_default(a)) == key(with_default(b))) == same


def test_a_function_under_another_name_is_found_too():
    def make(amount):
        function = adder(amount)
        function.__qualname__ = "elsewhere.<locals>.renamed"
        return function

    assert key(make(1)) == key(make(1))
    assert key(make(1)) != key(make(2))


def test_two_lambdas_on_one_line_are_two():
    add, subtract = (lambda x: x + 1), (lambda x: x - 1)
    assert key(add) != key(subtract)


def test_only_a_default_differs():
    def make(value):
        return lambda x, y=value: (x, y)

    assert key(make(1)) == key(make(1))
    for value in (1.0, True, "1", None):
        assert key(make(1)) != key(make(value))


def test_what_a_factory_may_read_of_a_function_counts():
    def make(annotation, name="function", doc=None):
        def function(x: annotation):
            return x

        function.__name__, function.__doc__ = name, doc
        return function

    assert key(make(int)) == key(make(int))
    assert key(make(int)) != key(make(float))
    assert key(make(int)) != key(make(int, name="other"))
    assert key(make(int)) != key(make(int, doc="other"))


# --- variables that can still be bound anew ---------------------------------------------------


def test_functions_of_one_loop_share_its_variable():
    functions = [lambda x: x + i for i in range(2)]  # noqa: B023
    for i in range(2):
        functions.append(lambda x: x + i)  # noqa: B023
    assert all(map(rebindable, functions))
    # Two loops, so two variables; whoever reads one of them sees its last value.
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
    assert rebindable(add)
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


# --- what a function refers to ----------------------------------------------------------------


def test_mutable_captured_objects_count_by_identity():
    items = [1]
    assert key(adder(items)) == key(adder(items))
    assert key(adder(items)) != key(adder([1]))
    assert key(adder({"a": 1})) != key(adder({"a": 1}))
    array = jnp.ones(2)
    assert key(adder(array)) == key(adder(array))
    assert key(adder(array)) != key(adder(jnp.ones(2)))
    assert key(adder((1, 2))) == key(adder((1, 2)))


def test_the_same_source_in_two_modules_is_two_functions():
    source = "amount = {}\nadd = lambda x: x + amount"
    one, two = {}, {}
    exec(source.format(1), one)
    exec(source.format(2), two)
    assert key(one["add"]) != key(two["add"])


def test_attributes_on_a_function_count_by_identity():
    def make():
        def mask(params):
            return params

        mask.note = "anything"
        return mask

    assert key(make()) != key(make())


REPLACEMENTS = [
    lambda f: setattr(f, "__code__", adder(1).__code__.replace(co_name="other")),
    lambda f: setattr(f.__closure__[0], "cell_contents", 100),
    lambda f: setattr(f, "__defaults__", (100,)),
    lambda f: setattr(f, "__kwdefaults__", {"amount": 100}),
    lambda f: setattr(f, "__name__", "other"),
]


@pytest.mark.parametrize("replace", REPLACEMENTS)
def test_a_part_of_a_function_that_is_replaced_is_seen(replace):
    original = adder(1)
    before = key(original)
    replace(original)
    assert key(original) != before
    assert key(adder(1)) == before


def test_a_part_of_a_captured_function_that_is_replaced_is_seen():
    inner = adder(1)
    original = (lambda inner: lambda x: inner(x))(inner)
    before = key(original)
    inner.__closure__[0].cell_contents = 100
    assert key(original) != before


def test_a_function_that_is_changed_after_the_build_is_traced_as_it_is_now():
    def rates(lib):
        def schedule(count, rate=0.5):
            return rate

        optims = [lib.scale_by_schedule(schedule)]
        schedule.__defaults__ = (0.25,)
        optims.append(lib.scale_by_schedule(schedule))
        for optim in optims:
            yield float(optim.update(jnp.ones(()), optim.init(1.0))[0])

    assert list(rates(canonopt)) == list(rates(optax)) == [0.25, 0.25]


def test_known_about_code_do_not_keep_it_alive():
    def make():
        namespace = {}
        exec("def make(a):\n    return lambda x: x + a", namespace)
        return namespace["make"](1), namespace

    gc.collect()
    before = len(_known._known)
    for _ in range(100):
        function, namespace = make()
        assert read((function,)).is_comparable
        del function, namespace
    gc.collect()
    assert len(_known._known) <= before + 1


def test_masks_decide_which_spec_it_is():
    def build(ndim):
        return canonopt.adamw(1e-3, mask=lambda params: params["w"].ndim > ndim)

    assert build(1) is build(1)
    assert build(1) is not build(2)
    assert build(1) is not build(True)
