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
import fnmatch
import functools
import inspect
import itertools
import math
import operator
import pathlib
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
from flax import nnx, struct, traverse_util
from jax.flatten_util import ravel_pytree
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


def recursive_map(function: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    def apply(tree):
        return {k: apply(v) if isinstance(v, dict) else function(k, v) for k, v in tree.items()}

    return apply


def at_least(ndim, tree):
    return jax.tree.map(lambda leaf: leaf.ndim >= ndim, tree)


def decay_mask(tree):
    return named_map(lambda name, leaf: not name.endswith(WEIGHT_DECAY_EXCLUDED), tree)


def cosine(count, *, peak, steps):
    return peak * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count, steps) / steps))


def clamp(x, low=-1.0, high=1.0):
    return jnp.clip(x, low, high)


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


# --- masks --------------------------------------------------------------------------------------


@mask
def all_but_vectors():
    return lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)


@mask
def all_but_one_dimension():
    return lambda p: jtu.tree_map(lambda leaf: jnp.ndim(leaf) != 1, p)


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
def partial_with_a_keyword():
    return functools.partial(lambda params, ndim: at_least(ndim, params), ndim=2)


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


@mask(expected=NEW_CONTAINER)
def not_bias_and_scale_by_set():
    excluded = {"bias", "scale"}
    return by_name(lambda name: name.split("/")[-1] not in excluded)


@mask
def list_written_in_the_body():
    return by_name(lambda name: name.split("/")[-1] not in ["bias", "scale"])


@mask
def set_written_in_the_body():
    return by_name(lambda name: name.split("/")[-1] not in {"bias", "scale"})


@mask
def regular_expression_in_the_body():
    return by_name(lambda name: re.search(r"(bias|scale)$", name) is None)


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
def tuple_of_patterns():
    re.purge()
    rules = tuple(map(re.compile, (r"/bias$", r"norm/")))
    return by_name(lambda name: not any(rule.search(name) for rule in rules))


@mask(expected=NEW_CONTAINER)
def list_of_patterns():
    rules = [re.compile(pattern) for pattern in (r"/bias$", r"norm/")]
    return by_name(lambda name: not any(rule.search(name) for rule in rules))


@mask
def file_name_pattern():
    pattern = "*/kernel"
    return by_name(lambda name: fnmatch.fnmatch(name, pattern))


@mask
def method_of_a_frozenset():
    return by_name(frozenset({"head/kernel"}).__contains__)


@mask
def flattened_dict():
    def weight_decay_mask(params):
        flat = traverse_util.flatten_dict(params)
        decayed = {path: path[-1] != "bias" and path[-2] != "norm" for path in flat}
        return traverse_util.unflatten_dict(decayed)

    return weight_decay_mask


@mask
def flattened_dict_with_separator():
    def weight_decay_mask(params, sep="/"):
        flat = traverse_util.flatten_dict(params, sep=sep)
        return traverse_util.unflatten_dict({k: k.endswith("kernel") for k in flat}, sep=sep)

    return weight_decay_mask


@mask
def path_aware_map():
    return lambda params: traverse_util.path_aware_map(
        lambda path, leaf: path[-1] == "kernel", params
    )


@mask
def key_string():
    return lambda params: jtu.tree_map_with_path(
        lambda path, leaf: "kernel" in jtu.keystr(path), params
    )


@mask
def tree_map_with_path_and_depth():
    depth = 2
    return lambda params: jax.tree.map_with_path(lambda path, leaf: len(path) > depth, params)


@mask
def recursion_over_dicts():
    return recursive_map(lambda name, leaf: name == "kernel")


@mask
def function_that_calls_itself():
    def only_kernels(params):
        return {
            name: only_kernels(value) if isinstance(value, dict) else name == "kernel"
            for name, value in params.items()
        }

    return only_kernels


@mask
def union_of_masks():
    def either(first, second):
        return lambda p: jax.tree.map(lambda a, b: a or b, first(p), second(p))

    return either(by_name(lambda name: "head" in name), by_name(lambda name: "kernel" in name))


@mask
def negated_mask():
    inner = functools.partial(at_least, 2)
    return lambda params: jax.tree.map(operator.not_, inner(params))


@mask
def mask_with_a_default():
    return lambda params, prefix="head": by_name(lambda name: name.startswith(prefix))(params)


@mask
def mask_with_a_keyword_default():
    def starts_with(params, *, prefix="head"):
        return by_name(lambda name: name.startswith(prefix))(params)

    return starts_with


@mask
def global_string():
    return by_name(lambda name: not name.startswith(FROZEN_PREFIX))


@mask
def layers_in_a_range():
    chosen = range(0, 2)
    return by_name(lambda name: len(name.split("/")) - 2 in chosen)


@mask
def parts_in_a_slice():
    last_two = slice(-2, None)
    return by_name(lambda name: "norm" not in name.split("/")[last_two])


@mask
def item_getter():
    last = operator.itemgetter(-1)
    return by_name(lambda name: last(name.split("/")) == "kernel")


@mask
def attribute_getter():
    rank = operator.attrgetter("ndim")
    return lambda params: jax.tree.map(lambda leaf: rank(leaf) == 2, params)


@mask
def method_caller():
    ends = operator.methodcaller("endswith", "kernel")
    return by_name(ends)


@mask
def cached_decision():
    @functools.cache
    def decide(name):
        return name.endswith("kernel")

    return by_name(decide)


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
def static_mask_of_dicts():
    return {"encoder": {"dense": True, "norm": False}, "head": True}


@mask
def static_mask_from_parameters():
    return jax.tree.map(lambda leaf: leaf.ndim > 1, nested())


@mask
def static_mask_by_fromkeys():
    return {"encoder": dict.fromkeys(("dense", "norm"), False), "head": {"kernel": 1, "bias": 0}}


@mask
def structure_captured():
    structure = jax.tree.structure(nested())
    return lambda params: structure.unflatten([leaf.ndim > 1 for leaf in jax.tree.leaves(params)])


