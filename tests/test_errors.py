"""Errors carry their facts as attributes."""

import copy
import pickle

import pytest

import canonopt
import canonopt.errors

ERRORS = [
    value
    for value in vars(canonopt.errors).values()
    if isinstance(value, type) and issubclass(value, canonopt.CanonoptError)
]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize(
    "copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"]
)
def test_the_facts_are_attributes_and_survive_a_pickle(kind, copied):
    if kind is canonopt.errors.UnsupportedVersionError:
        error = kind("jax._src.gone", "jax", "99.0", "jax<0.13", "compare processes")
    else:
        error = kind("It is 1.", "Write 2.", path="args[0]", before="2", after="1")
    other = copied(error)
    assert type(other) is kind
    assert vars(other) == vars(error) and str(other) == str(error)
    separator = "\n  write: " if issubclass(kind, canonopt.errors.ExcessError) else " "
    assert str(error) == f"{error.problem}{separator}{error.fix}"


@pytest.mark.parametrize("kind", [*ERRORS, canonopt.errors.RecompileWarning])
def test_every_error_says_when_it_is_raised(kind):
    assert kind.__doc__ and kind.__doc__.splitlines()[0].endswith(".")
    assert kind is canonopt.CanonoptError or kind.__bases__ != (canonopt.CanonoptError,)


def test_an_error_may_have_a_problem_only():
    error = canonopt.errors.ParameterError("adam() got an unknown parameter.")
    assert str(error) == error.problem
    assert (error.fix, error.path, error.before, error.after) == (None,) * 4
