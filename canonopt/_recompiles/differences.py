"""How two calls differ: one `Difference` for each path, from the structure to the placement.

`nearest` finds the earlier call that a new one is compared with.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs
import numpy as np

from .._texts import MAX_SHOWN, cut_to_difference, shortened
from .records import (
    CACHE,
    CONTEXT,
    FUNCTION,
    GIVEN,
    OPTION,
    TRANSFORMS,
    UNNAMED_STATIC,
    WRAPPED_FUNCTION,
    Call,
    Leaf,
    as_traced,
    is_inside,
    text_leaf,
)

# The kinds of a difference, from the structure to the values to their placement.
KINDS = (
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
    "options",
    "context",
    "cleared",
)
_OF_ARRAYS = {
    "shape": "shape",
    "dtype": "dtype",
    "weak type": "weak_type",
    "memory kind": "memory_kind",
    "commitment": "committed",
    "sharding": "sharding",
}


# --- what is in a static value --------------------------------------------------------------------


@attrs.frozen
class Part:
    """A part of two static values, under its name."""

    name: str
    before: Leaf
    after: Leaf

    @property
    def looks_different(self) -> bool:
        is_other = self.before.text != self.after.text or self.is_class_defined_again
        return is_other and self.before.digest != self.after.digest

    @property
    def is_class_defined_again(self) -> bool:
        return self.after.is_class_defined_again(self.before)

    @property
    def is_other_object(self) -> bool:
        """Return True for two functions, or for objects that are compared by identity."""
        is_object = self.before.kind != "value" or self.before.is_unique
        return is_object and self.before.digest != self.after.digest

    @property
    def is_other_function(self) -> bool:
        """Return True for two functions that are the same to canonopt, and not to JAX."""
        return self.before.kind != "value" and self.before.token != self.after.token

    @property
    def is_whole(self) -> bool:
        """Return True for what is another object as a whole, whatever its parts are."""
        kind = self.before.kind
        return kind == "transformation" or (kind == "value" and self.before.is_unique)

    def way(self, is_end: Callable[["Part"], bool], into_all: bool = False) -> list["Part"]:
        """Return the parts that lead to the first that `is_end`, itself first, or nothing."""
        before, after = self.before.parts, self.after.parts
        if before.keys() == after.keys() and (into_all or not self.is_whole):
            for name, old in before.items():
                if inner := Part(name, old, after[name]).way(is_end, into_all):
                    return [self, *inner]
        return [self] if is_end(self) else []

    def way_to_difference(self) -> list["Part"]:
        """Return the parts that lead to where the two differ, themselves first."""
        # What the user can read comes first: two texts that differ explain more than two objects.
        if len(way := self.way(lambda part: part.looks_different, into_all=True)) > 1:
            return way
        # A function may capture another value that looks the same in every part.
        ends: list[Callable[[Part], bool]] = [
            lambda part: part.is_other_object,
            lambda part: (
                part.is_other_function
                if self.before.kind == "value"
                else part.before.digest != part.after.digest
            ),
        ]
        return next((way for is_end in ends if len(way := self.way(is_end)) > 1), [self])


# --- differences ----------------------------------------------------------------------------------


@attrs.define(eq=False)
class Difference:
    """A path at which two calls differ."""

    path: str
    before: Leaf | None
    after: Leaf | None
    old: Call
    new: Call

    @functools.cached_property
    def kind(self) -> str:
        """Return one of `KINDS`."""
        if self.path == FUNCTION or (self.path == "self._fun" and self.new.is_of_wrapper):
            return "function"
        if self.path == CACHE:
            return "cleared"
        if self.path.startswith((CONTEXT, TRANSFORMS)):
            return "context"
        if self.path.startswith(OPTION):
            return "options"
        before, after = self.as_traced
        if before is None or after is None or {before.kind, after.kind} & {"node", "text"}:
            return "structure"
        if "none" in (before.kind, after.kind):
            return "none"
        if before.is_static and after.is_static:
            kinds = {self.function.before.kind, self.function.after.kind}
            return next((k for k in ("transformation", "callable") if k in kinds), "static value")
        return array_kinds(before, after)[0] if before.is_array and after.is_array else "scalar"

    @property
    def as_traced(self) -> tuple[Leaf | None, Leaf | None]:
        return as_traced(self.before, self.after), as_traced(self.after, self.before)

    @property
    def name(self) -> str:
        """Return the path as a report has it: only what can be written in Python, or words."""
        if self.path.startswith(TRANSFORMS):
            return "the call"
        if self.path == CACHE:
            return "the cache"
        if self.kind == "function":
            return "the function itself"
        return self.path.removesuffix(UNNAMED_STATIC).rpartition("> ")[2]

    # Of static values.

    @functools.cached_property
    def way(self) -> list[Part]:
        """Return the parts that lead to where two static values differ, themselves first."""
        if self.before is None or self.after is None:
            return []
        return Part("", self.before, self.after).way_to_difference()

    @property
    def function(self) -> Part:
        """Return the outermost function or transformation on the way, or the values."""
        functions = {"transformation", "callable"}
        inside = (p for p in self.way if {p.before.kind, p.after.kind} & functions)
        return next(inside, self.way[0])

    @property
    def visible(self) -> Part | None:
        """Return the innermost part of the function that looks different, if one does."""
        last = self.way[-1]
        return last if last.looks_different and last is not self.function else None

    @property
    def redefined(self) -> Leaf | None:
        """Return the class that was defined again, of the values or of a part that differs."""
        return next((part.after for part in self.way if part.is_class_defined_again), None)

    @property
    def is_same_to_canonopt(self) -> bool:
        # Digests may be equal though a global, or a variable that several functions capture,
        # changed.
        before, after = self.function.before.digest, self.function.after.digest
        return before is not None and before == after and self.visible is None


def array_kinds(before: Leaf, after: Leaf) -> list[str]:
    """Return how two arrays differ, most important first. Unknown placements are left out."""
    if before.token == after.token:
        return []
    if before.is_key != after.is_key:
        return ["dtype"]  # the longer shape of an old-style key follows from its dtype
    kinds = [
        k for k, field in _OF_ARRAYS.items() if getattr(before, field) != getattr(after, field)
    ]
    unknown = set()
    if None in (before.committed, after.committed):
        unknown = {"memory kind", "commitment", "sharding"}
    # From one device to a mesh is a sharding, whatever is committed.
    if before.devices > 1 or after.devices > 1:
        unknown.add("commitment")
    return [kind for kind in kinds if kind not in unknown]


def differences(old: Call, new: Call) -> Iterator[Difference]:
    """Yield the differences that JAX sees; if none, others that may be why it was traced."""
    # Different values may have one hash, as -1 and -2 do.
    for is_same in (_is_same_to_jax, _is_same_to_canonopt):
        found = _differing(old, new, is_same)
        if (first := next(found, None)) is not None:
            yield first
            yield from found
            return
    # How the call is transformed is in the key of a compile, but not in that of a trace.
    before, after = old.leaves[TRANSFORMS], new.leaves[TRANSFORMS]
    if before.token != after.token:
        yield Difference(TRANSFORMS, before, after, old, new)
    elif old.clearings != new.clearings:
        yield Difference(CACHE, text_leaf("filled"), text_leaf("cleared"), old, new)


def is_same_call(old: Call, new: Call) -> bool:
    return next(differences(old, new), None) is None


def _differing(old: Call, new: Call, is_same: Callable[[Leaf, Leaf], bool]) -> Iterator[Difference]:
    # A node comes before what is inside it. If the node differs or is missing, what is inside is
    # not listed.
    gone: set[str] = set()
    for path in (*old.leaves, *(path for path in new.leaves if path not in old.leaves)):
        before, after = old.leaves.get(path), new.leaves.get(path)
        if path == TRANSFORMS or (gone and is_inside(path, gone)):
            continue
        if before is None or after is None:
            # An argument that only one of the calls has is a difference already.
            if path.startswith((GIVEN, OPTION)) or (after is None and path.startswith(CONTEXT)):
                continue
        elif is_same(before, after):
            continue
        found = Difference(path, before, after, old, new)
        if found.kind in ("structure", "none"):
            gone.add(path)
        yield found


def _is_same_to_jax(before: Leaf, after: Leaf) -> bool:
    if before.kind == after.kind and before.token == after.token:
        return True
    old, new = as_traced(before, after), as_traced(after, before)
    if old is not None and new is not None and old.is_array:
        # Not by the token: a tracer has no placement to compare.
        return new.is_array and not array_kinds(old, new)
    return before.is_static and after.is_static and before.token == after.token


def _is_same_to_canonopt(before: Leaf, after: Leaf) -> bool:
    if before.is_static and after.is_static:
        return before.digest == after.digest
    return _is_same_to_jax(before, after)


# --- the nearest earlier call ---------------------------------------------------------------------

_MAX_COUNTED = 64  # differences of a call, after which it is far enough off


def nearest(new: Call, earlier: Sequence[Call]) -> list[Difference]:
    """Return the differences of a call from the nearest of earlier ones, of which there is one."""
    # There may be 16 earlier calls, so each comparison stops early.
    found = [[*itertools.islice(differences(old, new), _MAX_COUNTED)] for old in earlier]
    # Among equally near ones the last, which a loop ran just before.
    best = min(range(len(found)), key=lambda i: (len(found[i]), *_distance(found[i]), -i))
    return sorted(differences(earlier[best], new), key=lambda each: KINDS.index(each.kind))


def _distance(found: Iterable[Difference]) -> tuple[int, float]:
    """Return the number of ways in which leaves differ, and how far apart their shapes are."""
    pairs = [difference.as_traced for difference in found]
    return sum(_ways(*pair) for pair in pairs), sum(_gap(*pair) for pair in pairs)


def _ways(before: Leaf | None, after: Leaf | None) -> int:
    if before is not None and after is not None:
        if before.is_array and after.is_array and before.is_key == after.is_key:
            return len(array_kinds(before, after))
        if before.is_static and after.is_static:
            return int(before.digest != after.digest)  # what was made again is nearer
    return len(KINDS)  # farther off than any two arrays


def _gap(before: Leaf | None, after: Leaf | None) -> float:
    """Return how many times larger one shape is than the other, as a sum of logarithms."""
    if before is None or after is None or not (before.is_array and after.is_array):
        return 0.0
    if len(before.shape) != len(after.shape):
        return np.inf
    sizes = np.log1p(np.array([before.shape, after.shape]))
    return float(np.abs(sizes[0] - sizes[1]).sum())


# --- in words -------------------------------------------------------------------------------------


def words(found: Difference) -> tuple[str, str]:
    """Return what was before and what is now, as texts that differ."""
    before, after, kind = found.before, found.after, found.kind
    if before is not None and after is not None and before.is_static and after.is_static:
        return static_words(before, after, found.way)
    missing = "unknown to JAX" if found.path.startswith(CONTEXT) else "missing"
    texts = [missing if leaf is None else _word(leaf, kind) for leaf in (before, after)]
    if kind == "sharding":
        (spec, _, mesh), (other, _, second) = (text.partition(" of ") for text in texts)
        if mesh == second and spec != other:  # on one mesh the specs say it
            texts = [spec, other]
    if before is not None and after is not None and after.is_class_defined_again(before):
        texts[1] += ", whose class was defined again"
    return texts[0], texts[1]


def _word(leaf: Leaf, kind: str) -> str:
    if leaf.is_array and kind == "commitment":
        return "committed" if leaf.committed else "not committed"
    if leaf.is_array and kind in ("sharding", "memory kind"):
        return str(getattr(leaf, _OF_ARRAYS[kind]) or "not committed")
    return shortened(leaf.text)


def static_words(before: Leaf, after: Leaf, way: Sequence[Part]) -> tuple[str, str]:
    """Return the part that differs, with its name and owner; or that none does."""
    texts = shortened(before.text), shortened(after.text)
    is_alike = before.text == after.text
    if again := next((part.after for part in way if part.is_class_defined_again), None):
        return texts[0], f"{texts[1]}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    if is_alike or len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}:
        is_built = before.kind == "transformation"  # as it was built, not as it is inside
        owner = texts
        for part in way[1:] if not is_built or way[-1].looks_different else ():
            old, new = part.before, part.after
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if part is way[-1] or (is_clear and old.place is None):
                name = part.name
                if is_built:
                    owner, name = texts, name.removeprefix("captured variable ")
                old_text, new_text = cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                return (
                    f"{owner[0]} with {name} {old_text}",
                    f"{owner[1]} with {name} {new_text}{same}",
                )
            owner = shortened(old.text), shortened(new.text)
    if not is_alike:
        return cut_to_difference(before.text, after.text)
    if before.kind == "class":
        return texts[0], "another class of the same name: it was defined again"
    if before.kind != "value":
        where = f" ({after.place})" if after.place else ""
        made = f", {after.made}" if after.made else ""
        return f"{texts[0]}{where}", f"another object made by the same code{made}"
    if before.is_unique:
        return texts[0], "another object, equal only to itself"
    return texts[0], "another value, which differs in a part too long to show"
