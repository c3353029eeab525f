"""One object for each configuration, for as long as anything uses it, and no longer."""

import copy
import functools
import gc
import pickle
import threading

import cloudpickle
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import optax
import pytest
from hypothesis import given

import canonopt
from canonopt._identity import read

from ..support import catalogue
from ..support.catalogue import build
from ..support.counting import counted, in_threads
from ..support.values import LOOKALIKES

PLAIN = [value for value in LOOKALIKES if type(value) in (bool, int, float, str, bytes, type(None))]


@given(st.lists(st.sampled_from(PLAIN) | st.floats() | st.integers() | st.text() | st.binary()))
def test_plain_values_have_the_key_that_the_walk_gives_them(values):
    quick, walked = read((), values), read((), values, explain=True)
    assert quick.key == walked.key
    assert quick.is_comparable
    assert not quick.can_change


KEEPING = {
    "init": lambda optim: optim.init,
    "update": lambda optim: optim.update,
    "a chain of Optax": lambda optim: optax.chain(optim, optax.scale(1.0)),
}


@pytest.mark.parametrize("keep", KEEPING.values(), ids=KEEPING)
def test_what_is_reached_from_a_configuration_keeps_it(keep):
    identity = id(optim := canonopt.adam(0.77))
    kept = keep(optim)
    del optim
    gc.collect()
    assert id(canonopt.adam(0.77)) == identity
    assert isinstance(kept, tuple) or keep(canonopt.adam(0.77)) is kept


def test_threads_that_build_the_same_configurations_get_the_same_objects():
    """64 threads, 1,000 configurations, all built at once by each: one object each."""
    start = threading.Barrier(64)

    def work(order):
        start.wait()
        return {
            i: canonopt.chain(canonopt.clip(1.0 + i), canonopt.scale(1e-3 * (i % 7))) for i in order
        }

    orders = [range(1_000), range(999, -1, -1)] * 32
    results = in_threads(*(functools.partial(work, order) for order in orders))
    for i in range(1_000):
        assert len({id(result[i]) for result in results}) == 1


# --- copies and pickles -----------------------------------------------------------------------


@canonopt.canonical
def clipped(learning_rate, max_norm=1.0):
    return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))


class Nested:
    @staticmethod
    @canonopt.canonical
    def factory(scale):
        return optax.scale(scale)


# The entries of the table that hold a lambda, which pickle refuses.
WITH_LAMBDAS = frozenset(
    "adamw chain conditionally_mask conditionally_transform masked partition stateless "
    "stateless_with_tree_map contrib.scale_by_muon".split()
)


@pytest.mark.parametrize("name", [n for n in catalogue.ALL if n not in catalogue.WARNING])
def test_every_spec_survives_copies_and_pickles(name):
    spec = build(name, canonopt)
    assert copy.copy(spec) is spec
    assert copy.deepcopy(spec) is spec
    if name not in WITH_LAMBDAS:
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(spec, protocol)) is spec
        assert cloudpickle.loads(cloudpickle.dumps(spec)) is spec


@pytest.mark.parametrize(
    "value",
    [
        *(clipped(0.1), Nested.factory(2.0), canonopt.canonical(optax.noisy_sgd)(0.1, key=1)),
        *(canonopt.adam, clipped),
    ],
)
def test_factories_and_their_specs_survive_pickles(value):
    assert pickle.loads(pickle.dumps(value)) is value
    assert cloudpickle.loads(cloudpickle.dumps(value)) is value


def test_after_clearing_what_is_built_is_new_and_what_is_in_use_goes_on(restored_caches):
    def hoisted(factor):
        return canonopt.hoist(lambda x: factor * x)

    def builds():
        return (
            canonopt.adam(1e-3),
            canonopt.adam(learning_rate=1e-3),
            canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3)),
            canonopt.cosine_decay_schedule(1e-3, 10),
            hoisted(2.0),
        )

    step, count = counted(lambda optim: optim.init(jnp.ones(3)), jax.jit)
    before = builds()
    step(before[0])
    canonopt.clear_caches()
    after = builds()
    assert all(new is not old for new, old in zip(after, before, strict=True))
    assert after[0] is after[1] is canonopt.adam(lr=1e-3)
    assert before[0].replace(b1=0.5) is after[0].replace(b1=0.5)
    assert canonopt.hoist(before[-1]) is before[-1]
    assert (before[-1](3.0), after[-1](3.0)) == (6.0, 6.0)
    step(before[0])
    assert (count.traces, count.compiles) == (1, 1)
    step(after[0])
    assert (count.traces, count.compiles) == (2, 2)
    assert pickle.loads(pickle.dumps(before[0])) is after[0]
