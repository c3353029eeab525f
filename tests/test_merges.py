"""Fits whose step is made again and does the same trace and compile nothing.

Each case is a fit that makes its data, model, optimizer and step from a key, with `canonopt.jit`
or `canonopt.filter_jit`. Fits with further keys run the programs of the first, and return the
numbers of `jax.jit` and `equinox.filter_jit`.
"""

# ruff: noqa: E731, F722, F821  short functions with a name, and the annotations of jaxtyping

import dataclasses
import enum
import functools
import logging
import math
import threading
import types  # noqa: F401  of the bodies below
import typing

import attrs
import diffrax
import equinox as eqx
import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pydantic
import pytest
from beartype import beartype
from jax.experimental import sparse  # noqa: F401  of the bodies below
from jaxtyping import Array, Float, jaxtyped

import canonopt

from .support import catalogue
from .support.counting import all_compiles
from .support.generated import defined, named_texts

JITS = {"jit": (canonopt.jit, jax.jit), "filter_jit": (canonopt.filter_jit, eqx.filter_jit)}
CASES = []


def add(name, fit, *jits, tolerance=0.0, marks=()):
    """Adds a fit to the table, once with each of the jits."""
    for jit in jits or JITS:
        values = fit, *JITS[jit], tolerance
        CASES.append(pytest.param(*values, id=f"{name}-{jit}", marks=marks))


def make_data(key):
    x = jax.random.normal(key, (8, 3))
    return x, jnp.sum(x, axis=1)


def make_params():
    return {"w": jnp.zeros(3), "b": jnp.zeros(())}


def square_loss(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def model_loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def make_mlp(key, **options):
    return eqx.nn.MLP(3, "scalar", 4, 1, key=key, **options)


def descend(params, grads):
    return eqx.apply_updates(params, jax.tree.map(lambda g: -0.1 * g, grads))


def repeat(step, *state, data=()):
    for _ in range(3):
        state = step(*state, *data)
    return state


def train(jit, key, loss=square_loss, params=None, optim=None, **options):
    """Trains with a step that captures the loss and the optimizer, but not the data."""
    params = make_params() if params is None else params
    optim = canonopt.sgd(0.1) if optim is None else optim

    @functools.partial(jit, **options)
    def step(params, opt_state, x, y):
        grads = eqx.filter_grad(loss)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state, eqx.filter(params, eqx.is_array))
        return eqx.apply_updates(params, updates), opt_state

    opt_state = optim.init(eqx.filter(params, eqx.is_array))
    return repeat(step, params, opt_state, data=make_data(key))


class Trainer:
    """Jits its own method, which reads an optimizer, a rate and arrays from `self`."""

    def __init__(self, jit, key, optim):
        self.x, self.y = make_data(key)
        self.optim, self.rate = optim, 0.1
        self.step = jit(self._step)

    def loss(self, params):
        return square_loss(params, self.x, self.y)

    def _step(self, params, opt_state):
        grads = jax.tree.map(lambda g: self.rate * g, jax.grad(self.loss)(params))
        updates, opt_state = self.optim.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    def fit(self):
        return repeat(self.step, make_params(), self.optim.init(make_params()))


class Scales(eqx.Module):
    weight: jax.Array
    scale: typing.Callable

    def __call__(self, x):
        scale = self.scale if hasattr(self, "scale") else abs

        class Scaled(eqx.Module):
            def __init__(self):
                super().__init__()

            def __call__(self, x):
                return scale(x)

        return Scaled()(self.weight * x)


class TwoSteps:
    def __init__(self, jit, rate):
        self.rate = rate
        self.train, self.evaluate = jit(self.train), jit(self._evaluate)

    def train(self, x):
        return x - self.rate * x

    def _evaluate(self, x):
        return jax.tree.map(self.train, x) * self.rate


class Named:
    def __init__(self, rate, name):
        self.rate, self.name = rate, name


@dataclasses.dataclass
class Decay:
    decay: float = 1.0


class Base:
    def _train(self, x):
        return x - self.config.rate * x * self.settings.decay


class Nested(pydantic.BaseModel, frozen=True):
    rate: float


class Checked(pydantic.BaseModel):
    nested: Nested
    layers: list[int] = [4]
    limit: int | None = None


@typing.runtime_checkable
class Trains(typing.Protocol):
    def _train(self, x): ...


@attrs.define  # with slots
class Rated:
    x: jax.Array = attrs.field(converter=jnp.asarray)
    rate: float = attrs.field(default=0.5, validator=attrs.validators.instance_of(float))


