"""A dynamic number is the Python number: expressions of operators, types, and where it is kept."""

import io
import math
import operator
import pickle
import re
import warnings
from functools import partial

import equinox as eqx
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import canonopt
from canonopt._spec.dynamic_number import TracedNumber

from ..support.compiling import AS_FOR_USERS
from ..support.counting import counted
from ..support.values import bits

# The quick compiler of the tests divides by a constant as it multiplies by its reciprocal.
jit = partial(jax.jit, compiler_options=AS_FOR_USERS)

# --- expressions ----------------------------------------------------------------------------------

EXACT = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 0.999, 1e-8, 1e-40, -1e-45, 1e-38, 2.0**-126]
SPECIAL += [3.4e38, 1e39, -1e39, 16777217.0, math.inf, -math.inf, math.nan, 2.0**53, 0.5, 2.0, 3.0]
INTEGERS = [0, 1, -1, 2, 3, 7, 10, -3, 2**24 + 1, 2**31 - 1]
SMALLEST = float(np.finfo(np.float32).tiny)

floats = st.one_of(
    st.sampled_from(SPECIAL),
    st.floats(-100, 100, allow_subnormal=False),
    st.floats(1e-9, 1.0),
    st.floats(1 - 1e-3, 1.0),
    st.floats(width=32),
)
integers = st.sampled_from(INTEGERS) | st.integers(-100, 100) | st.integers(-(2**31), 2**31 - 1)
numbers = floats | integers


def is_held(number):
    """Return True if a program is given all bits of a number, in three float32."""
    number = abs(float(number))
    with np.errstate(over="ignore"):
        is_single = number == float(np.float32(number)) or math.isnan(number)
    return is_single or 2.0**-122 < number < 3.4e38


@st.composite
def expressions(draw, operators):
    """From `x`, one to three operators on it, each with `x`, `y` or a number on the other side."""
    tree = "x"
    for _ in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from([*operators, operator.neg]))
        if function is operator.truediv:
            # XLA makes `x / (y * z)` of `x / y / z`.
            operators = [other for other in operators if other is not function]
        if function is operator.neg:
            tree = (function, tree)
        else:
            other = draw(st.sampled_from("xy") | numbers)
            tree = (function, *draw(st.permutations([tree, other])))
    return tree


def evaluate(tree, x, y):
    if isinstance(tree, tuple):
        function, *parts = tree
        return function(*(evaluate(part, x, y) for part in parts))
    return {"x": x, "y": y}.get(tree, tree) if isinstance(tree, str) else tree


def python(tree, x, y):
    """Return what Python computes, or `None` where a dynamic number is not meant to do that.

    That is where Python raises an error or makes a complex number, where an integer is none of
    32 bits or a float is subnormal, and for the power of an integer.
    """
    if not isinstance(tree, tuple):
        value = evaluate(tree, x, y)
    else:
        function, *parts = tree
        values = [python(part, x, y) for part in parts]
        if None in values:
            return None
        if function is operator.pow and all(isinstance(value, int) for value in values):
            return None
        try:
            value = function(*values)
        except (ZeroDivisionError, OverflowError):
            return None
    if isinstance(value, int):
        return value if -(2**31) <= value < 2**31 else None
    is_subnormal = value != 0 and abs(value) < np.finfo(np.float64).tiny
    return None if is_subnormal or isinstance(value, complex) else value


def check(found, expected, maxulp=0):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning)
        array = jnp.asarray(expected)
    assert (found.dtype, found.weak_type) == (array.dtype, array.weak_type)
    value, wanted = np.asarray(found), np.asarray(array)
    # XLA takes a subnormal number for zero.
    is_small = found.dtype == jnp.float32 and 0 < abs(expected) <= SMALLEST
    if (is_small and abs(value) <= SMALLEST) or (np.isnan(value) and np.isnan(wanted)):
        return
    assert np.signbit(value) == np.signbit(wanted)
    if maxulp and np.isfinite(wanted):
        np.testing.assert_array_max_ulp(value, wanted, maxulp=maxulp)
    else:
        np.testing.assert_array_equal(value, wanted)


def in_a_program(function, *numbers, jit=jit):
    """Return what a factory would compute from traced numbers."""
    run = lambda *made: jnp.asarray(function(*(TracedNumber.of(x, "x") for x in made)))  # noqa: E731
    return jit(run)(*map(canonopt.dynamic, numbers))


def check_expression(tree, x, y, both, maxulp=0):
    expected = python(tree, x, y)
    assume(expected is not None)
    check(in_a_program(lambda x, y=y: evaluate(tree, x, y), *[x, y][: 1 + both]), expected, maxulp)


def of_two_numbers(test, operators, examples):
    """`test` with expressions of these operators. A program takes long to compile."""
    given_these = given(tree=expressions(operators), x=numbers, y=numbers, both=st.booleans())
    return settings(max_examples=examples)(given_these(test))