@mask
def shapes_captured():
    smallest = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    return lambda params: jax.tree.map(lambda leaf: leaf.shape == smallest.shape, params)


@mask
def size_bound_from_numpy_scalar():
    limit = np.int64(3)
    return lambda params: jax.tree.map(lambda leaf: bool(leaf.size > limit), params)


@mask
def dtype_captured():
    dtype = jnp.dtype("float32")
    return lambda params: jax.tree.map(lambda leaf: leaf.dtype == dtype, params)


@mask
def type_captured():
    kind = jnp.floating
    return lambda params: jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, kind), params)


@mask
def several_constants():
    low, high, names = 1, 4, ("encoder", "head")
    return by_name(lambda name: low < len(name) < high or name.split("/")[0] in names)


@mask(tree="model")
def last_layer_by_tree_at():
    def only_last(tree):
        none = jax.tree.map(lambda _: False, tree)
        return eqx.tree_at(lambda m: (m.layers[-1].weight, m.layers[-1].bias), none, (True, True))

    return only_last


@mask(tree="model")
def captured_selector_by_tree_at():
    def only(where):
        def selected(tree):
            return eqx.tree_at(where, jax.tree.map(lambda _: False, tree), replace=True)

        return selected

    return only(lambda m: m.layers[0].weight)


@mask(tree="model")
def weights_of_linear_layers():
    def weights(tree):
        def of_layer(layer):
            if not isinstance(layer, eqx.nn.Linear):
                return jax.tree.map(lambda _: False, layer)
            return eqx.tree_at(lambda own: (own.weight, own.bias), layer, (True, False))

        return jax.tree.map(of_layer, tree, is_leaf=lambda node: isinstance(node, eqx.nn.Linear))

    return weights


@mask(tree="model")
def attribute_names_of_a_model():
    return by_name(lambda name: name.endswith("weight"))


@mask(tree="model")
def filter_of_equinox():
    return lambda tree: jax.tree.map(eqx.is_inexact_array, tree)


@mask(expected=NEW_CONTAINER)
def dict_of_decisions():
    decided = {"kernel": True, "bias": False, "scale": False}
    return by_name(lambda name: decided[name.split("/")[-1]])


@mask
def items_of_a_dict_as_tuple():
    decided = tuple({"kernel": True, "bias": False}.items())
    return by_name(lambda name: dict(decided).get(name.split("/")[-1], False))


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


@mask
def mask_made_in_a_comprehension_by_a_function():
    masks = [by_name(functools.partial(operator.contains, n)) for n in ("head/bias", "none")]
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
def label_by_last_name():
    return recursive_map(lambda name, leaf: "slow" if name == "bias" else "fast")


@labels
def label_by_first_matching_rule():
    rules = ((r"^head", "fast"), (r"norm", "freeze"), (r".*", "slow"))

    def first(name):
        return next(label for pattern, label in rules if re.search(pattern, name))

    return by_name(first)


@labels
def label_rules_in_the_body():
    def label(name):
        rules = {"head": "fast", "encoder": "slow"}
        return rules[name.split("/")[0]]

    return by_name(label)


@labels(expected=NEW_CONTAINER)
def label_rules_in_a_list():
    rules = [("head", "fast"), ("encoder", "slow")]
    return by_name(lambda name: next(label for part, label in rules if part in name))


@labels(expected=NEW_CONTAINER)
def label_rules_in_a_dict():
    rules = {"head": "fast", "encoder": "slow"}
    return by_name(lambda name: rules[name.split("/")[0]])


@labels
def label_by_path_aware_map():
    return lambda params: traverse_util.path_aware_map(
        lambda path, leaf: "train" if "head" in path else "freeze", params
    )


@labels
def label_by_match():
    def label(path, leaf):
        match path:
            case ("encoder", "norm", *_):
                return "freeze"
            case (_, *_, "bias"):
                return "slow"
            case _:
                return "train"

    return lambda params: traverse_util.path_aware_map(label, params)


@labels
def label_by_size():
    def label(leaf, limit=3):
        return "fast" if leaf.size > limit else "slow"

    return lambda params: jax.tree.map(label, params)


@labels
def label_from_a_mask():
    frozen = by_name(lambda name: "norm" in name)
    return lambda p: jax.tree.map(lambda stays: "freeze" if stays else "train", frozen(p))


class Group(enum.Enum):
    HEAD = "fast"
    ENCODER = "slow"


@labels
def label_by_enum():
    return by_name(lambda name: Group[name.split("/")[0].upper()].value)


@labels
def label_by_captured_enum_member():
    group = Group.HEAD
    return by_name(lambda name: group.value if "head" in name else "freeze")


@labels
def static_labels():
    return {"encoder": {"dense": "slow", "norm": "freeze"}, "head": "fast"}


@labels
def static_labels_from_parameters():
    return jax.tree.map(lambda leaf: "train" if leaf.ndim > 1 else "freeze", nested())


@labels
def partial_label_function():
    def label(name, frozen):
        return "freeze" if name.startswith(frozen) else "train"

    return by_name(functools.partial(label, frozen=("encoder/norm",)))


@labels(tree="model")
def labels_of_a_model():
    return by_name(lambda name: "slow" if "layers" in name and "bias" in name else "train")


@labels(tree="model")
def labels_of_a_model_by_tree_at():
    def labelled(tree):
        frozen = jax.tree.map(lambda _: "freeze", tree)
        return eqx.tree_at(lambda m: m.layers[-1].weight, frozen, "train")

    return labelled


@labels
def trainable_up_to_a_depth():
    depth = 1
    return lambda params: jax.tree.map_with_path(
        lambda path, leaf: "train" if len(path) - 2 < depth else "freeze", params
    )


# --- schedules ----------------------------------------------------------------------------------


@schedule
def constant():
    return lambda count: 0.1


@schedule
def captured_constant():
    rate = 0.1
    return lambda _: rate


@schedule
def linear_warmup():
    peak, warmup = 0.1, 10
    return lambda count: peak * jnp.minimum(1.0, (count + 1) / warmup)


