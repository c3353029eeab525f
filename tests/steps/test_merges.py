"""Fits whose step is made again and does the same trace and compile nothing.

Each case below is a fit that makes its data, model, optimizer and step from a key, with `jax.jit`
or `canonopt.jit`, or those of Equinox. Fits with further keys are to run the programs of the first,
and to return the numbers of JAX and Equinox.
"""

# ruff: noqa: F722, F821  the annotations of jaxtyping

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import beartype
import diffrax
import equinox as eqx
import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
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
        return fit

    return add


# Captured arrays are constants of the program of JAX, which XLA may fold.
captures_arrays = functools.partial(case, tolerance=1e-6)
slow_case = functools.partial(case, marks=pytest.mark.slow)


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


def arrays_of(tree):
    return eqx.filter(tree, eqx.is_inexact_array)


def descend(params, grads):
    return eqx.apply_updates(params, jax.tree.map(lambda g: -0.1 * g, grads))


def repeat(step, *state, data=()):
    """Calls a step with its own outputs."""
    for _ in range(3):
        state = step(*state, *data)
    return state


def fit_loss(jit, key, loss, params=None, **options):
    """Trains with a step that captures the loss, and takes the data as arguments."""

    @functools.partial(jit, **options)
    def step(params, value, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return descend(params, grads), value

    params = make_params() if params is None else params
    return repeat(step, params, jnp.zeros(()), data=make_data(key))


def fit_optim(jit, key, optim, params=None, loss=square_loss):
    """Trains with a step that captures the optimizer."""

    @jit
    def step(params, opt_state, x, y):
        grads = eqx.filter_grad(loss)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state, arrays_of(params))
        return eqx.apply_updates(params, updates), opt_state

    params = make_params() if params is None else params
    return repeat(step, params, optim.init(arrays_of(params)), data=make_data(key))


def losses(*jits, **options):
    """Adds fits that differ in their loss, which `make(key)` makes."""

    def add(make):
        fit = lambda jit, key: fit_loss(jit, key, make(key))  # noqa: E731
        case(*jits, name=make.__name__, **options)(fit)
        return make

    return add


losses_of_arrays = functools.partial(losses, tolerance=1e-6)


# --- optimizers and schedules ---------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable] = {
    f"adam_of_{name}": lambda make=make: optax.adam(make(optax))
    for name, make in catalogue.SCHEDULES.items()
} | {
    "canonopt_of_raw_schedule": lambda: canonopt.adam(optax.cosine_decay_schedule(0.1, 10)),
    "canonopt_of_spec_schedule": lambda: canonopt.adam(canonopt.cosine_decay_schedule(0.1, 10)),
}

for name, make_optim in OPTIMIZERS.items():
    case(name=name)(lambda jit, key, make=make_optim: fit_optim(jit, key, make()))


# --- jitted functions in a step -------------------------------------------------------------------


@case()
def jitted_loss(jit, key):
    return fit_loss(jit, key, jit(lambda *args: square_loss(*args)))


@case("filter_jit")
def jitted_loss_of_a_model(jit, key):
    return fit_optim(jit, key, canonopt.adam(0.1), make_mlp(key), jit(lambda *a: model_loss(*a)))


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
def jitted_loss_that_captures_data(jit, key):
    x, y = make_data(key)
    loss = jit(lambda params: square_loss(params, x, y))
    step = jit(lambda params: (descend(params, jax.grad(loss)(params)),))
    return repeat(step, make_params())


# --- trainers -------------------------------------------------------------------------------------


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


for name, make_optim in {
    "spec": lambda: canonopt.adam(1e-2),
    "raw_optax": lambda: optax.adam(optax.cosine_decay_schedule(1e-2, 100)),
}.items():

    @captures_arrays(name=f"trainer_with_{name}")
    def _(jit, key, make_optim=make_optim):
        trainer, params = Trainer(jit, key, make_optim()), make_params()
        return repeat(trainer.step, params, trainer.optim.init(params))


# --- Diffrax --------------------------------------------------------------------------------------


