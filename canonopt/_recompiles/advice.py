"""What reports say of a difference between two calls: a `Change`, with the line to write.

`cause_lines` renders changes and advice for every report.
"""

import re
from collections.abc import Sequence
from typing import Literal

import attrs
import jax.numpy as jnp

from .call_key import CallKey, is_inside
from .records import Array, Node, Nothing, Record, Static


@attrs.frozen
class Change:
    """One difference between two calls, and what to write.

    `kind` is one of: structure, none, shape, dtype, weak type, scalar, static value, callable,
    transformation, function, sharding, commitment, memory kind, layout, options, context.
    """

    path: str
    kind: str
    before: str
    after: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.before} -> {self.after}"


@attrs.frozen
class CauseLine:
    """One line of a report about a recompile. `str` of it is the line as plain text."""

    role: Literal["change", "note", "fix"]
    text: str

    def __str__(self) -> str:
        return f"write: {self.text}" if self.role == "fix" else self.text


def cause_lines(
    changes: Sequence[Change], note: str | None, fixes: Sequence[str], most: int = 3
) -> list[CauseLine]:
    """The first changes or the lines of the note, then what to write; at most `most` of each."""
    shown = [f"{'also ' if i else ''}{change}" for i, change in enumerate(changes[:most])]
    if len(changes) > most:
        shown.append(f"and {len(changes) - most} more differences")
    noted = [line for line in (note or "").splitlines() if line.strip()][:most]
    return [
        *(CauseLine("change", text) for text in shown),
        *(CauseLine("note", text) for text in noted),
        *(CauseLine("fix", text) for text in fixes[:most]),
    ]


# --- what to write ----------------------------------------------------------------------------

# A record keeps no value, so a number is recognized by its text.
_NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")


def state_advice(path: str = "opt_state") -> str:
    """For an optimizer state at `path`, which is named if one can assign to it."""
    name = path if path.replace(".", "").isidentifier() else "opt_state"
    return f"{name} = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"


def failure_advice(key: CallKey | None) -> tuple[str, ...]:
    """For a trace that failed: the state's advice if a state in the call misfits its model."""
    return (state_advice(),) if key is not None and _state_misfits_model(key) else ()


def _state_misfits_model(key: CallKey) -> bool:
    """Whether a state has a leaf where the model gets no gradient, or lacks one where it does.

    A state repeats the structure of the model: below a node of the model's type, for example at
    `opt_state[0].mu`, the same steps lead to leaves.
    """
    in_states = {path: r for path, r in key.records.items() if is_inside(path, key.states)}
    holders = {path[: step.start()] for path in key.states for step in _STEPS.finditer(path)}
    for model, node in key.records.items():
        *_, last = (0, *(step.start() for step in _STEPS.finditer(model)))
        # A train state holds the model in a field. A node further inside is no model, though its
        # type may be that of a node in the state: all dicts have one type.
        is_outermost = last == 0 or model[:last] in holders
        if not isinstance(node, Node) or not is_outermost or model in holders | key.states:
            continue
        leaves = {p.removeprefix(model): r for p, r in key.records.items() if is_inside(p, {model})}
        copies = {path for path, record in in_states.items() if record == node}
        # Not the nodes inside of these, which may have the same type: all dicts do.
        for copy in (path for path in copies if not is_inside(path, copies)):
            if any(_misfits(in_states.get(copy + steps), leaf) for steps, leaf in leaves.items()):
                return True
    return False


def _misfits(in_state: Record | None, in_model: Record) -> bool:
    gets_gradient = isinstance(in_model, Array) and in_model.dtype.startswith(_INEXACT)
    # Under `equinox.filter_jit` a leaf of the model that is no array is static.
    if isinstance(in_state, Array):
        return not gets_gradient and isinstance(in_model, Array | Nothing | Static)
    return isinstance(in_state, Nothing) and gets_gradient


_STEPS = re.compile(r"[.\[]")  # where the steps of a path begin
_INEXACT = ("float", "bfloat", "complex")


def class_advice(node: Node) -> str:
    name = node.type.rpartition(".")[2]
    return (
        f"define class {name} once: a loop or a notebook cell that runs again makes another class"
    )


def context_advice(name: str) -> str:
    if "jax_" in name:
        return f"jax.config.update({name!r}, ...) once, before the first call"
    if name in ("mesh", "with mesh"):
        return "jax.set_mesh(mesh) once, before the first call"
    return f"the same {name} in every call"


APPLY_ADVICE = (
    "canonopt.apply_updates(model, updates) in place of eqx.apply_updates(model, updates): the "
    "model keeps its dtypes"
)


