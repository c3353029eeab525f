"""Types and shardings of leaves, as `jax.jit` compares them, and conversions of leaves to them.

`apply_updates` adds updates to a model and keeps its types.
"""

import functools
from typing import Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax.sharding import NamedSharding, Sharding

from .._texts import text_of
from ..errors import UpdatesError

_Model = TypeVar("_Model")
_Path = tuple[Any, ...]


def struct_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the type of a leaf, with the sharding of the leaf if it is committed."""
    return with_sharding(jax.typeof(leaf), sharding_of(leaf))


def sharding_of(leaf: Any) -> Sharding | None:
    """Return the sharding of a committed array or a `ShapeDtypeStruct`; None for any other leaf."""
    is_concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    is_known = leaf.committed if is_concrete else isinstance(leaf, jax.ShapeDtypeStruct)
    return leaf.sharding if is_known else None


def with_sharding(leaf: Any, sharding: Sharding | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type, sharding=sharding)


def strongly_typed(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the shape, dtype and sharding of a leaf, without its weak type."""
    struct = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else struct_of(leaf)
    return jax.ShapeDtypeStruct(struct.shape, struct.dtype, sharding=struct.sharding)


def type_of(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False))  # random keys lack it


def types_of(tree: Any) -> list[Any]:
    return [*map(type_of, jax.tree.leaves(tree))]


def as_type(leaf: Any, wanted: Any) -> Any:
    """Return `leaf` with the dtype and the weak type of `wanted`."""
    if isinstance(leaf, jax.Array) and type_of(jax.typeof(leaf)) == type_of(wanted):
        return leaf
    # The function `convert_element_type` cannot make an array weakly typed.
    return jax.lax.convert_element_type_p.bind(
        jnp.asarray(leaf), new_dtype=wanted.dtype, weak_type=wanted.weak_type, sharding=None
    )


def uncommitted(array: Any) -> jax.Array:
    """Return `array` as an uncommitted array. A committed array is copied through the host."""
    if isinstance(array, jax.Array) and not array.committed:
        return array
    # Not `jnp.asarray`, which compiles a copy for each shape.
    if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return as_type(jax.device_put(np.array(array)), jax.typeof(array))
    data = jax.device_put(np.array(jax.random.key_data(array)))
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))


def is_abstract(tree: Any) -> bool:
    """Return True if a tree has a `jax.ShapeDtypeStruct` in place of an array."""
    return any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(tree))


# --- captured arrays --------------------------------------------------------------------------


def as_argument(array: jax.Array, given: list[jax.Array], donates: bool) -> Any:
    """Return the argument for a captured array, in a call that also gets the arrays `given`.

    Returns None if an argument would act differently from the constant that `jax.jit` makes.
    """
    if isinstance(array, jax.core.Tracer):
        return array
    if not array.committed or is_with_any(array, given):
        # The call may also get the captured array as an argument, and donate it.
        return as_type(jnp.copy(array), array) if donates else array
    # A committed argument commits the results to its devices; a constant does not. So return an
    # uncommitted copy, or None if a copy loses the memory kind, the aval's sharding or shards.
    memory = next(iter(array.devices())).default_memory().kind
    is_plain = array.sharding.memory_kind in (None, memory) and array.is_fully_addressable
    is_typed = any(jax.typeof(array).sharding.spec)
    return uncommitted(array) if is_plain and not is_typed else None


def is_with_any(array: jax.Array, given: list[jax.Array]) -> bool:
    """Return True if an array in `given` commits a program to the devices of `array`.

    A tracer does not count, since it does not say where its array will be.
    """
    devices, shardings = devices_of(array.sharding), map(sharding_of, given)
    return any(devices_of(other) == devices for other in shardings if other is not None)


def devices_of(sharding: Sharding) -> tuple[Any, ...]:
    """Return the devices of a program that takes an array of this sharding, in the mesh's order."""
    if isinstance(sharding, NamedSharding):
        mesh: Any = sharding.mesh
        return tuple(mesh.devices.flat)
    return tuple(sharding.device_set)


# --- a model plus updates ---------------------------------------------------------------------