def solve(field, y0, args=None):
    return diffrax.diffeqsolve(
        *(diffrax.ODETerm(field), diffrax.Euler(), 0.0, 1.0, 0.5, y0, args),
        max_steps=2,
    ).ys[0]


class Field(eqx.Module):
    rate: Array

    def __call__(self, t, y, args):
        return -self.rate * y


@slow_case("filter_jit")
def ode_of_a_model(jit, key):
    loss = lambda model, x, y: jnp.mean((solve(model, x) - x) ** 2)  # noqa: E731
    return fit_optim(jit, key, canonopt.sgd(0.1), Field(jax.random.normal(key, 3)), loss)


@slow_case("filter_jit")
def ode_of_a_closure(jit, key):
    decay = 0.5

    def loss(params, x, y):
        def field(t, y, args):
            return params["w"] - decay * y

        return jnp.mean((solve(field, x) - x) ** 2)

    return fit_optim(jit, key, canonopt.sgd(0.1), loss=loss)


# --- folds ----------------------------------------------------------------------------------------


@captures_arrays()
def folds(jit, key):
    def fit_fold(x, y, x_test, y_test):
        step = jit(lambda p: (descend(p, jax.grad(square_loss)(p, x, y)),))
        score = jit(lambda p: square_loss(p, x_test, y_test))
        return score(*repeat(step, make_params()))

    x, y = make_data(key)
    parts = [np.arange(8) // 2 == fold for fold in range(4)]
    return [fit_fold(x[~part], y[~part], x[part], y[part]) for part in parts]


# --- models that are arguments --------------------------------------------------------------------


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, key):
        self.cell = eqx.nn.GRUCell(1, 4, key=key)
        self.head = eqx.nn.Linear(4, "scalar", key=key)

    def __call__(self, x):
        hidden, _ = jax.lax.scan(lambda h, v: (self.cell(v, h), None), jnp.zeros(4), x[:, None])
        return self.head(hidden)


class Convolution(eqx.Module):
    conv: eqx.nn.Conv1d
    activation: Callable

    def __init__(self, key):
        self.conv = eqx.nn.Conv1d(1, 2, 2, key=key)
        self.activation = lambda x: jax.nn.relu(x) * 2

    def __call__(self, x):
        return self.activation(self.conv(x[None])).sum()


