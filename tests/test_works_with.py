"""Configuration systems, used as their users do: each builds or holds the spec written by hand."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import draccus
import fiddle as fdl
import hydra
import hydra_zen
import jax
import jax.numpy as jnp
import optax
import pydantic
import pytest
import tyro
import yaml
from fiddle import selectors
from fiddle.experimental import serialization
from ml_collections import ConfigDict, FrozenConfigDict, config_dict
from omegaconf import OmegaConf

import canonopt

from .support.counting import counted

SCHEDULE = canonopt.linear_schedule(1e-3, 0.0, transition_steps=100)
SPEC = canonopt.chain(canonopt.clip(1.0), canonopt.sgd(SCHEDULE, momentum=0.9))
CHANGED = canonopt.chain(canonopt.clip(0.5), canonopt.sgd(SCHEDULE, momentum=0.9))
PARAMS = {"w": jnp.ones(2)}


@canonopt.canonical
def clipped(learning_rate, max_delta: float = 1.0):
    return optax.chain(optax.clip(max_delta), optax.sgd(learning_rate))


@dataclasses.dataclass(frozen=True)
class Config:
    optim: canonopt.Spec = SPEC
    steps: int = 10


@pytest.fixture
def step():
    """A jitted step that has run with `SPEC`. It is to be traced for nothing else."""
    function, count = counted(lambda o: o.update(PARAMS, o.init(PARAMS), PARAMS))
    jitted = jax.jit(function)
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


def test_hydra_zen_builds_chains(step):
    sgd = hydra_zen.builds(
        canonopt.sgd,
        hydra_zen.builds(canonopt.linear_schedule, 1e-3, 0.0, transition_steps=100),
        momentum=0.9,
    )
    chain = hydra_zen.builds(canonopt.chain, hydra_zen.builds(canonopt.clip, 1.0), sgd)
    built = hydra_zen.instantiate(chain)
    assert built is SPEC
    step(built)
    assert hydra_zen.instantiate(OmegaConf.create(hydra_zen.to_yaml(chain))) is SPEC
    train = hydra_zen.zen(lambda optim, seed: optim)
    assert train(hydra_zen.make_config(optim=chain, seed=0)) is SPEC


def test_omegaconf_holds_the_arguments_or_the_data(step):
    config = OmegaConf.create({"rate": 1e-3, "optim": {"lr": "${rate}", "momentum": 0.9}})
    assert canonopt.sgd(**config.optim) is canonopt.sgd(1e-3, momentum=0.9)
    data = OmegaConf.create({"optim": canonopt.to_config(SPEC)})
    read = OmegaConf.create(OmegaConf.to_yaml(data))
    built = canonopt.from_config(read.optim)
    assert built is SPEC
    step(built)
    OmegaConf.update(read, "optim.spec.args[0].max_delta", 0.5)
    assert canonopt.from_config(read.optim) is CHANGED


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


def test_fiddle_builds_and_holds_specs(step):
    sgd = fdl.Config(
        canonopt.sgd, fdl.Config(canonopt.linear_schedule, 1e-3, 0.0, 100), momentum=0.9
    )
    chain = fdl.Config(canonopt.chain, fdl.Config(canonopt.clip, 1.0), sgd)
    config = fdl.Config(Config, optim=chain)
    assert fdl.build(serialization.load_json(serialization.dump_json(config))).optim is SPEC
    for each in (config, fdl.Config(Config, optim=SPEC), fdl.Config(Config)):
        built = fdl.build(each).optim
        assert built is SPEC
        step(built)
    config.optim[0].max_delta = 0.5
    assert fdl.build(config).optim is CHANGED
    selectors.select(config, canonopt.clip).set(max_delta=1.0)
    assert fdl.build(config).optim is SPEC


# --- command lines --------------------------------------------------------------------------------


@pytest.fixture
def read_by_draccus():
    draccus.decode.register(canonopt.Spec, canonopt.from_config)
    draccus.encode.register(canonopt.Spec, canonopt.to_config)


def test_draccus_reads_and_writes_specs(tmp_path, step, read_by_draccus):
    assert draccus.parse(Config, args=[]) == Config()
    path = tmp_path / "run.yaml"
    path.write_text(draccus.dump(Config(SPEC, steps=20)))
    read = draccus.parse(Config, config_path=path, args=[])
    assert read.optim is SPEC and read.steps == 20
    step(read.optim)
    assert draccus.decode(Config, draccus.encode(read)) == read


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


def test_tyro_needs_a_default():
    config = dataclasses.make_dataclass("config", [("optim", canonopt.Spec)])
    with pytest.raises(TypeError, match=r"base class, .* Write canonopt\.adam"):
        tyro.cli(config, args=[])


def test_argparse_reads_the_data(tmp_path, step, capsys):
    def spec(text):
        return canonopt.from_config(json.loads(text))

    def spec_in(path):
        return canonopt.from_config(yaml.safe_load(Path(path).read_text()))

    parser = argparse.ArgumentParser()
    parser.add_argument("--optim", type=spec, default=SPEC)
    parser.add_argument("--optim-file", dest="optim", type=spec_in)
    path = tmp_path / "optim.yaml"
    path.write_text(yaml.safe_dump(canonopt.to_config(SPEC)))
    text = json.dumps(canonopt.to_config(SPEC))
    for args in ([], ["--optim", text], ["--optim-file", str(path)]):
        found = parser.parse_args(args).optim
        assert found is SPEC
        step(found)
    with pytest.raises(SystemExit):
        parser.parse_args(["--optim", text.replace("sgd", "sgdd")])
    assert "argument --optim: invalid spec value" in capsys.readouterr().err


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
        (3, "spec is 3, and a Spec is needed. Build one with canonopt, or write the data of one."),
        (SCHEDULE, r"spec is canonopt\.linear_schedule\(.*\), and a Spec is needed"),
        (canonopt.to_config(SCHEDULE), r"spec is canonopt\.linear_.*, and a Spec is needed"),
        (optax.sgd(0.1), r"spec is GradientTransformationExtraArgs\(.*, and a Spec is needed"),
        ({"optax": "sgd"}, "The data need the keys canonopt and spec, .* and are {.optax.: .sgd.}"),
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
