"""Why a value is not the same as that of another build, and what to write instead."""

from typing import Any, NamedTuple

import attrs


class Reason(NamedTuple):
    """Why a part cannot be compared by value. Continues a sentence that begins with the part."""

    why: str
    fix: str


@attrs.frozen(eq=False)
class Incomparable:
    """A part of a value that differs from that of another build, even if the two look alike."""

    part: Any
    why: str
    fix: str


NO_VALUE = Reason(
    "cannot be compared by value",
    "Make its class a frozen dataclass or an equinox.Module, or create one instance at the top "
    "level of a module.",
)
CHANGES = Reason(
    "can be changed in place",
    "Capture a tuple or a frozenset instead, or pass it as an argument.",
)
ARRAY = Reason(
    "is an array",
    "Pass it as an argument, keep it in a field of an equinox.Module, or capture a Python number.",
)
UNKNOWN_JIT = Reason(
    "was jitted with options that canonopt cannot read",
    "Hoist the function inside of it, and jit that once, at the top level of a module: "
    "jax.jit(canonopt.hoist(f), ...).",
)
NO_RULE = Reason("has no derivative rule yet", "Call defjvp or defvjp before you hoist it.")
HIDDEN = Reason(
    "has state that canonopt cannot read",
    "Pass what it returns as an argument, or keep that in a frozen dataclass.",
)
TOO_LARGE = Reason(
    "is too large to be read at each build",
    "Pass it as an argument, or, if it is an instance of your own class, promise that it does not "
    "change: canonopt.register_constant(type(x)).",
)
TRACER = Reason("is a tracer", "Pass it as an argument.")
CACHE = Reason(
    "caches results that depend on values which can change",
    "Call the function without its cache, or pass those values as arguments.",
)


def mutable(value: Any) -> Reason:
    """For an instance whose attributes can be set."""
    kind = type(value).__qualname__
    return Reason(
        f"is a {kind}, which may change",
        f"Make {kind} a frozen dataclass, or pass what is read of it as an argument, or promise "
        f"that its instances do not change: canonopt.register_constant({kind}).",
    )


def rebindable(name: str) -> Reason:
    """For a captured variable that bytecode may still store to."""
    return Reason(
        f"captures {name!r}, which a loop or an assignment may rebind",
        f"Assign {name} once, before the function is made, or make it a default: "
        f"lambda x, {name}={name}: ...",
    )


def impure(name: str) -> Reason:
    """For a function or value of a library that can differ each time, as `time.time`."""
    return Reason(
        f"uses {name}, which can give another value each time",
        "Use it outside of the function, and pass the result as an argument.",
    )


def has_attributes(names: Any) -> Reason:
    """For a function or a partial on which attributes were set."""
    return Reason(
        f"has attributes that were set on it ({', '.join(names)})",
        "Use a default or a captured variable instead.",
    )