def is_widened_by_step(before: Record | None, after: Record | None, old: CallKey) -> bool:
    """Whether a parameter became wider because a wider update was added to it.

    It did if the earlier call, an optimizer step, returned more arrays of the wider type than it
    was given. A wider batch does not come from there.
    """
    if not isinstance(before, Array) or not isinstance(after, Array) or not old.states:
        return False
    if not (before.dtype.startswith(_INEXACT) and after.dtype.startswith(_INEXACT)):
        return False
    is_wider = jnp.dtype(after.dtype).itemsize > jnp.dtype(before.dtype).itemsize
    wide = (after.shape, after.dtype)
    given = [(r.shape, r.dtype) for r in old.records.values() if isinstance(r, Array)]
    return is_wider and old.returned[wide] > given.count(wide)


OPTIONS_ADVICE = "jit the function once, with one set of options"
TRANSFORM_ADVICE = (
    "jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted function is "
    "a program of its own"
)


def leaf_advice(kind: str, argument: str, before: Record | None, after: Record | None) -> str:
    """For a leaf or a node of `argument`, outside of optimizer states."""
    if kind == "structure":
        return f"give {argument} one structure from the first call on"
    if kind == "none":
        return f"give {argument} one structure from the first call on: None and a leaf differ"
    if kind == "shape":
        return f"pad or drop what is left over, so that {argument} has one shape"
    if kind == "dtype":
        assert isinstance(before, Array) and isinstance(after, Array)
        # A key of `jax.random.PRNGKey` is an array of uint32. `astype` makes no typed key of it.
        if before.is_key or after.is_key:
            return f"{argument} with keys of one style: jax.random.key(seed)"
        return f"{argument} in one dtype: .astype(jnp.{before.dtype})"
    if kind == "weak type":
        return f"{argument} = canonopt.canonicalize({argument})"
    if kind == "scalar":
        return f"{argument} always as an array: jnp.asarray({argument}, dtype)"
    if kind == "memory kind":
        return f"jax.device_put({argument}, sharding) with one memory kind, before the first call"
    if kind == "layout":
        return f"jax.device_put({argument}, format) with one layout, before the first call"
    return (
        f"jax.device_put({argument}, sharding) before the first call, or jax.jit(step, "
        "out_shardings=...) so that a step returns what it takes"
    )


@attrs.frozen
class StaticDifference:
    """Two static values that differ, and where in them."""

    before: Static
    after: Static
    # The outermost functions or transformations on the way to what differs, or the values.
    old_function: Static
    new_function: Static
    # The innermost parts of these that look different, if any do.
    visible: tuple[Static, Static] | None
    # The class that was defined again between the two calls, if that is what differs.
    redefined: Node | None

    @property
    def is_of_numbers(self) -> bool:
        return self.visible is not None and all(_NUMBER.fullmatch(s.text) for s in self.visible)

    @property
    def is_same_to_canonopt(self) -> bool:
        # Keys may be equal though a global, or a variable that several functions capture, changed.
        same_key = self.old_function.key is not None and (
            self.old_function.key == self.new_function.key
        )
        return same_key and self.visible is None


def static_advice(kind: str, path: str, argument: str, found: StaticDifference) -> str:
    """For a static value at `path` in `argument`."""
    before, after, function = found.before, found.after, found.old_function
    if found.redefined is not None:
        return class_advice(found.redefined)
    # If something visible differs, these are two configurations, and nothing would merge them.
    is_built_again = function.key != found.new_function.key and found.visible is None
    if function.why_not_shared is not None and is_built_again:
        return f"{path} is new each time: {function.why_not_shared}"
    if kind == "transformation":
        where = f"{path} =" if function is before else f"in {argument}:"
        if found.is_of_numbers:
            return (
                f"{where} canonopt.adam(canonopt.dynamic(lr)), and so on: a dynamic value may "
                "change without a new trace"
            )
        return (
            f"{where} canonopt.adam(...) in place of optax.adam(...), and so on: the same "
            "configuration is the same object"
        )
    if kind == "function":
        if found.is_same_to_canonopt:
            return (
                "canonopt.jit in place of jax.jit, canonopt.filter_jit in place of "
                "equinox.filter_jit: functions that do the same run one program"
            )
        # If the functions differ, the program of the first one has the values of the first one.
        return "jit one function, and pass what differs as an argument"
    if kind == "callable":
        if found.is_same_to_canonopt:
            make = "hoist" if path == argument else "canonicalize"
            line = f"{argument} = canonopt.{make}({argument})"
            return f"{line}: functions that behave the same become one object"
        return f"build {path} once, or pass what differs in it as an array argument"
    if before.text == after.text and before.is_unique:
        return f"keep one instance for {path}, or give its class __eq__ and __hash__"
    if any(_NUMBER.fullmatch(static.text) for static in (before, after)):
        why = "a static number is part of the program"
        if path == argument:
            return f"jnp.asarray({argument}) as an ordinary argument: {why}"
        return f"give {path} one value, or make it an array: {why}"
    return f"give {path} one value, or pass what changes as an array"
