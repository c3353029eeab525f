"""What to do about a difference between two calls: a line to paste, or words.

Words are for where no line is sure to work.
"""

import contextlib
import re

import attrs
import jax.numpy as jnp

from .._jax_internals import Array, code_of_sharding
from .._python_internals import MODULES, loaded
from .call_key import INEXACT, CallKey, is_inside, state_misfits_model
from .causes import COMMITTED_BY_ORBAX, Advice
from .records import (
    Node,
    Record,
    Scalar,
    Static,
    StaticDifference,
    as_traced,
    node_of,
)

# --- lines to paste ---------------------------------------------------------------------------


def _root(path: str, key: CallKey) -> str:
    """The argument that a path begins with: `args[0]` for one of several."""
    given = (name for name in key.caller.arguments if path == name or is_inside(path, {name}))
    return next(given, re.split(r"[.\[]", path)[0])


def _assigning(path: str, code: str, key: CallKey) -> Advice:
    """A line that puts `code` in the place of the leaf at `path`, which `code` names as `{leaf}`.

    It gives the same when it runs again, so that it may stand in a loop.
    """
    root = _root(path, key)
    name, rest = key.caller.arguments.get(root, root), path.removeprefix(root)
    container = key.records.get(path[: max(path.rfind("."), path.rfind("["))])
    if not rest or container in _ASSIGNABLE:
        line = f"{name}{rest} = {code}"
    # A step that cannot be written in Python, or to a variable of Flax.
    elif "<" in rest or root in key.modules_of_flax:
        return Advice(hint=f"replace {path} by {code.format(leaf=path, **_USUAL)} in every call")
    else:
        line = f"{name} = {{eqx}}.tree_at(lambda tree: tree{rest}, {name}, {code})"
    line = key.caller.with_modules(line.replace("{leaf}", f"{name}{rest}"))
    if root in key.caller.arguments:
        return Advice(line)
    # The source of the call does not name what it passes.
    return Advice(hint=f"before the call, for what it passes as {root}: {line}")


_USUAL = {short: short for short in MODULES}
_ASSIGNABLE = (node_of(dict), node_of(list))


def _replacing(module: str, name: str, why: str, key: CallKey) -> Advice:
    """Our function in place of the one of the same name in a module."""
    ours, theirs = (key.caller.name_of(short, name) for short in ("canonopt", module))
    imports = "" if "canonopt" in key.caller.modules else ", after import canonopt"
    return Advice(f"{ours} in place of {theirs}", f"{why}{imports}")


# --- arrays and structure ---------------------------------------------------------------------


def leaf_advice(
    kind: str, path: str, before: Record | None, after: Record | None, old: CallKey, new: CallKey
) -> Advice:
    """For a leaf or a node of an argument."""
    root = _root(path, new)
    in_state = path in new.states or is_inside(path, new.states)
    is_number = isinstance(before, Scalar) or isinstance(after, Scalar)
    if kind == "scalar" or (kind == "weak type" and is_number):
        return _as_array(path, before, after, new)
    if kind == "weak type":
        if root in new.modules_of_flax:
            return Advice(hint=f"give {path} a dtype where it is made: a number has none")
        is_mixed = _has_numbers(root, old) or _has_numbers(root, new)
        if is_mixed or _place_of_settled(before, after, new) is not None:
            return _as_array(path, before, after, new)
        return _assigning(root, "{canonopt}.canonicalize({leaf})", new)
    if kind == "dtype":
        return _one_dtype(path, before, after, old, new)
    if kind in ("sharding", "commitment", "memory kind"):
        return _one_place(path, before, after, old, new)
    if kind == "layout":
        return Advice(hint=f"give {path} one layout: jax.device_put({path}, format)")
    if in_state and kind in ("structure", "none"):
        return Advice(hint=state_hint(path, new))
    if kind == "shape":
        return Advice(hint=f"pad or drop what is left over, so that {root} has one shape")
    # The key has no defaults, so an argument that is left out is not the same as its default.
    if path == root and None in (before, after):
        return Advice(hint=f"pass {path} in every call or in none")
    differ = ": None and a leaf differ" if kind == "none" else ""
    return Advice(hint=f"give {root} one structure from the first call on{differ}")


