"""A part of optax's own tests, with canonopt's factories in optax's place."""

import pytest

from .other_suites.run import SUITES, compare


@pytest.mark.slow
def test_optax_s_own_tests_end_the_same(monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # to take less time
    wrong = compare(SUITES["optax-part"])
    assert wrong is None, wrong
