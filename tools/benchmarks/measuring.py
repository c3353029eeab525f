"""Time several ways to do the same thing, in balanced order."""

import statistics
import timeit
from collections.abc import Callable, Mapping, Sequence

import attrs

Sample = Callable[[], float]  # measures once, and returns seconds


@attrs.frozen
class Point:
    """Figures for one place of the x axis.

    `median`, `low` and `high` (the quartiles) are of all samples. `ratio` is the median of the
    ratios to the sample of the first way in the same round: other jobs on the machine slow down
    neighbouring samples alike.
    """

    x: int
    median: float
    low: float
    high: float
    ratio: float


@attrs.frozen
class Part:
    """A plot with a line for each way."""

    title: str
    text: str
    x: str  # the label of the axis
    y: str
    lines: dict[str, list[Point]]


def compare(
    x: int, ways: Mapping[str, Callable[[], Sample]], repeats: int, rounds: int
) -> dict[str, Point]:
    """Measure each way `repeats * rounds` times.

    Each repetition makes the ways anew, so that their programs are compiled again: which program is
    compiled first can make a difference of several per cent. The order in which they are made and
    measured is rotated.
    """
    names = [*ways]
    values: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        samples = {name: ways[name]() for name in _rotated(names, repeat)}
        for turn in range(rounds):
            for name in _rotated(names, repeat + turn):
                values[name].append(samples[name]())
    return points(x, values)


def points(x: int, values: Mapping[str, Sequence[float]]) -> dict[str, Point]:
    """Return the figures of samples that were taken in the same rounds."""
    baseline = next(iter(values.values()))
    found = {}
    for name, mine in values.items():
        low, median, high = statistics.quantiles(mine, n=4) if len(mine) > 1 else [*mine] * 3
        ratios = [a / b for a, b in zip(mine, baseline, strict=True) if b]
        found[name] = Point(x, median, low, high, statistics.median(ratios) if ratios else 1.0)
    return found


def timed(function: Callable[[], object], seconds: float = 0.02) -> Sample:
    """Return a `Sample` of the mean time of a call, over as many calls as take about `seconds`."""
    timer = timeit.Timer(function)
    number = 1
    while (taken := timer.timeit(number)) < seconds / 4:
        number *= 4
    number = max(1, round(number * seconds / taken))
    return lambda: timer.timeit(number) / number


def _rotated(names: list[str], by: int) -> list[str]:
    # Every second order is backwards, so that no way always follows the same other one.
    at = by // 2 % len(names)
    turned = names[at:] + names[:at]
    return turned[::-1] if by % 2 else turned
