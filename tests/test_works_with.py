"""Configuration systems and other libraries, used as their users do, with specs.

`docs/configuration.md`, whose blocks are run, has the first use of each. Here is what goes beyond.
"""

import dataclasses
import json
import sys

import beartype
import hydra
import jax
import jax.numpy as jnp
import jaxtyping
import optax
import pydantic
import pytest
import tyro
from ml_collections import ConfigDict, FrozenConfigDict, config_dict
from omegaconf import OmegaConf

import canonopt

from .support.counting import counted
from .support.values import updates_of

SCHEDULE = canonopt.linear_schedule(1e-3, 0.0, transition_steps=100)
SPEC = canonopt.chain(canonopt.clip(1.0), canonopt.sgd(SCHEDULE, momentum=0.9))
CHANGED = canonopt.chain(canonopt.clip(0.5), canonopt.sgd(SCHEDULE, momentum=0.9))
PARAMS = {"w": jnp.ones(2), "b": jnp.ones(2)}


@dataclasses.dataclass(frozen=True)
class Config:
    optim: canonopt.Spec = SPEC
    steps: int = 10


@pytest.fixture
def step():
    """A jitted step that has run with `SPEC`. It is to be traced for nothing else."""
    jitted, count = counted(lambda optim: updates_of(optim, PARAMS), jax.jit)
    jitted(SPEC)
    yield jitted
    assert (count.traces, count.compiles) == (1, 1)


# --- Hydra ----------------------------------------------------------------------------------------

YAML = {
    "config.yaml": """
        defaults: [optim: clipped_sgd, _self_]
        seed: 0
        rate: 1.0e-3
    """,
    "optim/clipped_sgd.yaml": """
        _target_: canonopt.chain
        _args_:
        - {_target_: canonopt.clip, max_delta: 1.0}
        - _target_: canonopt.sgd
          learning_rate:
            _target_: canonopt.linear_schedule
            init_value: ${rate}
            end_value: 0.0
            transition_steps: 100
          momentum: 0.9
    """,
}


def run_hydra(folder, monkeypatch, *overrides):
    """The specs that a program built, in each of its runs."""
    for name, text in YAML.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    built = []

    @hydra.main(version_base=None, config_path=str(folder), config_name="config")
    def main(config):
        built.append(hydra.utils.instantiate(config.optim))

    quiet = ("hydra/job_logging=disabled", "hydra/hydra_logging=disabled")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["train.py", *quiet, *overrides])
    main()
    return built


def test_hydra_main_builds_the_spec_of_yaml_files_in_each_run(tmp_path, monkeypatch, step):
    built = run_hydra(tmp_path, monkeypatch, "hydra.mode=MULTIRUN", "seed=0,1")
    assert len(built) == 2
    for optim in built:
        assert optim is SPEC
        step(optim)


def test_hydra_takes_overrides_of_the_command_line(tmp_path, monkeypatch):
    (built,) = run_hydra(tmp_path, monkeypatch, "rate=3e-4", "optim._args_.1.momentum=null")
    schedule = canonopt.linear_schedule(3e-4, 0.0, 100)
    assert built is canonopt.chain(canonopt.clip(1.0), canonopt.sgd(schedule))


# --- configurations in Python ---------------------------------------------------------------------


def test_ml_collections_holds_specs(step):
    config = ConfigDict({"optim": SPEC, "others": (SPEC,)})
    for held in (config, FrozenConfigDict(config), config.copy_and_resolve_references()):
        assert held.optim is held.others[0] is held.to_dict()["optim"] is SPEC
        step(held.optim)
    config.lock()
    config.optim = CHANGED
    assert config.optim is CHANGED
    with pytest.raises(TypeError, match="is of original type"):
        config.optim = canonopt.sgd(1e-3)
    config = ConfigDict({"optim": config_dict.placeholder(canonopt.Spec)})
    config.optim = canonopt.sgd(1e-3)
    assert hash(FrozenConfigDict(config)) == hash(FrozenConfigDict({"optim": canonopt.sgd(1e-3)}))


# --- command lines --------------------------------------------------------------------------------


def tyro_main(optim: canonopt.Spec = SPEC, steps: int = 10):
    return optim


def test_tyro_has_a_flag_for_each_parameter(step):
    for found in (tyro.cli(Config, args=[]).optim, tyro.cli(tyro_main, args=[])):
        assert found is SPEC
        step(found)
    args = ["--optim.args.0.max-delta", "0.5"]
    assert tyro.cli(Config, args=args) == Config(CHANGED)
    assert tyro.cli(tyro_main, args=args) is CHANGED
    args = ["--optim.args.1.learning-rate.init-value", "3e-4", "--optim.args.1.nesterov"]
    assert tyro.cli(tyro_main, args=args).hyperparameters() == SPEC.hyperparameters() | {
        "args[1].learning_rate.init_value": 3e-4,
        "args[1].nesterov": True,
    }


