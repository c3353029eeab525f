"""Callables and configurations in the style of public training code, and which of them merge.

Each entry makes a new value each time, as a training script does that builds its optimizer in a
function and calls the function again. `expected` is `MERGES` where a sound rule can give one object
for two such values, and otherwise the reason why no sound rule can: somebody may still change one
of the two, or what is in them cannot be compared.

Entries at the end are objects that can change, but are kept in a variable of the module and stay
as they are. These merge.
"""

import argparse
import collections
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import attrs
import beartype
import equinox as eqx
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

MERGES = "merges"
NEW_CONTAINER = "holds a new list, dict or set each time"
NEW_OBJECT = "holds a new object each time, which can be changed"
NEW_CLASS = "defines a new class each time"
NUMPY_ARRAY = "holds a new NumPy array each time"
JAX_ARRAY = "holds a new JAX array each time"
REBINDABLE = "captures a variable that can be assigned again"
STATE = "changes its own state when it is called"
REASONS = (NEW_CONTAINER, NEW_OBJECT, NEW_CLASS, NUMPY_ARRAY, JAX_ARRAY, REBINDABLE, STATE)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One value that people write.

    `use` says where it goes: "mask", "labels", "schedule", "predicate", "activation", "loss" or
    "config". A config is given to `factory`, a function that makes an optimizer of it.
    """

    name: str
    use: str
    make: Callable[..., Any]
    expected: str = MERGES
    factory: Callable[[Any], optax.GradientTransformation] | None = None
    # The parameters that a mask or a label function is for: "nested" dicts, or a "model".
    tree: str = "nested"

    def build(self, lib: types.ModuleType) -> Any:
        """A new value. Entries that use a library of optimizers are given `lib`."""
        takes_lib = "lib" in inspect.signature(self.make).parameters
        return self.make(lib) if takes_lib else self.make()


ENTRIES: dict[str, Entry] = {}


def _registers(use: str) -> Callable[..., Any]:
    def register(make: Any = None, *, expected: str = MERGES, **options: Any) -> Any:
        if make is None:
            return functools.partial(register, expected=expected, **options)
        name = make.__name__.replace("_", " ")
        if name in ENTRIES:
            raise ValueError(f"two entries are called {name!r}")
        ENTRIES[name] = Entry(name, use, make, expected, **options)
        return make

    return register


mask = _registers("mask")
labels = _registers("labels")
schedule = _registers("schedule")
predicate = _registers("predicate")
activation = _registers("activation")
loss = _registers("loss")
config = _registers("config")


# --- what the values are used on ----------------------------------------------------------------


def nested() -> dict[str, Any]:
    """Parameters in nested dicts, as Flax has them."""
    layer = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    norm = {"scale": jnp.ones(2), "bias": jnp.ones(2)}
    return {"encoder": {"dense": layer, "norm": norm}, "head": dict(layer)}


def model() -> eqx.Module:
    """The arrays of an Equinox model."""
    return eqx.filter(eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0)), eqx.is_array)


TREES: dict[str, Callable[[], Any]] = {"nested": nested, "model": model}


def batch() -> tuple[Any, Any, Any]:
    """Parameters of one dense layer, inputs and integer labels: the arguments of a loss."""
    params = {"kernel": jnp.asarray([[0.5, -1.0], [2.0, 0.25]]), "bias": jnp.asarray([0.0, 1.0])}
    return params, jnp.asarray([[1.0, 2.0], [-1.0, 0.5], [0.0, 3.0]]), jnp.asarray([0, 1, 1])


def vector() -> jax.Array:
    """The argument of an activation: a first axis that `pmap` and `shard_map` can split."""
    return jnp.asarray([[-1.0, 0.5, 2.0]])


# --- helpers that a module of the user's has ----------------------------------------------------

WEIGHT_DECAY_EXCLUDED = ("bias", "scale")
FROZEN_PREFIX = "encoder"
PEAK = 0.3


def name_of(path: tuple[Any, ...]) -> str:
    return "/".join(str(getattr(key, "key", getattr(key, "name", key))) for key in path)


def named_map(function: Callable[[str, Any], Any], tree: Any) -> Any:
    return jtu.tree_map_with_path(lambda path, leaf: function(name_of(path), leaf), tree)


def by_name(decide: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A mask or label function that asks `decide` about each name."""
    return lambda tree: named_map(lambda name, leaf: decide(name), tree)


def at_least(ndim, tree):
    return jax.tree.map(lambda leaf: leaf.ndim >= ndim, tree)


