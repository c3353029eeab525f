"""Dynamic specs in use: sweeps, ensembles, changes in mid-training, and what is refused."""

import gc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import canonopt
from canonopt import errors

from .support.counting import counted
from .support.doctor import printed_by
from .support.values import bits

PARAMS = {"w": jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": jnp.ones(3)}
GRADS = jax.tree.map(jnp.sin, PARAMS)


def train_step(optim, params, opt_state):
    updates, opt_state = optim.update(GRADS, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def chain(peak):
    schedule = canonopt.warmup_cosine_decay_schedule(0.0, peak, 2, 10)
    return canonopt.chain(canonopt.clip_by_global_norm(1.0), canonopt.adamw(schedule, b2=0.99))


# --- by path --------------------------------------------------------------------------------------


def test_hyperparameters_are_listed_by_path():
    listed = canonopt.dynamic(chain(1e-3), "peak_value").hyperparameters()
    assert listed["args[0].max_norm"] == 1.0
    assert listed["args[1].learning_rate.peak_value"] == 1e-3
    assert listed["args[1].b2"] == 0.99
    assert listed == chain(1e-3).hyperparameters()
    assert not any("mask" in path or "dtype" in path for path in listed)
    array, two = jnp.arange(3.0), canonopt.dynamic([0.1, 0.2])
    assert canonopt.sgd(array).hyperparameters()["learning_rate"] is array
    assert canonopt.sgd(two).hyperparameters()["learning_rate"] == [0.1, 0.2]


@pytest.mark.parametrize(
    "name",
    ["args[1].learning_rate.peak_value", "args[1].lr.peak_value", "lr.peak_value", "peak_value"],
)
def test_named_hyperparameters_become_dynamic(name):
    optim = canonopt.dynamic(chain(1e-3), name)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(optim)]
    assert paths[0] == ".args[1].learning_rate.peak_value.value" and len(paths) == 3
    assert optim.replace(**{name: 1e-3}) is chain(1e-3)
    other = optim.replace(**{name: canonopt.dynamic(2e-3)})
    assert jax.tree.structure(other) == jax.tree.structure(optim)


# --- what a factory says of traced values ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "build, path",
    [
        (lambda value: canonopt.adam(value), "learning_rate of canonopt.adam"),
        (lambda v: canonopt.chain(canonopt.clip(1.0), canonopt.adam(v)), "learning_rate"),
        (
            lambda value: canonopt.sgd(canonopt.cosine_decay_schedule(value, 10)),
            "init_value of canonopt.cosine_decay_schedule",
        ),
        (lambda value: canonopt.adam(value, b1=value), "learning_rate of canonopt.adam"),
        (lambda value: chain(value), "peak_value of canonopt.warmup_cosine_decay_schedule"),
    ],
)
def test_an_ensemble_that_is_not_under_vmap_is_refused(build, path):
    optim = build(canonopt.dynamic([1e-3, 1e-2]))
    text = f"{path}.* has a number for each member of an ensemble. Run the spec under jax.vmap"
    for call in (run, jax.jit(run)):
        with pytest.raises(errors.DynamicSpecError, match=text):
            call(optim, PARAMS)
    assert jax.vmap(run, in_axes=(0, None))(optim, PARAMS)[0]["w"].shape == (2, 2, 3)


def test_one_special_value_is_no_other_program():
    """`warmup_cosine_decay_schedule` divides by its peak unless that is zero."""

    def build(value):
        return canonopt.warmup_cosine_decay_schedule(0.0, value, 2, 10, end_value=1e-4)

    call, count = counted(lambda schedule, counts: jax.vmap(schedule)(counts), jax.jit)
    counts = jnp.arange(12)
    for value in (1e-3, 0.0, 1.0):
        found = call(build(canonopt.dynamic(value)), counts)
        expected = jax.vmap(build(value))(counts)
        np.testing.assert_array_max_ulp(found, expected, maxulp=1)
    assert (count.traces, count.compiles) == (1, 1)


@canonopt.canonical
def with_special_values(a, b, c, d):
    numbers = (a, b, c, d)
    factors = [2.0 if number != 0.0 else 3.0 for number in numbers]
    return optax.scale(factors[0] * factors[1] * factors[2] * factors[3])


def test_special_values_are_decided_each_by_its_own_number():
    scale = jax.jit(lambda optim: optim.update(PARAMS, optim.init(PARAMS))[0]["b"][0])
    for values in ((0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)):
        optim = with_special_values(*map(canonopt.dynamic, values), 1.0)
        assert scale(optim) == scale(with_special_values(*values, 1.0))
    with pytest.raises(errors.DynamicSpecError, match=r"d of .* cannot be traced: its value is"):
        scale(with_special_values(*map(canonopt.dynamic, (1.0, 2.0, 3.0, 4.0))))


# --- one trace, one compile, one program ----------------------------------------------------------


