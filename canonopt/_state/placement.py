"""Leaves of a state, by their types and places as `jax.jit` sees them, and making them so."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax.extend.core import JaxprEqn, Literal, jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from .._errors import PlacementError


def struct_of(leaf: Any) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(leaf)
    sharding = leaf.sharding if _is_committed(leaf) else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


def type_of(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype, leaf.weak_type)


def converted(leaf: Any, wanted: Any) -> Any:
    if isinstance(leaf, jax.Array) and type_of(jax.typeof(leaf)) == type_of(wanted):
        return leaf
    return jax.lax.convert_element_type(leaf, wanted.dtype)


def _is_committed(leaf: Any) -> bool:
    is_concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_concrete and leaf.committed


def with_sharding(leaf: Any, sharding: Sharding | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type, sharding=sharding)


def with_sharding_of(grad: Any, param: Any) -> jax.ShapeDtypeStruct:
    return with_sharding(grad, param.sharding if _is_committed(param) else None)


def common_place(params: Any) -> Sharding | None:
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


def shardings_known(types: Any, params: Any, place: Sharding) -> list[Sharding | None]:
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


def moved(state: Any, place: Sharding) -> Any:
    """The state with what is committed nowhere where it has to be."""
    leaves, structure = jax.tree.flatten(state)
    elsewhere = [i for i, leaf in enumerate(leaves) if not _is_committed(leaf)]
    moved = jax.device_put([leaves[i] for i in elsewhere], place)
    for i, leaf in zip(elsewhere, moved, strict=True):
        leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)


def made_in_place(
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
        elif constant is None and var in given and struct_of(given[var]) == struct:
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
            leaves[i] = converted(leaf, wanted[i])
    return leaves


def _is_filling(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "broadcast_in_dim" and isinstance(eqn.invars[0], Literal)
