"""What counts by identity, why, and what to write so that it need not.

And what may count by identity without a doubt: what a module holds is the same object whenever
somebody asks for it.
"""

import enum
import sys
import types
from typing import Any

import attrs


@attrs.frozen(eq=False)
class Doubt:
    """A part that counts by identity though it may be made anew with equal content."""

    part: Any
    why: str
    remedy: str


NO_VALUE = (
    "has no value to compare",
    "Make its class a frozen dataclass or an equinox.Module, or keep one instance in a module.",
)
CHANGES = (
    "can be changed in place",
    "Capture a tuple or a frozenset instead, or pass it as an argument.",
)
ARRAY = (
    "is an array",
    "Pass it as an argument, or keep it in a field of an equinox.Module; or capture a number.",
)
UNKNOWN_JIT = (
    "was jitted with options that canonopt cannot read",
    "Hoist the function inside of it, and jit it in a module: jax.jit(canonopt.hoist(f), ...).",
)
NO_RULE = ("has no rule for derivatives yet", "Define it before hoisting, with defjvp or defvjp.")


def is_importable(value: Any, user: Any = None) -> bool:
    """Whether `value` is what its module has under its name, as functions and classes are.

    `user` is what refers to it: the function that captured it, for one.
    """
    if isinstance(value, types.ModuleType):
        return True
    if isinstance(value, enum.Enum):
        return is_importable(type(value))
    if isinstance(value, type):  # those of extensions seldom are where they say
        return "<locals>" not in value.__qualname__
    found: Any = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str):
        return _is_constant(value, found, user)
    if "<" in name:  # <locals> or <lambda>
        return False
    for part in name.split("."):
        # A class may have a function in a descriptor, and `getattr` makes a method of it.
        found = getattr(found, "__dict__", {}).get(part)
    return getattr(found, "__func__", found) is value


def _is_constant(value: Any, module: Any, user: Any) -> bool:
    """Whether a nameless `value` is in the module of its type, or one that its user imports."""
    spaces = [vars(module)] if module else []
    if isinstance(user, types.FunctionType):
        imported = (v for v in user.__globals__.values() if isinstance(v, types.ModuleType))
        spaces += [user.__globals__, *map(vars, imported)]
    return any(constant is value for space in spaces for constant in space.values())
