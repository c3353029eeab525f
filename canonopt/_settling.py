"""A state that the first update does not change the type or the place of.

`jax.jit` keys on each leaf's shape, dtype, weak type, sharding and commitment. `optim.init` decides
them by what is at hand, and an update by what it computes; where the two differ, the second step is
traced or compiled again. Here the state is taken to where they agree.
"""

import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import optax
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from ._errors import ExtraArgsError, PlacementError, UnsettledStateError

# An update may widen what another has widened; more rounds than this is no settling.
_ROUNDS = 8


def settled_state(
    optim: optax.GradientTransformation,
    params: Any,
    grads: Any,
    loss: jax.ShapeDtypeStruct,
    extra_args: Mapping[str, Any],
) -> optax.OptState:
    """The state for `params` that an update leaves as it is, but for the values.

    **Arguments:**

    - `params`: the leaves that get a gradient. Arrays, tracers, or anything `optim.init` takes.
    - `grads`: their gradients, as `jax.ShapeDtypeStruct`s.
    - `loss`: the shape and dtype of the loss.
    - `extra_args`: what else the update has to be given, besides what comes from the loss.
    """
    optim = optax.with_extra_args_support(optim)
    place = _common_place(params)
    if isinstance(place, NamedSharding):
        grads = jax.tree.map(_with_sharding_of, grads, params)
    update = _Update(optim, params, grads, loss, extra_args)
    state = optim.init(params) if place is None else _placed_init(update, params, place)
    types = _settled_types(update, jax.tree.map(_struct, state))
    leaves, structure = jax.tree.flatten(state)
    del state
    # One by one, so that the narrow leaves are gone as the wide ones come.
    for i, wanted in enumerate(jax.tree.leaves(types)):
        leaves[i] = _converted(leaves[i], wanted)
    return jax.tree.unflatten(structure, leaves)


# --- types ------------------------------------------------------------------------------------


class _Update:
    """The update of a transformation, run for shapes with all that it asks for."""

    def __init__(
        self,
        optim: optax.GradientTransformation,
        params: Any,
        grads: Any,
        loss: jax.ShapeDtypeStruct,
        extra_args: Mapping[str, Any],
    ) -> None:
        # As they are from the second step on, when nothing is weakly typed any more.
        self.params = jax.tree.map(_strong, params)
        self.grads = jax.tree.map(_strong, grads)
        self.optim = optim
        self.extra_args = dict(extra_args)
        self._loss = loss
        self._wanted: tuple[str, ...] | None = None

    def state_after(self, grads: Any, state: Any, params: Any) -> Any:
        """The state after an update. To be called under a trace."""
        # The loss itself has been traced already; for shapes a constant does as well.
        value = jnp.zeros((), self._loss.dtype)
        from_loss = {
            "value": value,
            "grad": grads,
            "value_fn": lambda *_, **__: value,
            "obj_fn": lambda *_, **__: value,
        }
        extra_args = {name: from_loss[name] for name in self._wanted or ()} | self.extra_args
        return self.optim.update(grads, state, params, **extra_args)[1]

    def types_after(self, state: Any) -> Any:
        """The shape, dtype and weak type of each leaf of the state after an update of `state`."""
        if self._wanted is not None:
            return jax.eval_shape(self.state_after, self.grads, state, self.params)
        errors = []
        for wanted in _EXTRA_ARGS:
            self._wanted = wanted
            try:
                return jax.eval_shape(self.state_after, self.grads, state, self.params)
            except (TypeError, ValueError) as error:
                errors.append(error)
        error = errors[0]
        names = _names_missing(error)
        # What went wrong where that was given is the true error.
        for wanted, later in zip(_EXTRA_ARGS, errors, strict=True):
            if names and set(names) <= set(wanted):
                error, names = later, _names_missing(later)
                break
        if not names:
            error.add_note("canonopt was tracing the update of the optimizer for shapes.")
            raise error
        example = ", ".join(f"{name!r}: ..." for name in names)
        raise ExtraArgsError(
            f"The update of the optimizer needs {', '.join(names)}, which init_like_grads does "
            "not know. Pass what the step passes: "
            f"init_like_grads(..., extra_args={{{example}}})."
        ) from error


# What updates ask for beyond gradients, state and parameters. Not all at once, since some refuse
# what they do not know.
_EXTRA_ARGS = (
    (),
    ("value",),
    ("value", "grad", "value_fn"),
    ("obj_fn",),
    ("value", "grad", "value_fn", "obj_fn"),
)


def _names_missing(error: Exception) -> list[str]:
    """The arguments that an update, Python's or optax's error says, was not given."""
    text = str(error)
    if "missing" in text:
        return re.findall(r"'(\w+)'", text)
    return re.findall(r"^(\w+) must be provided", text)


def _settled_types(update: _Update, types: Any) -> Any:
    """The types, from those of the initial state on, that an update does not change."""
    before = types
    for _ in range(_ROUNDS):
        after = update.types_after(types)
        if jax.tree.structure(after) != jax.tree.structure(types):
            raise UnsettledStateError(
                "The state has another structure after an update than before, so the second step "
                f"is traced again. Before: {jax.tree.structure(types)}. "
                f"After: {jax.tree.structure(after)}."
            )
        if _types(after) == _types(types):
            return types
        types = jax.tree.map(_wider, types, after)
    raise _unsettled(before, update.types_after(types))


