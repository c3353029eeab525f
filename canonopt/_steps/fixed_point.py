"""An optimizer state whose structure, types and shardings an update preserves.

The key of `jax.jit` has each leaf's shape, dtype, weak type, sharding and commitment. `optim.init`
and `optim.update` may choose them differently; then the second step is traced or compiled again.
So the state of `optim.init` is converted until an update preserves it: a fixed point.
"""

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
from jax.extend.core import Var, jaxpr_as_fun
from jax.sharding import NamedSharding, SingleDeviceSharding

from .._jax_internals.arrays import array_text
from ..errors import UnsettledStateError
from .leaves import (
    as_type,
    commit,
    is_abstract,
    known_shardings,
    sharding_of_scalars,
    strongly_typed,
    struct_of,
    type_of,
    with_sharding,
    with_sharding_of,
)

# A widened leaf may widen another leaf in the next round. More rounds than this do not help.
_MAX_ROUNDS = 8


def preserved_state(
    optim: optax.GradientTransformation,
    params: Any,
    grads: Any,
    loss: jax.ShapeDtypeStruct,
    extra_args: Mapping[str, Any],
) -> optax.OptState:
    """Return a state for `params` whose structure, types and shardings an update preserves.

    **Arguments:**

    - `params`: the leaves that get a gradient: arrays, tracers, or anything `optim.init` takes. If
        some are `jax.ShapeDtypeStruct`s, so are the leaves of the state: nothing is allocated.
    - `grads`: their gradients, as `jax.ShapeDtypeStruct`s.
    - `loss`: the shape and dtype of the loss.
    - `extra_args`: the extra arguments of the update, without those that come from the loss.
    """
    sharding = sharding_of_scalars(params)
    if isinstance(sharding, NamedSharding):
        grads = jax.tree.map(with_sharding_of, grads, params)
        return _state_on_mesh(Update(optim, params, grads, loss, extra_args), params, sharding)
    update = Update(optim, params, grads, loss, extra_args)
    if is_abstract(params):
        state = jax.tree.map(
            lambda leaf: with_sharding(leaf, sharding), _traced_init(update, params).out_info
        )
        return _preserved_types(update, state)[0]
    state = optim.init(params)
    if sharding is not None:
        state = commit(state, sharding)
    types, _ = _preserved_types(update, jax.tree.map(struct_of, state))
    leaves, structure = jax.tree.flatten(state)
    del state
    # Leaves are widened one by one, so that a narrow leaf is freed before the next is widened.
    for i, wanted in enumerate(jax.tree.leaves(types)):
        leaves[i] = as_type(leaves[i], wanted)
    return jax.tree.unflatten(structure, leaves)


# --- types ------------------------------------------------------------------------------------


def _preserved_types(update: "Update", initial: Any) -> tuple[Any, jax.stages.Traced]:
    """Return the types that an update preserves, starting from `initial`, and the traced update."""
    # Weak types come from an `init` that writes a constant, and seldom survive an update.
    types = jax.tree.map(strongly_typed, initial)
    rounds = 0
    while True:
        rounds += 1
        traced = update.trace(types)
        after = traced.out_info
        if jax.tree.structure(after) != jax.tree.structure(types):
            raise _unsettled(types, after)
        if _types(after) == _types(types):
            return types, traced
        wider = jax.tree.map(_wider, initial, types, after)
        if rounds == _MAX_ROUNDS or _types(wider) == _types(types):
            raise _unsettled(types, after)
        types = wider


def _types(tree: Any) -> list[Any]:
    return list(map(type_of, jax.tree.leaves(tree)))


def _wider(initial: Any, before: Any, after: Any) -> Any:
    """Return the type to try next. It can hold every value of the type `before`."""
    if after.weak_type:  # an update preserves a weak type only if `init` returns one
        return initial if initial.weak_type else before
    if before.shape != after.shape or not _holds(after.dtype, before.dtype):
        return before
    return jax.ShapeDtypeStruct(after.shape, after.dtype, sharding=before.sharding)


def _holds(wide: Any, narrow: Any) -> bool:
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in (wide, narrow)):
        return wide == narrow  # JAX does not promote random keys
    try:
        with jax.numpy_dtype_promotion("standard"):
            return jnp.promote_types(narrow, wide) == wide
    except ValueError:  # JAX does not promote float8 types
        return np.can_cast(narrow, wide)


def _unsettled(before: Any, after: Any) -> UnsettledStateError:
    old, new = (
        {path: array_text(leaf) for path, leaf in jtu.tree_leaves_with_path(tree)}
        for tree in (before, after)
    )
    pairs = {p: (old.get(p, "missing"), new.get(p, "missing")) for p in {**old, **new}}
    changes = {p: pair for p, pair in pairs.items() if pair[0] != pair[1]}
    structures = str(jax.tree.structure(before)), str(jax.tree.structure(after))
    changes = changes or {(): structures}  # leaves agree, but containers differ
    what, fix = "types", "Make `init` and `update` of the transformation agree on these leaves."
    if structures[0] != structures[1]:
        what, fix = "structure", "Make `init` of the transformation return what `update` returns."
    head = f"The update changes the {what} of its own state, so the second step is traced again:"
    lines = [f"  {a} -> {b} @ opt_state{jtu.keystr(path)}" for path, (a, b) in changes.items()]
    path, (one, other) = next(iter(changes.items()))
    path = f"opt_state{jtu.keystr(path)}"
    return UnsettledStateError("\n".join((head, *lines)), fix, path=path, before=one, after=other)