@pytest.mark.slow
@partial(of_two_numbers, operators=EXACT, examples=60)
def test_in_a_program_an_expression_is_what_python_rounds(tree, x, y, both):
    assume(is_held(x) and is_held(y))
    check_expression(tree, x, y, both)


@pytest.mark.slow
@partial(of_two_numbers, operators=[operator.pow], examples=60)
def test_in_a_program_powers_are_those_of_python(tree, x, y, both):
    assume(is_held(x) and is_held(y))
    check_expression(tree, x, y, both, maxulp=1)


@example(tree=(operator.truediv, "x", 0.999), x=0.1, y=0.0, both=False)
@partial(of_two_numbers, operators=EXACT, examples=30)
def test_with_x64_an_expression_is_what_python_computes(tree, x, y, both):
    with jax.enable_x64(True):
        check_expression(tree, x, y, both)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.sampled_from(COMPARISONS), numbers, numbers, st.booleans(), st.booleans())
def test_a_comparison_is_that_of_python(compare, x, y, both, is_first):
    assume(is_held(x) and is_held(y))
    function = lambda a, b=y: compare(a, b) if is_first else compare(b, a)  # noqa: E731
    expected = compare(x, y) if is_first else compare(y, x)
    assert bool(in_a_program(function, *[x, y][: 1 + both], jit=jax.jit)) == expected


# --- single numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, number",
    [
        (lambda x: x * -1.0, True),
        (lambda x: x**-2, 3.0),
        (lambda x: 0.9**x, 31),
        (lambda x: x + x, True),
        (lambda x: -x, True),
        (lambda x: 0.1 * 3 - x, 0.3),
        (lambda x: x * 3 - 0.3, 0.1),
        (lambda x: (x + 1) - 1, 1e-20),
        (lambda x: x * 1e30 * 1e30 * 1e-50, 1e-20),
        (lambda x: np.float64(0.1) * x, 3),
        (lambda x: x * np.float64(0.1), 0.3),
        (lambda x: x * np.int64(3), 0.1),
        (lambda x: np.float32(0.1) * x, 0.3),
        (lambda x: x + np.int32(1), 3),
        (lambda x: x / 1.0 + 0.0, -0.0),
        (lambda x: 0.0 + x, -0.0),
        (lambda x: -(x / 1.0) + 0.0, 0.0),
        (lambda x: x + -0.0, -0.0),
        (lambda x: jnp.full((), x), 0.3),
        (lambda x: jnp.full_like(jnp.bfloat16(1.0), x), 3),
    ],
)
def test_an_operator_gives_the_type_and_the_number_of_python(expression, number):
    for way in (lambda function: function, jax.jit, of_one_member):
        check(in_a_program(expression, number, jit=way), expression(number))


def test_a_map_over_the_leaves_gives_the_number_in_single_precision():
    optim = canonopt.adam(canonopt.dynamic(0.1), b2=canonopt.dynamic(0.81))
    for function in (np.sqrt, np.log, np.exp):
        found = jax.tree.map(getattr(jnp, function.__name__), optim).hyperparameters()
        for name, number in (("learning_rate", 0.1), ("b2", 0.81)):
            np.testing.assert_allclose(float(found[name]), function(number), rtol=2e-7)


def of_one_member(function):
    """Return `function` under `jax.vmap`, where JAX computes operation by operation."""
    run = lambda made: jax.vmap(function)(jax.tree.map(lambda leaf: leaf[None], made))  # noqa: E731
    return lambda made: jax.lax.convert_element_type_p.bind(
        run(made)[0], new_dtype=run(made).dtype, weak_type=run(made).weak_type, sharding=None
    )


