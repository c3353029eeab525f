"""Why a call missed the jit cache: its differences from the nearest earlier call.

The nearest is the one with the fewest differences. Each has a kind, words for before and after, and
advice.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
from jax.sharding import AbstractMesh, NamedSharding

from .._jax_internals import MAX_SHOWN
from .advice import (
    APPLY_ADVICE,
    HANDFUL,
    OPTIONS_ADVICE,
    PAIR,
    TRANSFORM_ADVICE,
    Change,
    StaticDifference,
    cause_lines,
    class_advice,
    context_advice,
    is_number_text,
    is_widened_by_step,
    leaf_advice,
    state_advice,
    static_advice,
)
from .call_key import FUNCTION_PATH, UNNAMED_STATIC, CallKey, is_inside
from .records import (
    WRAPPED_FUNCTION,
    Array,
    Node,
    Nothing,
    Record,
    Static,
    class_inside,
    cut_to_difference,
    first_function,
    visible_parts,
    way_in,
)

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


# A call is compared with so many of the first calls and of those just before it.
_MAX_FIRST, _MAX_LAST = 4, 12


@attrs.define(eq=False)
class Entry:
    """One trace, one compile, or both: what a miss of the jit cache led to."""

    call_key: CallKey | None
    at: float  # seconds, of time.perf_counter
    traced: bool = False
    compiled: bool = False
    trace_seconds: float = 0.0
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
    site: str | None = None  # the line of the user's code that ran it, as `file:line`
    # In the log of a line: what JAX or a library compiled, and for JAX from which shapes to which.
    operation: str | None = None
    shapes: str | None = None
    # The keys of earlier calls, until they were compared with this one.
    earlier: tuple[CallKey, ...] = ()
    _explanation: Explanation | None = None
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
        return self.trace_seconds + self.compile_seconds

    @property
    def why(self) -> str:
        if self.explanation is None:
            return self._problem or "there is no earlier call to compare with"
        return str(self.explanation)

    @property
    def what(self) -> str:
        if self.error is not None:
            return "failed while traced"
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
            yield Change(name, "options", before, after, OPTIONS_ADVICE, HANDFUL)
    for name, value in new.context.items():
        if old.context.get(name) != value:
            before = str(old.context.get(name))
            yield Change(name, "context", before, value, context_advice(name), HANDFUL)


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


def _of_tracers(old: CallKey, new: CallKey) -> Iterator[Change]:
    """How the call is transformed, which is in the key of a compile but not in that of a trace."""
    if old.tracers == new.tracers:
        return
    yield Change("the call", "context", old.transforms, new.transforms, TRANSFORM_ADVICE, HANDFUL)


def _kind(before: Record | None, after: Record | None) -> str:
    pair = (before, after)
    if before is None or after is None or any(isinstance(record, Node) for record in pair):
        return "structure"
    if any(isinstance(record, Nothing) for record in pair):
        return "none"
    if isinstance(before, Static) and isinstance(after, Static):
        before, after = first_function(before, after)
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
    # In a state only the shapes may differ: it is what the step returned.
    wanted = 1 if state is not None and kind != "shape" else _wanted(kind, before, after)
    return Change(path, kind, *words, fix, wanted)


def _wanted(kind: str, before: Record | None, after: Record | None) -> int:
    """How many programs are likely wanted that differ in this."""
    if isinstance(before, Static) and isinstance(after, Static):
        found = _static_difference(before, after)
        texts = [part.text for part in found.visible or (before, after)]
        if found.redefined is not None or texts[0] == texts[1]:
            return 1  # the same, made again
        is_number = all(map(is_number_text, texts))
        return 1 if is_number and kind == "transformation" else PAIR if is_number else HANDFUL
    if kind == "sharding":
        return HANDFUL if _devices_of(before) != _devices_of(after) else 1
    is_left_out = before is None or after is None or kind == "none"
    return HANDFUL if kind == "shape" or is_left_out else 1


def _devices_of(record: Record | None) -> object:
    sharding: Any = getattr(record, "sharding", None)
    return getattr(sharding, "mesh", None) or getattr(sharding, "device_set", None)


def _static_difference(before: Static, after: Static) -> StaticDifference:
    old, new = first_function(before, after)
    visible = visible_parts(old, new)
    return StaticDifference(before, after, old, new, visible, class_inside(before, after))


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
    if isinstance(mesh, AbstractMesh):
        return f"{words} of {mesh.shape_tuple}, an abstract mesh"
    devices = [device.id for device in mesh.devices.flat]
    return f"{words} of {mesh.shape_tuple}, devices {devices}"


def _static_words(before: Static, after: Static) -> tuple[str, str]:
    """The part that differs, with its name and owner; or that none does."""
    is_alike = before.text == after.text
    if again := class_inside(before, after):
        return str(before), f"{after}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    if is_alike or len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}:
        owner, outer = before, after
        way = way_in(before, after)
        for name, old, new in way:
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if new is way[-1][2] or (is_clear and old.place is None):
                old_text, new_text = cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                return f"{owner} with {name} {old_text}", f"{outer} with {name} {new_text}{same}"
            owner, outer = old, new
    if not is_alike:
        return cut_to_difference(before.text, after.text)
    where = f" ({after.place})" if after.place else ""
    if before.kind == "class":
        return f"{before}", "another class of the same name: it was defined again"
    if before.kind != "value":
        return f"{before}{where}", "another object made by the same code"
    if before.is_unique:
        return f"{before}", "another object, equal only to itself"
    return f"{before}", "another value, which differs in a part too long to show"