def _struct(leaf: Any) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(leaf)
    sharding = leaf.sharding if _is_committed(leaf) else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def _strong(leaf: Any) -> jax.ShapeDtypeStruct:
    struct = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else _struct(leaf)
    return jax.ShapeDtypeStruct(struct.shape, struct.dtype, sharding=struct.sharding)


def _type(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype, leaf.weak_type)


def _types(tree: Any) -> list[Any]:
    return list(map(_type, jax.tree.leaves(tree)))


def _wider(before: Any, after: Any) -> Any:
    """The type to try next: never one that `before` does not fit into."""
    wider = jnp.promote_types(before.dtype, after.dtype) == after.dtype
    if before.shape != after.shape or not wider or after.weak_type:
        return before
    return jax.ShapeDtypeStruct(after.shape, after.dtype, sharding=before.sharding)


def _converted(leaf: Any, wanted: Any) -> Any:
    if isinstance(leaf, jax.Array) and _type(jax.typeof(leaf)) == _type(wanted):
        return leaf
    return jax.lax.convert_element_type(leaf, wanted.dtype)


def _unsettled(before: Any, after: Any) -> UnsettledStateError:
    lines = []
    for (path, old), new in zip(
        jtu.tree_leaves_with_path(before), jtu.tree_leaves(after), strict=True
    ):
        if _type(old) != _type(new):
            lines.append(f"{_words(old)} -> {_words(new)} @ opt_state{jtu.keystr(path)}")
    return UnsettledStateError(
        "The update changes the type of its own state and does not come to rest, so a step is "
        "traced again:\n  " + "\n  ".join(lines) + "\n"
        "Make `init` and `update` of the transformation agree on these leaves."
    )


def _words(leaf: Any) -> str:
    weak = ", weak" if leaf.weak_type else ""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]{weak}"


# --- places -----------------------------------------------------------------------------------


def _is_committed(leaf: Any) -> bool:
    is_concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_concrete and leaf.committed


def _common_place(params: Any) -> Sharding | None:
    """Where scalars of the state have to be, or None if the parameters are committed nowhere."""
    places: dict[Sharding, Any] = {}
    for path, leaf in jtu.tree_leaves_with_path(params):
        if not _is_committed(leaf):
            continue
        if isinstance(leaf.sharding, NamedSharding):
            place = NamedSharding(leaf.sharding.mesh, PartitionSpec())
        elif len(leaf.sharding.device_set) == 1:
            place = SingleDeviceSharding(*leaf.sharding.device_set)
        else:  # spread in a way that says nothing of where a scalar would be
            return None
        places.setdefault(place, path)
    if len(places) > 1:
        lines = [
            f"{sorted(map(str, place.device_set))} @ model{jtu.keystr(path)}"
            for place, path in places.items()
        ]
        raise PlacementError(
            "The parameters are on different devices or meshes, and no step can take them "
            "together:\n  " + "\n  ".join(lines) + "\nPut the model on one mesh, with "
            "jax.device_put(model, NamedSharding(mesh, PartitionSpec()))."
        )
    return next(iter(places), None)


def _with_sharding_of(grad: Any, param: Any) -> Any:
    sharding = param.sharding if isinstance(param, jax.Array) else None
    return jax.ShapeDtypeStruct(grad.shape, grad.dtype, weak_type=grad.weak_type, sharding=sharding)


def _placed_init(update: _Update, params: Any, place: Sharding) -> Any:
    """The initial state, on the devices of the parameters."""
    optim = update.optim
    if isinstance(place, NamedSharding):
        # A leaf that has no parameter's shape is not made from a parameter, nor where that is.
        # Only the compiler knows how an update will spread it. Made before that is known, the
        # whole of it would be on one device.
        types = jax.eval_shape(optim.init, params)
        shapes = {leaf.shape for leaf in jax.tree.leaves(params)}
        if any(t.shape not in shapes and t.size > 1 for t in jax.tree.leaves(types)):
            return _spread_init(update, params)
    state = optim.init(params)
    leaves, structure = jax.tree.flatten(state)
    elsewhere = [i for i, leaf in enumerate(leaves) if not _is_committed(leaf)]
    if isinstance(place, NamedSharding) and any(leaves[i].size > 1 for i in elsewhere):
        return _spread_init(update, params)
    moved = jax.device_put([leaves[i] for i in elsewhere], place)
    for i, leaf in zip(elsewhere, moved, strict=True):
        leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)


def _spread_init(update: _Update, params: Any) -> Any:
    types = jax.eval_shape(update.optim.init, params)
    return jax.jit(update.optim.init, out_shardings=_shardings_after(update, types))(params)


def _shardings_after(update: _Update, types: Any) -> Any:
    types = jax.tree.map(_strong, types)
    update.types_after(types)
    lowered = jax.jit(update.state_after).lower(update.grads, types, update.params)
    return lowered.compile().output_shardings
