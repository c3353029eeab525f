"""How two calls differ: a `Difference` for each path, with the facts that rules ask for.

`nearest` finds the earlier call that a new one is compared with.
"""

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs
import jax.numpy as jnp
import numpy as np

from .._python_internals import MODULES
from .._texts import MAX_SHOWN, cut_to_difference, shortened
from .records import (
    CACHE,
    CONTEXT,
    FUNCTION,
    GIVEN,
    GLOBAL_ARRAY,
    GLOBAL_JITTED,
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


@attrs.frozen
class Part:
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

    @property
    def is_other_object(self) -> bool:
        """Return True for two functions, or for objects that are compared by identity."""
        return (self.before.kind != "value" or self.before.is_unique) and self.is_other_to_canonopt

    @property
    def is_other_function(self) -> bool:
        """Return True for two functions that are the same to canonopt, and not to JAX."""
        return self.before.kind != "value" and self.before.token != self.after.token

    def way(self, is_end: Callable[["Part"], bool], into_all: bool = False) -> list["Part"]:
        """Return the parts that lead to the first that `is_end`, itself first, or nothing."""
        before, after = self.before.parts, self.after.parts
        # Another object as a whole, whatever its parts are.
        kind = self.before.kind
        is_whole = kind == "transformation" or (kind == "value" and self.before.is_unique)
        if before.keys() == after.keys() and (into_all or not is_whole):
            for name, old in before.items():
                if inner := Part(name, old, after[name]).way(is_end, into_all):
                    return [self, *inner]
        return [self] if is_end(self) else []

    def way_to_difference(self) -> list["Part"]:
        """Return the parts that lead to where the two differ, themselves first."""
        # What the user can read comes first: two texts that differ explain more than two objects.
        if len(way := self.way(lambda part: part.looks_different, into_all=True)) > 1:
            return way
        if len(way := self.way(lambda part: part.is_other_object)) > 1:
            return way
        # A function may capture another value that looks the same in every part.
        is_value = self.before.kind == "value"
        way = self.way(lambda p: p.is_other_function if is_value else p.is_other_to_canonopt)
        return way if len(way) > 1 else [self]


def _static_texts(way: Sequence[Part]) -> tuple[str, str]:
    """Return the part that differs, with its name and owner; or that none does."""
    before, after = way[0].before, way[0].after
    owner = texts = shortened(before.text), shortened(after.text)
    is_alike = before.text == after.text
    if again := next((part.after for part in way if part.is_class_defined_again), None):
        return texts[0], f"{texts[1]}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    is_built = before.kind == "transformation"  # as it was built, not as it is inside
    is_long = len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}
    if (is_alike or is_long) and (way[-1].looks_different or not is_built):
        for part in way[1:]:
            old, new = part.before, part.after
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if part is way[-1] or (is_clear and old.place is None):
                name = part.name.removeprefix("captured variable ") if is_built else part.name
                cut = cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                owner = texts if is_built else owner
                return f"{owner[0]} with {name} {cut[0]}", f"{owner[1]} with {name} {cut[1]}{same}"
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


# --- differences ----------------------------------------------------------------------------------

_MISSING = Leaf("missing", "missing", None)
# A float, also a dynamic one that stands where it is static.
_NUMBER = re.compile(r"(canonopt\.dynamic\()?-?\d+(\.\d+|\.?\d*e-?\d+)\)?")


class Line(NamedTuple):
    """A line to paste, or words, or both."""

    code: str = ""
    words: str = ""