def _has_numbers(root: str, key: CallKey) -> bool:
    """Whether an argument has Python numbers.

    Then `canonicalize` of a later state, where these are arrays, would give them another type.
    """
    numbers = (path for path, record in key.records.items() if isinstance(record, Scalar))
    return any(path != root and is_inside(path, {root}) for path in numbers)


def state_hint(path: str | None = None, key: CallKey | None = None) -> str:
    name = "opt_state"
    if path is not None and key is not None:
        # The outermost state on the way, as the caller names it.
        state = min((s for s in key.states if path == s or is_inside(path, {s})), key=len)
        root = _root(state, key)
        name = key.caller.arguments.get(root, root) + state.removeprefix(root)
    return (
        f"make {name} by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, "
        "before the first call"
    )


def _as_array(path: str, before: Record | None, after: Record | None, key: CallKey) -> Advice:
    """A Python number becomes an array of the dtype that it has anyway, without a weak type."""
    arrays = [record for record in (before, after) if isinstance(record, Array)]
    # The strong one, if there is one. A weak type follows the other arrays.
    dtype = next((a.dtype for a in arrays if not a.weak_type), arrays[0].dtype if arrays else None)
    types = {record.type for record in (before, after) if isinstance(record, Scalar)}
    if dtype is None and types == {"int", "float"}:
        dtype = str(jnp.result_type(float))
    inexact = dtype is not None and dtype.startswith(INEXACT)
    others = (r for p, r in key.records.items() if isinstance(r, Array) and p != path)
    others = (r for r in others if not r.is_key and r.dtype.startswith(INEXACT) == inexact)
    # An array decides the dtype of a result where a Python number does not.
    promotes = dtype is None or any(_wider(r.dtype, dtype) != r.dtype for r in others)
    if promotes or "bool" in types:
        return Advice(hint=f"pass {path} as an array of one dtype: jnp.asarray({path}, dtype)")
    code = f"{{jnp}}.asarray({{leaf}}, {{jnp}}.{dtype})"
    if (place := _place_of_settled(before, after, key)) is not None:
        code = f"{{jax}}.device_put({code}, {place})"
    return _assigning(path, code, key)


def _place_of_settled(before: Record | None, after: Record | None, key: CallKey) -> str | None:
    """Where a step has put a leaf that was on no device, or anywhere, when it was first given."""
    before, after = as_traced(before, after), as_traced(after, before)
    if not isinstance(before, Array) or not isinstance(after, Array):
        return None
    if before.committed or not after.committed:
        return None
    return code_of_sharding(after.sharding, key.caller.variables)


def _one_dtype(
    path: str, before: Record | None, after: Record | None, old: CallKey, new: CallKey
) -> Advice:
    if not isinstance(before, Array) or not isinstance(after, Array):
        return _as_array(path, before, after, new)
    # A key of `jax.random.PRNGKey` is an array of uint32. `astype` makes no typed key of it.
    if before.is_key or after.is_key:
        return Advice(hint=f"make {path} in one style in every call: jax.random.key(seed)")
    if (wide := _widening(path, before, after, old)) is not None:
        culprit = _assigning(wide, f"{{leaf}}.astype({before.dtype!r})", new)
        return attrs.evolve(culprit, hint=f"{wide} is {after.dtype}, which widens {path}")
    in_state = is_inside(path, new.states)
    if not in_state and _is_widened_by_step(before, after, old):
        why = "the updates are wider than the model, and ours keeps the dtypes of the model"
        return _replacing("eqx", "apply_updates", why, new)
    kinds = [jnp.issubdtype(record.dtype, jnp.inexact) for record in (before, after)]
    common = _wider(before.dtype, after.dtype)
    # A step settles on what it returns. Elsewhere no number is lost in the wider of two dtypes.
    dtype = after.dtype if in_state else common
    if kinds[0] != kinds[1] or dtype not in (before.dtype, after.dtype):
        return Advice(hint=f"give {path} one dtype in every call")
    return _assigning(path, f"{{leaf}}.astype({dtype!r})", new)


