"""Hoisted callables: one object for all that do the same, and never for two that do not."""

import copy
import dataclasses
import functools
import gc
import importlib
import itertools
import math
import os
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import SingleDeviceSharding

import canonopt
from canonopt import hoist, hoisted_field
from canonopt._hoisting import _callables

from .counting import counted
from .test_steps import bits

# --- kinds of callables -----------------------------------------------------------------------

# Each makes a new callable from a number, and takes a vector.
KINDS: dict[str, Callable[[float], Callable]] = {}
# One argument of theirs decides nothing.
SAME_FOR_ALL = {"a class method", "a class method of a module"}


def kind(build):
    KINDS[build.__name__.replace("_", " ")] = build
    return build


@kind
def a_lambda(k):
    return lambda x: k * x**2


@kind
def a_nested_function(k):
    def square(x: jax.Array) -> jax.Array:
        """A function of its own."""
        return k * x**2

    return square


@kind
def a_closure_in_a_closure(k):
    def outer():
        inner = a_lambda(k)

        def innermost(x):
            return inner(x) + k

        return innermost

    return outer()


@kind
def a_function_that_calls_itself(k):
    def power(x, n=3):
        return x if n == 0 else k * power(x, n - 1)

    return power


@kind
def functions_that_call_each_other(k):
    def even(x, n=4):
        return x if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return k * even(x, n - 1)

    return even


@kind
def a_default(k):
    return lambda x, k=k: k * x


@kind
def a_default_that_is_a_function(k):
    inner = a_lambda(k)
    return lambda x, inner=inner: inner(x)


@kind
def a_keyword_default(k):
    def scale(x, *, k=k):
        return k * x

    return scale


@kind
def wrapped(k):
    inner = a_nested_function(k)

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        return inner(*args, **kwargs) + 1

    return wrapper


@kind
def wrapped_twice(k):
    inner = wrapped(k)

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        return inner(*args, **kwargs) + k

    return wrapper


@kind
def wrapped_around_jit(k):
    inner = jax.jit(a_nested_function(k))

    @functools.wraps(inner)
    def wrapper(x):
        return inner(x) + 1

    return wrapper


@kind
def a_total(k):
    return lambda x: jnp.sum(k * x**2)


@kind
def with_aux(k):
    return lambda x: (jnp.sum(k * x**2), x)


@kind
def custom_jvp(k):
    @jax.custom_jvp
    def square(x):
        return k * x**2

    @square.defjvp
    def rule(primals, tangents):
        return square(*primals), 7 * k * tangents[0]

    return square


@kind
def custom_jvp_of_each_argument(k):
    square = jax.custom_jvp(lambda x: k * x**2)
    square.defjvps(lambda tangent, out, x: 7 * k * tangent)
    return square


@kind
def custom_vjp(k):
    @jax.custom_vjp
    def square(x):
        return k * x**2

    def forward(x):
        return square(x), x

    def backward(x, cotangent):
        return (7 * k * cotangent,)

    square.defvjp(forward, backward)
    return square


def scale(k, x, offset=0):
    return k * x + offset


def with_option(k):
    def power(x, n=2):
        return k * x**n

    return power


class Scale(eqx.Module):
    k: Any

    def __call__(self, x):
        return self.k * x

    def apply(self, x):
        return self.k * x + 1

    @classmethod
    def of_class(cls, x):
        return cls(2.0)(x)


class Holder(eqx.Module):
    fn: Callable
    name: str = eqx.field(static=True, default="holder")

    def __call__(self, x):
        return self.fn(x) + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: Any

    def __call__(self, x):
        return self.k * x

    def apply(self, x):
        return self.k * x + 1

    @classmethod
    def of_class(cls, x):
        return cls(2.0)(x)


def on_device(index):
    return SingleDeviceSharding(jax.devices()[index])


Partial = jtu.Partial
KINDS |= {
    "partial": lambda k: functools.partial(scale, k),
    "partial with a keyword": lambda k: functools.partial(scale, 2, offset=k),
    "partial of a closure": lambda k: functools.partial(a_lambda(k)),
    "partial of a partial": lambda k: functools.partial(functools.partial(scale, k), offset=1),
    "partial of jit": lambda k: functools.partial(jax.jit(scale), k),
    "tree partial": lambda k: Partial(scale, k),
    "tree partial of a closure": lambda k: Partial(a_lambda(k)),
    "tree partial of a partial": lambda k: Partial(functools.partial(scale, k), offset=1),
    "tree partial of a tree partial": lambda k: Partial(Partial(scale, k), offset=1),
    "eqx.Partial": lambda k: eqx.Partial(scale, k, offset=1),
    "eqx.Partial of a closure": lambda k: eqx.Partial(a_lambda(k)),
    "eqx.Partial of a partial": lambda k: eqx.Partial(functools.partial(scale, k), offset=1),
    "a method of a module": lambda k: Scale(k).apply,
    "a method of a module with a closure": lambda k: Holder(a_lambda(k)).__call__,
    "a method of a frozen dataclass": lambda k: Frozen(k).apply,
    "a class method": lambda k: Frozen.of_class,
    "a class method of a module": lambda k: Scale.of_class,
    "a module": Scale,
    "a module with a closure": lambda k: Holder(a_lambda(k)),
    "a frozen dataclass": Frozen,
    "nn.Lambda": lambda k: eqx.nn.Lambda(a_lambda(k)),
    "jit": lambda k: jax.jit(a_lambda(k)),
    "jit of a partial": lambda k: jax.jit(functools.partial(scale, k)),
    "jit of a module": lambda k: jax.jit(Holder(a_lambda(k))),
    "jit with static_argnums": lambda k: jax.jit(with_option(k), static_argnums=1),
    "jit with static_argnames": lambda k: jax.jit(with_option(k), static_argnames="n"),
    "jit with inline": lambda k: jax.jit(a_lambda(k), inline=True),
    "jit with donate_argnums": lambda k: jax.jit(a_lambda(k), donate_argnums=0),
    "jit with keep_unused": lambda k: jax.jit(a_lambda(k), keep_unused=True),
    "jit with out_shardings": lambda k: jax.jit(a_lambda(k), out_shardings=on_device(0)),
    "filter_jit": lambda k: eqx.filter_jit(a_lambda(k)),
    "filter_jit with donate": lambda k: eqx.filter_jit(a_lambda(k), donate="all"),
    "vmap": lambda k: jax.vmap(a_lambda(k)),
    "grad": lambda k: jax.grad(a_total(k)),
    "grad with has_aux": lambda k: jax.grad(with_aux(k), has_aux=True),
    "value_and_grad": lambda k: jax.value_and_grad(a_total(k)),
    "hessian": lambda k: jax.hessian(a_total(k)),
    "checkpoint": lambda k: jax.checkpoint(a_lambda(k)),
    "grad of custom_jvp": lambda k: jax.vmap(jax.grad(custom_jvp(k))),
    "grad of custom_jvp of each argument": lambda k: jax.vmap(
        jax.grad(custom_jvp_of_each_argument(k))
    ),
    "grad of custom_vjp": lambda k: jax.vmap(jax.grad(custom_vjp(k))),
    "vectorize": lambda k: jnp.vectorize(a_lambda(k)),
    "vectorize with a signature": lambda k: jnp.vectorize(a_total(k), signature="(n)->()"),
    "filter_vmap": lambda k: eqx.filter_vmap(a_lambda(k)),
    "filter_grad": lambda k: eqx.filter_grad(a_total(k)),
    "filter_value_and_grad": lambda k: eqx.filter_value_and_grad(a_total(k)),
    "filter_checkpoint": lambda k: eqx.filter_checkpoint(a_lambda(k)),
    "jit of vmap of grad": lambda k: jax.jit(jax.vmap(jax.grad(a_lambda(k)))),
    "vmap of jit": lambda k: jax.vmap(jax.jit(a_lambda(k))),
    "jit of checkpoint of a tree partial": lambda k: jax.jit(jax.checkpoint(Partial(a_lambda(k)))),
    "filter_jit of filter_vmap of a module": lambda k: eqx.filter_jit(
        eqx.filter_vmap(Holder(a_lambda(k)))
    ),
    "linear_schedule": lambda k: optax.linear_schedule(k, 0.0, 10),
    "exponential_decay": lambda k: optax.exponential_decay(k, 10, 0.9),
    "exponential_decay with an end": lambda k: optax.exponential_decay(k, 10, 0.9, end_value=0.1),
    "polynomial_schedule": lambda k: optax.polynomial_schedule(k, 0.0, 2, 10),
}