@schedule
def inverse_square_root():
    warmup = 4
    return lambda count: jnp.minimum(count + 1, warmup) / jnp.sqrt(jnp.maximum(count, warmup))


@schedule
def attention_is_all_you_need():
    def make_rate(d_model, warmup=4000, factor=1.0):
        def rate(step):
            step = jnp.asarray(step, jnp.float32) + 1
            return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup**-1.5)

        return rate

    return make_rate(512)


@schedule
def warmup_and_cosine():
    def make_rate(base, total, warmup, floor=0.0):
        def rate(step):
            progress = jnp.clip((step - warmup) / float(total - warmup), 0.0, 1.0)
            decayed = floor + 0.5 * (base - floor) * (1.0 + jnp.cos(jnp.pi * progress))
            return jnp.asarray(decayed * jnp.minimum(1.0, (step + 1) / warmup), jnp.float32)

        return rate

    return make_rate(0.1, total=100, warmup=5)


@schedule
def decay_by_name():
    def make_rate(kind, base=0.1, total=50):
        if kind not in ("linear", "cosine"):
            raise ValueError(kind)

        def rate(step):
            progress = step / total
            if kind == "linear":
                return base * (1 - progress)
            return base * 0.5 * (1 + jnp.cos(math.pi * progress))

        return rate

    return make_rate("linear")


@schedule
def partial_cosine():
    return functools.partial(cosine, peak=0.1, steps=20)


@schedule
def piecewise_by_where():
    boundaries, rates = (1, 5), (0.1, 0.05, 0.01)

    def rate(step):
        value = jnp.asarray(rates[0])
        for boundary, following in zip(boundaries, rates[1:], strict=True):
            value = jnp.where(step >= boundary, following, value)
        return value

    return rate


@schedule(expected=NEW_CONTAINER)
def piecewise_by_dict():
    rates = {0: 0.1, 1: 0.05}

    def rate(step):
        value = 0.0
        for boundary, following in rates.items():
            value = jnp.where(step >= boundary, following, value)
        return value

    return rate


@schedule
def piecewise_by_interpolation():
    knots, rates = (0.0, 10.0, 20.0), (0.0, 1.0, 0.1)
    return lambda step: jnp.interp(step, jnp.asarray(knots), jnp.asarray(rates))


@schedule(expected=NUMPY_ARRAY)
def interpolation_of_numpy_arrays():
    knots, rates = np.linspace(0, 10, 3), np.linspace(1, 0, 3)
    return lambda step: jnp.interp(step, knots, rates)


@schedule(expected=NUMPY_ARRAY)
def table_of_rates():
    table = np.geomspace(1e-1, 1e-3, 8, dtype=np.float32)
    return lambda step: jnp.asarray(table)[step]


@schedule(expected=JAX_ARRAY)
def table_of_rates_on_the_device():
    table = jnp.geomspace(1e-1, 1e-3, 8)
    return lambda step: table[step]


@schedule(expected=JAX_ARRAY)
def scalar_on_the_device():
    base = jnp.asarray(0.1)
    return lambda step: base / (step + 1)


@schedule
def numpy_scalar():
    base = np.float32(0.1)
    return lambda step: base / (step + 1)


@schedule
def python_number_of_an_array():
    base = np.float32(0.1).item()
    return lambda step: base / (step + 1)


@schedule
def branches_of_lax():
    def rate(step):
        branches = [lambda: 0.1, lambda: 0.01]
        return jax.lax.switch(jnp.minimum(step, 1), branches)

    return rate


@schedule
def condition_of_lax():
    warmup = 2
    return lambda s: jax.lax.cond(s < warmup, lambda x: 0.1 * x, lambda x: 0.0 * x + 0.2, s * 1.0)


@schedule
def global_peak():
    return lambda step: PEAK / (step + 1)


@schedule
def scaled_schedule():
    def scaled(inner, factor):
        return lambda step: factor * inner(step)

    return scaled(lambda step: 1.0 / (step + 1), 0.5)


@schedule
def sum_of_schedules():
    def total(*parts):
        return lambda step: sum(part(step) for part in parts)

    return total(lambda step: 0.1, lambda step: 0.01 * step)


@schedule
def composed_schedules():
    def composed(*functions):
        return functools.reduce(lambda f, g: lambda x: g(f(x)), functions)

    return composed(lambda s: s + 1.0, lambda s: s / 10, jnp.tanh)


@schedule
def batch_size_and_epochs():
    def make_rate(base, batch_size, examples=50_000, epochs=3):
        per_epoch = examples // batch_size
        scaled = base * batch_size / 256

        def rate(step):
            epoch = step / per_epoch
            return scaled * (1 - epoch / epochs)

        return rate

    return make_rate(0.1, 512)


@schedule
def cyclic():
    period, low, high = 4, 0.01, 0.1
    return lambda step: low + (high - low) * jnp.abs((step % period) / period - 0.5)


@schedule
def schedule_with_annotations():
    def rate(step: int | jax.Array, base: float = 0.1) -> Float[Array, ""]:  # noqa: F722
        """The rate at a step."""
        return jnp.asarray(base / (step + 1))

    return rate


@schedule
def jitted_schedule():
    return jax.jit(lambda step: 0.1 / (step + 1))


@schedule
def spec_schedule(lib):
    return lib.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)


@schedule
def joined_specs(lib):
    warmup = lib.linear_schedule(0.0, 0.1, 2)
    return lib.join_schedules([warmup, lib.cosine_decay_schedule(0.1, 10)], [2])


@schedule
def joined_spec_and_lambda(lib):
    return lib.join_schedules([lib.linear_schedule(0.0, 0.1, 2), lambda s: 0.1 / (s + 1)], [2])


@schedule
def scaled_spec(lib):
    inner = lib.exponential_decay(0.1, 10, 0.9)
    return lambda step: 0.5 * inner(step)


@schedule
def linear_schedule_of_optax():
    return optax.linear_schedule(0.1, 0.0, 10)


