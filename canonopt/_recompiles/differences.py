"""Why a call missed the jit cache: its differences from the nearest earlier call.

The nearest is the one with the fewest differences. Each has a kind, words for before and after, and
advice.
"""

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from .._jax_internals import Array, Compile, devices_of, key_context
from .advice import (
    IMPORT_ADVICE,
    OPTIONS_ADVICE,
    TRANSFORM_ADVICE,
    class_advice,
    context_advice,
    keyword_advice,
    leaf_advice,
    order_advice,
    parameter_advice,
    static_advice,
)
from .call_key import FUNCTION_PATH, UNNAMED_STATIC, CallKey, is_inside
from .causes import HANDFUL, Change, cause_lines, no_difference
from .records import (
    WRAPPED_FUNCTION,
    Node,
    Nothing,
    Part,
    Record,
    Static,
    as_traced,
    difference_of,
    looks_different,
    node_of,
    outermost_functions,
    static_words,
    way_to,
)


@attrs.frozen
class Explanation:
    """The differences from the nearest earlier entry, which is the one with the fewest."""

    nearest: int
    changes: tuple[Change, ...]
    # The number of differences from each of the earlier entries, counted up to 64.
    distances: tuple[int, ...]
    # Whether the call was seen from inside of the function, while it was traced.
    is_inside_trace: bool = False

    @property
    def fixes(self) -> tuple[str, ...]:
        """The lines to paste, each once."""
        return tuple(dict.fromkeys(change.fix for change in self.changes if change.fix))

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do, in words."""
        return tuple(dict.fromkeys(change.hint for change in self.changes if change.hint))

    @property
    def note(self) -> str | None:
        """What to say in place of changes if there are none."""
        if self.changes:
            return None
        return no_difference(self.is_inside_trace, has_names=bool(key_context()))

    def __str__(self) -> str:
        return "\n".join(map(str, cause_lines(self.changes, self.note, self.hints, self.fixes)))


# A call is compared with so many of the first calls and of those just before it.
_MAX_FIRST, _MAX_LAST = 4, 12


TWO_TRACES = "needed two traces"


@attrs.define(eq=False)
class Entry:
    """One trace, one compile, or both: what a miss of the jit cache led to."""

    call_key: CallKey | None = attrs.field(repr=False)  # too long
    at: float  # seconds, of time.perf_counter
    traced: bool = False
    compiled: bool = False
    trace_seconds: float = 0.0
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0
    error: str | None = None  # of a trace that failed
    advice: tuple[str, ...] = ()  # what to write in place of a call that failed
    # By an assertion. Later calls are not compared with this one, so the reason stays the same.
    refused: bool = False
    # Whether the function had been traced or compiled before. If `predict` was traced inside `step`
    # and is called later, that is an entry of its own with a first compile.
    traced_again: bool = False
    compiled_again: bool = False
    # Whether it was traced inside another trace, and so is a part of that program.
    is_nested: bool = False
    # Whether `canonopt.jit` traced it to find out if others may run the program.
    is_trial: bool = False
    # Why JAX had to trace it once more after such a trial.
    after_trial: str | None = None
    site: str | None = None  # the line of the user's code that ran it, as `file:line`
    # In the log of a line: what JAX or a library compiled, and for JAX from which shapes to which.
    operation: str | None = None
    shapes: str | None = None
    # If the compile was slow: items with the same shapes, such as layers, and how many.
    alike: tuple[str, int] | None = None
    # The keys of earlier calls, until they were compared with this one.
    earlier: tuple[CallKey, ...] = attrs.field(default=(), repr=False)
    _explanation: Explanation | None = attrs.field(default=None, repr=False)
    _problem: str | None = None

    @property
    def explanation(self) -> Explanation | None:
        """How the call differs from earlier ones, which is found out when it is first asked for."""
        earlier, self.earlier = self.earlier, ()
        if earlier and self.call_key is not None:
            try:
                self._explanation = explain(self.call_key, earlier)
            except Exception as error:  # an explanation is not worth a failing report
                self._problem = f"canonopt failed to compare the calls: {error!r}"
        return self._explanation

    def compare_with(self, earlier: Sequence[CallKey]) -> None:
        """Notes the first and the last of the earlier calls, to be compared when somebody asks."""
        self.earlier = (*earlier[:_MAX_FIRST], *earlier[_MAX_FIRST:][-_MAX_LAST:])

    @property
    def is_again(self) -> bool:
        return self.traced_again or self.compiled_again

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.lowering_seconds + self.compile_seconds

    def is_followed_by_backward(self, compiled: Compile) -> bool:
        """Whether this compiles the backward pass of the call, and not the call."""
        return not compiled.is_by_hand and (self.compiled or compiled.in_backward_pass)

    def add_seconds(self, compiled: Compile) -> None:
        self.lowering_seconds += compiled.lowering_seconds
        self.compile_seconds += compiled.seconds

    @property
    def why(self) -> str:
        if self.explanation is None:
            return self._problem or "there is no earlier call to compare with"
        return str(self.explanation)

    @property
    def what(self) -> str:
        if self.error is not None:
            return "failed while traced"
        if self.after_trial is not None and not self.is_again:
            return TWO_TRACES
        if self.traced:
            return "was traced and compiled" if self.compiled else "was traced"
        return "was compiled"


# --- the nearest earlier call -----------------------------------------------------------------


def explain(new: CallKey, earlier: Sequence[CallKey]) -> Explanation | None:
    """How `new` differs from the nearest of `earlier`, or None if there are none."""
    if not earlier:
        return None
    # There may be 64 earlier calls, so each comparison stops early. Only the nearest call is
    # compared in full.
    found = [tuple(itertools.islice(_all_changes(old, new), _MAX_COUNTED)) for old in earlier]
    # Among equally near ones the last, which a loop ran just before.
    nearest = min(
        range(len(found)),
        key=lambda i: (len(found[i]), _finer_distance(earlier[i], new, found[i]), -i),
    )
    changes = _all_changes(earlier[nearest], new)
    # There the function itself has no record.
    inside = FUNCTION_PATH not in new.records and bool(new.tracers)
    return Explanation(nearest, _in_order(changes), tuple(map(len, found)), inside)


_MAX_COUNTED = 64  # differences of an entry, after which it is far enough off


def _all_changes(old: CallKey, new: CallKey) -> Iterator[Change]:
    """The differences by jit's comparison; if none, by canonopt's; if none, by the tracers."""
    # Different values may have one hash, as -1 and -2 do.
    for changes in (_changes(old, new), _changes(old, new, by_key=True), _of_tracers(old, new)):
        first = next(changes, None)
        if first is not None:
            yield first
            yield from changes
            return


def _finer_distance(old: CallKey, new: CallKey, changes: Iterable[Change]) -> tuple[int, float]:
    """The number of ways in which the changes differ, and how far apart their shapes are."""
    # The function itself has no path that can be written in Python.
    paths = [c.path if c.path in new.records else FUNCTION_PATH for c in changes]
    pairs = [(old.records.get(path), new.records.get(path)) for path in paths]
    return sum(_ways(*pair) for pair in pairs), sum(_gap(*pair) for pair in pairs)


def _ways(before: Record | None, after: Record | None) -> int:
    before, after = as_traced(before, after), as_traced(after, before)
    if isinstance(before, Array) and isinstance(after, Array) and before.is_key == after.is_key:
        return len(before.differences(after))
    if isinstance(before, Static) and isinstance(after, Static):
        return int(before.key != after.key)  # the same to canonopt, and made again, is nearer
    # Farther off than any two arrays.
    return len(_ORDER)


def _gap(before: Record | None, after: Record | None) -> float:
    """How many times larger one shape is than the other, as a sum of logarithms."""
    if not isinstance(before, Array) or not isinstance(after, Array):
        return 0.0
    if len(before.shape) != len(after.shape):
        return np.inf
    sizes = np.log1p(np.array([before.shape, after.shape]))
    return float(np.abs(sizes[0] - sizes[1]).sum())


# From the structure to the values to their placement.
_ORDER = (
    "function",
    "transformation",
    "structure",
    "none",
    "callable",
    "static value",
    "scalar",
    "shape",
    "dtype",
    "weak type",
    "sharding",
    "commitment",
    "memory kind",
    "layout",
    "options",
    "context",
)


def _in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(sorted(changes, key=lambda change: _ORDER.index(change.kind)))


def _changes(old: CallKey, new: CallKey, by_key: bool = False) -> Iterator[Change]:
    paths = [*old.records, *(path for path in new.records if path not in old.records)]
    # A node comes before what is inside it. If the node differs or is missing, what is inside is
    # not listed.
    gone: set[str] = set()
    for path in paths:
        before, after = old.records.get(path), new.records.get(path)
        if _is_same(before, after, by_key) or (gone and is_inside(path, gone)):
            continue
        if _kind(before, after) in ("structure", "none"):
            gone.add(path)
        yield _change(path, before, after, old, new)
    for name in sorted(old.by_keyword ^ new.by_keyword):
        # An argument that only one of the calls has is listed above.
        if name in old.records and name in new.records:
            before, after = "by position", "by keyword"
            if name in old.by_keyword:
                before, after = after, before
            yield Change.advised(name, "structure", before, after, keyword_advice(name))
    for name, value in new.options.items():
        if old.options.get(name) != value and not _follows_from_numbers(name, old, new):
            before, after = repr(old.options.get(name)), repr(value)
            yield Change.advised(name, "options", before, after, OPTIONS_ADVICE, HANDFUL)
    for name, value in new.context.items():
        if name not in old.context:
            yield Change.advised(name, "context", "unknown to JAX", value, IMPORT_ADVICE)
        elif old.context[name] != value:
            before, advice = old.context[name], context_advice(name)
            yield Change.advised(name, "context", before, value, advice, HANDFUL)


def _is_same(before: Record | None, after: Record | None, by_key: bool) -> bool:
    if type(before) is not type(after):
        before, after = as_traced(before, after), as_traced(after, before)
    if isinstance(before, Array) and isinstance(after, Array):
        # Not by `==`: a tracer has no placement to compare.
        return not before.differences(after)
    if by_key and isinstance(before, Static) and isinstance(after, Static):
        return before.key == after.key
    return before == after


def _follows_from_numbers(option: str, old: CallKey, new: CallKey) -> bool:
    """Whether an option has the names that JAX found for numbers, which differ themselves."""
    numbers = option.replace("argnames", "argnums")
    return numbers != option and old.options.get(numbers) != new.options.get(numbers)


def _of_tracers(old: CallKey, new: CallKey) -> Iterator[Change]:
    """How the call is transformed, which is in the key of a compile but not in that of a trace."""
    if old.tracers == new.tracers:
        return
    advice = TRANSFORM_ADVICE
    yield Change.advised("the call", "context", old.transforms, new.transforms, advice, HANDFUL)


def _kind(before: Record | None, after: Record | None) -> str:
    before, after = as_traced(before, after), as_traced(after, before)
    if before is None or after is None or isinstance(before, Node) or isinstance(after, Node):
        return "structure"
    if isinstance(before, Nothing) or isinstance(after, Nothing):
        return "none"
    if isinstance(before, Static) and isinstance(after, Static):
        before, after = outermost_functions(before, after)
        kinds = {before.kind, after.kind}
        return next((k for k in ("transformation", "callable") if k in kinds), "static value")
    if isinstance(before, Array) and isinstance(after, Array):
        return before.differences(after)[0]
    return "scalar"


def _change(
    path: str, before: Record | None, after: Record | None, old: CallKey, new: CallKey
) -> Change:
    is_function = path == FUNCTION_PATH or (path == "self._fun" and new.is_of_wrapper)
    kind = "function" if is_function else _kind(before, after)
    # A report names only paths that can be written in Python.
    name = "the function itself" if is_function else path.removesuffix(UNNAMED_STATIC)
    if isinstance(before, Static) and isinstance(after, Static):
        return _static_change(name, kind, before, after, old, new)
    words = [_words(before, kind), _words(after, kind)]
    if kind == "sharding":
        where = [devices_of(getattr(record, "sharding", None)) for record in (before, after)]
        # One PartitionSpec on two meshes reads the same.
        if words[0] == words[1] or None in where:
            pairs = zip(words, where, strict=True)
            words = [text if mesh is None else f"{text} of {mesh}" for text, mesh in pairs]
    if isinstance(before, Node) and isinstance(after, Node) and after.is_defined_again(before):
        words[1] += ", whose class was defined again"
        return Change.advised(name, kind, words[0], words[1], class_advice(after))
    advice = leaf_advice(kind, name, before, after, old, new)
    in_state = path in new.states or is_inside(path, new.states)
    # In a state only the shapes may differ: it is what the step returned.
    wanted = 1 if in_state and kind != "shape" else _wanted(kind, before, after)
    return Change.advised(name, kind, words[0], words[1], advice, wanted)


def _wanted(kind: str, before: Record | None, after: Record | None) -> int:
    """How many programs are likely wanted that differ in this."""
    if kind == "sharding":
        old, new = (getattr(record, "sharding", None) for record in (before, after))
        meshes = devices_of(old), devices_of(new)
        # From one device to a mesh is an array that was not put there, and no second mesh.
        if None in (old, new) or (meshes[0] is None) != (meshes[1] is None):
            return 1
        return HANDFUL if (meshes[0] or old) != (meshes[1] or new) else 1
    return HANDFUL if kind in ("shape", "none") or None in (before, after) else 1


def _static_change(
    path: str, kind: str, before: Static, after: Static, old: CallKey, new: CallKey
) -> Change:
    if old.records.get(path) == new.records.get(path) == node_of(collections.OrderedDict):
        words = f"keys {before}", f"keys {after}"
        return Change.advised(path, "structure", *words, order_advice(path))
    if kind == "transformation" and (steps := _steps_to_parameter(before, after)):
        inside = "".join(_step(name) for name, _, _ in steps)
        _, before, after = steps[-1]
        found = difference_of(before, after)
        advice, wanted = parameter_advice(path, inside, found, new), found.wanted(kind)
        kind, words = _kind(before, after), static_words(before, after)
        return Change.advised(f"{path}{inside}", kind, *words, advice, wanted)
    found = difference_of(before, after)
    advice, wanted = static_advice(kind, path, found, old, new), found.wanted(kind)
    if kind == "function":
        # A function that was made again may capture a transformation that was built again.
        for name, inner in after.parts.items():
            was = before.parts.get(name)
            if was and was.kind == inner.kind == "transformation" and was.token != inner.token:
                function = after.parts.get(WRAPPED_FUNCTION, after).text.rpartition(".")[2]
                label = [*name.split("'"), name][1]  # of "captured variable 'tx'" or "argument 0"
                path = f"{label} in {function.removeprefix('function ')}"
                before, after = was, inner
                break
    return Change.advised(path, kind, *static_words(before, after), advice, wanted)


def _steps_to_parameter(before: Static, after: Static) -> list[Part]:
    """The way to a parameter that differs, from a spec through those inside of it."""
    if not all(static.text.startswith("canonopt.") for static in (before, after)):
        return []
    way = way_to(before, after, looks_different)
    return list(itertools.takewhile(lambda part: _step(part[0]), way))


def _step(name: str) -> str:
    """The step of a path to a part: `.mask` to "field 'mask'", `[0]` to "item 0"."""
    kind, _, label = name.partition(" ")
    return {"field": f".{label[1:-1]}", "item": f"[{label}]"}.get(kind, "")


def _words(record: Record | None, kind: str) -> str:
    if isinstance(record, Array):
        return record.in_words(kind)
    return "missing" if record is None else str(record)
