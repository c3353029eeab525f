"""Whether something that was compiled again could be avoided, and what to say if it could not."""

import itertools
import re
from collections.abc import Mapping, Sequence

from .causes import Change

# So many programs are expected that differ in a shape, a flag, a mode or a mesh, since each of them
# may be called many times. A number that has more than two values changes at every call.
PAIR, HANDFUL = 2, 5

# Advice in words.
COMMITTED_BY_ORBAX = (
    "if it was restored: orbax commits arrays, and canonopt.restore_like(like, load) leaves them "
    "as they are in like"
)


def verdict(calls: Sequence[Sequence[Change]]) -> tuple[str | None, str | None]:
    """How several calls with the same kinds of changes differ, and why they are expected, if so."""
    first = calls[0][0] if calls[0] else None
    if first is None:
        return None, None
    is_of_length = "missing" in (first.before, first.after)
    texts = [c[0].path if is_of_length else c[0].after for c in calls]
    growth = _growth(texts if is_of_length else [first.before, *texts])
    programs = len(calls) + 1
    is_expected = programs <= min(change.wanted for changes in calls for change in changes)
    if is_expected and growth is None:
        return None, f"{programs} programs are few, {first}"
    pattern = growth or ("changes at every call" if programs > HANDFUL else None)
    subject = re.sub(r"\[\d+\]$", "", first.path) if is_of_length else first.path
    return pattern and f"{subject} {pattern}", None


# Three lines at most, since a report shows no more of a note.
_NO_DIFFERENCE = """\
canonopt sees no difference from an earlier call
it cannot see: jax.clear_caches(), the size of a jax.vmap, jax.make_user_context"""
_UNNAMED = "nor `with Mesh(...)`, set_xla_metadata, the axis names of jax.vmap, rare settings"
_INSIDE = """\
its arguments are those of an earlier trace: it was called twice in one trace, or what is jitted
around it was made again, and canonopt.jit in place of jax.jit makes that one program"""


def no_difference(is_inside_trace: bool, has_names: bool) -> str:
    """What to say of two calls that look the same.

    **Arguments:**

    - `has_names`: whether JAX has names for the parts of its key.
    """
    if is_inside_trace:
        return _INSIDE
    return _NO_DIFFERENCE if has_names else f"{_NO_DIFFERENCE}\n{_UNNAMED}"


def path_of_growth(change: Change) -> str:
    """The path of a change, which is one for all lengths of a list."""
    is_of_length = "missing" in (change.before, change.after)
    return re.sub(r"\[\d+\]", "[i]", change.path) if is_of_length else change.path


def _growth(texts: Sequence[str]) -> str | None:
    """In words, if three numbers or more in the texts follow each other in equal steps."""
    steps = _steps(texts)
    if len(texts) < 3 or len(steps) != 1:
        return None
    (found,) = steps
    by = found[1]
    if not by or any(abs(value - i * by) > 1e-9 for i, value in enumerate(found)):
        return None
    word = "one" if abs(by) == 1 else f"{abs(by):g}"
    return f"{'grows' if by > 0 else 'shrinks'} by {word} at each call"


def _steps(texts: Sequence[str]) -> set[tuple[float, ...]]:
    """How the numbers in texts change from the first text on, without those that do not change.

    Empty if the texts differ in more than numbers.
    """
    if len({_NUMBER_IN.sub("#", text) for text in texts}) != 1:
        return set()
    columns = zip(*(map(float, _NUMBER_IN.findall(text)) for text in texts), strict=True)
    steps = [tuple(value - column[0] for value in column) for column in columns]
    *others, last = [column for column in steps if any(column)] or [()]
    # The length of what is concatenated follows from the lengths of the parts.
    if len(others) > 1 and last == tuple(map(sum, zip(*others, strict=True))):
        return set(others)
    return {column for column in (*others, last) if column}


_NUMBER_IN = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")


# --- what JAX compiles outside of a jit ---------------------------------------------------------

# Operations that take functions, by the names that JAX compiles them under.
_WITH_BODY = {
    "scan": "lax.scan",
    "while": "lax.while_loop",
    "cond": "lax.cond or lax.switch",
    "shard_map": "jax.shard_map",
}
_MANY = 10  # operations at one line
_JIT = "put the whole under jax.jit"


def several_shapes(shapes: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """A note and a hint for operations that a line compiled for several shapes, which it lists.

    None if one line runs for a handful of shapes, or for shapes that have nothing in common.
    """
    count, texts = max((len(set(s)), [*dict.fromkeys(s)]) for s in shapes.values())
    is_of_list = len({text.count(", ") for text in texts}) > 1
    texts = [_with_runs_counted(text) for text in texts] if is_of_list else texts
    if count <= HANDFUL or len(_steps(texts)) != 1:
        return None
    how = _growth(texts) or "changes at every call"
    if is_of_list:
        hint = "stack the list once, when it is complete, or keep Python numbers in it"
        return f"{count} shapes: the length of a list {how}", hint
    note = f"{count} shapes: the length {how}"
    mask = "pad to one length with a mask: jnp.where(jnp.arange(size) < n, x, 0)"
    return note, f"{_JIT}, and {mask}"


def _with_runs_counted(shapes: str) -> str:
    """`3 float32[1] -> float32[3]` for three operands of one shape."""
    operands, arrow, result = shapes.partition(" -> ")
    runs = ((text, len([*run])) for text, run in itertools.groupby(operands.split(", ")))
    return ", ".join(f"{count} {text}" for text, count in runs) + arrow + result


def repeated_operation(name: str, count: int) -> tuple[str, str] | None:
    """The same for an operation that a line compiled again for the same shapes.

    None if that was seldom: a line may have an operation with several constants.
    """
    if name in _WITH_BODY:
        public = _WITH_BODY[name]
        fix = f"canonopt.jit around the whole, or give {public} one function, made once"
        return f"the shapes are the same: {public} gets another function each time", fix
    note = "the shapes are the same: a constant or a function in it is another one each time"
    return (note, "canonopt.jit around the whole") if count >= HANDFUL else None


def many_operations(count: int, seconds: float) -> str | None:
    """What to say of operations that a line compiled once each, one by one."""
    if count < _MANY:
        return None
    return f"each operation is a program of its own, {seconds:.2f} s in all; or {_JIT}"
