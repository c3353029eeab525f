"""Steps with specs: the numbers of optax to the bit, one trace and one compile."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

from .support import catalogue
from .support.catalogue import TRANSFORMATIONS, build
from .support.counting import counted
from .support.values import bits

OPTIMIZERS = catalogue.OPTIMIZERS | catalogue.SPECIAL_OPTIMIZERS


def train(name, optim, step, steps):
    params = catalogue.parameters(name)
    opt_state = optim.init(params)
    for _ in range(steps):
        params, opt_state = step(optim, params, opt_state, catalogue.batch())
    return params, opt_state


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_ten_steps_equal_those_of_optax_to_the_bit(name):
    step = jax.jit(catalogue.step_for(name), static_argnums=0)
    ours = train(name, build(name, canonopt), step, 10)
    theirs = train(name, build(name, optax), step, 10)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("name", catalogue.SCHEDULES)
def test_schedules_equal_those_of_optax_to_the_bit(name):
    ours, theirs = catalogue.ALL[name](canonopt), catalogue.ALL[name](optax)
    counts = jnp.arange(20)
    assert bits(jax.jit(jax.vmap(ours))(counts)) == bits(jax.jit(jax.vmap(theirs))(counts))
    assert isinstance(ours, canonopt.ScheduleSpec)


class State(eqx.Module):
    optim: canonopt.Spec
    opt_state: optax.OptState


def as_field(step):
    def with_state(state, params, x):
        params, opt_state = step(state.optim, params, state.opt_state, x)
        return params, State(state.optim, opt_state)

    with_state.__name__ = step.__name__
    jitted = jax.jit(with_state)

    def call(optim, params, opt_state, x):
        params, state = jitted(State(optim, opt_state), params, x)
        assert state.optim is optim
        return params, state.opt_state

    return call


# Every way for a few, and one for every optimizer: each is one object, however often it is built.
WAYS = [functools.partial(jax.jit, static_argnums=0), eqx.filter_jit, as_field]
REBUILT = sorted({*OPTIMIZERS, "contrib.reduce_on_plateau"} - {"lookahead"})
SOME = ["adam", "lbfgs", "sgd", "contrib.schedule_free"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, wrap",
    [*((name, jax.jit) for name in OPTIMIZERS), *((name, wrap) for name in SOME for wrap in WAYS)],
)
def test_twenty_rebuilt_optimizers_are_one_trace_and_one_compile(name, wrap):
    step, count = counted(catalogue.step_for(name), wrap)
    params = catalogue.parameters(name)
    # The state is jitted too: what it needs to be stable from the first step on is the business
    # of init_like_grads, and not of this test.
    opt_state = jax.jit(build(name, canonopt).init)(params)
    params, opt_state = jax.tree.map(jnp.copy, (params, opt_state))
    for _ in range(20):
        step(build(name, canonopt), params, opt_state, catalogue.batch())
    assert (count.traces, count.compiles) == (1, 1)


def lowered(jitted, *args, platform):
    return jitted.trace(*args).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", REBUILT)
@pytest.mark.usefixtures("restored_caches")
def test_a_rebuilt_optimizer_has_the_same_program(name):
    given = catalogue.parameters(name), catalogue.batch()
    params, x = (jax.eval_shape(lambda x=x: x) for x in given)
    texts = []
    for _ in range(2):
        canonopt.clear_caches()  # else the second optimizer is the first
        optim = build(name, canonopt)
        state = canonopt.init_like_grads(params, catalogue.loss_fn, x, optim=optim)
        step = jax.jit(lambda *args: catalogue.step_for(name)(*args), static_argnums=0)
        for platform in ("tpu", "cuda"):
            texts.append(lowered(step, optim, params, state, x, platform=platform))
    assert texts[:2] == texts[2:] and all("func.func" in text for text in texts)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_a_function_that_is_jitted_again_has_the_same_program(platform):
    texts = []
    for jit in (jax.jit, canonopt.jit, canonopt.jit):

        @jit
        def step(x):
            return jnp.tanh(x) @ x

        texts.append(lowered(step, jnp.ones((3, 3)), platform=platform))
    assert texts[0] == texts[1] == texts[2]