def _wider(one: str, other: str) -> str | None:
    """The dtype that two dtypes promote to."""
    with contextlib.suppress(ValueError):  # NumPy has dtypes that JAX lacks
        return str(jnp.promote_types(one, other))
    return None


def _widening(path: str, before: Array, after: Array, old: CallKey) -> str | None:
    """An argument in float64, such as a NumPy array, that an earlier step added to the leaf."""
    if (before.dtype, after.dtype) != ("float32", "float64"):
        return None
    root, records = _root(path, old), old.records.items()
    wide = [p for p, r in records if isinstance(r, Array) and r.dtype == after.dtype]
    if any(_root(p, old) == root or is_inside(p, old.states) for p in wide):
        return None
    is_returned = old.returned[after.shape, after.dtype] > 0
    return wide[0] if len(wide) == 1 and is_returned else None


def _is_widened_by_step(before: Array, after: Array, old: CallKey) -> bool:
    """Whether a parameter became wider because a wider update was added to it.

    The earlier call, an optimizer step, then returned more arrays of the wider type than it got.
    """
    inexact = before.dtype.startswith(INEXACT) and after.dtype.startswith(INEXACT)
    if not old.states or not inexact:
        return False
    is_wider = jnp.dtype(after.dtype).itemsize > jnp.dtype(before.dtype).itemsize
    wide = (after.shape, after.dtype)
    given = [(r.shape, r.dtype) for r in old.records.values() if isinstance(r, Array)]
    return is_wider and old.returned[wide] > given.count(wide)


# --- places -----------------------------------------------------------------------------------


def _one_place(
    path: str, before: Record | None, after: Record | None, old: CallKey, new: CallKey
) -> Advice:
    root = _root(path, new)
    words = f"put {path} in one place before the first call: jax.device_put({path}, sharding)"
    if not isinstance(before, Array) or not isinstance(after, Array):
        return Advice(hint=words)
    # A step settles on where its outputs are. An array that is not committed goes anywhere.
    key, there = (new, after) if after.committed else (old, before)
    if (place := code_of_sharding(there.sharding, new.caller.variables)) is None:
        return Advice(hint=words)
    put = f"{{jax}}.device_put({{leaf}}, {place})"
    arrays = {p: r for p, r in key.records.items() if _root(p, key) == root}
    places = {(r.sharding, r.memory_kind) for r in arrays.values() if isinstance(r, Array)}
    if places == {(there.sharding, there.memory_kind)}:
        # What is no array cannot be put anywhere.
        if key.filtered and any(isinstance(record, Static) for record in arrays.values()):
            put = f"{{eqx}}.filter_shard({{leaf}}, {place})"
        path = root
    advice = _assigning(path, put, new)
    if advice.fix and after.committed and _may_be_restored(root, old, new):
        return attrs.evolve(advice, hint=COMMITTED_BY_ORBAX)
    return advice


def _may_be_restored(root: str, old: CallKey, new: CallKey) -> bool:
    """Whether the caller knows orbax, and nothing of an argument was committed before."""
    was = (r for p, r in old.records.items() if _root(p, old) == root and isinstance(r, Array))
    return "orbax" in new.caller.known_packages and not any(record.committed for record in was)


# --- what is around the leaves ----------------------------------------------------------------


def order_advice(path: str) -> Advice:
    return Advice(hint=f"give {path} its keys in one order, or make it a dict, which JAX sorts")


def keyword_advice(name: str) -> Advice:
    return Advice(hint=f"pass {name} the same way in every call")


