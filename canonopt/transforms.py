"""Optax's transformations, to chain and to wrap, as functions that build specs."""

import optax

from ._spec import Mirror, find_in

_mirror = Mirror(optax, __name__, page="transformations")

adaptive_grad_clip = _mirror.adaptive_grad_clip
add_decayed_weights = _mirror.add_decayed_weights
add_noise = _mirror.add_noise
apply_every = _mirror.apply_every
apply_if_finite = _mirror.apply_if_finite
centralize = _mirror.centralize
chain = _mirror.chain
clip = _mirror.clip
clip_by_block_rms = _mirror.clip_by_block_rms
clip_by_global_norm = _mirror.clip_by_global_norm
conditionally_mask = _mirror.conditionally_mask
conditionally_transform = _mirror.conditionally_transform
ema = _mirror.ema
flatten = _mirror.flatten
freeze = _mirror.freeze
identity = _mirror.identity
keep_params_nonnegative = _mirror.keep_params_nonnegative
lookahead = _mirror.lookahead
masked = _mirror.masked
measure_with_ema = _mirror.measure_with_ema
monitor = _mirror.monitor
MultiSteps = _mirror.MultiSteps
named_chain = _mirror.named_chain
normalize_by_update_norm = _mirror.normalize_by_update_norm
partition = _mirror.partition
scale = _mirror.scale
scale_by_adadelta = _mirror.scale_by_adadelta
scale_by_adam = _mirror.scale_by_adam
scale_by_adamax = _mirror.scale_by_adamax
scale_by_adan = _mirror.scale_by_adan
scale_by_amsgrad = _mirror.scale_by_amsgrad
scale_by_backtracking_linesearch = _mirror.scale_by_backtracking_linesearch
scale_by_belief = _mirror.scale_by_belief
scale_by_distance_over_gradients = _mirror.scale_by_distance_over_gradients
scale_by_factored_rms = _mirror.scale_by_factored_rms
scale_by_lbfgs = _mirror.scale_by_lbfgs
scale_by_learning_rate = _mirror.scale_by_learning_rate
scale_by_lion = _mirror.scale_by_lion
scale_by_novograd = _mirror.scale_by_novograd
scale_by_optimistic_gradient = _mirror.scale_by_optimistic_gradient
scale_by_param_block_norm = _mirror.scale_by_param_block_norm
scale_by_param_block_rms = _mirror.scale_by_param_block_rms
scale_by_polyak = _mirror.scale_by_polyak
scale_by_radam = _mirror.scale_by_radam
scale_by_rms = _mirror.scale_by_rms
scale_by_rprop = _mirror.scale_by_rprop
scale_by_rss = _mirror.scale_by_rss
scale_by_schedule = _mirror.scale_by_schedule
scale_by_sign = _mirror.scale_by_sign
scale_by_sm3 = _mirror.scale_by_sm3
scale_by_stddev = _mirror.scale_by_stddev
scale_by_trust_ratio = _mirror.scale_by_trust_ratio
scale_by_yogi = _mirror.scale_by_yogi
scale_by_zoom_linesearch = _mirror.scale_by_zoom_linesearch
selective_transform = _mirror.selective_transform
set_to_zero = _mirror.set_to_zero
snapshot = _mirror.snapshot
stateless = _mirror.stateless
stateless_with_tree_map = _mirror.stateless_with_tree_map
trace = _mirror.trace
with_extra_args_support = _mirror.with_extra_args_support
zero_nans = _mirror.zero_nans

multi_transform = _mirror.multi_transform  # optax's own alias of partition

__all__ = _mirror.mirrored  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    return find_in(optax, name)
