"""Find how two calls differ: one `Difference` for each path, with the facts that `rules` uses.

A path leads to an argument, to a part of an argument or to a setting, as in `records`. `nearest`
compares a new call with the most similar earlier call.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import attrs

from .records import (
    CACHE,
    CLASS,
    CONTEXT,
    FUNCTION,
    GIVEN,
    JIT,
    OPTION,
    TRANSFORMS,
    UNNAMED_STATIC,
    Call,
    Leaf,
    as_traced,
    is_inside,
    text_leaf,
)

# The kinds of differences, most important first: structure, values, placement, settings.
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


# --- texts ----------------------------------------------------------------------------------------

MAX_SHOWN = 80  # maximum number of characters of a value in a message


def shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def listed(names: Sequence[str]) -> str:
    """Return the names as one text: `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def cut_to_difference(before: str, after: str) -> tuple[str, str]:
    """Shorten two different texts so that both show the place where they differ."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    # `shortened` cuts off the end. If the texts first differ there, cut off the beginning, too.
    start = same - MAX_SHOWN // 2 if same > MAX_SHOWN - 20 else 0
    head = "..." if start else ""
    return shortened(head + before[start:]), shortened(head + after[start:])


def names_of(before: Leaf, after: Leaf) -> tuple[str, str]:
    """Return the texts of two static values; if only the code differs, add where each was made."""
    if before.text != after.text or before.code == after.code:
        return before.text, after.text
    return before.text + before.made, after.text + after.made


# --- what is in a static value --------------------------------------------------------------------


@attrs.define(eq=False)
class Part:
    """A value, or a part of a static value, in the earlier and in the new call."""

    name: str  # empty for a whole value
    before: Leaf
    after: Leaf

    @property
    def looks_different(self) -> bool:
        is_other = not self.before.looks_like(self.after) or self.is_class_defined_again
        return is_other and self.is_other_to_canonopt

    @property
    def is_class_defined_again(self) -> bool:
        one, other = self.before, self.after
        is_like = (one.kind, one.type) == (other.kind, other.type)
        return is_like and bool(one.type) and one.type_token != other.type_token

    @property
    def is_other_to_canonopt(self) -> bool:
        before, after = self.before, self.after
        if None in (before.digest, after.digest):  # one of them was not read
            return before.token != after.token
        return before.digest != after.digest

    @property
    def is_of_optax(self) -> bool:
        return self.before.is_of_optax or self.before.kind == "transformation"

    @property
    def is_another_optimizer(self) -> bool:
        """Return True if different factories built the two gradient transformations."""
        before, after = self.before, self.after
        are_both = before.kind == after.kind == "transformation"
        return are_both and before.factories != after.factories

    @property
    def is_another_dynamic_int(self) -> bool:
        """Return True if an int in `canonopt.dynamic` differs: a program has it as a constant."""
        ints_in = re.compile(r"canonopt\.dynamic\(-?\d+\)").findall
        return ints_in(self.before.text) != ints_in(self.after.text)

    @property
    def label(self) -> str:
        """Return the quoted word in the name (`tx` in `captured variable 'tx'`), or the name."""
        return [*self.name.split("'"), self.name][1]


# --- differences ----------------------------------------------------------------------------------

_FIELD = re.compile(r"field '(?P<name>[\w.]+)'|item (?P<index>\d+)")
_STATICS = f"{OPTION}static"
_MISSING = Leaf("missing", "missing", None)


class Difference(Part):
    """A path at which two calls differ, with the facts that `rules` uses.

    - `place`: the path in the records of the calls.
    - `path`: the path in a report: valid Python, or words.
    - `parameter`: the end of `path`, such as `.learning_rate`, if `path` leads to a parameter of a
        spec, which is an optimizer or a schedule of canonopt.

    A property with advice returns words to append to a hint, or "" if the advice does not apply.
    """

    parameter = ""

    def __init__(
        self, place: str, before: Leaf | None, after: Leaf | None, old: Call, new: Call
    ) -> None:
        super().__init__("", before or _MISSING, after or _MISSING)
        self.place, self.old, self.new = place, old, new
        self.is_missing = before is None or after is None
        self.is_static = self.before.is_static and self.after.is_static
        self.is_of_nodes = self.before.kind == self.after.kind == "node"

    @functools.cached_property
    def kind(self) -> str:
        """Return one of `KINDS`."""
        if self.place == FUNCTION or self.after.is_wrapped:
            return "function"
        if self.place == CACHE:
            return "cleared"
        if self.place.startswith((CONTEXT, TRANSFORMS)):
            return "context"
        if self.place.startswith(OPTION):
            return "options"
        before, after = as_traced(self.before, self.after), as_traced(self.after, self.before)
        if self.is_missing or {before.kind, after.kind} & {"node", "text"}:
            return "structure"
        if "none" in (before.kind, after.kind):
            return "none"
        if self.is_static:
            if self.place.endswith(CLASS):
                return "callable"
            if self.before.kind == "value" and self.is_equal_only_to_itself:
                return "static value"
            kinds = {self.function.before.kind, self.function.after.kind}
            return next((k for k in ("transformation", "callable") if k in kinds), "static value")
        return array_kind(before, after) if before.is_array and after.is_array else "scalar"

    @property
    def path(self) -> str:
        if self.place == TRANSFORMS:
            return "transformation around the call"
        if self.kind in ("function", "cleared"):
            return "the function itself" if self.kind == "function" else "the cache"
        return self.place.removesuffix(UNNAMED_STATIC).rpartition("> ")[2]

    @property
    def texts(self) -> tuple[str, str]:
        """Return the values in the earlier and in the new call, as texts that differ."""
        if self.is_static:
            return self._static_texts()
        if self.kind == "options":
            return cut_to_difference(self.before.text, self.after.text)
        again = ", whose class was defined again" if self.redefined else ""
        return self._text(self.before), self._text(self.after) + again

    def _text(self, leaf: Leaf) -> str:
        if leaf.is_array and self.kind == "commitment":
            return "committed" if leaf.committed else "not committed"
        if leaf.is_array and self.kind in ("sharding", "memory kind"):
            return str(getattr(leaf, _OF_ARRAYS[self.kind]) or "not committed")
        return shortened(leaf.text)

    def _static_texts(self) -> tuple[str, str]:
        # If canonopt cannot share the function, a hint gives the reason, so `hidden` is not named.
        part = self.visible or (None if self.why_not_shared else self.hidden)
        before, after = self.before, self.after
        names = names_of(before, after)
        # Another bound method or partial means that a jit was called again: that comes first.
        made = {"method": "bound method", "functools.partial": "partial"}.get(after.type)
        is_made = self.is_function and made and before.token != after.token
        again = f"another {made}, jitted again: " if is_made else ""
        texts = shortened(names[0]), again + shortened(names[1])
        if self.redefined:
            return texts[0], f"{texts[1]}, and class {self.redefined} was defined again"
        # Two short texts that differ are enough, unless they are names of functions.
        is_short = texts[0] != texts[1] and max(map(len, names)) <= MAX_SHOWN
        if part is not None and (before.kind == "callable" or not is_short):
            one, other = cut_to_difference(*names_of(part.before, part.after))
            is_class = one.startswith("class ") and not part.is_class_defined_again
            other += (" (changed)" if is_class else " (another object)") * (one == other)
            return f"{texts[0]} with {part.name} {one}", f"{texts[1]} with {part.name} {other}"
        if names[0] != names[1]:
            return cut_to_difference(*names)
        if self.is_function and before.token == after.token:
            return texts[0], "the same function, wrapped and jitted again"
        if self.is_equal_only_to_itself:
            return texts[0], "another object, equal only to itself"
        if before.kind != "value" and before.code == after.code:
            return texts[0], f"another object made by the same code{after.made}"
        if self.is_container_made_again:
            return texts[0], f"another {before.type} that looks the same"
        return texts[0], "another value, not equal to the earlier one"

    @property
    def is_container_made_again(self) -> bool:
        """Return True for two containers that look the same but are compared by identity."""
        is_same = self.before.looks_like(self.after) and not (self.visible or self.hidden)
        return self.is_static and is_same and self.after.type in ("list", "dict", "set")

    def narrowed(self) -> "list[Difference]":
        """Return the differences inside of a spec, a dataclass or a sequence, or else `[self]`."""
        part = self.visible or self.hidden or self.function
        is_of_spec = self.is_function and part.name.startswith(".")  # a captured spec's parameter
        if is_of_spec or (self.is_equal_only_to_itself and not self.new.is_shared):
            return [self]
        field = part.after.is_own and _FIELD.fullmatch(part.name)
        if field and (field["name"] or part.before.kind != "value"):
            step = f".{field['name']}" if field["name"] else f"[{field['index']}]"
            return [self._inside(step, part)]
        of_spec = [each for each in self.parts if each.name.startswith(".") and each.before.number]
        found = of_spec if part in of_spec else [part] * part.name.startswith(".")
        return [self._inside(each.name, each, each.name) for each in found] or [self]

    def _inside(self, step: str, part: Part, parameter: str = "") -> "Difference":
        found = Difference(self.path + step, part.before, part.after, self.old, self.new)
        found.parameter = parameter
        return found

    # --- static values, functions and optimizers --------------------------------------------------

    @functools.cached_property
    def parts(self) -> list[Part]:
        """Return the parts by which two static values differ, each after the parts inside of it."""
        before, after = self.before.parts, self.after.parts
        common = (Part(name, before[name], after[name]) for name in before if name in after)
        # JAX compares the functions in a value by identity, even if they do the same.
        is_value = self.before.kind == "value"
        return [
            part
            for part in common
            if part.is_other_to_canonopt
            or (is_value and part.before.kind != "value" and part.before.token != part.after.token)
        ]

    @functools.cached_property
    def visible(self) -> Part | None:
        """Return the part that is another optimizer, else the innermost part that looks different.

        Returns None if there is none, if the values are different optimizers, or if `is_object`.
        """
        if self.is_object or self.is_another_optimizer:
            return None
        optimizers = (part for part in reversed(self.parts) if part.is_another_optimizer)
        different = (part for part in self.parts if part.looks_different)
        return next(itertools.chain(optimizers, different), None)

    @property
    def hidden(self) -> Part | None:
        """Return the innermost differing part that is neither function nor optimizer, or None."""
        if self.before.kind == "transformation" or self.is_object:  # its text shows its parts
            return None
        return next((part for part in self.parts if part.before.kind == "value"), None)

    @property
    def is_object(self) -> bool:
        """Return True for a static `self` that is compared by identity, not by its attributes."""
        return self.place == "self" and self.before.is_unique

    @property
    def function(self) -> Part:
        """Return the outermost differing function or optimizer if values look alike; else self."""
        if self.before.kind != "value" or self.visible is not None or self.is_object:
            return self
        inside = (part for part in reversed(self.parts) if part.before.kind != "value")
        return next(inside, self)

    @property
    def is_function(self) -> bool:
        return self.kind == "function" and self.is_static

    @property
    def is_equal_only_to_itself(self) -> bool:
        """Return True for two instances that look the same, of a class without `__eq__`."""
        before, after = self.before, self.after
        is_instance = before.kind == "value" or not (before.made or self.is_same_to_canonopt)
        return before.is_unique and is_instance and before.looks_like(after)

    @property
    def is_same_to_canonopt(self) -> bool:
        digest = self.function.before.digest
        return digest is not None and digest == self.function.after.digest

    @property
    def optimizer(self) -> str:
        """Return the name of the optimizer or schedule by which two values differ, or ""."""
        if self.kind == "transformation" or (self.kind == "callable" and self.before.is_of_optax):
            return self.path
        inside = reversed(self.parts) if self.is_function else ()  # parts such as `self.optim`
        part = next((part for part in inside if part.is_of_optax), None)
        if part is None or part.is_another_dynamic_int:
            return ""
        is_global = part.name.startswith("global")
        return "" if is_global and not self.is_same_to_canonopt else part.label

    @property
    def of_captured(self) -> str:
        """Return advice on a captured object or optimizer by which two functions differ."""
        name = self.visible.name if self.visible else ""
        if " of " in name:
            return (
                f". All of {name.partition(' of ')[2]} is compared, even what the function does "
                "not read. To compare less, read what is needed into variables or attributes "
                "before the function is made"
            )
        if self.is_same_to_canonopt:
            return ""
        if not self.visible and self.hidden and "global '" in self.hidden.name:
            name = self.hidden.name.split("'")[-2]
            return f": {name}, since a value in a global is part of the program"
        found = [self.visible] if self.visible else self.parts
        if any(part.is_another_dynamic_int for part in found):
            return ". An int in canonopt.dynamic is part of the program"
        optimizers = (p for p in self.parts if p.before.kind == "transformation")
        is_whole = any(part.name.startswith("captured variable") for part in optimizers)
        if is_whole or not any(part.is_of_optax or part.name.startswith(".") for part in found):
            return ""
        return (
            ". Or capture the optimizer, not its update, in a local variable, and write "
            "canonopt.dynamic(number) for numbers that change. Then "
            f"{self.our_jit} shares the program"
        )

    @property
    def other_statics(self) -> str:
        """Return `, static_argnames=...` with a method's static arguments, without `self`."""
        leaves = {**self.old.leaves, **self.new.leaves}
        static = (name for name, leaf in leaves.items() if leaf.is_static and name.isidentifier())
        names = (*sorted(name for name in static if name != "self"),)
        return f", static_argnames={names}" if names and not self.new.is_filtered else ""

    @property
    def of_attributes(self) -> str:
        """Return advice on the attributes and the optimizer by which two objects differ."""
        values = (p for p in self.parts if p.looks_different and p.before.kind == "value")
        own = (p for p in values if re.fullmatch(r"attribute '\w+'", p.name))
        named = [f"{self.path}.{part.label}" for part in own]
        words = ""
        if named:
            words = f". If the method reads {' or '.join(named[:2])}, pass the value as an argument"
        parts = (p for p in reversed(self.parts) if p.is_of_optax and not p.before.holds_dynamic)
        if (optimizer := next(parts, None)) is not None:
            words += f". Build {optimizer.label} from canonopt, with canonopt.dynamic(number) for "
            words += "numbers that change"
        return words

    @property
    def is_dynamic(self) -> bool:
        """Return True for a dynamic number in a static spec, or for a static spec that has one."""
        if self.parameter and self.before.is_dynamic:
            return True
        is_one = self.kind == "transformation" and self.before.text == self.after.text
        return is_one and self.before.holds_dynamic

    @property
    def is_of_inner_optimizer(self) -> bool:
        """Return True if the visible part is in an optimizer of Optax that the value holds."""
        name = self.visible.name if self.visible else ""
        return any(p.is_of_optax and name.endswith(f" of {p.name}") for p in self.parts)

    @property
    def captured_number(self) -> str:
        """Return the name of a number that a function in a canonopt optimizer captures, or ""."""
        part = self.visible if self.optimizer and not self.parameter else None
        if part is None:
            return ""
        is_number = part.before.number and not part.after.is_integer
        is_captured = is_number and part.name.startswith("captured variable")
        is_of_optax = any(each.before.is_of_optax for each in (*self.parts, self))
        return part.label if (part.before.is_dynamic or is_captured) and not is_of_optax else ""

    @property
    def of_results(self) -> str:
        """Return advice for an array that a step may return with another sharding on a mesh."""
        are_on_mesh = all(leaf.spec_and_mesh[1] for leaf in (self.before, self.after))
        if self.kind != "sharding" or not are_on_mesh:
            return ""
        return ". If the step returns another sharding, pin it by out_shardings or eqx.filter_shard"

    @property
    def from_canonopt(self) -> str:
        """Return advice on how to build the optimizer."""
        parts = (*self.parts, self)
        is_of_optax = any(p.before.is_of_optax or p.after.is_of_optax for p in parts)
        words = " entirely from canonopt in place of optax" if is_of_optax else " once"
        if self.visible:
            words += f", with canonopt.dynamic(number) for numbers that change{self.for_dynamic}"
            if self.kind == "callable":
                words += ", and pass an optimizer, not its init or update"
            if self.visible.after.is_integer:
                words += "; an int may be dynamic only in a schedule that uses jnp and is "
                words += "decorated with canonopt.canonical"
        return words

    @property
    def of_jit(self) -> str:
        """Return advice on which jit to use for a function that is made again."""
        if not (self.is_function and self.may_take_our_jit):
            return ""
        words = f". Also use {self.our_jit} for the step, since it is made again"
        why = self.after.why_not_shared
        return f"{words}. But the step cannot share its program yet: {why}" if why else words

    @property
    def redefined(self) -> str:
        """Return the name of a class that was defined again: a part's, or else the value's."""
        parts = (*self.parts, self)
        again = next((p.after.type for p in parts if p.is_class_defined_again), "")
        return again.rpartition(".")[2]

    @property
    def counter(self) -> str:
        """Return the variables that a function changes in a trace, if all else looks the same."""
        names = self.after.stores if self.is_function else frozenset()
        label = self.visible.label if self.visible else None
        is_other = label and names.isdisjoint((label, f"self.{label}"))
        return "" if is_other else ", ".join(sorted(names))

    @property
    def why_not_shared(self) -> str:
        if not self.is_static or self.before.kind == "value" or self.parameter:
            return ""
        # No reason is needed if a library's jit is used, or if canonopt can share the values.
        is_moot = self.is_jitted_elsewhere if self.is_function else self.is_same_to_canonopt
        is_moot |= self.kind == "transformation" and any(p.before.is_of_optax for p in self.parts)
        # If a visible part differs, these are two configurations, and each needs its own program.
        if is_moot or self.visible:
            return ""
        if (why := self.function.after.why_not_shared) or not self.is_function:
            return why or ""
        specs = (p for p in reversed(self.parts) if p.before.kind == "transformation")
        uses = (f"it uses {p.label}, and {w}" for p in specs if (w := p.after.why_not_shared))
        return next(uses, "")

    @property
    def is_jitted_elsewhere(self) -> bool:
        """Return True if a library jits the function, JAX jits a wrapper, or `.lower()` is used."""
        new, is_ours = self.new, self.new.jit.startswith("canonopt.")
        return bool(new.caller.package or new.wrapper or (new.is_lowered and not is_ours))

    @property
    def may_take_our_jit(self) -> bool:
        return not (self.new.jit.startswith("canonopt.") or self.is_jitted_elsewhere)

    @property
    def our_jit(self) -> str:
        return self.new.caller.name_of("canonopt", "filter_jit" if self.new.is_filtered else "jit")

    @property
    def not_static(self) -> str:
        """Return advice to make the argument non-static, so that an array can replace its value."""
        options = (leaf for path, leaf in self.new.leaves.items() if path.startswith(_STATICS))
        has_statics = any(leaf.text != "()" for leaf in options)
        if self.new.is_filtered or not (self.is_in_static and has_statics):
            return ""
        return f", with {self.root} left out of static_argnums and static_argnames"

    @property
    def as_array(self) -> str:
        """Return advice on how to pass an array in place of a static value."""
        words = ", in an argument of its own"  # unless the argument itself is a number
        if self.is_of_flax:
            words = ", declared as data by nnx.data"
        elif self.new.in_state(self.place):
            words = ""  # the class of the state is not the user's, so no field can be changed
        elif "." in self.path.removeprefix(self.root) and (self.parameter or not self.is_in_static):
            words = self.not_static or ", in a field that is not static"
            # If the arrays in the argument are trained, a new array in it is trained, too.
            arrays = (path for path, leaf in self.new.leaves.items() if leaf.is_array)
            has_arrays = any(is_inside(path, {self.root}) for path in arrays)
            if has_arrays and not self.before.is_integer:
                words += " (read it through jax.lax.stop_gradient, or it is trained)"
        elif self.before.number and self.path == self.root:
            words = self.not_static
        if self.before.number:
            return f"jnp.asarray({self.path}){words}"
        return f"what changes in it as an array{words}"

    @property
    def for_dynamic(self) -> str:
        """Return advice on how to pass the optimizer as data, and on the class that holds it."""
        words, leaves = self.not_static, self.new.leaves
        words += ", in an argument that is not donated" * self.new.donates
        optimizer = self.path.removesuffix(self.parameter)
        if optimizer + UNNAMED_STATIC in leaves:
            return words  # the optimizer is data already
        if self.parameter and leaves.get(optimizer, _MISSING).is_of_optax:
            words += ", in an optimizer built entirely from canonopt in place of optax"
        holder = leaves.get(optimizer.rpartition(".")[0], _MISSING)
        if self.is_of_flax:
            words += ", in a subclass of nnx.Optimizer that says `tx: object = nnx.data()`"
        elif holder.type.endswith("TrainState"):
            words += ", in a subclass of TrainState that says `tx: object = "
            words += "struct.field(pytree_node=True)`"
        elif holder.kind == "node":
            words += ", and remove static=True (pytree_node=False) from the field that holds it"
        return words

    # --- arguments --------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self.new.root(self.path)

    @property
    def is_in_static(self) -> bool:
        """Return True if the whole argument is a static value."""
        return self.new.leaves.get(self.root, _MISSING).is_static

    @property
    def is_of_stateful_model(self) -> bool:
        """Return True for static data of an `equinox.nn.State`, or of an index into one."""
        leaves = map(self.new.leaves.get, (self.path, self.path.rpartition(".")[0]))
        types = [leaf.type for leaf in leaves if leaf is not None]
        return self.is_static and any(t.startswith("equinox.nn._stateful.State") for t in types)

    @property
    def is_of_flax(self) -> bool:
        return self.root in self.new.modules_of_flax

    @property
    def state(self) -> str:
        """Return the outermost optimizer state on the path, as the caller names it."""
        state = min(s for s in self.new.states if is_inside(self.path, {s}))
        root = self.new.root(state)
        return self.new.caller.arguments.get(root, root) + state.removeprefix(root)

    @property
    def is_of_numbers(self) -> bool:
        """Return True if a number differs from an array, or from a number of another type."""
        leaves = self.before, self.after
        is_one = any(
            leaf.kind == "number" or leaf.number or leaf.text in ("True", "False")
            for leaf in leaves
        )
        return is_one and self.kind in ("scalar", "weak type", "dtype")

    @property
    def one_dtype(self) -> str:
        """Return the dtype, such as `jnp.float32`, or "dtype" if it differs between the calls."""
        before, after = as_traced(self.before, self.after), as_traced(self.after, self.before)
        is_one = before.dtype == after.dtype != ""
        return f"jnp.{after.dtype}" if is_one else "dtype"

    @property
    def of_updates(self) -> str:
        """Return advice on a float leaf inside an argument, whose dtype an update may widen."""
        is_float = all("float" in leaf.dtype for leaf in (self.before, self.after))
        words = ", also in what the function returns, as canonopt.apply_updates does for a model"
        return words if is_float and self.path != self.root else ""

    @property
    def and_lowered(self) -> str:
        """Return advice for `.lower(...)`, if a call was compiled ahead of time."""
        return ", and for .lower(...)" if self.old.is_lowered or self.new.is_lowered else ""

    @property
    def placed(self) -> str:
        """Return advice to place the leaf once, if only the later call has it committed."""
        is_settled = self.after.committed and not self.before.committed
        return ", put in one place by jax.device_put" if is_settled else ""


