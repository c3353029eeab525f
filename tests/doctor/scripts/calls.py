"""Jitted functions called in each way that there is, and at the end the true counts as JSON."""

import collections
import functools
import json
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

import canonopt

X = jnp.ones(3)
TRUE = collections.Counter()


def call(name, function, *args):
    TRUE[name] += 1
    return function(*args)


# --- what jits ----------------------------------------------------------------------------------


@jax.jit
def plain(x):
    return 2 * inner(x)  # no call of a user's: it is run by the trace


@jax.jit
def inner(x):
    return x + 1


class Model(eqx.Module):
    weight: jax.Array

    @eqx.filter_jit
    def method(self, x):
        return self.weight * x

    @eqx.filter_jit
    def __call__(self, x):
        return self.weight - x


class Unjitted(eqx.Module):
    weight: jax.Array

    def __call__(self, x):
        return self.weight / x


@eqx.filter_jit
def filtered(x):
    return 3 * x


@nnx.jit
def flaxed(x):
    return 5 * x


@jax.pmap
def mapped(x):
    return 6 * x


@canonopt.assert_max_traces
@jax.jit
def asserted(x):
    return 7 * x


@jax.jit
@jax.jit
def twice(x):
    return 8 * x


@jax.jit
def with_callback(x):  # which JAX keeps no fast path for
    jax.debug.callback(lambda _: None, x)
    return x


@jax.jit
def total(x):
    return jnp.sum(x**2)


@jax.jit
def logarithm(x):
    return jnp.log(x)


@jax.jit
def failing(x):
    raise ValueError


# --- who calls ----------------------------------------------------------------------------------

module, partial = eqx.filter_jit(Unjitted(X)), functools.partial(plain)
for _ in range(10):
    call("plain", plain, X)
    call("plain", partial, X)
    call("method", Model(X).method, X)
    call("__call__", Model(X), X)
    call("Unjitted", module, X)
    call("filtered", filtered, X)
    call("flaxed", flaxed, X)
    call("mapped", mapped, X[None])
    call("asserted", asserted, X)
    call("twice", twice, X)
    call("with_callback", with_callback, X)

for function in [filtered, len, Model(X)] * 10:  # from one place
    function(X)
TRUE.update({"filtered": 10, "__call__": 10})

list(map(plain, [X] * 10))
functools.reduce(lambda x, function: function(x), [plain, jnp.sin] * 10, X)
TRUE["plain"] += 20

with ThreadPoolExecutor(4) as pool:
    list(pool.map(twice, [X] * 1000))
TRUE["twice"] += 1000

for _ in range(5):
    call("total", jax.grad(total), X)
    call("total", jax.vmap(total), X[None])
    with jax.debug_nans(True):
        call("logarithm", logarithm, X)
    call("logarithm", logarithm, X)
    for function, x in ((logarithm, -X), (failing, X)):
        try:
            with jax.debug_nans(True):
                call(function.__name__, function, x)
        except (FloatingPointError, ValueError):
            pass
jax.config.update("jax_debug_nans", True)
call("logarithm", logarithm, X)
jax.config.update("jax_debug_nans", False)
call("logarithm", logarithm, X)

plain.lower(X).compile()  # neither is a call
jax.eval_shape(plain, X)
jax.clear_caches()
call("plain", plain, X)

print(json.dumps({"inner": 0, **TRUE}))
