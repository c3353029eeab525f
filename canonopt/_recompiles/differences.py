"""How two calls differ: a `Difference` for each path, with the facts that rules ask for.

`nearest` finds the earlier call that a new one is compared with.
"""

import collections
import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp

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
    *("function", "transformation", "structure", "none", "callable", "static value", "scalar"),
    *("shape", "dtype", "weak type", "sharding", "commitment", "memory kind"),
    *("options", "context", "cleared"),
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


class Part(NamedTuple):
    """A part of two static values, under its name."""

    name: str
    before: Leaf
    after: Leaf

    @property
    def looks_different(self) -> bool:
        is_other = self.before.text != self.after.text or self.is_class_defined_again
        return is_other and self.is_other_to_canonopt

    @property
    def is_class_defined_again(self) -> bool:
        return self.after.is_class_defined_again(self.before)

    @property
    def is_other_to_canonopt(self) -> bool:
        return self.before.digest != self.after.digest

    def way(self, is_end: Callable[["Part"], bool], into_all: bool) -> list["Part"]:
        """Return the parts that lead to the first that `is_end`, itself first, or nothing."""
        before, after, kind = self.before.parts, self.after.parts, self.before.kind
        # Another object as a whole, whatever its parts are.
        is_whole = kind == "transformation" or (kind == "value" and self.before.is_unique)
        if before.keys() == after.keys() and (into_all or not is_whole):
            for name, old in before.items():
                if inner := Part(name, old, after[name]).way(is_end, into_all):
                    return [self, *inner]
        return [self] if is_end(self) else []

    def way_to_difference(self) -> list["Part"]:
        """Return the parts that lead to where the two differ, themselves first."""

        def is_other(part: Part) -> bool:
            # JAX compares the functions in a value by identity, even if they do the same.
            by_token = self.before.kind == "value" != part.before.kind
            tokens = part.before.token, part.after.token
            return part.is_other_to_canonopt or (by_token and tokens[0] != tokens[1])

        # What the user can read comes first: two texts that differ explain more than two objects.
        way = self.way(lambda part: part.looks_different, into_all=True)
        if len(way) > 1 and self.is_other_to_canonopt:
            return way
        return self.way(is_other, into_all=False) or [self]


def _static_texts(way: Sequence[Part]) -> tuple[str, str]:
    """Return the part that differs, with its name and owner; or that none does."""
    before, after = way[0].before, way[0].after
    if len(way) > 2 and way[-1].name == WRAPPED_FUNCTION:
        way = way[:-1]  # it has the name of what wraps it
    texts = shortened(before.text), shortened(after.text)
    if again := next((part.after for part in way if part.is_class_defined_again), None):
        return texts[0], f"{texts[1]}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    is_built = before.kind == "transformation"  # as it was built, not as it is inside
    is_long = len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}
    if (texts[0] == texts[1] or is_long) and (way[-1].looks_different or not is_built):
        for owner, part in itertools.pairwise(way):
            old, new = part.before, part.after
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if part is way[-1] or (is_clear and old.place is None):
                holder = way[0] if is_built else owner
                name = part.name.removeprefix("captured variable ") if is_built else part.name
                one, other = cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                ends = shortened(holder.before.text), shortened(holder.after.text)
                return f"{ends[0]} with {name} {one}", f"{ends[1]} with {name} {other}{same}"
    if before.text != after.text:
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


# --- differences ----------------------------------------------------------------------------------

_MISSING = Leaf("missing", "missing", None)
# A float, also one of NumPy, or a dynamic one that stands where it is static.
_NUMBER = re.compile(r"((canonopt\.dynamic|np\.float\d+)\()?-?\d+(\.\d+|\.?\d*e[-+]?\d+)\)?")
_ARRAY = re.compile(r"\w+\[[\d,]*\](, weak)?$")  # float32[3]