def array_kind(before: Leaf, after: Leaf) -> str:
    """Return the most important kind of difference between two arrays, or "" if there is none."""
    if before.is_key != after.is_key:
        return "dtype"  # the shape differs as well: an old-style key has one more dimension
    ignored: tuple[str, ...] = ()
    if None in (before.committed, after.committed):  # the placement of a tracer is unknown
        ignored = ("memory kind", "commitment", "sharding")
    elif before.devices > 1 or after.devices > 1:
        # A change from one device to a mesh is a change of sharding, committed or not.
        ignored = ("commitment",)
    for kind, field in _OF_ARRAYS.items():
        if kind not in ignored and getattr(before, field) != getattr(after, field):
            return kind
    return ""


# --- comparing calls ------------------------------------------------------------------------------


def differences(old: Call, new: Call) -> Iterator[Difference]:
    """Yield the differences that JAX sees; if there are none, another likely cause of a compile."""
    # A node comes before its children, which are left out if the node differs or is missing.
    gone: set[str] = set()
    is_of_two_jits = old.jit != new.jit
    # Equinox gives `jax.jit` options of its own, so they differ from those of another jit.
    has_other_options = is_of_two_jits and (old.is_filtered or new.is_filtered)
    functions = [call.leaves[FUNCTION].token for call in (old, new) if FUNCTION in call.leaves]
    for path in old.leaves | new.leaves:
        before, after = old.leaves.get(path), new.leaves.get(path)
        # In two calls of one function object, JAX does not compare what methods read.
        if path.endswith(CLASS) and (None in (before, after) or len({*functions}) == 1):
            continue
        if path == TRANSFORMS or (gone and is_inside(path, gone)):
            continue
        if has_other_options and path.startswith(OPTION):
            continue
        if before is None or after is None:
            # If only one call has an argument, the argument's own path shows that. Only calls of
            # `canonopt.jit` have records of some of the settings.
            is_more = path == JIT or (is_of_two_jits and path.startswith(CONTEXT))
            if path.startswith((GIVEN, OPTION)) or is_more:
                continue
        elif before is after or _is_same(before, after, old.is_shared and new.is_shared):
            continue
        gone.add(path)
        yield Difference(path, before, after, old, new)
    if gone:
        return
    # JAX compiles again, but does not trace again, if the transformations around a call change.
    before, after = old.leaves[TRANSFORMS], new.leaves[TRANSFORMS]
    if before.token != after.token:
        yield Difference(TRANSFORMS, before, after, old, new)
    elif old.clearings != new.clearings:
        yield Difference(CACHE, text_leaf("filled"), text_leaf("cleared"), old, new)
    elif old.wrapper != new.wrapper:  # `jax.pmap` was applied again
        yield Difference(FUNCTION, old.leaves[FUNCTION], new.leaves[FUNCTION], old, new)


