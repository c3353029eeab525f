"""What canonopt has to know of Optax beyond its documented interface."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax


def is_transformation(value: Any) -> bool:
    """Whether `value` has what makes a gradient transformation: an `init` and an `update`."""
    if isinstance(value, optax.GradientTransformation):
        return True
    functions = (getattr(value, "init", None), getattr(value, "update", None))
    return not isinstance(value, type) and all(map(callable, functions))


def as_transform(made: Any) -> optax.GradientTransformationExtraArgs:
    if isinstance(made, optax.GradientTransformation):
        return optax.with_extra_args_support(made)
    # An object with the two methods, as `optax.MultiSteps` is.
    kinds = [p.kind for p in inspect.signature(made.update).parameters.values()]
    takes_extra_args = inspect.Parameter.VAR_KEYWORD in kinds
    pair = (
        optax.GradientTransformationExtraArgs if takes_extra_args else optax.GradientTransformation
    )
    return optax.with_extra_args_support(pair(made.init, made.update))


def as_optax_takes(name: str, value: Any, parameters: Mapping[str, Any]) -> Any:
    """`value` such that optax takes a tree for a tree, even one that happens to be callable.

    Optax asks `callable(value)` to tell a function from a tree, and so takes a tree that is an
    `equinox.Module` with a `__call__` for a function (optax#1373). It is handed a function instead
    that returns the tree.
    """
    leaf_is_right = _TREES.get(name)
    if leaf_is_right is None or not callable(value):
        return value
    leaves = jtu.tree_leaves(value)
    if not leaves or any(leaf is value for leaf in leaves):
        return value
    is_tree = all(leaf_is_right(leaf, parameters) for leaf in leaves)
    return (lambda _: value) if is_tree else value


def _is_label(leaf: Any, parameters: Mapping[str, Any]) -> bool:
    try:
        return leaf in parameters.get("transforms", ())
    except TypeError:  # not hashable
        return False


def _is_axis(leaf: Any, parameters: Mapping[str, Any]) -> bool:
    return isinstance(leaf, int)


# The parameters that optax documents as "a tree or a function" and asks `callable` about.
_TREES: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "param_labels": _is_label,
    "weight_dimension_numbers": _is_axis,
    "muon_weight_dimension_numbers": _is_axis,
}


def dtype_of(value: Any) -> Any:
    """JAX's scalar type for whatever spells its dtype (`"bfloat16"`, `np.dtype`, NumPy's type).

    Parameters of Optax's that take a dtype pass through this first, so that one dtype is one
    configuration. What is no spelling is returned as it is: Python's `float` among others, which
    means another dtype under `jax_enable_x64`.
    """
    if not isinstance(value, str | np.dtype | type(jnp.float32)) and not (
        isinstance(value, type) and issubclass(value, np.generic)
    ):
        return value
    try:
        dtype = np.dtype(value)
    except TypeError:
        return value
    if not dtype.isnative or dtype.metadata is not None:
        return value
    if isinstance(value, str) and value != dtype.name:
        return value
    scalar_type = getattr(jnp, dtype.name, None)
    return scalar_type if isinstance(scalar_type, type(jnp.float32)) else value
