"""Programs with canonopt's names in the place of Optax's give the same numbers.

`tests/support/programs.py` writes the programs, as many as the environment variable
CANONOPT_PROGRAMS says.
"""

import dataclasses
import os
import types

import optax
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import canonopt

from .support import programs
from .support.programs import Failed, Program, Random, difference, run, shrink, write

pytestmark = pytest.mark.usefixtures("restored_caches")

TEMPLATES = (*programs.PLACES, *programs.KINDS, *programs.FACTORIES)
COUNT = int(os.environ.get("CANONOPT_PROGRAMS", "300"))


@pytest.mark.slow
@settings(
    max_examples=COUNT,
    # A program is made smaller by its cells and not by its seed.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32 - 1))
def test_programs_have_the_numbers_of_optax(seed):
    check(write(Random(seed)), f"seed {seed}, as in `python -m tests.support.programs {seed}`")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: repr(t.setup or t.expression)[:60])
def test_each_template_has_the_numbers_of_optax(template, seed):
    """Places, functions and factories, each of them more often than chance would have it."""
    check(write(Random(seed), only=template), f"seed {seed} with only {template}")


def check(program, origin):
    if difference(program):
        smallest = difference(shrink(program)) or difference(program)
        pytest.fail(f"A program of {origin}, made smaller. {smallest}", pytrace=False)


# --- the programs and the way that they are run ---------------------------------------------------

READS_A_GLOBAL = Program(
    (
        "rate = 0.25",
        "step(lib.sgd(lambda c: rate), 'static')",
        "rate = 0.5",
        "step(lib.sgd(lambda c: rate), 'static')",
        "rate = 0.25",
        "step(lib.sgd(lambda c: rate), 'static')",
    )
)


def unsound_library() -> types.SimpleNamespace:
    """Optax, but for an `sgd` that is built once for each code."""
    built = {}

    def sgd(function):
        return built.setdefault(function.__code__.co_code, optax.sgd(function))

    return types.SimpleNamespace(sgd=sgd)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_wrong_merge_is_seen(compiled):
    program = dataclasses.replace(READS_A_GLOBAL, compiled=compiled)
    theirs, unsound = run(program, optax), run(program, unsound_library())
    assert theirs[0] == theirs[2] != theirs[1]
    assert unsound[0] == unsound[1] == unsound[2] == theirs[0]


CHANGES_AFTER_THE_BUILD = Program(
    (
        "rate = 0.25",
        "step(lib.sgd(lambda c: rate), 'static')",
        "s = lib.sgd(lambda c: rate)",
        "rate = 0.5",
        "step(s, 'static')",
        "step(lib.sgd(lambda c: rate), 'static')",
    )
)


def test_a_change_between_a_build_and_its_step_is_told_from_a_wrong_merge():
    """Where the build is rightly an optimizer that has been traced, no merge can get it right."""
    theirs, ours = run(CHANGES_AFTER_THE_BUILD, optax), run(CHANGES_AFTER_THE_BUILD, canonopt)
    assert theirs[0] != theirs[1] == theirs[2] == ours[2]
    assert programs.changed_after_the_build(CHANGES_AFTER_THE_BUILD) == {1}
    assert not difference(CHANGES_AFTER_THE_BUILD)
    assert not programs.changed_after_the_build(READS_A_GLOBAL)


CHANGES_ONE_OF_TWO_FUNCTIONS = Program(
    (
        "def one(c, *, rate=0.25):\n    return rate",
        "s = lib.sgd(one)",
        "def other(c, *, rate=0.25):\n    return rate",
        "other.__name__ = other.__qualname__ = 'one'",
        "other.__code__ = one.__code__",
        "s = lib.sgd(other)",
        "other.__kwdefaults__['rate'] = 0.5",
        "step(s, 'static')",
        "step(lib.sgd(other), 'static')",
    )
)


def test_a_change_of_one_of_two_equal_functions_is_told_from_a_wrong_merge():
    program = CHANGES_ONE_OF_TWO_FUNCTIONS
    theirs, ours = run(program, optax), run(program, canonopt)
    assert theirs[0] == theirs[1] == ours[1] != ours[0]
    assert programs.changed_after_the_build(program) == {0}
    # Had it been changed before the build, it would be a fault.
    cells = program.cells
    earlier = dataclasses.replace(program, cells=(*cells[:5], cells[6], cells[5], *cells[7:]))
    assert run(earlier, canonopt) == run(earlier, optax)
    assert programs.changed_after_the_build(earlier) == set()


STEPS_TWICE = Program(
    (
        "names = ['w']",
        "optim = lib.masked(lib.sgd(0.5, 0.5), lambda p: {k: k in names for k in p})",
        *(f"step(optim, '{how}')" for how in dict.fromkeys(programs.HOW)),
        "names.append('b')",
        *(f"step(optim, '{how}')" for how in dict.fromkeys(programs.HOW)),
        "forget()",
        *(f"step(optim, '{how}')" for how in dict.fromkeys(programs.HOW)),
    )
)


def test_a_step_is_traced_when_jax_traces_it():
    """What was traced before a change stays what it was, in all ways but the eager one."""
    ways = list(dict.fromkeys(programs.HOW))
    recorded = run(STEPS_TWICE, optax)
    first, second, third = (recorded[i : i + len(ways)] for i in range(0, len(recorded), len(ways)))
    assert len(set(first)) == len(set(third)) == 1
    assert first[0] != third[0]
    # A state that is made outside of the step has the new structure.
    changed = {w for w, a, b in zip(ways, first, second, strict=True) if a != b}
    assert changed == {"eager", "outside", "update"}
    assert run(dataclasses.replace(STEPS_TWICE, compiled=True), optax) == recorded


@pytest.mark.parametrize("seed", range(8))
def test_the_numbers_are_those_of_the_compiled_step(seed):
    program = dataclasses.replace(write(Random(seed)), compiled=False)
    assert run(program, optax) == run(dataclasses.replace(program, compiled=True), optax)


def test_most_steps_give_numbers():
    records = [record for seed in range(60) for record in run(write(Random(seed)), optax)]
    failed = [record for record in records if isinstance(record, Failed)]
    assert len(records) > 200
    assert len(failed) < len(records) / 8


def test_a_seed_is_a_program():
    assert write(Random(3)) == write(Random(3)) != write(Random(4))


def test_errors_and_warnings_are_compared():
    text = "lib.sgd(lambda c: missing)", "step(lib.sgd(lambda c: missing), 'static')"
    (failed,) = run(Program(text), optax)
    assert failed.error is NameError
    assert not difference(Program(text))
    assert programs.agree(failed, Failed(NameError, ""))
    assert not programs.agree(failed, Failed(TypeError, ""))
    assert run(Program(("warnings.warn('program: hello')",)), optax) == [
        ("warnings", "program: hello")
    ]
