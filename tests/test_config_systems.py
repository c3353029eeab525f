"""Configurations that build specs: OmegaConf, Hydra, hydra-zen, Fiddle, dataclasses."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import optax
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

import canonopt

from .support.counting import counted

PARAMS = {"w": jnp.ones(2), "b": jnp.ones(2)}


def update(optim):
    return optim.update(PARAMS, optim.init(PARAMS), PARAMS)[0]


def config(items):
    return OmegaConf.create(items, flags={"allow_objects": True})


def target(name, *args, **kwargs):
    return {"_target_": f"canonopt.{name}", "_args_": list(args), **kwargs}


# --- a spec as a value ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Config:
    optim: optax.GradientTransformation
    schedule: optax.Schedule
    steps: int = 1


def test_a_dataclass_that_holds_a_spec():
    optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3))
    held = Config(optim, canonopt.constant_schedule(0.1))
    assert dataclasses.asdict(held)["optim"] is optim
    assert dataclasses.astuple(held)[0] is optim
    assert dataclasses.replace(held, steps=2).optim is optim
    dynamic = Config(canonopt.adam(canonopt.dynamic(0.1)), held.schedule)
    assert dataclasses.asdict(dynamic)["optim"] is dynamic.optim


# --- Hydra ----------------------------------------------------------------------------------------

CONVERT = pytest.mark.parametrize("convert", ["none", "partial", "object", "all"])


@CONVERT
def test_hydra_builds_dynamic_specs(convert):
    def build(value):
        rate = target("dynamic", value)
        transforms = {"a": target("sgd", learning_rate=rate), "b": target("set_to_zero")}
        labels = {"_target_": "builtins.dict", "w": "a", "b": "b"}
        return instantiate(
            target("partition", transforms=transforms, param_labels=labels), _convert_=convert
        )

    step, count = counted(update)
    step = jax.jit(step)
    for value in (0.1, 0.2):
        assert bool(jnp.all(step(build(value))["w"] == -jnp.float32(value)))
        assert bool(jnp.all(update(build(value))["w"] == -jnp.float32(value)))
    assert (count.traces, count.compiles) == (1, 1)


# --- OmegaConf's configs as arguments -------------------------------------------------------------


def labels(params):
    return {"w": "a", "b": "b"}


def partition(rate=0.1):
    return canonopt.partition(config({"a": canonopt.sgd(rate), "b": canonopt.adam(1e-3)}), labels)


def test_a_config_counts_by_what_is_in_it():
    assert partition() is partition()
    assert partition(0.2) is not partition()
    transforms = {"a": canonopt.sgd(0.1), "b": canonopt.adam(1e-3)}
    assert partition() is canonopt.partition(transforms, labels)  # Optax gets plain containers
    expected = optax.partition({"a": optax.sgd(0.1), "b": optax.adam(1e-3)}, labels)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, update(partition()), update(expected)))
    pieces = lambda: canonopt.piecewise_constant_schedule(1.0, config({10: 0.1}))  # noqa: E731
    assert pieces() is pieces()


def test_a_factory_of_the_user_gets_the_config_itself():
    @canonopt.canonical
    def build(config, scale=1.0):
        return optax.sgd(config.lr * scale)

    given = OmegaConf.create({"lr": "${rate}", "rate": 0.5})
    assert build(given).config is given
    for optim in (build(given), build(given, canonopt.dynamic(1.0))):
        assert update(optim)["w"].tolist() == [-0.5, -0.5]
    assert build(OmegaConf.create({"lr": 0.5})) is not build(OmegaConf.create({"lr": 0.5}))


def test_a_config_that_changes_is_another_configuration():
    schedules = [canonopt.constant_schedule(value) for value in (1.0, 0.1)]
    one, other = config([10]), config([10])
    schedule = canonopt.join_schedules(schedules, one)
    assert canonopt.join_schedules(schedules, other) is schedule
    one[0] = 15
    changed = canonopt.join_schedules(schedules, one)
    assert changed is not schedule
    assert [float(built(12)) for built in (changed, schedule)] == [1.0, jnp.float32(0.1)]


def test_a_list_of_transformations_in_a_config_is_to_be_unpacked():
    with pytest.raises(
        canonopt.errors.NotATransformationError, match=r"Unpack it: canonopt\.chain"
    ):
        canonopt.chain(config([canonopt.sgd(0.1)]))


# --- what reads signatures ------------------------------------------------------------------------


def test_the_default_of_lr_is_as_if_not_given():
    default = inspect.signature(canonopt.adam).parameters["lr"].default
    assert repr(default) == "<not given>"
    assert canonopt.adam(1e-3, lr=default) is canonopt.adam(1e-3)
    with pytest.raises(
        canonopt.errors.ParameterError, match="adam: missing a required argument: 'learning_rate'"
    ):
        canonopt.adam(lr=default)
