"""Advice on a difference between two calls: that of the first rule that applies.

A line to paste is printed only where it has been shown to work, and words otherwise.
"""

import contextlib
import re
from collections.abc import Sequence

import jax.numpy as jnp

from .._jax_internals import key_context
from .._python_internals import MODULES
from .causes import HANDFUL, PAIR, Advice, Change, Explanation, no_difference
from .differences import Difference, Part, nearest, static_words, words
from .records import CONTEXT, GIVEN, INEXACT, TRANSFORMS, WRAPPED_FUNCTION, Call, Leaf, is_inside


def advice(c: "Case") -> Advice:
    """Return what to do about a case. These are all rules, in the order in which they are tried."""
    build = f"build {c.path} with {c.factories} from canonopt in place of optax"
    dynamic = "and numbers as canonopt.dynamic(number), which may change without a new trace"
    # What is made again, or cannot be shared.
    if re.match(r"equinox\.nn\..*\.State(Index)?$", c.owner):
        return say("make the model and its state by equinox.nn.make_with_state, once")
    if c.redefined:
        again = "a loop or a notebook cell that runs again makes another class"
        return say(f"define class {c.redefined} once: {again}")
    if c.is_function and (stores := c.stores_that_differ):
        why = "a function that changes something while it is traced is not shared"
        return say(f"to count traces, write canonopt.compile_log in place of {stores}: {why}")
    if c.why_not_shared:
        return say(f"{c.path} is new each time: {c.why_not_shared}")
    # Optimizers and schedules.
    if c.parameter and c.is_of_numbers:
        why = "a dynamic number may change without a new trace"
        if c.new.is_filtered:  # as a static argument, a spec may have no leaves
            return c.assign(c.spec, f"{{leaf}}.replace({c.dynamic_parameter})", why)
        given = f"one value, or canonopt.dynamic(number){c.in_subclass_of_flax}"
        return say(f"give {c.path} {given}{c.not_static}: {why}")
    if c.captured and c.is_of_numbers:
        built = f"built with {c.factories} from canonopt in place of optax"
        return say(f"pass {c.captured} to the function as an argument, {built}, {dynamic}")
    if c.kind == "transformation" and c.is_of_numbers:
        return say(f"{build}, {dynamic}{c.in_subclass_of_flax}{c.not_static}{c.but_changed}")
    if c.kind == "transformation" and c.found.visible:
        return say(f"build {c.path} once: another configuration is another program")
    if c.kind == "transformation":
        return c.canonical(f"{build}: the same configuration is the same object{c.but_changed}")
    # Functions that are jitted, and those among the arguments.
    if c.is_function and c.found.way[-1].name == "captured variable 'argnums'":
        return say("make each gradient function once: other argnums are another program")
    if c.is_function and "property" in (c.after.made or ""):
        return say(
            "a property makes the function at each access: make it once, as "
            "functools.cached_property does"
        )
    # Canonopt does not look into what Equinox has wrapped, and lowers each function anew.
    libraries = c.new.caller.packages - {"jax", "equinox", "canonopt"}
    is_theirs = libraries or c.new.is_jitted_by_jax or c.new.is_of_wrapper
    if c.is_function and (is_theirs or c.new.is_lowered):
        return say("define and jit the function once")
    is_ours = c.old.is_jitted_by_canonopt or c.new.is_jitted_by_canonopt
    if c.is_function and (is_ours or not c.found.is_same_to_canonopt):
        return say("jit one function, and pass what differs as an argument")
    if c.is_function:
        name = ("filter_jit", "eqx") if c.new.is_filtered else ("jit", "jax")
        return c.swap(*name, "functions that do the same run one program")
    if c.kind == "callable":
        once = f"build {c.path} once"
        if c.found.is_same_to_canonopt and c.before.kind == "callable":
            return c.canonical("", f"{once}, or set it to canonopt.hoist(function)")
        return say(f"{once}, or pass what differs in it as an array argument")
    # Static values.
    if c.is_order_of_keys:
        return say(f"give {c.path} its keys in one order, or make it a dict, which JAX sorts")
    if c.is_static and c.before.text == c.after.text and c.before.is_unique:
        return say(f"keep one instance for {c.path}, or give its class __eq__ and __hash__")
    if c.is_static and c.mode_of_flax:
        two = "one program for training and one for evaluation"
        return say(f"call {c.mode_of_flax}() before the first step, or keep {two}")
    if c.is_static and (c.parameter or re.match(r"True|False|None|['\"]", c.before.text)):
        return say(f"give {c.path} one value: each is a program of its own")
    if c.is_static and (c.before.is_of_number or c.after.is_of_number):
        array = f"Or pass it as an array{c.not_static}"
        unless = "unless a shape, a range or an if needs the number"
        return say(f"give {c.path} one value: it is part of the program. {array}, {unless}")
    if c.is_static:
        array = "Or pass what changes in it as an array argument"
        return say(f"give {c.path} one value: each is a program of its own. {array}")
    # Numbers and arrays.
    is_made_weak = c.is_of_flax or (c.before.weak_type and c.is_elsewhere)
    if c.kind == "weak type" and is_made_weak and not c.has_number:
        return say(f"give {c.path} a dtype where it is made: a number has none")
    if c.becomes_array:
        words = f"pass {c.path} as an array of one dtype: jnp.asarray({c.path}, dtype)"
        return c.assign(c.path, c.number_as_array, otherwise=words)
    if c.kind == "weak type":
        return c.assign(c.root, "{canonopt}.canonicalize({leaf})")
    if c.kind == "dtype" and (c.before.is_key or c.after.is_key):
        return say(f"make {c.path} in one style in every call: jax.random.key(seed)")
    if c.kind == "dtype" and c.is_of_x64:
        return Advice()
    if c.kind == "dtype" and c.wide:
        why = f"{c.wide} is {c.after.dtype}, which widens {c.path}"
        return c.assign(c.wide, f"{{leaf}}.astype({c.before.dtype!r})", why)
    names = c.new.caller.names | c.new.names
    if c.kind == "dtype" and c.is_widened_by_step and "apply_updates" in names:
        why = "the updates are wider than the model, and ours keeps the dtypes of the model"
        return c.swap("apply_updates", "eqx", why)
    if c.kind == "dtype" and c.is_widened_by_step:
        cast = f"cast it to {c.before.dtype} there, or what it is computed from"
        return say(f"what the function returned for {c.path} is {c.after.dtype}: {cast}")
    if c.kind == "dtype":
        words = f"give {c.path} one dtype in every call"
        return c.assign(c.path, c.in_common_dtype, otherwise=words)
    if c.kind in ("sharding", "commitment", "memory kind"):
        # The leaf of the earlier call has to be put where this one is already.
        is_there = bool(c.after.committed) and c.is_elsewhere
        place = c.new.places.get(c.after.sharding or "") if is_there else None
        put = f"jax.device_put({c.path}, {(place or 'sharding').replace('{jax}', 'jax')})"
        words = f"put {c.path} in one place before the first call: {put}"
        if is_there:
            return say(c.of_orbax or words)
        return c.assign(*c.placed, c.of_orbax, words)
    if c.kind == "shape":
        return say(f"pad or drop what is left over, so that {c.root} has one shape")
    # Structure.
    if c.found.path.startswith(GIVEN):
        return say(f"pass {c.path} the same way in every call")
    if c.is_other_optimizer:
        return say(f"one program for each optimizer: {c.state} is the state of another one")
    misfits = c.in_state and not (fits_model(c.old) and fits_model(c.new))
    if c.kind in ("structure", "none") and misfits:
        return say(INIT.replace("opt_state", c.state, 1))
    # The key has no defaults, so an argument that is left out is not the same as its default.
    if c.kind == "structure" and c.is_missing and c.path == c.root:
        return say(f"pass {c.path} in every call or in none")
    if c.kind in ("structure", "none"):
        differ = ": None and a leaf differ" if c.kind == "none" else ""
        return say(f"give {c.root} one structure from the first call on{differ}")
    # What is around a call.
    if c.kind == "cleared":
        return say("no jax.clear_caches() between the calls: it drops every program")
    if c.kind == "options":
        return say("jit the function once, with one set of options")
    if c.found.path == TRANSFORMS:
        each = "each transformation of a jitted function is a program of its own"
        return say(f"jax.jit outermost, as in jax.jit(jax.vmap(step)): {each}")
    if c.is_missing:
        return say(
            "import everything before the first call: a module that was imported since then, such "
            "as equinox, added this setting to those that JAX compares"
        )
    if "jax_" in c.path:
        return say(f"jax.config.update({c.path!r}, ...) once, before the first call")
    if "mesh" in c.path:
        around = ", or `with jax.set_mesh(mesh):` around each call, also where it is lowered"
        around = around if c.is_with_and_without_mesh else ""
        return say(f"jax.set_mesh(mesh) once, before the first call{around}")
    return say(f"the same {c.path} in every call")


