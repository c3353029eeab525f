"""Callables of each kind: `KINDS` makes them from a number, `HOLDING` from any value."""

import abc
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import optax
from jax.sharding import SingleDeviceSharding

# These callables do the same for all numbers.
SAME_FOR_ALL = {"a class method"}


def a_lambda(k):
    return lambda x: k * x**2


def a_nested_function(k):
    def square(x: jax.Array) -> jax.Array:
        """A function of its own."""
        return k * x**2

    return square


def a_function_that_calls_itself(k):
    def power(x, n=3):
        return x if n == 0 else k * power(x, n - 1)

    return power


def functions_that_call_each_other(k):
    def even(x, n=4):
        return x if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return k * even(x, n - 1)

    return even


def wrapped(k):
    inner = a_nested_function(k)

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        return inner(*args, **kwargs) + 1

    return wrapper


def a_total(k):
    return lambda x: jnp.sum(k * x**2)


def custom_jvp(k):
    @jax.custom_jvp
    def square(x):
        return k * x**2

    @square.defjvp
    def rule(primals, tangents):
        return square(*primals), 7 * k * tangents[0]

    return square


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


class Scaling:
    def __call__(self, x):
        return self.k * x

    def apply(self, x):
        return self.k * x + 1

    @classmethod
    def of_class(cls, x):
        return cls(2.0)(x)


class Scale(Scaling, eqx.Module):
    k: Any


class Holder(eqx.Module):
    fn: Callable
    name: str = eqx.field(static=True, default="holder")

    def __call__(self, x):
        return self.fn(x) + 1


@dataclasses.dataclass(frozen=True)
class Frozen(Scaling):
    k: Any


class Linen(abc.ABC, flax.linen.Module):
    k: Any

    def scaled(self, x):
        return self.k * x


def on_device(index):
    return SingleDeviceSharding(jax.devices()[index])


_NAMED = [a_lambda, a_nested_function, a_function_that_calls_itself, functions_that_call_each_other]
_NAMED += [wrapped, a_total, custom_jvp, custom_vjp]
# Each builds, from a number, a new callable that takes a vector.
KINDS: dict[str, Callable[[float], Callable]] = {
    **{build.__name__.replace("_", " "): build for build in _NAMED},
    "a default": lambda k: lambda x, k=k: k * x,
    "a keyword default": lambda k: lambda x, *, k=k: k * x,
    "partial": lambda k: functools.partial(scale, k),
    "partial with a keyword": lambda k: functools.partial(scale, 2, offset=k),
    "partial of a closure": lambda k: functools.partial(a_lambda(k)),
    "partial of a partial": lambda k: functools.partial(functools.partial(scale, k), offset=1),
    "partial of jit": lambda k: functools.partial(jax.jit(scale), k),
    "tree partial": lambda k: jtu.Partial(scale, k),
    "tree partial of a closure": lambda k: jtu.Partial(a_lambda(k)),
    "eqx.Partial": lambda k: eqx.Partial(scale, k, offset=1),
    "a method of a module": lambda k: Scale(k).apply,
    "a method of a module with a closure": lambda k: Holder(a_lambda(k)).__call__,
    "a method of a frozen dataclass": lambda k: Frozen(k).apply,
    "a method of an abstract linen module": lambda k: Linen(k).scaled,
    "a class method": lambda k: Frozen.of_class,
    "a module": Scale,
    "a module with a closure": lambda k: Holder(a_lambda(k)),
    "a frozen dataclass": Frozen,
    "jit": lambda k: jax.jit(a_lambda(k)),
    "jit with static_argnums": lambda k: jax.jit(with_option(k), static_argnums=1),
    "jit with static_argnames": lambda k: jax.jit(with_option(k), static_argnames="n"),
    "jit with out_shardings": lambda k: jax.jit(a_lambda(k), out_shardings=on_device(0)),
    "filter_jit": lambda k: eqx.filter_jit(a_lambda(k)),
    "vmap": lambda k: jax.vmap(a_lambda(k)),
    "grad": lambda k: jax.grad(a_total(k)),
    "checkpoint": lambda k: jax.checkpoint(a_lambda(k)),
    "grad of custom_jvp": lambda k: jax.vmap(jax.grad(custom_jvp(k))),
    "grad of custom_vjp": lambda k: jax.vmap(jax.grad(custom_vjp(k))),
    "vectorize": lambda k: jnp.vectorize(a_lambda(k)),
    "filter_vmap": lambda k: eqx.filter_vmap(a_lambda(k)),
    "filter_grad": lambda k: eqx.filter_grad(a_total(k)),
    "filter_checkpoint": lambda k: eqx.filter_checkpoint(a_lambda(k)),
    "jit of vmap of grad": lambda k: jax.jit(jax.vmap(jax.grad(a_lambda(k)))),
    "filter_jit of filter_vmap of a module": lambda k: eqx.filter_jit(
        eqx.filter_vmap(Holder(a_lambda(k)))
    ),
    "linear_schedule": lambda k: optax.linear_schedule(k, 0.0, 10),
    "exponential_decay": lambda k: optax.exponential_decay(k, 10, 0.9),
}


def vector():
    return jnp.arange(1.0, 4.0)


# --- functions that hold a value ----------------------------------------------------------------


def captured(value):
    return lambda: value


def captured_call(function):
    return lambda: function()


def captured_field(owner):
    return lambda: owner.k


def wrapped_by_another(value):
    function = captured(0)
    function.__wrapped__ = captured(value)
    return lambda: function.__wrapped__()


# Each builds, from any value, a function that holds the value and takes no arguments.
HOLDING: dict[str, Callable[[Any], Callable]] = {
    "captured": captured,
    "in a default": lambda value: lambda value=value: value,
    "in a keyword default": lambda value: lambda *, value=value: value,
    "captured twice over": lambda value: captured_call(captured(value)),
    "in a tuple": lambda value: captured((1, (value,))),
    "in a module": lambda value: captured_field(Scale(value)),
    "in a frozen dataclass": lambda value: captured_field(Frozen(value)),
    "in a partial": lambda value: functools.partial(lambda value: value, value),
    "in a keyword of a partial": lambda value: functools.partial(captured, value=value),
    "in a method": lambda value: types.MethodType(lambda self: self, value),
    "in a wrapper": lambda value: functools.wraps(captured)(captured(value)),
    "in what is wrapped": wrapped_by_another,
}


def of_a_module(x):
    return x


def outcome(fn, *args):
    """Return the `repr` of the result, or the type of the error. A function as result is called."""
    try:
        result = fn(*args)
        # The `repr` of a function has its address.
        return outcome(result) if isinstance(result, types.FunctionType) else repr(result)
    except Exception as error:
        return type(error)
