"""Advice on a difference between two calls: that of the first rule that applies.

A line to paste is printed only where it has been shown to work, and words otherwise.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .causes import HANDFUL, PAIR, Change, Explanation
from .differences import Difference, Line, nearest
from .records import GIVEN, STEPS, TRANSFORMS, Call, Leaf


class Rule(NamedTuple):
    """When a rule applies, and what it prints: a hint, and a line to paste, if it has one."""

    applies: Callable[[Difference], object]
    hint: str = ""  # with facts about the difference `d`
    line: Callable[[Difference], Line] = lambda d: Line()
    otherwise: str = ""  # the hint if there is no line


_BUILD = "build {d.built} with {d.factories} from canonopt in place of optax"
_DYNAMIC = "and numbers as canonopt.dynamic(number), which may change without a new trace"
_INIT = (
    "make {state} by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, before "
    "the first call"
)
_PLACES = ("sharding", "commitment", "memory kind")
_WIDER = "the updates are wider than the model, and ours keeps the dtypes of the model"

# In the order in which they are tried.
RULES: list[Rule] = [
    # What is made again, or cannot be shared.
    Rule(
        lambda d: d.is_static and re.match(r"equinox\.nn\..*\.State(Index)?$", d.holder),
        "make the model and its state by equinox.nn.make_with_state, once",
    ),
    Rule(
        lambda d: d.redefined,
        "define class {d.redefined} once, in a module that is imported: a loop or a notebook cell "
        "that runs again makes another class",
    ),
    Rule(
        lambda d: d.counter,
        "to count traces, write canonopt.compile_log in place of {d.counter}: a function that "
        "changes something while it is traced is not shared",
    ),
    Rule(lambda d: d.why_not_shared, "{d.path} is new each time: {d.why_not_shared}"),
    # Optimizers and schedules.
    Rule(  # as a static argument, a spec may have no leaves
        lambda d: d.parameter and d.is_of_numbers and d.new.is_filtered,
        "a dynamic number may change without a new trace",
        lambda d: d.with_dynamic_number(),
    ),
    Rule(
        lambda d: d.parameter and d.is_of_numbers,
        "give {d.path} one value, or canonopt.dynamic(number){d.in_subclass_of_flax}"
        "{d.not_static}: a dynamic number may change without a new trace",
    ),
    Rule(
        lambda d: d.captured and d.is_of_numbers,
        f"{_BUILD}, {_DYNAMIC}{{d.after_import}}",
        lambda d: d.swap_jit(),
    ),
    Rule(
        lambda d: d.kind == "transformation" and d.is_of_numbers,
        f"{_BUILD}, {_DYNAMIC}{{d.in_subclass_of_flax}}{{d.not_static}}{{d.but_changed}}",
    ),
    Rule(
        lambda d: d.kind == "transformation" and d.visible,
        "build {d.path} once: another configuration is another program",
    ),
    Rule(
        lambda d: d.kind == "transformation",
        f"{_BUILD}: the same configuration is the same object{{d.but_changed}}",
        lambda d: d.canonicalized(),
    ),
    # Functions that are jitted, and those among the arguments.
    Rule(
        lambda d: d.is_function and d.way[-1].name == "captured variable 'argnums'",
        "make each gradient function once: other argnums are another program",
    ),
    Rule(
        lambda d: d.is_function and "property" in (d.after.made or ""),
        "a property makes the function at each access: make it once, as "
        "functools.cached_property does",
    ),
    Rule(lambda d: d.is_function and d.is_jitted_elsewhere, "define and jit the function once"),
    Rule(
        lambda d: d.jitted_global,
        "define {d.jitted_global} once, in a module that is imported: it is jitted, and reads what "
        "may change",
    ),
    Rule(
        lambda d: d.array_of_global,
        "pass {d.array_of_global} to the function as an argument: it is another array now",
    ),
    Rule(
        lambda d: d.is_function and (d.new.is_jitted_by_canonopt or not d.is_same_to_canonopt),
        "jit one function, and pass what differs as an argument",
    ),
    Rule(
        lambda d: d.is_function,
        "functions that do the same run one program{d.after_import}",
        lambda d: d.swap_jit(),
    ),
    Rule(
        lambda d: d.kind == d.before.kind == "callable" and d.is_same_to_canonopt,
        line=lambda d: d.canonicalized("hoist"),
        otherwise="build {d.path} once, or set it to canonopt.hoist(function)",
    ),
    Rule(
        lambda d: d.kind == "callable",
        "build {d.path} once, or pass what differs in it as an array argument",
    ),
    # Static values.
    Rule(
        lambda d: d.is_order_of_keys,
        "give {d.path} its keys in one order, or make it a dict, which JAX sorts",
    ),
    Rule(
        lambda d: d.is_static and d.before.text == d.after.text and d.before.is_unique,
        "keep one instance for {d.path}, or give its class __eq__ and __hash__",
    ),
    Rule(lambda d: d.is_static, "give {d.path} one value: {d.of_static}"),
    # Numbers and arrays.
    Rule(
        lambda d: (
            d.kind == "weak type"
            and not d.has_number
            and (d.is_of_flax or (d.before.weak_type and d.is_elsewhere))
        ),
        "give {d.path} a dtype where it is made: a number has none",
    ),
    Rule(
        lambda d: d.becomes_array,
        line=lambda d: d.assign(d.path, d.number_as_array),
        otherwise="pass {d.path} as an array of one dtype: jnp.asarray({d.path}, dtype)",
    ),
    Rule(
        lambda d: d.kind == "weak type",
        line=lambda d: d.assign(d.root, "{canonopt}.canonicalize({leaf})"),
    ),
    Rule(
        lambda d: d.kind == "dtype" and (d.before.is_key or d.after.is_key),
        "make {d.path} in one style in every call: jax.random.key(seed)",
    ),
    Rule(lambda d: d.is_of_x64, ""),
    Rule(
        lambda d: d.kind == "dtype" and d.wide,
        "{d.wide} is {d.after.dtype}, which widens {d.path}",
        lambda d: d.assign(d.wide, f"{{leaf}}.astype({d.before.dtype!r})"),
    ),
    Rule(
        lambda d: d.is_widened_by_step and "apply_updates" in d.new.caller.names | d.new.names,
        f"{_WIDER}{{d.after_import}}",
        lambda d: d.swap("apply_updates", "eqx"),
    ),
    Rule(
        lambda d: d.is_widened_by_step,
        "what the function returned for {d.path} is {d.after.dtype}: cast it to {d.before.dtype} "
        "there, or what it is computed from",
    ),
    Rule(
        lambda d: d.kind == "dtype",
        line=lambda d: d.assign(d.path, d.in_common_dtype),
        otherwise="give {d.path} one dtype in every call",
    ),
    Rule(
        lambda d: d.kind in _PLACES and d.old.is_lowered,
        "lower the function for {d.path} as the calls have it: "
        "jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)",
    ),
    Rule(
        lambda d: d.kind in _PLACES,
        line=lambda d: d.assign(*d.placed),
        otherwise="put {d.path} in one place before the first call: {d.put}",
    ),
    Rule(
        lambda d: d.kind == "shape", "pad or drop what is left over, so that {d.root} has one shape"
    ),
    # Structure.
    Rule(lambda d: d.place.startswith(GIVEN), "pass {d.path} the same way in every call"),
    Rule(
        lambda d: d.is_other_optimizer,
        "one program for each optimizer: {d.state} is the state of another one",
    ),
    Rule(
        lambda d: d.kind in _STRUCTURE and d.in_state and (misfits(d.old) or misfits(d.new)),
        _INIT.format(state="{d.state}"),
    ),
    # The key has no defaults, so an argument that is left out is not the same as its default.
    Rule(
        lambda d: d.kind == "structure" and d.is_missing and d.path == d.root,
        "pass {d.path} in every call or in none",
    ),
    Rule(
        lambda d: d.kind == "none",
        "give {d.root} one structure from the first call on: None and a leaf differ",
    ),
    Rule(lambda d: d.kind == "structure", "give {d.root} one structure from the first call on"),
    # What is around a call.
    Rule(
        lambda d: d.kind == "cleared",
        "no jax.clear_caches() between the calls: it drops every program",
    ),
    Rule(lambda d: d.kind == "options", "jit the function once, with one set of options"),
    Rule(
        lambda d: d.place == TRANSFORMS,
        "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted "
        "function is a program of its own",
    ),
    Rule(
        lambda d: d.is_missing,
        "import everything before the first call: a module that was imported since then, such as "
        "equinox, added this setting to those that JAX compares",
    ),
    Rule(
        lambda d: "jax_" in d.path,
        "jax.config.update({d.path!r}, ...) once, before the first call",
    ),
    Rule(
        lambda d: d.is_with_and_without_mesh,
        "jax.set_mesh(mesh) once, before the first call, or `with jax.set_mesh(mesh):` around "
        "each call, also where it is lowered",
    ),
    Rule(lambda d: "mesh" in d.path, "jax.set_mesh(mesh) once, before the first call"),
    Rule(lambda d: True, "the same {d.path} in every call"),
]
_STRUCTURE = ("structure", "none")


def advice(d: Difference) -> Line:
    """Return a line to paste, and a hint, by the first rule that applies."""
    rule = next(rule for rule in RULES if rule.applies(d))
    code, words = rule.line(d)
    otherwise = "" if code else words or rule.otherwise.format(d=d)
    return Line(code, rule.hint.format(d=d) or otherwise)


def wanted(d: Difference) -> int:
    """Return how many programs are likely wanted that differ as these two do."""
    if d.redefined or d.place.startswith(GIVEN) or d.is_order_of_keys or d.captured:
        return 1
    if d.is_static:
        part = d.visible or d.way[0]
        if part.before.text == part.after.text:
            return 1  # the same, made again
        if part.before.text.startswith("canonopt.dynamic("):
            return 1  # it was meant to change
        if part.before.is_of_number and part.after.is_of_number:
            return 1 if d.parameter or d.kind == "transformation" else PAIR
        return 1 if d.is_function and (d.counter or d.why_not_shared) else HANDFUL
    if d.is_missing and d.path in d.old.at_default | d.new.at_default:
        return 1  # the same program twice
    if d.kind in ("options", "context") or d.is_of_x64:
        return 1 if d.is_missing or d.is_with_and_without_mesh else HANDFUL
    # In a state only the shapes may differ: it is what the step returned.
    if d.in_state and d.kind != "shape":
        return HANDFUL if d.is_other_optimizer else 1
    if d.kind == "sharding":
        # From one device to a mesh is an array that was not put there, and no second mesh.
        where = [str(leaf.sharding) for leaf in (d.before, d.after)]
        meshes = [text.partition(" of ")[2] for text in where]
        is_choice = meshes[0] != meshes[1] and "" not in meshes
        return HANDFUL if is_choice or (meshes == ["", ""] and "None" not in where) else 1
    return HANDFUL if d.kind in ("shape", "none") or d.is_missing else 1


# --- optimizer states -----------------------------------------------------------------------------


def misfits(call: Call) -> bool:
    """Return True if a state has a leaf for one of the model without a gradient, or lacks one.

    A state repeats the paths of the model: `opt_state[0].mu.weight` is for `model.weight`.
    """
    by_steps: dict[tuple[str, ...], Leaf | None] = {}
    for path, leaf in call.leaves.items():
        steps = (*STEPS.findall(path),)
        if leaf.is_array and not call.in_state(path):
            for i in range(len(steps)):
                # Several leaves may end alike. Then only the whole path says which one it is.
                is_known = steps[i:] in by_steps and i
                by_steps[steps[i:]] = None if is_known else leaf
    for path, leaf in call.leaves.items():
        steps = (*STEPS.findall(path),) if call.in_state(path) else ()
        found = next((by_steps[s] for i in range(len(steps)) if (s := steps[i:]) in by_steps), None)
        if found is None or not found.shape:  # such as a count, whose name says little
            continue
        if leaf.kind == ("none" if found.is_inexact else "array"):
            return True
    return False


def failure_hints(call: Call | None) -> tuple[str, ...]:
    """Return what to do about a trace that failed, if a state in the call misfits its model."""
    return (_INIT.format(state="opt_state"),) if call is not None and misfits(call) else ()


# --- explanations ---------------------------------------------------------------------------------


def change_of(found: Difference) -> Change:
    """Return a difference in words, with what to do about it."""
    d = found.narrowed()
    return Change(d.path, d.kind, *d.texts, *advice(d), wanted(d))


def explain(new: Call, earlier: Sequence[Call]) -> Explanation | None:
    """Return how `new` differs from the nearest of `earlier`, or None if there are none."""
    if not earlier:
        return None
    if found := nearest(new, earlier):
        return Explanation.of(map(change_of, found))
    # Inside of a trace the function itself has no record.
    is_inside = new.function is None and bool(new.leaves[TRANSFORMS].token)
    return Explanation((), _INSIDE if is_inside else _NO_DIFFERENCE)


# Three lines at most, since a report shows no more of a note.
_NO_DIFFERENCE = """\
canonopt sees no difference from an earlier call
it cannot see: the size and the axis names of a jax.vmap, jax.make_user_context, rare settings"""
_INSIDE = """\
its arguments are those of an earlier trace: it was called twice in one trace, or what is jitted
around it was made again, and canonopt.jit in place of jax.jit makes that one program"""
