"""Why a call missed the jit cache: its differences from the nearest earlier call.

The nearest is the one with the fewest differences. Each has a kind, words for before and after, and
advice.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
from jax.sharding import NamedSharding

from .advice import (
    APPLY_ADVICE,
    OPTIONS_ADVICE,
    TRANSFORM_ADVICE,
    Change,
    StaticDifference,
    cause_lines,
    class_advice,
    context_advice,
    is_widened_by_step,
    leaf_advice,
    state_advice,
    static_advice,
)
from .call_key import UNNAMED_STATIC, CallKey, is_inside
from .records import (
    MAX_SHOWN,
    WRAPPED_FUNCTION,
    Array,
    Node,
    Nothing,
    Record,
    Static,
    shortened,
)

FUNCTION_PATH = "<function>"  # of the record of the jitted function itself

# Three lines, since a report shows no more of a note.
NO_DIFFERENCE = """\
canonopt sees no difference from an earlier call
it cannot see: jax.clear_caches(), the size of a jax.vmap, jax.make_user_context; before jax 0.10
`with Mesh(...)`, set_xla_metadata, the axis names of jax.vmap, rare settings of jax.config"""


@attrs.frozen
class Explanation:
    """The differences from the nearest earlier entry, which is the one with the fewest."""

    nearest: int
    changes: tuple[Change, ...]
    # The number of differences from each of the earlier entries, counted up to 64.
    distances: tuple[int, ...]

    @property
    def fixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.fix for change in self.changes))

    @property
    def note(self) -> str | None:
        """What to say in place of changes if there are none."""
        return None if self.changes else NO_DIFFERENCE

    def __str__(self) -> str:
        return "\n".join(map(str, cause_lines(self.changes, self.note, self.fixes)))


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
    return Explanation(nearest, _in_order(changes), tuple(map(len, found)))


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


def _finer_distance(old: CallKey, new: CallKey, changes: Iterable[Change]) -> int:
    """The number of ways in which the arrays of the changes differ."""
    return sum(_ways(old.records.get(c.path), new.records.get(c.path)) for c in changes)


def _ways(before: Record | None, after: Record | None) -> int:
    if isinstance(before, Array) and isinstance(after, Array) and before.is_key == after.is_key:
        return len(before.differences(after))
    # Farther off than any two arrays.
    return 0 if isinstance(before, Static) and isinstance(after, Static) else len(_ORDER)


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
            fix = f"pass {name} the same way in every call"
            yield Change(name, "structure", before, after, fix)
    for name, value in new.options.items():
        if old.options.get(name) != value and not _follows_from_numbers(name, old, new):
            before, after = repr(old.options.get(name)), repr(value)
            yield Change(name, "options", before, after, OPTIONS_ADVICE)
    for name, value in new.context.items():
        if old.context.get(name) != value:
            before = str(old.context.get(name))
            yield Change(name, "context", before, value, context_advice(name))


def _is_same(before: Record | None, after: Record | None, by_key: bool) -> bool:
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
    yield Change("the call", "context", before, after, TRANSFORM_ADVICE)


def _kind(before: Record | None, after: Record | None) -> str:
    pair = (before, after)
    if before is None or after is None or any(isinstance(record, Node) for record in pair):
        return "structure"
    if any(isinstance(record, Nothing) for record in pair):
        return "none"
    if isinstance(before, Static) and isinstance(after, Static):
        before, after = _first_function(before, after)
        kinds = {before.kind, after.kind}
        return next((k for k in ("transformation", "callable") if k in kinds), "static value")
    if isinstance(before, Array) and isinstance(after, Array):
        return before.differences(after)[0]
    return "scalar"


def _first_function(before: Static, after: Static) -> tuple[Static, Static]:
    """The outermost function or transformation on the way to what differs, or the values."""
    for inner in ((before, after), *((old, new) for _, old, new in _way_in(before, after))):
        if {inner[0].kind, inner[1].kind} & {"transformation", "callable"}:
            return inner
    return before, after


_Part: TypeAlias = tuple[str, Static, Static]


def _way_in(before: Static, after: Static) -> list[_Part]:
    """The named parts that lead to where two values differ, outermost first."""
    # What the user can read comes first: two texts that differ explain more than two objects.
    ends = (_looks_different, _is_other_object, _is_other_function)
    if before.kind != "value":
        # A function may capture another object that looks the same in every part.
        ends = (_looks_different, _is_other_object, lambda old, new: old.key != new.key)
    return next(filter(None, (_way(before, after, is_end) for is_end in ends)), [])


def _way(before: Static, after: Static, is_end: Callable[[Static, Static], bool]) -> list[_Part]:
    if before.parts.keys() != after.parts.keys():  # lists of different lengths, for one
        return []
    for name, old in before.parts.items():
        new = after.parts[name]
        # These are new objects as a whole, whatever their parts are.
        is_whole = old.kind == "transformation" or (old.kind == "value" and old.is_unique)
        looks_inside = is_end is _looks_different or not is_whole
        inner = _way(old, new, is_end) if looks_inside else []
        if inner or is_end(old, new):
            return [(name, old, new), *inner]
    return []


def _looks_different(before: Static, after: Static) -> bool:
    is_other = before.text != after.text or _defined_again(before, after) is not None
    return is_other and before.key != after.key


def _is_other_object(before: Static, after: Static) -> bool:
    """Whether two that may look the same are two functions, or objects compared by identity."""
    return before.key != after.key and (before.kind != "value" or before.is_unique)


def _is_other_function(before: Static, after: Static) -> bool:
    """Whether two functions are the same to canonopt, and not to JAX."""
    return before.kind != "value" and before.token != after.token


def _change(
    path: str, before: Record | None, after: Record | None, old: CallKey, new: CallKey
) -> Change:
    kind = "function" if path == FUNCTION_PATH else _kind(before, after)
    # A report names only paths that can be written in Python.
    path = "the function itself" if path == FUNCTION_PATH else path.removesuffix(UNNAMED_STATIC)
    argument = re.split(r"[.\[]", path)[0]
    words = _words(before, kind), _words(after, kind)
    # One PartitionSpec on two meshes reads the same.
    if kind == "sharding" and words[0] == words[1]:
        words = _with_devices(before, words[0]), _with_devices(after, words[1])
    state = next((s for s in new.states if path == s or is_inside(path, {s})), None)
    if isinstance(before, Static) and isinstance(after, Static):
        words = _static_words(before, after)
        fix = static_advice(kind, path, argument, _static_difference(before, after))
    elif isinstance(before, Node) and isinstance(after, Node) and after.is_defined_again(before):
        words, fix = (f"{before}", f"{after}, whose class was defined again"), class_advice(after)
    # The key has no defaults, so an argument that is left out is not the same as its default.
    elif path == argument and None in (before, after):
        fix = f"pass {argument} in every call or in none"
    # `init_like_grads` keeps the shapes that `optim.init` gives, so it is no help if these differ.
    elif state is not None and kind not in ("shape", "scalar"):
        fix = state_advice(state)
    elif kind == "dtype" and is_widened_by_step(before, after, old):
        fix = APPLY_ADVICE
    else:
        fix = leaf_advice(kind, argument, before, after)
    return Change(path, kind, *words, fix)


def _static_difference(before: Static, after: Static) -> StaticDifference:
    old, new = _first_function(before, after)
    way = _way(old, new, _looks_different)
    visible = way[-1][1:] if way else None
    return StaticDifference(before, after, old, new, visible, _class_inside(before, after))


def _words(record: Record | None, kind: str) -> str:
    if record is None:
        return "missing"
    if not isinstance(record, Array):
        return str(record)
    if kind == "commitment":
        return "committed" if record.committed else "not committed"
    if kind == "sharding":
        return str(getattr(record.sharding, "spec", record.sharding))
    if kind == "memory kind":
        return str(record.memory_kind)
    if kind == "layout":
        return f"major to minor {getattr(record.layout, 'major_to_minor', record.layout)}"
    return str(record)


def _with_devices(record: Record | None, words: str) -> str:
    sharding: Any = getattr(record, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    mesh: Any = sharding.mesh
    devices = [device.id for device in mesh.devices.flat]
    return f"{words} of {mesh.shape_tuple}, devices {devices}"


def _static_words(before: Static, after: Static) -> tuple[str, str]:
    """The part that differs, with its name and owner; or that none does."""
    is_alike = before.text == after.text
    if again := _class_inside(before, after):
        return str(before), f"{after}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    if is_alike or len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}:
        owner, outer = before, after
        way = _way_in(before, after)
        for name, old, new in way:
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if new is way[-1][2] or (is_clear and old.place is None):
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


def _defined_again(before: Static, after: Static) -> Node | None:
    """The class of two values, if it was defined again between them."""
    if before.node is None or after.node is None or not after.node.is_defined_again(before.node):
        return None
    return after.node


def _class_inside(before: Static, after: Static) -> Node | None:
    """The class that was defined again, of the values or of a part that differs."""
    pairs = ((before, after), *((old, new) for _, old, new in _way_in(before, after)))
    return next(filter(None, (_defined_again(*pair) for pair in pairs)), None)


def _cut_to_difference(before: str, after: str) -> tuple[str, str]:
    """Two different texts, cut to where they differ."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    # `shortened` cuts the end. If the difference is there, the beginning is cut as well.
    start = same - MAX_SHOWN // 2 if same > MAX_SHOWN - 20 else 0
    head = "..." if start else ""
    return shortened(head + before[start:]), shortened(head + after[start:])
