"""Factories and specs, as type checkers must accept them."""

import functools
from collections.abc import Callable
from typing import Any, assert_type

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import canonopt
from canonopt.losses import l2_loss

# --- a drop-in for optax ---

assert_type(canonopt.global_norm({"w": jnp.ones(2)}), jax.Array)
canonopt.losses.l2_loss(jnp.ones(2))
l2_loss(jnp.ones(2))
canonopt.tree.norm({"w": jnp.ones(2)})
canonopt.contrib.MuonDimensionNumbers()
transformation: canonopt.GradientTransformation = optax.sgd(0.1)
rate: canonopt.ScalarOrSchedule = canonopt.schedules.constant_schedule(0.1)
canonopt.apply_updates(params={"w": jnp.ones(2)}, updates={"w": jnp.ones(2)})

schedule = canonopt.cosine_decay_schedule(1e-3, decay_steps=100)

# --- a learning rate, and its alias ---

assert_type(canonopt.adam(1e-3), canonopt.Spec)
assert_type(canonopt.adam(lr=1e-3), canonopt.Spec)
canonopt.adam(learning_rate=1e-3)
canonopt.adam(lr=1e-3, b1=0.95)
canonopt.adam(lr=optax.linear_schedule(1.0, 0.0, 10))
canonopt.adam(lr=jnp.asarray(1e-3), b1=np.float32(0.9), mu_dtype=jnp.bfloat16)
canonopt.adamw(schedule, weight_decay=1e-2, mask=lambda params: params)
canonopt.adamw(lr=1, mask={"weight": True, "bias": False})
canonopt.lbfgs(lr=None, linesearch=None)
canonopt.transforms.scale_by_learning_rate(lr=0.1, flip_sign=False)
canonopt.contrib.muon(lr=0.02, ns_steps=5, adam_learning_rate=schedule)
canonopt.contrib.dpsgd(lr=0.1, l2_norm_clip=1.0, noise_multiplier=1.0, seed=0)
canonopt.contrib.schedule_free(canonopt.sgd(0.1), 0.1, 0.9)
functools.partial(canonopt.adam, b1=0.9)

# --- transformations of transformations ---

assert_type(canonopt.chain(canonopt.clip(1.0), canonopt.adam(lr=schedule)), canonopt.Spec)
canonopt.chain(optax.clip(1.0), canonopt.sgd(0.1))
canonopt.named_chain(("clip", canonopt.clip_by_global_norm(1.0)), ("sgd", optax.sgd(0.1)))
canonopt.partition(
    {"train": canonopt.adam(lr=1e-3), "freeze": canonopt.set_to_zero()}, lambda params: "train"
)
canonopt.masked(inner=optax.sgd(0.1), mask=lambda params: params)
canonopt.stateless(lambda updates, params: updates)
assert_type(canonopt.MultiSteps(canonopt.adam(1e-3), every_k_schedule=4), canonopt.MultiSteps)

# --- hyperparameters in the state; each may be a schedule ---

injected = canonopt.inject_hyperparams(canonopt.adam)
assert_type(injected(learning_rate=schedule, b1=schedule), canonopt.Spec)
canonopt.inject_hyperparams(optax.adamw, static_args="mask", hyperparam_dtype=jnp.float32)(1e-3)

# --- schedules ---

assert_type(canonopt.linear_schedule(1.0, 0.0, 100), canonopt.ScheduleSpec)
canonopt.schedules.warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=10, decay_steps=100)
canonopt.join_schedules([schedule, optax.constant_schedule(0.1)], boundaries=[10])
canonopt.piecewise_constant_schedule(1.0, {10: 0.1, 20: 0.1})

optim = canonopt.adam(lr=1e-3)
schedule = canonopt.linear_schedule(1.0, 0.0, transition_steps=4)
params = {"weight": jnp.ones(2)}


# --- where optax's own types are asked for ---