class Normalized(eqx.Module):
    norm: eqx.nn.BatchNorm
    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")
        self.mlp = make_mlp(key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.mlp(x), state


MODELS: dict[str, Callable] = {
    "relu": make_mlp,
    "lambda": lambda key: make_mlp(key, activation=lambda x: x * jax.nn.sigmoid(x)),
    "partial": lambda key: make_mlp(key, activation=functools.partial(jax.nn.elu, alpha=0.5)),
    "recurrent": Recurrent,
    "convolution": Convolution,
}

for name, make_model in MODELS.items():

    @case("filter_jit", name=f"model_{name}")
    def _(jit, key, make=make_model):
        return fit_optim(jit, key, canonopt.adam(1e-2), make(key), model_loss)


@case("filter_jit")
def model_with_dropout(jit, key):
    @jit
    def step(model, key, x, y):
        key, *keys = jax.random.split(key, 9)
        drop = lambda x, key: model(eqx.nn.Dropout(0.5)(x, key=key))  # noqa: E731

        def loss(model):
            return jnp.mean((jax.vmap(model)(x, jnp.stack(keys)) - y) ** 2)

        return descend(model, eqx.filter_grad(loss)(model)), key

    mlp = make_mlp(key)
    model = eqx.nn.Sequential([eqx.nn.Dropout(0.5), eqx.nn.Lambda(jnp.tanh), mlp])
    return repeat(step, model, key, data=make_data(key))[0]


@case("filter_jit")
def model_with_batch_norm(jit, key):
    @jit
    def step(model, state, x, y):
        def loss(model, state):
            batched = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
            predicted, state = batched(x, state)
            return jnp.mean((predicted - y) ** 2), state

        grads, state = eqx.filter_grad(loss, has_aux=True)(model, state)
        return descend(model, grads), state

    return repeat(step, *eqx.nn.make_with_state(Normalized)(key), data=make_data(key))


class Dense(flax.linen.Module):
    activation: Callable

    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(1)(self.activation(flax.linen.Dense(4)(x)))[:, 0]


@case("jit")
def linen(jit, key):
    model = Dense(flax.linen.relu)
    loss = lambda params, x, y: jnp.mean((model.apply(params, x) - y) ** 2)  # noqa: E731
    return fit_loss(jit, key, loss, model.init(key, jnp.ones((8, 3))))


@case("jit")
def nnx(jit, key):
    model, params = flax.nnx.split(flax.nnx.Linear(3, 1, rngs=flax.nnx.Rngs(key)))

    def loss(params, x, y):
        return jnp.mean((flax.nnx.merge(model, params)(x)[:, 0] - y) ** 2)

    return fit_loss(jit, key, loss, params)


# --- transformations of JAX -----------------------------------------------------------------------


@captures_arrays()
def scan_over_epochs(jit, key):
    x, y = make_data(key)
    optim = optax.adam(optax.cosine_decay_schedule(1e-2, 100))

    @jit
    def run(params, opt_state):
        def epoch(carry, _):
            params, opt_state = carry
            value, grads = jax.value_and_grad(square_loss)(params, x, y)
            updates, opt_state = optim.update(grads, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), value

        return jax.lax.scan(epoch, (params, opt_state), None, length=5)

    params = make_params()
    return run(params, optim.init(params))


@captures_arrays()
def fori_loop(jit, key):
    x, y = make_data(key)

    @jit
    def run(params):
        body = lambda _, p: descend(p, jax.grad(square_loss)(p, x, y))  # noqa: E731
        return jax.lax.fori_loop(0, 5, body, params)

    return run(make_params())


@case()
def ensemble(jit, key):
    optim = canonopt.adam(1e-2)

    @jit
    @functools.partial(jax.vmap, in_axes=(0, 0, None, None))
    def step(params, opt_state, x, y):
        grads = jax.grad(square_loss)(params, x, y)
        updates, opt_state = optim.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    params = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), make_params())
    return repeat(step, params, jax.vmap(optim.init)(params), data=make_data(key))


@losses()
def checkpoint(key):
    hidden = jax.checkpoint(lambda x: jnp.tanh(x) * 2)
    return lambda params, x, y: square_loss(params, hidden(x), y)


@jax.custom_jvp
def soft_abs(x):
    return jnp.sqrt(x**2 + 1)


@soft_abs.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    return soft_abs(x), x / soft_abs(x) * dx


@losses()
def custom_jvp(key):
    return lambda params, x, y: jnp.mean(soft_abs(x @ params["w"] - y))


# --- what a step captures -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    name: str = "tanh"
    sizes: tuple[int, ...] = (1, 2)

    def loss(self, params, x, y):
        activation = getattr(jnp, self.name)
        return self.rate * square_loss(params, activation(x), y) * sum(self.sizes)


class Mode(enum.Enum):
    TRAIN = "train"
    TEST = "test"


class State(NamedTuple):
    params: dict
    count: jax.Array


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["scale"])
@dataclasses.dataclass
class Node:
    w: jax.Array
    scale: float = 1.0


TABLE = np.linspace(0.5, 1.5, 3, dtype=np.float32)


@losses()
def frozen_dataclass(key):
    settings = Settings()
    return lambda *args: settings.loss(*args)


@losses()
def partial_of_settings(key):
    return functools.partial(Settings.loss, Settings())


@case()
def jitted_partial_of_settings(jit, key):
    def step(settings, params, x, y):
        return (descend(params, jax.grad(settings.loss)(params, x, y)),)

    return repeat(jit(functools.partial(step, Settings())), make_params(), data=make_data(key))


@losses()
def enum_compared(key):
    mode = Mode.TRAIN
    return lambda *args: square_loss(*args) * (2.0 if mode == Mode.TRAIN else 1.0)


