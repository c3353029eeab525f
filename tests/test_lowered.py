"""Build optimizers again, and compare the programs for accelerators byte for byte."""

import jax
import jax.numpy as jnp
import pytest

import canonopt

from .support import catalogue
from .support.placements import OPTIMIZERS, build, parameters

PLATFORMS = ("tpu", "cuda")


def lowered(jitted, *args, platform):
    return jitted.trace(*args).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.usefixtures("restored_caches")
def test_a_rebuilt_optimizer(name):
    params, x = (jax.eval_shape(lambda x=x: x) for x in (parameters(), catalogue.batch()))
    texts = []
    for _ in range(2):
        canonopt.clear_caches()  # else the second optimizer is the first
        optim = build("canonopt", name)
        state = canonopt.init_like_grads(params, catalogue.loss_fn, x, optim=optim)
        step = jax.jit(lambda *args: catalogue.step_for(name)(*args), static_argnums=0)
        for platform in PLATFORMS:
            texts.append(lowered(step, optim, params, state, x, platform=platform))
    assert texts[:2] == texts[2:] and all("func.func" in text for text in texts)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_function_that_is_jitted_again(platform):
    texts = []
    for jit in (jax.jit, canonopt.jit, canonopt.jit):

        @jit
        def step(x):
            return jnp.tanh(x) @ x

        texts.append(lowered(step, jnp.ones((3, 3)), platform=platform))
    assert texts[0] == texts[1] == texts[2]