def test_tyro_has_a_flag_for_a_number_that_is_none_by_default():
    optim = tyro.cli(canonopt.Spec, default=canonopt.sgd(0.1), args=["--momentum", "0.9"])
    assert optim is canonopt.sgd(0.1, 0.9)


def test_tyro_needs_a_default():
    config = dataclasses.make_dataclass("config", [("optim", canonopt.Spec)])
    with pytest.raises(TypeError, match=r"base class, .* Call a factory such as canonopt\.adam"):
        tyro.cli(config, args=[])


# --- pydantic -------------------------------------------------------------------------------------


class Experiment(pydantic.BaseModel):
    optim: canonopt.Spec = SPEC
    schedule: canonopt.ScheduleSpec | None = None


def test_pydantic_validates_and_writes_specs(step):
    data = canonopt.to_config(SPEC)
    made = Experiment(optim=data, schedule=SCHEDULE)
    assert made.schedule is SCHEDULE
    assert made.model_dump()["optim"] == made.model_dump(mode="json")["optim"] == data
    for each in (
        Experiment(),
        made,
        made.model_copy(deep=True),
        Experiment(**made.model_dump()),
        Experiment.model_validate_json(made.model_dump_json()),
    ):
        assert each.optim is SPEC
        step(each.optim)
    assert Experiment.model_json_schema()["properties"]["optim"]["type"] == "object"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            3,
            "spec must be a Spec, not 3. Build one with canonopt, or give the data that "
            "canonopt.to_config returns.",
        ),
        (SCHEDULE, r"spec must be a Spec, not canonopt\.linear_schedule\("),
        (canonopt.to_config(SCHEDULE), r"spec must be a Spec, not canonopt\.linear_"),
        (optax.sgd(0.1), r"spec must be a Spec, not GradientTransformationExtraArgs\("),
        ({"optax": "sgd"}, "The data must have the form {.canonopt.: .*, not {.optax.: .sgd.}"),
    ],
    ids=["number", "schedule", "data of a schedule", "transformation", "other data"],
)
def test_pydantic_says_what_is_wrong(value, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Experiment(optim=value)


# --- flat dictionaries, for trackers such as W&B --------------------------------------------------


def test_hyperparameters_are_a_flat_dictionary_to_log_and_to_sweep_over(step):
    logged = json.loads(json.dumps(SPEC.hyperparameters()))
    assert all(type(value) in (bool, int, float, str) for value in logged.values())
    again = SPEC.replace(**logged)
    assert again is SPEC
    step(again)
    assert SPEC.replace(**logged | {"args[0].max_delta": 0.5}) is CHANGED


def config(items):
    return OmegaConf.create(items, flags={"allow_objects": True})


# --- a spec as a value ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Held:
    optim: optax.GradientTransformation
    schedule: optax.Schedule
    steps: int = 1


def test_a_dataclass_that_holds_a_spec():
    optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3))
    held = Held(optim, canonopt.constant_schedule(0.1))
    assert dataclasses.asdict(held)["optim"] is optim
    assert dataclasses.astuple(held)[0] is optim
    assert dataclasses.replace(held, steps=2).optim is optim
    dynamic = Held(canonopt.adam(canonopt.dynamic(0.1)), held.schedule)
    assert dataclasses.asdict(dynamic)["optim"] is dynamic.optim


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
    both = (updates_of(optim, PARAMS) for optim in (partition(), expected))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, *both))
    pieces = lambda: canonopt.piecewise_constant_schedule(1.0, config({10: 0.1}))  # noqa: E731
    assert pieces() is pieces()


def test_a_factory_of_the_user_gets_the_config_itself():
    @canonopt.canonical
    def build(config, scale=1.0):
        return optax.sgd(config.lr * scale)

    given = OmegaConf.create({"lr": "${rate}", "rate": 0.5})
    assert build(given).config is given
    for optim in (build(given), build(given, canonopt.dynamic(1.0))):
        assert updates_of(optim, PARAMS)["w"].tolist() == [-0.5, -0.5]
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


# --- Optax and type checkers ----------------------------------------------------------------------


def test_runtime_type_checkers_take_a_spec_for_a_transformation():
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def init(optim: optax.GradientTransformation, schedule: optax.Schedule) -> tuple:
        return optim.init(PARAMS)

    init(canonopt.adam(1e-3), canonopt.constant_schedule(0.1))


def test_a_wrapper_of_optax_calls_a_factory_with_tracers():
    optim = optax.inject_hyperparams(canonopt.sgd)(learning_rate=0.1)
    step, count = counted(lambda params, state: optim.update(params, state, params), jax.jit)
    state = optim.init(PARAMS)
    for value in (0.1, 0.2):
        state.hyperparams["learning_rate"] = jnp.asarray(value, jnp.float32)
        assert step(PARAMS, state)[0]["w"][0] == jnp.float32(-value)
    assert (count.traces, count.compiles) == (1, 1)
