"""The table of all mirrored factories: how to call each factory of Optax.

Each entry takes a namespace, `optax` or `canonopt`, and builds the same thing from it. Tests that
speak of "every optimizer" or "every factory" are parametrised with this table.
"""

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

Build = Callable[[Any], Any]


def _called(names: str, *args: Any) -> dict[str, Build]:
    """Return entries for factories that are called with the same arguments."""

    def build(name: str, o: Any) -> Any:
        return operator.attrgetter(name)(o)(*args)

    return {name: functools.partial(build, name) for name in names.split()}


def calls(text: str) -> dict[str, Build]:
    """Return entries for calls of factories, one on each line, where `o` is the namespace."""
    lines = text.strip().splitlines()
    return {line.partition("(")[0]: eval(f"lambda o: o.{line}", globals()) for line in lines}


_WITH_A_RATE = """
adabelief adadelta adagrad adam adamax adamaxw adan amsgrad fromage lamb lars lion nadam nadamw
novograd optimistic_adam_v2 optimistic_gradient_descent radam rprop sign_sgd signum sm3 yogi
contrib.acprop contrib.ademamix contrib.adopt contrib.madgrad contrib.muon
contrib.schedule_free_adamw contrib.schedule_free_sgd contrib.simplified_ademamix
"""
_WITHOUT_A_RATE = """
polyak_sgd contrib.cocob contrib.dadapt_adamw contrib.dog contrib.dowg contrib.momo
contrib.momo_adam contrib.prodigy
"""
_OF_A_TENTH = """
adaptive_grad_clip clip clip_by_block_rms clip_by_global_norm scale scale_by_learning_rate
contrib.scale_by_madgrad
"""
_OF_NOTHING = """
centralize identity keep_params_nonnegative normalize_by_update_norm scale_by_adadelta
scale_by_adamax scale_by_adan scale_by_amsgrad scale_by_belief scale_by_distance_over_gradients
scale_by_lion scale_by_novograd scale_by_optimistic_gradient scale_by_param_block_norm
scale_by_param_block_rms scale_by_polyak scale_by_radam scale_by_rms scale_by_rss scale_by_sign
scale_by_sm3 scale_by_stddev scale_by_trust_ratio scale_by_yogi set_to_zero zero_nans
contrib.normalize contrib.scale_by_acprop contrib.scale_by_ademamix contrib.scale_by_adopt
contrib.scale_by_cocob contrib.scale_by_simplified_ademamix
"""

_is_matrix = lambda params: jax.tree.map(lambda x: x.ndim > 1, params)  # noqa: E731
_labels = {"w": "matrix", "b": "vector"}

OPTIMIZERS = _called(_WITH_A_RATE, 1e-3) | _called(_WITHOUT_A_RATE)
OPTIMIZERS |= calls("""
adafactor(1e-3, min_dim_size_to_factor=4)
adamw(1e-3, mask=lambda p: jax.tree.map(lambda x: x.ndim > 1, p))
lbfgs(memory_size=2, linesearch=o.scale_by_zoom_linesearch(max_linesearch_steps=2))
noisy_sgd(1e-3, key=0)
rmsprop(o.exponential_decay(1e-3, 10, 0.9))
sgd(o.linear_schedule(1e-2, 1e-3, 20), momentum=0.9, nesterov=True)
contrib.galore(1e-3, rank=2)
contrib.sam(o.sgd(1e-3), o.chain(o.contrib.normalize(), o.sgd(1e-2)))
contrib.schedule_free(o.sgd(1e-3), 1e-3)
contrib.sophia(1e-3, hessian_diagonal_fn=o.contrib.hutchinson_estimator_diag_hessian())
""")

# Optimizers that warn when built, or need gradients or parameters of a special form.
SPECIAL_OPTIMIZERS = calls("""
optimistic_adam(1e-3)
contrib.dpsgd(1e-3, 1.0, 0.1, seed=0)
lookahead(o.sgd(1e-3), 5, 0.5)
contrib.differentially_private_aggregate(1.0, 0.1, key=0)
""")

TRANSFORMS = _called(_OF_A_TENTH, 0.1) | _called(_OF_NOTHING)
TRANSFORMS |= calls("""
scale_by_rprop(1e-3)
MultiSteps(o.adam(1e-3), every_k_schedule=2)
add_decayed_weights(0.1, mask={"w": True, "b": False})
add_noise(0.1, 0.5, key=0)
apply_every(2)
apply_if_finite(o.sgd(0.1), max_consecutive_errors=3)
chain(o.clip_by_global_norm(1.0), o.adam(1e-3), optax.scale(0.5))
conditionally_mask(o.sgd(0.1), lambda step: step % 2 == 0)
conditionally_transform(o.sgd(0.1), lambda step, value: value < step, forward_extra_args=True)
ema(0.9, accumulator_dtype=jnp.float32)
flatten(o.adam(1e-3))
freeze({"w": True, "b": False})
masked(o.adam(1e-3), _is_matrix)
monitor({"norm": optax.tree.norm, "copy": o.identity()})
multi_transform({"matrix": o.adam(1e-3), "vector": o.sgd(0.1)}, _labels)
named_chain(("clip", o.clip(0.1)), ("adam", o.adam(1e-3)))
partition({"matrix": o.adam(1e-3), "vector": o.set_to_zero()}, lambda params: _labels)
scale_by_adam(mu_dtype="bfloat16")
scale_by_backtracking_linesearch(3)
scale_by_factored_rms(min_dim_size_to_factor=4)
scale_by_lbfgs(memory_size=2)
scale_by_schedule(o.linear_schedule(0.1, 0.2, 5))
scale_by_zoom_linesearch(2)
selective_transform(o.adam(1e-3), freeze_mask={"w": True, "b": False})
snapshot("norm", optax.tree.norm)
stateless(lambda u, p: jax.tree.map(lambda x: 2 * x, u))
stateless_with_tree_map(lambda u, p: 2 * u)
trace(0.9)
with_extra_args_support(o.scale(0.1))
contrib.hutchinson_estimator_diag_hessian()
contrib.mechanize(o.sgd(0.1))
contrib.reduce_on_plateau(patience=2)
contrib.scale_by_galore(rank=2)
contrib.scale_by_muon(weight_dimension_numbers={"w": optax.contrib.MuonDimensionNumbers()})
contrib.split_real_and_imaginary(o.adam(0.1))
schedules.inject_hyperparams(optax.adam)(learning_rate=o.linear_schedule(0.1, 0.2, 5), b1=0.8)
""")
TRANSFORMS["measure_with_ema"] = lambda o: o.monitor(
    {"ema": o.measure_with_ema(optax.tree.norm, 0.9)}
)