def say(text: str) -> Advice:
    return Advice(hint=text)


INIT = (
    "make opt_state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, before "
    "the first call"
)


def wanted(c: "Case") -> int:
    """Return how many programs are likely wanted that differ as in a case."""
    if c.redefined or c.found.path.startswith(GIVEN) or c.is_order_of_keys or c.captured:
        return 1
    if c.is_static:
        part = c.found.visible or c.found.way[0]
        if part.before.text == part.after.text:
            return 1  # the same, made again
        if part.before.text.startswith("canonopt.dynamic("):
            return 1  # it was meant to change
        if part.before.is_of_number and part.after.is_of_number:
            return 1 if c.found.kind == "transformation" else PAIR
        return 1 if c.is_function and (c.stores_that_differ or c.why_not_shared) else HANDFUL
    if c.is_missing and c.path in c.old.at_default | c.new.at_default:
        return 1  # the same program twice
    if c.kind in ("options", "context") or c.is_of_x64:
        return 1 if c.is_missing or c.is_with_and_without_mesh else HANDFUL
    # In a state only the shapes may differ: it is what the step returned.
    if c.in_state and c.kind != "shape":
        return HANDFUL if c.is_other_optimizer else 1
    if c.kind == "sharding":
        # From one device to a mesh is an array that was not put there, and no second mesh.
        where = [str(leaf.sharding) for leaf in (c.before, c.after)]
        meshes = [text.partition(" of ")[2] for text in where]
        is_choice = meshes[0] != meshes[1] and "" not in meshes
        return HANDFUL if is_choice or (meshes == ["", ""] and "None" not in where) else 1
    return HANDFUL if c.kind in ("shape", "none") or c.is_missing else 1


