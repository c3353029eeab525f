"""Jitted functions called in each way that there is, a hundred times or so, from several places."""

import functools
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

import canonopt

X = jnp.ones(3)


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


class Proxy:
    """Is looked at by nobody."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __call__(self):
        return Model(X).method(X)


def loop():
    for _ in range(50):
        plain(X), filtered(X), flaxed(X), mapped(X[None]), asserted(X), Proxy()()


plain(X)
partial = functools.partial(plain)
for _ in range(5):
    partial(X)
loop()
thread = threading.Thread(target=loop)
thread.start()
thread.join()
