"""Why a call missed the jit cache: its differences from the nearest earlier call.

The nearest is the one with the fewest differences. Each has a kind, words for before and after, and
advice.
"""

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs
import jax.numpy as jnp
import numpy as np

from .._jax_internals import devices_of, key_context
from .._texts import MAX_SHOWN, shortened
from .advice import (
    OPTIONS_ADVICE,
    TRANSFORM_ADVICE,
    Change,
    cause_lines,
    class_advice,
    context_advice,
    keyword_advice,
    leaf_advice,
    order_advice,
    parameter_advice,
    static_advice,
)
from .call_key import UNNAMED_STATIC, CallKey, is_inside
from .records import (
    WRAPPED_FUNCTION,
    Array,
    Node,
    Nothing,
    Part,
    Record,
    Scalar,
    Static,
    class_inside,
    difference_of,
    looks_different,
    node_of,
    outermost_functions,
    way_in,
    way_to,
)

FUNCTION_PATH = "<function>"  # of the record of the jitted function itself

# Three lines at most, since a report shows no more of a note.
_NO_DIFFERENCE = """\
canonopt sees no difference from an earlier call
it cannot see: jax.clear_caches(), the size of a jax.vmap, jax.make_user_context"""
# With a jax that has no names to its key.
_UNNAMED = "nor `with Mesh(...)`, set_xla_metadata, the axis names of jax.vmap, rare settings"
_INSIDE = """\
its arguments are those of an earlier trace: it was called twice in one trace, or what is jitted
around it was made again, and canonopt.jit in place of jax.jit makes that one program"""


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
        if self.is_inside_trace:
            return _INSIDE
        return _NO_DIFFERENCE if key_context() else f"{_NO_DIFFERENCE}\n{_UNNAMED}"

    def __str__(self) -> str:
        return "\n".join(map(str, cause_lines(self.changes, self.note, self.hints, self.fixes)))


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
    before, after = _as_traced(before, after), _as_traced(after, before)
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
            yield Change.advised(name, "options", before, after, OPTIONS_ADVICE)
    for name, value in new.context.items():
        if old.context.get(name) != value:
            before = str(old.context.get(name))
            yield Change.advised(name, "context", before, value, context_advice(name))


def _is_same(before: Record | None, after: Record | None, by_key: bool) -> bool:
    if type(before) is not type(after):
        before, after = _as_traced(before, after), _as_traced(after, before)
    if isinstance(before, Array) and isinstance(after, Array):
        # Not by `==`: a tracer has no placement to compare.
        return not before.differences(after)
    if by_key and isinstance(before, Static) and isinstance(after, Static):
        return before.key == after.key
    return before == after


def _as_traced(record: Record | None, other: Record | None) -> Record | None:
    """A Python number as the weakly typed array that it becomes, if the other call has an array."""
    types = {"bool": bool, "int": int, "float": float, "complex": complex}
    if not isinstance(record, Scalar) or not isinstance(other, Array) or record.type not in types:
        return record  # an `enum.IntEnum`, for one
    kind = types[record.type]
    # It is on no device yet, as an array that is not committed.
    committed = None if other.committed is None else False
    dtype, is_weak = str(jnp.result_type(kind)), kind is not bool
    return Array((), dtype, is_weak, None, committed, other.memory_kind)


def _follows_from_numbers(option: str, old: CallKey, new: CallKey) -> bool:
    """Whether an option has the names that JAX found for numbers, which differ themselves."""
    numbers = option.replace("argnames", "argnums")
    return numbers != option and old.options.get(numbers) != new.options.get(numbers)


# What transforms the call of a jitted function, by the tracers that it was given. By name, because
# JAX exports only some of these classes.
_TRANSFORMS = {
    "BatchTracer": "under jax.vmap",
    "JVPTracer": "under jax.jvp",
    "LinearizeTracer": "under jax.grad",
    "DynamicJaxprTracer": "inside another trace",
}


