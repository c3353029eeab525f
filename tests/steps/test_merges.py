"""Fits whose step is made again and does the same trace and compile nothing.

Each case is a fit that makes its data, model, optimizer and step from a key, with `canonopt.jit`
or `canonopt.filter_jit`. Fits with further keys run the programs of the first, and return the
numbers of `jax.jit` and `equinox.filter_jit`.
"""

# ruff: noqa: F722, F821  the annotations of jaxtyping

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from beartype import beartype
from jaxtyping import Array, Float, jaxtyped

import canonopt

from ..support import catalogue
from ..support.counting import all_compiles

JITS = {
    "jit": (canonopt.jit, jax.jit),
    "filter_jit": (canonopt.filter_jit, eqx.filter_jit),
}
CASES = []


def case(*jits, name=None, tolerance=0.0, marks=()):
    """Adds a fit to the table, once with each of the jits."""

    def add(fit):
        for jit in jits or JITS:
            values = fit, *JITS[jit], tolerance
            CASES.append(pytest.param(*values, id=f"{name or fit.__name__}-{jit}", marks=marks))

    return add


# Captured arrays are constants of the program of JAX, which XLA may fold.
captures_arrays = functools.partial(case, tolerance=1e-6)


# --- what the fits have in common -----------------------------------------------------------------


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
    """Calls a step with its own outputs."""
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


# --- optimizers and schedules ---------------------------------------------------------------------

OPTIMIZERS = {
    f"adam_of_{name}": lambda build=build: optax.adam(build(optax))
    for name, build in catalogue.SCHEDULES.items()
} | {
    "canonopt_of_raw_schedule": lambda: canonopt.adam(optax.cosine_decay_schedule(0.1, 10)),
    "canonopt_of_spec_schedule": lambda: canonopt.adam(canonopt.cosine_decay_schedule(0.1, 10)),
}

for name, make in OPTIMIZERS.items():
    case(name=name)(lambda jit, key, make=make: train(jit, key, optim=make()))


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


@captures_arrays()
def trainer_with_a_spec(jit, key):
    return Trainer(jit, key, canonopt.adam(1e-2)).fit()


@captures_arrays()
def trainer_with_raw_optax(jit, key):
    return Trainer(jit, key, optax.adam(optax.cosine_decay_schedule(1e-2, 100))).fit()


# --- jitted functions in a step -------------------------------------------------------------------


@case()
def jitted_loss(jit, key):
    return train(jit, key, jit(lambda *args: square_loss(*args)))


@case("filter_jit")
def jitted_loss_of_a_model(jit, key):
    return train(jit, key, jit(lambda *args: model_loss(*args)), make_mlp(key))


@case("filter_jit")
def jitted_value_and_grad(jit, key):
    @jit
    @eqx.filter_value_and_grad
    def grad_loss(model, x, y):
        return model_loss(model, x, y)

    @jit
    def step(model, value, x, y):
        value, grads = grad_loss(model, x, y)
        return descend(model, grads), value

    return repeat(step, make_mlp(key), jnp.zeros(()), data=make_data(key))


