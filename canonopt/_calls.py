"""What runs at every call of a factory, found or not."""

import functools
import math
import types
from collections.abc import Callable
from typing import Any

from ._spec import Configured, Spec


def make_builder(factory: Any) -> Callable[..., Any]:
    # The first half of `build` is what a loop that builds its optimizer again and again pays, so
    # it is written out flat.
    def build(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        try:
            entry = factory.find((tuple(map(type, values)), tuple(kwargs), values))
        except TypeError:  # an argument that cannot be hashed: an array, a list
            entry = None
        if entry is not None and not (0.0 in values and has_negative_zero(values)):
            anchor = entry()
            if anchor is not None:
                return anchor.__dict__["spec"] if type(anchor) is types.FunctionType else anchor
        return factory.from_call(args, kwargs)

    function = factory.function
    functools.update_wrapper(build, function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.spec = build  # pyright: ignore[reportFunctionMemberAccess]
    return build


def has_negative_zero(values: tuple) -> bool:
    # A dict takes -0.0 for 0.0, so a spelling with the one may find what the other is.
    for value in values:
        if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0:
            return True
    return False


_PLAIN = frozenset((float, int, bool, str, bytes, type(None)))


def is_plain(value: Any) -> bool:
    """Whether a table may hold `value` in its keys: it cannot lead back to what the table holds."""
    return type(value) in _PLAIN or (
        isinstance(value, Configured) and vars(value).get("_plain", False)
    )


def anchor_of(spec: Any) -> Any:
    """What a table can hold weakly: a tuple cannot be, the `update` that holds it can."""
    return spec.update if isinstance(spec, Spec) else spec


def spec_of(anchor: Any) -> Any:
    return anchor.__dict__["spec"] if type(anchor) is types.FunctionType else anchor
