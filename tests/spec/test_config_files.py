"""A spec as plain data is the same object again. What is wrong with data is said with the path."""

import json
import pickle
import re

import attrs
import cattrs
import optax
import pytest

import canonopt
from canonopt import errors

from ..support import catalogue
from ..support.catalogue import build
from .config_files import FORMATS, REGISTRY, holding, is_matrix, registry_for

CHAIN = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(1e-3))
HERE = optax.__version__


@pytest.mark.parametrize("name", catalogue.ALL)
def test_a_round_trip_is_the_same_object(name, recwarn):
    spec = build(name, canonopt)
    registry = registry_for(spec)
    data = canonopt.to_config(spec, registry=registry)
    for form, through in FORMATS.items():
        assert canonopt.from_config(through(data), registry=registry) is spec, form
        assert through(data) == data, form
    assert all(warning.category is catalogue.WARNING.get(name) for warning in recwarn)


def test_all_parameters_are_written_with_the_versions():
    assert canonopt.to_config(canonopt.sgd(canonopt.linear_schedule(1e-3, 0.0, 10))) == {
        "canonopt": {"format": 1, "optax": HERE},
        "spec": {
            "optax": "sgd",
            "learning_rate": {
                "optax": "linear_schedule",
                "init_value": 0.001,
                "end_value": 0.0,
                "transition_steps": 10,
                "transition_begin": 0,
            },
            "momentum": {"none": True},
            "nesterov": False,
            "accumulator_dtype": {"none": True},
        },
    }


WRITTEN = [
    (canonopt.contrib.muon(1e-3), "optax", "contrib.muon"),
    (canonopt.schedules.constant_schedule(1.0), "optax", "constant_schedule"),
    (canonopt.transforms.partition({}, {}), "optax", "partition"),
    (
        canonopt.inject_hyperparams(canonopt.adam)(1e-3),
        "optax",
        {
            "optax": "inject_hyperparams",
            "inner_factory": {"name": "canonopt:adam"},
            "static_args": {"tuple": []},
            "hyperparam_dtype": {"none": True},
        },
    ),
    (canonopt.adam(canonopt.dynamic(1e-3)), "learning_rate", {"dynamic": 0.001}),
    (holding(1, "a", 2), "optax", "a"),
    (holding(1, "a", 2), "args", [2]),
]


@pytest.mark.parametrize(("spec", "key", "data"), WRITTEN)
def test_what_is_written(spec, key, data):
    assert canonopt.to_config(spec, registry=REGISTRY)["spec"][key] == data


NOT_WRITTEN = [
    (optax.adam(1e-3), None, "needs a spec, and got Gradient.* Build it with canonopt, for exam"),
    (
        canonopt.chain(canonopt.canonical(lambda: optax.identity())()),
        "spec.args[0]",
        r"<lambda> .*, which has no name in data\. Define it in a module, or name it: ",
    ),
]


@pytest.mark.parametrize(("spec", "path", "message"), NOT_WRITTEN)
def test_what_cannot_be_written(spec, path, message):
    with pytest.raises(errors.ConfigError, match=message) as caught:
        canonopt.to_config(spec)
    assert caught.value.path == path


@canonopt.canonical
def halved(rate: float = 1.0, layers=[1, 2]):  # noqa: B006
    return optax.scale(rate or 0.5)


@pytest.mark.parametrize("spec", [canonopt.adam(None), halved(None), halved(0.5)], ids=repr)
def test_none_and_a_default_that_may_change_are_read_back(spec):
    data = canonopt.to_config(spec, registry={"halved": halved})
    assert canonopt.from_config(data, registry={"halved": halved}) is spec
    assert pickle.loads(pickle.dumps(spec)) is spec


