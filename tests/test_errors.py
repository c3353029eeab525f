"""Errors carry their facts as attributes."""

import copy
import pickle

import pytest

import canonopt

ERRORS = [
    value
    for value in vars(canonopt).values()
    if isinstance(value, type) and issubclass(value, canonopt.CanonoptError)
]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_the_facts_are_attributes_and_survive_a_pickle(kind, again):
    if kind is canonopt.UnsupportedVersionError:
        error = kind("jax._src.gone", "jax", "99.0", "jax<0.13")
    else:
        error = kind("It is 1.", "Write 2.", path="args[0]", before="2", after="1")
    other = again(error)
    assert type(other) is kind and kind.__module__ == "canonopt"
    assert vars(other) == vars(error) and str(other) == str(error)
    assert str(error) == f"{error.problem} {error.fix}"


def test_an_error_may_have_a_problem_only():
    error = canonopt.ParameterError("adam() got an unknown parameter.")
    assert str(error) == error.problem
    assert (error.fix, error.path, error.before, error.after) == (None,) * 4