@captures_arrays()
def folds(jit, key):
    def fit_fold(x, y, x_test, y_test):
        loss = jit(lambda params: square_loss(params, x, y))
        step = jit(lambda params: (descend(params, jax.grad(loss)(params)),))
        score = jit(lambda params: square_loss(params, x_test, y_test))
        return score(*repeat(step, make_params()))

    x, y = make_data(key)
    parts = [np.arange(8) // 2 == fold for fold in range(4)]
    return [fit_fold(x[~part], y[~part], x[part], y[part]) for part in parts]


# --- models that are arguments --------------------------------------------------------------------


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell

    def __init__(self, key):
        self.cell = eqx.nn.GRUCell(1, 4, key=key)

    def __call__(self, x):
        step = lambda hidden, x: (self.cell(x, hidden), None)  # noqa: E731
        return jax.lax.scan(step, jnp.zeros(4), x[:, None])[0].sum()


class Convolution(eqx.Module):
    conv: eqx.nn.Conv1d
    activation: Callable

    def __init__(self, key):
        self.conv = eqx.nn.Conv1d(1, 2, 2, key=key)
        self.activation = lambda x: jax.nn.relu(x) * 2

    def __call__(self, x):
        return self.activation(self.conv(x[None])).sum()


class Field(eqx.Module):
    decay: jax.Array

    def __call__(self, t, y, args):
        return -self.decay * y


def solve(field, y0):
    times = {"t0": 0.0, "t1": 1.0, "dt0": 0.5}
    term, solver = diffrax.ODETerm(field), diffrax.Euler()
    return diffrax.diffeqsolve(term, solver, **times, y0=y0, max_steps=2).ys[0]


def normalized_loss(model, state, x, y):
    batched = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    predicted, state = batched(x, state)
    return jnp.mean((predicted - y[:, None]) ** 2), state


class Dense(flax.linen.Module):
    activation: Callable

    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(1)(self.activation(flax.linen.Dense(4)(x)))[:, 0]


MODELS = {
    "relu": make_mlp,
    "lambda": lambda key: make_mlp(key, activation=lambda x: x * jax.nn.sigmoid(x)),
    "partial": lambda key: make_mlp(key, activation=functools.partial(jax.nn.elu, alpha=0.5)),
    "recurrent": Recurrent,
    "convolution": Convolution,
}

for name, make in MODELS.items():
    fit = lambda jit, key, make=make: train(jit, key, model_loss, make(key))  # noqa: E731
    case("filter_jit", name=f"model_{name}")(fit)


@case("filter_jit")
def model_with_dropout(jit, key):
    @jit
    def step(model, key, x, y):
        key, *keys = jax.random.split(key, 9)
        loss = lambda model: jnp.mean((jax.vmap(model)(x, key=jnp.stack(keys)) - y) ** 2)  # noqa: E731
        return descend(model, eqx.filter_grad(loss)(model)), key

    model = eqx.nn.Sequential([eqx.nn.Dropout(0.5), make_mlp(key)])
    return repeat(step, model, key, data=make_data(key))[0]


@case("filter_jit")
def model_with_batch_norm(jit, key):
    @jit
    def step(model, state, x, y):
        grads, state = eqx.filter_grad(normalized_loss, has_aux=True)(model, state, x, y)
        return descend(model, grads), state

    norm = functools.partial(eqx.nn.BatchNorm, axis_name="batch", mode="batch")
    make = lambda: eqx.nn.Sequential([eqx.nn.Linear(3, 1, key=key), norm(1)])  # noqa: E731
    return repeat(step, *eqx.nn.make_with_state(make)(), data=make_data(key))


@case("filter_jit", marks=pytest.mark.slow)
def diffrax_model(jit, key):
    loss = lambda field, x, y: jnp.mean((solve(field, x) - x) ** 2)  # noqa: E731
    return train(jit, key, loss, Field(jax.random.normal(key, 3)))


@case("filter_jit", marks=pytest.mark.slow)
def diffrax_closure(jit, key):
    decay = 0.5

    def loss(params, x, y):
        return jnp.mean((solve(lambda t, y, args: params["w"] - decay * y, x) - x) ** 2)

    return train(jit, key, loss)


@case()
def flax_linen(jit, key):
    model = Dense(flax.linen.relu)
    loss = lambda params, x, y: jnp.mean((model.apply(params, x) - y) ** 2)  # noqa: E731
    return train(jit, key, loss, model.init(key, jnp.ones((8, 3))))


@case()
def flax_nnx(jit, key):
    graph, params = flax.nnx.split(flax.nnx.Linear(3, 1, rngs=flax.nnx.Rngs(key)))
    loss = lambda params, *data: normalized(flax.nnx.merge(graph, params), *data)  # noqa: E731
    normalized = lambda model, x, y: jnp.mean((model(x)[:, 0] - y) ** 2)  # noqa: E731
    return train(jit, key, loss, params)


# --- transformations of JAX, and trees ------------------------------------------------------------


@captures_arrays()
def scan_over_epochs(jit, key):
    x, y = make_data(key)
    optim = optax.adam(optax.cosine_decay_schedule(1e-2, 100))

    def epoch(carry, _):
        params, opt_state = carry
        value, grads = jax.value_and_grad(square_loss)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), value

    run = jit(lambda *carry: jax.lax.scan(epoch, carry, None, length=5))
    return run(make_params(), optim.init(make_params()))


@captures_arrays()
def fori_loop(jit, key):
    x, y = make_data(key)
    body = lambda _, params: descend(params, jax.grad(square_loss)(params, x, y))  # noqa: E731
    return jit(lambda params: jax.lax.fori_loop(0, 5, body, params))(make_params())


@case()
def ensemble(jit, key):
    step = lambda p, x, y: (descend(p, jax.grad(square_loss)(p, x, y)),)  # noqa: E731
    params = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), make_params())
    return repeat(jit(jax.vmap(step, (0, None, None))), params, data=make_data(key))


class State(NamedTuple):
    params: dict
    count: jax.Array


@case()
def named_tuple(jit, key):
    @jit
    def step(state, x, y):
        params = descend(state.params, jax.grad(square_loss)(state.params, x, y))
        return (state._replace(params=params, count=state.count + 1),)

    return repeat(step, State(make_params(), jnp.zeros((), int)), data=make_data(key))


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["scale"])
@dataclasses.dataclass
class Node:
    w: jax.Array
    scale: float = 1.0


@case()
def registered_dataclass(jit, key):
    loss = lambda node, x, y: jnp.mean((x @ node.w * node.scale - y) ** 2)  # noqa: E731
    return train(jit, key, loss, Node(jnp.zeros(3)))


