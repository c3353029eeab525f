"""Uses of a spec that type checkers accept."""

from collections.abc import Callable
from typing import Any, assert_type

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import canonopt

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

layer = eqx.nn.Linear(2, 1, key=jax.random.key(0))
opt_state = optim.init(layer)
updates, opt_state = optim.update(layer, opt_state, layer)