# --- on a mesh --------------------------------------------------------------------------------


def _state_on_mesh(update: "Update", params: Any, sharding: NamedSharding) -> Any:
    """Return the state on a mesh. A leaf is never whole on one device unless it is replicated.

    Only the compiler knows the sharding that an update gives to a leaf that matches no parameter,
    so the update is compiled if there is such a leaf.
    """
    init = _traced_init(update, params)
    leaves, structure = jax.tree.flatten(init.out_info)
    shardings = known_shardings(init.out_info, params, sharding)
    if None in shardings:
        types, traced = _preserved_types(update, init.out_info)
        chosen = jax.tree.leaves(traced.lower().compile().output_shardings)
        # JAX compiles a leaf that depends on no parameter for a single, arbitrary device.
        chosen = [sharding if isinstance(s, SingleDeviceSharding) else s for s in chosen]
        shardings = [known or found for known, found in zip(shardings, chosen, strict=True)]
    else:
        placed = map(with_sharding, leaves, shardings)
        types, _ = _preserved_types(update, jax.tree.unflatten(structure, placed))
    wanted = list(map(with_sharding, jax.tree.leaves(types), shardings))
    if not is_abstract(params):
        wanted = _make_in_place(init, jax.tree.leaves(params), wanted)
    return jax.tree.unflatten(structure, wanted)


def _make_in_place(
    init: jax.stages.Traced, params: list[Any], wanted: list[jax.ShapeDtypeStruct]
) -> list[Any]:
    """Return the result of `init` for `params`, each leaf made with its wanted type and sharding.

    A leaf that is a parameter is not copied. One program computes all other leaves: it takes 0.3 s
    to compile for 800 leaves.
    """
    jaxpr = init.jaxpr.jaxpr
    given = dict(zip(jaxpr.invars, params, strict=True))
    leaves = [given.get(var) if isinstance(var, Var) else None for var in jaxpr.outvars]
    pairs = enumerate(zip(leaves, wanted, strict=True))
    rest = [i for i, (leaf, type_) in pairs if leaf is None or struct_of(leaf) != type_]

    def compute(*params: Any) -> list[Any]:
        state = jaxpr_as_fun(init.jaxpr)(*params)
        return [state[i] for i in rest]

    if rest:
        shardings = [wanted[i].sharding for i in rest]
        # An `init` that is not jitted rounds after each operation. With this option, so does XLA.
        options = {"xla_allow_excess_precision": False}
        computed = jax.jit(compute, out_shardings=shardings, compiler_options=options)(*params)
        for i, leaf in zip(rest, computed, strict=True):
            leaves[i] = as_type(leaf, wanted[i])
    return leaves


def _traced_init(update: "Update", params: Any) -> jax.stages.Traced:
    try:
        # A new lambda is needed each time, or JAX would find the trace of another call.
        return jax.jit(lambda params: update.optim.init(params)).trace(params)
    except Exception as error:
        error.add_note("canonopt was tracing the init of the optimizer for shapes.")
        raise


# --- the update of an optimizer, traced for shapes ------------------------------------------------

# The extra arguments of Optax's updates that are known from the loss.
_FROM_LOSS: tuple[str, ...] = ("value", "grad", "value_fn", "obj_fn")


class Update:
    """The update of an optimizer, traced for shapes.

    An update does not say which extra arguments it needs: `optax.chain` and the like pass on
    `**extra_args`, and a parameter with the default `None` may be required. So if an update fails
    with the user's arguments alone, it gets all arguments that are known from the loss, too.
    """

    def __init__(
        self,
        optim: optax.GradientTransformation,
        params: Any,
        grads: Any,
        loss: jax.ShapeDtypeStruct,
        extra_args: Mapping[str, Any],
    ) -> None:
        # From the second step on, no leaf is weakly typed.
        self._params = jax.tree.map(strongly_typed, params)
        self._grads = jax.tree.map(strongly_typed, grads)
        self._extra_args = dict(extra_args)
        self._loss = loss
        found = inspect.signature(optim.update).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in found.values())
        # The update of `optax.MultiSteps` takes extra arguments, but its type does not say so.
        self.optim = optim if takes_any else optax.with_extra_args_support(optim)
        # Names of extra arguments from the loss: those in use, and more to try if the update fails.
        self._names: list[str] = []
        self._more = [name for name in _FROM_LOSS if takes_any or name in found]

    def trace(self, state: Any) -> jax.stages.Traced:
        """Return the traced update of `state`. The traced function returns only the new state."""
        try:
            # Not `eval_shape`, since on a mesh this trace is compiled too.
            state_after = functools.partial(self._state_after, self._names)
            return jax.jit(state_after).trace(self._grads, state, self._params)
        except Exception as error:
            if not self._more:
                error.add_note(
                    "canonopt was tracing the update of the optimizer for shapes. Arguments that "
                    "the step passes to it belong in init_like_grads(..., extra_args={...})."
                )
                raise
        self._names, self._more = self._more, []
        return self.trace(state)

    def _state_after(self, names: Iterable[str], grads: Any, state: Any, params: Any) -> Any:
        # A constant can replace the loss, since only shapes are traced.
        value = jnp.zeros((), self._loss.dtype)
        # A line search of Optax refuses an argument that `value_fn` does not name.
        function = lambda *_, obj_fn=None, **__: value  # noqa: E731
        from_loss = dict(zip(_FROM_LOSS, [value, grads, function, function], strict=True))
        extra_args = {name: from_loss[name] for name in names} | self._extra_args
        return self.optim.update(grads, state, params, **extra_args)[1]