def decay_mask(tree):
    return named_map(lambda name, leaf: not name.endswith(WEIGHT_DECAY_EXCLUDED), tree)


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


# --- masks --------------------------------------------------------------------------------------


@mask
def all_but_vectors():
    return lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)


@mask
def mask_of_the_module():
    return decay_mask


@mask
def at_least_captured_ndim():
    ndim = 2
    return lambda params: jax.tree.map(lambda leaf: leaf.ndim >= ndim, params)


@mask
def partial_of_the_modules_mask():
    return functools.partial(at_least, 2)


@mask
def not_bias_and_scale_by_tuple():
    excluded = ("bias", "scale")
    return by_name(lambda name: name.split("/")[-1] not in excluded)


@mask
def not_bias_and_scale_by_frozenset():
    excluded = frozenset({"bias", "scale"})
    return by_name(lambda name: name.split("/")[-1] not in excluded)


@mask(expected=NEW_CONTAINER)
def not_bias_and_scale_by_list():
    excluded = ["bias", "scale"]
    return by_name(lambda name: name.split("/")[-1] not in excluded)


@mask
def captured_pattern():
    re.purge()
    excluded = re.compile(r"(bias|scale)$")
    return by_name(lambda name: not excluded.search(name))


@mask
def method_of_a_pattern():
    re.purge()
    search = re.compile(r"kernel").search
    return by_name(lambda name: search(name) is not None)


@mask
def method_of_a_frozenset():
    return by_name(frozenset({"head/kernel"}).__contains__)


@mask
def path_aware_map():
    return lambda params: traverse_util.path_aware_map(
        lambda path, leaf: path[-1] == "kernel", params
    )


@mask
def function_that_calls_itself():
    def only_kernels(params):
        return {
            name: only_kernels(value) if isinstance(value, dict) else name == "kernel"
            for name, value in params.items()
        }

    return only_kernels


@mask
def mask_with_a_keyword_default():
    def starts_with(params, *, prefix="head"):
        return by_name(lambda name: name.startswith(prefix))(params)

    return starts_with


@mask
def global_string():
    return by_name(lambda name: not name.startswith(FROZEN_PREFIX))


@mask
def parts_in_a_slice():
    last_two = slice(-2, None)
    return by_name(lambda name: "norm" not in name.split("/")[last_two])


@mask
def least_recently_used_decision():
    suffixes = ("kernel",)

    @functools.lru_cache(maxsize=128)
    def decide(name):
        return name.endswith(suffixes)

    return by_name(decide)


@mask
def wrapped_mask():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    return logged(lambda params: at_least(2, params))


@mask
def structure_captured():
    structure = jax.tree.structure(nested())
    return lambda params: structure.unflatten([leaf.ndim > 1 for leaf in jax.tree.leaves(params)])


@mask
def dtype_captured():
    dtype = jnp.dtype("float32")
    return lambda params: jax.tree.map(lambda leaf: leaf.dtype == dtype, params)


@mask(expected=NEW_CONTAINER)
def read_only_view_of_a_dict():
    decided = types.MappingProxyType({"kernel": True, "bias": False, "scale": False})
    return by_name(lambda name: decided[name.split("/")[-1]])


@mask
def frozen_dict_of_flax():
    decided = flax.core.freeze({"kernel": True, "bias": False, "scale": False})
    return by_name(lambda name: decided[name.split("/")[-1]])


@mask(expected=REBINDABLE)
def mask_made_in_a_loop():
    masks = []
    for prefix in ("head", "encoder"):
        masks.append(by_name(lambda name: name.startswith(prefix)))  # noqa: B023
    return masks[0]


@mask
def mask_made_in_a_loop_with_a_default():
    masks = []
    for prefix in ("head", "encoder"):
        masks.append(by_name(lambda name, prefix=prefix: name.startswith(prefix)))
    return masks[0]


@mask(expected=STATE)
def mask_that_reads_an_iterator():
    answers = itertools.cycle((True, False))
    return lambda params: jax.tree.map(lambda leaf: next(answers), params)


@mask(expected=REBINDABLE)
def mask_that_counts_its_calls():
    calls = 0

    def counted(params):
        nonlocal calls
        calls += 1
        return at_least(2, params)

    return counted


@mask(expected=NEW_OBJECT)
def mask_with_an_attribute():
    def decayed(params):
        return at_least(decayed.ndim, params)

    decayed.ndim = 2
    return decayed


