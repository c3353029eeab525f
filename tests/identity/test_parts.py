"""The table of parts: every kind is made again with other parts, and copies keep what is shared."""

import collections
import functools

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt
from canonopt._identity.captured import Captured
from canonopt._identity.parts import Graph

OLD, NEW = jnp.zeros(2), jnp.ones(2)


class Module(eqx.Module):
    array: jax.Array
    name: tuple = eqx.field(static=True)


@attrs.frozen(slots=False)
class Frozen:
    array: jax.Array

    def method(self) -> None: ...


def function(x, array=OLD, *, other=OLD):
    return x + array + other


def capturing(array):
    return lambda x: x + array


KINDS = {
    "function": lambda: capturing(OLD),
    "defaults": lambda: functools.wraps(function)(lambda x, array=OLD, *, other=OLD: x),
    "partial": lambda: functools.partial(function, OLD, other=OLD),
    "jtu.Partial": lambda: jax.tree_util.Partial(functools.partial(function, OLD), OLD),
    "method": lambda: Frozen(OLD).method,
    "jitted": lambda: jax.jit(capturing(OLD), static_argnames="x"),
    "canonopt.jit": lambda: canonopt.jit(lambda x, array=OLD: x + array),
    "hoisted": lambda: canonopt.hoist(lambda x, array=OLD: x + array),
    "tuple": lambda: (OLD, 1),
    "list": lambda: [OLD, 1],
    "dict": lambda: {"b": OLD, "a": 1},
    "OrderedDict": lambda: collections.OrderedDict(b=OLD, a=1),
    "defaultdict": lambda: collections.defaultdict(list, b=OLD, a=1),
    "transformation": lambda: optax.GradientTransformation(function, lambda x, a=OLD: x),
    "frozen": lambda: Frozen(OLD),
    "module": lambda: Module(OLD, ("name",)),
    "spec": lambda: canonopt.sgd(OLD),
}


@pytest.mark.parametrize("name", KINDS)
def test_arrays_are_replaced_in_every_kind(name):
    value = KINDS[name]()
    assert all_are(Captured(value).arrays, OLD)
    made = with_new(value).function
    assert all_are(Captured(made).arrays, NEW)
    assert all_are(Captured(value).arrays, OLD)
    captured = Captured(value)
    assert captured.replaced(captured.arrays).function is value


def with_new(value):
    captured = Captured(value)
    return captured.replaced([NEW] * len(captured.arrays))


def all_are(arrays, array):
    return len(arrays) > 0 and all(found is array for found in arrays)


def test_a_copy_keeps_what_is_shared_and_leads_back():
    array, plain, items = OLD, object(), [OLD]
    items.append(items)

    def inner(n):
        return (array, items, plain) if n == 0 else outer(n - 1)

    def outer(n):
        return inner(n)

    outer.itself = outer
    made = with_new(outer).function
    assert made is not outer and made.itself is made
    found, copied, same = made(2)
    assert found is NEW and same is plain
    assert copied[0] is NEW and copied[1] is copied


def test_functions_that_share_a_variable_share_it_in_a_copy():
    count = OLD

    def read():
        return count

    def write(value):
        nonlocal count
        count = value

    copy = with_new((read, write))
    new_read, new_write = copy.function
    assert new_read() is NEW and read() is OLD
    assert copy.is_unchanged()
    new_write(3)
    assert new_read() == 3 and read() is OLD
    assert not copy.is_unchanged()


@pytest.mark.parametrize(
    "change",
    [
        lambda f: setattr(f, "calls", f.calls + 1),
        lambda f: setattr(f, "__defaults__", (1,)),
        lambda f: f.items.append(1),
        lambda f: f.named.update(a=2),
        lambda f: f.named.update(b=f.named.pop("a")),
    ],
)
def test_a_change_of_a_copy_is_noticed(change):
    def f(array=OLD):
        return array

    f.calls, f.items, f.named = 0, [OLD], {"a": OLD}
    copy = with_new(f)
    assert copy.is_unchanged()
    change(copy.function)
    assert not copy.is_unchanged()


def test_a_library_function_is_whole():
    assert [*Graph(jax.nn.relu).nodes.values()] == [jax.nn.relu]
    assert [*Graph(optax.adam).nodes.values()] == [optax.adam]
