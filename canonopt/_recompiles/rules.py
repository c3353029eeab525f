"""What to do about a difference between two calls: the first rule of a table that applies.

A line to paste is printed only where it has been shown to work, and words otherwise.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs
import jax.numpy as jnp

from .._jax_internals import key_context
from .._python_internals import MODULES
from .causes import HANDFUL, PAIR, Advice, Change, cause_lines, no_difference
from .differences import Difference, Part, nearest, static_words, words
from .records import GIVEN, TRANSFORMS, WRAPPED_FUNCTION, Call, Leaf, is_inside


class Rule(NamedTuple):
    """What to do if `applies`. In texts, `c` is the `Case`, and `{jnp}` is as the caller has it."""

    applies: "Callable[[Case], object]"
    # Words, which stand beside a line too.
    hint: str = ""
    # Code for the place of the leaf, which is `{leaf}`. Or "A in place of B".
    line: str = ""
    # Where the line is to assign, and words for where there is no line.
    at: str = "path"
    otherwise: str = ""


BUILD = "build {c.path} with {c.factories} from canonopt in place of optax"
DYNAMIC = "and numbers as canonopt.dynamic(number), which may change without a new trace"
INIT = (
    "make {c.state} by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, "
    "before the first call"
)

# In the order in which they are tried.
RULES = (
    # What is made again, or cannot be shared.
    Rule(
        lambda c: re.match(r"equinox\.nn\..*\.State(Index)?$", c.owner),
        "make the model and its state by equinox.nn.make_with_state, once",
    ),
    Rule(
        lambda c: c.redefined,
        "define class {c.redefined} once: a loop or a notebook cell that runs again makes another "
        "class",
    ),
    Rule(
        lambda c: c.is_function and c.is_counting,
        "to count traces, write canonopt.compile_log in place of {c.stores}: a function that "
        "stores to a variable while it is traced is not shared",
    ),
    Rule(lambda c: c.why_not_shared, "{c.path} is new each time: {c.why_not_shared}"),
    # Optimizers.
    Rule(
        lambda c: c.parameter and c.is_of_numbers,
        "a dynamic number may change without a new trace",
        "{c.dynamic_spec}",
        "spec",
        "give {c.path} one value, or canonopt.dynamic(number){c.not_static}: a dynamic number may "
        "change without a new trace",
    ),
    Rule(
        lambda c: c.captured and c.is_of_numbers,
        "pass {c.captured} to the function as an argument, built with {c.factories} from canonopt "
        f"in place of optax, {DYNAMIC}",
    ),
    Rule(
        lambda c: c.kind == "transformation" and c.is_of_numbers,
        f"{BUILD}, {DYNAMIC}{{c.as_data}}{{c.not_static}}",
    ),
    Rule(
        lambda c: c.kind == "transformation" and c.found.visible,
        "build {c.path} once: another configuration is another program",
    ),
    Rule(
        lambda c: c.kind == "transformation",
        f"{BUILD}: the same configuration is the same object",
        "{c.canonical}",
        "root",
    ),
    # Functions that are jitted, and those among the arguments.
    Rule(
        lambda c: c.is_function and c.found.way[-1].name == "captured variable 'argnums'",
        "make each gradient function once: other argnums are another program",
    ),
    Rule(
        lambda c: c.is_function and c.is_jitted_by_library,
        "define and jit the function once",
    ),
    Rule(
        lambda c: c.is_function and not c.can_share_program,
        "jit one function, and pass what differs as an argument",
    ),
    Rule(
        lambda c: c.is_function and "property" in (c.after.made or ""),
        "a property makes the function at each access: make it once, as functools.cached_property "
        "does",
    ),
    Rule(
        lambda c: c.is_function and c.new.is_filtered,
        "functions that do the same run one program",
        "filter_jit in place of eqx",
    ),
    Rule(
        lambda c: c.is_function,
        "functions that do the same run one program",
        "jit in place of jax",
    ),
    Rule(
        lambda c: c.kind == "callable",
        line="{c.canonical}",
        at="root",
        otherwise="build {c.path} once, or pass what differs in it as an array argument",
    ),
    # Static values.
    Rule(
        lambda c: c.is_of_keys,
        "give {c.path} its keys in one order, or make it a dict, which JAX sorts",
    ),
    Rule(
        lambda c: c.is_static and c.before.text == c.after.text == "nan",
        "pass one NaN object as {c.path}: NaN is equal only to itself",
        "{math}.nan",
    ),
    Rule(
        lambda c: c.is_static and c.before.text == c.after.text and c.before.is_unique,
        "keep one instance for {c.path}, or give its class __eq__ and __hash__",
    ),
    Rule(
        lambda c: c.is_mode,
        "call {c.module}{c.mode}() before the first step, or keep one program for training and one "
        "for evaluation",
    ),
    Rule(lambda c: c.is_static, "give {c.path} one value: {c.or_as_array}"),
    # Numbers and arrays.
    Rule(
        lambda c: c.kind == "weak type" and c.is_of_flax and not c.has_number,
        "give {c.path} a dtype where it is made: a number has none",
    ),
    Rule(
        lambda c: c.becomes_array,
        line="{c.number_as_array}",
        otherwise="pass {c.path} as an array of one dtype: jnp.asarray({c.path}, dtype)",
    ),
    Rule(lambda c: c.kind == "weak type", line="{canonopt}.canonicalize({leaf})", at="root"),
    Rule(
        lambda c: c.kind == "dtype" and (c.before.is_key or c.after.is_key),
        "make {c.path} in one style in every call: jax.random.key(seed)",
    ),
    Rule(
        lambda c: c.kind == "dtype" and c.wide,
        "{c.wide} is {c.after.dtype}, which widens {c.path}",
        "{leaf}.astype({c.before.dtype!r})",
        "wide",
    ),
    Rule(
        lambda c: c.kind == "dtype" and c.is_widened_by_step and c.uses_apply_updates,
        "the updates are wider than the model, and ours keeps the dtypes of the model",
        "apply_updates in place of eqx",
    ),
    Rule(
        lambda c: c.kind == "dtype" and c.is_widened_by_step,
        "what the function returned for {c.path} is {c.after.dtype}: cast it to {c.before.dtype} "
        "there, or what it is computed from",
    ),
    Rule(
        lambda c: c.kind == "dtype",
        line="{c.common_dtype}",
        otherwise="give {c.path} one dtype in every call",
    ),
    Rule(
        lambda c: c.kind in ("sharding", "commitment", "memory kind"),
        "{c.of_orbax}",
        "{c.placed}",
        "whole",
        "put {c.path} in one place before the first call: jax.device_put({c.path}, sharding)",
    ),
    Rule(
        lambda c: c.kind == "layout",
        "give {c.path} one layout: jax.device_put({c.path}, format)",
    ),
    Rule(
        lambda c: c.kind == "shape",
        "pad or drop what is left over, so that {c.root} has one shape",
    ),
    # Structure.
    Rule(
        lambda c: c.found.path.startswith(GIVEN),
        "pass {c.path} the same way in every call",
    ),
    Rule(
        lambda c: c.is_other_optimizer,
        "one program for each optimizer: {c.state} is the state of another one",
    ),
    Rule(lambda c: c.kind in ("structure", "none") and c.may_misfit_model, INIT),
    # The key has no defaults, so an argument that is left out is not the same as its default.
    Rule(
        lambda c: c.kind == "structure" and c.is_missing and c.path == c.root,
        "pass {c.path} in every call or in none",
    ),
    Rule(
        lambda c: c.kind in ("structure", "none"),
        "give {c.root} one structure from the first call on{c.of_none}",
    ),
    # What is around a call.
    Rule(lambda c: c.kind == "options", "jit the function once, with one set of options"),
    Rule(
        lambda c: c.found.path == TRANSFORMS,
        "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted "
        "function is a program of its own",
    ),
    Rule(
        lambda c: c.is_missing,
        "import everything before the first call: a module that was imported since then, such as "
        "equinox, added this setting to those that JAX compares",
    ),
    Rule(
        lambda c: "jax_" in c.path,
        "jax.config.update({c.path!r}, ...) once, before the first call",
    ),
    Rule(
        lambda c: "mesh" in c.path,
        "jax.set_mesh(mesh) once, before the first call{c.around_each}",
    ),
    Rule(lambda c: True, "the same {c.path} in every call"),
)


# --- what the rules ask ---------------------------------------------------------------------------


class Case:
    """The facts about a difference that rules ask for. A text for a line is "" if none is sure."""

    def __init__(self, found: Difference) -> None:
        self.found = found
        self.old, self.new = found.old, found.new
        self.kind, self.path = found.kind, found.name
        # Where something is missing, nothing is known of it.
        self.before, self.after = found.before or _MISSING, found.after or _MISSING
        self.is_missing = None in (found.before, found.after)
        self.is_static = self.before.is_static and self.after.is_static
        # Of a spec: the steps to its parameter, such as `.learning_rate`. Of a function: the name
        # of what Optax has made and it captures.
        self.spec, self.parameter, self.captured = "", "", ""
        self.texts = words(found)
        if self.is_static:
            self._look_inside()

    def _look_inside(self) -> None:
        found, part = self.found, self.found.function
        if self.is_of_keys:
            self.kind, self.texts = "structure", (f"keys {self.before.text}", self.after.text)
            self.texts = (self.texts[0], f"keys {self.texts[1]}")
        elif self.kind == "transformation" and (steps := _steps_to_parameter(found.way)):
            self.spec, self.parameter = self.path, "".join(steps)
            self.path += self.parameter
            last = found.way[len(steps)]
            self.before, self.after = last.before, last.after
            inner = Difference(self.path, self.before, self.after, self.old, self.new)
            self.kind, self.texts = inner.kind, words(inner)
        elif self.kind == "function" and (held := _made_by_optax(part)):
            # A function that was made again may capture a transformation that was built again.
            function = part.after.parts.get(WRAPPED_FUNCTION, part.after).text
            self.captured = [*held.name.split("'"), held.name][1]  # of "captured variable 'tx'"
            self.path = (
                f"{self.captured} in {function.rpartition('.')[2].removeprefix('function ')}"
            )
            self.texts = static_words(held.before, held.after, held.way_to_difference())

    @property
    def root(self) -> str:
        """Return the argument that the path begins with."""
        return self.new.root(self.path)

    @property
    def owner(self) -> str:
        """Return the type of the node that holds the leaf, or of the leaf."""
        owner = self.new.leaves.get(self.path.rpartition(".")[0] or self.path)
        return owner.type if owner is not None and self.is_static else ""

    # Static values, functions and optimizers.

    @property
    def is_function(self) -> bool:
        return self.kind == "function" and self.is_static

    @property
    def redefined(self) -> str:
        is_node = self.after.kind == "node" and self.after.is_class_defined_again(self.before)
        again = self.after if is_node else self.found.redefined if self.is_static else None
        return again.type.rpartition(".")[2] if again else ""

    @property
    def stores(self) -> str:
        return ", ".join(sorted(self.found.function.before.stores))

    @property
    def is_counting(self) -> bool:
        """Return True if nothing but the variables that a function stores to looks different."""
        visible, stores = self.found.visible, self.found.function.before.stores
        is_of_store = visible is None or visible.name.endswith(tuple(map(repr, stores)))
        return bool(stores) and is_of_store

    @property
    def why_not_shared(self) -> str:
        # If something visible differs, these are two configurations, and nothing would merge them.
        if not self.is_static or self.before.kind == "value" or self.parameter:
            return ""
        return "" if self.found.visible else self.found.function.before.why_not_shared or ""

    @property
    def is_of_numbers(self) -> bool:
        part = self.found.visible
        return part is not None and part.before.is_of_number and part.after.is_of_number

    @property
    def factories(self) -> str:
        """Return the names of the factories that built a transformation."""
        part = _made_by_optax(self.found.function) if self.captured else self.found.function
        leaf = self.before if part is None else part.before
        names = re.findall(r"[a-z]\w*", leaf.text.removeprefix("optax."))
        if not leaf.text.startswith("optax."):
            return leaf.factory or "adam and so on"
        schedule = " and its schedule" if _has_schedule(leaf) else ""
        return ", ".join(dict.fromkeys(names)) + schedule

    @property
    def dynamic_spec(self) -> str:
        if not self.new.is_filtered:  # as a static argument, a spec may have no leaves
            return ""
        name = self.parameter.removeprefix(".")
        given, closing = (f"{name}=", "") if name.isidentifier() else (f"**{{{name!r}: ", "}")
        return f"{{leaf}}.replace({given}{{canonopt}}.dynamic({{leaf}}{self.parameter}){closing})"

    @property
    def not_static(self) -> str:
        """Return what else to do if an array is to be in the place of a static argument."""
        static = self.new.leaves.get(self.root)
        if self.new.is_filtered or static is None or not static.is_static:
            return ""
        return f", with {self.root} left out of static_argnums and static_argnames"

    @property
    def as_data(self) -> str:
        """Return what makes data of the optimizer that a class of Flax holds."""
        if self.is_of_flax:
            return ", in a subclass of nnx.Optimizer that says `tx: object = nnx.data()`"
        if self.owner.endswith("TrainState"):
            return ", in a subclass of TrainState that says `tx: object = struct.field()`"
        return ""

    @property
    def canonical(self) -> str:
        """Return code for what is the same to canonopt, if `canonicalize` reaches it."""
        is_value = self.before.kind == "value"  # neither a function nor a pytree
        if not self.found.is_same_to_canonopt or is_value or self.is_of_flax:
            return ""
        if _has_numbers(self.root, self.new):
            return ""
        is_hoisted = self.kind == "callable" and self.path == self.root
        return f"{{canonopt}}.{'hoist' if is_hoisted else 'canonicalize'}({{leaf}})"

    @property
    def is_jitted_by_library(self) -> bool:
        packages = self.new.caller.packages - {"jax", "equinox", "canonopt"}
        # And canonopt does not look into what Equinox has wrapped.
        return bool(packages) or self.new.is_jitted_by_jax or self.new.is_of_wrapper

    @property
    def can_share_program(self) -> bool:
        is_ours = self.old.is_jitted_by_canonopt or self.new.is_jitted_by_canonopt
        # The program of the first one has the values of the first one.
        return self.found.is_same_to_canonopt and not is_ours

    @property
    def is_of_keys(self) -> bool:
        node = self.new.leaves.get(self.path)
        return self.is_static and node is not None and node.type == "collections.OrderedDict"

    @property
    def is_of_flax(self) -> bool:
        return self.root in self.new.modules_of_flax

    @property
    def is_mode(self) -> bool:
        is_flag = {self.before.text, self.after.text} == {"True", "False"}
        return is_flag and self.path.endswith((".use_running_average", ".deterministic"))

    @property
    def mode(self) -> str:
        return "eval" if self.after.text == "True" else "train"

    @property
    def module(self) -> str:
        """Return the module as the caller names it. A graph that was split off has no methods."""
        is_graph = self.new.leaves[self.root].type.endswith(".GraphDef")
        return "" if is_graph else f"{self.new.caller.arguments.get(self.root, self.root)}."

    @property
    def or_as_array(self) -> str:
        if self.parameter or re.match(r"True|False|None|['\"]", self.before.text):
            return "each is a program of its own"
        if self.before.is_of_number or self.after.is_of_number:
            return (
                "it is part of the program. Or pass it as an array"
                f"{self.not_static}, unless a shape, a range or an if needs the number"
            )
        return "each is a program of its own. Or pass what changes in it as an array argument"

    # Numbers and arrays.

    @property
    def has_number(self) -> bool:
        return "number" in (self.before.kind, self.after.kind)

    @property
    def becomes_array(self) -> bool:
        if self.has_number:
            return self.kind in ("scalar", "weak type", "dtype")
        if self.kind != "weak type":
            return False
        is_mixed = any(_has_numbers(self.root, call) for call in (self.old, self.new))
        return is_mixed or self._settled_at is not None

    @property
    def number_as_array(self) -> str:
        """Return code for an array of the dtype that a number has anyway, without a weak type."""
        pair = self.before, self.after
        arrays = [leaf for leaf in pair if leaf.is_array]
        # The strong one, if there is one. A weak type follows the other arrays.
        strong = [a for a in arrays if not a.weak_type] or arrays
        dtype = strong[0].dtype if strong else None
        types = {leaf.type for leaf in pair if leaf.kind == "number"}
        if dtype is None and types == {"int", "float"}:
            dtype = str(jnp.result_type(float))
        if dtype is None or "bool" in types:
            return ""
        array = Leaf("array", "", None, dtype=dtype)
        others = (leaf for path, leaf in self.new.arrays.items() if path != self.path)
        others = (a for a in others if not a.is_key and a.is_inexact == array.is_inexact)
        # An array decides the dtype of a result where a Python number does not.
        if any(_wider(other.dtype, dtype) != other.dtype for other in others):
            return ""
        code = f"{{jnp}}.asarray({{leaf}}, {{jnp}}.{dtype})"
        place = self._settled_at
        return code if place is None else f"{{jax}}.device_put({code}, {place})"

    @property
    def _settled_at(self) -> str | None:
        """Return where a step has put a leaf that was on no device, or anywhere, at first."""
        before, after = self.found.as_traced
        if before is None or after is None or not (before.is_array and after.is_array):
            return None
        return None if before.committed or not after.committed else self._place(self.new, after)

    @staticmethod
    def _place(call: Call, leaf: Leaf) -> str | None:
        return call.places.get(leaf.sharding or "")

    @property
    def in_state(self) -> bool:
        return self.new.in_state(self.found.path)

    @property
    def wide(self) -> str:
        """Return the one argument in float64, such as a NumPy array, that widens the leaf."""
        if (self.before.dtype, self.after.dtype) != ("float32", "float64"):
            return ""
        root, old = self.old.root(self.found.path), self.old
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
    def uses_apply_updates(self) -> bool:
        return "apply_updates" in self.new.caller.names | self.new.names

    @property
    def common_dtype(self) -> str:
        """Return code for the dtype to use in every call."""
        before, after = self.before, self.after
        # A step settles on what it returns. Elsewhere no number is lost in the wider of two dtypes.
        dtype = after.dtype if self.in_state else _wider(before.dtype, after.dtype)
        kinds = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in (before, after)]
        if kinds[0] != kinds[1] or dtype not in (before.dtype, after.dtype):
            return ""
        return f"{{leaf}}.astype({dtype!r})"

    @property
    def whole(self) -> str:
        """Return the path of all that is to be put where the leaf is."""
        call, there = self._settled
        arrays = [a for path, a in call.arrays.items() if call.root(path) == self.root]
        same = {(a.sharding, a.memory_kind) for a in arrays} == {
            (there.sharding, there.memory_kind)
        }
        return self.root if same else self.path

    @property
    def placed(self) -> str:
        call, there = self._settled
        if (place := self._place(call, there)) is None:
            return ""
        # What is no array cannot be put anywhere.
        inside = (a for path, a in call.leaves.items() if call.root(path) == self.root)
        has_static = call.is_filtered and any(leaf.is_static for leaf in inside)
        put = "{eqx}.filter_shard" if has_static and self.whole == self.root else "{jax}.device_put"
        return f"{put}({{leaf}}, {place})"

    @property
    def _settled(self) -> tuple[Call, Leaf]:
        # A step settles on where its outputs are. An array that is not committed goes anywhere.
        return (self.new, self.after) if self.after.committed else (self.old, self.before)

    @property
    def of_orbax(self) -> str:
        """Return words for a caller that knows orbax, if nothing was committed before."""
        was = (a for path, a in self.old.arrays.items() if self.old.root(path) == self.root)
        is_known = "orbax" in self.new.caller.known_packages and self.root in self.names
        if not (is_known and self.after.committed) or any(array.committed for array in was):
            return ""
        return (
            "if it was restored: orbax commits arrays, and canonopt.restore_like(like, load) "
            "leaves them as they are in like"
        )

    @property
    def names(self) -> Any:
        return self.new.caller.arguments

    # Structure, and what is around a call.

    @property
    def is_other_optimizer(self) -> bool:
        """Return True for states of two optimizers, whose nodes differ."""
        nodes = [leaf for leaf in (self.before, self.after) if leaf.kind == "node"]
        is_of_state = all(leaf.type.startswith(("optax.", "canonopt.", "tuple")) for leaf in nodes)
        return self.in_state and self.kind == "structure" and bool(nodes) and is_of_state

    @property
    def may_misfit_model(self) -> bool:
        return self.in_state and not (fits_model(self.old) and fits_model(self.new))

    @property
    def state(self) -> str:
        """Return the outermost state on the way, as the caller names it."""
        state = min(s for s in self.new.states if self.path == s or is_inside(self.path, {s}))
        root = self.new.root(state)
        return self.names.get(root, root) + state.removeprefix(root)

    @property
    def of_none(self) -> str:
        return ": None and a leaf differ" if self.kind == "none" else ""

    @property
    def is_with_and_without_mesh(self) -> bool:
        return self.kind == "context" and "none" in (self.before.text, self.after.text)

    @property
    def around_each(self) -> str:
        if not self.is_with_and_without_mesh:
            return ""
        return ", or `with jax.set_mesh(mesh):` around each call, also where it is compiled by hand"

    # How many programs that differ in this are likely wanted.

    @property
    def wanted(self) -> int:
        before, after = self.before, self.after
        if self.redefined or self.found.path.startswith(GIVEN) or self.is_of_keys:
            return 1
        if self.is_static:
            part = self.found.visible or self.found.way[0]
            if part.before.text == part.after.text:
                return 1  # the same, made again
            if not (part.before.is_of_number and part.after.is_of_number):
                return HANDFUL
            return 1 if self.found.kind == "transformation" else PAIR
        if self.kind in ("options", "context"):
            is_seldom = self.is_missing or self.is_with_and_without_mesh
            return 1 if is_seldom else HANDFUL
        # In a state only the shapes may differ: it is what the step returned.
        if self.in_state and self.kind != "shape" and not self.is_other_optimizer:
            return 1
        if self.kind == "sharding":
            # From one device to a mesh is an array that was not put there, and no second mesh.
            meshes = [str(leaf.sharding).partition(" of ")[2] for leaf in (before, after)]
            is_same = meshes[0] == meshes[1] and (meshes[0] or before.sharding == after.sharding)
            is_put = before.sharding is None or after.sharding is None
            return 1 if is_same or is_put or ("" in meshes and meshes != ["", ""]) else HANDFUL
        is_choice = self.kind in ("shape", "none") or self.is_missing or self.is_other_optimizer
        return HANDFUL if is_choice else 1


_MISSING = Leaf("missing", "missing", None)


def _steps_to_parameter(way: list[Part]) -> list[str]:
    """Return the steps to a parameter that differs, from a spec through those inside of it."""
    if not way[-1].looks_different or not way[0].before.text.startswith("canonopt."):
        return []
    steps = []
    for part in way[1:]:
        kind, _, label = part.name.partition(" ")
        if kind not in ("field", "item"):
            break
        steps.append(f".{label[1:-1]}" if kind == "field" else f"[{label}]")
    return steps


def _made_by_optax(function: Part) -> Part | None:
    """Return what Optax has made and a function captures, if it was made again."""
    for name, after in function.after.parts.items():
        before = function.before.parts.get(name)
        if before is None or not (before.factory and after.factory):
            continue
        if before.token != after.token or before.is_unique or before.digest != after.digest:
            return Part(name, before, after)
    return None


def _has_schedule(leaf: Leaf) -> bool:
    """Return True if a schedule of Optax is among the parts of a transformation."""
    parts = leaf.parts.values()
    return any(".<locals>.schedule" in part.text or _has_schedule(part) for part in parts)


def _has_numbers(root: str, call: Call) -> bool:
    """Return True if an argument has Python numbers.

    Then `canonicalize` of a later state, where these are arrays, would give them another type.
    """
    numbers = (path for path, leaf in call.leaves.items() if leaf.kind == "number")
    return any(path != root and is_inside(path, {root}) for path in numbers)


def _wider(one: str, other: str) -> str | None:
    """Return the dtype that two dtypes promote to."""
    with contextlib.suppress(ValueError):  # NumPy has dtypes that JAX lacks
        return str(jnp.promote_types(one, other))
    return None


def fits_model(call: Call) -> bool | None:
    """Return True if the states have leaves where the model gets a gradient, and there only.

    None if there is no model. A state repeats the structure of the model: below a node of the
    model's type, for example at `opt_state[0].mu`, the same steps lead to leaves.
    """
    in_states = {path: leaf for path, leaf in call.leaves.items() if is_inside(path, call.states)}
    holders = {path[: step.start()] for path in call.states for step in _STEPS.finditer(path)}
    fits = None
    for model, node in call.leaves.items():
        *_, last = (0, *(step.start() for step in _STEPS.finditer(model)))
        # A train state holds the model in a field. A node further inside is no model, though its
        # type may be that of a node in the state: all dicts have one type.
        is_outermost = last == 0 or model[:last] in holders
        if node.kind != "node" or not is_outermost or model in holders | call.states:
            continue
        leaves = {p.removeprefix(model): x for p, x in call.leaves.items() if is_inside(p, {model})}
        copies = {path for path, leaf in in_states.items() if leaf.token == node.token}
        # Not the nodes inside of these, which may have the same type: all dicts do.
        for copy in (path for path in copies if not is_inside(path, copies)):
            fits = True
            if any(_misfits(in_states.get(copy + steps), leaf) for steps, leaf in leaves.items()):
                return False
    return fits


def _misfits(in_state: Leaf | None, in_model: Leaf) -> bool:
    gets_gradient = in_model.is_array and in_model.is_inexact
    # Under `equinox.filter_jit` a leaf of the model that is no array is static.
    if in_state is not None and in_state.is_array:
        is_leaf = in_model.is_array or in_model.is_static or in_model.kind == "none"
        return not gets_gradient and is_leaf
    return in_state is not None and in_state.kind == "none" and gets_gradient


_STEPS = re.compile(r"[.\[]")  # where the steps of a path begin


# --- advice ---------------------------------------------------------------------------------------


def change_of(found: Difference) -> Change:
    """Return a difference in words, with what to do about it."""
    case = Case(found)
    rule = next(rule for rule in RULES if rule.applies(case))
    advice = _advice(rule, case)
    return Change(case.path, case.kind, *case.texts, advice.fix, advice.hint, case.wanted)


def _advice(rule: Rule, case: Case) -> Advice:
    hint, line = _filled(rule.hint, case), _filled(rule.line, case)
    if " in place of " in line:
        name, _, module = line.partition(" in place of ")
        ours, theirs = (case.new.caller.name_of(short, name) for short in ("canonopt", module))
        imports = "" if "canonopt" in case.new.caller.modules else ", after import canonopt"
        return Advice(f"{ours} in place of {theirs}", f"{hint}{imports}")
    if not line:
        return Advice(hint=_filled(rule.otherwise, case) or hint)
    advice = _assigning(getattr(case, rule.at), line, case)
    if advice.fix:
        return Advice(advice.fix, hint)
    return Advice(hint=hint or advice.hint)


def _filled(text: str, case: Case) -> str:
    names = {name: f"{{{name}}}" for name in ("leaf", "math", *MODULES)}
    return text.format(c=case, **names)


def _assigning(path: str, code: str, case: Case) -> Advice:
    """Return a line that puts `code` in the place of the leaf at `path`, which it has as `{leaf}`.

    It gives the same when it runs again, so that it may stand in a loop.
    """
    caller, root = case.new.caller, case.new.root(path)
    name, rest = caller.arguments.get(root, root), path.removeprefix(root)
    container = case.new.leaves.get(path[: max(path.rfind("."), path.rfind("["))])
    if not rest or (container is not None and container.type in ("dict", "list")):
        line = f"{name}{rest} = {code}"
    # A step that cannot be written in Python, or to a variable of Flax.
    elif "<" in rest or root in case.new.modules_of_flax:
        usual = {name: name for name in MODULES}
        return Advice(hint=f"replace {path} by {code.format(leaf=path, **usual)} in every call")
    else:
        line = f"{name} = {{eqx}}.tree_at(lambda tree: tree{rest}, {name}, {code})"
    line = caller.with_modules(line.replace("{leaf}", f"{name}{rest}"))
    if "{math}" in line:
        line = f"import math; {line.replace('{math}', 'math')}"
    if root in caller.arguments:
        return Advice(line)
    # The source of the call does not name what it passes.
    return Advice(hint=f"before the call, for what it passes as {root}: {line}")


def failure_hints(call: Call | None) -> tuple[str, ...]:
    """Return what to do about a trace that failed, if a state in the call misfits its model."""
    is_misfit = call is not None and fits_model(call) is False
    return (INIT.replace("{c.state}", "opt_state"),) if is_misfit else ()


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
        """Return the lines to paste, each once."""
        return tuple(dict.fromkeys(change.fix for change in self.changes if change.fix))

    @property
    def hints(self) -> tuple[str, ...]:
        """Return what to do, in words."""
        return tuple(dict.fromkeys(change.hint for change in self.changes if change.hint))

    @property
    def note(self) -> str | None:
        """Return what to say in place of changes if there are none."""
        if self.changes:
            return None
        return no_difference(self.is_inside_trace, has_names=bool(key_context()))

    def __str__(self) -> str:
        return "\n".join(map(str, cause_lines(self.changes, self.note, self.hints, self.fixes)))


def explain(new: Call, earlier: Sequence[Call]) -> Explanation | None:
    """Return how `new` differs from the nearest of `earlier`, or None if there are none."""
    if not earlier:
        return None
    which, distances, found = nearest(new, earlier)
    # Inside of a trace the function itself has no record.
    inside = new.function is None and bool(new.leaves[TRANSFORMS].token)
    return Explanation(which, tuple(map(change_of, found)), distances, inside)