@schedule
def exponential_decay_of_optax():
    return optax.exponential_decay(0.1, transition_steps=10, decay_rate=0.9, staircase=True)


@schedule(expected=REBINDABLE)
def cosine_decay_of_optax():
    return optax.cosine_decay_schedule(0.1, 100)


@schedule(expected=NEW_CONTAINER)
def joined_schedules_of_optax():
    schedules = [optax.linear_schedule(0.0, 0.1, 2), optax.constant_schedule(0.1)]
    return optax.join_schedules(schedules, [2])


@schedule
def piecewise_constant_spec(lib):
    return lib.piecewise_constant_schedule(0.1, {1: 0.5, 3: 0.1})


@schedule(expected=NEW_OBJECT)
def schedule_over_a_namespace():
    args = argparse.Namespace(lr=0.1, warmup=2)
    return lambda step: args.lr * jnp.minimum(1.0, step / args.warmup)


@schedule
def schedule_over_numbers_of_a_namespace():
    args = argparse.Namespace(lr=0.1, warmup=2)
    lr, warmup = args.lr, args.warmup
    return lambda step: lr * jnp.minimum(1.0, step / warmup)


@schedule(expected=NEW_CONTAINER)
def schedule_over_a_dict():
    options = {"lr": 0.1}
    return lambda step: options["lr"] / (step + 1)


@schedule(expected=REBINDABLE)
def rate_assigned_after_the_schedule():
    rates = []
    base = 0.1
    rates.append(lambda step: base / (step + 1))
    base = 0.2
    return rates[0]


@schedule
def rate_assigned_in_branches_before():
    large = bool(math.pi)
    if large:
        base = 0.2
    else:
        base = 0.1
    return lambda step: base / (step + 1)


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


@dataclasses.dataclass(frozen=True, slots=True)
class SlottedConfig:
    lr: float = 0.1

    def rate(self, step):
        return self.lr / (step + 1)


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


@dataclasses.dataclass(frozen=True)
class DerivedConfig:
    lr: float
    total: dataclasses.InitVar[int] = 10
    per_step: float = dataclasses.field(init=False)

    def __post_init__(self, total):
        object.__setattr__(self, "per_step", self.lr / total)


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


@attrs.frozen(slots=False)
class AttrsDictConfig:
    lr: float = 0.1


@attrs.define
class AttrsMutableConfig:
    lr: float = 0.1


class TupleConfig(typing.NamedTuple):
    lr: float = 0.1
    warmup: int = 2

    def rate(self, step):
        return self.lr * jnp.minimum(1.0, (step + 1) / self.warmup)


OldTupleConfig = collections.namedtuple("OldTupleConfig", ["lr", "warmup"])


class Rates(enum.Enum):
    SLOW = 0.01
    FAST = 0.1

    def rate(self, step):
        return self.value / (step + 1)


class Size(enum.IntEnum):
    SMALL = 2
    LARGE = 4


class Flags(enum.Flag):
    NESTEROV = enum.auto()
    SIGNED = enum.auto()


class ModuleConfig(eqx.Module):
    lr: float = 0.1
    name: str = eqx.field(static=True, default="base")

    def rate(self, step):
        return self.lr / (step + 1)


@struct.dataclass
class FlaxConfig:
    lr: float = 0.1
    name: str = struct.field(pytree_node=False, default="base")


class DefaultsOfAClass:
    lr = 0.1
    warmup = 2


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
def property_of_a_frozen_dataclass():
    cfg = FrozenConfig()
    return lambda step: cfg.half / (step + 1)


@schedule
def captured_slotted_dataclass():
    cfg = SlottedConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def captured_nested_dataclasses():
    cfg = OuterConfig(rule=lambda lr: lr / 2)
    return lambda step: cfg.rule(cfg.optimizer.lr) / (step + 1)


@schedule
def frozen_dataclass_with_a_read_cached_property():
    cfg = ConfigWithCache()
    assert len(cfg.table) == 4
    return lambda step: jnp.asarray(cfg.table)[step]


@schedule
def frozen_dataclass_with_a_derived_field():
    cfg = DerivedConfig(0.1)
    return lambda step: cfg.per_step / (step + 1)


@schedule
def replaced_frozen_dataclass():
    cfg = dataclasses.replace(FrozenConfig(), lr=0.2)
    return lambda step: cfg.lr / (step + 1)


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
def captured_attrs_frozen_without_slots():
    cfg = AttrsDictConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def evolved_attrs_frozen():
    cfg = attrs.evolve(AttrsConfig(), lr=0.2)
    return lambda step: cfg.lr / (step + 1)


@schedule(expected=NEW_OBJECT)
def captured_attrs_define():
    cfg = AttrsMutableConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def captured_named_tuple():
    cfg = TupleConfig()
    return lambda step: cfg.lr * jnp.minimum(1.0, step / cfg.warmup)


@schedule
def captured_old_named_tuple():
    cfg = OldTupleConfig(0.1, 2)
    return lambda step: cfg.lr * jnp.minimum(1.0, step / cfg.warmup)


@schedule
def captured_enum_member():
    rate = Rates.FAST
    return lambda step: rate.value / (step + 1)


@schedule
def captured_integer_enum():
    size = Size.LARGE
    return lambda step: 0.1 / (step + size)


@schedule
def captured_flags():
    flags = Flags.NESTEROV | Flags.SIGNED
    return lambda step: (0.1 if Flags.SIGNED in flags else 0.2) / (step + 1)


@schedule
def captured_equinox_module():
    cfg = ModuleConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def captured_flax_dataclass():
    cfg = FlaxConfig()
    return lambda step: cfg.lr / (step + 1)


@schedule
def captured_class_of_defaults():
    cfg = DefaultsOfAClass
    return lambda step: cfg.lr / (step + cfg.warmup)


@schedule(expected=NEW_CLASS)
def class_of_defaults_made_in_a_function():
    class Defaults:
        lr = 0.1

    return lambda step: Defaults.lr / (step + 1)