# --- the envelope, and types of libraries ---------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        3,
        canonopt.to_config(CHAIN)["spec"],
        canonopt.to_config(CHAIN) | {"canonopt": {"format": 1}},
        canonopt.to_config(CHAIN) | {"canonopt": {"format": 2, "optax": HERE}},
        canonopt.to_config(CHAIN) | {"canonopt": {"format": 1, "optax": 0.3}},
        canonopt.to_config(CHAIN) | {"spec": {"name": "optax:adam"}},
        canonopt.to_config(CHAIN) | {"spec": 3},
    ],
)
def test_data_of_something_else_are_refused(data):
    message = r"^The data need the form of {.canonopt.: .*, and are .* Write what canonopt\.to_conf"
    for read in (canonopt.from_config, canonopt.fingerprint, lambda d: canonopt.diff(d, CHAIN)):
        with pytest.raises(errors.ConfigError, match=message):
            read(data)


def test_the_form_that_an_error_shows_can_be_read():
    with pytest.raises(errors.ConfigError) as caught:
        canonopt.from_config({"optax": "adam"})
    form = str(caught.value).partition("need the form of ")[2].partition(", and are ")[0]
    assert canonopt.from_config(json.loads(form)) is canonopt.adam(0.001)


def test_text_has_to_be_parsed_first():
    with pytest.raises(errors.ConfigError, match=r"are text, .* Parse it first, .* json\.loads"):
        canonopt.from_config(json.dumps(canonopt.to_config(CHAIN)))


# --- another version of Optax -----------------------------------------------------------------


def of_another_version(change):
    data = canonopt.to_config(CHAIN)
    data["canonopt"]["optax"] = "0.2.7"
    change(data["spec"]["args"][1])
    return data


def test_another_version_without_a_difference_is_silent():
    assert canonopt.from_config(of_another_version(lambda spec: None)) is CHAIN
    data = of_another_version(lambda spec: spec.update(b2=0.99))  # as a default that has changed
    assert canonopt.from_config(data).args[1].b2 == 0.99


def test_parameters_that_are_missing_are_as_in_the_installed_version_and_listed():
    data = of_another_version(lambda spec: [spec.pop("mask"), spec.pop("nesterov")])
    versions = f"Optax 0.2.7 wrote the data, and {HERE} reads it."
    paths = "spec.args[1].mask, spec.args[1].nesterov"
    message = f"^{re.escape(f'{versions} These are as in the installed one: {paths}')}"
    with pytest.warns(errors.ConfigWarning, match=message) as caught:
        assert canonopt.from_config(data) is CHAIN
    assert caught[0].filename == __file__


# --- hooks ----------------------------------------------------------------------------------------


@attrs.frozen
class Experiment:
    optimizer: canonopt.Spec
    schedule: canonopt.ScheduleSpec
    steps: int = 100


SCHEDULE = canonopt.linear_schedule(1e-3, 0.0, 10)
EXPERIMENT = Experiment(canonopt.adamw(SCHEDULE, mask=is_matrix), SCHEDULE)


@pytest.fixture
def converter():
    made = cattrs.Converter()
    canonopt.register_hooks(made, registry={"matrices": is_matrix})
    return made


def test_cattrs_writes_and_reads_the_same_specs(converter):
    data = json.loads(json.dumps(converter.unstructure(EXPERIMENT)))
    assert data["optimizer"]["spec"]["mask"] == {"name": "matrices"}
    assert data["schedule"] == canonopt.to_config(SCHEDULE)
    assert converter.structure(data, Experiment) == EXPERIMENT
    data = converter.unstructure([EXPERIMENT.optimizer])
    assert converter.structure(data, list[canonopt.Spec]) == [EXPERIMENT.optimizer]


def test_cattrs_tells_what_is_wrong(converter):
    with pytest.raises(errors.ConfigError, match=r"^spec is canonopt\.linear_.*, and a Spec is"):
        converter.structure(converter.unstructure(SCHEDULE), canonopt.Spec)
    data = converter.unstructure(EXPERIMENT)
    data["optimizer"]["spec"]["b1"] = "0.9"
    with pytest.raises(cattrs.ClassValidationError) as caught:
        converter.structure(data, Experiment)
    (error,) = caught.value.exceptions
    assert isinstance(error, errors.ConfigError) and error.path == "spec.b1"
