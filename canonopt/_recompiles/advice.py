"""What reports say of a difference between two calls: a `Change`, with the line to write.

A `Cause` is what several calls have in common, with a verdict on whether it could be avoided.
`cause_lines` renders changes and advice for every report.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import jax.numpy as jnp

from .call_key import INEXACT, CallKey, state_misfits_model
from .records import Array, Node, Record, Static


@attrs.frozen
class Change:
    """One difference between two calls, and what to write.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, layout, options, context.
    """

    path: str
    kind: str
    before: str
    after: str
    fix: str
    # How many programs that differ in this are likely wanted: one, a pair or a handful.
    wanted: int = 1

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"


@attrs.frozen
class CauseLine:
    """One line of a report about a recompile. `str` of it is the line as plain text."""

    role: Literal["change", "note", "fix"]
    text: str

    def __str__(self) -> str:
        return f"write: {self.text}" if self.role == "fix" else self.text


def cause_lines(
    changes: Sequence[Change], note: str | None, fixes: Sequence[str], most: int = 3
) -> list[CauseLine]:
    """The first changes or the lines of the note, then what to write; at most `most` of each."""
    shown = [f"{'also ' if i else ''}{change}" for i, change in enumerate(changes[:most])]
    if len(changes) > most:
        shown.append(f"and {len(changes) - most} more differences")
    noted = [line for line in (note or "").splitlines() if line.strip()][:most]
    return [
        *(CauseLine("change", text) for text in shown),
        *(CauseLine("note", text) for text in noted),
        *(CauseLine("fix", text) for text in fixes[:most]),
    ]


@attrs.frozen
class Cause:
    """Why something was traced or compiled again, or why a trace failed, and how often."""

    what: str
    times: int
    seconds: float
    # Those of the first time. Later ones have the same paths and kinds.
    changes: tuple[Change, ...]
    note: str | None  # in place of changes
    fixes: tuple[str, ...]
    # The lines of the user's code that ran it, as `file:line`, in the order of the first times.
    sites: tuple[str, ...] = ()
    pattern: str | None = None  # how the times differ from each other
    # Why this is expected, and no reason to change the code. None if it can be avoided.
    expected: str | None = None

    @property
    def is_expected(self) -> bool:
        return self.expected is not None

    @property
    def is_avoidable(self) -> bool:
        """Whether something ran again that need not. A trace that failed is an error instead."""
        return not self.is_expected and not self.what.startswith("failed")

    @property
    def title(self) -> str:
        again = " again" if self.what.startswith("was") else ""
        return f"{self.what}{again}, {times(self.times)}"

    def report(self, most: int = 3, in_full: bool = False) -> list[CauseLine]:
        """The changes or the note, and what to write: what all reports show, `most` of each.

        One line if this is expected, unless it is wanted `in_full`.
        """
        if self.expected is not None and not in_full:
            return [CauseLine("note", f"expected: {self.expected}")]
        lines = cause_lines(self.changes, self.note, self.fixes, most)
        at = [line.role for line in lines].index("fix") if self.fixes else len(lines)
        more = [self.pattern] if self.pattern else []
        if self.sites:
            rest = f", and {len(self.sites) - most} more lines" if len(self.sites) > most else ""
            more.append(f"called at {', '.join(self.sites[:most])}{rest}")
        return [*lines[:at], *(CauseLine("note", text) for text in more), *lines[at:]]

    def lines(self, in_full: bool = False) -> list[str]:
        """The report as plain text."""
        return [str(line) for line in self.report(in_full=in_full)]


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def aligned(rows: list[tuple[object, ...]]) -> list[str]:
    """The lines of a table whose columns are as wide as their cells."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


# --- whether it could be avoided ----------------------------------------------------------------

# So many programs are expected that differ in a shape, a flag, a mode or a mesh, since each of them
# may be called many times. A number that has more than two values changes at every call.
PAIR, HANDFUL = 2, 5


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
    steps = {tuple(value - column[0] for value in column) for column in columns}
    return {column for column in steps if any(column)}


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
    """A note and a fix for operations that a line compiled for several shapes, which it lists.

    None if one line runs for a handful of shapes, or for shapes that have nothing in common.
    """
    count, texts = max((len(set(s)), [*dict.fromkeys(s)]) for s in shapes.values())
    if count <= HANDFUL or len(_steps(texts)) != 1:
        return None
    note = f"{count} shapes: the length {_growth(texts) or 'changes at every call'}"
    mask = "pad to one length with a mask: jnp.where(jnp.arange(size) < n, x, 0)"
    return note, f"{_JIT}, and {mask}"


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


# --- what to write ----------------------------------------------------------------------------

# A record keeps no value, so a number is recognized by its text.
_NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")


