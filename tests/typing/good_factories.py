"""Calls of factories that type checkers must accept."""

import functools
from typing import assert_type

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
canonopt.sgd(lr=0.1, momentum=0.9, nesterov=True)
canonopt.adafactor(lr=1e-3)
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
canonopt.masked(canonopt.sgd(0.1), {"weight": True})
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
