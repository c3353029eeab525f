"""Give advice on a difference between two calls, by the first rule that applies.

A report prints advice in words, and a line to paste only if that line is sure to work. A `Cause`
has the differences with their advice, in the words that all reports use. It consists of texts and
numbers, so that one process can send it to another.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

import attrs

from .._texts import times
from .differences import Difference, listed, nearest
from .records import BY_ITSELF, CLASS, FUNCTION, GIVEN, TRANSFORMS, Call, is_inside

# --- causes ---------------------------------------------------------------------------------------


@attrs.frozen
class Change:
    """One difference between two calls, and what to do about it.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, options, context, cleared.
    """

    path: str
    kind: str
    before: str
    after: str
    fix: str = ""  # lines to paste before the call, or "A in place of B", that are sure to work
    hint: str = ""  # what to do, in words
    wanted: int = 1  # how many programs with such a change the user likely wants
    part: str = ""  # the part of a function that looks different

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"

    @property
    def is_of_length(self) -> bool:
        return "missing" in (self.before, self.after)

    @property
    def path_of_growth(self) -> str:
        """Return `path`; for a missing item, `[i]` replaces each index and the last key."""
        step = r"\[\d+\]|\[[^\[\]]*\]$"
        return re.sub(step, "[i]", self.path) if self.is_of_length else self.path


MOST = 3  # maximum number of differences, of places, of hints or of stale values in a report


@attrs.frozen(kw_only=True)
class Cause:
    """The reason why something was traced or compiled again, or why a trace failed, and how often.

    `changes` has the changes of the first time. Later changes have the same kinds and paths,
    except for the indices or keys of a list or a dict that grows.
    """

    changes: tuple[Change, ...] = ()  # the changes from the nearest earlier call
    note: str | None = None  # words in place of changes
    hints: tuple[str, ...] = ()  # what to do, in words
    fixes: tuple[str, ...] = ()  # lines to paste
    what: str = ""
    times: int = 1
    seconds: float = 0.0
    # The lines of the user's code where this happened, as `file:line`, in the order of first runs.
    sites: tuple[str, ...] = ()
    pattern: str | None = None  # how the values change, such as `n grows by one each time`
    # Why the recompiles are expected and the code need not change; None if they are avoidable.
    expected: str | None = None

    @classmethod
    def of(cls, changes: Iterable[Change], note: str | None = None) -> Self:
        """Return a cause with changes and their advice, each piece of advice once.

        If a change has no line to paste, the lines of the other changes are not enough. Then these
        lines become hints, without their imports.
        """
        found = (*changes,)
        lines = [line for change in found for line in change.fix.splitlines()]
        is_cured = all(change.fix for change in found)
        hints = _joined(found)
        if not is_cured:
            hints += [line for line in lines if not line.startswith("import ")]
        fixes = dict.fromkeys(lines if is_cured else ())
        return cls(changes=found, note=note, hints=(*dict.fromkeys(hints),), fixes=(*fixes,))

    @property
    def is_expected(self) -> bool:
        return self.expected is not None

    @property
    def is_avoidable(self) -> bool:
        """Return True for avoidable recompiles; False for expected recompiles and failed traces."""
        return not (self.is_expected or self.what.startswith("failed"))

    @property
    def title(self) -> str:
        again = " again" if self.what.startswith("was") else ""
        return f"{self.what}{again}, {times(self.times)}"

    def lines(self, in_full: bool = False) -> list[str]:
        """Return the lines of a report: changes, note, pattern, places, hints and lines to paste.

        Shows at most `MOST` of each, but all lines to paste. An expected cause gives one line,
        unless `in_full` is true.
        """
        if self.expected is not None and not in_full:
            return [f"expected: {self.expected}"]
        shown = [f"{'also ' if i else ''}{each}" for i, each in enumerate(self.changes[:MOST])]
        if (rest := len(self.changes) - MOST) > 0:
            shown.append(f"and {rest} more difference{'s' if rest > 1 else ''}")
        shown += [line for line in (self.note or "").splitlines() if line.strip()][:MOST]
        shown += [self.pattern] if self.pattern else []
        if self.sites:
            more = len(self.sites) - MOST
            others = f", and {more} more line{'s' if more > 1 else ''}" if more > 0 else ""
            shown.append(f"called at {', '.join(self.sites[:MOST])}{others}")
        shown += (f"hint: {text}" for text in self.hints[:MOST])
        return [*shown, *(f"write: {fix}" for fix in self.fixes)]  # the fixes work only together

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _joined(changes: Iterable[Change]) -> list[str]:
    """Return the hints of changes: hints that differ only in the path become one."""
    paths: dict[str, list[str]] = {}
    for change in changes:
        path = re.escape(change.path)
        text = re.sub(rf"(?<![\w.]){path}(?![\w.\[])", "\0", change.hint)
        # Do not join hints that have code for one path, or a verb in the singular.
        text = change.hint if re.search("\\(\0|\0 is ", text) else text
        paths.setdefault(text, []).append(change.path)
    return [text.replace("\0", few(found)) for text, found in paths.items() if text]


def few(paths: Sequence[str]) -> str:
    """Return the first `MOST` paths and the number of others, as one text."""
    return listed([*paths[:MOST], *[f"{len(paths) - MOST} more"] * (len(paths) > MOST)])


# --- rules ----------------------------------------------------------------------------------------

# The most programs that users likely want for one kind of difference, such as a shape, a flag or a
# mesh. If there are more, recompiles count as avoidable. `wanted` returns `PAIR`, `HANDFUL` or 1.
PAIR, HANDFUL = 2, 5
CLEARED = "do not call jax.clear_caches() between the calls: it drops every program"


class Rule(NamedTuple):
    """A condition on a difference, with the hint to print and, if one works, a line to paste."""

    applies: Callable[[Difference], object]
    hint: str  # a format string with facts about the difference `d`
    line: Callable[[Difference], str] = lambda d: ""


_PLACES = ("sharding", "commitment", "memory kind")
_PUT = (
    "put {d.root} in one place before the first call{d.and_lowered}: by jax.device_put with one "
    "sharding, or eqx.filter_shard for a model"
)

RULES: list[Rule] = [
    # Classes and functions that are made again, or cannot be shared.
    Rule(
        lambda d: d.redefined,
        "define class {d.redefined} once, in a module that is imported: a loop or a notebook cell "
        "that runs again makes another class",
    ),
    Rule(
        lambda d: d.place.endswith(CLASS),
        "pass as an argument what the methods of {d.place} read: it is part of the program",
    ),
    Rule(
        lambda d: d.counter,
        "to count traces, use canonopt.compile_log in place of {d.counter}; to keep a value, "
        "return it: a function that changes outer variables, even in a callback, counts as new",
    ),
    Rule(lambda d: d.why_not_shared, "{d.path} is new each time: {d.why_not_shared}"),
    Rule(
        lambda d: d.is_static and d.path == "self" and d.new.wrapper is None and d.before.is_unique,
        "take the jit off {d.new.name}, and write self.{d.new.name} = {d.our_jit}("
        "self.{d.new.name}{d.other_statics}) where the object is made: {d.our_jit} compares only "
        "the attributes that the method reads{d.of_attributes}",
    ),
    # Optimizers, functions that are jitted, and functions among the arguments.
    Rule(
        lambda d: d.is_dynamic,
        "pass {d.path} as data{d.for_dynamic}: as a static value, an optimizer or a schedule with "
        "a dynamic number never equals another one, so each one retraces",
    ),
    Rule(
        lambda d: d.parameter and d.after.is_integer,
        "give {d.path} one value: it is part of the program. Or compute with it by jnp in a "
        "factory of your own under canonopt.canonical, and pass it as canonopt.dynamic(number)",
    ),
    Rule(
        lambda d: d.parameter and d.after.number,
        "write canonopt.dynamic(number) for {d.path}{d.for_dynamic}: then a new value does not "
        "retrace. Or keep one value",
        lambda d: _with_dynamic_number(d),
    ),
    Rule(
        lambda d: d.captured_number,
        "pass {d.captured_number} as canonopt.dynamic(number) to a factory of canonopt, or to one "
        "made by canonopt.canonical: what a function captures is part of the program",
    ),
    Rule(
        lambda d: d.optimizer,
        "build {d.optimizer}{d.from_canonopt}: the same configuration is the same object{d.of_jit}",
        lambda d: _swap_jit(d) if d.is_function else _canonicalize(d),
    ),
    Rule(
        lambda d: d.is_function,
        "define and jit the function once, and pass what differs in it as an argument"
        "{d.of_captured}",
        lambda d: _swap_jit(d),
    ),
    Rule(
        lambda d: d.is_of_stateful_model,
        "make the model and its state by eqx.nn.make_with_state(Model)(...): it numbers each "
        "StateIndex, which otherwise is a new object in each model",
    ),
    Rule(
        lambda d: d.is_static and d.is_equal_only_to_itself,
        "keep one instance for {d.path}, make it inside of {d.new.name}, or give its class __eq__ "
        "and __hash__",
    ),
    Rule(
        lambda d: d.kind == "callable" and d.is_same_to_canonopt,
        "build {d.path} once, or wrap the function in canonopt.hoist",
        lambda d: _canonicalize(d),
    ),
    Rule(
        lambda d: d.kind == "callable",
        "build {d.path} once, and pass what differs in it as an array. Or build it inside of "
        "{d.new.name}",
    ),
    # Static values.
    Rule(
        lambda d: d.is_container_made_again and d.path != d.root,
        "keep one {d.after.type} for {d.path}, or write a tuple: {d.our_jit} compares a "
        "{d.after.type} by identity, because it can change",
    ),
    Rule(
        lambda d: d.is_static and d.path != d.root and re.match("['\"]", d.before.text),
        "give {d.path} one value: it is part of the program. Or pass only what the step reads of "
        "{d.root}",
    ),
    Rule(
        lambda d: d.is_static,
        "give {d.path} one value: it is part of the program. Or pass {d.as_array}, unless it is "
        "used in a shape, an if, or Python's range(), min() or max()",
    ),
    # Numbers and arrays.
    Rule(
        lambda d: d.kind == "scalar" and {d.before.type, d.after.type} == {"int", "float"},
        "pass float({d.path}) in every call, or an array of one dtype",
    ),
    Rule(
        lambda d: d.is_of_numbers,
        "pass {d.path} as an array of one dtype{d.placed}: jnp.asarray({d.path}, {d.one_dtype})",
    ),
    Rule(
        lambda d: d.kind == "weak type",
        "make {d.path} with a dtype, as jnp.zeros(n, jnp.float32) does, or by "
        "canonopt.canonicalize",
        lambda d: _canonicalize(d),
    ),
    Rule(
        lambda d: d.kind == "dtype" and d.before.is_key != d.after.is_key,
        "make {d.path} always by jax.random.key (from saved data: jax.random.wrap_key_data), or "
        "always by jax.random.PRNGKey",
    ),
    Rule(
        lambda d: d.kind == "dtype" and d.new.in_state(d.place),
        "make {d.state} by canonopt.init_like_grads(model, grads=grads, optim=optim), with the "
        "gradients that the update gets, once, before the first call",
    ),
    Rule(
        lambda d: d.kind == "dtype",
        "give {d.path} one dtype in every call{d.of_updates}",
    ),
    Rule(
        lambda d: d.kind == "sharding" and d.new.wrapper is not None and len({*_meshes(d)}) == 1,
        "make {d.root} by jax.pmap with the axis_name that {d.new.name} has",
    ),
    Rule(
        lambda d: d.kind in _PLACES and _placed(d),
        _PUT,
        lambda d: _placed(d),
    ),
    Rule(
        lambda d: d.kind in _PLACES and not d.new.in_state(d.place),
        f"{_PUT}{{d.of_results}}",
    ),
    Rule(
        lambda d: d.kind == "shape",
        "pad {d.root} to one shape and mask the padding (divide a mean by n), or drop a short last "
        "batch",
    ),
    # Structure. JAX does not fill in defaults: an argument that is left out differs from an
    # argument that equals its default.
    Rule(
        lambda d: d.place.startswith(GIVEN) or (d.is_missing and d.place == d.root),
        "pass {d.path} the same way in every call",
    ),
    Rule(
        lambda d: d.new.in_state(d.place) and not d.is_of_nodes,
        "make {d.state} by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, "
        "before the first call",
    ),
    Rule(
        lambda d: {d.before.kind, d.after.kind} == {"node", "transformation"},
        "pass {d.path} with canonopt.dynamic(number) in every call, or in none: a dynamic number "
        "adds a leaf to the pytree",
    ),
    Rule(
        lambda d: d.is_missing and re.search(r"\[\d+\]$", d.path) and d.root != d.path,
        "give {d.root} one structure from the first call on: leave out what each call appends, or "
        "make it one array of a fixed length, with a mask",
    ),
    Rule(
        lambda d: d.kind in ("structure", "none"),
        "give {d.root} one structure from the first call on",
    ),
    # Caches and settings around a call.
    Rule(lambda d: d.kind == "cleared", CLEARED),
    Rule(
        lambda d: d.is_missing,
        "import all modules before the first call: a later import, for example of equinox, added a "
        "setting that JAX compares",
    ),
    Rule(lambda d: True, "use the same {d.path} in every call{d.and_lowered}"),
]


def wanted(d: Difference) -> int:
    """Return how many programs with such a difference the user likely wants."""
    is_default = d.is_missing and d.path in d.old.at_default | d.new.at_default
    if d.redefined or d.place.startswith(GIVEN) or is_default:
        return 1  # it is the same program twice
    if d.is_static:
        part = d.visible or d.function
        before, after = part.before, part.after
        if part.is_another_optimizer:
            return HANDFUL
        is_same = before.looks_like(after) or d.counter or d.why_not_shared
        if is_same or before.holds_dynamic or (d.optimizer and d.is_function):
            return 1  # the value is made again, or meant to change
        if before.number and after.number:
            is_same = before.number == after.number  # so only types differ
            return 1 if is_same or d.parameter or d.optimizer or d.is_of_inner_optimizer else PAIR
        return HANDFUL
    if d.kind == "cleared":
        return PAIR
    if d.kind == "options":
        return HANDFUL
    if d.kind == "context":
        return 1 if d.is_missing or "mesh" in d.path else HANDFUL
    if d.kind == "sharding":
        # If only one sharding has a mesh, an array was not put on the mesh: no second mesh exists.
        # If neither has a mesh, each device has its own program.
        one, other = _meshes(d)
        is_of_two_places = one != other if one and other else one == other
        return HANDFUL if is_of_two_places else 1
    if d.is_of_nodes:  # the user wants two models, but not a list and then a tuple
        return 1 if any(path.startswith(f"{d.place}[") for path in d.new.leaves) else HANDFUL
    # In a state, which a step returns, only another shape is wanted, or a value in place of None.
    is_choice = d.kind in ("shape", "none") or d.is_missing
    may_differ = d.kind == "shape" or d.before.kind == "none" or not d.new.in_state(d.place)
    return HANDFUL if is_choice and may_differ else 1


def _meshes(d: Difference) -> list[str]:
    """Return the texts of both meshes; for a step of `jax.pmap`, without the axis names."""
    meshes = [leaf.spec_and_mesh[1] for leaf in (d.before, d.after)]
    is_pmap = d.new.wrapper is not None
    return [re.sub("'[^']*'", "", mesh) for mesh in meshes] if is_pmap else meshes


# --- lines to paste -------------------------------------------------------------------------------


def _assign(d: Difference, code: str) -> str:
    """Return a line that assigns `code` to the argument, whose name replaces `{leaf}` in `code`.

    The line gives the same value when run again, so it may stand in a loop. Returns "" if the
    call passes no variable, attribute or item, or if the earlier call is at another line.
    """
    caller = d.new.caller
    if d.old.caller.place != caller.place or (name := caller.arguments.get(d.root)) is None:
        return ""
    return caller.with_modules(f"{name} = {code}".replace("{leaf}", name))


def _canonicalize(d: Difference) -> str:
    """Return a line that canonicalizes the argument; "" if that is not sure to help."""
    is_value = d.is_static and d.before.kind == "value"  # no callable and no optimizer
    # An array that is no longer weakly typed would widen arrays of a narrower dtype.
    kind = next((kind for kind in ("float", "int", "complex") if kind in d.after.dtype), "")
    alike = {leaf.dtype for leaf in d.new.leaves.values() if kind in leaf.dtype}
    is_same = d.is_same_to_canonopt if d.is_static else not (d.placed or (kind and len(alike) > 1))
    leaves = (item for call in (d.old, d.new) for item in call.leaves.items())
    numbers = (path for path, leaf in leaves if leaf.kind == "number" and path != d.root)
    # A step returns weak arrays in place of the numbers: `canonicalize` would make them strong.
    has_numbers = any(is_inside(path, {d.root}) for path in numbers)
    if not is_same or is_value or d.is_of_flax or has_numbers:
        return ""
    outer = (path for path in d.new.leaves if path != d.place and is_inside(d.place, {path}))
    # `canonicalize` finds no functions in an opaque value, for example in a frozen dataclass.
    if d.after.is_of_module or any(d.new.leaves[path].is_opaque for path in outer):
        return ""
    return _assign(d, "{canonopt}.canonicalize({leaf})")


def _with_dynamic_number(d: Difference) -> str:
    """Return a line that makes a parameter of an optimizer or a schedule dynamic, or ""."""
    holder, parameter = d.new.leaves.get(d.root), d.path.removeprefix(d.root)
    # A dynamic number is a leaf: a static argument must have none, and a donated leaf is lost.
    # The line stands before the earlier call too, so it needs a number there.
    is_data = d.new.is_filtered and not d.new.donates and d.before.number
    if not is_data or holder is None or not holder.type.startswith("canonopt."):
        return ""
    value, name = f"{{canonopt}}.dynamic({{leaf}}{parameter})", parameter.removeprefix(".")
    new = f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"
    return _assign(d, f"{{leaf}}.replace({new})")


def _placed(d: Difference) -> str:
    """Return a line that gives an argument the placement that it has in one call, or ""."""
    # A loop settles on the placement of the step's outputs. Uncommitted arrays can go anywhere. A
    # batch that is split over a mesh must stay split, or each device would hold all of it.
    (_, one), (spec, other) = d.before.spec_and_mesh, d.after.spec_and_mesh
    is_whole = d.kind == "sharding" and one == other != "" and spec.endswith("()")
    is_settled = d.after.committed and (not is_whole or d.new.in_state(d.place))
    call, there = (d.new, d.after) if is_settled else (d.old, d.before)
    place = call.places.get((there.sharding, there.memory_kind))
    inside = [leaf for path, leaf in call.leaves.items() if call.root(path) == d.root]
    found = {(leaf.sharding, leaf.memory_kind) for leaf in inside if leaf.is_array}
    if place is None or d.old.is_lowered or len(found) > 1:
        return ""
    # It raises in JAX 0.8 to 0.12: github.com/jax-ml/jax/blob/jax-v0.10.2/jax/_src/dispatch.py#L549
    if ".devices()[" in place and d.before.memory_kind != d.after.memory_kind:
        return ""
    # Only arrays can be put on a device.
    is_mixed = call.is_filtered and any(leaf.is_static for leaf in inside)
    put = "{eqx}.filter_shard" if is_mixed else "{jax}.device_put"
    return _assign(d, f"{put}({{leaf}}, {place})")


def _swap_jit(d: Difference) -> str:
    """Return a line that replaces a jit by canonopt's; "" if that would not help."""
    if not (d.is_same_to_canonopt and d.may_take_our_jit):
        return ""
    theirs = ("eqx", "filter_jit") if d.new.is_filtered else ("jax", "jit")
    return f"{d.our_jit} in place of {d.new.caller.name_of(*theirs)}"