@schedule(expected=NEW_OBJECT)
def captured_simple_namespace():
    cfg = types.SimpleNamespace(lr=0.1)
    return lambda step: cfg.lr / (step + 1)


@schedule(expected=NEW_OBJECT)
def lambda_over_self():
    return Trainer().optimizer()


@schedule(expected=NEW_OBJECT)
def captured_dict_subclass():
    options = AttributeDict(lr=0.1)
    return lambda step: options["lr"] / (step + 1)


@schedule
def captured_tuples_of_tuples():
    cfg = (("lr", 0.1), ("betas", (0.9, 0.99)))
    return lambda step: dict(cfg)["lr"] / (step + 1)


@schedule
def captured_path():
    path = pathlib.PurePosixPath("runs", "base-4")
    return lambda step: 0.1 / (step + int(path.name.split("-")[-1]))


@schedule
def captured_module():
    numbers = math
    return lambda step: numbers.pi / (step + 10)


# --- methods and objects that can be called ------------------------------------------------------


@schedule
def method_of_a_frozen_dataclass():
    return FrozenConfig().rate


@schedule
def method_of_a_slotted_dataclass():
    return SlottedConfig().rate


@schedule
def method_of_an_attrs_frozen():
    return AttrsConfig().rate


@schedule
def method_of_a_named_tuple():
    return TupleConfig().rate


@schedule
def method_of_an_enum_member():
    return Rates.FAST.rate


@schedule
def method_of_an_equinox_module():
    return ModuleConfig().rate


@schedule
def class_method():
    return FrozenConfig.inverse


@schedule
def static_method():
    return FrozenConfig.slow


@schedule(expected=NEW_OBJECT)
def method_of_a_plain_object():
    return Trainer().rate


@schedule(expected=NEW_OBJECT)
def method_of_a_plain_dataclass():
    return PlainConfig().rate


@mask(expected=NEW_OBJECT)
def mask_method_of_a_plain_object():
    return Trainer().mask


@schedule(expected=NEW_OBJECT)
def object_that_can_be_called():
    return Trainer()


@dataclasses.dataclass(frozen=True)
class RateOf:
    base: float
    shift: int = 1

    def __call__(self, step):
        return self.base / (step + self.shift)


@attrs.frozen
class AttrsRateOf:
    base: float

    def __call__(self, step):
        return self.base / (step + 1)


class TupleRateOf(typing.NamedTuple):
    base: float

    def __call__(self, step):
        return self.base / (step + 1)


class ModuleRateOf(eqx.Module):
    base: float
    inner: Callable

    def __call__(self, step):
        return self.base * self.inner(step)


@schedule
def frozen_dataclass_that_can_be_called():
    return RateOf(0.1)


@schedule
def attrs_frozen_that_can_be_called():
    return AttrsRateOf(0.1)


@schedule
def named_tuple_that_can_be_called():
    return TupleRateOf(0.1)


@schedule
def equinox_module_that_can_be_called():
    return ModuleRateOf(0.1, lambda step: 1 / (step + 1))


@mask
def frozen_dataclass_as_mask():
    return NamesIn(("kernel",))


@dataclasses.dataclass(frozen=True)
class NamesIn:
    names: tuple[str, ...]

    def __call__(self, params):
        return by_name(lambda name: name.split("/")[-1] in self.names)(params)


@schedule(expected=NEW_CLASS)
def frozen_dataclass_of_a_function():
    @dataclasses.dataclass(frozen=True)
    class Rate:
        base: float

        def __call__(self, step):
            return self.base / (step + 1)

    return Rate(0.1)


# --- predicates ---------------------------------------------------------------------------------


@predicate
def every_second_step():
    return lambda step: step % 2 == 0


@predicate
def after_a_number_of_steps():
    start = 1
    return lambda step: step >= start


@predicate
def within_a_window():
    first, last = 0, 1
    return functools.partial(lambda step, lo, hi: (step >= lo) & (step < hi), lo=first, hi=last)


@predicate
def either_predicate():
    early, late = (lambda step: step < 1), (lambda step: step > 5)
    return lambda step: jnp.logical_or(early(step), late(step))


# --- activations --------------------------------------------------------------------------------


@activation
def squared_relu():
    return lambda x: jnp.square(jax.nn.relu(x))


@activation
def swish_with_beta():
    beta = 1.5
    return lambda x: x * jax.nn.sigmoid(beta * x)


@activation
def partial_gelu():
    return functools.partial(jax.nn.gelu, approximate=False)


@activation
def partial_leaky_relu():
    return functools.partial(jax.nn.leaky_relu, negative_slope=0.2)


@activation
def relu_of_jax():
    return jax.nn.relu


@activation
def partial_of_the_modules_function():
    return functools.partial(clamp, high=6.0)


@activation
def activation_by_name():
    return {"relu": jax.nn.relu, "tanh": jnp.tanh}["tanh"]


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
def jitted_activation():
    return jax.jit(lambda x: x * jnp.tanh(x))


@activation
def jitted_with_decorator():
    @jax.jit
    def mish(x):
        return x * jnp.tanh(jax.nn.softplus(x))

    return mish


@activation
def jitted_with_static_argument():
    @functools.partial(jax.jit, static_argnames=("n",))
    def power(x, n=3):
        return x**n

    return power


@activation
def mapped_over_rows():
    return jax.vmap(lambda row: row / jnp.linalg.norm(row))


@activation
def mapped_with_axes():
    return jax.vmap(lambda column: jnp.cumsum(column), in_axes=1, out_axes=1)


@activation
def gradient_of_a_lambda():
    return jax.vmap(jax.vmap(jax.grad(lambda x: jnp.tanh(x) ** 2)))


@activation
def checkpointed():
    return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))


@activation
def checkpointed_with_policy():
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return jax.checkpoint(lambda x: jnp.sin(x @ x.T), policy=policy)


@activation
def checkpointed_with_names():
    policy = jax.checkpoint_policies.save_only_these_names("a", "b")
    return jax.checkpoint(lambda x: jnp.sin(x), policy=policy)


