"""Generated programs: cells of text that are run with two libraries, compared and made smaller."""

import argparse
import dataclasses
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

Random = random.Random


@dataclasses.dataclass(frozen=True)
class Program:
    """The text of each cell, as a notebook has them, and how they are run."""

    cells: tuple[str, ...]
    flags: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return "\n\n# %%\n".join((f"# {', '.join(sorted(self.flags)) or 'plain'}", *self.cells))


def run_cells(
    cells: tuple[str, ...],
    module: types.ModuleType,
    fail: Callable[[Exception], None],
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Run each cell in a module. After an error the next cell is run."""
    for number, text in enumerate(cells):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(compile(text, f"<{module.__name__} {number}>", "exec"), vars(module))
            except Exception as error:
                fail(error)
        for each in caught:
            warn(str(each.message))


def named_texts(text: str) -> dict[str, tuple[str, str]]:
    """Return the options and the lines of each text below its head, `### name, options`."""
    parts = [part.partition("\n") for part in text.strip().removeprefix("### ").split("\n### ")]
    heads = [(*head.partition(", "), body) for head, _, body in parts]
    return {name: (options, body) for name, _, options, body in heads}


@dataclasses.dataclass(frozen=True)
class Compared:
    """The records of two runs, and how often each compiled."""

    program: Program
    theirs: list[Any]
    ours: list[Any]
    agree: Callable[[Any, Any], bool]
    compiles: tuple[int, int] = (0, 0)

    @property
    def is_merged(self) -> bool:
        return self.compiles[1] < self.compiles[0]

    @property
    def index(self) -> int | None:
        """Return the number of the first record that differs."""
        pairs = zip(self.theirs, self.ours, strict=False)
        where = next((i for i, pair in enumerate(pairs) if not self.agree(*pair)), None)
        parted = len(self.theirs) != len(self.ours)
        return min(map(len, (self.theirs, self.ours))) if where is None and parted else where

    def __str__(self) -> str:
        head = f"{len(self.theirs)} records, {self.compiles} compiles"
        if self.index is not None:
            theirs, ours = ([*r, None][self.index] for r in (self.theirs, self.ours))
            head = f"Record {self.index} differs.\n  theirs: {theirs}\n  ours:   {ours}"
        return f"{head}\n\n{self.program.text}\n"


def shrink(program: Program, compare: Callable[[Program], Compared]) -> Program:
    """Return a program that differs too, from which no flag, cell or line can be left out."""

    def smaller() -> Iterator[Program]:
        cells = program.cells
        for flag in program.flags:
            yield dataclasses.replace(program, flags=program.flags - {flag})
        for i in reversed(range(len(cells))):
            yield dataclasses.replace(program, cells=cells[:i] + cells[i + 1 :])
        for i, cell in enumerate(cells):
            lines = cell.split("\n")
            for j in reversed(range(len(lines) if len(lines) > 1 else 0)):
                rest = "\n".join(lines[:j] + lines[j + 1 :])
                yield dataclasses.replace(program, cells=(*cells[:i], rest, *cells[i + 1 :]))

    def still_differs(other: Program) -> bool:
        found = compare(other)
        return found.index is not None and "SyntaxError" not in str(found.theirs)

    while (other := next(filter(still_differs, smaller()), None)) is not None:
        program = other
    return program


def smallest(program: Program, compare: Callable[[Program], Compared]) -> Compared | None:
    """Return how the runs of a program differ, after the program was made smaller."""
    found = compare(program)
    if found.index is None:
        return None
    again = compare(shrink(program, compare))
    return found if again.index is None else again


def main(write: Callable[[Random], Program], compare: Callable[[Program], Compared]) -> None:
    """Show the program of one seed, or those of many that differ."""
    parser = argparse.ArgumentParser(prog=sys.argv[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    options = parser.parse_args()
    differ = 0
    for seed in range(options.seed, options.seed + options.count):
        program = write(Random(seed))
        found = smallest(program, compare)
        differ += found is not None
        if found is not None:
            print(f"seed {seed}: {found}", flush=True)
        elif options.count == 1:
            print(compare(program))
    print(f"{options.count} programs, {differ} differ")
