"""Nothing of optax's is missing, and what is not mirrored says where it is."""

import operator

import optax
import optax.contrib
import optax.schedules
import optax.transforms
import pytest

import canonopt
from canonopt._spec.builders import Mirror, mirrored_names
from tools import upstream

from ..support import catalogue

FACTORIES = [
    (module, name) for module in upstream.NAMESPACES for name in upstream.factories(module)
]


def test_there_are_as_many_as_there_should_be():
    assert len(FACTORIES) > 180


@pytest.mark.parametrize(
    ("module", "name"), FACTORIES, ids=[f"{m.__name__}.{n}" for m, n in FACTORIES]
)
def test_every_factory_is_mirrored(module, name):
    mirrored = upstream.value_of(upstream.NAMESPACES[module], name)
    assert callable(mirrored)
    assert mirrored.factory.function is upstream.value_of(module, name)


def test_the_shared_table_has_every_factory():
    mirrored = {
        *canonopt.optimizers.__all__,
        *canonopt.transforms.__all__,
        *canonopt.schedules.__all__,
        *(f"contrib.{name}" for name in canonopt.contrib.__all__),
    }
    assert {name.removeprefix("schedules.") for name in catalogue.ALL} == mirrored


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (
            lambda: canonopt.incremental_update,
            "canonopt has no 'incremental_update': it builds neither a transformation nor a "
            "schedule, so there is nothing to intern. Use optax.incremental_update.",
        ),
        (lambda: canonopt.squared_error, "Use optax.squared_error."),
        (lambda: canonopt.contrib.MuonState, "Use optax.contrib.MuonState."),
        (lambda: canonopt.transforms.MaskedNode, "Use optax.MaskedNode."),
        (lambda: canonopt.adm, "Neither canonopt nor optax "),
    ],
)
def test_what_is_not_mirrored_names_optax(get, message):
    with pytest.raises(canonopt.errors.NotMirroredError) as caught:
        get()
    assert message in str(caught.value)
    assert isinstance(caught.value, AttributeError)


def test_names_that_optax_has_moved_are_found_with_its_warning():
    with pytest.warns(DeprecationWarning, match="use optax.contrib.dpsgd"):
        moved = canonopt.dpsgd
    assert moved is canonopt.contrib.dpsgd


def test_a_factory_that_the_installed_optax_lacks_says_so_when_called():
    missing = Mirror(optax, "canonopt.optimizers", page="optimizers").an_optimizer_of_tomorrow
    with pytest.raises(
        canonopt.errors.NotMirroredError, match=r"optax .* has no an_optimizer_of_tomor"
    ):
        missing(1e-3)


def test_the_names_of_what_is_mirrored():
    """`canonopt fix` writes them, and `canonopt doctor --try` puts these functions there."""
    found = mirrored_names()
    assert found["optax.adam"] == ("canonopt.adam", canonopt.adam)
    assert found["optax.transforms.trace"] == ("canonopt.trace", canonopt.trace)
    assert found["optax.contrib.prodigy"] == ("canonopt.contrib.prodigy", canonopt.contrib.prodigy)
    assert "optax.apply_updates" not in found
    for theirs, (ours, builder) in found.items():
        for path, value in ((theirs, builder.factory.function), (ours, builder)):
            package, _, inside = path.partition(".")
            assert (
                operator.attrgetter(inside)({"optax": optax, "canonopt": canonopt}[package])
                is value
            )
    known = {ours.rpartition(".")[2] for ours, _ in found.values()}
    assert known >= {name.rpartition(".")[2] for name in catalogue.ALL}
