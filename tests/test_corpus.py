"""Callables and configurations in the style of public training code, and which of them merge.

Each entry makes a new value each time, as a training script does that builds its optimizer in a
function and calls the function again. It merges where a sound rule can give one object for two such
values. Otherwise it names the reason why no sound rule can: somebody may still change one of the
two, or what is in them cannot be compared. At the end are objects that can change, but are kept in
a variable of the module and stay as they are.
"""

import argparse
import dataclasses
import functools
import itertools
import math
import operator
import re
import textwrap
import types
from collections.abc import Callable
from typing import Any

import attrs
import beartype
import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

import canonopt

from .support.generated import defined, named_texts
from .support.values import bits

# The text of entries uses these.
_USED = argparse, beartype, flax, functools, jaxtyping, math, operator, re, types, nnx, optax
_USED_IN_TYPES = Array, Float, P

# --- the user's module --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ConfigWithCache:
    lr: float = 0.1

    @functools.cached_property
    def table(self):
        return tuple(self.lr / n for n in range(1, 5))


@dataclasses.dataclass
class PlainConfig:
    lr: float = 0.1


@attrs.frozen
class AttrsConfig:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


class AttributeDict(dict):
    """A dict whose items are attributes too, as in `ml_collections` and `omegaconf`."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Net(nn.Module):
    features: int
    act: Callable = nn.relu

    @nn.compact
    def __call__(self, x):
        return self.act(nn.Dense(self.features, name="out")(x))


def one_device_mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])


# The globals of a notebook: each run of a cell defines its functions again, in another file.
NOTEBOOK: dict[str, Any] = {"__name__": "notebook", "jax": jax, "jnp": jnp}
_runs = itertools.count()


def run_cell(text: str, name: str) -> Any:
    exec(compile(textwrap.dedent(text), f"<cell {next(_runs)}>", "exec"), NOTEBOOK)
    return NOTEBOOK[name]


KEPT_NAMES, KEPT_CONFIG = ["bias", "scale"], PlainConfig()
KEPT_TABLE = np.geomspace(1e-1, 1e-3, 8, dtype=np.float32)

# Each below its name, and below the reason why no sound rule can merge it, or why canonopt misses
# that: the body of a function that makes a function of an array.
TEXT = r'''
### method of a pattern
re.purge()
search = re.compile(r"kernel").search
return lambda x: x * (search("kernel") is not None)
### read only view of a dict, a new container each time
decided = types.MappingProxyType({"kernel": True, "bias": False})
return lambda x: x * decided["kernel"]
### frozen dict of flax
decided = flax.core.freeze({"kernel": True, "bias": False})
return lambda x: x * decided["kernel"]
### frozen dataclass with a read cached property
cfg = ConfigWithCache()
assert len(cfg.table) == 4
return lambda x: jnp.asarray(cfg.table)[0] * x
### attrs frozen
cfg = AttrsConfig()
return lambda x: cfg.lr * cfg.betas[0] * x
### class made in a function, a new class each time
class Defaults:
    lr = 0.1
return lambda x: Defaults.lr * x
### method caller
return operator.methodcaller("sum", axis=0)
### ufunc of a function, a new object each time, which can be changed
twice = np.frompyfunc(lambda number: 2 * number, 1, 1)
return lambda x: twice(np.asarray(x)).astype(np.float32)
### single dispatch, a new container each time
@functools.singledispatch
def twice(x): return 2 * x
twice.register(str, lambda x: x)
return twice
### parallel map, missed: on jax 0.8.1 jax.pmap is written in C++
return jax.pmap(lambda x: 2 * x)
### sharded map, missed: jax.shard_map binds what it captured again when it is called
spec = P("data")
return jax.shard_map(
    lambda x: x - jax.lax.pmean(x, "data"),
    mesh=one_device_mesh(),
    in_specs=spec,
    out_specs=spec,
)
### mesh and spec
mesh, spec = one_device_mesh(), P(None, "data")
return lambda x: x * mesh.shape["data"] + len(spec)
### jaxtyped function
@jaxtyping.jaxtyped(typechecker=beartype.beartype)
def halved(x: Float[Array, "batch n"]) -> Float[Array, "batch n"]: return x / 2
return halved
### checked by beartype
factor = 3.0
@beartype.beartype
def scaled(x: jax.Array, times: int = 2) -> jax.Array: return factor * times * x
return scaled
### flax model with a lambda
network = Net(features=3, act=lambda x: jnp.tanh(2 * x))
return lambda x: network.apply(
    {"params": {"out": {"kernel": jnp.eye(3), "bias": jnp.ones(3)}}}, x
)
### nnx model, a new JAX array each time
layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
return lambda x: jnp.sum(layer(x))
### cell with a function that calls another, missed: a function of a module is left as it is
text = """
def forward(x): return 2 * x
cell_loss = lambda x: jnp.mean(forward(x) ** 2)
"""
return run_cell(text, "cell_loss")
### kept list
return lambda x: x * ("bias" in KEPT_NAMES)
### kept plain dataclass
return functools.partial(lambda cfg, x: cfg.lr * x, KEPT_CONFIG)
### kept numpy array
table = KEPT_TABLE
return lambda x: jnp.asarray(table)[:3] * x
'''


ENTRIES = named_texts(TEXT)


@pytest.mark.parametrize("name", ENTRIES)
def test_merges_where_a_sound_rule_can_and_has_the_same_numbers(name):
    reason, body = ENTRIES[name]
    make = defined(name.replace(" ", "_"), body, globals())  # where its code is looked up
    x = jnp.asarray([[-1.0, 0.5, 2.0]])  # whose first axis `pmap` and `shard_map` can split
    expected = bits(jnp.asarray(make()(x)))
    first, second = canonopt.hoist(make()), canonopt.hoist(make())
    for function in (first, second, canonopt.hoist(make())):
        assert bits(jnp.asarray(function(x))) == expected
    if not reason.startswith("missed"):
        assert (second is first) == (canonopt.hoist(make()) is first) == (not reason)


def chain_of_dict(cfg):
    return optax.chain(*(getattr(optax, name)(value) for name, value in cfg.items()))


def cell_that_starts_lower():
    lines = "\n" * (next(_runs) % 7)
    return run_cell(f"{lines}low_rate = lambda step: 0.1 / (step + 3)", "low_rate")


CONFIGS = {
    "function of a cell": (optax.sgd, cell_that_starts_lower, True),
    "dict": (chain_of_dict, lambda: {"clip": 1.0, "trace": 0.9, "scale": -0.1}, True),
    "dict with attributes": (lambda cfg: optax.sgd(cfg.lr), lambda: AttributeDict(lr=0.1), False),
}


@pytest.mark.parametrize(("factory", "make", "merges"), CONFIGS.values(), ids=CONFIGS)
def test_a_configuration_is_built_once_and_has_the_same_numbers(factory, make, merges):
    ours, theirs = canonopt.canonical(factory)(make()), factory(make())
    assert (canonopt.canonical(factory)(make()) is ours) == merges
    x = jnp.asarray([-1.0, 0.5, 2.0])
    assert bits(ours.update(x, ours.init(x))) == bits(theirs.update(x, theirs.init(x)))