def vector():
    return jnp.arange(1.0, 4.0)


@pytest.mark.parametrize("name", KINDS)
def test_built_again_is_the_same_object(name):
    build = KINDS[name]
    hoisted = hoist(build(2))
    assert hoist(build(2)) is hoisted
    assert hoist(hoisted) is hoisted
    assert hoist(build(2), strict=True) is hoisted
    assert (hoist(build(3)) is hoisted) == (name in SAME_FOR_ALL)
    assert type(hoisted) is type(build(2))


@pytest.mark.parametrize("name", KINDS)
def test_hoisted_does_what_the_original_does(name):
    build = KINDS[name]
    for k in (2, 3.0):
        original = build(k)
        hoisted = hoist(build(k))
        assert bits(hoisted(vector())) == bits(original(vector()))


def of_this_module(x):
    return x


STABLE = [
    *(jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.tanh, jnp.add, jnp.sum, jax.lax.add),
    *(np.sin, np.sum, np.add, math.sin, len, max, str.upper, eqx.is_array, optax.l2_loss),
    *(flax.linen.relu, flax.linen.gelu, flax.linen.softmax, flax.linen.glu),
    *(of_this_module, Scale.apply, Frozen.apply, Scale, Frozen, int, jnp.float32),
]


@pytest.mark.parametrize("fn", STABLE, ids=str)
def test_what_is_stable_comes_back_unchanged(fn):
    assert hoist(fn) is fn
    assert hoist(fn, strict=True) is fn


def test_hoisted_looks_like_the_original():
    original = a_nested_function(2)
    hoisted = hoist(original)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(hoisted, name) == getattr(original, name)
    # A step wrapped in a hoisted function is traced under the same name.
    assert hoist(jax.jit(original)).__name__ == "square"


# --- models that are made again ---------------------------------------------------------------


class Model(eqx.Module):
    fn: Callable
    weight: jax.Array


class StaticModel(eqx.Module):
    fn: Callable = eqx.field(static=True)
    weight: jax.Array


class HoistingModel(eqx.Module):
    fn: Callable = hoisted_field()
    weight: jax.Array


class StaticHoistingModel(eqx.Module):
    fn: Callable = hoisted_field(static=True)
    weight: jax.Array


MODELS = {
    "hoisted_field": HoistingModel,
    "static hoisted_field": StaticHoistingModel,
    "canonicalize": lambda fn, weight: canonopt.canonicalize(Model(fn, weight)),
    "canonicalize, static": lambda fn, weight: canonopt.canonicalize(StaticModel(fn, weight)),
}


def call(model, x):
    return model.fn(model.weight * x)


def steps(make, call, wrap=eqx.filter_jit, models=20):
    """The traces and compiles of a step with models of which each is dropped before the next."""
    step, count = counted(call)
    step = wrap(step)
    for _ in range(models):
        step(*make())
    return count.traces, count.compiles


@pytest.mark.parametrize("place", MODELS)
@pytest.mark.parametrize("name", KINDS)
def test_twenty_models_are_one_trace_and_one_compile(name, place):
    def make():
        return MODELS[place](KINDS[name](2), jnp.ones(3)), vector()

    assert steps(make, call) == (1, 1)


# Equinox keeps their keyword arguments in a dict.
UNHASHABLE = {
    *("eqx.Partial", "eqx.Partial of a closure", "eqx.Partial of a partial"),
    *("filter_vmap", "filter_grad", "filter_value_and_grad"),
}


@pytest.mark.parametrize("name", [name for name in KINDS if name not in UNHASHABLE])
def test_twenty_static_arguments_are_one_trace_and_one_compile(name):
    def make():
        return hoist(KINDS[name](2)), vector()

    assert steps(make, lambda fn, x: fn(x), functools.partial(jax.jit, static_argnums=0)) == (1, 1)


@pytest.mark.parametrize("model", [Model, StaticModel])
def test_twenty_models_that_are_not_hoisted_are_twenty_traces(model):
    assert steps(lambda: (model(a_lambda(2), jnp.ones(3)), vector()), call) == (20, 20)


def activation():
    return lambda x: jnp.maximum(x, 0) * 1.5


class VectorField(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, t, y, args):
        return self.mlp(y)


class NeuralODE(eqx.Module):
    """With everything in a field that a user might put there."""

    term: diffrax.ODETerm
    solver: diffrax.AbstractSolver
    controller: diffrax.AbstractStepSizeController
    saveat: diffrax.SaveAt

    def __init__(self, key):
        mlp = eqx.nn.MLP(2, 2, 4, 1, activation=activation(), key=key)
        self.term = diffrax.ODETerm(VectorField(mlp))
        self.solver = diffrax.Tsit5()
        self.controller = diffrax.PIDController(rtol=1e-3, atol=1e-6)
        self.saveat = diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 3), fn=lambda t, y, args: y[0])

    def __call__(self, y0):
        return diffrax.diffeqsolve(
            *(self.term, self.solver, 0.0, 1.0, 0.1, y0),
            saveat=self.saveat,
            stepsize_controller=self.controller,
        ).ys


def sequential(key):
    linear = eqx.nn.Linear(2, 2, key=key)
    return eqx.nn.Sequential([linear, eqx.nn.Lambda(activation()), eqx.nn.Dropout(inference=True)])


