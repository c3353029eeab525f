"""The libraries that take an optax transformation take a spec."""

import beartype
import chex
import jax
import jax.numpy as jnp
import jaxtyping
import optax

import canonopt

from .support.counting import counted

X = jnp.ones((2, 3))


def test_chex_counts_one_trace():
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(optim, params):
        return optim.init(params)

    for _ in range(3):
        step(canonopt.adam(1e-3), {"w": X})


def test_runtime_type_checkers_take_a_spec_for_a_transformation():
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def init(optim: optax.GradientTransformation, schedule: optax.Schedule) -> tuple:
        return optim.init({"w": X})

    init(canonopt.adam(1e-3), canonopt.constant_schedule(0.1))


def test_injected_hyperparameters_of_a_spec_factory():
    """optax's own wrapper calls the factory with tracers, inside the step."""
    optim = optax.inject_hyperparams(canonopt.adam)(learning_rate=0.1)
    params = {"w": X}
    step, count = counted(lambda params, state: optim.update(params, state, params))
    step = jax.jit(step)
    state = optim.init(params)
    for value in (0.1, 0.2):
        state.hyperparams["learning_rate"] = jnp.asarray(value, jnp.float32)
        updates, _ = step(params, state)
        assert abs(float(updates["w"][0, 0]) + value) < 1e-3
    assert (count.traces, count.compiles) == (1, 1)


def test_optax_wrappers_take_specs():
    params = {"w": X}
    for optim in (
        optax.MultiSteps(canonopt.adam(1e-3), 2).gradient_transformation(),
        optax.masked(canonopt.adam(1e-3), {"w": True}),
        optax.partition({"a": canonopt.adam(1e-3)}, {"w": "a"}),
        optax.apply_if_finite(canonopt.adam(1e-3), 2),
        optax.lookahead(canonopt.sgd(0.1), 2, 0.5),
        optax.inject_hyperparams(optax.sgd)(canonopt.linear_schedule(0.1, 0.0, 3)),
    ):
        assert isinstance(optim, optax.GradientTransformation)
    optim = optax.apply_if_finite(canonopt.adam(1e-3), 2)
    optim.update(params, optim.init(params), params)