@mask(expected=STATE)
def random_mask():
    generator = np.random.default_rng(0)
    return lambda params: jax.tree.map(lambda leaf: bool(generator.random() < 0.5), params)


@mask
def random_mask_with_a_fixed_seed():
    seed = 0

    def some(params):
        generator = np.random.default_rng(seed)
        return jax.tree.map(lambda leaf: bool(generator.random() < 0.5), params)

    return some


# --- label functions ----------------------------------------------------------------------------


@labels
def encoder_is_frozen():
    return by_name(lambda name: "freeze" if name.startswith("encoder") else "train")


@labels
def label_by_first_matching_rule():
    rules = ((r"^head", "fast"), (r"norm", "freeze"), (r".*", "slow"))

    def first(name):
        return next(label for pattern, label in rules if re.search(pattern, name))

    return by_name(first)


class Group(enum.Enum):
    HEAD = "fast"
    ENCODER = "slow"


@labels
def label_by_captured_enum_member():
    group = Group.HEAD
    return by_name(lambda name: group.value if "head" in name else "freeze")


@labels(tree="model")
def labels_of_a_model():
    return by_name(lambda name: "slow" if "layers" in name and "bias" in name else "train")


# --- schedules ----------------------------------------------------------------------------------


@schedule
def captured_constant():
    rate = 0.1
    return lambda _: rate


@schedule
def piecewise_by_where():
    boundaries, rates = (1, 5), (0.1, 0.05, 0.01)

    def rate(step):
        value = jnp.asarray(rates[0])
        for boundary, following in zip(boundaries, rates[1:], strict=True):
            value = jnp.where(step >= boundary, following, value)
        return value

    return rate


@schedule(expected=NUMPY_ARRAY)
def interpolation_of_numpy_arrays():
    knots, rates = np.linspace(0, 10, 3), np.linspace(1, 0, 3)
    return lambda step: jnp.interp(step, knots, rates)


@schedule(expected=JAX_ARRAY)
def table_of_rates_on_the_device():
    table = jnp.geomspace(1e-1, 1e-3, 8)
    return lambda step: table[step]


@schedule
def numpy_scalar():
    base = np.float32(0.1)
    return lambda step: base / (step + 1)


@schedule
def global_peak():
    return lambda step: PEAK / (step + 1)


@schedule
def jitted_schedule():
    return jax.jit(lambda step: 0.1 / (step + 1))


@schedule
def spec_schedule(lib):
    return lib.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)


@schedule(expected=REBINDABLE)
def cosine_decay_of_optax():
    return optax.cosine_decay_schedule(0.1, 100)


@schedule(expected=NEW_OBJECT)
def schedule_over_a_namespace():
    args = argparse.Namespace(lr=0.1, warmup=2)
    return lambda step: args.lr * jnp.minimum(1.0, step / args.warmup)


@schedule(expected=REBINDABLE)
def rate_assigned_after_the_schedule():
    rates = []
    base = 0.1
    rates.append(lambda step: base / (step + 1))
    base = 0.2
    return rates[0]


# --- configurations that functions capture -------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FrozenConfig:
    lr: float = 0.1
    warmup: int = 2
    betas: tuple[float, float] = (0.9, 0.99)

    def rate(self, step):
        return self.lr * jnp.minimum(1.0, (step + 1) / self.warmup)

    @property
    def half(self):
        return self.lr / 2

    @classmethod
    def inverse(cls, step):
        return cls().lr / (step + 1)

    @staticmethod
    def slow(step):
        return 0.01 / (step + 1)


@dataclasses.dataclass(frozen=True)
class OuterConfig:
    optimizer: FrozenConfig = dataclasses.field(default_factory=FrozenConfig)
    name: str = "base"
    rule: Any = None


@dataclasses.dataclass(frozen=True)
class ConfigWithCache:
    lr: float = 0.1

    @functools.cached_property
    def table(self):
        return tuple(self.lr / n for n in range(1, 5))


@dataclasses.dataclass
class PlainConfig:
    lr: float = 0.1
    warmup: int = 2

    def rate(self, step):
        return self.lr / (step + 1)


@attrs.frozen
class AttrsConfig:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)

    def rate(self, step):
        return self.lr / (step + 1)


class TupleConfig(typing.NamedTuple):
    lr: float = 0.1
    warmup: int = 2

    def rate(self, step):
        return self.lr * jnp.minimum(1.0, (step + 1) / self.warmup)