@activation
def vectorized():
    return jnp.vectorize(lambda x: jnp.where(x > 0, x, 0.1 * x))


@activation
def vectorized_with_a_signature():
    return jnp.vectorize(lambda x: x - x.mean(), signature="(n)->(n)")


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


@activation
def parallel_map_with_axis_name():
    return jax.pmap(lambda x: x / jax.lax.psum(x, "devices"), axis_name="devices")


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
def sharding_constraint():
    sharding = NamedSharding(one_device_mesh(), P("data", None))
    return lambda x: jax.lax.with_sharding_constraint(2 * x, sharding)


@activation
def mesh_and_spec_captured():
    mesh, spec = one_device_mesh(), P(None, "data")
    return lambda x: x * mesh.shape["data"] + len(spec)


@activation
def unraveled():
    _, unravel = ravel_pytree({"a": jnp.ones(2), "b": jnp.ones(1)})
    return lambda x: unravel(x[0])["a"]


@activation
def unravel_itself():
    return functools.partial(lambda f, x: f(x[0]), ravel_pytree((jnp.ones(2), jnp.ones(1)))[1])


@activation
def jaxtyped_function():
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def halved(x: Float[Array, "batch n"]) -> Float[Array, "batch n"]:  # noqa: F722
        return x / 2

    return halved


@activation
def annotated_with_jaxtyping():
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


@activation
def initializer_of_jax():
    init = jax.nn.initializers.normal(0.02)
    return lambda x: x + init(jax.random.key(0), x.shape)


@activation
def variance_scaling():
    init = jax.nn.initializers.variance_scaling(2.0, "fan_in", "truncated_normal")
    return lambda x: x @ init(jax.random.key(1), (3, 2))


@activation(expected=JAX_ARRAY)
def captured_random_key():
    key = jax.random.key(0)
    return lambda x: x + jax.random.normal(key, x.shape)


@activation
def key_from_a_seed():
    seed = 3
    return lambda x: x + jax.random.normal(jax.random.key(seed), x.shape)


@activation(expected=NUMPY_ARRAY)
def captured_weights():
    weights = np.arange(3.0, dtype=np.float32)
    return lambda x: x * weights


@activation
def weights_as_tuple():
    weights = tuple(np.arange(3.0).tolist())
    return lambda x: x * jnp.asarray(weights, x.dtype)


@activation
def precision_captured():
    precision = jax.lax.Precision.HIGHEST
    return lambda x: jnp.matmul(x, x.T, precision=precision)


@activation
def device_captured():
    device = jax.devices()[0]
    return lambda x: x + (device.platform == "none")


@activation
def ellipsis_and_none():
    index = (..., None)
    return lambda x: x[index]


@activation
def complex_constant():
    phase = 1j
    return lambda x: jnp.real(jnp.exp(phase * x))


@activation
def bytes_constant():
    weights = b"\x01\x02\x03"
    return lambda x: x * jnp.asarray(tuple(weights), x.dtype)


@activation
def infinity_and_nan():
    fill, limit = float("nan"), float("inf")
    return lambda x: jnp.where(x < limit, x, fill)


@activation
def tree_partial():
    return jtu.Partial(clamp, high=2.0)


@activation
def tree_partial_of_a_lambda():
    return jtu.Partial(lambda x, k: k * x, k=3)


@activation
def equinox_partial():
    return eqx.Partial(clamp, low=0.0)


@activation
def equinox_lambda_layer():
    return eqx.nn.Lambda(lambda x: jnp.tanh(2 * x))


@activation
def filter_jitted():
    return eqx.filter_jit(lambda x: jnp.tanh(3 * x))


@activation
def filter_mapped():
    return eqx.filter_vmap(lambda row: row[::-1])


@activation
def sequential_of_lambdas():
    return lambda x: eqx.nn.Lambda(jnp.tanh)(eqx.nn.Lambda(lambda y: y + 1)(x))


@activation(expected=JAX_ARRAY)
def equinox_model_with_weights():
    layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    return lambda x: jax.vmap(layer)(x)


@activation
def quantizer_over_levels():
    levels = tuple(range(4))

    def nearest(x):
        table = jnp.asarray(levels, x.dtype)
        return table[jnp.argmin(jnp.abs(x[..., None] - table), axis=-1)]

    return nearest


@activation
def function_that_takes_functions():
    def residual(f, /, *, scale=1.0):
        return lambda x: x + scale * f(x)

    return residual(residual(jnp.tanh, scale=0.5))


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


@loss
def mean_squared_error():
    return lambda params, x, y: jnp.mean((dense(params, x)[:, 0] - y) ** 2)


@loss
def label_smoothing():
    smoothing, classes = 0.1, 2

    def smoothed(params, x, y):
        targets = optax.smooth_labels(jax.nn.one_hot(y, classes), smoothing)
        return optax.softmax_cross_entropy(dense(params, x), targets).mean()

    return smoothed


@loss
def label_smoothing_by_a_maker():
    def make_loss(apply, smoothing=0.0):
        def cross_entropy(logits, y):
            logp = jax.nn.log_softmax(logits)
            true = jnp.take_along_axis(logp, y[:, None], axis=-1)[:, 0]
            return -((1 - smoothing) * true + smoothing * logp.mean(-1))

        return lambda params, x, y: cross_entropy(apply(params, x), y).mean()

    return make_loss(lambda params, x: dense(params, x), smoothing=0.05)


@loss
def flax_model_captured():
    network = nn.Dense(2)
    return lambda params, x, y: jnp.mean(network.apply({"params": params}, x) * y[:, None])


@loss
def apply_of_a_flax_model():
    apply = nn.Dense(2).apply
    return lambda params, x, y: jnp.sum(apply({"params": params}, x) ** 2)


@loss
def partial_of_apply():
    apply = functools.partial(nn.Dense(2, use_bias=True).apply, mutable=False)
    return lambda params, x, y: jnp.sum(apply({"params": params}, x) ** 2)