class LargeTrainer(Base):
    """Has much that its step does not read, and that differs from fit to fit."""

    def __init__(self, jit, seed):
        self.config, self.seed, self.lock = Named(0.5, f"run {seed}"), seed, threading.Lock()
        self.data, self.history = [jnp.asarray(np.arange(3.0))] * seed, [seed] * 30_000
        self.settings = Decay()
        self.build(jit)

    def build(self, jit):
        self.train = jit(self._train)

    def _train(self, x):
        return super()._train(x)


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell

    def __init__(self, key):
        self.cell = eqx.nn.GRUCell(1, 4, key=key)

    def __call__(self, x):
        step = lambda hidden, x: (self.cell(x, hidden), None)
        return jax.lax.scan(step, jnp.zeros(4), x[:, None])[0].sum()


OPTIMIZERS = {
    "canonopt_of_raw_schedule": lambda: canonopt.adam(optax.cosine_decay_schedule(0.1, 10)),
    "canonopt_of_spec_schedule": lambda: canonopt.adam(canonopt.cosine_decay_schedule(0.1, 10)),
} | {
    f"optax_of_{name}": lambda build=build: optax.adam(build(optax))
    for name, build in catalogue.SCHEDULES.items()
}
MODELS = {
    "model_relu": make_mlp,
    "model_lambda": lambda key: make_mlp(key, activation=lambda x: x * jax.nn.sigmoid(x)),
    "model_partial": lambda key: make_mlp(key, activation=functools.partial(jax.nn.elu, alpha=0.5)),
    "model_recurrent": Recurrent,
    "model_convolution": lambda key: eqx.nn.Sequential(
        [eqx.nn.Lambda(jnp.atleast_2d), eqx.nn.Conv1d(1, 2, 2, key=key), eqx.nn.Lambda(jnp.sum)]
    ),
}

for name, make in OPTIMIZERS.items():
    add(name, lambda jit, key, make=make: train(jit, key, optim=make()))

for name in ("canonopt_of_spec_schedule", "optax_of_cosine_decay_schedule"):
    fit = lambda jit, key, make=OPTIMIZERS[name]: Trainer(jit, key, make()).fit()
    add(f"trainer_with_{name}", fit, tolerance=1e-6)

for name, make in MODELS.items():
    fit = lambda jit, key, make=make: train(jit, key, model_loss, make(key))
    add(name, fit, "filter_jit")

fit = lambda jit, key: train(jit, key, jit(lambda *a: model_loss(*a)), make_mlp(key))
add("jitted_loss_of_a_model", fit, "filter_jit")
add("donate_argnums", lambda jit, key: train(jit, key, donate_argnums=(0, 1)), "jit")


AROUND = {
    "value_and_grad": eqx.filter_value_and_grad,
    "grad": eqx.filter_grad,
    "vmap": lambda fn: eqx.filter_vmap(fn, in_axes=(None, 0)),
    "checkpoint": eqx.filter_checkpoint,
    "nested": lambda fn: eqx.filter_vmap(eqx.filter_grad(fn), in_axes=(None, 0)),
}


def fit_around(jit, key, around):
    x, y = make_data(key)

    def loss(layer, x):
        return jnp.sum((layer.weight * x - y) ** 2)

    return jit(around(loss))(eqx.nn.Linear(8, 8, key=key), x[:, 0])


for name, around in AROUND.items():
    fit = functools.partial(fit_around, around=around)
    add(f"in_a_{name}_of_equinox", fit, "filter_jit", tolerance=1e-6)


def solve(field, y0):
    term, times = diffrax.ODETerm(field), diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 3))
    return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.5, y0, saveat=times).ys[-1]


class Linear(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(1)(x)[:, 0]


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["scale"])
@dataclasses.dataclass
class Node:
    w: jax.Array
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Settings:
    name: str = "tanh"
    sizes: tuple[int, ...] = (1, 2)

    def loss(self, params, x, y):
        return square_loss(params, getattr(jnp, self.name)(x), y) * sum(self.sizes)


class Mode(enum.Enum):
    TRAIN = "train"
    TEST = "test"


@jax.custom_jvp
def soft_abs(x):
    return jnp.sqrt(x**2 + 1)


soft_abs.defjvps(lambda dx, answer, x: x / answer * dx)

LOG = logging.getLogger(__name__)
TABLE = jnp.asarray(np.linspace(0.5, 1.5, 3, dtype=np.float32))