@case("jit")
def static_argnums(jit, key):
    step = jit(lambda x, n, name: getattr(jnp, name)(x) * n, static_argnums=(1, 2))
    return [step(make_data(key)[0], n, name) for n, name in ((2, "tanh"), (3, "sin"))]


@case("jit")
def donate_argnums(jit, key):
    return train(jit, key, optim=canonopt.adam(0.1), donate_argnums=(0, 1))


# --- what a step captures, and plain Python in it -------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Settings:
    name: str = "tanh"
    sizes: tuple[int, ...] = (1, 2)

    def loss(self, params, x, y):
        return square_loss(params, getattr(jnp, self.name)(x), y) * sum(self.sizes)


@case()
def jitted_partial_of_settings(jit, key):
    step = lambda s, params, x, y: (descend(params, jax.grad(s.loss)(params, x, y)),)  # noqa: E731
    return repeat(jit(functools.partial(step, Settings())), make_params(), data=make_data(key))


class Mode(enum.Enum):
    TRAIN = "train"
    TEST = "test"


@jax.custom_jvp
def soft_abs(x):
    return jnp.sqrt(x**2 + 1)


soft_abs.defjvps(lambda dx, answer, x: x / answer * dx)

TABLE = np.linspace(0.5, 1.5, 3, dtype=np.float32)


def make_losses(key):
    """Makes losses again, with what they capture: constants, and arrays."""
    mode, settings, table = Mode.TRAIN, Settings(), TABLE.copy()
    hidden = jax.checkpoint(lambda x: jnp.tanh(x) * 2)

    def make_scale(**options):
        return lambda x: Node(x, **options).scale * x

    empty, scaled = make_scale(), make_scale(scale=2.0)

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
        "enum_equals": lambda *args: square_loss(*args) * (2 if mode == Mode.TRAIN else 1),
        "enum_is": lambda *args: square_loss(*args) * (2 if mode is Mode.TRAIN else 1),
        "keywords": lambda params, x, y: square_loss(params, empty(scaled(x)), y),
        "settings": lambda *args: settings.loss(*args),
        "partial_of_settings": functools.partial(Settings.loss, settings),
        "checkpoint": lambda params, x, y: square_loss(params, hidden(x), y),
        "custom_jvp": lambda params, x, y: jnp.mean(soft_abs(x @ params["w"] - y)),
    }, {
        "key": lambda params, x, y: square_loss(params, x + jax.random.normal(key, x.shape), y),
        "numpy_array": lambda params, x, y: square_loss(params, x * table, y),
        "table_of_the_module": lambda params, x, y: square_loss(params, x * TABLE, y),
    }


for i, (names, add) in enumerate(zip(make_losses(None), [case, captures_arrays], strict=True)):
    for name in names:
        fit = lambda jit, key, i=i, n=name: train(jit, key, make_losses(key)[i][n])  # noqa: E731
        add(name=f"captured_{name}")(fit)


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit, ours, theirs, tolerance", CASES)
def test_further_fits_trace_and_compile_nothing(fit, ours, theirs, tolerance):
    keys = [jax.random.key(trial) for trial in range(3)]
    results = [fit(ours, keys[0])]
    before = all_compiles()
    with canonopt.compile_log() as log:
        results += [fit(ours, key) for key in keys[1:]]
    assert [entry.name for entry in log.functions if entry.traces] == [], str(log)
    assert all_compiles() == before
    for key, result in zip(keys, results, strict=True):
        expected = eqx.filter(fit(theirs, key), eqx.is_array)
        jax.tree.map(
            functools.partial(assert_equal, tolerance), eqx.filter(result, eqx.is_array), expected
        )


def assert_equal(tolerance, ours, theirs):
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


class Scaled(eqx.Module):
    factor: Any
    power: int = 2

    def method(self, x):
        return self.factor * x**self.power


HOISTED = {
    "method_of_a_module": lambda: Scaled(1.0).method,
    "method_of_a_module_of_a_function": lambda: Scaled(jnp.tanh, power=3).method,
    "method_of_a_frozen_dataclass": lambda: Settings().loss,
    "itemgetter": lambda: operator.itemgetter(1, "b"),
    "itemgetter_of_a_slice": lambda: operator.itemgetter(slice(1, 3)),
    "attrgetter": lambda: operator.attrgetter("a", "b.c"),
    "methodcaller": lambda: operator.methodcaller("sum", axis=0),
    "partial_of_an_itemgetter": lambda: functools.partial(operator.itemgetter(1), (1, 2)),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("make", HOISTED.values(), ids=HOISTED)
def test_callables_are_hoisted_to_one_object(make, strict):
    hoisted = canonopt.hoist(make(), strict=strict)
    assert canonopt.hoist(make(), strict=strict) is hoisted
    assert canonopt.hoist(hoisted, strict=strict) is hoisted