def class_advice(node: Node) -> Advice:
    why = "a loop or a notebook cell that runs again makes another class"
    return Advice(hint=f"define class {node.type.rpartition('.')[2]} once: {why}")


def context_advice(name: str) -> Advice:
    if "jax_" in name:
        return Advice(hint=f"jax.config.update({name!r}, ...) once, before the first call")
    if name in ("mesh", "with mesh"):
        return Advice(hint="jax.set_mesh(mesh) once, before the first call")
    return Advice(hint=f"the same {name} in every call")


IMPORT_ADVICE = Advice(
    hint="import everything before the first call: a module that was imported since then, such as "
    "equinox, added this setting to those that JAX compares"
)
OPTIONS_ADVICE = Advice(hint="jit the function once, with one set of options")
TRANSFORM_ADVICE = Advice(
    hint="jax.jit outermost, as in jax.jit(jax.vmap(step)): each transformation of a jitted "
    "function is a program of its own"
)


# --- static values ----------------------------------------------------------------------------

_MODES = (".use_running_average", ".deterministic")


def static_advice(
    kind: str, path: str, found: StaticDifference, old: CallKey, new: CallKey
) -> Advice:
    """For a static value at `path`."""
    before, after, function = found.before, found.after, found.old_function
    root = _root(path, new)
    owner = new.records.get(path.rpartition(".")[0] or path)
    kinds = (loaded("equinox.nn", name) for name in ("StateIndex", "State"))
    if owner in [node_of(kind) for kind in kinds if kind]:
        return Advice(hint="make the model and its state by equinox.nn.make_with_state, once")
    if found.redefined is not None:
        return class_advice(found.redefined)
    if kind == "function" and function.stores:
        names = ", ".join(sorted(function.stores))
        if found.visible is None or (found.name or "").endswith(tuple(map(repr, function.stores))):
            return Advice(
                hint=f"to count traces, write canonopt.compile_log in place of {names}: a function "
                "that stores to a variable while it is traced is not shared"
            )
    # If something visible differs, these are two configurations, and nothing would merge them.
    if function.why_not_shared and found.visible is None and before.kind != "value":
        return Advice(hint=f"{path} is new each time: {function.why_not_shared}")
    if kind == "transformation":
        return _transformation_advice(path, root, found, new)
    if kind == "function":
        return _function_advice(found, function, old, new)
    if kind == "callable":
        is_mixed = root in new.modules_of_flax or _has_numbers(root, new)
        # A value that holds it is neither a function nor a pytree.
        is_inside_value = function is not before and before.kind == "value"
        if found.is_same_to_canonopt and not (is_mixed or is_inside_value):
            make = "hoist" if path == root else "canonicalize"
            return _assigning(root, f"{{canonopt}}.{make}({{leaf}})", new)
        return Advice(hint=f"build {path} once, or pass what differs in it as an array argument")
    if before.text == after.text == "nan":
        name = new.caller.arguments.get(path)
        fix = f"import math; {name} = math.nan" if name else ""
        return Advice(fix, f"pass one NaN object as {path}: NaN is equal only to itself")
    if before.text == after.text and before.is_unique:
        return Advice(hint=f"keep one instance for {path}, or give its class __eq__ and __hash__")
    if path.endswith(_MODES) and {before.text, after.text} == {"True", "False"}:
        # The mode of a module of Flax sets these in its layers.
        mode = "eval" if after.text == "True" else "train"
        # A graph that the user has split off has no methods.
        is_graph = str(new.records.get(root)).endswith(".GraphDef")
        module = "" if is_graph else f"{new.caller.arguments.get(root, root)}."
        return Advice(
            hint=f"call {module}{mode}() before the first step, or keep one program for training "
            "and one for evaluation"
        )
    what = f"give {path} one value"
    if before.is_number or after.is_number:
        unless = "an array, unless a shape, a range or an if needs the number"
        return Advice(hint=f"{what}: it is part of the program. Or pass it as {unless}")
    # A string or a flag is no array.
    if before.text in ("True", "False", "None") or before.text.startswith(("'", '"')):
        return Advice(hint=f"{what}: each is a program of its own")
    return Advice(hint=f"{what}, or pass what changes as an array")