def apply_updates(params: _Model, updates: Any) -> _Model:
    """Return `params` plus `updates`, where each leaf keeps its dtype and its weak type.

    Use it instead of `equinox.apply_updates`, which returns bf16 parameters as f32 if the updates
    are f32, so the next step is traced again. The results are those of `optax.apply_updates`: the
    sum is computed in the wider dtype and rounded to the dtype of the parameter. There is one
    difference: weakly typed parameters stay weakly typed. Optax makes them strongly typed, so the
    next step is traced again.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> model = {"weight": jnp.ones(2, jnp.bfloat16), "steps": jnp.arange(2), "name": "a layer"}
    >>> updates = {"weight": jnp.full(2, 0.5), "steps": None, "name": None}
    >>> canonopt.apply_updates(model, updates)["weight"]
    Array([1.5, 1.5], dtype=bfloat16)

    ```

    **Arguments:**

    - `params`: the model, any pytree. `None` stays `None`.
    - `updates`: a pytree of the same structure, for example what `optim.update` returns for the
        gradients of `equinox.filter_grad`. `None` keeps a leaf or subtree of the model as it is.
        Leaves that are neither arrays nor numbers need `None`.

    **Returns:** a pytree of the type of `params`. Each sum is a `jax.Array`, even for NumPy arrays.
    The sum for a Python number in the model is weakly typed, as in a trace. If the leaf or its
    update is a `jax.ShapeDtypeStruct`, the sum is a struct too, with the sharding of the leaf.

    **Raises:** `UpdatesError`, with the path of a leaf, if the updates do not match the model.
    """
    with_none = jtu.tree_leaves_with_path(updates, lambda node: node is None)
    kept = {path for path, update in with_none if update is None}
    leaves, structure = jtu.tree_flatten_with_path(
        params, lambda path, node: node is None or path in kept, is_leaf_takes_path=True
    )
    try:
        matching = structure.flatten_up_to(updates)
    except ValueError as error:
        raise _mismatch(*_first_difference(params, updates)) from error
    updated = [
        leaf if leaf is None or update is None else _updated(path, leaf, update)
        for (path, leaf), update in zip(leaves, matching, strict=True)
    ]
    return jtu.tree_unflatten(structure, updated)


def _updated(path: _Path, leaf: Any, update: Any) -> Any:
    if is_abstract((leaf, update)):
        total = jax.eval_shape(functools.partial(_updated, path), leaf, update)
        return with_sharding(total, sharding_of(leaf))
    try:
        # `optax.apply_updates` gives the same numbers, but its results are never weakly typed.
        before = jax.typeof(jnp.asarray(leaf))
        total = jnp.asarray(leaf + update).astype(before.dtype)
    except (TypeError, ValueError) as error:
        raise _mismatch(path, text_of(leaf), text_of(update)) from error
    return as_type(total, before)


# --- updates that do not match ----------------------------------------------------------------


def _mismatch(path: _Path, before: str, after: str) -> UpdatesError:
    where = f"model{jtu.keystr(path)}"
    return UpdatesError(
        f"The updates do not match the model: {where} is {before}, and its update is {after}.",
        "Pass what optim.update returns for the gradients of this model, with None where the model "
        "is to stay as it is.",
        path=where,
        before=before,
        after=after,
    )


def _first_difference(model: Any, updates: Any) -> tuple[_Path, str, str]:
    """Return the path where the structures differ, and texts of the two leaves or nodes there."""
    in_model, in_updates = _nodes(model), _nodes(updates)
    kept = {path for path, node in in_updates.items() if node == jtu.tree_structure(None)}
    for path, leaf in jtu.tree_leaves_with_path(model):
        if path not in in_updates and kept.isdisjoint(path[:i] for i in range(len(path))):
            return path, text_of(leaf), "missing"
    for path, update in jtu.tree_leaves_with_path(updates):
        if path not in in_model:
            return path, "missing", text_of(update)
    both = in_model.keys() & in_updates.keys() - kept
    path = next(
        path for path, node in in_model.items() if path in both and node != in_updates[path]
    )
    return path, str(in_model[path]), str(in_updates[path])


def _nodes(tree: Any) -> dict[_Path, Any]:
    """Return the structure of each node without its children, and of each leaf, by path."""
    nodes = {}

    def note(path: _Path, node: Any) -> bool:
        nodes[path] = jtu.tree_structure(node, lambda inner: inner is not node)
        return False

    jtu.tree_flatten_with_path(tree, note, is_leaf_takes_path=True)
    return nodes