def batch_norm(layer_and_state, x):
    layer, state = layer_and_state
    over_batch = jax.vmap(layer, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    return over_batch(x, state)


def mlp(key):
    return eqx.nn.MLP(2, 2, 4, 2, activation=activation(), final_activation=activation(), key=key)


# How a layer is made, and what it is called with.
LAYERS: dict[str, tuple[Callable[[jax.Array], Any], Any]] = {
    "MLP": (mlp, (2,)),
    "Lambda": (lambda key: eqx.nn.Lambda(activation()), (2,)),
    "Sequential": (sequential, (2,)),
    "MultiheadAttention": (lambda key: eqx.nn.MultiheadAttention(2, 4, key=key), (3, 4)),
    "Conv1d": (lambda key: eqx.nn.Conv1d(2, 3, 2, key=key), (2, 5)),
    "LayerNorm": (lambda key: eqx.nn.LayerNorm(4), (4,)),
    "BatchNorm": (lambda key: BATCH_NORM(3, "batch", mode="batch"), (4, 3)),
    "GRUCell": (lambda key: eqx.nn.GRUCell(2, 3, key=key), (2,)),
    "LSTMCell": (lambda key: eqx.nn.LSTMCell(2, 3, key=key), (2,)),
    "a neural ODE": (NeuralODE, (2,)),
}
BATCH_NORM = eqx.nn.make_with_state(eqx.nn.BatchNorm)
CALLS: dict[str, Callable] = {
    "MultiheadAttention": lambda layer, x: layer(x, x, x),
    "BatchNorm": batch_norm,
    "GRUCell": lambda layer, x: layer(x, jnp.zeros(3)),
    "LSTMCell": lambda layer, x: layer(x, (jnp.zeros(3), jnp.zeros(3))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_twenty_stock_layers_are_one_trace_and_one_compile(name):
    build, shape = LAYERS[name]
    keys = iter(jax.random.split(jax.random.key(0), 20))

    def make():
        return canonopt.canonicalize(build(next(keys))), jnp.ones(shape)

    assert steps(make, CALLS.get(name, lambda layer, x: layer(x))) == (1, 1)


# --- never a callable that behaves differently --------------------------------------------------


def outcome(fn, *args):
    """What a call gives, to the last bit and with its types, or how it fails."""
    try:
        return repr(fn(*args))
    except Exception as error:
        return type(error)


# Each yields functions of no argument, and binds what they captured anew before it goes on.


def assigned_below():
    amount = 1
    yield lambda: amount
    amount = 2
    yield lambda: amount
    amount += 1


def assigned_to_an_argument(amount=1):
    yield lambda: amount
    amount = 2


def assigned_in_a_branch(flag=True):
    amount = 1
    yield lambda: amount
    if flag:
        amount = 2


def not_bound_yet():
    yield lambda: amount
    amount = 1


def deleted():
    amount = 1
    yield lambda: amount  # noqa: F821
    del amount


def set_by_a_sibling():
    amount = 1

    def set_amount(value):
        nonlocal amount
        amount = value

    yield lambda: amount
    set_amount(2)


def set_deep_inside():
    amount = 1

    class Setter:
        @staticmethod
        def run():
            def inner():
                nonlocal amount
                amount = 2

            inner()

    yield lambda: amount
    Setter.run()


def bound_in_an_expression():
    if amount := 1:
        yield lambda: amount
    (amount := 2)


def unpacked():
    amount, other = 1, 2
    yield lambda: (amount, other)
    amount, other = other, amount


def bound_by_statements():
    amount = 1
    yield lambda: amount
    import math as amount  # noqa: F811

    yield lambda: amount
    with np.errstate(all="ignore") as amount:  # noqa: F811
        yield lambda: amount
    match [5]:
        case [amount]:
            yield lambda: amount
    try:
        raise KeyError
    except KeyError as amount:  # noqa: F841
        yield lambda: amount


def in_a_loop():
    for amount in range(3):
        yield lambda: amount  # noqa: B023
        yield functools.partial(lambda other: (amount, other), 1)  # noqa: B023


def in_a_while_loop():
    amount = 0
    while amount < 3:
        yield lambda: amount  # noqa: B023
        amount += 1


def in_a_comprehension():
    yield from [lambda: amount for amount in range(3)]  # noqa: B023


def in_a_generator_expression():
    yield from (lambda: amount for amount in range(3))  # noqa: B023


def in_a_loop_around_a_loop():
    for amount in range(3):
        for _ in range(2):
            yield lambda: amount  # noqa: B023


def in_a_loop_two_functions_deep():
    for amount in range(3):

        def outer():
            return lambda: amount  # noqa: B023

        yield outer()
        yield outer


def in_an_exception_handler_of_a_loop():
    for amount in range(3):
        try:
            int("x")
        except ValueError:
            yield lambda: amount  # noqa: B023
        str(amount)


def in_a_loop_that_is_left():
    for amount in range(9):
        if amount > 2:
            yield lambda: amount  # noqa: B023
            break
        yield lambda: amount  # noqa: B023
    amount = 0


def through_a_function_that_is_rebound():
    amount = 1

    def inner():
        return amount

    yield lambda: inner()
    yield functools.partial(functools.partial(inner))
    yield Holder(lambda: inner()).fn
    amount = 2


def a_function_bound_to_another():
    def inner():
        return 1

    yield lambda: inner()

    def inner():  # noqa: F811
        return 2


REBINDING: list[Callable[[], Iterator[Callable]]] = [
    *(assigned_below, assigned_to_an_argument, assigned_in_a_branch, not_bound_yet, deleted),
    *(set_by_a_sibling, set_deep_inside, bound_in_an_expression, unpacked, bound_by_statements),
    *(in_a_loop, in_a_while_loop, in_a_comprehension, in_a_generator_expression),
    *(in_a_loop_around_a_loop, in_a_loop_two_functions_deep, in_an_exception_handler_of_a_loop),
    *(in_a_loop_that_is_left, through_a_function_that_is_rebound, a_function_bound_to_another),
]


@pytest.mark.parametrize("scenario", REBINDING)
def test_a_variable_is_bound_anew(scenario):
    made: list[tuple[Callable, Callable]] = []
    # Side by side, so that what is merged has not been bound anew in both.
    for function in itertools.chain.from_iterable(zip(scenario(), scenario(), strict=True)):
        made.append((function, hoist(function)))
        assert [outcome(hoisted) for _, hoisted in made] == [outcome(f) for f, _ in made]
    for function, hoisted in made:
        assert outcome(hoisted) == outcome(function)


def captured(value):
    return lambda: value


def in_a_default(value):
    return lambda value=value: value


def in_a_keyword_default(value):
    return lambda *, value=value: value


def captured_twice_over(value):
    inner = captured(value)
    return lambda: inner()


def captured_field(owner):
    return lambda: owner.k


def wrapped_by_another(value):
    function = captured(0)
    function.__wrapped__ = captured(value)
    return lambda: function.__wrapped__()


class Mutable:
    def __init__(self, item=1):
        self.item = item

    def __repr__(self):
        return f"Mutable({self.item})"


HOLDING: dict[str, Callable[[Any], Callable]] = {
    "captured": captured,
    "in a default": in_a_default,
    "in a keyword default": in_a_keyword_default,
    "captured twice over": captured_twice_over,
    "in a tuple": lambda value: captured((1, (value,))),
    "in a module": lambda value: captured_field(Scale(value)),
    "in a frozen dataclass": lambda value: captured_field(Frozen(value)),
    "in a partial": lambda value: functools.partial(lambda value: value, value),
    "in a keyword of a partial": lambda value: functools.partial(captured, value=value),
    "in a method": lambda value: types.MethodType(lambda self: self, value),
    "in a wrapper": lambda value: functools.wraps(captured)(captured(value)),
    "in what is wrapped": wrapped_by_another,
}
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "list": (lambda: [1], lambda value: value.append(2)),
    "dict": (lambda: {"a": 1}, lambda value: value.update(a=2)),
    "set": (lambda: {1}, lambda value: value.add(2)),
    "array": (lambda: np.ones(2), lambda value: value.fill(2)),
    "list in a list": (lambda: [[1]], lambda value: value[0].append(2)),
    "instance": (Mutable, lambda value: setattr(value, "item", 2)),
    "bytearray": (lambda: bytearray(1), lambda value: value.append(2)),
}


@pytest.mark.parametrize("holding", HOLDING)
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_captured_is_changed_in_place(name, holding):
    def shown(function):
        result = function()
        return repr(result() if callable(result) else result)

    make, change = CHANGES[name]
    one, two = make(), make()
    originals = [HOLDING[holding](value) for value in (one, two, one)]
    hoisted = [hoist(function) for function in originals]
    assert hoisted[0] is not hoisted[1]
    change(one)
    expected = [shown(function) for function in originals]
    assert expected[0] == expected[2] != expected[1]
    assert list(map(shown, hoisted)) == expected


def test_a_captured_array_counts_by_identity_and_a_number_does_not():
    for make in (jnp.ones, np.ones):
        array = make(2)
        assert hoist(captured(array)) is hoist(captured(array))
        assert hoist(captured(array)) is not hoist(captured(make(2)))
    assert hoist(captured(np.float32(1))) is hoist(captured(np.float32(1)))


def captured_call(function):
    return lambda: function()


# What may be replaced on a function, and what with.
REPLACEMENTS: dict[str, tuple[Callable[[], Callable], Callable[[Any], Any]]] = {
    "code": (lambda: captured(1), lambda f: setattr(f, "__code__", captured_call(f).__code__)),
    "defaults": (lambda: in_a_default(1), lambda f: setattr(f, "__defaults__", (2,))),
    "keyword defaults": (
        lambda: in_a_keyword_default(1),
        lambda f: setattr(f, "__kwdefaults__", {"value": 2}),
    ),
    "a keyword default": (
        lambda: in_a_keyword_default(1),
        lambda f: f.__kwdefaults__.update(value=2),
    ),
    "a cell": (lambda: captured(1), lambda f: setattr(f.__closure__[0], "cell_contents", 2)),
    "a cell of a captured function": (
        lambda: captured_twice_over(1),
        lambda f: setattr(f.__closure__[0].cell_contents.__closure__[0], "cell_contents", 2),
    ),
}
WITHIN: dict[str, Callable[[Callable], Callable]] = {
    "itself": lambda f: f,
    "a partial": functools.partial,
    "a closure": lambda f: captured_call(f),
    "a module": Holder,
    "a wrapper": lambda f: functools.wraps(f)(captured_call(f)),
}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("name", REPLACEMENTS)
def test_parts_of_the_original_are_replaced(name, within):
    def called(function):
        return (function.fn if isinstance(function, Holder) else function)()

    build, replace = REPLACEMENTS[name]
    function = build()
    original = WITHIN[within](function)
    hoisted = hoist(original)
    replace(function)
    assert outcome(called, original) != "1"
    assert called(hoisted) == 1
    assert hoist(WITHIN[within](build())) is hoisted
    assert hoist(original) is not hoisted
    assert outcome(called, hoist(original)) == outcome(called, original)


def test_a_rule_for_derivatives_is_replaced():
    original = custom_jvp(2.0)
    hoisted = hoist(original)
    original.defjvp(lambda primals, tangents: (original(*primals), 0 * tangents[0]))
    assert (jax.grad(original)(1.0), jax.grad(hoisted)(1.0)) == (0, 14)
    assert hoist(original) is not hoisted


@pytest.mark.parametrize("partial", [functools.partial, Partial])
def test_a_partial_keeps_the_rule_of_a_custom_jvp_of_a_partial(partial):
    # It is called `fun` in it, as a partial is in `jax.tree_util.Partial`, and in what JAX makes.
    square = jax.custom_jvp(functools.partial(scale, 2.0))
    square.defjvps(lambda tangent, out, x: 7 * tangent)
    assert jax.grad(hoist(partial(square)))(1.0) == 7
    assert hoist(partial(jax.grad(square)))(1.0) == 7


@pytest.mark.parametrize("partial", [functools.partial, Partial])
@pytest.mark.parametrize("keep", [hoist, canonopt.canonicalize])
def test_keywords_of_a_partial_are_changed_in_place(keep, partial):
    original = partial(scale, 2, offset=1)
    kept = keep(original)
    original.keywords["offset"] = 3
    assert keep(partial(scale, 2, offset=1))(1) == kept(1) == 3
    assert keep(original)(1) == 5


# --- the same source twice ----------------------------------------------------------------------

SOURCE = """
offset = {offset}
def make(k):
    return lambda x: (k, x, offset)
made = make(2)
plain = lambda x: (x, offset)
"""


def namespace(**contents) -> types.ModuleType:
    module = types.ModuleType("somewhere")
    vars(module).update(contents)
    return module


def both(module):
    return [module.make(2), module.made, module.plain]


def agree(originals, *args):
    hoisted = [hoist(function) for function in originals]
    assert [outcome(h, *args) for h in hoisted] == [outcome(f, *args) for f in originals]
    for a, b in itertools.combinations(range(len(originals)), 2):
        if hoisted[a] is hoisted[b]:
            assert outcome(originals[a], *args) == outcome(originals[b], *args)
    return hoisted


def test_the_same_source_in_two_modules():
    one, two = namespace(), namespace()
    for module in (one, two):
        exec(SOURCE.format(offset=1), vars(module))
    hoisted = agree(both(one) + both(two), 0)
    assert hoisted[0] is hoisted[1]  # of one module, from one factory
    assert len(set(map(id, hoisted))) == 4
    two.offset = 2
    assert hoisted[3](0) == (2, 0, 2)
    agree(both(one) + both(two), 0)


def test_the_same_code_in_two_namespaces():
    code = compile(SOURCE.format(offset=1), "cell", "exec")
    one, two = namespace(), namespace()
    for module in (one, two):
        exec(code, vars(module))
    assert one.make.__code__ is two.make.__code__
    two.offset = 2
    hoisted = agree(both(one) + both(two), 0)
    assert len(set(map(id, hoisted))) == 4
    assert hoist(types.FunctionType(one.made.__code__, {}, "f", (), one.made.__closure__)) not in (
        hoisted
    )


def test_the_same_source_in_two_files(tmp_path, monkeypatch):
    for name, offset in (("canonopt_test_one", 1), ("canonopt_test_two", 2)):
        (tmp_path / f"{name}.py").write_text(SOURCE.format(offset=offset))
    monkeypatch.syspath_prepend(tmp_path)
    one, two = map(importlib.import_module, ("canonopt_test_one", "canonopt_test_two"))
    hoisted = agree(both(one) + both(two), 0)
    assert hoisted[0] is hoisted[1]
    assert len(set(map(id, hoisted))) == 4


def test_a_module_is_reloaded(tmp_path, monkeypatch):
    path = tmp_path / "canonopt_test_reloaded.py"
    path.write_text(SOURCE.format(offset=1))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("canonopt_test_reloaded")
    before = both(module)
    agree(before, 0)
    path.write_text(SOURCE.format(offset=1).replace("(k, x, offset)", "(k, x, offset, 'anew')"))
    os.utime(path, (0, 0))  # a cache is told from its source by the time
    module = importlib.reload(module)
    hoisted = agree(before + both(module), 0)
    assert [h(0) for h in hoisted[:1] + hoisted[3:4]] == [(2, 0, 1), (2, 0, 1, "anew")]
    assert hoisted[3] is hoisted[4]


def test_a_cell_is_run_again():
    module = namespace()
    for again in (False, True):
        # A shell compiles it anew, and a program that keeps what it compiled does not.
        code = compile(SOURCE.format(offset=1), "cell", "exec")
        exec(code, vars(module))
        before = both(module)
        exec(code if again else SOURCE.format(offset=2), vars(module))
        hoisted = agree(before + both(module), 0)
        assert (hoisted[0] is hoisted[3]) == again
        module.offset = 3
        agree(before + both(module), 0)


def test_two_lambdas_on_one_line():
    add, subtract = (lambda x: x + 1), (lambda x: x - 1)
    same, other = (lambda x: x), (lambda x: x)
    assert len({hoist(add), hoist(subtract), hoist(same), hoist(other)}) == 4
    agree([add, subtract, same, other], 1)


# --- what differs -------------------------------------------------------------------------------

# Values that Python, NumPy or a hash table take for one another, group by group.
GROUPS: list[tuple[Any, ...]] = [
    (0, 0.0, -0.0, False, 0j, np.float32(0), np.float32(-0.0), np.int32(0)),
    (1, 1.0, True, 1 + 0j, np.float32(1), np.float64(1), np.int32(1), np.bool_(True), "1", b"1"),
    ((1,), (1.0,), (True,), ((1,),), frozenset({1}), frozenset({1.0}), (1, None)),
    (None, "", b"", (), frozenset(), math.nan, math.inf, np.float32(math.nan)),
    (float, np.float64, np.float32, jnp.float32, np.dtype("float32"), "float32"),
]
LOOKALIKES = [value for group in GROUPS for value in group]


class Point(NamedTuple):
    value: Any


TAKING: dict[str, Callable[[Any], Callable]] = {
    name: HOLDING[name]
    for name in HOLDING
    if name not in ("in a method", "in a partial", "in a keyword of a partial")
}
TAKING |= {
    "partial": lambda value: functools.partial(captured, value),
    "partial with a keyword": lambda value: functools.partial(captured, value=value),
    "method of a module": lambda value: Scale(value).apply,
    "method of a frozen dataclass": lambda value: Frozen(value).apply,
    "named tuple": lambda value: captured(Point(value)),
}


@pytest.mark.parametrize("name", TAKING)
def test_lookalikes_are_told_apart(name):
    hoisted = [hoist(TAKING[name](value)) for value in LOOKALIKES]
    assert len(set(map(id, hoisted))) == len(LOOKALIKES)
    for value, earlier in zip(LOOKALIKES, hoisted, strict=True):
        assert hoist(TAKING[name](copy.deepcopy(value))) is earlier


def test_signatures_are_told_apart():
    functions = [
        *((lambda x, y=1: x), (lambda x, *, y=1: x), (lambda x, y: x), (lambda y, x=1: y)),
        *((lambda *x: x), (lambda **x: x), (lambda x, /, y=1: x), (lambda y, z=1: y)),
    ]
    assert len(set(map(hoist, functions))) == len(functions)


def test_names_and_annotations_are_told_apart():
    def make(annotation=int, name="function", doc="A function."):
        def function(x: annotation):
            return x

        function.__name__, function.__doc__ = name, doc
        return function

    assert hoist(make()) is hoist(make())
    others = [make(float), make(list[int]), make(name="other"), make(doc="Another.")]
    assert len({hoist(make()), *map(hoist, others)}) == 5


def jvp_of(function, factor=2, symbolic_zeros=False):
    def rule(primals, tangents):
        return function(*primals), factor * tangents[0]

    function.defjvp(rule, symbolic_zeros=symbolic_zeros)
    return function


POLICIES = jax.checkpoint_policies


def wraps(function, **options):
    return functools.wraps(function, **options)(captured_call(of_this_module))


# What makes one function from another, and options of which no two do the same.
TRANSFORMS: dict[str, tuple[Callable[..., Callable], list[dict[str, Any]]]] = {
    "jit": (
        jax.jit,
        [
            *({"static_argnums": n} for n in (0, 1, (0, 1))),
            *({"donate_argnums": n} for n in (0, 1)),
            *({"in_shardings": on_device(n)} for n in (0, 1)),
            *({"in_shardings": (on_device(n), None)} for n in (0, 1)),
            *({"out_shardings": on_device(n)} for n in (0, 1)),
            *({"compiler_options": {"xla_embed_ir_in_executable": v}} for v in (True, False, 1)),
            *({"keep_unused": True}, {"inline": True}),
        ],
    ),
    "jit with names": (
        jax.jit,
        [
            *({"static_argnames": n} for n in ("x", "n", ("x", "n"))),
            *({"donate_argnames": n} for n in ("x", "n")),
            {"static_argnames": "n", "donate_argnames": "x"},
        ],
    ),
    "vmap": (
        jax.vmap,
        [
            *({"in_axes": axes} for axes in (1, -1, (0, None), (None, 0))),
            *({"out_axes": axes} for axes in (1, -1, None)),
            *({"axis_name": name} for name in ("a", "b")),
            *({"spmd_axis_name": name} for name in ("a", "b")),
            {"axis_size": 3},
        ],
    ),
    "grad": (
        jax.grad,
        [
            *({"argnums": n} for n in (1, (0,), (0, 1))),
            *({"has_aux": True}, {"holomorphic": True}, {"allow_int": True}),
        ],
    ),
    "checkpoint": (
        jax.checkpoint,
        [
            *({"policy": POLICIES.save_only_these_names(name)} for name in ("a", "b")),
            *({"policy": p} for p in (POLICIES.dots_saveable, POLICIES.everything_saveable)),
            *({"prevent_cse": False}, {"static_argnums": (1,)}),
        ],
    ),
    "vectorize": (jnp.vectorize, [{"excluded": {1}}, {"excluded": {"n"}}, {"signature": "()->()"}]),
    "custom_jvp": (
        lambda function, **options: jvp_of(jax.custom_jvp(function, **options)),
        [{"nondiff_argnums": (0,)}, {"nondiff_argnums": (1,)}],
    ),
    "defjvp": (
        lambda function, **options: jvp_of(jax.custom_jvp(function), **options),
        [{"factor": 3}, {"factor": 2.0}, {"symbolic_zeros": True}],
    ),
    "filter_jit": (
        eqx.filter_jit,
        [{"donate": d} for d in ("all", "warn", "all-except-first", "warn-except-first")],
    ),
    "filter_vmap": (
        eqx.filter_vmap,
        [{"in_axes": 1}, {"in_axes": None}, {"out_axes": 1}, {"axis_name": "a"}],
    ),
    "filter_grad": (eqx.filter_grad, [{"has_aux": True}]),
    "wraps": (wraps, [{"assigned": ()}, {"assigned": ("__name__",)}]),
}
# What JAX makes of them holds a variable that it binds again, or a set.
BY_IDENTITY = {"spmd_axis_name", "policy"}


# A structured scalar is a view of its array, and its type does not name its fields.
RECORDS = [np.zeros(1, [(name, kind)])[0] for name in "xy" for kind in ("<i8", "<f8")]
SUBARRAYS = [np.dtype((kind, shape)) for kind in ("f4", "i4") for shape in ((2, 3), (3, 2))]


@pytest.mark.parametrize("values", [RECORDS, SUBARRAYS], ids=["records", "subarrays"])
def test_structured_types_of_numpy_are_told_apart(values):
    assert len({hoist(captured(value)) for value in values}) == len(values)


def test_a_record_is_changed_in_place():
    one, other = (np.ones(1, [("x", int)])[0] for _ in range(2))
    hoisted = hoist(captured(one)), hoist(captured(other))
    other["x"] = 2
    assert [int(function()["x"]) for function in hoisted] == [1, 2]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_options_are_told_apart(name):
    transform, others = TRANSFORMS[name]
    all_options = [{}, *others]
    hoisted = [hoist(transform(with_option(2), **options)) for options in all_options]
    assert len(set(map(id, hoisted))) == len(hoisted)
    for options, earlier in zip(all_options, hoisted, strict=True):
        if not BY_IDENTITY & options.keys():
            assert hoist(transform(with_option(2), **options)) is earlier


def test_merged_or_not_a_transformed_function_keeps_its_options():
    x = jnp.arange(6.0).reshape(2, 3)
    out_axes = [hoist(jax.vmap(a_lambda(2), out_axes=n)) for n in (0, 1)]
    assert [fn(x).shape for fn in out_axes] == [(2, 3), (3, 2)]
    argnums = [hoist(jax.grad(lambda x, y: x * y, argnums=n)) for n in (0, 1)]
    assert [fn(2.0, 3.0) for fn in argnums] == [3.0, 2.0]
    on = [hoist(jax.jit(a_lambda(2), out_shardings=on_device(n))) for n in (0, 1)]
    assert [fn(x).devices() for fn in on] == [{device} for device in jax.devices()[:2]]
    donating = hoist(jax.jit(lambda x: x + 1, donate_argnums=0))
    donating(x)
    assert x.is_deleted()


class LikeScale(Scale):
    pass


@dataclasses.dataclass(frozen=True)
class LikeFrozen(Frozen):
    pass


def test_instances_count_by_class_and_by_value_if_they_have_one():
    @dataclasses.dataclass
    class NotFrozen:
        k: Any

        __call__ = Frozen.__call__

    @dataclasses.dataclass(frozen=True, eq=False)
    class FrozenWithoutValue:
        k: Any

        __call__ = Frozen.__call__

    class Ordinary:
        def __init__(self, k):
            self.k = k

        __call__ = Frozen.__call__

    assert hoist(Frozen(2)) is hoist(Frozen(2)) is not hoist(LikeFrozen(2))
    assert hoist(Scale(2)) is hoist(Scale(2)) is not hoist(LikeScale(2))
    for one, other in ((Frozen, LikeFrozen), (Scale, LikeScale)):
        assert hoist(captured(one(2))) is not hoist(captured(other(2)))
        assert hoist(one(2).apply) is not hoist(one(2).__call__)
    for kind in (NotFrozen, FrozenWithoutValue, Ordinary):
        one, other = kind(2), kind(2)
        assert hoist(one) is one
        for build in (captured, lambda value: value.__call__, functools.partial):
            assert hoist(build(one)) is hoist(build(one))
            assert hoist(build(one)) is not hoist(build(other))


class Unfrozen(Frozen):
    """Not a dataclass itself, and so it takes attributes that are no fields."""

    unit = 1


def test_a_subclass_of_a_frozen_dataclass_is_changed_in_place():
    owner = Unfrozen(2)
    original = captured(owner)
    hoisted = hoist(original)
    owner.unit = 5
    assert hoisted().unit == original().unit == 5


# --- pairs of any functions ---------------------------------------------------------------------

# Functions that tell what they were made from. The first take a value, the others a function too.


def told_by_capture(value):
    return lambda x: ("capture", value, x)


def told_by_another_capture(value):
    return lambda x: ("another capture", value, x)


def told_by_default(value):
    return lambda x, value=value: ("default", value, x)


def told_by_keyword_default(value):
    def function(x, *, value=value):
        return "keyword default", value, x

    return function


def told_by_partial(value):
    return functools.partial(lambda *args: ("partial", args), value)


def told_by_keyword(value):
    return functools.partial(lambda x, value: ("keyword", value, x), value=value)


class Teller(eqx.Module):
    value: Any

    def __call__(self, x):
        return "module", self.value, x


@dataclasses.dataclass(frozen=True)
class FrozenTeller:
    value: Any

    def __call__(self, x):
        return "dataclass", self.value, x

    def method(self, x):
        return "method", self.value, x


def told_by_method(value):
    return FrozenTeller(value).method


def told_by_globals(value):
    return types.FunctionType((lambda x: ("global", which, x)).__code__, GLOBALS[repr(value) > "1"])  # noqa: F821


GLOBALS = [{"which": 0}, {"which": 1}]


def told_by_attribute(value):
    function = told_by_capture(0)
    function.value = value
    return lambda x: ("attribute", function.value, x)


def around_capture(value, inner):
    return lambda x: ("capture", value, inner(x))


def around_default(value, inner):
    return lambda x, inner=inner: ("default", value, inner(x))


def around_partial(value, inner):
    def call(inner, x, value):
        return "partial", value, inner(x)

    return functools.partial(call, inner, value=value)


def around_tree_partial(value, inner):
    return Partial(around_partial(value, inner))


def around_module(value, inner):
    return eqx.Partial(lambda inner, value, x: ("module", value, inner(x)), inner, value)


def around_wraps(value, inner):
    @functools.wraps(inner, updated=())
    def wrapper(x):
        return "wrapper", value, inner(x)

    return wrapper


def around_wrapped(value, inner):
    function = told_by_capture(value)
    function.__wrapped__ = inner
    return lambda x: ("wrapped", function.__wrapped__(x), function(x))


def around_recursion(value, inner):
    def function(x, depth=2):
        return function(x, depth - 1) if depth else ("recursion", value, inner(x))

    return function


def around_jit(value, inner):
    # What is told comes out as the bytes of its text, which no trace can see into.
    return jax.jit(lambda x: told(inner, value), keep_unused=True)


def around_vmap(value, inner):
    axis = int(isinstance(value, str))
    return jax.vmap(lambda x: told(inner, value), out_axes=axis, axis_size=2, in_axes=None)


def told(function, x):
    return np.frombuffer(repr(function(x)).encode(), np.uint8)


FIRST = [
    *(told_by_capture, told_by_another_capture, told_by_default, told_by_keyword_default),
    *(told_by_partial, told_by_keyword, Teller, told_by_method, FrozenTeller, told_by_globals),
    told_by_attribute,
]
AROUND = [
    *(around_capture, around_default, around_partial, around_tree_partial, around_module),
    *(around_wraps, around_wrapped, around_recursion),
]
LAST = [around_jit, around_vmap]

Recipe = list[tuple[Callable, Any]]

simple = st.sampled_from(LOOKALIKES) | st.floats() | st.integers() | st.text(max_size=2)
values = st.sampled_from(LOOKALIKES) | st.recursive(
    simple, lambda inner: st.lists(inner, max_size=2) | st.tuples(inner, inner), max_leaves=3
)


def steps_of(builders):
    return st.tuples(st.sampled_from(builders), values)


recipes = st.tuples(
    steps_of(FIRST).map(lambda step: [step]),
    st.lists(steps_of(AROUND), max_size=2),
    # They take long, and what they do to the rest does not depend on it.
    st.integers(0, 5).flatmap(
        lambda n: steps_of(LAST).map(lambda s: [s]) if n == 5 else st.just([])
    ),
).map(lambda parts: [step for part in parts for step in part])


@st.composite
def pairs(draw) -> tuple[Recipe, Recipe]:
    """Two recipes: any, or equal ones, or such as differ in one value or in one builder."""
    one = draw(recipes)
    other = [(builder, fresh(value)) for builder, value in one]
    i = draw(st.integers(0, len(one) - 1))
    builder, value = other[i]
    how = draw(st.sampled_from(["value", "value", "any", "equal", "builder"]))
    if how == "any":
        other = draw(recipes)
    elif how == "value":
        groups = [group for group in GROUPS if any(value is one for one in group)]
        other[i] = builder, draw(st.sampled_from(groups[0]) if groups else values)
    elif how == "builder":
        group = next(group for group in (FIRST, AROUND, LAST) if builder in group)
        other[i] = draw(st.sampled_from(group)), value
    return one, other


def fresh(value):
    if isinstance(value, list):
        return list(map(fresh, value))
    return tuple(map(fresh, value)) if type(value) is tuple else value


def lists_in(value):
    if isinstance(value, list):
        yield value
    if isinstance(value, list | tuple):
        for item in list(value):
            yield from lists_in(item)


def made_from(recipe: Recipe) -> Callable:
    (first, value), *others = recipe
    return functools.reduce(lambda inner, step: step[0](step[1], inner), others, first(value))


def tells(function):
    def shown(x):
        out = function(x)
        return (out.shape, np.asarray(out).tobytes()) if isinstance(out, jax.Array) else out

    return [outcome(shown, x) for x in (0, -0.0, "x")]


@settings(max_examples=400)
@given(pairs())
def test_pairs_of_functions(pair):
    originals = [made_from(recipe) for recipe in pair]
    hoisted = [hoist(function) for function in originals]
    expected = [tells(function) for function in originals]
    assert [tells(function) for function in hoisted] == expected
    if hoisted[0] is hoisted[1]:
        assert expected[0] == expected[1]
    for recipe, earlier in zip(pair, hoisted, strict=True):
        lists = [items for _, value in recipe for items in lists_in(value)]
        if not lists and all(builder is not told_by_attribute for builder, _ in recipe):
            assert hoist(made_from(recipe)) is earlier
        if recipe[-1][0] in LAST:  # traced with what was in the list
            continue
        for items in lists:
            items.append("changed")
    assert [tells(function) for function in hoisted] == [tells(f) for f in originals]


# --- threads and lifetimes ----------------------------------------------------------------------


def test_threads_that_hoist_equal_closures_get_one_object():
    start = threading.Barrier(32)
    results: list[list[Callable]] = [[] for _ in range(32)]

    def work(index):
        start.wait()
        for k in range(50):
            results[index] += [hoist(a_lambda(k)), hoist(a_function_that_calls_itself(k))]
            results[index] += [hoist(functools.partial(jax.jit(wrapped(k)), k))]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results[0]) == 150
    for same in zip(*results, strict=True):
        assert len(set(map(id, same))) == 1


def test_dropped_callables_leave_nothing():
    gc.collect()
    before = len(_callables)
    for i in range(10_000):
        hoist(a_lambda(i + 0.5))
    for i in range(20):
        for build in KINDS.values():
            hoist(build(i + 0.5))
    gc.collect()
    assert len(_callables) == before


def test_a_hoisted_callable_lives_as_long_as_a_cache_that_holds_it():
    step, count = counted(lambda fn, x: fn(x))
    step = jax.jit(step, static_argnums=0)
    for _ in range(5):
        step(hoist(a_lambda(0.25)), vector())
        gc.collect()
    assert (count.traces, count.compiles) == (1, 1)
    step.clear_cache()


# --- what cannot be hoisted ---------------------------------------------------------------------

CHANGED = r"can be changed in place\. Capture a tuple or a frozenset instead, or pass it as"
ARRAY = r"is an array\. Pass it as an argument, or keep it in a field of an equinox\.Module; or"
NO_VALUE = r"has no value to compare\. Make its class a frozen dataclass or an equinox\.Module, or"
NO_RULE = r"it has no rule for derivatives yet\. Define it before hoisting, with defjvp or defvjp\."


def a_loop_variable():
    for amount in range(2):
        function = lambda x: amount * x  # noqa: B023, E731
    return function


def with_attributes():
    function = captured(1)
    function.note, function.unit = "a note", "m"
    return function


def in_a_partial_in_a_closure():
    inner = functools.partial(captured([1]))
    return lambda: inner()


# How a callable is made, and why it counts by identity.
ERRORS: dict[str, tuple[Callable[[], Callable], str]] = {
    "list": (lambda: captured([1]), rf"its captured variable 'value', \[1\], {CHANGED}"),
    "dict": (lambda: captured({}), rf"its captured variable 'value', {{}}, {CHANGED}"),
    "set": (lambda: captured({1}), rf"its captured variable 'value', \{{1\}}, {CHANGED}"),
    "long list": (
        lambda: captured(list(range(99))),
        rf"its captured variable 'value', \[0, 1, [\d, ]+\.\.\., {CHANGED}",
    ),
    "jax array": (
        lambda: captured(jnp.ones(2)),
        rf"its captured variable 'value', f32\[2\], {ARRAY}",
    ),
    "numpy array": (
        lambda: captured(np.ones(2, np.float32)),
        rf"its captured variable 'value', f32\[2\]\(numpy\), {ARRAY}",
    ),
    "default": (lambda: in_a_default([]), rf"its default of 'value', \[\], {CHANGED}"),
    "keyword default": (
        lambda: in_a_keyword_default([]),
        rf"its default of 'value', \[\], {CHANGED}",
    ),
    "loop variable": (
        a_loop_variable,
        r"it captures 'amount', which a loop or an assignment may bind anew\. Bind it once and "
        r"before, or as a default: lambda x, amount=amount: \.\.\. Without strict=True",
    ),
    "attributes": (
        with_attributes,
        r"it has attributes of its own \(note, unit\)\. Keep what they say in a default",
    ),
    "custom_jvp without a rule": (lambda: jax.custom_jvp(captured(1)), NO_RULE),
    "custom_vjp without a rule": (lambda: jax.custom_vjp(captured(1)), NO_RULE),
    "ordinary instance": (
        lambda: captured(Mutable()),
        rf"its captured variable 'value', Mutable\(1\), {NO_VALUE}",
    ),
    "ordinary callable": (lambda: functools.lru_cache(captured(1)), rf"it {NO_VALUE}"),
    "tuple": (lambda: captured((1, [2])), rf"its captured variable 'value', \[2\], {CHANGED}"),
    "partial in a closure": (
        in_a_partial_in_a_closure,
        r"its captured variable 'value' of function of captured variable 'inner', \[1\], "
        rf"{CHANGED}",
    ),
    "arguments of a partial": (
        lambda: functools.partial(captured(1), 0, [1]),
        rf"its argument 1, \[1\], {CHANGED}",
    ),
    "keyword of a partial": (
        lambda: functools.partial(captured(1), value=[1]),
        rf"its argument 'value', \[1\], {CHANGED}",
    ),
    "method of a module": (
        lambda: Holder(captured([1])).__call__,
        rf"its captured variable 'value' of attribute 'fn' of owner, \[1\], {CHANGED}",
    ),
    "method of a dataclass": (
        lambda: Frozen([1]).apply,
        rf"its attribute 'k' of owner, \[1\], {CHANGED}",
    ),
    "jit": (
        lambda: jax.jit(captured([1])),
        rf"its captured variable 'value' of jitted function, \[1\], {CHANGED}",
    ),
    "wrapped": (
        lambda: functools.wraps(captured)(captured_call(captured([1]))),
        rf"its captured variable 'value' of captured variable 'function', \[1\], {CHANGED}",
    ),
    "model": (
        lambda: eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0)),
        rf"its attribute 'layers', f32\[2,2\], {ARRAY}",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_counts_by_identity_is_named_if_asked_for(name):
    build, because = ERRORS[name]
    function = build()
    shown = getattr(function, "__qualname__", type(function).__qualname__)
    with pytest.raises(canonopt.HoistError, match=f"counts by identity, because {because}") as info:
        hoist(function, strict=True)
    assert str(info.value).startswith(f"{shown} counts by identity")
    assert str(info.value).endswith("Without strict=True it is hoisted for what can be compared.")
    assert isinstance(info.value, TypeError)
    hoist(function)


def test_a_part_of_a_function_that_calls_itself_is_named():
    items = [1]

    def function(n):
        return function(n - 1) if n else items

    with pytest.raises(
        canonopt.HoistError, match=rf"its captured variable 'items', \[1\], {CHANGED}"
    ):
        hoist(function, strict=True)


@pytest.mark.parametrize("value", [3, None, "name", [len], jnp.ones(2)], ids=repr)
def test_what_is_not_callable_cannot_be_hoisted(value):
    message = r"hoist needs a callable, and got .*write canonopt\.canonicalize\(model\)"
    with pytest.raises(canonopt.HoistError, match=message):
        hoist(value)


# --- fields -------------------------------------------------------------------------------------


def test_fields_hoist_their_callables():
    class Layer(eqx.Module):
        leaf: Any = hoisted_field()
        static: Any = hoisted_field(static=True)

    one, two = (Layer(a_lambda(2), a_nested_function(2)) for _ in range(2))
    assert one.leaf is two.leaf is hoist(a_lambda(2))
    assert one.static is two.static is hoist(a_nested_function(2))
    assert jax.tree.leaves(one) == [one.leaf]
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for value in (None, 3, "name", (a_lambda(2),)):
        layer = Layer(value, value)
        assert layer.leaf is layer.static is value
    assert Layer(jax.nn.relu, jax.nn.relu).leaf is jax.nn.relu


def test_fields_take_what_fields_take():
    seen = []

    def convert(name):
        seen.append(name)
        return {"double": a_lambda(2), "nothing": None}.get(name, name)

    class Layer(eqx.Module):
        by_default: Callable = hoisted_field(default=a_lambda(3))
        by_factory: Callable = hoisted_field(default_factory=lambda: a_lambda(4), static=True)
        converted: Any = hoisted_field(converter=convert, default="double")
        none: Callable | None = hoisted_field(default=None, metadata={"unit": "m"}, kw_only=True)

    one, two = Layer(), Layer(converted="nothing")
    assert one.by_default is two.by_default is hoist(a_lambda(3))
    assert one.by_factory is two.by_factory is hoist(a_lambda(4))
    assert one.converted is hoist(a_lambda(2))
    assert two.converted is two.none is None
    assert seen == ["double", "nothing"]
    assert Layer(none=a_lambda(5)).none is hoist(a_lambda(5))
    fields = {field.name: field for field in dataclasses.fields(Layer)}
    assert fields["none"].metadata["unit"] == "m"
    assert fields["by_factory"].metadata["static"]