class Net(nn.Module):
    features: int
    act: Callable = nn.relu

    @nn.compact
    def __call__(self, x):
        return self.act(nn.Dense(self.features, name="out")(x))


@loss
def flax_model_of_the_users():
    network = Net(features=2)

    def loss_fn(params, x, y):
        logits = network.apply({"params": {"out": params}}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return loss_fn


@loss
def flax_model_with_a_lambda():
    network = Net(features=2, act=lambda x: jnp.tanh(2 * x))
    return lambda params, x, y: network.apply({"params": {"out": params}}, x).sum()


@loss(expected=NEW_CONTAINER)
def flax_sequential_of_a_list():
    network = nn.Sequential([nn.Dense(2), nn.relu])
    return lambda params, x, y: network.apply({"params": {"layers_0": params}}, x).sum()


@loss
def flax_sequential_of_a_tuple():
    network = nn.Sequential((nn.Dense(2), nn.relu))
    return lambda params, x, y: network.apply({"params": {"layers_0": params}}, x).sum()


@loss(expected=JAX_ARRAY)
def nnx_model_captured():
    layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    return lambda params, x, y: jnp.sum(layer(x) * params["bias"])


@loss
def l2_penalty():
    weight = 1e-2

    def penalized(params, x, y):
        penalty = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params) if leaf.ndim > 1)
        return jnp.mean((dense(params, x) - y[:, None]) ** 2) + weight * penalty

    return penalized


@loss
def huber_by_partial():
    def total(distance, params, x, y):
        return jnp.mean(distance(dense(params, x)[:, 0], y.astype(x.dtype)))

    return functools.partial(total, functools.partial(optax.huber_loss, delta=0.5))


@loss
def contrastive_with_temperature():
    temperature = 0.07

    def info_nce(params, x, y):
        z = dense(params, x)
        z = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
        return optax.softmax_cross_entropy_with_integer_labels(z @ z.T / temperature, y).mean()

    return info_nce


@loss
def loss_with_a_scan():
    steps = 3

    def rollout(params, x, y):
        def step(carry, _):
            return jnp.tanh(dense(params, carry)), None

        last, _ = jax.lax.scan(step, x, None, length=steps)
        return jnp.sum(last)

    return rollout


@loss
def loss_of_value_and_grad():
    return jax.value_and_grad(lambda params, x, y: jnp.sum(dense(params, x) ** 2))


@loss
def loss_with_gradient_penalty():
    def inner(params, x):
        return jnp.sum(jnp.tanh(dense(params, x)))

    slope = jax.grad(inner, argnums=1)
    return lambda params, x, y: jnp.sum(slope(params, x) ** 2)


@loss
def loss_by_frozen_config():
    cfg = OuterConfig(FrozenConfig(lr=0.3))
    return lambda params, x, y: cfg.optimizer.lr * jnp.sum(dense(params, x))


@loss
def loss_from_a_registry_of_functions():
    losses = (("l1", lambda d: jnp.abs(d)), ("l2", lambda d: d**2))
    chosen = dict(losses)["l2"]
    return lambda params, x, y: jnp.mean(chosen(dense(params, x)[:, 0] - y))


@loss(expected=NUMPY_ARRAY)
def class_weights():
    weights = np.asarray([0.25, 0.75], np.float32)

    def weighted(params, x, y):
        each = optax.softmax_cross_entropy_with_integer_labels(dense(params, x), y)
        return jnp.mean(each * jnp.asarray(weights)[y])

    return weighted


@loss
def class_weights_as_tuple():
    weights = (0.25, 0.75)

    def weighted(params, x, y):
        each = optax.softmax_cross_entropy_with_integer_labels(dense(params, x), y)
        return jnp.mean(each * jnp.asarray(weights)[y])

    return weighted


@loss(expected=JAX_ARRAY)
def data_captured():
    _, data, targets = batch()
    return lambda params, x, y: jnp.mean((dense(params, data)[:, 0] - targets) ** 2)


@loss(expected=NEW_OBJECT)
def loss_of_a_trainer():
    trainer = Trainer()
    return lambda params, x, y: trainer.lr * jnp.sum(dense(params, x))


@loss
def negative_log_likelihood_of_jax():
    log_prob = jax.scipy.stats.norm.logpdf
    return lambda params, x, y: -jnp.mean(log_prob(dense(params, x)[:, 0], y, 1.0))


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
def cell_with_a_rate():
    text = "base = 0.1\ndef cell_rate(step):\n    return base / (step + 1)\n"
    return run_cell(text, "cell_rate")


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


@schedule
def cell_with_a_maker():
    text = "def make_rate(base):\n    return lambda step: base / (step + 1)\n"
    return run_cell(text, "make_rate")(0.1)


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


def sgd_of_dict(cfg):
    return optax.sgd(cfg["lr"])


def chain_of_dict(cfg):
    return optax.chain(*(getattr(optax, name)(value) for name, value in cfg.items()))


def sgd_of_value(cfg):
    return optax.sgd(cfg.value)


def sgd_of_first(cfg):
    return optax.sgd(next(iter(cfg)))


def sgd_of_total(cfg):
    return optax.sgd(sum(cfg))


def sgd_of_call(cfg):
    return optax.sgd(cfg(3))


def sgd_of_text(cfg):
    return optax.sgd(float(str(cfg).split("-")[-1]))


def sgd_of_size(cfg):
    return optax.sgd(0.1 * cfg.size)


def sgd_of_axes(cfg):
    return optax.sgd(0.1 * len(cfg))


def sgd_of_dtype(cfg):
    return optax.sgd(0.1, momentum=0.9, accumulator_dtype=cfg)


def sgd_of_pattern(cfg):
    return optax.sgd(0.1 if cfg.match("encoder/kernel") else 0.2)


@config(factory=sgd_of)
def frozen_dataclass():
    return FrozenConfig()


@config(factory=lambda cfg: optax.sgd(cfg.optimizer.lr))
def nested_frozen_dataclasses():
    return OuterConfig()


@config(factory=sgd_of)
def slotted_frozen_dataclass():
    return SlottedConfig()