# --- what the rules ask ---------------------------------------------------------------------------

_MISSING = Leaf("missing", "missing", None)
# A float, also a dynamic one that stands where it is static.
_NUMBER = re.compile(r"(canonopt\.dynamic\()?-?\d+(\.\d+|\.?\d*e-?\d+)\)?")


class Case:
    """The facts about a difference that rules ask for."""

    def __init__(self, found: Difference) -> None:
        self.found, self.old, self.new = found, found.old, found.new
        self.kind, self.path, self.texts = found.kind, found.name, words(found)
        self.is_missing = None in (found.before, found.after)
        # Where something is missing, nothing is known of it.
        self.before, self.after = found.before or _MISSING, found.after or _MISSING
        self.is_static = self.before.is_static and self.after.is_static
        self.in_state = self.new.in_state(found.path)
        # Of a spec: its path, and the steps to its parameter, such as `.learning_rate`.
        self.spec, self.parameter = self.path, ""
        # Of a function: the name of what it captures, if Optax has made that.
        self.captured, self.optax = "", found.function if self.is_static else None
        node = self.new.leaves.get(self.path)
        self.is_order_of_keys = (
            self.is_static and node is not None and (node.type == "collections.OrderedDict")
        )
        if self.is_order_of_keys:
            self.kind = "structure"
            self.texts = f"keys {self.texts[0]}", f"keys {self.texts[1]}"
        elif self.is_static and self.kind == "transformation":
            self._look_for_parameter()
        elif self.is_static and self.kind == "function":
            self._look_for_captured()
        self.is_function = self.kind == "function" and self.is_static
        self.root = self.new.root(self.path)
        self.is_of_flax = self.root in self.new.modules_of_flax
        self.has_number = "number" in (self.before.kind, self.after.kind)

    def _look_for_parameter(self) -> None:
        """Finds the parameter that differs, from a spec through those inside of it."""
        way, steps = self.found.way, []
        if not way[-1].looks_different or not self.before.text.startswith("canonopt."):
            return
        for part in way[1:]:
            kind, _, label = part.name.partition(" ")
            if kind not in ("field", "item"):
                break
            steps.append(f".{label[1:-1]}" if kind == "field" else f"[{label}]")
        self.parameter = "".join(steps)
        self.path += self.parameter
        self.before, self.after = way[len(steps)].before, way[len(steps)].after
        inner = Difference(self.path, self.before, self.after, self.old, self.new)
        self.kind, self.texts = inner.kind, words(inner)

    def _look_for_captured(self) -> None:
        """Finds a transformation or a schedule of Optax that was built again with a function."""
        function = self.found.function
        for name, after in function.after.parts.items():
            before = function.before.parts.get(name)
            if before is None or not (before.factory and after.factory):
                continue
            if before.token != after.token or before.is_unique or before.digest != after.digest:
                self.optax = Part(name, before, after)
                self.captured = [*name.split("'"), name][1]  # of "captured variable 'tx'"
                text = function.after.parts.get(WRAPPED_FUNCTION, function.after).text
                owner = text.rpartition(".")[2].removeprefix("function ")
                self.path = f"{self.captured} in {owner}"
                self.texts = static_words(before, after, self.optax.way_to_difference())
                return

    # Static values, functions and optimizers.

    @property
    def owner(self) -> str:
        """Return the type of the node that holds a static value, or of the value."""
        owner = self.new.leaves.get(self.path.rpartition(".")[0] or self.path)
        return owner.type if owner is not None and self.is_static else ""

    @property
    def redefined(self) -> str:
        is_node = self.after.kind == "node" and self.after.is_class_defined_again(self.before)
        again = self.after if is_node else self.found.redefined if self.is_static else None
        return again.type.rpartition(".")[2] if again else ""

    @property
    def stores_that_differ(self) -> str:
        """Return what a function changes while it is traced, if nothing else looks different."""
        visible, function = self.found.visible, self.found.function.before
        if function.stores:
            is_of_store = visible is None or visible.name.endswith((*map(repr, function.stores),))
            return ", ".join(sorted(function.stores)) if is_of_store else ""
        kinds = ("list", "dict", "set", "collections.Counter", "collections.defaultdict")
        changed = (part.name for part in self.found.way if part.before.type in kinds)
        name = next(changed, "") if function.changes_objects and visible else ""
        return [*name.split("'"), name][1]  # of "captured variable 'traces'"

    @property
    def why_not_shared(self) -> str:
        if not self.is_static or self.before.kind == "value" or self.parameter:
            return ""
        # If something visible differs, these are two configurations, and nothing would merge them.
        return "" if self.found.visible else self.found.function.after.why_not_shared or ""

    @property
    def is_of_numbers(self) -> bool:
        """Return True for numbers that may be traced. An int is a count that Python asks for."""
        part = self.found.visible
        texts = [] if part is None else [part.before.text, part.after.text]
        return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)

    @property
    def factories(self) -> str:
        """Return the names of the factories that built a transformation or a schedule."""
        if self.optax is None or not self.optax.before.text.startswith("optax."):
            return (self.optax and self.optax.before.factory) or "adam and so on"
        leaf = self.optax.before
        inside = [part.text for part in leaf.parts.values() if part.kind == "transformation"]
        texts = [leaf.text, *(inside if leaf.text == f"optax.{leaf.factory}" else [])]
        names = [name for text in texts for name in re.findall(r"[A-Za-z]\w*", text)]
        names = [name for name in dict.fromkeys(names) if name != "optax"]
        return ", ".join(names) + (" and its schedule" if _has_schedule(leaf) else "")

    @property
    def dynamic_parameter(self) -> str:
        name = self.parameter.removeprefix(".")
        value = f"{{canonopt}}.dynamic({{leaf}}{self.parameter})"
        return f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"

    @property
    def not_static(self) -> str:
        """Return what else to do if an array is to be in the place of a static argument."""
        static = self.new.leaves.get(self.root)
        if self.new.is_filtered or static is None or not static.is_static:
            return ""
        return f", with {self.root} left out of static_argnums and static_argnames"

    @property
    def in_subclass_of_flax(self) -> str:
        """Return what makes data of the optimizer that a class of Flax holds."""
        if self.is_of_flax:
            return ", in a subclass of nnx.Optimizer that says `tx: object = nnx.data()`"
        holder = self.new.leaves.get(self.path.removesuffix(self.parameter).rpartition(".")[0])
        if holder is not None and holder.type.endswith("TrainState"):
            field = "tx: object = struct.field(pytree_node=True)"
            return f", in a subclass of TrainState that says `{field}`"
        return ""

    @property
    def but_changed(self) -> str:
        """Return a warning if the function reads what has changed: a trace reads it again."""
        before, after = self.old.function, self.new.function
        if before is None or after is None or before.token != after.token:
            return ""
        if before.digest is None or after.digest is None or before.digest == after.digest:
            return ""
        name = Part("", before, after).way_to_difference()[-1].name or "a variable"
        text = f"{name}, has changed, and without a new trace the old value stays"
        return f". But what the function reads, {text}: pass it as an argument"

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the earlier call is at another line, where a line would have to stand."""
        return self.old.caller.place != self.new.caller.place

    @property
    def is_of_x64(self) -> bool:
        """Return True if a dtype is another one since `jax_enable_x64` is."""
        types = {self.before.dtype, self.after.dtype}
        name = f"{CONTEXT}jax_enable_x64"
        before, after = self.old.leaves.get(name), self.new.leaves.get(name)
        is_other = before is not None and after is not None and before.token != after.token
        short = {each.replace("64", "32").replace("128", "64") for each in types}
        return self.kind == "dtype" and is_other and len(short) == 1

    @property
    def mode_of_flax(self) -> str:
        """Return the method that sets the mode of a module, if that differs."""
        is_mode = self.path.endswith((".use_running_average", ".deterministic"))
        if not is_mode or {self.before.text, self.after.text} != {"True", "False"}:
            return ""
        # A graph that was split off has no methods.
        is_graph = self.new.leaves[self.root].type.endswith(".GraphDef")
        module = "" if is_graph else f"{self.new.caller.arguments.get(self.root, self.root)}."
        return module + ("eval" if self.after.text == "True" else "train")

    # Numbers and arrays.

    @property
    def becomes_array(self) -> bool:
        if self.has_number:
            return self.kind in ("scalar", "weak type", "dtype")
        is_mixed = any(_has_numbers(self.root, call) for call in (self.old, self.new))
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
        is_inexact = dtype.startswith(INEXACT)
        others = (leaf for path, leaf in self.new.arrays.items() if path != self.path)
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
        before, after = self.found.as_traced
        if before is None or after is None or not (before.is_array and after.is_array):
            return None
        is_settled = after.committed and not before.committed
        return self.new.places.get(after.sharding or "") if is_settled else None

    @property
    def wide(self) -> str:
        """Return the one argument in float64, such as a NumPy array, that widens the leaf."""
        if (self.before.dtype, self.after.dtype) != ("float32", "float64"):
            return ""
        old, root = self.old, self.old.root(self.found.path)
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
        before, after = self.before.dtype, self.after.dtype
        # A step settles on what it returns. Elsewhere no number is lost in the wider of two dtypes.
        dtype = after if self.in_state else _wider(before, after)
        is_one_kind = self.before.is_inexact == self.after.is_inexact
        if (
            not is_one_kind
            or dtype not in (before, after)
            or (self.is_elsewhere and dtype == after)
        ):
            return ""
        return f"{{leaf}}.astype({dtype!r})"

    @property
    def placed(self) -> tuple[str, str]:
        """Return the path of what is to be put somewhere, and code for that."""
        # A step settles on where its outputs are. An array that is not committed goes anywhere.
        is_now = bool(self.after.committed)
        call, there = (self.new, self.after) if is_now else (self.old, self.before)
        place = call.places.get(there.sharding or "")
        if place is None:
            return self.path, ""
        inside = [leaf for path, leaf in call.leaves.items() if call.root(path) == self.root]
        found = {(leaf.sharding, leaf.memory_kind) for leaf in inside if leaf.is_array}
        is_whole = found == {(there.sharding, there.memory_kind)}
        # What is no array cannot be put anywhere.
        is_mixed = is_whole and call.is_filtered and any(leaf.is_static for leaf in inside)
        put = "{eqx}.filter_shard" if is_mixed else "{jax}.device_put"
        return self.root if is_whole else self.path, f"{put}({{leaf}}, {place})"

    @property
    def of_orbax(self) -> str:
        """Return words for a caller that knows orbax, if nothing was committed before."""
        caller, old = self.new.caller, self.old
        is_known = "orbax" in caller.known_packages and self.root in caller.arguments
        was = [leaf.committed for path, leaf in old.arrays.items() if old.root(path) == self.root]
        if not (is_known and self.after.committed) or any(was):
            return ""
        ours = "canonopt.restore_like(like, load) leaves them as they are in like"
        return f"if it was restored: orbax commits arrays, and {ours}"

    # Structure, and what is around a call.

    @property
    def is_other_optimizer(self) -> bool:
        """Return True for states of two optimizers, whose nodes differ."""
        nodes = [leaf.type for leaf in (self.before, self.after) if leaf.kind == "node"]
        is_of_states = all(name.startswith(("optax.", "canonopt.", "tuple")) for name in nodes)
        return self.in_state and self.kind == "structure" and bool(nodes) and is_of_states

    @property
    def state(self) -> str:
        """Return the outermost state on the way, as the caller names it."""
        state = min(s for s in self.new.states if self.path == s or is_inside(self.path, {s}))
        root = self.new.root(state)
        return self.new.caller.arguments.get(root, root) + state.removeprefix(root)

    @property
    def is_with_and_without_mesh(self) -> bool:
        is_none = {self.before.text, self.after.text} & {"none", "None", "()", ""}
        return self.kind == "context" and "mesh" in self.path and bool(is_none)

    # Advice with a line.

    def assign(self, path: str, code: str, hint: str = "", otherwise: str = "") -> Advice:
        """Return a line that puts `code` in the place of the leaf at `path`, its `{leaf}`.

        It gives the same when it runs again, so that it may stand in a loop. Without code it is
        `otherwise`, and where no line can stand it is the `hint`, or the line in words.
        """
        if not code:
            return say(otherwise)
        caller, root = self.new.caller, self.new.root(path)
        name, rest = caller.arguments.get(root, root), path.removeprefix(root)
        container = self.new.leaves.get(path[: max(path.rfind("."), path.rfind("["))])
        if not rest or (container is not None and container.type in ("dict", "list")):
            line = f"{name}{rest} = {code}"
        # A step that cannot be written in Python, or to a variable of Flax.
        elif "<" in rest or root in self.new.modules_of_flax:
            usual = {module: module for module in MODULES}
            return say(hint or f"replace {path} by {code.format(leaf=path, **usual)} in every call")
        else:
            line = f"{name} = {{eqx}}.tree_at(lambda tree: tree{rest}, {name}, {code})"
        line = caller.with_modules(line.replace("{leaf}", f"{name}{rest}"))
        if root in caller.arguments:
            return Advice(line, hint)
        # The source of the call does not name what it passes.
        return say(hint or f"before the call, for what it passes as {root}: {line}")

    def swap(self, name: str, module: str, hint: str) -> Advice:
        """Return our function in place of the one of the same name in a module."""
        caller = self.new.caller
        ours, theirs = (caller.name_of(short, name) for short in ("canonopt", module))
        imports = "" if "canonopt" in caller.modules else ", after import canonopt"
        return Advice(f"{ours} in place of {theirs}", f"{hint}{imports}")

    def canonical(self, hint: str, otherwise: str = "") -> Advice:
        """Return `canonicalize` of the argument, if that reaches what was made again."""
        is_value = self.before.kind == "value"  # neither a function nor a pytree
        is_same = self.found.is_same_to_canonopt and not (is_value or self.is_of_flax)
        if not is_same or _has_numbers(self.root, self.new):
            return say(otherwise or hint)
        # `hoist` gives a Partial back as it is.
        is_hoisted = self.kind == "callable" and self.found.path == self.root
        code = f"{{canonopt}}.{'hoist' if is_hoisted else 'canonicalize'}({{leaf}})"
        return self.assign(self.root, code, hint)


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
    with contextlib.suppress(ValueError, TypeError):  # random keys, and what only NumPy has
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


# --- explanations ---------------------------------------------------------------------------------


def change_of(found: Difference) -> Change:
    """Return a difference in words, with what to do about it."""
    case = Case(found)
    told = advice(case)
    return Change(case.path, case.kind, *case.texts, told.fix, told.hint, wanted(case))


def failure_hints(call: Call | None) -> tuple[str, ...]:
    """Return what to do about a trace that failed, if a state in the call misfits its model."""
    return (INIT,) if call is not None and fits_model(call) is False else ()


def explain(new: Call, earlier: Sequence[Call]) -> Explanation | None:
    """Return how `new` differs from the nearest of `earlier`, or None if there are none."""
    if not earlier:
        return None
    if found := nearest(new, earlier):
        return Explanation.of(map(change_of, found))
    # Inside of a trace the function itself has no record.
    is_inside = new.function is None and bool(new.leaves[TRANSFORMS].token)
    return Explanation((), no_difference(is_inside, has_names=bool(key_context())))
