"""`apply_updates`: a model plus updates, with the types that its leaves had before."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu

from .._errors import UpdatesError
from .placement import as_type

_Model = TypeVar("_Model")
_Path = tuple[Any, ...]


def apply_updates(model: _Model, updates: Any) -> _Model:
    """`model` plus `updates`, where each leaf of the model keeps its dtype and its weak type.

    Use it instead of `equinox.apply_updates`, which returns bf16 parameters as f32 if the updates
    are f32, so the next step is traced again. The numbers are those of `optax.apply_updates`: the
    sum is computed in the wider dtype and rounded to the dtype of the parameter.

    ```python
    >>> import canonopt, jax.numpy as jnp
    >>> model = {"weight": jnp.ones(2, jnp.bfloat16), "steps": jnp.arange(2), "name": "a layer"}
    >>> updates = {"weight": jnp.full(2, 0.5), "steps": None, "name": None}
    >>> canonopt.apply_updates(model, updates)["weight"]
    Array([1.5, 1.5], dtype=bfloat16)

    ```

    **Arguments:**

    - `model`: any pytree. `None` stays `None`.
    - `updates`: a pytree of the same structure, for example what `optim.update` returns for the
        gradients of `equinox.filter_grad`. `None` leaves the leaf, or the part of the model, at its
        place as it is; leaves that are not arrays or numbers need that.

    **Returns:** a pytree of `model`'s type. The sums are arrays, also those of NumPy arrays and
    Python numbers, which become weakly typed as in a trace.

    **Raises:** `UpdatesError` if the updates do not match the model, with the path of a leaf.
    """
    kept = {path for path, update in _leaves_or_none(updates) if update is None}
    leaves, structure = jtu.tree_flatten_with_path(
        model, lambda path, node: node is None or path in kept, is_leaf_takes_path=True
    )
    try:
        matching = structure.flatten_up_to(updates)
    except ValueError as error:
        raise _mismatch(*_first_difference(model, updates)) from error
    updated = [
        leaf if leaf is None or update is None else _updated(path, leaf, update)
        for (path, leaf), update in zip(leaves, matching, strict=True)
    ]
    return jtu.tree_unflatten(structure, updated)


def _leaves_or_none(tree: Any) -> list[tuple[_Path, Any]]:
    return jtu.tree_leaves_with_path(tree, lambda node: node is None)


def _updated(path: _Path, leaf: Any, update: Any) -> jax.Array:
    try:
        # The numbers of `optax.apply_updates`, whose results are never weakly typed.
        before = jax.typeof(jnp.asarray(leaf))
        total = jnp.asarray(leaf + update).astype(before.dtype)
    except (TypeError, ValueError) as error:
        raise _mismatch(path, eqx.tree_pformat(leaf), eqx.tree_pformat(update)) from error
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
    """Where the structures differ, and what is there: a leaf if possible, or else a node."""
    in_model, in_updates = _nodes(model), _nodes(updates)
    for path, leaf in _leaves_or_none(model):
        if path not in in_updates and leaf is not None:
            return path, eqx.tree_pformat(leaf), "missing"
    for path, update in _leaves_or_none(updates):
        if path not in in_model and update is not None:
            return path, "missing", eqx.tree_pformat(update)
    path = next(path for path, node in in_model.items() if node != in_updates[path])
    return path, str(in_model[path]), str(in_updates[path])


def _nodes(tree: Any) -> dict[_Path, Any]:
    """Each node and leaf, without what is inside, by path."""
    nodes = {}

    def note(path: _Path, node: Any) -> bool:
        nodes[path] = jtu.tree_structure(node, lambda inner: inner is not node)
        return False

    jtu.tree_flatten_with_path(tree, note, is_leaf_takes_path=True)
    return nodes
