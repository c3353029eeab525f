"""Functions are merged exactly when they cannot behave differently."""

import functools

import jax.numpy as jnp
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canonopt
from canonopt._identity import read

from ..support.callables import adder, key


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


def test_masks_decide_which_spec_it_is():
    def build(ndim):
        return canonopt.adamw(1e-3, mask=lambda params: params["w"].ndim > ndim)

    assert build(1) is build(1)
    assert build(1) is not build(2)
    assert build(1) is not build(True)