def differ(old: Call, new: Call) -> bool:
    return any(differences(old, new))


def _is_same(before: Leaf, after: Leaf, is_shared: bool) -> bool:
    digests = before.digest, after.digest
    if is_shared and before.is_static and after.is_static and None not in digests:
        return before.digest == after.digest
    if before.kind == after.kind and before.token == after.token:
        return True
    # The tokens (see `Leaf`) may differ just because a tracer has no placement.
    old, new = as_traced(before, after), as_traced(after, before)
    return old.is_array and new.is_array and not array_kind(old, new)


_MAX_COUNTED = 64  # maximum number of differences to count in each comparison of two calls


def nearest(
    new: Call, earlier: Sequence[Call], wanted: Callable[[Difference], int]
) -> list[Difference]:
    """Return how `new` differs from the nearest call in `earlier`, most important kinds first.

    `earlier` has at least one call. `wanted` returns how many programs with a given difference the
    user likely wants.
    """
    # There may be 16 earlier calls, so each comparison stops at `_MAX_COUNTED`.
    found = [[*itertools.islice(differences(old, new), _MAX_COUNTED)] for old in earlier]
    # Prefer a call with the same optimizer, since a loop keeps its optimizer. Next, prefer a call
    # without differences that the user likely wants. Of equally near calls, take the last, because
    # a loop ran it just before.
    optimizers = [sum(d.kind == "transformation" for d in each) for each in found]
    is_wanted = [any(wanted(d) > 1 for d in each) for each in found]
    distances = [(len(each), sum(map(_distance, each))) for each in found]
    best = min(range(len(found)), key=lambda i: (optimizers[i], is_wanted[i], distances[i], -i))
    return sorted(differences(earlier[best], new), key=lambda each: KINDS.index(each.kind))


def _distance(d: Difference) -> int:
    if d.place.startswith(GIVEN):
        return 0  # by position or by keyword: the program is the same
    if d.is_static:  # an equal value that was made again counts as the same
        return 1 + len(d.parts) if d.is_other_to_canonopt else 0
    return len(KINDS) - KINDS.index(d.kind)