@pytest.mark.parametrize(
    "operation, by",
    [
        (lambda x: 2**x, "the power of an integer"),
        (lambda x: x**2, "the power of an integer"),
        (lambda x: x // 2, "`//`"),
        (lambda x: 2.5 % x, "`%`"),
        (abs, "abs(...)"),
        (round, "round(...)"),
        (str, "str(...) or a format"),
        ("{:.3g}".format, "str(...) or a format"),
        (float, "float(...)"),
        (range, "a shape, a range or an index"),
        (math.sqrt, "float(...)"),
        (lambda x: 1.0 if x > 0 else 0.0, "a Python `if`, `while` or `assert`"),
    ],
)
def test_an_operation_that_needs_the_value_is_refused_by_name(operation, by):
    factory = canonopt.canonical(lambda learning_rate: optax.scale(operation(learning_rate)))
    optim = factory(canonopt.dynamic(3))
    text = f"learning_rate of .* cannot be traced: its value is needed for {re.escape(by)}"
    with pytest.raises(canonopt.errors.DynamicSpecError, match=text) as raised:
        jax.jit(lambda optim: optim.init(jnp.ones(2)))(optim)
    assert raised.value.path == "learning_rate"


@pytest.mark.parametrize("operation", [np.sqrt, lambda x: 1j * x, jax.lax.exp])
def test_what_takes_no_such_number_gets_a_note(operation):
    factory = canonopt.canonical(lambda learning_rate: optax.scale(operation(learning_rate)))
    with pytest.raises((TypeError, ValueError)) as raised:
        jax.jit(lambda optim: optim.init(jnp.ones(2)))(factory(canonopt.dynamic(0.5)))
    given = " was given an array or canonopt.dynamic(...) for learning_rate. "
    (note,) = [note for note in raised.value.__notes__ if given in note]
    assert note.startswith("canonopt.canonical(")
    assert "If it needs an array, pass jnp.asarray(...)." in note


@pytest.mark.parametrize("function", [*EXACT, operator.pow, *COMPARISONS])
@pytest.mark.parametrize("array", [np.asarray([0.5, 2.0], np.float32), np.float32(2.0)])
def test_an_array_of_numpy_may_stand_on_either_side(function, array):
    for x in (0.3, 3):
        for run in (lambda x: function(x, array), lambda x: function(array, x)):
            found = in_a_program(run, x, jit=lambda function: function)
            expected = jnp.asarray(x)
            sides = (expected, jnp.asarray(array))
            assert bits(found) in (bits(function(*sides)), bits(function(*sides[::-1])))


# --- what it says ---------------------------------------------------------------------------------

GIVEN = [1 / 3, 3e38, -1e30, 1e-30, -0.0, 0.1, 3e-4, 16777217.0, math.pi, 2**31 - 1, True]


@pytest.mark.parametrize("number", GIVEN)
def test_a_number_is_given_back_as_it_was(number):
    with jax.transfer_guard("disallow"):
        optim = canonopt.adam(canonopt.dynamic(number))
    rate = optim.learning_rate
    found = optim.hyperparameters()["learning_rate"]
    assert type(found) is type(number) and repr(found) == repr(number)
    assert repr(rate) == f"{rate}" == f"canonopt.dynamic({number!r})"
    assert f"{rate:.3e}" == f"{number:.3e}"
    assert jax.eval_shape(lambda: canonopt.dynamic(number)).value.dtype == rate.value.dtype
    for again in (eval(repr(optim)), pickle.loads(pickle.dumps(optim)), optim.replace(b1=0.5)):
        assert repr(again.learning_rate) == repr(rate)
    assert repr(canonopt.dynamic([number] * 2)) == f"canonopt.dynamic([{number!r}, {number!r}])"


ARRAYS = [jnp.float32(0.1), jnp.asarray(0.1), np.asarray(0.1), jnp.ones(2), np.ones(2)]


@pytest.mark.parametrize("value", [*ARRAYS, canonopt.dynamic(0.1)])
def test_what_is_traced_already_stays_as_it_is(value):
    assert canonopt.dynamic(value) is value
    optim = canonopt.dynamic(canonopt.adam(value), "lr")
    assert bits(jnp.asarray(optim.learning_rate)) == bits(jnp.asarray(value))


def serialised(spec):
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, spec)
    return eqx.tree_deserialise_leaves(io.BytesIO(file.getvalue()), spec)


def from_bytes(spec):
    leaves, structure = jax.tree.flatten(spec)
    read = flax.serialization.from_bytes(leaves, flax.serialization.to_bytes(leaves))
    return structure.unflatten(read)


ELSEWHERE = {
    "tree.map": lambda spec: jax.tree.map(lambda leaf: leaf, spec),
    "NumPy": lambda spec: jax.tree.map(np.asarray, spec),
    "scalars of NumPy": lambda spec: jax.tree.map(lambda leaf: np.asarray(leaf)[()], spec),
    "a strong type": lambda spec: jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), spec),
    "device_put": lambda spec: jax.device_put(spec, jax.devices()[1]),
    "NumPy and device_put": lambda spec: jax.device_put(jax.tree.map(np.asarray, spec)),
    "partition": lambda spec: eqx.combine(*eqx.partition(spec, eqx.is_array)),
    "jit": jax.jit(lambda spec: spec),
    "stack": lambda spec: jax.tree.map(lambda x: jnp.stack([x, x])[0], spec),
    "pickle": lambda spec: pickle.loads(pickle.dumps(spec)),
    "optax": lambda spec: optax.tree.cast_like(spec, spec),
    "Equinox": serialised,
    "Flax": from_bytes,
}


