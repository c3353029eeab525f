"""What runs at every call of a factory, found or not."""

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import jax

from .._jax_internals import x64_state
from .spec import Configured

_config: Any = jax.config
_x64 = x64_state()


def make_builder(factory: Any) -> Callable[..., Any]:
    # The first half of `build` is what a loop that builds its optimizer again and again pays, so
    # it is written out flat.
    def build(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        try:
            entry = factory.find((_x64.value, tuple(map(type, values)), tuple(kwargs), values))
        except TypeError:  # an argument that cannot be hashed: an array, a list
            entry = None
        if entry is not None and not (0.0 in values and has_negative_zero(values)):
            anchor = entry()
            if anchor is not None:
                if type(anchor) is types.FunctionType:
                    return anchor.__dict__["__canonical_owner__"]
                return anchor
        return factory.from_call(args, kwargs)

    function = factory.function
    functools.update_wrapper(build, function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.__canonical_owner__ = factory  # pyright: ignore[reportFunctionMemberAccess]
    return build


def spelling(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """What `build` looks for."""
    values = (*args, *kwargs.values())
    return (_x64.value, tuple(map(type, values)), tuple(kwargs), values)


def has_negative_zero(values: tuple) -> bool:
    # A dict takes -0.0 for 0.0, so a spelling with the one may find what the other is.
    for value in values:
        if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0:
            return True
    return False


_PLAIN = frozenset((float, int, bool, str, bytes, type(None)))


def is_plain(value: Any) -> bool:
    """Whether a table may hold `value` in its keys: it cannot lead back to what the table holds."""
    return type(value) in _PLAIN or (isinstance(value, Configured) and value._internals.is_plain)


def spec_of(anchor: Any) -> Any:
    """The spec that a table holds by this anchor."""
    if type(anchor) is not types.FunctionType:
        return anchor
    owner = anchor.__dict__["__canonical_owner__"]
    return owner if isinstance(owner, Configured) else anchor  # a factory that was made


def settings() -> tuple:
    """What a factory can ask of JAX when it is called, besides its arguments."""
    return (
        _x64.value,
        _config.jax_default_prng_impl,
        _config.jax_numpy_dtype_promotion,
        _config.jax_default_dtype_bits if hasattr(_config, "jax_default_dtype_bits") else None,
    )
