"""Optax's schedules, as functions that build specs."""

import optax.schedules

from ._spec import Mirror, find_in

_mirror = Mirror(optax.schedules, __name__, page="optimizer_schedules")

constant_schedule = _mirror.constant_schedule
cosine_decay_schedule = _mirror.cosine_decay_schedule
cosine_onecycle_schedule = _mirror.cosine_onecycle_schedule
exponential_decay = _mirror.exponential_decay
inject_hyperparams = _mirror.factory_of_factories("inject_hyperparams")
inject_stateful_hyperparams = _mirror.factory_of_factories("inject_stateful_hyperparams")
join_schedules = _mirror.join_schedules
linear_onecycle_schedule = _mirror.linear_onecycle_schedule
linear_schedule = _mirror.linear_schedule
piecewise_constant_schedule = _mirror.piecewise_constant_schedule
piecewise_interpolate_schedule = _mirror.piecewise_interpolate_schedule
polynomial_schedule = _mirror.polynomial_schedule
sgdr_schedule = _mirror.sgdr_schedule
warmup_constant_schedule = _mirror.warmup_constant_schedule
warmup_cosine_decay_schedule = _mirror.warmup_cosine_decay_schedule
warmup_exponential_decay_schedule = _mirror.warmup_exponential_decay_schedule

__all__ = _mirror.mirrored  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    return find_in(optax.schedules, name)