class Rates(enum.Enum):
    SLOW = 0.01
    FAST = 0.1

    def rate(self, step):
        return self.value / (step + 1)


class ModuleConfig(eqx.Module):
    lr: float = 0.1
    name: str = eqx.field(static=True, default="base")

    def rate(self, step):
        return self.lr / (step + 1)


class Trainer:
    def __init__(self, lr=0.1):
        self.lr = lr

    def rate(self, step):
        return self.lr / (step + 1)

    def mask(self, params):
        return jax.tree.map(lambda leaf: leaf.ndim * self.lr > 0.1, params)

    def optimizer(self):
        return lambda step: self.lr / (step + 1)

    def __call__(self, step):
        return self.lr / (step + 2)


@schedule
def captured_frozen_dataclass():
    cfg = FrozenConfig()
    return lambda step: cfg.lr * jnp.minimum(1.0, step / cfg.warmup)


@schedule
def frozen_dataclass_with_a_read_cached_property():
    cfg = ConfigWithCache()
    assert len(cfg.table) == 4
    return lambda step: jnp.asarray(cfg.table)[step]


@schedule(expected=NEW_CONTAINER)
def frozen_dataclass_that_holds_a_list():
    cfg = OuterConfig(rule=[0.1, 0.01])
    return lambda step: cfg.rule[0] / (step + 1)


@schedule(expected=NEW_OBJECT)
def captured_plain_dataclass():
    cfg = PlainConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def captured_attrs_frozen():
    cfg = AttrsConfig()
    return lambda step: cfg.lr * cfg.betas[0] / (step + 1)


@schedule
def captured_named_tuple():
    cfg = TupleConfig()
    return lambda step: cfg.lr * jnp.minimum(1.0, step / cfg.warmup)


@schedule
def captured_equinox_module():
    cfg = ModuleConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule(expected=NEW_CLASS)
def class_of_defaults_made_in_a_function():
    class Defaults:
        lr = 0.1

    return lambda step: Defaults.lr / (step + 1)


@schedule(expected=NEW_OBJECT)
def lambda_over_self():
    return Trainer().optimizer()


@schedule
def captured_module():
    numbers = math
    return lambda step: numbers.pi / (step + 10)


# --- methods and objects that can be called ------------------------------------------------------


@schedule
def method_of_a_frozen_dataclass():
    return FrozenConfig().rate


@schedule(expected=NEW_OBJECT)
def method_of_a_plain_object():
    return Trainer().rate


@schedule(expected=NEW_OBJECT)
def object_that_can_be_called():
    return Trainer()


class ModuleRateOf(eqx.Module):
    base: float
    inner: Callable

    def __call__(self, step):
        return self.base * self.inner(step)


@schedule
def equinox_module_that_can_be_called():
    return ModuleRateOf(0.1, lambda step: 1 / (step + 1))


# --- predicates ---------------------------------------------------------------------------------


@predicate
def after_a_number_of_steps():
    start = 1
    return lambda step: step >= start


# --- activations --------------------------------------------------------------------------------


@activation
def squared_relu():
    return lambda x: jnp.square(jax.nn.relu(x))


@activation
def partial_gelu():
    return functools.partial(jax.nn.gelu, approximate=False)


@activation
def relu_of_jax():
    return jax.nn.relu


@activation
def activation_by_getattr():
    activation = jax.nn.silu
    return lambda x: 0.5 * activation(x)


@activation
def composed_activations():
    functions = (jnp.tanh, jax.nn.relu)
    return lambda x: functools.reduce(lambda value, f: f(value), functions, x)


@activation(expected=NEW_CONTAINER)
def list_of_activations():
    functions = [jnp.tanh, jax.nn.relu]
    return lambda x: functools.reduce(lambda value, f: f(value), functions, x)


@activation
def custom_jvp():
    @jax.custom_jvp
    def straight_through(x):
        return jnp.round(x)

    @straight_through.defjvp
    def rule(primals, tangents):
        return straight_through(*primals), tangents[0]

    return straight_through


@activation
def custom_vjp():
    scale = 0.5

    @jax.custom_vjp
    def scaled_gradient(x):
        return x

    scaled_gradient.defvjp(lambda x: (x, None), lambda _, g: (scale * g,))
    return scaled_gradient


@activation
def jitted_with_static_argument():
    @functools.partial(jax.jit, static_argnames=("n",))
    def power(x, n=3):
        return x**n

    return power


