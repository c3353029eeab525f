"""A difference between two calls, and the cause of recompiles, as all reports say them.

All of it is text and numbers, so that a report can be sent on.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Self

import attrs


@attrs.frozen
class Change:
    """One difference between two calls, and what to do about it.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, options, context, cleared.
    """

    path: str
    kind: str
    before: str
    after: str
    # Code to paste before the call, or "A in place of B". Empty if no code is sure to work.
    fix: str = ""
    # What to do, in words.
    hint: str = ""
    # How many programs that differ in this are likely wanted: one, a pair or a handful.
    wanted: int = 1

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"

    @property
    def is_of_length(self) -> bool:
        return "missing" in (self.before, self.after)

    @property
    def path_of_growth(self) -> str:
        """Return the path, which is one for all lengths of a list."""
        return re.sub(r"\[\d+\]", "[i]", self.path) if self.is_of_length else self.path


@attrs.frozen(kw_only=True)
class Cause:
    """Why something was traced or compiled again, or why a trace failed, and how often.

    The changes are those of the first time. Later ones have the same paths and kinds.
    """

    changes: tuple[Change, ...] = ()  # from the nearest earlier call
    note: str | None = None  # in place of changes
    hints: tuple[str, ...] = ()  # what to do, in words
    fixes: tuple[str, ...] = ()  # lines to paste
    what: str = ""
    times: int = 1
    seconds: float = 0.0
    # The lines of the user's code that ran it, as `file:line`, in the order of the first times.
    sites: tuple[str, ...] = ()
    pattern: str | None = None  # how the times differ from each other
    # Why this is expected, and no reason to change the code. None if it can be avoided.
    expected: str | None = None

    @classmethod
    def of(cls, changes: Iterable[Change], note: str | None = None) -> Self:
        """Return a cause by changes, with the advice of all of them, each once."""
        found = (*changes,)
        hints = dict.fromkeys(change.hint for change in found if change.hint)
        fixes = dict.fromkeys(change.fix for change in found if change.fix)
        return cls(changes=found, note=note, hints=(*hints,), fixes=(*fixes,))

    @property
    def is_expected(self) -> bool:
        return self.expected is not None

    @property
    def is_avoidable(self) -> bool:
        """Return True if something ran again that need not. A failed trace is an error instead."""
        return not (self.is_expected or self.what.startswith("failed"))

    @property
    def title(self) -> str:
        again = " again" if self.what.startswith("was") else ""
        return f"{self.what}{again}, {times(self.times)}"

    def lines(self, most: int = 3, in_full: bool = False) -> list[str]:
        """Return the first changes or the lines of the note, then what to do, `most` of each.

        One line if this is expected, unless it is wanted `in_full`.
        """
        if self.expected is not None and not in_full:
            return [f"expected: {self.expected}"]
        shown = [f"{'also ' if i else ''}{each}" for i, each in enumerate(self.changes[:most])]
        if len(self.changes) > most:
            rest = len(self.changes) - most
            shown.append(f"and {rest} more difference{'s' if rest > 1 else ''}")
        shown += [line for line in (self.note or "").splitlines() if line.strip()][:most]
        shown += [self.pattern] if self.pattern else []
        if self.sites:
            rest = f", and {len(self.sites) - most} more lines" if len(self.sites) > most else ""
            shown.append(f"called at {', '.join(self.sites[:most])}{rest}")
        hints, fixes = self.hints[:most], self.fixes
        if len(fixes) > most:  # fewer would not do
            hints, fixes = (*hints[: most - 1], f"{len(fixes)} lines like {fixes[0]}"), ()
        return [*shown, *(f"hint: {text}" for text in hints), *(f"write: {fix}" for fix in fixes)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def nth(count: int) -> str:
    last = 0 if count % 100 in (11, 12, 13) else count % 10
    return f"{count}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def aligned(rows: list[tuple[object, ...]]) -> list[str]:
    """Return the lines of a table whose columns are as wide as their cells."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


# --- is it expected -------------------------------------------------------------------------------

# So many programs are expected that differ in a shape, a flag, a mode or a mesh, since each of them
# may be called many times.
PAIR, HANDFUL = 2, 5
_CHANGES = "changes each time"