def _transformation_advice(path: str, root: str, found: StaticDifference, new: CallKey) -> Advice:
    names = re.findall(r"[a-z]\w*", found.old_function.text.removeprefix("optax."))
    is_optax = found.old_function.text.startswith("optax.")
    factories = ", ".join(dict.fromkeys(names)) if is_optax else "adam and so on"
    if is_optax and _has_schedule(found.old_function):
        factories += " and its schedule"
    build = f"build {path} with {factories} from canonopt in place of optax"
    if found.is_of_numbers:
        dynamic = "numbers as canonopt.dynamic(number), which may change without a new trace"
        return Advice(hint=f"{build}, and {dynamic}")
    if found.visible is not None:
        return Advice(hint=f"build {path} once: another configuration is another program")
    hint = f"{build}: the same configuration is the same object"
    # Nothing reaches a transformation inside of a value that is no pytree.
    is_inside_value = found.old_function is not found.before or root in new.modules_of_flax
    if is_inside_value or not found.is_same_to_canonopt or _has_numbers(root, new):
        return Advice(hint=hint)
    line = _assigning(root, "{canonopt}.canonicalize({leaf})", new)
    return attrs.evolve(line, hint=hint) if line.fix else Advice(hint=hint)


def _has_schedule(function: Static) -> bool:
    """Whether a schedule of Optax is among the parts of a transformation."""
    parts = function.parts.values()
    return any(".<locals>.schedule" in part.text or _has_schedule(part) for part in parts)


def parameter_advice(spec: str, steps: str, found: StaticDifference, new: CallKey) -> Advice:
    """For a parameter of a spec of ours: the one that `steps` lead to from the path `spec`."""
    path = f"{spec}{steps}"
    if not (found.before.is_number and found.after.is_number):
        return Advice(hint=f"give {path} one value: another one is another program")
    hint = "a dynamic number may change without a new trace"
    # As a static argument, a spec may have no leaves.
    if not new.filtered:
        return Advice(hint=f"give {path} one value, or canonopt.dynamic(number): {hint}")
    name = steps.removeprefix(".")
    given, closing = (f"{name}=", "") if name.isidentifier() else (f"**{{{name!r}: ", "}")
    code = f"{{leaf}}.replace({given}{{canonopt}}.dynamic({{leaf}}{steps}){closing})"
    return attrs.evolve(_assigning(spec, code, new), hint=hint)


_PASS_IT = "jit one function, and pass what differs as an argument"


def _function_advice(
    found: StaticDifference, function: Static, old: CallKey, new: CallKey
) -> Advice:
    if found.name == "captured variable 'argnums'":
        return Advice(hint="make each gradient function once: other argnums are another program")
    is_by_library = bool(new.caller.packages - {"jax", "equinox", "canonopt"})
    # And canonopt does not look into what Equinox has wrapped.
    if is_by_library or new.is_jitted_by_jax or new.is_of_wrapper:
        return Advice(hint="define and jit the function once")
    if not found.is_same_to_canonopt:
        # The program of the first one has the values of the first one.
        why = function.why_not_shared if new.is_jitted_by_canonopt else None
        return Advice(hint=why or _PASS_IT)
    if old.is_jitted_by_canonopt or new.is_jitted_by_canonopt:
        return Advice(hint=_PASS_IT)
    name, module = ("filter_jit", "eqx") if new.filtered else ("jit", "jax")
    return _replacing(module, name, "functions that do the same run one program", new)


def failure_hints(key: CallKey | None) -> tuple[str, ...]:
    """For a trace that failed: the state's advice if a state in the call misfits its model."""
    return (state_hint(),) if key is not None and state_misfits_model(key) else ()
