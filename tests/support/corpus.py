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
from flax import nnx, traverse_util
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

# The text of entries uses these.
_USED = argparse, beartype, flax, jaxtyping, math, operator, nnx, traverse_util
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

    `use` says where it goes: "mask", "labels", "schedule", "predicate", "activation", "loss" or
    "config". A config is given to `factory`, a function that makes an optimizer of it. `build`
    makes a new value, with a library of optimizers.
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


def name_of(path: tuple[Any, ...]) -> str:
    return "/".join(str(getattr(key, "key", getattr(key, "name", key))) for key in path)


def named_map(function: Callable[[str, Any], Any], tree: Any) -> Any:
    return jtu.tree_map_with_path(lambda path, leaf: function(name_of(path), leaf), tree)


def by_name(decide: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a mask or label function that asks `decide` about each name."""
    return lambda tree: named_map(lambda name, leaf: decide(name), tree)


def at_least(ndim, tree):
    return jax.tree.map(lambda leaf: leaf.ndim >= ndim, tree)


def decay_mask(tree):
    return named_map(lambda name, leaf: not name.endswith(("bias", "scale")), tree)


class Group(enum.Enum):
    HEAD = "fast"
    ENCODER = "slow"


@dataclasses.dataclass(frozen=True)
class FrozenConfig:
    lr: float = 0.1
    warmup: int = 2
    rule: Any = None

    def rate(self, step):
        return self.lr * jnp.minimum(1.0, (step + 1) / self.warmup)


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


class Trainer:
    def __init__(self, lr=0.1):
        self.lr = lr

    def rate(self, step):
        return self.lr / (step + 1)

    def __call__(self, step):
        return self.lr / (step + 2)


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
### mask: all but vectors
return lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)

### mask: mask of the module
return decay_mask

### mask: partial of the modules mask
return functools.partial(at_least, 2)

### mask: not bias and scale by tuple
excluded = ("bias", "scale")
return by_name(lambda name: name.split("/")[-1] not in excluded)

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

### mask: path aware map
return lambda params: traverse_util.path_aware_map(
    lambda path, leaf: path[-1] == "kernel", params
)

### mask: function that calls itself
def only_kernels(params):
    return {
        name: only_kernels(value) if isinstance(value, dict) else name == "kernel"
        for name, value in params.items()
    }
return only_kernels

### mask: mask with a keyword default
def starts_with(params, *, prefix="head"):
    return by_name(lambda name: name.startswith(prefix))(params)
return starts_with

### mask: least recently used decision
suffixes = ("kernel",)
@functools.lru_cache(maxsize=128)
def decide(name):
    return name.endswith(suffixes)
return by_name(decide)

### mask: structure captured
structure = jax.tree.structure(nested())
return lambda params: structure.unflatten([leaf.ndim > 1 for leaf in jax.tree.leaves(params)])

### mask: dtype captured
dtype = jnp.dtype("float32")
return lambda params: jax.tree.map(lambda leaf: leaf.dtype == dtype, params)

### mask: read only view of a dict, NEW_CONTAINER
decided = types.MappingProxyType({"kernel": True, "bias": False, "scale": False})
return by_name(lambda name: decided[name.split("/")[-1]])

### mask: frozen dict of flax
decided = flax.core.freeze({"kernel": True, "bias": False, "scale": False})
return by_name(lambda name: decided[name.split("/")[-1]])

### mask: mask made in a loop, REBINDABLE
masks = []
for prefix in ("head", "encoder"):
    masks.append(by_name(lambda name: name.startswith(prefix)))
return masks[0]

### mask: mask that reads an iterator, STATE
answers = itertools.cycle((True, False))
return lambda params: jax.tree.map(lambda leaf: next(answers), params)

### mask: mask that counts its calls, REBINDABLE
calls = 0
def counted(params):
    nonlocal calls
    calls += 1
    return at_least(2, params)
return counted

### mask: mask with an attribute, NEW_OBJECT
def decayed(params):
    return at_least(decayed.ndim, params)
decayed.ndim = 2
return decayed

### mask: random mask, STATE
generator = np.random.default_rng(0)
return lambda params: jax.tree.map(lambda leaf: bool(generator.random() < 0.5), params)

### labels: encoder is frozen
return by_name(lambda name: "freeze" if name.startswith("encoder") else "train")

### labels: label by captured enum member
group = Group.HEAD
return by_name(lambda name: group.value if "head" in name else "freeze")

### labels: labels by one name
return by_name(lambda name: "slow" if "encoder" in name and "bias" in name else "train")

### schedule: interpolation of numpy arrays, NUMPY_ARRAY
knots, rates = np.linspace(0, 10, 3), np.linspace(1, 0, 3)
return lambda step: jnp.interp(step, knots, rates)

### schedule: table of rates on the device, JAX_ARRAY
table = jnp.geomspace(1e-1, 1e-3, 8)
return lambda step: table[step]

### schedule: numpy scalar
base = np.float32(0.1)
return lambda step: base / (step + 1)

### schedule: jitted schedule
return jax.jit(lambda step: 0.1 / (step + 1))

### schedule: spec schedule
return lib.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)

### schedule: cosine decay of optax, REBINDABLE
return optax.cosine_decay_schedule(0.1, 100)

### schedule: schedule over a namespace, NEW_OBJECT
args = argparse.Namespace(lr=0.1, warmup=2)
return lambda step: args.lr * jnp.minimum(1.0, step / args.warmup)

### schedule: rate assigned after the schedule, REBINDABLE
rates = []
base = 0.1
rates.append(lambda step: base / (step + 1))
base = 0.2
return rates[0]

### schedule: captured frozen dataclass
cfg = FrozenConfig()
return lambda step: cfg.lr * jnp.minimum(1.0, step / cfg.warmup)

### schedule: frozen dataclass with a read cached property
cfg = ConfigWithCache()
assert len(cfg.table) == 4
return lambda step: jnp.asarray(cfg.table)[step]

### schedule: frozen dataclass that holds a list, NEW_CONTAINER
cfg = FrozenConfig(rule=[0.1, 0.01])
return lambda step: cfg.rule[0] / (step + 1)

### schedule: captured plain dataclass, NEW_OBJECT
cfg = PlainConfig()
return lambda step: cfg.lr / (step + 1)

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

### schedule: method of a frozen dataclass
return FrozenConfig().rate

### schedule: method of a plain object, NEW_OBJECT
return Trainer().rate

### schedule: object that can be called, NEW_OBJECT
return Trainer()

### predicate: after a number of steps
start = 1
return lambda step: step >= start

### activation: item getter
return operator.itemgetter(0)

### activation: method caller
return operator.methodcaller("sum", axis=0)

### activation: partial gelu
return functools.partial(jax.nn.gelu, approximate=False)

### activation: list of activations, NEW_CONTAINER
functions = [jnp.tanh, jax.nn.relu]
return lambda x: functools.reduce(lambda value, f: f(value), functions, x)

### activation: custom vjp
scale = 0.5
@jax.custom_vjp
def scaled_gradient(x):
    return x
scaled_gradient.defvjp(lambda x: (x, None), lambda _, g: (scale * g,))
return scaled_gradient

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

### activation: captured random key, JAX_ARRAY
key = jax.random.key(0)
return lambda x: x + jax.random.normal(key, x.shape)

### loss: flax model with a lambda
network = Net(features=2, act=lambda x: jnp.tanh(2 * x))
return lambda params, x, y: network.apply({"params": {"out": params}}, x).sum()

### loss: nnx model captured, JAX_ARRAY
layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
return lambda params, x, y: jnp.sum(layer(x) * params["bias"])

### mask: cell with a mask
text = "cell_mask = lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)"
return run_cell(text, "cell_mask")

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

### schedule: cell with a class, NEW_CLASS
text = """
class Rate:
    base = 0.1
    __call__ = lambda self, step: self.base / (step + 1)
"""
return run_cell(text, "Rate")()

### config: frozen dataclass
# factory: lambda cfg: optax.sgd(cfg.lr)
return FrozenConfig()

### config: enum member
# factory: lambda cfg: optax.sgd(cfg.value)
return Rates.SLOW

### config: dictionary of stages
# factory: chain_of_dict
return {"clip": 1.0, "trace": 0.9, "scale": -0.1}

### config: pattern
# factory: lambda cfg: optax.sgd(0.1 if cfg.match("encoder/kernel") else 0.2)
re.purge()
return re.compile(r"encoder/.*", re.IGNORECASE)

### config: function of the factory
# factory: lambda cfg: optax.sgd(cfg(3))
return lambda n: n / 10

### config: dtype
# factory: lambda cfg: optax.sgd(0.1, accumulator_dtype=cfg)
return np.dtype("float32")

### config: named sharding
# factory: lambda cfg: optax.sgd(0.1 * cfg.mesh.size)
return NamedSharding(one_device_mesh(), P("data"))

### config: plain dataclass, NEW_OBJECT
# factory: lambda cfg: optax.sgd(cfg.lr)
return PlainConfig()

### config: parsed arguments, NEW_OBJECT
# factory: lambda cfg: optax.sgd(cfg.lr)
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
return parser.parse_args([])

### config: dictionary with attributes, NEW_OBJECT
# factory: lambda cfg: optax.sgd(cfg.lr)
return AttributeDict(lr=0.1)

### config: class made in a function, NEW_CLASS
# factory: lambda cfg: optax.sgd(cfg.lr)
class Config:
    lr = 0.1
return Config

### mask: kept list by name
return by_name(lambda name: name.split("/")[-1] not in KEPT_NAMES)

### schedule: kept plain dataclass
return functools.partial(lambda cfg, step: cfg.lr / (step + 1), KEPT_CONFIG)

### schedule: kept numpy array
table = KEPT_TABLE
return lambda step: jnp.asarray(table)[step]

'''
)