def take_transformation(transform: optax.GradientTransformation) -> None: ...
def take_extra_args(transform: optax.GradientTransformationExtraArgs) -> None: ...
def take_schedule(schedule: optax.Schedule) -> None: ...
def take_scalar_or_schedule(value: optax.ScalarOrSchedule) -> None: ...


take_transformation(optim)
take_extra_args(optim)
take_extra_args(canonopt.MultiSteps(optim, 2))
take_schedule(schedule)
take_scalar_or_schedule(schedule)
optax.chain(optim, optax.scale_by_schedule(schedule))
optax.adam(schedule)
optax.MultiSteps(optim, every_k_schedule=2)
optax.inject_hyperparams(canonopt.adam)(learning_rate=schedule)
transforms: list[optax.GradientTransformation] = [optim, optax.sgd(0.1)]

# --- what it has itself ---

init, update = optim
opt_state = optim.init(params)
updates, opt_state = optim.update(params, opt_state)
updates, opt_state = optim.update(params, opt_state, params, value=jnp.zeros(()))
optax.apply_updates(params, updates)
assert_type(optim.replace(lr=3e-4), canonopt.Spec)
assert_type(attrs.evolve(optim, learning_rate=3e-4), canonopt.Spec)
assert_type(optim.parameters(), dict[str, Any])
print(optim.learning_rate, optim.lr, optim.b1)
assert_type(schedule.replace(end_value=0.1), canonopt.ScheduleSpec)
assert_type(attrs.evolve(schedule, end_value=0.1), canonopt.ScheduleSpec)
float(jnp.asarray(schedule(0)))
counts = {optim: 1, schedule: 2}


# --- with models ---


def loss_fn(model: eqx.nn.MLP, x: jax.Array) -> jax.Array:
    return jnp.mean(jax.vmap(model)(x))


model = eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0))
x = jnp.ones((3, 2))
optim.init_like_grads(model, loss_fn, x)
canonopt.init_like_grads(model, loss_fn, x, optim=optim)
canonopt.init_like_grads(model, loss_fn, x, optim=optax.sgd(0.1), has_aux=False)
canonopt.grads_like(model, loss_fn, x)
optim.init(eqx.filter(model, eqx.is_array))


# --- a factory of one's own ---


@canonopt.canonical
def clipped_sgd(
    learning_rate: float, *, max_norm: float = 1.0
) -> optax.GradientTransformationExtraArgs:
    return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))


@canonopt.canonical
def halving(value: float, every: int = 10) -> optax.Schedule:
    return lambda count: value * 0.5 ** (jnp.asarray(count) // every)


assert_type(clipped_sgd(0.1, max_norm=2.0), canonopt.Spec)
assert_type(halving(1.0, every=5), canonopt.ScheduleSpec)
assert_type(canonopt.canonical(optax.sign_sgd)(0.1), canonopt.Spec)
assert_type(canonopt.canonical(optax.adam)(1e-3, b1=0.95), canonopt.Spec)
assert_type(canonopt.canonical(optax.constant_schedule)(1.0), canonopt.ScheduleSpec)
keeps: Callable[[float, int], canonopt.ScheduleSpec] = halving
canonopt.adam(halving(1e-3))

# --- steps keep the signature of their function ---


@canonopt.jit
def step(x: jax.Array, scale: float = 1.0) -> jax.Array:
    return x * scale


@canonopt.jit(static_argnames="count")
def repeated(x: jax.Array, *, count: int) -> tuple[jax.Array, int]:
    return x, count


class Trainer:
    @canonopt.jit(static_argnums=0)
    def step(self, x: jax.Array) -> jax.Array:
        return x


assert_type(step(jnp.ones(2)), jax.Array)
assert_type(step(jnp.ones(2), scale=2.0), jax.Array)
assert_type(repeated(jnp.ones(2), count=2), tuple[jax.Array, int])
assert_type(Trainer().step(jnp.ones(2)), jax.Array)
assert_type(canonopt.hoist(step)(jnp.ones(2)), jax.Array)
step.lower(jnp.ones(2)).compile()
step.clear_cache()
keeps_signature: Callable[[jax.Array], jax.Array] = step