# --- explanations ---------------------------------------------------------------------------------


def _change(d: Difference) -> Change:
    """Return a difference with its advice, by the first rule that applies."""
    rule = next(rule for rule in RULES if rule.applies(d))
    fix, hint = rule.line(d), rule.hint.format(d=d)
    if " in place of " in fix and "canonopt" not in d.new.caller.modules:
        fix = f"import canonopt\n{fix}"
    part = d.visible.name if d.is_function and d.visible else ""
    return Change(d.path, d.kind, *d.texts, fix, hint, wanted(d), part)


def explain(new: Call, earlier: Sequence[Call]) -> Cause:
    """Return the cause: how `new` differs from the nearest of `earlier`, which is not empty."""
    if found := nearest(new, earlier, wanted):
        return Cause.of(_change(d) for each in found for d in each.narrowed())
    if new.leaves[TRANSFORMS].text == BY_ITSELF:
        return Cause(note=_NO_DIFFERENCE)
    # If a call is recorded while it is traced, there is no record of its function.
    if FUNCTION not in new.leaves:
        return Cause(note=_INSIDE)
    # Only the innermost transformation is seen, and `jax.hessian` has more than one.
    path, text = "transformation around the call", new.leaves[TRANSFORMS].text
    return Cause.of([Change(path, "context", text, text + OTHERS, "", _OTHERS, HANDFUL)])


OTHERS = ", inside other transformations, or with another vmap size"
_OTHERS = "use the same transformations in every call, and one size for each jax.vmap"
# These have three lines at most, since a report does not show more of a note.
_NO_DIFFERENCE = """\
canonopt sees no difference from an earlier call
not visible: the size and the axis names of a jax.vmap, jax.make_user_context, rare settings,
and unequal values with the same hash"""
_INSIDE = """\
the arguments equal those of an earlier trace: one trace called the function twice, or the jitted
function around it was made again. In the second case, write canonopt.jit in place of jax.jit for
the outer function"""