PROCESS = """
import sys, canonopt, jax, jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
step = jax.jit(lambda optim, params, opt_state: optim.update(params, opt_state, params))
params = {"w": jnp.ones(3)}
for value in map(float, sys.argv[1:]):
    optim = canonopt.adamw(canonopt.dynamic(value), weight_decay=canonopt.dynamic(value / 2))
    step(optim, params, jax.jit(lambda optim, p: optim.init(p))(optim, params))
print(sum(event.endswith("/compilation_cache/cache_misses") for event in events))
"""
PERSISTENT = {
    "JAX_ENABLE_COMPILATION_CACHE": "true",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    def misses(*values):
        environment = {**PERSISTENT, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
        return int(printed_by("-c", PROCESS, *values, env=environment))

    assert misses(0.1, 0.2) > 0
    assert misses(0.3, 0.4, 0.5) == 0


def test_a_value_is_changed_in_mid_training():
    step, count = counted(train_step, jax.jit)

    def train(values, replace):
        optim = canonopt.dynamic(chain(1e-2), "peak_value")
        params, opt_state = PARAMS, jax.jit(optim.init)(PARAMS)
        for value in values:
            optim = replace(optim, value)
            before = opt_state
            params, opt_state = step(optim, params, opt_state)
            assert jax.tree.structure(before) == jax.tree.structure(opt_state)
        return params, opt_state

    def rebuilt(optim, value):
        return chain(canonopt.dynamic(value))

    def replaced(optim, value):
        return optim.replace(peak_value=canonopt.dynamic(value))

    values = (1e-2, 1e-2, 3e-3, 1e-3)
    assert bits(train(values, replaced)) == bits(train(values, rebuilt))
    assert (count.traces, count.compiles) == (1, 1)
    halved = canonopt.adam(canonopt.dynamic(0.1))
    halved = halved.replace(lr=canonopt.dynamic(float(halved.learning_rate) * 0.5))
    assert halved.hyperparameters()["learning_rate"] == 0.05


@pytest.mark.slow
def test_tracers_are_neither_interned_nor_leaked():
    tables = [vars(f)["factory"].specs for f in (canonopt.adamw, canonopt.chain, canonopt.clip)]

    @jax.jit
    def step(value, params):
        optim = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(canonopt.dynamic(value)))
        return train_step(optim, params, optim.init(params))

    @jax.jit
    def replacing(optim, value, params):
        optim = optim.replace(lr=value)
        carry = (params, optim.init(params))
        return jax.lax.scan(lambda carry, _: (train_step(optim, *carry), None), carry, length=2)[0]

    clip = canonopt.clip(1.0)
    gc.collect()
    before = [len(table) for table in tables]
    with jax.checking_leaks():
        step(0.5, PARAMS)
        optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(canonopt.dynamic(0.1)))
        replacing(optim, jnp.asarray(0.2), PARAMS)
    gc.collect()
    # Fewer is no leak: of another test that jax's caches kept alive until here.
    assert all(len(table) <= count for table, count in zip(tables, before, strict=True))
    assert canonopt.clip(1.0) is clip


@pytest.mark.slow
def test_a_spec_that_is_closed_over_is_used_in_many_traces():
    @canonopt.canonical
    def computing(rate):
        factor = jnp.exp(rate)
        return optax.stateless(lambda updates, _: updates * factor)

    for optim in (canonopt.adam(canonopt.dynamic(0.1)), computing(jnp.asarray(0.1))):
        optim = jax.tree.map(lambda leaf: leaf, optim)  # its factory is not called yet
        # Built in the first trace, it would hold tracers in the second.
        with jax.checking_leaks():
            for size in (2, 3):
                jax.jit(optim.init)(jnp.ones(size))
                jax.jit(optim.update)(jnp.ones(size), optim.init(jnp.ones(size)))


# --- ensembles ------------------------------------------------------------------------------------

RATES = [1e-3, 1e-2, 1e-1]


def run(optim, params):
    opt_state = optim.init(params)
    for _ in range(3):
        params, opt_state = train_step(optim, params, opt_state)
    return params, opt_state


def single(value):
    return canonopt.adamw(canonopt.dynamic(value), weight_decay=canonopt.dynamic(0.1))


def assert_members(ensemble, runs):
    assert len(RATES) == len(runs)
    for i, alone in enumerate(runs):
        member = jax.tree.map(lambda leaf, i=i: leaf[i], ensemble)
        assert jax.tree.structure(member) == jax.tree.structure(alone)
        for found, expected in zip(jax.tree.leaves(member), jax.tree.leaves(alone), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("build", [single, lambda value: chain(canonopt.dynamic(value)), None])
def test_each_member_of_an_ensemble_is_its_own_run(build):
    runs = [jax.jit(run)((build or single)(value), PARAMS) for value in RATES]
    a_list = canonopt.adamw(canonopt.dynamic(RATES), weight_decay=canonopt.dynamic([0.1] * 3))
    built = [*map(build, RATES)] if build else []
    ensemble = jax.tree.map(lambda *leaves: jnp.stack(leaves), *built) if build else a_list
    everyone = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(RATES)), PARAMS)
    axes = jax.tree.map(lambda _: 0, ensemble)
    assert_members(jax.jit(jax.vmap(run))(ensemble, everyone), runs)
    assert_members(jax.vmap(run, in_axes=(0, None))(ensemble, PARAMS), runs)
    assert_members(jax.vmap(run, in_axes=(axes, None))(ensemble, PARAMS), runs)
    assert_members(eqx.filter_vmap(run)(ensemble, everyone), runs)
    axes = (eqx.if_array(0), None)
    assert_members(eqx.filter_jit(eqx.filter_vmap(run, in_axes=axes))(ensemble, PARAMS), runs)


def test_an_ensemble_on_a_mesh():
    mesh = Mesh(np.array(jax.devices()), ("member",))
    rates = np.geomspace(1e-3, 1.0, len(jax.devices())).tolist()
    optim = canonopt.adamw(canonopt.dynamic(rates), b1=canonopt.dynamic(rates))
    place = NamedSharding(mesh, PartitionSpec("member"))
    step = jax.jit(jax.vmap(run, in_axes=(0, None)))
    expected = step(optim, PARAMS)
    found = step(jax.device_put(optim, place), PARAMS)
    for here, there in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(here, there, rtol=2e-6, atol=1e-7)
    assert found[0]["w"].sharding.is_equivalent_to(place, 3)
