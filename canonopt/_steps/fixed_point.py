"""An optimizer state whose structure, types and shardings an update preserves.

`jax.jit` keys on each leaf's shape, dtype, weak type, sharding and commitment. `optim.init` and
`optim.update` may choose them differently; then the second step is traced or compiled again. So
the state of `optim.init` is converted until an update preserves it: a fixed point.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
from jax.sharding import NamedSharding

from .._errors import UnsettledStateError
from .placement import (
    as_type,
    commit,
    known_shardings,
    make_in_place,
    sharding_of_scalars,
    strongly_typed,
    struct_of,
    type_of,
    with_sharding,
    with_sharding_of,
)
from .update import Update

# What one leaf widens may widen another in the next round. More rounds than this are no widening.
_MAX_ROUNDS = 8


def preserved_state(
    optim: optax.GradientTransformation,
    params: Any,
    grads: Any,
    loss: jax.ShapeDtypeStruct,
    extra_args: Mapping[str, Any],
) -> optax.OptState:
    """A state for `params` whose structure, types and shardings an update preserves.

    **Arguments:**

    - `params`: the leaves that get a gradient. Arrays, tracers, or anything `optim.init` takes.
    - `grads`: their gradients, as `jax.ShapeDtypeStruct`s.
    - `loss`: the shape and dtype of the loss.
    - `extra_args`: the extra arguments of the update, without those that come from the loss.
    """
    sharding = sharding_of_scalars(params)
    if isinstance(sharding, NamedSharding):
        grads = jax.tree.map(with_sharding_of, grads, params)
        return _state_on_mesh(Update(optim, params, grads, loss, extra_args), params, sharding)
    update = Update(optim, params, grads, loss, extra_args)
    state = optim.init(params)
    if sharding is not None:
        state = commit(state, sharding)
    types, _ = _preserved_types(update, jax.tree.map(struct_of, state))
    leaves, structure = jax.tree.flatten(state)
    del state
    # One by one, so that a narrow leaf is freed before the next one is widened.
    for i, wanted in enumerate(jax.tree.leaves(types)):
        leaves[i] = as_type(leaves[i], wanted)
    return jax.tree.unflatten(structure, leaves)


# --- types ------------------------------------------------------------------------------------


def _preserved_types(update: Update, initial: Any) -> tuple[Any, jax.stages.Traced]:
    """The types that an update preserves, from those of the initial state on, and that update."""
    # Weak types come from an `init` that writes a constant, and seldom survive an update.
    types = jax.tree.map(strongly_typed, initial)
    rounds = 0
    while True:
        rounds += 1
        traced = update.trace(types)
        after = traced.out_info
        if jax.tree.structure(after) != jax.tree.structure(types):
            raise _changed_structure(types, after)
        if _types(after) == _types(types):
            return types, traced
        wider = jax.tree.map(_wider, initial, types, after)
        if rounds == _MAX_ROUNDS or _types(wider) == _types(types):
            raise _changed_types(types, after)
        types = wider


def _types(tree: Any) -> list[Any]:
    return list(map(type_of, jax.tree.leaves(tree)))


def _wider(initial: Any, before: Any, after: Any) -> Any:
    """The type to try next, which holds every value of the type `before`."""
    if after.weak_type:  # preserved only if `init` makes it weakly typed too
        return initial if initial.weak_type else before
    if before.shape != after.shape or not _holds(after.dtype, before.dtype):
        return before
    return jax.ShapeDtypeStruct(after.shape, after.dtype, sharding=before.sharding)


def _holds(wide: Any, narrow: Any) -> bool:
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in (wide, narrow)):
        return wide == narrow  # random keys have no promotion
    try:
        with jax.numpy_dtype_promotion("standard"):
            return jnp.promote_types(narrow, wide) == wide
    except ValueError:  # JAX promotes no float8 types
        return np.can_cast(narrow, wide)


def _changed_types(before: Any, after: Any) -> UnsettledStateError:
    pairs = zip(jtu.tree_leaves_with_path(before), jtu.tree_leaves(after), strict=True)
    changes = [
        (path, _text(old), _text(new)) for (path, old), new in pairs if type_of(old) != type_of(new)
    ]
    return _unsettled(
        "The update changes the types of its own state, so the second step is traced again:",
        changes,
        "Make `init` and `update` of the transformation agree on these leaves.",
    )


def _changed_structure(before: Any, after: Any) -> UnsettledStateError:
    old, new = (dict(jtu.tree_leaves_with_path(tree)) for tree in (before, after))
    changes = [(path, _text(leaf), "missing") for path, leaf in old.items() if path not in new]
    changes += [(path, "missing", _text(leaf)) for path, leaf in new.items() if path not in old]
    if not changes:  # the leaves agree, the containers differ
        changes = [((), str(jax.tree.structure(before)), str(jax.tree.structure(after)))]
    return _unsettled(
        "The update changes the structure of its own state, so the second step is traced again:",
        changes,
        "Make `init` of the transformation return what `update` returns.",
    )


def _unsettled(problem: str, changes: list[tuple[Any, str, str]], fix: str) -> UnsettledStateError:
    lines = [f"  {old} -> {new} @ opt_state{jtu.keystr(path)}" for path, old, new in changes]
    path, before, after = changes[0]
    return UnsettledStateError(
        "\n".join((problem, *lines)),
        fix,
        path=f"opt_state{jtu.keystr(path)}",
        before=before,
        after=after,
    )


def _text(leaf: Any) -> str:
    weak = ", weak" if leaf.weak_type else ""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]{weak}"


# --- on a mesh --------------------------------------------------------------------------------


def _state_on_mesh(update: Update, params: Any, sharding: NamedSharding) -> Any:
    """The state on a mesh, where no leaf is ever whole on one device unless it is replicated.

    Only the compiler knows the sharding that an update gives to a leaf that matches no parameter,
    so the update is compiled if there is such a leaf.
    """
    try:
        # A new function each time, or JAX would find the trace of another call in its cache.
        init = jax.jit(lambda params: update.optim.init(params)).trace(params)
    except Exception as error:
        error.add_note("canonopt was tracing the init of the optimizer, as it does on a mesh.")
        raise
    leaves, structure = jax.tree.flatten(init.out_info)
    shardings = known_shardings(init.out_info, params, sharding)
    if None in shardings:
        types, traced = _preserved_types(update, init.out_info)
        compiled = jax.tree.leaves(traced.lower().compile().output_shardings)
        # A leaf that depends on no parameter is compiled for one device, an arbitrary one.
        compiled = [s if s.device_set == sharding.device_set else sharding for s in compiled]
        shardings = [known or after for known, after in zip(shardings, compiled, strict=True)]
    else:
        placed = map(with_sharding, leaves, shardings)
        types, _ = _preserved_types(update, jax.tree.unflatten(structure, placed))
    wanted = list(map(with_sharding, jax.tree.leaves(types), shardings))
    made = make_in_place(init, jax.tree.leaves(params), wanted)
    return jax.tree.unflatten(structure, made)