@pytest.mark.slow
@pytest.mark.parametrize("take", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_number_keeps_its_value_and_its_type_elsewhere_and_causes_no_trace(take, is_wide):
    """Its leaves are strongly typed from the start, so nothing takes a weak type away."""
    params = jnp.linspace(0, 1, 5, dtype=jnp.bfloat16)
    update = lambda optim: optim.update(params, optim.init(params), params)[0]  # noqa: E731
    for number in (1 / 3, 0.1, 3e-4, -1e-30, 0.999, 7, True):
        with jax.enable_x64(is_wide):
            before = canonopt.adamw(0.1, b2=0.999).replace(lr=canonopt.dynamic(number))
            assert not any(leaf.weak_type for leaf in jax.tree.leaves(before))
            optim = take(before)
            assert optim.hyperparameters()["learning_rate"] == number
            assert repr(optim.learning_rate) == f"canonopt.dynamic({number!r})"
            assert bits(params * optim.learning_rate) == bits(number * params)
            array = optim.learning_rate.as_array()
            assert array.weak_type == jnp.asarray(number).weak_type
            expected = update(canonopt.adamw(number, b2=0.999))
            jitted, count = counted(update, jax.jit)
            for found in (update(optim), jitted(before), jitted(optim)):
                assert bits(found) == bits(expected)
            assert (expected.dtype, count.traces) == (jnp.bfloat16, 1)


@pytest.mark.parametrize("take", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_number_of_numpy_stays_strongly_typed_elsewhere(take):
    single = canonopt.dynamic(np.float32(0.1))
    assert isinstance(single, jax.Array) and not single.weak_type
    number, array = np.float64(0.1), jnp.ones(2, jnp.bfloat16)
    optim = take(canonopt.sgd(canonopt.dynamic(number)))
    rate = optim.learning_rate
    assert repr(rate) == "canonopt.dynamic(numpy.float64(0.1))"
    assert type(optim.hyperparameters()["learning_rate"]) is np.float64
    for found in (array * rate, jax.jit(lambda x: array * x)(rate)):
        assert (found.dtype, found.weak_type) == (jnp.float32, False)


# --- with and without x64 -------------------------------------------------------------------------

NUMBERS = [0.1, 1 / 3, 0.999, 3e-4, 1e-8, 7, np.float64(0.1)]


@pytest.mark.slow
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_may_be_used_in_the_other_precision(number, is_wide):
    def run(optim):
        params = jnp.linspace(0.0, 1.0, 5)
        opt_state = optim.init(params)
        for _ in range(2):
            updates, opt_state = optim.update(params, opt_state, params)
            params = optax.apply_updates(params, updates)
        return params, opt_state

    with jax.enable_x64(is_wide):
        optim = canonopt.adamw(canonopt.dynamic(number), b2=canonopt.dynamic(0.999))
    with jax.enable_x64(not is_wide):
        expected = run(canonopt.adamw(number))
        assert bits(run(optim)) == bits(expected)
        same = canonopt.adamw(canonopt.dynamic(number), b2=canonopt.dynamic(0.999))
        assert bits(jax.jit(run)(optim)) == bits(jax.jit(run)(same))
    assert optim.hyperparameters()["learning_rate"] == number


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1 - x,
        lambda x: x * x / 3,
        lambda x: (1 - x**7) ** 0.5,
        lambda x: 0.5**x + x / 0.3,
        lambda x: 1e-3 * x + x / (1 - x),
    ],
)
def test_the_derivative_is_that_of_an_array(function, is_wide):
    with jax.enable_x64(is_wide):
        whole = lambda x: jnp.asarray(function(TracedNumber.of(x, "x"))) * jnp.float32(2)  # noqa: E731
        expected = jax.grad(lambda x: jnp.asarray(function(x)) * 2)(jnp.asarray(0.4))
        second = jax.grad(jax.grad(lambda x: function(x) * 2.0))(jnp.asarray(0.4))
        made = canonopt.dynamic(0.4)
        for derivative in (jax.grad(whole), jax.grad(jax.jit(whole)), jax.jit(jax.grad(whole))):
            np.testing.assert_allclose(derivative(made).value, expected, rtol=1e-5)
        found = jax.grad(lambda x: jax.grad(jax.jit(whole))(x).value)(made)
        np.testing.assert_allclose(found.value, second, rtol=1e-5)
        found = jax.jvp(jax.checkpoint(whole), (made,), (jax.tree.map(jnp.ones_like, made),))
        np.testing.assert_allclose(found[1], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "other", [lambda u: u.astype(jnp.bfloat16), lambda u: u[:1], lambda u: [u]]
)
def test_branches_with_results_of_several_types_are_refused(other):
    @canonopt.canonical
    def build(rate):
        return optax.stateless(lambda updates, _: other(updates) if rate == 0.0 else updates)

    update = jax.jit(lambda optim, updates: optim.update(updates, optim.init(updates))[0])
    with pytest.raises(
        canonopt.errors.DynamicSpecError, match=r"^rate of .*`if` with results of different"
    ):
        update(build(canonopt.dynamic(0.5)), jnp.ones(3))
