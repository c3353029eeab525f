"""Run in each of two processes: compare the values that both build, and write the errors."""

import functools
import logging
import re
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from . import catalogue
from .processes import join, write_result

NAMES = {"kernel", "scale", "bias", "weight", "embedding"}


def is_matrix(params):
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def is_named(params):
    return jax.tree.map(lambda _: bool(NAMES & {"bias", "kernel"}), params)


def halving(steps):
    return lambda count: 0.1 * 0.5 ** (count // steps)


class Scale:
    __slots__ = "rate"

    def __init__(self, rate):
        self.rate = rate


class Lazy:
    def __init__(self, **more):
        vars(self).update(more)

    @functools.cached_property
    def value(self):
        return 1


def in_its_own_set(item):
    item.all = {item}
    return item


class Base:
    def __call__(self):
        return 0


def with_method(x):
    class WithMethod(Base):
        def __call__(self):
            return x

    return WithMethod()


def with_names(names):
    """Reduce the global `NAMES` to `names` in this process, and return a function that reads it."""
    NAMES.intersection_update(names)
    return lambda params: jax.tree.map(lambda _: bool(NAMES), params)


class Model(eqx.Module):
    layer: eqx.nn.Linear
    activation: str = eqx.field(static=True)

    def __init__(self, width, activation="relu"):
        self.layer = eqx.nn.Linear(2, width, key=jax.random.key(0))
        self.activation = activation


@canonopt.canonical
def clipped(rate, limit=1.0):
    return canonopt.chain(canonopt.clip(limit), canonopt.sgd(rate))


def on_mesh(spec):
    return NamedSharding(Mesh(np.array(jax.devices()), ("data",)), spec)


def array(value, spec):
    """Return an array of which each process has a half, or the whole, as `spec` says."""
    return jax.make_array_from_process_local_data(on_mesh(spec), np.full(2, value, np.float32))


def cases(process):
    """Yield the values that this process compares, by name. Some differ between the processes."""
    other = process == 1
    # Equal in both processes.
    yield "spec", canonopt.adamw(halving(10), mask=is_named)
    yield "catalogue", [catalogue.build(name, canonopt) for name in catalogue.ALL]
    yield "catalogue of Optax", [catalogue.build(name, optax) for name in catalogue.ALL]
    yield "sets", functools.partial(is_matrix, NAMES, frozenset(NAMES))
    yield "dynamic", canonopt.adam(canonopt.dynamic(1e-3))
    yield "model", Model(3)
    yield "several", (clipped(0.1), Model(3), object(), jax.nn.relu, jnp.float32, slice(2))
    yield "halves", array(process, P("data"))
    yield "state of libraries", (logging.getLogger(str(process)), np.random.default_rng(process))
    yield "around itself", (items := [1], items.append(items))
    yield "around itself in a set", in_its_own_set(Lazy())
    yield "on demand", (made := Lazy(), made.value if other else 1)
    yield "methods", with_method(1)
    # Different in the two processes.
    yield "rate", canonopt.adamw(2e-3 if other else 1e-3)
    yield "dynamic rate", canonopt.adamw(canonopt.dynamic(2e-3 if other else 1e-3))
    yield "mask", canonopt.chain(canonopt.adamw(1e-3, mask=None if other else is_matrix))
    yield "another mask", canonopt.adamw(1e-3, mask=is_named if other else is_matrix)
    yield "closure", canonopt.sgd(halving(20 if other else 10))
    yield "body", canonopt.sgd((lambda count: 0.2) if other else (lambda count: 0.1))
    yield "factory", canonopt.sgd(1e-3) if other else canonopt.adam(1e-3)
    yield "static", (canonopt.sgd(0.1), Model(3, "gelu" if other else "relu"))
    yield "weight", eqx.tree_at(lambda m: m.layer.bias, Model(3), jnp.ones(3) * other)
    yield "replicated", array(process, P())
    yield "plain", (re.compile("b" if other else "a"),)
    yield "dtype of NumPy", np.float64(1) if other else np.float32(1)
    yield "dtype", {"w": jnp.ones(2, jnp.bfloat16 if other else jnp.float32)}
    sharding = on_mesh(P("data") if other else P())
    yield "sharding", {"w": jax.ShapeDtypeStruct((8,), jnp.float32, sharding=sharding)}
    yield "longer", [1, 2, 3] if other else [1, 2]
    yield "added", Lazy(one=1, **{"two": 2} if other else {})
    yield "number", 1 if other else 1.0
    yield "long", "a" * (1001 if other else 1000)
    yield "slots", Scale(2.0 if other else 1.0)
    yield "another method", with_method(process)
    yield "global", with_names({"bias"} if other else set(NAMES))


def error_of(value, **options):
    try:
        canonopt.assert_same_across_processes(value, **options)
    except canonopt.CanonoptError as error:
        return [type(error).__name__, str(error), error.path, error.before, error.after]
    return None


def main():
    process = join(devices=1)
    found = {name: error_of(value) for name, value in cases(process)}
    if process == 1:
        time.sleep(1.5)
    found["late"] = error_of(1, timeout=0.5)
    found["after that"] = error_of(1)
    write_result(found)


if __name__ == "__main__":
    main()