def make_losses(jit, key):
    """Makes losses that capture constants, and losses that capture arrays."""
    mode, settings = Mode.TRAIN, Settings()
    hidden = jax.checkpoint(lambda x: jnp.tanh(x) * 2)
    make_scale = lambda **options: lambda x: Node(x, **options).scale * x
    empty, scaled = make_scale(), make_scale(scale=2.0)
    factor, with_rule = 0.5, jax.custom_jvp(lambda x: x * 2)
    with_rule.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * factor))

    def constants(params, x, y):
        scale = np.pi / np.sqrt(2) + math.sqrt(2) * np.prod(x.shape) + math.pi - np.log(2 * np.pi)
        return square_loss(params, x, y) * scale

    def local_lists_and_dicts(params, x, y):
        values, named = [], {}
        for i, name in enumerate(("first", "second")):
            values.append(square_loss(params, x * (i + 1), y))
            named[name] = values[-1] * 2
        values.extend([v * 2 for v in values])
        named["third"] = named.pop("first") + named.get("fourth", 0.0)
        return jnp.stack(values).mean() + sum(named.values())

    def checks_and_prints(params, x, y):
        print("tracing")
        if x.shape[1] != 3:
            raise ValueError(f"expected three features, got {x.shape[1]}")
        return square_loss(params, getattr(jax.nn, "relu")(x), y)  # noqa: B009

    @jaxtyped(typechecker=beartype)
    def checked_types(params: dict, x: Float[Array, "n 3"], y: Float[Array, "n"]) -> jax.Array:
        return square_loss(params, x, y)

    return {
        "constants": constants,
        "local_lists_and_dicts": local_lists_and_dicts,
        "checks_and_prints": checks_and_prints,
        "checked_types": checked_types,
        "jitted_loss": jit(lambda *args: square_loss(*args)),
        "enum_equals": lambda *args: square_loss(*args) * (2 if mode == Mode.TRAIN else 1),
        "enum_is": lambda *args: square_loss(*args) * (2 if mode is Mode.TRAIN else 1),
        "keywords": lambda params, x, y: square_loss(params, empty(scaled(x)), y),
        "settings": lambda *args: settings.loss(*args),
        "partial_of_settings": functools.partial(Settings.loss, settings),
        "checkpoint": lambda params, x, y: square_loss(params, hidden(x), y),
        "custom_jvp": lambda params, x, y: jnp.mean(soft_abs(x @ params["w"] - y)),
        "rule_with_a_number": lambda params, x, y: square_loss(params, with_rule(x), y),
    }, {
        "key": lambda params, x, y: square_loss(params, x + jax.random.normal(key, x.shape), y),
        "table_of_the_module": lambda params, x, y: square_loss(params, x * TABLE, y),
    }


for i, tolerance in enumerate([0.0, 1e-6]):
    for name in make_losses(jax.jit, None)[i]:
        fit = lambda jit, key, i=i, n=name: train(jit, key, make_losses(jit, key)[i][n])
        add(f"captured_{name}", fit, tolerance=tolerance)