@activation
def gradient_of_a_lambda():
    return jax.vmap(jax.vmap(jax.grad(lambda x: jnp.tanh(x) ** 2)))


@activation
def checkpointed_with_names():
    policy = jax.checkpoint_policies.save_only_these_names("a", "b")
    return jax.checkpoint(lambda x: jnp.sin(x), policy=policy)


@activation(expected=NEW_OBJECT)
def vectorized_by_numpy():
    return np.vectorize(lambda x: max(float(x), 0.0), otypes=[np.float32])


@activation(expected=NEW_CONTAINER)
def single_dispatch():
    @functools.singledispatch
    def twice(x):
        return 2 * x

    twice.register(str, lambda x: x)
    return twice


@activation
def parallel_map():
    return jax.pmap(lambda x: 2 * x)


def one_device_mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])


@activation
def sharded_map():
    spec = P("data")
    return jax.shard_map(
        lambda x: x - jax.lax.pmean(x, "data"),
        mesh=one_device_mesh(),
        in_specs=spec,
        out_specs=spec,
    )


@activation
def mesh_and_spec_captured():
    mesh, spec = one_device_mesh(), P(None, "data")
    return lambda x: x * mesh.shape["data"] + len(spec)


@activation
def jaxtyped_function():
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def halved(x: Float[Array, "batch n"]) -> Float[Array, "batch n"]:  # noqa: F722
        return x / 2

    return halved


@activation
def checked_by_beartype():
    factor = 3.0

    @beartype.beartype
    def scaled(x: jax.Array, times: int = 2) -> jax.Array:
        return factor * times * x

    return scaled


@activation(expected=JAX_ARRAY)
def captured_random_key():
    key = jax.random.key(0)
    return lambda x: x + jax.random.normal(key, x.shape)


@activation(expected=NUMPY_ARRAY)
def captured_weights():
    weights = np.arange(3.0, dtype=np.float32)
    return lambda x: x * weights


@activation
def infinity_and_nan():
    fill, limit = float("nan"), float("inf")
    return lambda x: jnp.where(x < limit, x, fill)


@activation
def filter_jitted():
    return eqx.filter_jit(lambda x: jnp.tanh(3 * x))


@activation
def maker_with_a_decorator_of_its_own():
    def residual(function):
        def wrapped(x):
            return x + function(x)

        return wrapped

    @residual
    def block(x):
        return jnp.sin(x)

    return block


@activation(expected=STATE)
def generator_captured():
    noise = (n / 10 for n in range(100))
    return lambda x: x + next(noise)


# --- losses -------------------------------------------------------------------------------------


class Net(nn.Module):
    features: int
    act: Callable = nn.relu

    @nn.compact
    def __call__(self, x):
        return self.act(nn.Dense(self.features, name="out")(x))


@loss
def flax_model_with_a_lambda():
    network = Net(features=2, act=lambda x: jnp.tanh(2 * x))
    return lambda params, x, y: network.apply({"params": {"out": params}}, x).sum()


@loss(expected=JAX_ARRAY)
def nnx_model_captured():
    layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    return lambda params, x, y: jnp.sum(layer(x) * params["bias"])


@loss(expected=JAX_ARRAY)
def data_captured():
    _, data, targets = batch()
    return lambda params, x, y: jnp.mean((dense(params, data)[:, 0] - targets) ** 2)


@loss(expected=NEW_OBJECT)
def loss_of_a_trainer():
    trainer = Trainer()
    return lambda params, x, y: trainer.lr * jnp.sum(dense(params, x))


# --- cells of a notebook that are run again -------------------------------------------------------

# The globals of a notebook: each run of a cell defines its functions again, in another file.
NOTEBOOK: dict[str, Any] = {"__name__": "notebook", "jax": jax, "jnp": jnp}
_runs = itertools.count()


def run_cell(text: str, name: str) -> Any:
    code = compile(text, f"<cell {next(_runs)}>", "exec")
    exec(code, NOTEBOOK)
    return NOTEBOOK[name]


@mask
def cell_with_a_mask():
    text = "def cell_mask(params):\n    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)\n"
    return run_cell(text, "cell_mask")


@schedule
def cell_that_starts_lower():
    lines = "\n" * (next(_runs) % 7)
    return run_cell(f"{lines}low_rate = lambda step: 0.1 / (step + 3)\n", "low_rate")


