"""Advice on a difference between two calls: that of the first rule that applies.

A line to paste is printed only where it has been shown to work, and words otherwise.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from .causes import HANDFUL, PAIR, Change, Explanation
from .differences import Difference, has_numbers, nearest
from .records import GIVEN, STEPS, TRANSFORMS, Call, Leaf


class Advice(NamedTuple):
    """A line to paste, or words, or both."""

    fix: str = ""
    hint: str = ""


# --- rules with a line to paste -------------------------------------------------------------------


def _parameter_as_dynamic(d: Difference) -> Advice:
    why = "a dynamic number may change without a new trace"
    if not d.new.is_filtered:  # as a static argument, a spec may have no leaves
        given = f"one value, or canonopt.dynamic(number){d.in_subclass_of_flax}"
        return Advice(hint=f"give {d.path} {given}{d.not_static}: {why}")
    name, value = d.parameter.removeprefix("."), f"{{canonopt}}.dynamic({{leaf}}{d.parameter})"
    new = f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"
    return Advice(d.assign(d.path.removesuffix(d.parameter), f"{{leaf}}.replace({new})")[0], why)


def _canonical(d: Difference, hint: str, otherwise: str) -> Advice:
    """Return `canonicalize` of the argument, if that reaches what was made again."""
    is_value = d.before.kind == "value"  # neither a function nor a pytree
    is_same = d.is_same_to_canonopt and not (is_value or d.is_of_flax)
    if not is_same or has_numbers(d.root, d.new):
        return Advice(hint=otherwise)
    # `hoist` gives a Partial back as it is.
    function = "hoist" if d.kind == "callable" and d.place == d.root else "canonicalize"
    fix, words = d.assign(d.root, f"{{canonopt}}.{function}({{leaf}})")
    return Advice(fix, hint or words)


def _transformation(d: Difference) -> Advice:
    hint = f"{_BUILD.format(d=d)}: the same configuration is the same object{d.but_changed}"
    return _canonical(d, hint, hint)


def _callable(d: Difference) -> Advice:
    if d.is_same_to_canonopt and d.before.kind == "callable":
        once = f"build {d.path} once, or set it to canonopt.hoist(function)"
        return _canonical(d, "", once)
    return Advice(hint=f"build {d.path} once, or pass what differs in it as an array argument")


def _swap(d: Difference, name: str, module: str, hint: str) -> Advice:
    """Return our function in place of the one of the same name in a module."""
    caller = d.new.caller
    ours, theirs = (caller.name_of(short, name) for short in ("canonopt", module))
    imports = "" if "canonopt" in caller.modules else ", after import canonopt"
    return Advice(f"{ours} in place of {theirs}", f"{hint}{imports}")


def _jit(d: Difference, hint: str = "functions that do the same run one program") -> Advice:
    name = ("filter_jit", "eqx") if d.new.is_filtered else ("jit", "jax")
    return _swap(d, *name, hint)


def _apply_updates(d: Difference) -> Advice:
    why = "the updates are wider than the model, and ours keeps the dtypes of the model"
    return _swap(d, "apply_updates", "eqx", why)


def _assign(d: Difference, path: str, code: str, otherwise: str) -> Advice:
    fix, words = d.assign(path, code) if code else ("", otherwise)
    return Advice(fix, words)


def _as_array(d: Difference) -> Advice:
    words = f"pass {d.path} as an array of one dtype: jnp.asarray({d.path}, dtype)"
    return _assign(d, d.path, d.number_as_array, words)


def _strong(d: Difference) -> Advice:
    return _assign(d, d.root, "{canonopt}.canonicalize({leaf})", "")


def _narrow(d: Difference) -> Advice:
    why = f"{d.wide} is {d.after.dtype}, which widens {d.path}"
    return Advice(d.assign(d.wide, f"{{leaf}}.astype({d.before.dtype!r})")[0], why)


def _one_dtype(d: Difference) -> Advice:
    return _assign(d, d.path, d.in_common_dtype, f"give {d.path} one dtype in every call")


def _place(d: Difference) -> Advice:
    return _assign(d, *d.placed, f"put {d.path} in one place before the first call: {d.put}")


# --- the rules ------------------------------------------------------------------------------------

_BUILD = "build {d.built} with {d.factories} from canonopt in place of optax"
_DYNAMIC = "and numbers as canonopt.dynamic(number), which may change without a new trace"
_INIT = (
    "make {state} by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, before "
    "the first call"
)
_PLACES = ("sharding", "commitment", "memory kind")
_Rule: TypeAlias = tuple[Callable[[Difference], object], str | Callable[[Difference], Advice]]

# In the order in which they are tried: when a rule applies, and what to do.
RULES: list[_Rule] = [
    # What is made again, or cannot be shared.
    (
        lambda d: d.is_static and re.match(r"equinox\.nn\..*\.State(Index)?$", d.holder),
        "make the model and its state by equinox.nn.make_with_state, once",
    ),
    (
        lambda d: d.redefined,
        "define class {d.redefined} once, in a module that is imported: a loop or a notebook cell "
        "that runs again makes another class",
    ),
    (
        lambda d: d.counter,
        "to count traces, write canonopt.compile_log in place of {d.counter}: a function that "
        "changes something while it is traced is not shared",
    ),
    (lambda d: d.why_not_shared, "{d.path} is new each time: {d.why_not_shared}"),
    # Optimizers and schedules.
    (lambda d: d.parameter and d.is_of_numbers, _parameter_as_dynamic),
    (
        lambda d: d.captured and d.is_of_numbers,
        lambda d: _jit(d, f"{_BUILD.format(d=d)}, {_DYNAMIC}"),
    ),
    (
        lambda d: d.kind == "transformation" and d.is_of_numbers,
        f"{_BUILD}, {_DYNAMIC}{{d.in_subclass_of_flax}}{{d.not_static}}{{d.but_changed}}",
    ),
    (
        lambda d: d.kind == "transformation" and d.visible,
        "build {d.path} once: another configuration is another program",
    ),
    (lambda d: d.kind == "transformation", _transformation),
    # Functions that are jitted, and those among the arguments.
    (
        lambda d: d.is_function and d.way[-1].name == "captured variable 'argnums'",
        "make each gradient function once: other argnums are another program",
    ),
    (
        lambda d: d.is_function and "property" in (d.after.made or ""),
        "a property makes the function at each access: make it once, as "
        "functools.cached_property does",
    ),
    (lambda d: d.is_function and d.is_jitted_elsewhere, "define and jit the function once"),
    (
        lambda d: d.jitted_global,
        "define {d.jitted_global} once, in a module that is imported: it is jitted, and reads what "
        "may change",
    ),
    (
        lambda d: d.array_of_global,
        "pass {d.array_of_global} to the function as an argument: it is another array now",
    ),
    (
        lambda d: d.is_function and (d.is_jitted_by_canonopt or not d.is_same_to_canonopt),
        "jit one function, and pass what differs as an argument",
    ),
    (lambda d: d.is_function, _jit),
    (lambda d: d.kind == "callable", _callable),
    # Static values.
    (
        lambda d: d.is_order_of_keys,
        "give {d.path} its keys in one order, or make it a dict, which JAX sorts",
    ),
    (
        lambda d: d.is_static and d.before.text == d.after.text and d.before.is_unique,
        "keep one instance for {d.path}, or give its class __eq__ and __hash__",
    ),
    (lambda d: d.is_static, "give {d.path} one value: {d.of_static}"),
    # Numbers and arrays.
    (
        lambda d: d.kind == "weak type" and not d.has_number and d.is_made_weak,
        "give {d.path} a dtype where it is made: a number has none",
    ),
    (lambda d: d.becomes_array, _as_array),
    (lambda d: d.kind == "weak type", _strong),
    (
        lambda d: d.kind == "dtype" and (d.before.is_key or d.after.is_key),
        "make {d.path} in one style in every call: jax.random.key(seed)",
    ),
    (lambda d: d.is_of_x64, ""),
    (lambda d: d.kind == "dtype" and d.wide, _narrow),
    (
        lambda d: d.is_widened_by_step and "apply_updates" in d.new.caller.names | d.new.names,
        _apply_updates,
    ),
    (
        lambda d: d.is_widened_by_step,
        "what the function returned for {d.path} is {d.after.dtype}: cast it to {d.before.dtype} "
        "there, or what it is computed from",
    ),
    (lambda d: d.kind == "dtype", _one_dtype),
    (lambda d: d.kind in _PLACES, _place),
    (lambda d: d.kind == "shape", "pad or drop what is left over, so that {d.root} has one shape"),
    # Structure.
    (lambda d: d.place.startswith(GIVEN), "pass {d.path} the same way in every call"),
    (
        lambda d: d.is_other_optimizer,
        "one program for each optimizer: {d.state} is the state of another one",
    ),
    (
        lambda d: d.kind in _STRUCTURE and d.in_state and (misfits(d.old) or misfits(d.new)),
        lambda d: Advice(hint=_INIT.format(state=d.state)),
    ),
    # The key has no defaults, so an argument that is left out is not the same as its default.
    (
        lambda d: d.kind == "structure" and d.is_missing and d.path == d.root,
        "pass {d.path} in every call or in none",
    ),
    (
        lambda d: d.kind == "none",
        "give {d.root} one structure from the first call on: None and a leaf differ",
    ),
    (lambda d: d.kind == "structure", "give {d.root} one structure from the first call on"),
    # What is around a call.
    (
        lambda d: d.kind == "cleared",
        "no jax.clear_caches() between the calls: it drops every program",
    ),
    (lambda d: d.kind == "options", "jit the function once, with one set of options"),
    (
        lambda d: d.place == TRANSFORMS,
        "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted "
        "function is a program of its own",
    ),
    (
        lambda d: d.is_missing,
        "import everything before the first call: a module that was imported since then, such as "
        "equinox, added this setting to those that JAX compares",
    ),
    (
        lambda d: "jax_" in d.path,
        "jax.config.update({d.path!r}, ...) once, before the first call",
    ),
    (
        lambda d: d.is_with_and_without_mesh,
        "jax.set_mesh(mesh) once, before the first call, or `with jax.set_mesh(mesh):` around "
        "each call, also where it is lowered",
    ),
    (lambda d: "mesh" in d.path, "jax.set_mesh(mesh) once, before the first call"),
    (lambda d: True, "the same {d.path} in every call"),
]
_STRUCTURE = ("structure", "none")


def advice(d: Difference) -> Advice:
    told = next(told for applies, told in RULES if applies(d))
    return Advice(hint=told.format(d=d)) if isinstance(told, str) else told(d)


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
    told = advice(d)
    return Change(d.path, d.kind, *d.texts, told.fix, told.hint, wanted(d))


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
