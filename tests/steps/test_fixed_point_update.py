"""Extra arguments of updates: which are found, and what is raised for the others."""

import re

import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

from ..support.counting import counted


def loss_fn(params, x):
    return jnp.sum((x @ params["w"] + params["b"]) ** 2)


def parameters():
    return {"w": jnp.ones((8, 8)), "b": jnp.ones(8)}


X = jnp.ones((8, 8))


@pytest.mark.parametrize(
    "build",
    [
        canonopt.polyak_sgd,
        canonopt.lbfgs,
        canonopt.contrib.momo,
        lambda: canonopt.contrib.sophia(1e-3),
        lambda: canonopt.chain(canonopt.sgd(0.1), canonopt.contrib.reduce_on_plateau()),
    ],
    ids=["polyak_sgd", "lbfgs", "momo", "sophia", "reduce_on_plateau"],
)
def test_extra_arguments_that_come_from_the_loss_are_known(build):
    loss, count = counted(loss_fn)
    canonopt.init_like_grads(parameters(), loss, X, optim=build())
    assert (count.traces, count.compiles) == (1, 0)


# Each with the update of another transformation inside.
WRAPPERS = {
    "itself": lambda tx: tx,
    "chain": lambda tx: optax.chain(optax.scale(1.0), optax.chain(tx)),
    "masked": lambda tx: optax.masked(tx, {"w": True, "b": False}),
    "partition": lambda tx: optax.partition({"a": tx}, {"w": "a", "b": "a"}),
    "MultiSteps": lambda tx: canonopt.MultiSteps(tx, 2),
    "canonopt": lambda tx: canonopt.apply_if_finite(tx, 3),
}


@pytest.mark.parametrize("build", WRAPPERS.values(), ids=WRAPPERS)
def test_arguments_of_a_wrapped_update_are_found_too(build):
    given = []

    def update(updates, state, params=None, *, value, grad=None, **extra_args):
        given.append({"value", *([] if grad is None else ["grad"]), *extra_args})
        return updates, state + value

    optim = build(optax.GradientTransformationExtraArgs(lambda params: jnp.zeros(()), update))
    canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert given and all(names == {"value", "grad"} for names in given)


@pytest.mark.parametrize(
    "build",
    [
        lambda: optax.inject_hyperparams(optax.polyak_sgd)(max_learning_rate=0.1),
        lambda: canonopt.polyak_sgd(canonopt.dynamic(0.1)),
        lambda: canonopt.inject_hyperparams(optax.polyak_sgd)(max_learning_rate=0.1),
    ],
    ids=["inject_hyperparams", "dynamic", "canonopt.inject_hyperparams"],
)
def test_arguments_of_an_update_that_is_made_during_the_call_are_found_too(build):
    canonopt.init_like_grads(parameters(), loss_fn, X, optim=build())


def test_arguments_of_a_function_that_an_update_calls_are_found_too():
    optim = optax.conditionally_transform(
        optax.adam(1e-3), lambda step, value: value > 0, forward_extra_args=True
    )
    canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)


def test_failed_tries_leak_no_tracers():
    with jax.checking_leaks():
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=canonopt.polyak_sgd())


def test_an_unknown_required_argument_is_named():
    def update(updates, state, params=None, *, temperature, **extra_args):
        return updates, state + temperature

    optim = optax.GradientTransformationExtraArgs(lambda params: jnp.zeros(()), update)
    message = re.escape(
        "needs temperature, which init_like_grads does not know. Pass what the step passes: "
        "init_like_grads(..., extra_args={'temperature': ...})."
    )
    for build in WRAPPERS.values():
        with pytest.raises(canonopt.errors.ExtraArgsError, match=message) as caught:
            canonopt.init_like_grads(parameters(), loss_fn, X, optim=build(optim))
        assert caught.value.path == "temperature"
        assert isinstance(caught.value.__cause__, TypeError)
    state = canonopt.init_like_grads(
        parameters(), loss_fn, X, optim=optim, extra_args={"temperature": jnp.float32(1.0)}
    )
    assert float(state) == 0.0


def test_an_argument_that_optax_requires_in_spite_of_a_default():
    """No signature tells, so optax's own error is raised, and a note names the argument."""
    optim = canonopt.contrib.sam(canonopt.sgd(0.1), canonopt.sgd(0.1), opaque_mode=True)
    with pytest.raises(ValueError, match="grad_fn must be provided") as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert caught.value.__notes__[-1] == (
        "The update also takes grad_fn. If the step passes that, write "
        "init_like_grads(..., extra_args={'grad_fn': ...})."
    )
    state = canonopt.init_like_grads(
        parameters(),
        loss_fn,
        X,
        optim=optim,
        extra_args={"grad_fn": lambda params, _: jax.grad(loss_fn)(params, X)},
    )
    assert int(state.steps_since_sync) == 0


def test_a_helper_with_required_arguments_is_not_taken_for_an_update():
    def helper(x, y, z, *, scale):
        return x * scale

    def update(updates, state, params=None, **extra_args):
        raise ValueError(helper(2, 1, 1, scale=3))

    optim = optax.GradientTransformationExtraArgs(lambda params: (), update)
    with pytest.raises(ValueError, match="6") as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert "also takes" not in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "error, text",
    [
        (ValueError("the mask for 'w' is missing"), "the mask for 'w' is missing"),
        (None, r"helper\(\) missing 1 required positional argument: 'scale'"),
    ],
)
def test_errors_about_something_else_are_not_about_extra_arguments(error, text):
    def helper(x, scale):
        return x * scale

    def update(updates, state, params=None):
        if error is not None:
            raise error
        return jax.tree.map(helper, updates), state

    optim = optax.GradientTransformation(lambda params: (), update)
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        canonopt.init_like_grads(parameters(), loss_fn, X, optim=optim)
    assert not isinstance(caught.value, canonopt.CanonoptError)
    assert "was tracing the update of the optimizer" in "".join(caught.value.__notes__)