@config(factory=sgd_of)
def attrs_frozen():
    return AttrsConfig()


@config(factory=sgd_of)
def attrs_frozen_without_slots():
    return AttrsDictConfig()


@config(factory=sgd_of)
def named_tuple():
    return TupleConfig()


@config(factory=sgd_of)
def old_named_tuple():
    return OldTupleConfig(0.1, 2)


@config(factory=sgd_of)
def equinox_module():
    return ModuleConfig()


@config(factory=sgd_of)
def flax_dataclass():
    return FlaxConfig()


@config(factory=sgd_of)
def class_of_defaults():
    return DefaultsOfAClass


@config(factory=sgd_of_value)
def enum_member():
    return Rates.SLOW


@config(factory=sgd_of_dict)
def dictionary():
    return {"lr": 0.1, "betas": [0.9, 0.99], "name": "adam"}


@config(factory=chain_of_dict)
def dictionary_of_stages():
    return {"clip": 1.0, "trace": 0.9, "scale": -0.1}


@config(factory=lambda cfg: optax.sgd(cfg["optimizer"]["lr"]))
def nested_dictionary():
    return {"optimizer": {"name": "sgd", "lr": 0.1}, "data": {"files": ("a", "b")}}


@config(factory=chain_of_dict)
def ordered_dictionary():
    return collections.OrderedDict(scale=-0.1, clip=1.0)


@config(factory=sgd_of_total)
def list_of_numbers():
    return [0.1, 0.2]


@config(factory=sgd_of_first)
def frozen_set():
    return frozenset({0.1})


@config(factory=sgd_of_total)
def range_of_numbers():
    return range(1, 3)


@config(factory=lambda cfg: optax.sgd(0.1 * cfg.stop))
def slice_of_numbers():
    return slice(0, 5)


@config(factory=sgd_of_text)
def path():
    return pathlib.PurePosixPath("runs/lr-0.1")


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


@config(factory=sgd_of_size)
def mesh():
    return one_device_mesh()


@config(factory=sgd_of_axes)
def partition_spec():
    return P("data", None)


@config(factory=lambda cfg: optax.sgd(0.1 * cfg.mesh.size))
def named_sharding():
    return NamedSharding(one_device_mesh(), P("data"))


@config(factory=sgd_of, expected=NEW_OBJECT)
def plain_dataclass():
    return PlainConfig()


@config(factory=sgd_of, expected=NEW_OBJECT)
def attrs_define():
    return AttrsMutableConfig()


@config(factory=sgd_of, expected=NEW_OBJECT)
def simple_namespace():
    return types.SimpleNamespace(lr=0.1)


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


@config(factory=lambda cfg: optax.sgd(cfg.rule[0]))
def frozen_dataclass_with_a_tuple():
    return OuterConfig(rule=(0.1, 0.01))


# --- mutable objects in a variable of the module, which do not change -----------------------------

KEPT_NAMES = ["bias", "scale"]
KEPT_SET = {"bias", "scale"}
KEPT_RULES = {"head": "fast", "encoder": "slow"}
KEPT_NESTED = {"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}}
KEPT_ARGUMENTS = argparse.Namespace(lr=0.1, warmup=2, names=["w"])
KEPT_NAMESPACE = types.SimpleNamespace(lr=0.1)
KEPT_CONFIG = PlainConfig()
KEPT_TRAINER = Trainer()
KEPT_TABLE = np.geomspace(1e-1, 1e-3, 8, dtype=np.float32)
KEPT_DEVICE_TABLE = jnp.geomspace(1e-1, 1e-3, 8)
KEPT_ATTRIBUTES = AttributeDict(lr=0.1)
KEPT_DEFAULTS = collections.defaultdict(lambda: "slow", head="fast")
KEPT_NETWORK = nn.Sequential([nn.Dense(2), nn.relu])
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


@mask
def kept_set():
    names = KEPT_SET
    return by_name(lambda name: name.split("/")[-1] not in names)


@labels
def kept_dict():
    rules = KEPT_RULES
    return by_name(lambda name: rules[name.split("/")[0]])


@labels
def kept_default_dict():
    rules = KEPT_DEFAULTS
    return by_name(lambda name: rules.get(name.split("/")[0], "slow"))


@schedule
def kept_nested_dict():
    cfg = KEPT_NESTED
    return lambda step: cfg["optimizer"]["lr"] / (step + 1)


@schedule
def kept_arguments():
    args = KEPT_ARGUMENTS
    return lambda step: args.lr * jnp.minimum(1.0, step / args.warmup)


@schedule
def kept_namespace_by_name():
    return lambda step: KEPT_NAMESPACE.lr / (step + 1)


@schedule
def kept_plain_dataclass():
    return functools.partial(lambda cfg, step: cfg.lr / (step + 1), KEPT_CONFIG)


@schedule
def method_of_a_kept_object():
    return KEPT_TRAINER.rate


@schedule
def kept_object_that_can_be_called():
    return KEPT_TRAINER


@schedule
def lambda_over_a_kept_self():
    return KEPT_TRAINER.optimizer()


@schedule
def kept_numpy_array():
    table = KEPT_TABLE
    return lambda step: jnp.asarray(table)[step]


@schedule
def kept_jax_array():
    table = KEPT_DEVICE_TABLE
    return lambda step: table[step]


@loss
def kept_flax_sequential():
    network = KEPT_NETWORK
    return lambda params, x, y: network.apply({"params": {"layers_0": params}}, x).sum()


@activation
def kept_vectorized():
    function = KEPT_VECTORIZED
    return lambda x: jnp.asarray(function(np.asarray(x)))


@activation
def kept_single_dispatch():
    return lambda x: kept_dispatch(x)


@config(factory=sgd_of)
def kept_arguments_of_a_factory():
    return KEPT_ARGUMENTS


@config(factory=sgd_of)
def kept_dataclass_of_a_factory():
    return KEPT_CONFIG


@config(factory=sgd_of)
def kept_dictionary_with_attributes():
    return KEPT_ATTRIBUTES
