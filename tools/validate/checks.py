"""Define the parts of the validation.

A part gives checks by name. A check measures one row of the part's table: columns by name, with
`met` for whether what is expected of it is met.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tests.support.placements import OPTIMIZERS
from tests.support.values import bits

Row = dict[str, Any]
Check = Callable[[], "Row | NotRun | Failed"]


@attrs.frozen
class NotRun:
    """In place of a check, or of what it found."""

    reason: str


@attrs.frozen
class Failed:
    """Result of a check that raised."""

    error: str

    @classmethod
    def by(cls, error: Exception) -> "Failed":
        first = (str(error).strip().splitlines() or [""])[0]
        return cls(f"{type(error).__name__}: {first}")


@attrs.frozen
class Size:
    optimizers: tuple[str, ...]
    most: int | None  # of what a part goes through
    trials: int
    steps: int
    leaves: tuple[int, ...]
    rounds: int


FULL = Size(tuple(OPTIMIZERS), most=None, trials=5, steps=20, leaves=(10, 100, 1_000), rounds=21)
QUICK = Size(("adam",), most=2, trials=2, steps=5, leaves=(10,), rounds=3)


@attrs.frozen
class Part:
    """Part of the validation: its checks, and what the record says of them.

    The rows of a grid are named by optimizer and placement. It is large, so its checks run in
    several processes, and have to be picklable.
    """

    checks: Callable[[Size], Mapping[str, Check | NotRun]]
    text: str
    is_grid: bool = False


# What is said of numbers. Where an accelerator is not deterministic, nothing is expected of them.
SAME, SAME_FROM_STATE, DIFFER = "same", "same from the same state", "differ"
NOT_DETERMINISTIC = "Optax differs from itself"


def numbers_of(ours: Any, theirs: Any) -> str:
    return SAME if bits(ours) == bits(theirs) else DIFFER
