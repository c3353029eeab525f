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
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax
from jax.extend.core import JaxprEqn, Literal, jaxpr_as_fun
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
    place = _common_place(params)
    if isinstance(place, NamedSharding):
        grads = jax.tree.map(_with_sharding_of, grads, params)
    update = _Update(optax.with_extra_args_support(optim), params, grads, loss, extra_args)
    if isinstance(optim, optax.GradientTransformationExtraArgs):
        update.find_what_it_asks_for()
    if isinstance(place, NamedSharding):
        return _spread_state(update, params, place)
    state = optim.init(params)
    if place is not None:
        state = _moved(state, place)
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


# --- places -----------------------------------------------------------------------------------


def _is_committed(leaf: Any) -> bool:
    is_concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_concrete and leaf.committed


def _common_place(params: Any) -> Sharding | None:
    """Where scalars of the state have to be, or None if the parameters are committed nowhere."""
    # By their devices: a program takes parameters of several meshes of the same ones.
    places: dict[tuple[Any, ...], tuple[Sharding, Any]] = {}
    for path, leaf in jtu.tree_leaves_with_path(params):
        if isinstance(leaf, jax.core.Tracer):  # what is traced is placed by what it is part of
            return None
        if not _is_committed(leaf):
            continue
        if isinstance(leaf.sharding, NamedSharding):
            mesh: Any = leaf.sharding.mesh
            devices, place = tuple(mesh.devices.flat), NamedSharding(mesh, PartitionSpec())
        elif len(leaf.sharding.device_set) == 1:
            devices = tuple(leaf.sharding.device_set)
            place = SingleDeviceSharding(*devices)
        else:  # spread in a way that says nothing of where a scalar would be
            return None
        earlier, _ = places.get(devices, (None, path))
        if not isinstance(earlier, NamedSharding):  # a mesh of one device before that device
            places[devices] = place, path
    if len(places) > 1:
        lines = [
            f"{list(map(str, devices))} @ model{jtu.keystr(path)}"
            for devices, (_, path) in places.items()
        ]
        raise PlacementError(
            "The parameters are on different devices or meshes, and no step can take them "
            "together:\n  " + "\n  ".join(lines) + "\nPut the model on one mesh, with "
            "jax.device_put(model, NamedSharding(mesh, PartitionSpec()))."
        )
    return next((place for place, _ in places.values()), None)


def _with_sharding(leaf: Any, sharding: Sharding | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type, sharding=sharding)


def _with_sharding_of(grad: Any, param: Any) -> jax.ShapeDtypeStruct:
    return _with_sharding(grad, param.sharding if _is_committed(param) else None)


def _moved(state: Any, place: Sharding) -> Any:
    """The state with what is committed nowhere where it has to be."""
    leaves, structure = jax.tree.flatten(state)
    elsewhere = [i for i, leaf in enumerate(leaves) if not _is_committed(leaf)]
    moved = jax.device_put([leaves[i] for i in elsewhere], place)
    for i, leaf in zip(elsewhere, moved, strict=True):
        leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)


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
    shardings = _shardings_known(init.out_info, params, place)
    if None in shardings:
        types = _settled_types(update, init.out_info)
        compiled = jax.tree.leaves(update.traced.lower().compile().output_shardings)
        # What no parameter has a part in is compiled for one device, whichever that is.
        compiled = [s if s.device_set == place.device_set else place for s in compiled]
        shardings = [known or after for known, after in zip(shardings, compiled, strict=True)]
    else:
        placed = map(_with_sharding, leaves, shardings)
        types = _settled_types(update, jax.tree.unflatten(structure, placed))
    wanted = list(map(_with_sharding, jax.tree.leaves(types), shardings))
    made = _made_in_place(init, jax.tree.leaves(params), wanted)
    return jax.tree.unflatten(structure, made)


def _made_in_place(
    init: jax.stages.Traced, params: list[Any], wanted: list[jax.ShapeDtypeStruct]
) -> list[Any]:
    """What `init` gives for `params`, each leaf of the type and in the place that is wanted.

    Most leaves are constants or parameters, which nothing has to be compiled for; a program that
    gives thousands of leaves would take longer to compile than all the rest.
    """
    jaxpr = init.jaxpr.jaxpr
    given = dict(zip(jaxpr.invars, params, strict=True))
    fillings = {eqn.outvars[0]: eqn.invars[0] for eqn in jaxpr.eqns if _is_filling(eqn)}
    leaves = jax.tree.leaves(init.out_info)
    to_compute = []
    for i, (var, struct) in enumerate(zip(jaxpr.outvars, wanted, strict=True)):
        constant = var if isinstance(var, Literal) else fillings.get(var)
        if constant is not None and not struct.weak_type:
            value = np.asarray(constant.val, leaves[i].dtype)
            leaves[i] = jnp.full(struct.shape, value, struct.dtype, device=struct.sharding)
        elif constant is None and var in given and _struct(given[var]) == struct:
            leaves[i] = given[var]
        else:
            to_compute.append(i)

    def compute(*params: Any) -> list[Any]:
        state = jaxpr_as_fun(init.jaxpr)(*params)
        return [state[i] for i in to_compute]

    if to_compute:
        places = [wanted[i].sharding for i in to_compute]
        # The numbers are those that come of one operation after the other, with all their rounding.
        options = {"xla_allow_excess_precision": False}
        computed = jax.jit(compute, out_shardings=places, compiler_options=options)(*params)
        for i, leaf in zip(to_compute, computed, strict=True):
            leaves[i] = _converted(leaf, wanted[i])
    return leaves


def _is_filling(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "broadcast_in_dim" and isinstance(eqn.invars[0], Literal)


def _shardings_known(types: Any, params: Any, place: Sharding) -> list[Sharding | None]:
    """Of each leaf of the state: a parameter's for its likeness, and `place` for a scalar."""
    params_at = {path: leaf for path, leaf in jtu.tree_leaves_with_path(params)}
    depths = sorted({len(path) for path in params_at}, reverse=True)
    shardings = []
    for path, leaf in jtu.tree_leaves_with_path(types):
        at = (params_at.get(path[len(path) - depth :]) for depth in depths if depth <= len(path))
        like = next((param for param in at if param is not None), None)
        if like is not None and like.shape == leaf.shape:
            shardings.append(like.sharding if _is_committed(like) else place)
        else:
            shardings.append(place if leaf.size == 1 else None)
    return shardings