class Difference:
    """A path at which two calls differ, with the facts that rules ask for.

    - `place`: the path in the record.
    - `path`: the path in a report: only what can be written in Python, or words.
    - `parameter`: of a spec, the steps to its parameter that differs, such as `.learning_rate`.
    """

    parameter = ""

    def __init__(
        self, place: str, before: Leaf | None, after: Leaf | None, old: Call, new: Call
    ) -> None:
        self.place, self.old, self.new = place, old, new
        self.is_missing = before is None or after is None
        self.before, self.after = before or _MISSING, after or _MISSING
        self.is_static = self.before.is_static and self.after.is_static

    @functools.cached_property
    def kind(self) -> str:
        """Return one of `KINDS`."""
        if self.place == FUNCTION or (self.place == "self._fun" and self.new.is_of_wrapper):
            return "function"
        if self.place == CACHE:
            return "cleared"
        if self.place.startswith((CONTEXT, TRANSFORMS)):
            return "context"
        if self.place.startswith(OPTION):
            return "options"
        before, after = self.as_traced
        if self.is_missing or {before.kind, after.kind} & {"node", "text"}:
            return "structure"
        if "none" in (before.kind, after.kind):
            return "none"
        if self.is_static:
            kinds = {self.function.before.kind, self.function.after.kind}
            return next((k for k in ("transformation", "callable") if k in kinds), "static value")
        return array_kinds(before, after)[0] if before.is_array and after.is_array else "scalar"

    @property
    def as_traced(self) -> tuple[Leaf, Leaf]:
        return as_traced(self.before, self.after), as_traced(self.after, self.before)

    @functools.cached_property
    def path(self) -> str:
        if self.place == TRANSFORMS:
            return "transformation around the call"
        if self.place == CACHE:
            return "the cache"
        if self.captured is not None:
            return f"{self.built} in {self.made_again}"
        if self.kind == "function":
            return "the function itself"
        return self.place.removesuffix(UNNAMED_STATIC).rpartition("> ")[2]

    @property
    def made_again(self) -> str:
        """Return the name of the function that captured what differs, or the path."""
        if self.captured is None:
            return self.path
        function = self.function.after
        text = function.parts.get(WRAPPED_FUNCTION, function).text
        return text.rpartition(".")[2].removeprefix("function ")

    @property
    def texts(self) -> tuple[str, str]:
        """Return what was before and what is now, as texts that differ."""
        if self.is_static:
            part = self.captured
            return _static_texts(self.way if part is None else part.way_to_difference())
        before, after = self._text(self.before), self._text(self.after)
        if self.kind == "sharding":
            (spec, _, mesh), (other, _, second) = (t.partition(" of ") for t in (before, after))
            if mesh == second and spec != other:  # on one mesh the specs say it
                return spec, other
        again = ", whose class was defined again" if self.redefined else ""
        return before, after + again

    def _text(self, leaf: Leaf) -> str:
        if leaf is _MISSING:
            return "unknown to JAX" if self.place.startswith(CONTEXT) else leaf.text
        if leaf.is_array and self.kind == "commitment":
            return "committed" if leaf.committed else "not committed"
        if leaf.is_array and self.kind in ("sharding", "memory kind"):
            return str(getattr(leaf, _OF_ARRAYS[self.kind]) or "not committed")
        return shortened(leaf.text)

    def narrowed(self) -> "Difference":
        """Return the difference in the parameter of a spec, or in one of those inside of it."""
        way, steps = self.way, []
        is_of_spec = self.kind == "transformation" and not self.before.factory
        if not (is_of_spec and self.is_static and way[-1].looks_different):
            return self
        for part in way[1:]:
            kind, _, label = part.name.partition(" ")
            if kind not in ("field", "item"):
                break
            steps.append(f".{label[1:-1]}" if kind == "field" else f"[{label}]")
        _, before, after = way[len(steps)]
        found = Difference(self.path + "".join(steps), before, after, self.old, self.new)
        found.parameter = "".join(steps)
        return found

    # --- static values, functions and optimizers --------------------------------------------------

    @functools.cached_property
    def way(self) -> list[Part]:
        """Return the parts that lead to where two static values differ, themselves first."""
        whole = Part("", self.before, self.after)
        return whole.way_to_difference() if self.is_static else [whole]

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
    def is_function(self) -> bool:
        return self.kind == "function" and self.is_static

    @property
    def is_same_to_canonopt(self) -> bool:
        digest = self.function.before.digest
        return digest is not None and digest == self.function.after.digest

    @functools.cached_property
    def captured(self) -> Part | None:
        """Return the transformation or the schedule of Optax that was built with a function."""
        before, after = self.function.before.parts, self.function.after.parts
        for name in before.keys() & after.keys() if self.is_function else ():
            part = Part(name, before[name], after[name])
            is_of_optax = part.before.factory and part.after.factory
            is_unique = part.before.token != part.after.token or part.before.is_unique
            if is_of_optax and (is_unique or part.is_other_to_canonopt):
                return part
        inside = self.way[1:] if self.is_function else ()  # such as an attribute of `self`
        return next((part for part in inside if part.before.factory and part.after.factory), None)

    @property
    def spec(self) -> str:
        """Return the name of the spec in a function that leads to the difference."""
        found = (p for p in self.way[1:] if p.before.kind == "transformation")
        return _label(next((part.name for part in found), ""))

    @property
    def built(self) -> str:
        """Return the name of the transformation or schedule to build with canonopt."""
        return self.path if self.captured is None else _label(self.captured.name)

    @property
    def factories(self) -> str:
        """Return the names of the factories that built it."""
        leaf = (self.captured or self.function).before
        if not leaf.text.startswith("optax."):
            return leaf.factory or "adam and so on"
        inside = [part.text for part in leaf.parts.values() if part.kind == "transformation"]
        texts = [leaf.text, *(inside if leaf.text == f"optax.{leaf.factory}" else [])]
        names = [name for text in texts for name in re.findall(r"[A-Za-z]\w*", text)]
        schedules = " and its schedules" if _has_schedule(leaf) else ""
        return ", ".join(name for name in dict.fromkeys(names) if name != "optax") + schedules

    @property
    def caching_global(self) -> str:
        """Return the global by which two functions differ that keeps what it has traced."""
        parts = self.way if self.is_function else ()
        keeps = (p.name for p in parts if WRAPPED_FUNCTION in p.before.parts)
        return _label(next((name for name in keeps if name.startswith("global ")), ""))

    @property
    def array_of_global(self) -> str:
        """Return the global that is an array by which two functions differ."""
        last = self.way[-1]
        is_array = self.is_function and _ARRAY.match(last.before.text)
        return _label(last.name) if is_array and last.name.startswith("global ") else ""

    @property
    def redefined(self) -> str:
        """Return the class that was defined again, of the values or of a part that differs."""
        is_nodes = self.before.kind == self.after.kind == "node"
        parts = self.way if self.is_static or is_nodes else ()
        again = (p.after.type for p in parts if p.is_class_defined_again)
        return next(again, "").rpartition(".")[2]

    @property
    def counter(self) -> str:
        """Return what a function changes while it is traced, if nothing else looks different."""
        parts = self.way if self.is_function else ()
        names = {name for part in parts for name in part.before.stores}
        is_other = self.visible and _label(self.visible.name) not in names
        return "" if is_other else ", ".join(sorted(names))

    @property
    def jitted_method(self) -> str:
        """Return the assignment of a method that is jitted with its object as a static argument."""
        name = self.new.leaves[FUNCTION].text.rpartition(".")[2]
        jit = "filter_jit" if self.new.is_filtered else "jit"
        return f"self.{name} = canonopt.{jit}(self.{name})"

    @property
    def why_not_shared(self) -> str:
        if not self.is_static or self.before.kind == "value" or self.parameter:
            return ""
        # If something visible differs, these are two configurations, and nothing would merge them.
        return "" if self.visible else self.function.after.why_not_shared or ""

    @property
    def is_of_numbers(self) -> bool:
        """Return True for numbers that may be traced. An int is a count that Python asks for."""
        return all(_NUMBER.fullmatch(leaf.text) for leaf in self.way[-1][1:])

    @property
    def is_jitted_elsewhere(self) -> bool:
        """Return True if a library jits it, or JAX and Equinox around what they wrap."""
        # Canonopt does not look into what Equinox has wrapped, and lowers each function anew.
        new = self.new
        libraries = new.caller.packages - {"jax", "equinox", "canonopt"}
        return bool(libraries or new.is_jitted_by_jax or new.is_of_wrapper or new.is_lowered)

    @property
    def not_static(self) -> str:
        """Return what else to do if an array is to be in the place of a static argument."""
        static = self.new.leaves.get(self.root)
        if self.new.is_filtered or static is None or not static.is_static:
            return ""
        return f", with {self.root} left out of static_argnums and static_argnames"

    @property
    def in_subclass_of_flax(self) -> str:
        """Return words on how the class of Flax that holds the optimizer declares it as data."""
        if self.is_of_flax:
            return ", in a subclass of nnx.Optimizer that says `tx: object = nnx.data()`"
        holder = self.new.leaves.get(self.path.removesuffix(self.parameter).rpartition(".")[0])
        if holder is not None and holder.type.endswith("TrainState"):
            field = "tx: object = struct.field(pytree_node=True)"
            return f", in a subclass of TrainState that says `{field}`"
        return ""

    # --- numbers and arrays -----------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self.new.root(self.path)

    @property
    def is_of_flax(self) -> bool:
        return self.root in self.new.modules_of_flax

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the earlier call is at another line, which may have to change as well."""
        return self.old.caller.place != self.new.caller.place

    @property
    def is_strong(self) -> bool:
        """Return True if the earlier call had an array with a dtype of its own."""
        return self.before.is_array and not self.before.weak_type

    @property
    def becomes_array(self) -> bool:
        kinds = self.before.kind, self.after.kind
        if "number" in kinds or self.before.is_of_number or self.after.is_of_number:
            return self.kind in ("scalar", "weak type", "dtype")
        has_numbers = self.new.has_numbers(self.root) or self.old.has_numbers(self.root)
        return self.kind == "weak type" and (has_numbers or self.settled_at is not None)

    @property
    def settled_at(self) -> str | None:
        """Return where a step has put a leaf that was on no device, or anywhere, at first."""
        before, after = self.as_traced
        is_settled = before.is_array and after.committed and not before.committed
        return self.new.places.get(after.sharding or "") if is_settled else None

    @property
    def is_widened_by_step(self) -> bool:
        """Return True if the earlier call returned more arrays of the wider type than it got."""
        before, after = self.before, self.after
        if self.in_state or not (before.is_inexact and after.is_inexact):
            return False
        given = [(leaf.shape, leaf.dtype) for leaf in self.old.arrays.values()]
        wide = (after.shape, after.dtype)
        is_wider = jnp.dtype(after.dtype).itemsize > jnp.dtype(before.dtype).itemsize
        return is_wider and self.old.returned[wide] > given.count(wide)

    @property
    def widened_by(self) -> str:
        """Return words for the one argument in float64, such as an array, that widens a leaf."""
        wide = [path for path, leaf in self.old.arrays.items() if leaf.dtype == "float64"]
        is_argument = self.after.dtype == "float64" and len(wide) == 1
        return f", such as {wide[0]}" if is_argument else ""

    # --- structure, and what is around a call -----------------------------------------------------

    @property
    def in_state(self) -> bool:
        return self.new.in_state(self.place)

    @property
    def state(self) -> str:
        """Return the outermost state on the way, as the caller names it."""
        state = min(s for s in self.new.states if self.path == s or is_inside(self.path, {s}))
        root = self.new.root(state)
        return self.new.caller.arguments.get(root, root) + state.removeprefix(root)

    @property
    def is_of_other_arrays(self) -> bool:
        """Return True for two nodes with other arrays inside: two models, or optimizers."""

        def arrays(call: Call) -> collections.Counter[tuple[tuple[int, ...], str]]:
            inside = (a for path, a in call.arrays.items() if is_inside(path, {self.place}))
            return collections.Counter((a.shape, a.dtype) for a in inside)

        is_node = self.before.kind == self.after.kind == "node"
        return is_node and arrays(self.old) != arrays(self.new)

    @property
    def is_with_and_without_mesh(self) -> bool:
        is_none = {self.before.text, self.after.text} & {"none", "None", "()", ""}
        return self.kind == "context" and "mesh" in self.path and bool(is_none)


def _has_schedule(leaf: Leaf) -> bool:
    """Return True for an optimizer with a schedule of Optax in it."""
    parts = leaf.parts.values()
    is_one = any(re.search("schedule|exponential_decay", part.factory or "") for part in parts)
    return is_one or any(map(_has_schedule, parts))


def _label(name: str) -> str:
    """Return `tx` of `captured variable 'tx'`."""
    return [*name.split("'"), name][1]


def wider(one: str, other: str) -> str | None:
    """Return the dtype that two dtypes promote to."""
    with contextlib.suppress(ValueError, TypeError):  # random keys, and what only NumPy has
        return str(jnp.promote_types(one, other))
    return None


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


# --- comparing calls ------------------------------------------------------------------------------


def differences(old: Call, new: Call) -> Iterator[Difference]:
    """Yield the differences that JAX sees; if none, others that may be why it was compiled."""
    found = _differing(old, new)
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


def _differing(old: Call, new: Call) -> Iterator[Difference]:
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
        elif before is after or _is_same(before, after) or _is_of_two(path, before, after):
            continue
        found = Difference(path, before, after, old, new)
        if found.kind in ("structure", "none"):
            gone.add(path)
        yield found


def _is_same(before: Leaf, after: Leaf) -> bool:
    if before.kind == after.kind and before.token == after.token:
        return True
    old, new = as_traced(before, after), as_traced(after, before)
    if old.is_array:  # not by the token: a tracer has no placement to compare
        return new.is_array and not array_kinds(old, new)
    return before.is_static and after.is_static and before.token == after.token


def _is_of_two(path: str, before: Leaf, after: Leaf) -> bool:
    """Return True for one static argument of two calls, only one of which is shared."""
    is_one = before.digest == after.digest and path != FUNCTION
    return is_one and before.is_shared != after.is_shared


_MAX_COUNTED = 64  # differences of a call, after which it is far enough off


def nearest(new: Call, earlier: Sequence[Call]) -> list[Difference]:
    """Return the differences of a call from the nearest of earlier ones, of which there is one."""
    # There may be 16 earlier calls, so each comparison stops early.
    found = [[*itertools.islice(differences(old, new), _MAX_COUNTED)] for old in earlier]
    # Among equally near ones the last, which a loop ran just before.
    best = min(range(len(found)), key=lambda i: (len(found[i]), _distance(found[i]), -i))
    return sorted(differences(earlier[best], new), key=lambda each: KINDS.index(each.kind))


def _distance(found: Iterable[Difference]) -> int:
    """Return the number of ways in which leaves differ."""
    ways = 0
    for before, after in (difference.as_traced for difference in found):
        if before.is_array and after.is_array and before.is_key == after.is_key:
            ways += len(array_kinds(before, after))
        elif before.is_static and after.is_static:
            ways += before.digest != after.digest  # what was made again is nearer
        else:
            ways += len(KINDS)  # farther off than any two arrays
    return ways
