"""Checks of arguments, so that mistakes are found where a spec is built and not when it is traced.

What is refused here is refused by Optax too, if not before the first update, but for a list of one
number, a class in place of a schedule, and a text as a truth value.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from .. import _optax_compat
from .._optax_compat import (
    annotation_of,
    is_transformation,
    members_of,
    needs_transformation,
    takes_number,
)
from ..errors import NotATransformationError, ParameterError
from .expressions import expression

NUMBERS = frozenset((float, int, bool, type(None)))

# --- numbers ------------------------------------------------------------------------------------


def check_hyperparameters(
    factory: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Raise `ParameterError` for an argument that a factory of Optax's cannot mean."""
    for name, value in given.items():
        if type(value) in NUMBERS or not takes_number(
            annotation := annotation_of(parameters[name])
        ):
            continue
        # Some factories take a schedule and do not say so, and a schedule may be a named tuple.
        is_schedule = callable(value) and not isinstance(value, type) and not is_factory(value)
        is_wrong = isinstance(value, str | Sequence | Mapping | set | type) or is_factory(value)
        if is_wrong and not is_schedule:
            kinds = members_of(annotation)
            what = "True or False" if {int, float}.isdisjoint(kinds) else "a number"
            if any(typing.get_origin(kind) is Callable for kind in kinds):
                what += " or a schedule"
            fix = _number_in(value, kinds) if isinstance(value, str) else None
            if is_factory(value):
                fix = f"{name}={_named(value)}(...)"
            problem = f"{factory} needs {what} for {name}, and got {_named(value)}."
            raise ParameterError(problem, f"Write {fix or what}.", path=name)


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


# --- transformations ----------------------------------------------------------------------------


def check_transformations(
    factory: str, parameters: Iterable[inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Raise `NotATransformationError` for an argument that has to be a transformation."""
    for parameter in parameters:
        name, annotation = parameter.name, parameter.annotation
        items = {name: given[name]} if name in given else {}
        if parameter.kind is parameter.VAR_POSITIONAL:
            items = {f"{name}[{i}]": item for i, item in enumerate(given.get(name, ()))}
        elif isinstance(given.get(name), Mapping) and typing.get_args(annotation):
            items = {f"{name}[{key!r}]": item for key, item in given[name].items()}
            annotation = typing.get_args(annotation)[-1]
        takes_none = type(None) in members_of(annotation)
        for path, item in items.items() if needs_transformation(annotation) else ():
            if not (is_transformation(item) or (item is None and takes_none)):
                problem = (
                    f"{factory} needs a gradient transformation, and {path} is {_named(item)}."
                )
                raise NotATransformationError(problem, _how_to_make_one(item), path=path)


def _how_to_make_one(value: Any) -> str:
    if isinstance(value, Sequence) and any(map(is_transformation, value)):
        return "Unpack it: canonopt.chain(*transforms)."
    called = f"{_named(value)}(...)"
    if isinstance(value, type) or is_factory(value):
        return f"Call it: {called}."
    if callable(value):
        schedule = f"canonopt.scale_by_learning_rate({_named(value)})"
        return f"If it is a factory, call it: {called}. If it is a schedule, write {schedule}."
    return "Build one, with canonopt.sgd(0.1) for example."


def is_factory(value: Any) -> bool:
    """Return True for a function that builds specs, or Optax's transformations or schedules."""
    if not isinstance(value, types.FunctionType | type):
        return False
    builds_specs = {"factory", "__canonical_owner__"} <= vars(value).keys()
    return builds_specs or _optax_compat.is_factory(value)


def _named(value: Any) -> str:
    if is_factory(value):
        return expression(value)
    text = getattr(value, "__name__", None) if callable(value) else None
    text = text or repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
