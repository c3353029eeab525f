"""A state that the first update does not change the type or the place of.

`jax.jit` keys on each leaf's shape, dtype, weak type, sharding and commitment. `optim.init` decides
them by what is at hand, and an update by what it computes; where the two differ, the second step is
traced or compiled again. Here the state is taken to where they agree.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
from jax.sharding import NamedSharding

from .._errors import ExtraArgsError, UnsettledStateError
from .placement import (
    common_place,
    converted,
    made_in_place,
    moved,
    shardings_known,
    struct_of,
    type_of,
    with_sharding,
    with_sharding_of,
)

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
    place = common_place(params)
    if isinstance(place, NamedSharding):
        grads = jax.tree.map(with_sharding_of, grads, params)
    update = _Update(optax.with_extra_args_support(optim), params, grads, loss, extra_args)
    if isinstance(optim, optax.GradientTransformationExtraArgs):
        update.find_what_it_asks_for()
    if isinstance(place, NamedSharding):
        return _spread_state(update, params, place)
    state = optim.init(params)
    if place is not None:
        state = moved(state, place)
    types = _settled_types(update, jax.tree.map(struct_of, state))
    leaves, structure = jax.tree.flatten(state)
    del state
    # One by one, so that the narrow leaves are gone as the wide ones come.
    for i, wanted in enumerate(jax.tree.leaves(types)):
        leaves[i] = converted(leaves[i], wanted)
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
        self._wanted: set[str] = set()

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
        extra_args = {name: from_loss[name] for name in self._wanted} | self.extra_args
        return self.optim.update(grads, state, params, **extra_args)[1]

    def types_after(self, state: Any) -> Any:
        """The shape, dtype and weak type of each leaf of the state after an update of `state`."""
        try:
            self.traced = self._trace(self.grads, state, self.params)
        except ExtraArgsError:
            raise
        except (TypeError, ValueError) as error:
            error.add_note("canonopt was tracing the update of the optimizer for shapes.")
            raise
        return self.traced.out_info

    def find_what_it_asks_for(self) -> None:
        """Sees on the first leaf alone what the update asks for, since to be refused costs a trace.

        Where it cannot be seen there, it is with all of them.
        """
        grads, params = _first_leaf(self.grads), _first_leaf(self.params)
        with contextlib.suppress(Exception):
            state = jax.eval_shape(lambda params: self.optim.init(params), params)
            self._trace(grads, state, params)

    def _trace(self, grads: Any, state: Any, params: Any) -> jax.stages.Traced:
        # No more is given than is asked for, since some updates refuse what they do not know, and
        # others do something else with it.
        while True:
            try:
                return jax.jit(self.state_after).trace(grads, state, params)
            except (TypeError, ValueError) as error:
                names = [name for name in _names_missing(error) if name not in self._wanted]
                if not names:
                    raise
                if not _FROM_LOSS.issuperset(names):
                    raise _unknown(names) from error
                self._wanted.update(names)


def _first_leaf(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, leaves[:1] + [None] * (len(leaves) - 1))


_FROM_LOSS = frozenset(("value", "grad", "value_fn", "obj_fn"))


def _unknown(names: list[str]) -> ExtraArgsError:
    names = [name for name in names if name not in _FROM_LOSS]
    example = ", ".join(f"{name!r}: ..." for name in names)
    return ExtraArgsError(
        f"The update of the optimizer needs {', '.join(names)}, which init_like_grads does "
        "not know. Pass what the step passes: "
        f"init_like_grads(..., extra_args={{{example}}})."
    )


def _names_missing(error: Exception) -> list[str]:
    """The arguments that an update, Python's or optax's error says, was not given."""
    text = str(error)
    missing = re.search(r"(\S+)\(\) missing \d+ required (positional|keyword-only) arg\w+: ", text)
    if missing is None:
        return re.findall(r"^(\w+) must be provided", text)
    # Of what else is called in an update without an argument, the update is to blame.
    name = missing[1].rpartition(".")[2]
    is_asked = missing[2] == "keyword-only" or "update" in name
    return re.findall(r"'(\w+)'", text[missing.end() :]) if is_asked else []


def _settled_types(update: _Update, types: Any) -> Any:
    """The types, from those of the initial state on, that an update does not change."""
    before = types
    # Weak types come from an `init` that writes a constant, and seldom outlive an update.
    types = jax.tree.map(_strong, types)
    for _ in range(_ROUNDS):
        after = update.types_after(types)
        if jax.tree.structure(after) != jax.tree.structure(types):
            raise _restructured(types, after)
        if _types(after) == _types(types):
            return types
        types = jax.tree.map(_wider, before, types, after)
    raise _unsettled(before, update.types_after(types))


def _strong(leaf: Any) -> jax.ShapeDtypeStruct:
    struct = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else struct_of(leaf)
    return jax.ShapeDtypeStruct(struct.shape, struct.dtype, sharding=struct.sharding)


def _types(tree: Any) -> list[Any]:
    return list(map(type_of, jax.tree.leaves(tree)))


def _wider(initial: Any, before: Any, after: Any) -> Any:
    """The type to try next: never one that `before` does not fit into."""
    if after.weak_type:  # nothing but `init` can make it so
        return initial if initial.weak_type else before
    if before.shape != after.shape or not _holds(after.dtype, before.dtype):
        return before
    return jax.ShapeDtypeStruct(after.shape, after.dtype, sharding=before.sharding)


def _holds(wide: Any, narrow: Any) -> bool:
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in (wide, narrow)):
        return wide == narrow  # random keys, which nothing is promoted to
    try:
        with jax.numpy_dtype_promotion("standard"):
            return jnp.promote_types(narrow, wide) == wide
    except ValueError:  # of narrow floats, which JAX promotes to nothing by itself
        return np.can_cast(narrow, wide)


def _unsettled(before: Any, after: Any) -> UnsettledStateError:
    lines = []
    for (path, old), new in zip(
        jtu.tree_leaves_with_path(before), jtu.tree_leaves(after), strict=True
    ):
        if type_of(old) != type_of(new):
            lines.append(f"{_words(old)} -> {_words(new)} @ opt_state{jtu.keystr(path)}")
    return UnsettledStateError(
        "The update changes the type of its own state and does not come to rest, so a step is "
        "traced again:\n  " + "\n  ".join(lines) + "\n"
        "Make `init` and `update` of the transformation agree on these leaves."
    )


def _restructured(before: Any, after: Any) -> UnsettledStateError:
    old, new = (dict(jtu.tree_leaves_with_path(tree)) for tree in (before, after))
    lines = [
        f"{_words_at(old, path)} -> {_words_at(new, path)} @ opt_state{jtu.keystr(path)}"
        for path in (*old, *new)
        if (path in old) != (path in new)
    ]
    if not lines:  # the containers differ, and not what is in them
        lines = [f"{jax.tree.structure(before)} -> {jax.tree.structure(after)}"]
    return UnsettledStateError(
        "The state has another structure after an update than before, so the second step is traced "
        "again:\n  " + "\n  ".join(lines) + "\n"
        "Make `init` of the transformation give what `update` gives."
    )


def _words_at(leaves: Mapping[Any, Any], path: Any) -> str:
    return _words(leaves[path]) if path in leaves else "not there"


def _words(leaf: Any) -> str:
    weak = ", weak" if leaf.weak_type else ""
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]{weak}"


# --- on a mesh --------------------------------------------------------------------------------


def _spread_state(update: _Update, params: Any, place: NamedSharding) -> Any:
    """The settled state on a mesh, spread from the start: the whole of a leaf is on no device.

    Only the compiler knows where an update puts a leaf that is no parameter's likeness, so the
    update is compiled if there is one.
    """
    try:
        # A function of its own, or JAX would remember a trace of another call.
        init = jax.jit(lambda params: update.optim.init(params)).trace(params)
    except Exception as error:
        error.add_note("canonopt was tracing the init of the optimizer, as it does on a mesh.")
        raise
    leaves, structure = jax.tree.flatten(init.out_info)
    shardings = shardings_known(init.out_info, params, place)
    if None in shardings:
        types = _settled_types(update, init.out_info)
        compiled = jax.tree.leaves(update.traced.lower().compile().output_shardings)
        # What no parameter has a part in is compiled for one device, whichever that is.
        compiled = [s if s.device_set == place.device_set else place for s in compiled]
        shardings = [known or after for known, after in zip(shardings, compiled, strict=True)]
    else:
        placed = map(with_sharding, leaves, shardings)
        types = _settled_types(update, jax.tree.unflatten(structure, placed))
    wanted = list(map(with_sharding, jax.tree.leaves(types), shardings))
    made = made_in_place(init, jax.tree.leaves(params), wanted)
    return jax.tree.unflatten(structure, made)
