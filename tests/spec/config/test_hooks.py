"""A cattrs converter of the user's own reads and writes specs."""

import json

import attrs
import cattrs
import jax
import pytest

import canonopt


@attrs.frozen
class Experiment:
    optimizer: canonopt.Spec
    schedule: canonopt.ScheduleSpec
    steps: int = 100


def is_matrix(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


SCHEDULE = canonopt.linear_schedule(1e-3, 0.0, 10)
EXPERIMENT = Experiment(canonopt.adamw(SCHEDULE, mask=is_matrix), SCHEDULE)


@pytest.fixture
def converter():
    made = cattrs.Converter()
    canonopt.register_hooks(made, registry={"matrices": is_matrix})
    return made


def test_a_round_trip_has_the_same_specs(converter):
    data = json.loads(json.dumps(converter.unstructure(EXPERIMENT)))
    assert data["optimizer"]["spec"]["mask"] == {"name": "matrices"}
    assert data["schedule"] == canonopt.to_config(SCHEDULE)
    assert converter.structure(data, Experiment) == EXPERIMENT


def test_specs_themselves_and_containers_of_them(converter):
    data = converter.unstructure([EXPERIMENT.optimizer])
    assert converter.structure(data, list[canonopt.Spec]) == [EXPERIMENT.optimizer]


def test_a_schedule_in_place_of_an_optimizer_is_refused(converter):
    data = converter.unstructure(SCHEDULE)
    with pytest.raises(
        canonopt.errors.ConfigError, match=r"^spec is canonopt\.linear_.*, and a Spec is"
    ):
        converter.structure(data, canonopt.Spec)


def test_errors_have_the_path(converter):
    data = converter.unstructure(EXPERIMENT)
    data["optimizer"]["spec"]["b1"] = "0.9"
    with pytest.raises(cattrs.ClassValidationError) as caught:
        converter.structure(data, Experiment)
    (error,) = caught.value.exceptions
    assert isinstance(error, canonopt.errors.ConfigError) and error.path == "spec.b1"
