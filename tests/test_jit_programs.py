"""Generated programs give the same with canonopt's `jit` and `filter_jit` in the usual ones' place.

`tests/support/jit_programs.py` writes the programs.
"""

import functools
import types

import jax
import pytest

from .support.generated import Program, Random, shrink, smallest
from .support.jit_programs import THEIRS, compared, write

pytestmark = pytest.mark.usefixtures("restored_caches")

FAST, CHUNK, CHUNKS = 20, 25, 11
CHUNKS_OF_SEEDS = [
    pytest.param(range(FAST), id="fast"),
    *(
        pytest.param(range(start, start + CHUNK), id=f"from {start}", marks=pytest.mark.slow)
        for start in range(FAST, FAST + CHUNK * CHUNKS, CHUNK)
    ),
]


@pytest.mark.parametrize("seeds", CHUNKS_OF_SEEDS)
def test_programs_give_the_same(seeds):
    merged = []
    for seed in seeds:
        found = compared(write(Random(seed)))
        if found.index is not None:
            pytest.fail(f"Seed {seed}. {smallest(found.program, compared)}", pytrace=False)
        if "effects" not in found.program.flags:
            merged.append(found.is_merged)
    jax.clear_caches()
    # Or nothing would be tested. Of many programs it is one in four.
    assert any(merged)


READS_A_GLOBAL = Program(
    (
        "rate = 2.0\ndef make():\n    def step(x):\n        return x * rate\n    return step",
        "note(jit(make()), 1.0)",
        "note(jit(make()), 1.0)",
        "rate = 3.0",
        "note(jit(make()), 1.0)",
    )
)


def test_a_wrong_merge_is_seen():
    """By a `jit` that has one program for each code."""
    once = functools.cache(lambda code, fn: jax.jit(fn.function))

    class Any(types.SimpleNamespace):
        __eq__, __hash__ = lambda *_: True, lambda _: 0

    unsound = types.SimpleNamespace(
        jit=lambda fn: once(fn.__code__, Any(function=fn)), filter_jit=THEIRS.filter_jit
    )
    assert compared(READS_A_GLOBAL).index is None and compared(READS_A_GLOBAL).is_merged
    found = compared(READS_A_GLOBAL, unsound)
    assert found.index == 2 and found.is_merged
    smaller = shrink(READS_A_GLOBAL, lambda program: compared(program, unsound))
    assert compared(smaller, unsound).index is not None
