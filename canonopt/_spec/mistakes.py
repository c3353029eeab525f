"""Checks of arguments, so that mistakes are found where a spec is built and not when it is traced.

What is refused here is refused by Optax too, if not before the first update. Only a list of one
number is taken by a few of its factories.
"""

import difflib
import inspect
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optax

from .. import _optax_compat
from .._optax_compat import (
    annotation_inside,
    annotation_of,
    is_transformation,
    makes_schedules,
    members_of,
    needs_transformation,
    takes_function,
    takes_number,
)
from ..errors import NotATransformationError, ParameterError
from .arguments import is_spec, parts_of
from .expressions import expression

_NUMBERS = frozenset((float, int, bool, type(None)))
_DTYPES = ("bfloat16", "float16", "float32", "float64")


def check_hyperparameters(
    factory: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Raise `ParameterError` for an argument that a factory of Optax's cannot mean."""
    for name, value in given.items():
        # A function is no mistake: some factories take a schedule and do not say so.
        is_function = isinstance(value, types.FunctionType) and not is_factory(value)
        if type(value) in _NUMBERS or is_function:
            continue
        if "dtype" in name and isinstance(value, str):
            _check_dtype(factory, value, name)
        _check_number(factory, value, annotation_of(parameters[name]), name)


# --- numbers ------------------------------------------------------------------------------------


def _check_number(factory: str, value: Any, annotation: Any, path: str) -> None:
    inside = annotation_inside(annotation)
    if takes_number(annotation):
        what = "a number or a schedule" if takes_function(annotation) else "a number"
        what = what if {int, float} & {*members_of(annotation)} else "True or False"
        fix = None
        if isinstance(value, str) and (number := _number_in(value, members_of(annotation))):
            fix = f"Write {number}."
        elif inside is None and is_factory(value):
            fix = f"Call it: {path}={_named(value)}(...)."
        elif isinstance(value, type):
            fix = f"Write {what}."
        elif callable(value):
            pass  # a schedule may be a named tuple
        elif inside is None and isinstance(value, str | bytes | Sequence | Mapping | set):
            fix = f"Write {what}."
            items = [*value] if type(value) in (list, tuple) else []
            if items and {*map(type, items)} <= {float, int}:
                several = f"canonopt.dynamic({items!r})"
                fix = f"Write {path}={items[0]!r}, or, for the members of an ensemble, {several}."
        if fix is not None:
            problem = f"{factory} needs {what} for {path}, and got {_described(value)}."
            raise ParameterError(problem, fix, path=path)
    if inside is not None:
        for step, item in parts_of(value)[0]:
            if type(item) not in _NUMBERS:
                _check_number(factory, item, inside, path + step)


def _number_in(text: str, kinds: Collection[Any]) -> str | None:
    """Return how to write the number that a text stands for, in Python and in YAML."""
    try:
        float(text)
    except ValueError:
        return None
    code = f"{'int' if text.isdecimal() and float not in kinds else 'float'}({text!r})"
    number = re.fullmatch(r"([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)", text)
    if number is None:
        return code
    digits, fraction, sign, exponent = number.groups()  # YAML reads it as a string
    return f"{code}, or {digits}{fraction or '.0'}e{sign or '+'}{exponent} in YAML"


def _check_dtype(factory: str, value: str, path: str) -> None:
    try:
        np.dtype(value)
    except TypeError:
        (near,) = difflib.get_close_matches(value, _DTYPES, 1, 0.0)
        raise ParameterError(
            f"{factory} needs a dtype for {path}, and got the string {value!r}.",
            f"Write {path}={near!r}, or jnp.{near}.",
            path=path,
        ) from None


# --- transformations ----------------------------------------------------------------------------


def check_transformations(
    factory: str, parameters: Iterable[inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Raise `NotATransformationError` for an argument that has to be a transformation."""
    for parameter in parameters:
        name = parameter.name
        items = {name: given[name]} if name in given else {}
        if parameter.kind is parameter.VAR_POSITIONAL:
            items = {f"{name}[{i}]": item for i, item in enumerate(given.get(name, ()))}
        for path, item in items.items():
            _check_transformation(factory, item, parameter.annotation, path)


def _check_transformation(factory: str, value: Any, annotation: Any, path: str) -> None:
    if isinstance(annotation, type) and is_transformation(value):
        return
    inner = typing.get_args(annotation)
    if inner == (str, optax.GradientTransformation):
        # A transformation is a pair too, of functions.
        is_pair = isinstance(value, tuple | list) and len(value) == 2
        if not is_pair or is_transformation(value):
            raise NotATransformationError(
                f"{factory} takes pairs of a name and a transformation, and {path} is {value!r}.",
                f'Write {factory}(("clip", canonopt.clip(1.0)), ...).',
                path=path,
            )
        _check_transformation(factory, value[1], inner[1], f"{path}[1]")
    elif optax.GradientTransformation in inner and isinstance(value, Mapping):
        for key, item in value.items():
            _check_transformation(factory, item, optax.GradientTransformation, f"{path}[{key!r}]")
    elif value is None and type(None) in inner:
        return
    elif needs_transformation(annotation) and not is_transformation(value):
        raise NotATransformationError(
            f"{factory} needs a gradient transformation, and {path} is {_described(value)}.",
            _how_to_make_a_transformation(value),
            path=path,
        )


def _how_to_make_a_transformation(value: Any) -> str:
    if isinstance(value, Sequence) and any(map(is_transformation, value)):
        return "Unpack it: canonopt.chain(*transforms)."
    called = f"{_named(value)}(...)"
    if isinstance(value, type):
        return f"Make an instance: {called}."
    if is_factory(value) and not makes_schedules(value):
        return f"Call it: {called}."
    if callable(value):
        schedule = called if is_factory(value) else _named(value)
        with_it = f"canonopt.scale_by_learning_rate({schedule}), or canonopt.sgd({schedule})."
        if is_factory(value) or is_spec(value):
            return f"Write {with_it}"
        return f"If it is a factory, call it: {called}. If it is a schedule, write {with_it}"
    return f"Build one, with canonopt.sgd({value!r}) for example."


def is_factory(value: Any) -> bool:
    """Return True for a function that builds specs, or Optax's transformations or schedules."""
    if not isinstance(value, types.FunctionType | type):
        return False
    builds_specs = {"factory", "__canonical_owner__"} <= vars(value).keys()
    return builds_specs or _optax_compat.is_factory(value)


# --- texts --------------------------------------------------------------------------------------


def _described(value: Any) -> str:
    if value is None or isinstance(value, int | float):
        return repr(value)
    if is_transformation(value):
        kind = "transformation"
    elif isinstance(value, type):
        kind = "class"
    elif is_factory(value):
        kind = "factory"
    elif is_spec(value):
        kind = "schedule"
    elif callable(value):
        kind = "function"
    else:
        kind = "string" if isinstance(value, str) else type(value).__name__
    return f"the {kind} {_named(value)}"


def _named(value: Any) -> str:
    if is_factory(value):
        return expression(value)
    text = getattr(value, "__name__", None) if callable(value) else None
    text = text or repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