def _of_tracers(old: CallKey, new: CallKey) -> Iterator[Change]:
    """How the call is transformed, which is in the key of a compile but not in that of a trace."""
    if old.tracers == new.tracers:
        return
    before, after = (
        " and ".join(sorted(_TRANSFORMS.get(name, f"with {name}s") for name in call.tracers))
        or "by itself"
        for call in (old, new)
    )
    yield Change.advised("the call", "context", before, after, TRANSFORM_ADVICE)


def _kind(before: Record | None, after: Record | None) -> str:
    before, after = _as_traced(before, after), _as_traced(after, before)
    pair = (before, after)
    if before is None or after is None or any(isinstance(record, Node) for record in pair):
        return "structure"
    if any(isinstance(record, Nothing) for record in pair):
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
    kind = "function" if path == FUNCTION_PATH else _kind(before, after)
    # A report names only paths that can be written in Python.
    name = "the function itself" if path == FUNCTION_PATH else path.removesuffix(UNNAMED_STATIC)
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
    return Change.advised(name, kind, words[0], words[1], advice)


def _static_change(
    path: str, kind: str, before: Static, after: Static, old: CallKey, new: CallKey
) -> Change:
    if old.records.get(path) == new.records.get(path) == node_of(collections.OrderedDict):
        return Change.advised(
            path, "structure", f"keys {before}", f"keys {after}", order_advice(path)
        )
    if kind == "transformation" and (steps := _steps_to_parameter(before, after)):
        inside = "".join(_step(name) for name, _, _ in steps)
        _, before, after = steps[-1]
        advice = parameter_advice(path, inside, difference_of(before, after), new)
        kind = _kind(before, after)
        return Change.advised(f"{path}{inside}", kind, *_static_words(before, after), advice)
    advice = static_advice(kind, path, difference_of(before, after), new)
    if kind == "function":
        # A function that was made again may capture a transformation that was built again.
        for name, inner in after.parts.items():
            was = before.parts.get(name)
            if was and was.kind == inner.kind == "transformation" and was.token != inner.token:
                function = after.text.rpartition(".")[2].removeprefix("function ")
                path = f"{name.removeprefix('captured variable ')[1:-1]} in {function}"
                before, after = was, inner
                break
    return Change.advised(path, kind, *_static_words(before, after), advice)


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
    if record is None:
        return "missing"
    if not isinstance(record, Array):
        return str(record)
    if kind == "commitment":
        return "committed" if record.committed else "not committed"
    if kind == "sharding":
        where = record.sharding
        return "not committed" if where is None else str(getattr(where, "spec", where))
    if kind == "memory kind":
        return str(record.memory_kind)
    if kind == "layout":
        return f"major to minor {getattr(record.layout, 'major_to_minor', record.layout)}"
    return str(record)


def _static_words(before: Static, after: Static) -> tuple[str, str]:
    """The part that differs, with its name and owner; or that none does."""
    is_alike = before.text == after.text
    if again := class_inside(before, after):
        return str(before), f"{after}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    if is_alike or len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}:
        owner, outer = before, after
        is_built = before.kind == "transformation"  # as it was built, not as it is inside
        way = way_to(before, after, looks_different) if is_built else way_in(before, after)
        for name, old, new in way:
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if new is way[-1][2] or (is_clear and old.place is None):
                if is_built:
                    owner, outer, name = before, after, name.removeprefix("captured variable ")
                old_text, new_text = _cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                return f"{owner} with {name} {old_text}", f"{outer} with {name} {new_text}{same}"
            owner, outer = old, new
    if not is_alike:
        return _cut_to_difference(before.text, after.text)
    where = f" ({after.place})" if after.place else ""
    if before.kind == "class":
        return f"{before}", "another class of the same name: it was defined again"
    if before.kind != "value":
        return f"{before}{where}", "another object made by the same code"
    if before.is_unique:
        return f"{before}", "another object, equal only to itself"
    return f"{before}", "another value, which differs in a part too long to show"


def _cut_to_difference(before: str, after: str) -> tuple[str, str]:
    """Two different texts, cut to where they differ."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    # `shortened` cuts the end. If the difference is there, the beginning is cut as well.
    start = same - MAX_SHOWN // 2 if same > MAX_SHOWN - 20 else 0
    head = "..." if start else ""
    return shortened(head + before[start:]), shortened(head + after[start:])
