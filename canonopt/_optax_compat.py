"""Facts about Optax beyond its documented interface.

Docstrings say what behavior of Optax a function relies on. `tests/test_optax_compat.py` fails if
Optax changes that behavior.
"""

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax


def is_transformation(value: Any) -> bool:
    """Return True for a transformation, and for an object with an `init` and an `update`.

    Relies on Optax's wrappers, which use only these two attributes of the object that they wrap:
    `optax.MultiSteps` is not a `GradientTransformation`, but is used as one.
    """
    if isinstance(value, optax.GradientTransformation):
        return True
    functions = (getattr(value, "init", None), getattr(value, "update", None))
    # The class of such an object has the two functions as well, but is not a transformation.
    return not isinstance(value, type) and all(map(callable, functions))


def as_transform(made: Any) -> optax.GradientTransformationExtraArgs:
    """Return a factory's result as a transformation whose `update` takes extra arguments.

    Relies on `optax.with_extra_args_support`: it returns a `GradientTransformationExtraArgs` as it
    is, and makes any other `update` ignore extra arguments. `optax.MultiSteps` passes them on.
    """
    if not isinstance(made, optax.GradientTransformation):
        return optax.GradientTransformationExtraArgs(made.init, made.update)
    return optax.with_extra_args_support(made)


def is_factory(value: Any) -> bool:
    """Return True for a public value of Optax that builds transformations or schedules.

    Relies on the return annotations of Optax's functions; those in `_NOT_ANNOTATED` have none.
    """
    function = value.func if isinstance(value, functools.partial) else value
    if not isinstance(function, types.FunctionType):
        return function is optax.MultiSteps
    if (returned := function.__annotations__.get("return")) is None:
        return function.__name__ in _NOT_ANNOTATED
    is_schedule = returned == optax.Schedule
    return is_schedule or _is_transformation_type(returned) or is_factory_of_factories(function)


_NOT_ANNOTATED = frozenset(
    ("dog", "dowg", "hutchinson_estimator_diag_hessian", "monitor", "scale_by_factored_rms")
)


def is_factory_of_factories(factory: Any) -> bool:
    """Return True for a factory that returns a factory, as `optax.inject_hyperparams` does."""
    made = typing.get_args(getattr(factory, "__annotations__", {}).get("return"))
    return len(made) == 2 and _is_transformation_type(made[1])


def _is_transformation_type(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, optax.GradientTransformation)


def is_optimizer(factory: Any) -> bool:
    """Return True for a factory that Optax documents as an optimizer.

    Relies on the module of Optax's optimizers. It only decides in which module a name is listed.
    """
    return getattr(factory, "func", factory).__module__ == "optax._src.alias"


def dtype_of(value: Any) -> Any:
    """Return JAX's scalar type for a dtype given as `"bfloat16"`, an `np.dtype` or a NumPy type.

    Relies on Optax to treat all spellings of a dtype alike: they become one configuration.
    Other values are returned unchanged. Python's `float` is one of these, because its dtype depends
    on `jax_enable_x64`.
    """
    is_scalar_type = isinstance(value, type) and issubclass(value, np.generic)
    if is_scalar_type or isinstance(value, str | np.dtype):
        with contextlib.suppress(TypeError, AttributeError):  # not a dtype, or unknown to JAX
            dtype = np.dtype(value)
            return getattr(jnp, dtype.name) if dtype.isnative else value
    return value


# --- what the annotations of Optax's parameters ask for -----------------------------------------


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union. For any other annotation, return `(annotation,)`."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def takes_number(parameter: inspect.Parameter) -> bool:
    """Return True for a parameter that takes numbers or booleans, but no text."""
    annotation, default = parameter.annotation, parameter.default
    members = members_of(type(default) if annotation is parameter.empty else annotation)
    generic = {typing.get_origin(member) for member in members} - {None, Callable}
    return not generic and not {Any, str} & {*members} and bool({int, float, bool} & {*members})


def number_or_none(annotation: Any) -> Any:
    """Return `float | None` or `int | None` for an optional number, else `Any`."""
    members, numbers = members_of(annotation), typing.get_args(jax.typing.ArrayLike)
    kind = next((kind for kind in (float, int) if kind in members), None)
    is_optional = type(None) in members and all(m in (*numbers, type(None)) for m in members)
    return kind | None if kind is not None and is_optional else Any
