"""Expected recompiles, and how the calls of avoidable ones differ."""

import jax
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from ..support.scenarios import array, committed, ones


def causes(run):
    jax.clear_caches()
    with canonopt.compile_log() as log:
        run()
    return [cause for function in log.functions for cause in function.causes()]


def calls(function, *arguments, **options):
    jitted = jax.jit(function, **options)
    for given in arguments:
        for _ in range(3):
            jitted(*given)


def doubled(x, *_):
    return jax.tree.map(lambda leaf: leaf * 2, x)


def added(batch):
    return sum(batch)


def given(*values, function=doubled):
    """A run that calls a jitted function with each of these."""
    return lambda: calls(function, *((value,) for value in values))


def static(*values):
    """A run with each of these as a static argument."""
    return lambda: calls(doubled, *((ones(3), value) for value in values), static_argnums=1)


def meshes():
    devices = jax.devices()
    for chosen in (devices[:1], devices[:2]):
        sharding = NamedSharding(Mesh(np.array(chosen), ("data",)), P("data"))
        yield jax.device_put(ones(8), sharding)


def cleared(phases):
    step = jax.jit(doubled)
    for phase in range(phases):
        if phase:
            jax.clear_caches()
        step(ones(3))


EXPECTED = {
    "modes": static("train", "eval", "test"),
    "batches with and without labels": given({"x": ones(3), "y": ones(3)}, {"x": ones(3)}),
    "a first call per mesh": lambda: given(*meshes())(),
    "a clearing between two phases": lambda: cleared(2),
    "buckets of lengths": given(*map(ones, (8, 16, 24, 8, 24))),
    "two sizes of a loop": static(10, 20),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_handful_of_programs_is_expected(name):
    found = causes(EXPECTED[name])
    assert found and all(cause.is_expected and not cause.is_avoidable for cause in found)
    for cause in found:
        (line,) = cause.lines()
        assert line.startswith("expected: ") and f"{cause.times + 1} programs are few, " in line
        assert str(cause.changes[0]) in line
        # A report of a limit that was exceeded has it in full.
        assert f"hint: {cause.hints[0]}" in cause.lines(in_full=True)


LISTS = [[ones(1)] * n for n in range(1, 20)]
AVOIDABLE = {
    "a clearing after each phase": (lambda: cleared(3), None),
    "a growing batch": (given(*map(ones, (1, 2, 3))), "x grows by one"),
    "a growing context": (given(*(ones(1, n) for n in range(8, 56, 8))), "x grows by 8 each time"),
    "a shrinking batch": (given(*map(ones, range(18, 0, -3))), "x shrinks by 3 each time"),
    "lengths in no order": (given(*map(ones, (5, 1, 9, 2, 8, 3))), "x changes each time"),
    "a step number": (static(*range(4)), "_[0] grows by one each time"),
    "a rate that decays": (static(*(0.9**i for i in range(8))), "changes each time"),
    "a list that grows": (given(*LISTS, function=added), "batch grows by one each time"),
    "a list that grows by two": (given(*LISTS[::2], function=added), "batch grows by 2 each time"),
    "one device, then a mesh": (
        lambda: given(jax.device_put(ones(8), jax.devices()[0]), [*meshes()][1])(),
        None,
    ),
    "a state that is not as the step returns it": (
        lambda: given(*map(optax.sgd(0.1, 0.9).init, (array(3), committed())))(),
        None,
    ),
}


@pytest.mark.parametrize("name", AVOIDABLE)
def test_what_changes_at_each_call_or_is_made_again_is_avoidable(name):
    run, pattern = AVOIDABLE[name]
    (cause,) = causes(run)
    assert cause.is_avoidable and (cause.fixes or cause.hints)
    if pattern is None:
        assert cause.pattern is None
    else:
        assert pattern in cause.pattern and cause.pattern in cause.lines()


def test_programs_of_several_causes_count_together():
    given = [
        (jax.numpy.full(1, 1.0), 1.0),
        (ones(1), 0.5),
        *((ones(1), 1 / n) for n in range(3, 9)),
    ]
    first, others = causes(lambda: calls(doubled, *given, static_argnums=1))
    assert [change.kind for change in first.changes] == ["static value", "weak type"]
    assert first.is_avoidable and others.times == 6
