"""What `jax.jit` keys on, leaf by leaf, and nothing that would keep an argument alive.

A signature is taken from the arguments of one call. It holds for each leaf, static value and node
a record that says what the key says of it: shapes and shardings for arrays, and for what is static
a token that is equal where jit's comparison is.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.core
import jax.tree_util as jtu
import numpy as np
import optax

from .._jax_internals import key_context
from .records import (
    Nothing,
    Record,
    Scalar,
    array_of,
)
from .statics import (
    PARTS,
    node_of,
    static_of,
)
from .texts import field_names


@attrs.frozen
class Signature:
    """One entry of a jit cache."""

    records: Mapping[str, Record]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    context: Mapping[str, str] = attrs.field(factory=dict)
    # The arguments that hold an optimizer state, which come by another remedy than a model.
    states: frozenset[str] = frozenset()
    # Those given by name. For `jax.jit` it is another call than by position.
    by_keyword: frozenset[str] = frozenset()
    # What traces it: the types of the tracers among the arguments.
    tracers: frozenset[str] = frozenset()


def signature_of(
    function: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    is_static: Callable[[str | int], bool] = lambda _: False,
    filtered: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Signature:
    """The signature of one call.

    **Arguments:**

    - `is_static`: whether the argument of this index or name is static as a whole.
    - `filtered`: whether leaves that are no arrays are static, as `equinox.filter_jit` has it.
    - `options`: what else was given to `jax.jit`.
    """
    records: dict[str, Record] = {}
    states = set()
    room = iter(range(PARTS))
    for index, name, value in _named(function, args, kwargs):
        if is_static(name) or (index is not None and is_static(index)):
            records[name] = static_of(value, room)
        else:
            for path, record in _records(value, name, filtered, room):
                records[path] = record
            if _holds_state(value):
                states.add(name)
    if filtered and isinstance(function, eqx.Module):
        records.update(_records(function, "self", filtered, room))
    return Signature(
        records,
        dict(options or {}),
        _context(),
        frozenset(states),
        by_keyword=frozenset(() if filtered else kwargs),
        tracers=frozenset(
            type(leaf).__name__
            for leaf in jtu.tree_leaves((args, kwargs))
            if isinstance(leaf, jax.core.Tracer)
        ),
    )


def _named(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
) -> Iterator[tuple[int | None, str, Any]]:
    """The arguments by the function's own names for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    for i, value in enumerate(args):
        yield i, names[i] if i < len(names) else f"{rest}[{i - len(names)}]", value
    for name, value in kwargs.items():
        yield None, name, value


def _records(
    value: Any, path: str, filtered: bool, room: Iterator[int], seen: tuple[int, ...] = ()
) -> Iterator[tuple[str, Record]]:
    if value is None:
        yield path, Nothing()
        return
    if isinstance(value, jax.Array | np.ndarray):
        yield path, array_of(value)
        return
    children, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if jtu.treedef_is_leaf(structure) or id(value) in seen:
        yield path, _leaf(value, filtered, room)
        return
    if isinstance(value, optax.GradientTransformation):
        leaves = jtu.tree_leaves(value)
        if not any(map(eqx.is_array, leaves)) and (filtered or not leaves):
            yield path, static_of(value, room)  # one thing to its user, and not two functions
            return
    yield path, node_of(type(value))
    for step, static in _static_parts(value, [key for (key,), _ in children], structure):
        yield path + step, static_of(static, room)
    for (key,), child in children:
        yield from _records(child, path + jtu.keystr((key,)), filtered, room, (*seen, id(value)))


STATIC = ".<static>"  # the step to what is static in a node and has no name


def _static_parts(value: Any, keys: list[Any], structure: Any) -> Iterator[tuple[str, Any]]:
    """What is static in a node of a pytree, by field as far as it has fields."""
    if isinstance(value, eqx.Module):
        fields = (f.name for f in dataclasses.fields(value) if f.metadata.get("static", False))
        yield from ((f".{name}", getattr(value, name)) for name in fields if hasattr(value, name))
        return
    _, static = structure.node_data()
    if static is None or type(value) in (dict, list, tuple):
        return
    left = list(static) if type(static) is tuple else [static]
    dynamic = {key.name for key in keys if isinstance(key, jtu.GetAttrKey)}
    if len(dynamic) == len(keys):
        for name in field_names(type(value)):
            held = getattr(value, name, None) if name not in dynamic else None
            found = [i for i, item in enumerate(left) if item is held]
            if held is not None and found:
                yield f".{name}", left.pop(found[0])
    if any(item is not None for item in left):
        yield STATIC, tuple(left) if type(static) is tuple else static


def _leaf(value: Any, filtered: bool, room: Iterator[int]) -> Record:
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return array_of(value)
    if not filtered and isinstance(value, bool | int | float | complex):
        return Scalar(type(value).__name__)
    return static_of(value, room)


# --- surroundings -----------------------------------------------------------------------------


def _holds_state(value: Any) -> bool:
    """Whether a pytree has a node that optax made as a state."""
    found = False

    def look(node: Any) -> bool:
        nonlocal found
        kind = type(node)
        found = found or (
            isinstance(node, tuple) and hasattr(kind, "_fields") and kind.__name__.endswith("State")
        )
        return found

    jtu.tree_leaves(value, is_leaf=look)
    return found


# What JAX has no setting for, in the words of its users.
_AROUND = {
    "mesh_context_manager": "with mesh",
    "xla_metadata_context_manager": "set_xla_metadata",
    "compute_on_context_manager": "compute_on",
    "axis_env_state": "axis names",
}
# Of the settings in the key of a jit cache, those that anybody changes, for where the key itself
# is not to be had. JAX has not all in each version.
_CONTEXT = (
    "jax_enable_x64",
    "jax_explicit_x64_dtypes",
    "jax_default_matmul_precision",
    "jax_default_device",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_debug_key_reuse",
    "jax_check_static_indices",
    "jax_error_checking_behavior_nan",
    "jax_error_checking_behavior_divide",
    "jax_error_checking_behavior_oob",
    "jax_softmax_custom_jvp",
    "jax_allow_f16_reductions",
    "jax_use_shardy_partitioner",
    "jax_use_direct_linearize",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_enable_pgle",
)


def _context() -> dict[str, str]:
    """What a trace depends on beside the call."""
    context = {_AROUND.get(name, name): text for name, text in key_context().items()}
    if not context:
        context = {name: str(getattr(jax.config, name, None)) for name in _CONTEXT}
    context.pop("abstract_mesh_context_manager", None)  # which may be the same as none
    mesh = jax.sharding.get_abstract_mesh()
    return {**context, "mesh": "none" if mesh.empty else str(mesh)}