def verdict(calls: Sequence[Sequence[Change]]) -> tuple[str | None, str | None]:
    """Return how several calls with the same kinds of changes differ, and why they are expected."""
    first = calls[0][0]
    is_of_length, is_made = first.is_of_length, first.kind in ("function", "callable")
    texts = [c[0].path for c in calls]
    if not is_of_length:
        texts = [first.before, *(c[0].after for c in calls)]
    growth = None if is_made else _growth(texts)
    # Another difference may come between two calls with one of these.
    befores = {tuple(change.before for change in calls[0])}
    afters = [tuple(c.path if is_of_length else c.after for c in changes) for changes in calls]
    variants = len(befores.union(afters))
    # A call that is wanted for one difference needs its program, whatever else differs in it.
    wanted = [max(changes, key=lambda change: change.wanted) for changes in calls]
    if growth is None and variants <= min(change.wanted for change in wanted):
        noun = "programs" if variants == len(calls) + 1 else "variants"
        return None, f"{variants} {noun} are few, {wanted[0]}"
    pattern = growth or (_CHANGES if variants > HANDFUL and not is_made else None)
    subject = re.sub(r"\[\d+\]$", "", first.path) if is_of_length else first.path
    return pattern and f"{subject} {pattern}", None


def _growth(texts: Sequence[str]) -> str | None:
    """Return words if three numbers or more in the texts follow each other in equal steps."""
    steps = _steps(texts)
    if len(texts) < 3 or len(steps) != 1:
        return None
    (found,) = steps
    by = found[1]
    if not by or any(abs(value - i * by) > 1e-9 for i, value in enumerate(found)):
        return None
    word = "one" if abs(by) == 1 else f"{abs(by):g}"
    return f"{'grows' if by > 0 else 'shrinks'} by {word} each time"


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def _steps(texts: Sequence[str]) -> set[tuple[float, ...]]:
    """Return how the numbers in texts change from the first text on, if they do.

    Nothing if the texts differ in more than numbers.
    """
    if len({_NUMBER.sub("#", text) for text in texts}) != 1:
        return set()
    columns = zip(*(map(float, _NUMBER.findall(text)) for text in texts), strict=True)
    steps = [tuple(value - column[0] for value in column) for column in columns]
    *others, last = [column for column in steps if any(column)] or [()]
    # The length of what is concatenated follows from the lengths of the parts.
    if len(others) > 1 and last == tuple(map(sum, zip(*others, strict=True))):
        return set(others)
    return {column for column in (*others, last) if column}


# --- what JAX compiles outside of a jit -----------------------------------------------------------

# Operations that take functions, by the names that JAX compiles them under.
_WITH_BODY = {
    "scan": "lax.scan (map, fori_loop)",
    "while": "lax.while_loop or lax.fori_loop",
    "cond": "lax.cond or lax.switch",
    "_piecewise": "jnp.piecewise",
    "shard_map": "jax.shard_map",
}
_FEW_BUCKETS = 6  # lengths that jump
_PAD = (
    "put the whole under jax.jit, and pad to one length with a mask: jnp.where(jnp.arange(size) < "
    "n, x, what does not count: 0 in a sum, -inf in a maximum, and a mean divides by n)"
)
_STACK = "stack the list once, when it is complete, or keep Python numbers in it"


def several_shapes(shapes: Iterable[Sequence[str]]) -> Cause | None:
    """Return what to say of operations that a line compiled for several shapes each.

    None if each had a handful of shapes, or shapes that have nothing in common.
    """
    told = (_of_shapes([*dict.fromkeys(of_operation)]) for of_operation in shapes)
    return max((each for each in told if each), key=lambda each: each[0], default=(0, None))[1]


def _of_shapes(texts: list[str]) -> tuple[int, Cause] | None:
    count = len(texts)
    is_of_list = len({text.count(", ") for text in texts}) > 1
    texts = [_with_runs_counted(text) for text in texts] if is_of_list else texts
    growth = _growth(texts)
    if count <= (HANDFUL if growth else _FEW_BUCKETS) or len(_steps(texts)) != 1:
        return None
    length = "the length of a list" if is_of_list else "the length"
    note = f"{count} shapes: {length} {growth or _CHANGES}"
    return count, Cause(note=note, hints=(_STACK if is_of_list else _PAD,))


def _with_runs_counted(shapes: str) -> str:
    """Return `3 float32[1] -> float32[3]` for three operands of one shape."""
    operands, arrow, result = shapes.partition(" -> ")
    runs = ((text, len([*run])) for text, run in itertools.groupby(operands.split(", ")))
    return ", ".join(f"{count} {text}" for text, count in runs) + arrow + result


def repeated_operation(name: str, count: int) -> Cause | None:
    """Return what to say of an operation that a line compiled again for the same shapes.

    None if that was seldom: a line may have an operation with several constants.
    """
    if public := _WITH_BODY.get(name):
        note = f"the shapes are the same: {public} gets another function"
        hint = "canonopt.jit around the whole, or give it one function, made once"
        return Cause(note=note, hints=(hint,))
    note = "the shapes are the same: a constant or a function in it is another one each time"
    return Cause(note=note, hints=("canonopt.jit around the whole",)) if count >= HANDFUL else None