# Bodies of fits: functions of `jit` and `key`. After the name, with which jit, if not with both,
# and whether arrays are captured: they are constants of the program of JAX, which XLA may fold.
TEXT = """
### folds, captures
def fit_fold(x, y, x_test, y_test):
    loss = jit(lambda params: square_loss(params, x, y))
    step = jit(lambda params: (descend(params, jax.grad(loss)(params)),))
    score = jit(lambda params: square_loss(params, x_test, y_test))
    return score(*repeat(step, make_params()))
x, y = make_data(key)
parts = [np.arange(8) // 2 == fold for fold in range(4)]
return [fit_fold(x[~part], y[~part], x[part], y[part]) for part in parts]
### model with dropout, filter_jit
@jit
def step(model, key, x, y):
    key, *keys = jax.random.split(key, 9)
    loss = lambda model: jnp.mean((jax.vmap(model)(x, key=jnp.stack(keys)) - y) ** 2)
    return descend(model, eqx.filter_grad(loss)(model)), key
model = eqx.nn.Sequential([eqx.nn.Dropout(0.5), make_mlp(key)])
return repeat(step, model, key, data=make_data(key))[0]
### model with batch norm, filter_jit
def loss(model, state, x, y):
    batched = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    predicted, state = batched(x, state)
    return jnp.mean((predicted - y[:, None]) ** 2), state
@jit
def step(model, state, x, y):
    grads, state = eqx.filter_grad(loss, has_aux=True)(model, state, x, y)
    return descend(model, grads), state
norm = functools.partial(eqx.nn.BatchNorm, axis_name="batch", mode="batch")
make = lambda: eqx.nn.Sequential([eqx.nn.Linear(3, 1, key=key), norm(1)])
return repeat(step, *eqx.nn.make_with_state(make)(), data=make_data(key))
### diffrax model, filter_jit slow
loss = lambda mlp, x, y: jnp.mean((solve(lambda t, y, args: mlp(y), x[0]) - y[0]) ** 2)
return train(jit, key, loss, eqx.nn.MLP(3, 3, 4, 1, key=key))
### returns sentinels, filter_jit
spec, x = jax.sharding.PartitionSpec("data"), make_data(key)[0]
result = jit(lambda x: (x * 2, spec, None, jnp.float32, jax.nn.relu, np.dtype("int8")))(x)
assert result[1] is spec
return result
### a dead weak reference
import weakref
held = functools.partial(weakref.ref(set()))
return jit(lambda x: x * 2 if held.func() is None else x)(make_data(key)[0])
### flax linen
model = Linear()
loss = lambda params, x, y: jnp.mean((model.apply(params, x) - y) ** 2)
return train(jit, key, loss, model.init(key, jnp.ones((8, 3))))
### flax train state
from flax.training.train_state import TrainState
@jit
def step(state, x, y):
    grads = jax.grad(lambda p: jnp.mean((state.apply_fn(p, x) - y) ** 2))(state.params)
    return (state.apply_gradients(grads=grads),)
model = Linear()
made = {"apply_fn": model.apply, "tx": optax.adam(0.1)}
first = TrainState.create(params=model.init(key, jnp.ones((8, 3))), **made)
(found,) = repeat(step, first := canonopt.canonicalize(first), data=make_data(key))
assert found.tx is first.tx
return found
### flax nnx
graph, params = flax.nnx.split(flax.nnx.Linear(3, 1, rngs=flax.nnx.Rngs(key)))
model = lambda params, x: flax.nnx.merge(graph, params)(x)[:, 0]
loss = lambda params, x, y: jnp.mean((model(params, x) - y) ** 2)
return train(jit, key, loss, params)
### scan over epochs, captures
x, y = make_data(key)
optim = optax.adam(optax.cosine_decay_schedule(1e-2, 100))
def epoch(carry, _):
    params, opt_state = carry
    value, grads = jax.value_and_grad(square_loss)(params, x, y)
    updates, opt_state = optim.update(grads, opt_state, params)
    return (optax.apply_updates(params, updates), opt_state), value
run = jit(lambda *carry: jax.lax.scan(epoch, carry, None, length=5))
return run(make_params(), optim.init(make_params()))
### ensemble
step = lambda p, x, y: (descend(p, jax.grad(square_loss)(p, x, y)),)
params = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), make_params())
return repeat(jit(jax.vmap(step, (0, None, None))), params, data=make_data(key))
### trainer of two steps
trainer, (x, _) = TwoSteps(jit, 0.5), make_data(key)
return trainer.train(x), trainer.evaluate(x)
### trainer with more than its step reads
trainer, (x, _) = LargeTrainer(jit, int(jax.random.key_data(key)[-1])), make_data(key)
trainer.history.append(trainer.train(x))
return trainer.history[-1]
### settings of pydantic and a function of NumPy, captures
settings, reduce, (x, _) = Checked(nested=Nested(rate=0.5)), np.prod, make_data(key)
return jit(lambda w: w - settings.nested.rate * reduce((1, 2)) * (w - x))(jnp.zeros_like(x))
### settings of attrs with slots, captures
settings = Rated(make_data(key)[0])
return jit(lambda w: w - settings.rate * (w - settings.x))(jnp.zeros((8, 3)))
### a module of nnx, jit
model = flax.nnx.Linear(3, 2, rngs=flax.nnx.Rngs(0))
return jit(lambda model, x: model(x))(model, make_data(key)[0])
### a message when it is traced
def step(w, x):
    LOG.debug("traced for %s", w.shape)
    return w - 0.1 * (w - x)
x, _ = make_data(key)
return jit(step)(jnp.zeros_like(x), x)
### a class that a protocol asks, captures
Trains.__annotations__  # which Python 3.11 adds to the class at the first `isinstance`
x, made = make_data(key)[0], Base()
return jit(lambda w: w - x * (0.5 if isinstance(made, Trains) else 0.1))(jnp.zeros_like(x))
### trees of output shardings, jit captures
(x, y), place = make_data(key), jax.sharding.SingleDeviceSharding(jax.devices()[1])
step = jit(lambda w: (w - x, {"loss": w.sum()}), out_shardings=(place, {"loss": None}))
return step(jnp.zeros_like(x))
### a module with the name of an attribute of arrays, captures
x = make_data(key)[0]
def step(w):
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.lax.with_sharding_constraint(w - x, place)
return jit(step)(jnp.zeros_like(x))
### a sparse matrix
x = make_data(key)[0]
return jit(lambda matrix, x: x @ matrix)(sparse.BCOO.fromdense(jnp.eye(3)), x)
### settings in a namespace, captures
settings = types.SimpleNamespace(rate=0.5, x=make_data(key)[0])
return jit(lambda w: w - settings.rate * (w - settings.x))(jnp.zeros((8, 3)))
### modules of a library that a step holds, captures
x, held = make_data(key)[0], types.SimpleNamespace(lax=jax.lax, jax=jax)
step = lambda w, np=jnp: np.sin(x) - held.lax.cos(w) * held.jax.nn.relu(w)
return jit(step)(jnp.zeros_like(x))
### a submodule that a step imports, captures
x = make_data(key)[0]
def step(w):
    import tests.support as support
    return w - x * len(support.__name__)
return jit(step)(jnp.zeros_like(x))
### a module and a function by its name, filter_jit
model, name = eqx.nn.Linear(3, 2, key=key), "tanh"
return jit(lambda model, x: getattr(jnp, name)(model(x)))(model, jnp.ones(3))
### the names of variables beside functions of NumPy and of jax.random
def step(w, key):
    noise = np.log(2.0) * jax.random.uniform(key)
    return w + locals()["noise"]
return jit(step)(jnp.ones(3), key)
### a class that a method makes beside a look at an attribute, filter_jit
return jit(lambda model, x: model(x))(Scales(jnp.ones(3), lambda x: 2 * x), jnp.ones(3))
### a type that names another
kinds = typing.Union["Tree", int]
return jit(lambda w: w * len(kinds.__args__))(make_data(key)[0])
### transformed then jitted, jit
params, (x, y) = make_params(), make_data(key)
def loss(params, x, y):
    return square_loss(params, x, y)
def mean(params, x, y):
    return jax.lax.pmean(square_loss(params, x, y), "i")
from jax.sharding import Mesh, PartitionSpec
mesh = Mesh(jax.devices()[:2], ("i",))
whole, batch = PartitionSpec(), PartitionSpec("i")
mean = jax.shard_map(mean, mesh=mesh, in_specs=(whole, batch, batch), out_specs=whole)
functions = mean, jax.checkpoint(loss), jax.value_and_grad(loss), jax.vmap(loss, (None, 0, 0))
return [jit(fn)(params, x, y) for fn in functions]
### transformations of a jitted loss
x, y = make_data(key)
loss, params = jit(lambda *args: square_loss(*args)), make_params()
inner = jax.jit(loss)
functions = jax.grad(loss), jax.checkpoint(loss), jax.vmap(loss, (None, 0, 0)), loss
functions += (functools.wraps(inner)(lambda *args: inner(*args)),)
return [jit(fn)(params, x, y) for fn in functions]
"""


for name, (options, body) in named_texts(TEXT).items():
    marks = [pytest.mark.slow] * ("slow" in options)
    tolerance = 1e-6 if "captures" in options else 0.0
    fit = defined("fit", body, globals(), "jit, key")
    add(name, fit, *(JITS.keys() & {*options.split()}), tolerance=tolerance, marks=marks)


@pytest.mark.parametrize("fit, ours, theirs, tolerance", CASES)
def test_further_fits_trace_and_compile_nothing(fit, ours, theirs, tolerance):
    keys = [jax.random.key(trial) for trial in range(3)]
    results = [fit(ours, keys[0])]
    before = all_compiles()
    with canonopt.compile_log() as log:
        results += [fit(ours, key) for key in keys[1:]]
    assert [entry.name for entry in log.functions if entry.traces] == [], str(log)
    assert all_compiles() == before
    for key, result in zip(keys[::2], results[::2], strict=True):
        pair = [jax.tree.leaves(eqx.filter(t, eqx.is_array)) for t in (result, fit(theirs, key))]
        for our, their in zip(*pair, strict=True):
            assert (our.dtype, our.shape) == (their.dtype, their.shape)
            np.testing.assert_allclose(our, their, rtol=tolerance, atol=tolerance)