class Difference:
    """A path at which two calls differ, with the facts that rules ask for.

    - `place`: the path in the record.
    - `path`: the path in a report: only what can be written in Python, or words.
    - `parameter`: of a spec, the steps to its parameter that differs, such as `.learning_rate`.
    """

    def __init__(
        self,
        place: str,
        before: Leaf | None,
        after: Leaf | None,
        old: Call,
        new: Call,
        parameter: str = "",
    ) -> None:
        self.place, self.old, self.new, self.parameter = place, old, new, parameter
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
        if self.place.startswith(TRANSFORMS):
            return "the call"
        if self.place == CACHE:
            return "the cache"
        if self.captured is not None:
            function = self.function.after
            text = function.parts.get(WRAPPED_FUNCTION, function).text
            return f"{self.captured_name} in {text.rpartition('.')[2].removeprefix('function ')}"
        if self.kind == "function":
            return "the function itself"
        return self.place.removesuffix(UNNAMED_STATIC).rpartition("> ")[2]

    @functools.cached_property
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
        if self.after.is_class_defined_again(self.before):
            after += ", whose class was defined again"
        return before, after

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
        is_of_spec = self.kind == "transformation" and self.before.text.startswith("canonopt.")
        if not (is_of_spec and self.is_static and way[-1].looks_different):
            return self
        for part in way[1:]:
            kind, _, label = part.name.partition(" ")
            if kind not in ("field", "item"):
                break
            steps.append(f".{label[1:-1]}" if kind == "field" else f"[{label}]")
        part, parameter = way[len(steps)], "".join(steps)
        ends = part.before, part.after
        return Difference(self.path + parameter, *ends, self.old, self.new, parameter)

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
        # Digests may be equal though a global, or a variable that several functions capture,
        # changed.
        digest = self.function.before.digest
        is_same = digest is not None and digest == self.function.after.digest
        return is_same and self.visible is None

    @functools.cached_property
    def captured(self) -> Part | None:
        """Return the transformation or the schedule of Optax that was built with a function."""
        if not self.is_function:
            return None
        for name, after in self.function.after.parts.items():
            before = self.function.before.parts.get(name)
            if before is not None and before.factory and after.factory:
                part = Part(name, before, after)
                is_unique = before.token != after.token or before.is_unique
                if is_unique or part.is_other_to_canonopt:
                    return part
        return None

    @property
    def captured_name(self) -> str:
        return "" if self.captured is None else _label(self.captured.name)

    @property
    def built(self) -> str:
        """Return the name of the transformation or schedule to build with canonopt."""
        return self.captured_name or self.path

    @property
    def array_of_global(self) -> str:
        """Return the global that is an array by which two functions differ."""
        return self._global_of(GLOBAL_ARRAY)

    @property
    def jitted_global(self) -> str:
        return self._global_of(GLOBAL_JITTED)

    def _global_of(self, kind: str) -> str:
        names = (part.name for part in self.way if self.is_function)
        return _label(next((name for name in names if name.startswith(kind)), ""))

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
        if not self.is_function:
            return ""
        visible, function = self.visible, self.function.before
        if function.stores:
            is_of_store = visible is None or visible.name.endswith((*map(repr, function.stores),))
            return ", ".join(sorted(function.stores)) if is_of_store else ""
        kinds = ("list", "dict", "set", "collections.Counter", "collections.defaultdict")
        changed = (part.name for part in self.way if part.before.type in kinds)
        return _label(next(changed, "")) if function.changes_objects and visible else ""

    @property
    def why_not_shared(self) -> str:
        if not self.is_static or self.before.kind == "value" or self.parameter:
            return ""
        # If something visible differs, these are two configurations, and nothing would merge them.
        return "" if self.visible else self.function.after.why_not_shared or ""

    @property
    def is_of_numbers(self) -> bool:
        """Return True for numbers that may be traced. An int is a count that Python asks for."""
        part = self if self.parameter else self.visible
        return part is not None and all(
            _NUMBER.fullmatch(leaf.text) for leaf in (part.before, part.after)
        )

    @property
    def factories(self) -> str:
        """Return the names of the factories that built a transformation or a schedule."""
        leaf = (self.captured or self.function).before
        if not leaf.text.startswith("optax."):
            return leaf.factory or "adam and so on"
        inside = [part.text for part in leaf.parts.values() if part.kind == "transformation"]
        texts = [leaf.text, *(inside if leaf.text == f"optax.{leaf.factory}" else [])]
        names = [name for text in texts for name in re.findall(r"[A-Za-z]\w*", text)]
        names = [name for name in dict.fromkeys(names) if name != "optax"]
        return ", ".join(names) + (" and its schedule" if _has_schedule(leaf) else "")

    @property
    def is_jitted_elsewhere(self) -> bool:
        """Return True if a library jits it, or JAX and Equinox around what they wrap."""
        # Canonopt does not look into what Equinox has wrapped, and lowers each function anew.
        new = self.new
        libraries = new.caller.packages - {"jax", "equinox", "canonopt"}
        return bool(libraries or new.is_jitted_by_jax or new.is_of_wrapper or new.is_lowered)

    @property
    def holder(self) -> str:
        """Return the type of the node that holds a leaf, or of the value."""
        place = self.path.removesuffix(self.parameter)
        owner = self.new.leaves.get(place.rpartition(".")[0] or place)
        return "" if owner is None else owner.type

    @property
    def not_static(self) -> str:
        """Return what else to do if an array is to be in the place of a static argument."""
        static = self.new.leaves.get(self.root)
        if self.new.is_filtered or static is None or not static.is_static:
            return ""
        return f", with {self.root} left out of static_argnums and static_argnames"

    @property
    def of_static(self) -> str:
        """Return why a static value is to be one, and what else can be done about it."""
        each = "each is a program of its own"
        if self.parameter or re.match(r"True|False|None|['\"]", self.before.text):
            return each  # a flag or a mode
        if self.before.is_of_number or self.after.is_of_number:
            array = f"Or pass it as an array{self.not_static}"
            unless = "unless a shape, a range or an if needs the number"
            return f"it is part of the program. {array}, {unless}"
        return f"{each}. Or pass what changes in it as an array argument"

    @property
    def in_subclass_of_flax(self) -> str:
        """Return what makes data of the optimizer that a class of Flax holds."""
        if self.is_of_flax:
            return ", in a subclass of nnx.Optimizer that says `tx: object = nnx.data()`"
        if self.holder.endswith("TrainState"):
            field = "tx: object = struct.field(pytree_node=True)"
            return f", in a subclass of TrainState that says `{field}`"
        return ""

    @property
    def but_changed(self) -> str:
        """Return a warning if the function reads what has changed: a trace reads it again."""
        before, after = self.old.function, self.new.function
        if before is None or after is None or before.token != after.token:
            return ""
        if None in (before.digest, after.digest) or before.digest == after.digest:
            return ""
        name = Part("", before, after).way_to_difference()[-1].name or "a variable"
        text = f"{name}, has changed, and without a new trace the old value stays"
        return f". But what the function reads, {text}: pass it as an argument"

    # --- numbers and arrays -----------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self.new.root(self.path)

    @property
    def is_of_flax(self) -> bool:
        return self.root in self.new.modules_of_flax

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the earlier call is at another line, where a line would have to stand."""
        return self.old.caller.place != self.new.caller.place

    @property
    def has_number(self) -> bool:
        return "number" in (self.before.kind, self.after.kind)

    @property
    def is_of_x64(self) -> bool:
        """Return True if a dtype is another one since `jax_enable_x64` is."""
        name = f"{CONTEXT}jax_enable_x64"
        before, after = self.old.leaves.get(name), self.new.leaves.get(name)
        if self.kind != "dtype" or before is None or after is None or before.token == after.token:
            return False
        dtypes = (self.before.dtype, self.after.dtype)
        return len({d.replace("64", "32").replace("128", "64") for d in dtypes}) == 1

    @property
    def becomes_array(self) -> bool:
        is_static = self.before.is_of_number or self.after.is_of_number  # under filter_jit
        if self.has_number or is_static:
            return self.kind in ("scalar", "weak type", "dtype")
        is_mixed = any(has_numbers(self.root, call) for call in (self.old, self.new))
        return self.kind == "weak type" and (is_mixed or self._settled_at is not None)

    @property
    def number_as_array(self) -> str:
        """Return code for an array of the dtype that a number has anyway, without a weak type."""
        pair = self.before, self.after
        arrays = [leaf for leaf in pair if leaf.is_array]
        # The strong one, if there is one. A weak type follows the other arrays.
        strong = [a for a in arrays if not a.weak_type] or arrays
        types = {leaf.type for leaf in pair if leaf.kind == "number"}
        dtype = strong[0].dtype if strong else None
        if dtype is None and types == {"int", "float"}:
            dtype = str(jnp.result_type(float))
        is_there = self.after.is_array and not self.after.weak_type and self.is_elsewhere
        if dtype is None or "bool" in types or is_there:
            return ""
        others = (leaf for path, leaf in self.new.arrays.items() if path != self.path)
        is_inexact = dtype.startswith(("float", "bfloat", "complex"))
        others = (a.dtype for a in others if not a.is_key and a.is_inexact == is_inexact)
        # An array decides the dtype of a result where a Python number does not.
        if any(_wider(other, dtype) != other for other in others):
            return ""
        code = f"{{jnp}}.asarray({{leaf}}, {{jnp}}.{dtype})"
        place = self._settled_at
        return code if place is None else f"{{jax}}.device_put({code}, {place})"

    @property
    def _settled_at(self) -> str | None:
        """Return where a step has put a leaf that was on no device, or anywhere, at first."""
        before, after = self.as_traced
        is_settled = before.is_array and after.committed and not before.committed
        return self.new.places.get(after.sharding or "") if is_settled else None

    @property
    def wide(self) -> str:
        """Return the one argument in float64, such as a NumPy array, that widens the leaf."""
        if (self.before.dtype, self.after.dtype) != ("float32", "float64"):
            return ""
        old, root = self.old, self.old.root(self.place)
        wide = [path for path, leaf in old.arrays.items() if leaf.dtype == "float64"]
        if any(old.root(path) == root or is_inside(path, old.states) for path in wide):
            return ""
        is_returned = old.returned[self.after.shape, "float64"] > 0
        return wide[0] if len(wide) == 1 and is_returned else ""

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
    def in_common_dtype(self) -> str:
        before, after = self.before, self.after
        # A step settles on what it returns. Elsewhere no number is lost in the wider of two dtypes.
        dtype = after.dtype if self.in_state else _wider(before.dtype, after.dtype)
        is_one_kind = before.is_inexact == after.is_inexact
        is_there = self.is_elsewhere and dtype == after.dtype
        if not is_one_kind or dtype not in (before.dtype, after.dtype) or is_there:
            return ""
        return f"{{leaf}}.astype({dtype!r})"

    @property
    def placed(self) -> tuple[str, str]:
        """Return the path of what is to be put somewhere, and code for that."""
        # A step settles on where its outputs are. An array that is not committed goes anywhere.
        is_now = bool(self.after.committed)
        call, there = (self.new, self.after) if is_now else (self.old, self.before)
        place = call.places.get(there.sharding or "")
        # The leaf of the earlier call would have to be put where this one is already.
        if place is None or (is_now and self.is_elsewhere):
            return self.path, ""
        inside = [leaf for path, leaf in call.leaves.items() if call.root(path) == self.root]
        found = {(leaf.sharding, leaf.memory_kind) for leaf in inside if leaf.is_array}
        is_whole = found == {(there.sharding, there.memory_kind)}
        # What is no array cannot be put anywhere.
        is_mixed = is_whole and call.is_filtered and any(leaf.is_static for leaf in inside)
        put = "{eqx}.filter_shard" if is_mixed else "{jax}.device_put"
        return self.root if is_whole else self.path, f"{put}({{leaf}}, {place})"

    @property
    def put(self) -> str:
        """Return in words where to put the leaf."""
        is_there = bool(self.after.committed) and self.is_elsewhere
        place = self.new.places.get(self.after.sharding or "") if is_there else None
        return f"jax.device_put({self.path}, {(place or 'sharding').replace('{jax}', 'jax')})"

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
    def is_other_optimizer(self) -> bool:
        """Return True for states of two optimizers, whose nodes differ."""
        nodes = [leaf.type for leaf in (self.before, self.after) if leaf.kind == "node"]
        is_of_states = all(name.startswith(("optax.", "canonopt.", "tuple")) for name in nodes)
        return self.in_state and self.kind == "structure" and bool(nodes) and is_of_states

    @property
    def is_order_of_keys(self) -> bool:
        types = {self.before.type, self.after.type}
        return self.kind == "structure" and types == {"collections.OrderedDict"}

    @property
    def is_with_and_without_mesh(self) -> bool:
        is_none = {self.before.text, self.after.text} & {"none", "None", "()", ""}
        return self.kind == "context" and "mesh" in self.path and bool(is_none)

    # --- lines to paste ---------------------------------------------------------------------------

    def assign(self, path: str, code: str) -> Line:
        """Return a line that puts `code` in the place of the leaf at `path`, its `{leaf}`.

        It gives the same when it runs again, so that it may stand in a loop. Without code it is
        empty. Where no line can stand, it is in words.
        """
        if not code:
            return Line()
        caller, root = self.new.caller, self.new.root(path)
        name, rest = caller.arguments.get(root, root), path.removeprefix(root)
        container = self.new.leaves.get(path[: max(path.rfind("."), path.rfind("["))])
        if not rest or (container is not None and container.type in ("dict", "list")):
            line = f"{name}{rest} = {code}"
        # A step that cannot be written in Python, or to a variable of Flax.
        elif "<" in rest or root in self.new.modules_of_flax:
            usual = {module: module for module in MODULES}
            return Line("", f"replace {path} by {code.format(leaf=path, **usual)} in every call")
        else:
            line = f"{name} = {{eqx}}.tree_at(lambda tree: tree{rest}, {name}, {code})"
        line = caller.with_modules(line.replace("{leaf}", f"{name}{rest}"))
        if root in caller.arguments:
            return Line(line)
        # The source of the call does not name what it passes.
        return Line("", f"before the call, for what it passes as {root}: {line}")

    def canonicalized(self, of_argument: str = "canonicalize") -> Line:
        """Return `canonicalize` of the argument, if that reaches what was made again."""
        is_value = self.before.kind == "value"  # neither a function nor a pytree
        is_same = self.is_same_to_canonopt and not (is_value or self.is_of_flax)
        if not is_same or has_numbers(self.root, self.new):
            return Line()
        # `hoist` gives a Partial back as it is.
        function = of_argument if self.place == self.root else "canonicalize"
        return self.assign(self.root, f"{{canonopt}}.{function}({{leaf}})")

    def with_dynamic_number(self) -> Line:
        """Return a line that makes the parameter of a spec dynamic."""
        name, value = self.parameter, f"{{canonopt}}.dynamic({{leaf}}{self.parameter})"
        name = name.removeprefix(".")
        new = f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"
        return self.assign(self.path.removesuffix(self.parameter), f"{{leaf}}.replace({new})")

    def swap(self, name: str, module: str) -> Line:
        """Return our function in place of the one of the same name in a module."""
        name_of = self.new.caller.name_of
        return Line(f"{name_of('canonopt', name)} in place of {name_of(module, name)}")

    def swap_jit(self) -> Line:
        return self.swap("filter_jit", "eqx") if self.new.is_filtered else self.swap("jit", "jax")

    @property
    def after_import(self) -> str:
        return "" if "canonopt" in self.new.caller.modules else ", after import canonopt"


def _label(name: str) -> str:
    """Return `tx` of `captured variable 'tx'`."""
    return [*name.split("'"), name][1]


def _has_schedule(leaf: Leaf) -> bool:
    """Return True if a schedule of Optax is among the parts of a transformation."""
    parts = leaf.parts.values()
    return any(".<locals>.schedule" in part.text or _has_schedule(part) for part in parts)


def has_numbers(root: str, call: Call) -> bool:
    """Return True if an argument has Python numbers.

    Then `canonicalize` of a later state, where these are arrays, would give them another type.
    """
    numbers = (path for path, leaf in call.leaves.items() if leaf.kind == "number")
    return any(path != root and is_inside(path, {root}) for path in numbers)


def _wider(one: str, other: str) -> str | None:
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
        elif before is after or is_same(before, after):
            continue
        found = Difference(path, before, after, old, new)
        if found.kind in ("structure", "none"):
            gone.add(path)
        yield found


def _is_same_to_jax(before: Leaf, after: Leaf) -> bool:
    if before.kind == after.kind and before.token == after.token:
        return True
    old, new = as_traced(before, after), as_traced(after, before)
    if old.is_array:  # not by the token: a tracer has no placement to compare
        return new.is_array and not array_kinds(old, new)
    return before.is_static and after.is_static and before.token == after.token


def _is_same_to_canonopt(before: Leaf, after: Leaf) -> bool:
    if before.is_static and after.is_static:
        return before.digest == after.digest
    return _is_same_to_jax(before, after)


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
    ways, gap = 0, 0.0
    for before, after in (difference.as_traced for difference in found):
        if before.is_array and after.is_array and before.is_key == after.is_key:
            ways += len(array_kinds(before, after))
        elif before.is_static and after.is_static:
            ways += before.digest != after.digest  # what was made again is nearer
        else:
            ways += len(KINDS)  # farther off than any two arrays
        if len(before.shape) != len(after.shape):
            gap = np.inf
        elif before.shape:  # how many times larger one shape is, as a sum of logarithms
            sizes = np.log1p(np.array([before.shape, after.shape]))
            gap += float(np.abs(sizes[0] - sizes[1]).sum())
    return ways, gap
