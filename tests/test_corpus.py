"""Callables and configurations in the style of public training code, and which of them merge.

Each entry makes a new value each time, as a training script does that builds its optimizer in a
function and calls the function again. It merges where a sound rule can give one object for two such
values. Otherwise it names the reason why no sound rule can: somebody may still change one of the
two, or what is in them cannot be compared.

Entries at the end are objects that can change, but are kept in a variable of the module and stay
as they are. These merge.
"""

import argparse
import dataclasses
import enum
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
import jax.tree_util as jtu
import jaxtyping
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

import canonopt

from .support.values import bits

# The text of entries uses these.
_USED = argparse, beartype, flax, jaxtyping, math, operator, nnx
_USED_IN_TYPES = NamedSharding, Array, Float, P

MERGES = "merges"
REASONS = {
    "NEW_CONTAINER": "holds a new list, dict or set each time",
    "NEW_OBJECT": "holds a new object each time, which can be changed",
    "NEW_CLASS": "defines a new class each time",
    "NUMPY_ARRAY": "holds a new NumPy array each time",
    "JAX_ARRAY": "holds a new JAX array each time",
    "REBINDABLE": "captures a variable that can be assigned again",
    "STATE": "changes its own state when it is called",
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One value that people write.

    `use` says where it goes: "mask", "labels", "schedule", "activation", "loss" or "config". A
    config is given to `factory`, a function that makes an optimizer of it. `build` makes a new
    value, with a library of optimizers.
    """

    name: str
    use: str
    build: Callable[[types.ModuleType], Any]
    expected: str
    factory: Callable[[Any], optax.GradientTransformation] | None


def read_entries(text: str) -> dict[str, Entry]:
    """Return the entries of a text: `### use: name, REASON`, and the body of a function."""
    entries = {}
    for part in text.lstrip("\n").removeprefix("### ").split("\n### "):
        head, _, body = part.partition("\n")
        use, name, reason = re.fullmatch(r"(\w+): ([^,]+)(?:, (\w+))?", head).groups()
        found = re.match("# factory: (.*)\n", body)
        function = name.replace(" ", "_")  # in the module, where its code is looked up
        exec(f"def {function}(lib):\n{textwrap.indent(body, '    ')}", globals())
        entries[name] = Entry(
            *(name, use, globals()[function], REASONS[reason] if reason else MERGES),
            factory=eval(found[1]) if found else None,
        )
    return entries


# --- what the values are used on ----------------------------------------------------------------


def nested() -> dict[str, Any]:
    """Return parameters in nested dicts, as Flax has them."""
    layer = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    norm = {"scale": jnp.ones(2), "bias": jnp.ones(2)}
    return {"encoder": {"dense": layer, "norm": norm}, "head": dict(layer)}


def batch() -> tuple[Any, Any, Any]:
    """Return parameters of one dense layer, inputs and integer labels: the arguments of a loss."""
    params = {"kernel": jnp.asarray([[0.5, -1.0], [2.0, 0.25]]), "bias": jnp.asarray([0.0, 1.0])}
    return params, jnp.asarray([[1.0, 2.0], [-1.0, 0.5], [0.0, 3.0]]), jnp.asarray([0, 1, 1])


def vector() -> jax.Array:
    """Return an array whose first axis `pmap` and `shard_map` can split."""
    return jnp.asarray([[-1.0, 0.5, 2.0]])


# --- the user's module --------------------------------------------------------------------------


def by_name(decide: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a mask or label function that asks `decide` about the name of each leaf."""
    return lambda tree: jtu.tree_map_with_path(
        lambda path, _: decide(jtu.keystr(path, simple=True, separator="/")), tree
    )


class Group(enum.Enum):
    HEAD = "fast"
    ENCODER = "slow"


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


class Rates(enum.Enum):
    SLOW = 0.01
    FAST = 0.1


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


def chain_of_dict(cfg):
    return optax.chain(*(getattr(optax, name)(value) for name, value in cfg.items()))


# The globals of a notebook: each run of a cell defines its functions again, in another file.
NOTEBOOK: dict[str, Any] = {"__name__": "notebook", "jax": jax, "jnp": jnp}
_runs = itertools.count()


def run_cell(text: str, name: str) -> Any:
    exec(compile(textwrap.dedent(text), f"<cell {next(_runs)}>", "exec"), NOTEBOOK)
    return NOTEBOOK[name]


KEPT_NAMES = ["bias", "scale"]
KEPT_CONFIG = PlainConfig()
KEPT_TABLE = np.geomspace(1e-1, 1e-3, 8, dtype=np.float32)


ENTRIES = read_entries(
    r'''
### mask: not bias and scale by list, NEW_CONTAINER
excluded = ["bias", "scale"]
return by_name(lambda name: name.split("/")[-1] not in excluded)

### mask: captured pattern
re.purge()
excluded = re.compile(r"(bias|scale)$")
return by_name(lambda name: not excluded.search(name))

### mask: method of a pattern
re.purge()
search = re.compile(r"kernel").search
return by_name(lambda name: search(name) is not None)

### mask: least recently used decision
suffixes = ("kernel",)
@functools.lru_cache(maxsize=128)
def decide(name):
    return name.endswith(suffixes)
return by_name(decide)

### mask: structure captured
structure = jax.tree.structure(nested())
return lambda params: structure.unflatten([leaf.ndim > 1 for leaf in jax.tree.leaves(params)])

### mask: read only view of a dict, NEW_CONTAINER
decided = types.MappingProxyType({"kernel": True, "bias": False, "scale": False})
return by_name(lambda name: decided[name.split("/")[-1]])

### mask: frozen dict of flax
decided = flax.core.freeze({"kernel": True, "bias": False, "scale": False})
return by_name(lambda name: decided[name.split("/")[-1]])

### mask: mask that reads an iterator, STATE
answers = itertools.cycle((True, False))
return lambda params: jax.tree.map(lambda leaf: next(answers), params)

### mask: random mask, STATE
generator = np.random.default_rng(0)
return lambda params: jax.tree.map(lambda leaf: bool(generator.random() < 0.5), params)

### labels: label by captured enum member
group = Group.HEAD
return by_name(lambda name: group.value if "head" in name else "freeze")

### schedule: interpolation of numpy arrays, NUMPY_ARRAY
knots, rates = np.linspace(0, 10, 3), np.linspace(1, 0, 3)
return lambda step: jnp.interp(step, knots, rates)

### schedule: cosine decay of optax, REBINDABLE
return optax.cosine_decay_schedule(0.1, 100)

### schedule: schedule over a namespace, NEW_OBJECT
args = argparse.Namespace(lr=0.1, warmup=2)
return lambda step: args.lr * jnp.minimum(1.0, step / args.warmup)

### schedule: frozen dataclass with a read cached property
cfg = ConfigWithCache()
assert len(cfg.table) == 4
return lambda step: jnp.asarray(cfg.table)[step]

### schedule: captured attrs frozen
cfg = AttrsConfig()
return lambda step: cfg.lr * cfg.betas[0] / (step + 1)

### schedule: class of defaults made in a function, NEW_CLASS
class Defaults:
    lr = 0.1
return lambda step: Defaults.lr / (step + 1)

### schedule: captured module
numbers = math
return lambda step: numbers.pi / (step + 10)

### activation: method caller
return operator.methodcaller("sum", axis=0)

### activation: checkpointed with names
policy = jax.checkpoint_policies.save_only_these_names("a", "b")
return jax.checkpoint(lambda x: jnp.sin(x), policy=policy)

### activation: vectorized by numpy, NEW_OBJECT
return np.vectorize(lambda x: max(float(x), 0.0), otypes=[np.float32])

### activation: single dispatch, NEW_CONTAINER
@functools.singledispatch
def twice(x):
    return 2 * x
twice.register(str, lambda x: x)
return twice

### activation: parallel map
return jax.pmap(lambda x: 2 * x)

### activation: sharded map
spec = P("data")
return jax.shard_map(
    lambda x: x - jax.lax.pmean(x, "data"),
    mesh=one_device_mesh(),
    in_specs=spec,
    out_specs=spec,
)

### activation: mesh and spec captured
mesh, spec = one_device_mesh(), P(None, "data")
return lambda x: x * mesh.shape["data"] + len(spec)

### activation: jaxtyped function
@jaxtyping.jaxtyped(typechecker=beartype.beartype)
def halved(x: Float[Array, "batch n"]) -> Float[Array, "batch n"]:
    return x / 2
return halved

### activation: checked by beartype
factor = 3.0
@beartype.beartype
def scaled(x: jax.Array, times: int = 2) -> jax.Array:
    return factor * times * x
return scaled

### loss: flax model with a lambda
network = Net(features=2, act=lambda x: jnp.tanh(2 * x))
return lambda params, x, y: network.apply({"params": {"out": params}}, x).sum()

### loss: nnx model captured, JAX_ARRAY
layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
return lambda params, x, y: jnp.sum(layer(x) * params["bias"])

### schedule: cell that starts lower
lines = chr(10) * (next(_runs) % 7)
return run_cell(f"{lines}low_rate = lambda step: 0.1 / (step + 3)", "low_rate")

### loss: cell with a function that calls another
text = """
def forward(params, x):
    return x @ params['kernel'] + params['bias']
cell_loss = lambda params, x, y: jnp.mean((forward(params, x)[:, 0] - y) ** 2)
"""
return run_cell(text, "cell_loss")

### config: enum member
# factory: lambda cfg: optax.sgd(cfg.value)
return Rates.SLOW

### config: dictionary of stages
# factory: chain_of_dict
return {"clip": 1.0, "trace": 0.9, "scale": -0.1}

### config: named sharding
# factory: lambda cfg: optax.sgd(0.1 * cfg.mesh.size)
return NamedSharding(one_device_mesh(), P("data"))

### config: dictionary with attributes, NEW_OBJECT
# factory: lambda cfg: optax.sgd(cfg.lr)
return AttributeDict(lr=0.1)

### mask: kept list by name
return by_name(lambda name: name.split("/")[-1] not in KEPT_NAMES)

### schedule: kept plain dataclass
return functools.partial(lambda cfg, step: cfg.lr / (step + 1), KEPT_CONFIG)

### schedule: kept numpy array
table = KEPT_TABLE
return lambda step: jnp.asarray(table)[step]
'''
)

# Entries that a sound rule can merge and canonopt does not, each with the reason.
MISSED: dict[str, str] = {
    "sharded map": "jax.shard_map binds what it captured again, when it is called",
    "cell with a function that calls another": "a function of a module is left as it is",
    "checkpointed with names": "jax.checkpoint_policies captures a new set, as seen on jax 0.12",
    "parallel map": "jax.pmap is written in C++, as seen on jax 0.8.1",
}

TRANSFORMATIONS = ("mask", "labels", "schedule", "config")


def holder(entry: Entry, lib):
    """Return what holds a new value of the entry: an optimizer, or the hoisted function."""
    value = entry.build(lib)
    match entry.use:
        case "mask":
            return lib.masked(lib.sgd(0.1), value)
        case "labels":
            groups = {"train": 0.1, "slow": 0.01, "fast": 1.0}
            optims = {name: lib.sgd(rate) for name, rate in groups.items()}
            return lib.partition(optims | {"freeze": lib.set_to_zero()}, value)
        case "schedule":
            return lib.sgd(value)
        case "config":
            factory = entry.factory if lib is optax else canonopt.canonical(entry.factory)
            return factory(value)
        case "activation" | "loss":
            return value if lib is optax else canonopt.hoist(value)
    raise ValueError(entry.use)


def numbers(entry: Entry, made):
    """The numbers of two steps, or of one call and its gradient."""
    if entry.use not in TRANSFORMATIONS:
        return made(*batch()) if entry.use == "loss" else made(vector())

    params = nested()
    steps, state = [], made.init(params)
    for _ in range(2):  # eagerly: what is compiled for one entry serves the others
        updates, state = made.update(params, state, params)
        steps.append(updates)
    return steps


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in MISSED])
def test_merges_where_a_sound_rule_can(name):
    entry = ENTRIES[name]
    merges = entry.expected == MERGES
    first, second = holder(entry, canonopt), holder(entry, canonopt)
    assert (second is first) == merges
    numbers(entry, first)
    assert (holder(entry, canonopt) is first) == merges, "after it has run"


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.slow
def test_the_numbers_are_those_of_optax(name):
    """Of a first build, of a second one, and of one that is built after the others were traced."""
    entry = ENTRIES[name]
    expected = bits(numbers(entry, holder(entry, optax)))
    first, second = holder(entry, canonopt), holder(entry, canonopt)
    assert bits(numbers(entry, first)) == expected
    assert bits(numbers(entry, second)) == expected
    assert bits(numbers(entry, holder(entry, canonopt))) == expected


def test_each_entry_has_a_reason():
    assert {entry.expected for entry in ENTRIES.values()} == {MERGES, *REASONS.values()}
    possible = {name for name, entry in ENTRIES.items() if entry.expected == MERGES}
    assert MISSED.keys() <= possible
