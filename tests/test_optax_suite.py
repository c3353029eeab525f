"""A part of optax's own tests, with canonopt's factories in optax's place."""

import pytest

from .optax_suite import run


@pytest.mark.slow
def test_optax_s_own_tests_end_the_same():
    wrong = run.compare_part()
    assert wrong is None, wrong