def is_number_text(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def state_advice(path: str = "opt_state") -> str:
    """For an optimizer state at `path`, which is named if one can assign to it."""
    name = path if path.replace(".", "").isidentifier() else "opt_state"
    return f"{name} = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"


def failure_advice(key: CallKey | None) -> tuple[str, ...]:
    """For a trace that failed: the state's advice if a state in the call misfits its model."""
    return (state_advice(),) if key is not None and state_misfits_model(key) else ()


def class_advice(node: Node) -> str:
    name = node.type.rpartition(".")[2]
    return (
        f"define class {name} once: a loop or a notebook cell that runs again makes another class"
    )


def context_advice(name: str) -> str:
    if "jax_" in name:
        return f"jax.config.update({name!r}, ...) once, before the first call"
    if name in ("mesh", "with mesh"):
        return "jax.set_mesh(mesh) once, before the first call"
    return f"the same {name} in every call"


APPLY_ADVICE = (
    "canonopt.apply_updates(model, updates) in place of eqx.apply_updates(model, updates): the "
    "model keeps its dtypes"
)


def is_widened_by_step(before: Record | None, after: Record | None, old: CallKey) -> bool:
    """Whether a parameter became wider because a wider update was added to it.

    It did if the earlier call, an optimizer step, returned more arrays of the wider type than it
    was given. A wider batch does not come from there.
    """
    if not isinstance(before, Array) or not isinstance(after, Array) or not old.states:
        return False
    if not (before.dtype.startswith(INEXACT) and after.dtype.startswith(INEXACT)):
        return False
    is_wider = jnp.dtype(after.dtype).itemsize > jnp.dtype(before.dtype).itemsize
    wide = (after.shape, after.dtype)
    given = [(r.shape, r.dtype) for r in old.records.values() if isinstance(r, Array)]
    return is_wider and old.returned[wide] > given.count(wide)


OPTIONS_ADVICE = "jit the function once, with one set of options"
TRANSFORM_ADVICE = (
    "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted function is "
    "a program of its own"
)


def leaf_advice(kind: str, argument: str, before: Record | None, after: Record | None) -> str:
    """For a leaf or a node of `argument`, outside of optimizer states."""
    if kind == "structure":
        return f"give {argument} one structure from the first call on"
    if kind == "none":
        return f"give {argument} one structure from the first call on: None and a leaf differ"
    if kind == "shape":
        return f"pad or drop what is left over, so that {argument} has one shape"
    if kind == "dtype":
        assert isinstance(before, Array) and isinstance(after, Array)
        # A key of `jax.random.PRNGKey` is an array of uint32. `astype` makes no typed key of it.
        if before.is_key or after.is_key:
            return f"{argument} with keys of one style: jax.random.key(seed)"
        return f"{argument} in one dtype: .astype(jnp.{before.dtype})"
    if kind == "weak type":
        return f"{argument} = canonopt.canonicalize({argument})"
    if kind == "scalar":
        return f"{argument} always as an array: jnp.asarray({argument}, dtype)"
    if kind == "memory kind":
        return f"jax.device_put({argument}, sharding) with one memory kind, before the first call"
    if kind == "layout":
        return f"jax.device_put({argument}, format) with one layout, before the first call"
    return (
        f"jax.device_put({argument}, sharding) before the first call, or jax.jit(step, "
        "out_shardings=...) so that a step returns what it takes"
    )


@attrs.frozen
class StaticDifference:
    """Two static values that differ, and where in them."""

    before: Static
    after: Static
    # The outermost functions or transformations on the way to what differs, or the values.
    old_function: Static
    new_function: Static
    # The innermost parts of these that look different, if any do.
    visible: tuple[Static, Static] | None
    # The class that was defined again between the two calls, if that is what differs.
    redefined: Node | None

    @property
    def is_of_numbers(self) -> bool:
        return self.visible is not None and all(is_number_text(s.text) for s in self.visible)

    @property
    def is_same_to_canonopt(self) -> bool:
        # Keys may be equal though a global, or a variable that several functions capture, changed.
        same_key = self.old_function.key is not None and (
            self.old_function.key == self.new_function.key
        )
        return same_key and self.visible is None


def static_advice(kind: str, path: str, argument: str, found: StaticDifference) -> str:
    """For a static value at `path` in `argument`."""
    before, after, function = found.before, found.after, found.old_function
    if found.redefined is not None:
        return class_advice(found.redefined)
    # If something visible differs, these are two configurations, and nothing would merge them.
    is_built_again = function.key != found.new_function.key and found.visible is None
    if function.why_not_shared is not None and is_built_again:
        return f"{path} is new each time: {function.why_not_shared}"
    if kind == "transformation":
        where = f"{path} =" if function is before else f"in {argument}:"
        if found.is_of_numbers:
            return (
                f"{where} canonopt.adam(canonopt.dynamic(lr)), and so on: a dynamic value may "
                "change without a new trace"
            )
        return (
            f"{where} canonopt.adam(...) in place of optax.adam(...), and so on: the same "
            "configuration is the same object"
        )
    if kind == "function":
        if found.is_same_to_canonopt:
            return (
                "canonopt.jit in place of jax.jit, canonopt.filter_jit in place of "
                "equinox.filter_jit: functions that do the same run one program"
            )
        # If the functions differ, the program of the first one has the values of the first one.
        return "jit one function, and pass what differs as an argument"
    if kind == "callable":
        if found.is_same_to_canonopt:
            make = "hoist" if path == argument else "canonicalize"
            line = f"{argument} = canonopt.{make}({argument})"
            return f"{line}: functions that behave the same become one object"
        return f"build {path} once, or pass what differs in it as an array argument"
    if before.text == after.text and before.is_unique:
        return f"keep one instance for {path}, or give its class __eq__ and __hash__"
    if any(is_number_text(static.text) for static in (before, after)):
        why = "a static number is part of the program"
        if path == argument:
            return f"jnp.asarray({argument}) as an ordinary argument: {why}"
        return f"give {path} one value, or make it an array: {why}"
    return f"give {path} one value, or pass what changes as an array"
