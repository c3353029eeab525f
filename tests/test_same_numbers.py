"""Programs with canonopt's names in the place of Optax's, JAX's or Equinox's give the same numbers.

`tests/support/programs.py` and `jit_programs.py` write them, those with optimizers as many as the
environment variable CANONOPT_PROGRAMS says.
"""

import functools
import os
import types

import jax
import optax
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import canonopt

from .support import jit_programs
from .support.generated import PLACES, Program, Random, shrink, smallest
from .support.jit_programs import THEIRS
from .support.programs import FACTORIES, HOW, KINDS, LATE, Failed, agree, compared, run, write

pytestmark = pytest.mark.usefixtures("restored_caches")

TABLES = {"places": PLACES, "kinds": KINDS, "factories": FACTORIES}
TEMPLATES = [
    pytest.param({table: (template,)}, id=f"{table}: {repr(template.setup or template.uses)[:50]}")
    for table, found in TABLES.items()
    for template in found
]
COUNT = int(os.environ.get("CANONOPT_PROGRAMS", "250"))


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
@pytest.mark.parametrize("only", TEMPLATES)
def test_each_template_has_the_numbers_of_optax(only, seed):
    """Places, functions and factories, each of them more often than chance would have it."""
    check(write(Random(seed), **only), f"seed {seed}")


def check(program, origin):
    if found := smallest(program, compared):
        pytest.fail(f"A program of {origin}, made smaller. {found}", pytrace=False)


# --- the programs and the way that they are run ---------------------------------------------------


def unsound_library() -> types.SimpleNamespace:
    """Return Optax, but for an `sgd` that is built once for each code."""
    built = {}

    def sgd(function):
        return built.setdefault(function.__code__.co_code, optax.sgd(function))

    return types.SimpleNamespace(sgd=sgd)


@pytest.mark.parametrize("how", [*dict.fromkeys(HOW)])
def test_a_wrong_merge_is_seen(how):
    step = f"step(lib.sgd(lambda c: rate), '{how}')"
    program = Program(("rate = 0.25", step, "rate = 0.5", step, "rate = 0.25", step))
    theirs, unsound = run(program, optax), run(program, unsound_library())
    assert theirs[0] == theirs[2] != theirs[1]
    assert theirs == run(program, canonopt)
    assert (unsound == theirs) == (how == "eager")


def test_a_late_step_is_not_compared():
    """Where the build is rightly an optimizer that has been traced, no merge can get it right."""
    built, late = "step(lib.sgd(lambda c: rate), 'static')", "step(s, 'static')"
    program = Program(
        ("rate = 0.25", built, "s = lib.sgd(lambda c: rate)", "rate = 0.5", late, built)
    )
    theirs, ours = run(program, optax), run(program, canonopt)
    assert theirs[0] != theirs[1] == theirs[2] == ours[2]
    assert ours[1] == ours[0] and compared(program).index == 1
    cells = [cell.replace("(s, 'static'", "(s, 'static', True") for cell in program.cells]
    assert compared(Program(tuple(cells))).index is None


def test_most_steps_give_numbers_that_are_compared():
    records = [record for seed in range(60) for record in run(write(Random(seed)), optax)]
    assert len(records) > 200
    assert sum(isinstance(record, Failed) for record in records) < len(records) / 8
    assert records.count(LATE) < len(records) * 0.4


def test_errors_and_warnings_are_compared():
    program = Program(("lib.sgd(lambda c: missing)", "step(lib.sgd(lambda c: missing), 'static')"))
    (failed,) = run(program, optax)
    assert failed.error is NameError
    assert compared(program).index is None
    assert agree(failed, Failed(NameError, ""))
    assert not agree(failed, Failed(TypeError, ""))
    warning = Program(("import warnings\nwarnings.warn('program: hello')",))
    assert run(warning, optax) == ["program: hello"]


# --- programs that jit functions ------------------------------------------------------------------

FAST, CHUNK, CHUNKS = 20, 25, 8
CHUNKS_OF_SEEDS = [
    pytest.param(range(FAST), id="fast"),
    *(
        pytest.param(range(start, start + CHUNK), id=f"from {start}", marks=pytest.mark.slow)
        for start in range(FAST, FAST + CHUNK * CHUNKS, CHUNK)
    ),
]


@pytest.mark.parametrize("seeds", CHUNKS_OF_SEEDS)
def test_jitted_programs_give_the_same(seeds):
    merged = []
    for seed in seeds:
        found = jit_programs.compared(jit_programs.write(Random(seed)))
        if found.index is not None:
            smaller = smallest(found.program, jit_programs.compared)
            pytest.fail(f"Seed {seed}. {smaller}", pytrace=False)
        if "effects" not in found.program.flags:
            merged.append(found.is_merged)
    jax.clear_caches()
    # Or nothing would be tested. Of many programs it is one in four.
    assert any(merged)


MAKE = "rate = 2.0\ndef make():\n    def step(x):\n        return x * rate\n    return step"
CALL = "note(jit(make()), 1.0)"
READS_A_GLOBAL = Program((MAKE, CALL, CALL, "rate = 3.0", CALL))


def test_a_wrong_merge_of_jit_is_seen():
    """By a `jit` that has one program for each code."""
    once = functools.cache(lambda code, fn: jax.jit(fn.function))

    class Any(types.SimpleNamespace):
        __eq__, __hash__ = lambda *_: True, lambda _: 0

    unsound = types.SimpleNamespace(
        jit=lambda fn: once(fn.__code__, Any(function=fn)), filter_jit=THEIRS.filter_jit
    )
    sound = jit_programs.compared(READS_A_GLOBAL)
    assert sound.index is None and sound.is_merged
    found = jit_programs.compared(READS_A_GLOBAL, unsound)
    assert found.index == 2 and found.is_merged
    smaller = shrink(READS_A_GLOBAL, lambda program: jit_programs.compared(program, unsound))
    assert jit_programs.compared(smaller, unsound).index is not None
