"""Configurations that build specs: OmegaConf, Hydra, hydra-zen, Fiddle, dataclasses."""

import copy
import dataclasses
import inspect

import fiddle as fdl
import hydra_zen
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


SPECS = [canonopt.adam(1e-3), canonopt.chain(canonopt.sgd(0.1)), canonopt.constant_schedule(0.1)]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_omegaconf_holds_a_spec_as_it_holds_a_transformation(spec):
    for held in (
        config({"spec": spec}).spec,
        config([spec])[0],
        config({"a": {"b": [spec]}}).a.b[0],
    ):
        assert held is spec
    assert copy.deepcopy(config([spec]))[0] is spec
    assert OmegaConf.merge(config({"a": 1}), config({"spec": spec})).spec is spec
    assert OmegaConf.to_container(config([spec])) == [spec]


# --- Hydra ----------------------------------------------------------------------------------------

CONVERT = pytest.mark.parametrize("convert", ["none", "partial", "object", "all"])
CHAIN = target("chain", target("clip", 1.0), target("adam", lr=1e-3))
JOINED = target(
    "join_schedules",
    schedules=[target("constant_schedule", value=v) for v in (1.0, 0.1)],
    boundaries=[10],
)


@CONVERT
def test_hydra_builds_specs(convert):
    optim = instantiate(CHAIN, _convert_=convert)
    assert optim is canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3))
    found = instantiate({"a": [CHAIN], "b": {"c": JOINED}}, _convert_=convert)
    assert found["a"][0] is optim
    assert found["b"]["c"] is instantiate(JOINED, _convert_=convert)
    assert [float(found["b"]["c"](i)) for i in (0, 20)] == [1.0, jnp.float32(0.1)]


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


def test_a_config_is_a_tree():
    expected = canonopt.adamw(1e-3, mask={"w": True, "b": False})
    assert canonopt.adamw(1e-3, mask=config({"w": True, "b": False})) is expected


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


def test_what_reads_signatures_takes_lr():
    expected = canonopt.adam(1e-3)
    full = hydra_zen.builds(canonopt.adam, populate_full_signature=True)
    assert hydra_zen.instantiate(full, learning_rate=1e-3) is expected
    assert instantiate(OmegaConf.create(hydra_zen.to_yaml(full(learning_rate=1e-3)))) is expected
    partial = hydra_zen.builds(canonopt.adam, lr=1e-3, zen_partial=True)
    assert hydra_zen.instantiate(partial)() is expected
    assert fdl.build(fdl.Partial(canonopt.adam, lr=1e-3))() is expected
    for builds in (hydra_zen.builds, fdl.Config):
        with pytest.raises(TypeError):
            builds(canonopt.clip, lr=1e-3)


def test_the_default_of_lr_is_as_if_not_given():
    default = inspect.signature(canonopt.adam).parameters["lr"].default
    assert repr(default) == "<not given>"
    assert canonopt.adam(1e-3, lr=default) is canonopt.adam(1e-3)
    with pytest.raises(
        canonopt.errors.ParameterError, match="adam: missing a required argument: 'learning_rate'"
    ):
        canonopt.adam(lr=default)