SPECIAL_TRANSFORMS = calls("schedules.inject_stateful_hyperparams(optax.sgd)(0.1)")

SCHEDULES = calls("""
constant_schedule(0.1)
cosine_decay_schedule(0.1, 10)
cosine_onecycle_schedule(10, 0.1)
exponential_decay(0.1, 10, 0.9, staircase=True)
join_schedules([o.linear_schedule(0.0, 0.1, 5), o.constant_schedule(0.1)], [5])
linear_onecycle_schedule(10, 0.1)
linear_schedule(0.1, 0.0, 10)
piecewise_constant_schedule(0.1, {5: 0.5})
piecewise_interpolate_schedule("cosine", 0.1, {5: 0.5})
polynomial_schedule(0.1, 0.0, 2, 10)
sgdr_schedule([dict(init_value=0.0, peak_value=0.1, decay_steps=10, warmup_steps=2, end_value=0.0)])
warmup_constant_schedule(0.0, 0.1, 5)
warmup_cosine_decay_schedule(0.0, 0.1, 5, 10)
warmup_exponential_decay_schedule(0.0, 0.1, 5, 10, 0.9)
""")

ALL: dict[str, Build] = (
    OPTIMIZERS | SPECIAL_OPTIMIZERS | TRANSFORMS | SPECIAL_TRANSFORMS | SCHEDULES
)
# The factories that warn in Optax and in canonopt.
_DEPRECATED = "optimistic_adam contrib.dpsgd schedules.inject_stateful_hyperparams"
WARNING = dict.fromkeys(_DEPRECATED.split(), DeprecationWarning)

# The extra arguments that `update` needs or may take. No optimizer takes all of them.
_OF_A_LINESEARCH = "lbfgs scale_by_backtracking_linesearch scale_by_zoom_linesearch"
_OF_THE_VALUE = """
polyak_sgd scale_by_polyak conditionally_transform contrib.momo contrib.momo_adam
contrib.reduce_on_plateau
"""
_OF_THE_LOSS = "contrib.sophia contrib.hutchinson_estimator_diag_hessian"
EXTRA_ARGS = {
    **dict.fromkeys(_OF_A_LINESEARCH.split(), ("value", "grad", "value_fn")),
    **dict.fromkeys(_OF_THE_VALUE.split(), ("value",)),
    **dict.fromkeys(_OF_THE_LOSS.split(), ("obj_fn",)),
}


def parameters(name: str) -> Any:
    """Return parameters to train with the entry `name`: for most, a matrix and a vector."""
    weight = jax.random.normal(jax.random.key(0), (8, 8))
    params = {"w": weight, "b": jnp.linspace(-1.0, 1.0, 8)}
    if name == "contrib.scale_by_muon":
        return {"w": weight}
    return optax.LookaheadParams.init_synced(params) if name == "lookahead" else params


def batch() -> jax.Array:
    return jax.random.normal(jax.random.key(1), (4, 8))


def loss_fn(params: Any, x: jax.Array) -> jax.Array:
    return jnp.mean((x @ params["w"] + params.get("b", 0.0)) ** 2)


def step_for(
    name: str, value_and_grad: Callable = jax.value_and_grad, apply: Callable = optax.apply_updates
) -> Callable[[Any, Any, Any, jax.Array], tuple[Any, Any]]:
    """Return a training step that gives the entry `name` the arguments that it needs."""

    def step(optim: Any, params: Any, opt_state: Any, x: jax.Array) -> tuple[Any, Any]:
        fast = params.fast if name == "lookahead" else params
        value, grads = value_and_grad(loss_fn)(fast, x)
        if name in ("contrib.dpsgd", "contrib.differentially_private_aggregate"):
            grads = jax.vmap(jax.grad(loss_fn), (None, 0))(params, x[:, None])
        known = {"value": value, "grad": grads}
        known["value_fn"] = known["obj_fn"] = lambda params: loss_fn(params, x)
        extra_args = {key: known[key] for key in EXTRA_ARGS.get(name, ())}
        updates, opt_state = optim.update(grads, opt_state, params, **extra_args)
        return apply(params, updates), opt_state

    return step


TRANSFORMATIONS = {n: b for n, b in ALL.items() if n not in SCHEDULES}


def build(name, namespace, table=ALL):
    """Build the transformation or schedule `name` of Optax or canonopt, without warnings."""
    with warnings.catch_warnings():
        if name in WARNING:
            warnings.simplefilter("ignore")
        built = table[name](namespace)
    # optax.MultiSteps is the one factory whose result is not a transformation itself.
    return built.gradient_transformation() if type(built) is optax.MultiSteps else built