@losses()
def enum_compared_with_is(key):
    mode = Mode.TRAIN
    return lambda *args: square_loss(*args) * (2.0 if mode is Mode.TRAIN else 1.0)


@losses_of_arrays()
def table_of_the_module(key):
    return lambda params, x, y: square_loss(params, x * TABLE, y)


@losses_of_arrays()
def captured_table(key):
    table = np.linspace(0.5, 1.5, 3, dtype=np.float32)
    return lambda params, x, y: square_loss(params, x * table, y)


@losses_of_arrays()
def captured_key(key):
    return lambda params, x, y: square_loss(params, x + jax.random.normal(key, x.shape), y)


@losses()
def captured_keywords(key):
    def make(**options):
        return lambda params, x, y: jnp.mean(Node(params["w"], **options).scale * x @ params["w"])

    empty, scaled = make(), make(scale=2.0)
    return lambda *args: empty(*args) + scaled(*args)


@case()
def named_tuple_state(jit, key):
    @jit
    def step(state, x, y):
        params = descend(state.params, jax.grad(square_loss)(state.params, x, y))
        return (state._replace(params=params, count=state.count + 1),)

    return repeat(step, State(make_params(), jnp.zeros((), int)), data=make_data(key))


@case()
def registered_dataclass(jit, key):
    loss = lambda node, x, y: jnp.mean((x @ node.w * node.scale - y) ** 2)  # noqa: E731
    return fit_loss(jit, key, loss, Node(jnp.zeros(3)))


@case("jit")
def static_argnums(jit, key):
    step = jit(lambda x, n, name: getattr(jnp, name)(x) * n, static_argnums=(1, 2))
    return [step(make_data(key)[0], n, name) for n, name in ((2, "tanh"), (3, "sin"))]


@case("jit")
def donate_argnums(jit, key):
    return fit_loss(jit, key, lambda *args: square_loss(*args), donate_argnums=(0, 1))


# --- plain Python in the body ---------------------------------------------------------------------


@losses()
def constants(key):
    def loss(params, x, y):
        scale = np.pi / np.sqrt(2) + math.sqrt(2) * np.prod(x.shape) + math.pi - np.log(2 * np.pi)
        return square_loss(params, x, y) * scale

    return loss


@losses()
def local_lists_and_dicts(key):
    def loss(params, x, y):
        values, named = [], {}
        for i, name in enumerate(("first", "second")):
            values.append(square_loss(params, x * (i + 1), y))
            named[name] = values[-1] * 2
        values.extend([v * 2 for v in values])
        named["third"] = named.pop("first") + named.get("fourth", 0.0)
        return jnp.stack(values).mean() + sum(named.values())

    return loss


@losses()
def checks_and_prints(key):
    def loss(params, x, y):
        print("tracing")
        if x.shape[1] != 3:
            raise ValueError(f"expected three features, got {x.shape[1]}")
        return square_loss(params, getattr(jax.nn, "relu")(x), y)  # noqa: B009

    return loss


@losses()
def checked_types(key):
    @jaxtyped(typechecker=beartype.beartype)
    def loss(params: dict, x: Float[Array, "n 3"], y: Float[Array, "n"]) -> Float[Array, ""]:
        return square_loss(params, x, y)

    return loss


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
        assert_equal(result, fit(theirs, key), tolerance)


def assert_equal(ours, theirs, tolerance):
    ours, theirs = (jax.tree.leaves(eqx.filter(t, eqx.is_array)) for t in (ours, theirs))
    assert [(x.dtype, x.shape) for x in ours] == [(x.dtype, x.shape) for x in theirs] != []
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, rtol=tolerance, atol=tolerance)


# --- callables that are hoisted -------------------------------------------------------------------


class Scaled(eqx.Module):
    factor: Any
    power: int = 2

    def method(self, x):
        return self.factor * x**self.power


HOISTED = {
    "method_of_a_module": lambda: Scaled(1.0).method,
    "method_of_a_module_with_a_function": lambda: Scaled(jnp.tanh, power=3).method,
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