@loss
def cell_with_a_function_that_calls_another():
    text = (
        "def forward(params, x):\n    return x @ params['kernel'] + params['bias']\n"
        "def cell_loss(params, x, y):\n    return jnp.mean((forward(params, x)[:, 0] - y) ** 2)\n"
    )
    return run_cell(text, "cell_loss")


@schedule(expected=NEW_CLASS)
def cell_with_a_class():
    text = (
        "class Rate:\n    base = 0.1\n    def __call__(self, step):\n"
        "        return self.base / (step + 1)\n"
    )
    return run_cell(text, "Rate")()


# --- configurations that are given to a factory ---------------------------------------------------


def sgd_of(cfg):
    return optax.sgd(cfg.lr)


def chain_of_dict(cfg):
    return optax.chain(*(getattr(optax, name)(value) for name, value in cfg.items()))


def sgd_of_value(cfg):
    return optax.sgd(cfg.value)


def sgd_of_total(cfg):
    return optax.sgd(sum(cfg))


def sgd_of_call(cfg):
    return optax.sgd(cfg(3))


def sgd_of_dtype(cfg):
    return optax.sgd(0.1, momentum=0.9, accumulator_dtype=cfg)


def sgd_of_pattern(cfg):
    return optax.sgd(0.1 if cfg.match("encoder/kernel") else 0.2)


@config(factory=sgd_of)
def frozen_dataclass():
    return FrozenConfig()


@config(factory=sgd_of)
def named_tuple():
    return TupleConfig()


@config(factory=sgd_of)
def equinox_module():
    return ModuleConfig()


@config(factory=sgd_of_value)
def enum_member():
    return Rates.SLOW


@config(factory=chain_of_dict)
def dictionary_of_stages():
    return {"clip": 1.0, "trace": 0.9, "scale": -0.1}


@config(factory=chain_of_dict)
def ordered_dictionary():
    return collections.OrderedDict(scale=-0.1, clip=1.0)


@config(factory=sgd_of_total)
def list_of_numbers():
    return [0.1, 0.2]


@config(factory=sgd_of_pattern)
def pattern():
    re.purge()
    return re.compile(r"encoder/.*", re.IGNORECASE)


@config(factory=sgd_of_call)
def function_of_the_factory():
    return lambda n: n / 10


@config(factory=sgd_of_dtype)
def dtype():
    return np.dtype("float32")


@config(factory=lambda cfg: optax.sgd(0.1 * cfg.mesh.size))
def named_sharding():
    return NamedSharding(one_device_mesh(), P("data"))


@config(factory=sgd_of, expected=NEW_OBJECT)
def plain_dataclass():
    return PlainConfig()


@config(factory=sgd_of, expected=NEW_OBJECT)
def parsed_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    return parser.parse_args([])


class AttributeDict(dict):
    """A dict whose items are attributes too, as in `ml_collections` and `omegaconf`."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@config(factory=sgd_of, expected=NEW_OBJECT)
def dictionary_with_attributes():
    return AttributeDict(lr=0.1)


@config(factory=sgd_of, expected=NEW_CLASS)
def class_made_in_a_function():
    class Config:
        lr = 0.1

    return Config


# --- mutable objects in a variable of the module, which do not change -----------------------------

KEPT_NAMES = ["bias", "scale"]
KEPT_CONFIG = PlainConfig()
KEPT_TABLE = np.geomspace(1e-1, 1e-3, 8, dtype=np.float32)
KEPT_DEVICE_TABLE = jnp.geomspace(1e-1, 1e-3, 8)
KEPT_VECTORIZED = np.vectorize(lambda x: max(float(x), 0.0), otypes=[np.float32])


@functools.singledispatch
def kept_dispatch(x):
    return 2 * x


@mask
def kept_list_by_name():
    return by_name(lambda name: name.split("/")[-1] not in KEPT_NAMES)


@mask
def kept_list_captured():
    names = KEPT_NAMES
    return by_name(lambda name: name.split("/")[-1] not in names)


@schedule
def kept_plain_dataclass():
    return functools.partial(lambda cfg, step: cfg.lr / (step + 1), KEPT_CONFIG)


@schedule
def kept_numpy_array():
    table = KEPT_TABLE
    return lambda step: jnp.asarray(table)[step]


@schedule
def kept_jax_array():
    table = KEPT_DEVICE_TABLE
    return lambda step: table[step]


@activation
def kept_vectorized():
    function = KEPT_VECTORIZED
    return lambda x: jnp.asarray(function(np.asarray(x)))


@activation
def kept_single_dispatch():
    return lambda x: kept_dispatch(x)
