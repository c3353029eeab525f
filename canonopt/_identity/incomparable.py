"""What stops two values from being the same, why, and what to write so that nothing does."""

from typing import Any

import attrs


@attrs.frozen(eq=False)
class Incomparable:
    """A part of a value that another build does not have, however much it looks alike."""

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
HIDDEN = (
    "keeps a state that canonopt cannot read",
    "Pass what it gives as an argument, or keep it in a frozen dataclass.",
)
TOO_LARGE = (
    "is too large to be read each time",
    "Pass it as an argument, or promise that it does not change with "
    "canonopt.register_constant(type(x)) for a class of your own.",
)
TRACER = ("belongs to a trace", "Pass it as an argument.")
MEMORY = (
    "keeps results, and reads what can change",
    "Call the function inside of it, or pass as an argument what it reads.",
)


def mutable(value: Any, field: str | None = None) -> tuple[str, str]:
    """Of an instance whose attributes can be set."""
    kind = type(value).__qualname__
    one = f"pass {field}" if field else "pass what is read of it"
    return (
        f"is a {kind}, which may change",
        f"Make {kind} a frozen dataclass, or {one} as an argument, or promise that its instances "
        f"do not change: canonopt.register_constant({kind}).",
    )


def rebindable(name: str) -> tuple[str, str]:
    return (
        f"captures {name!r}, which a loop or an assignment may bind anew",
        f"Bind it once and before, or as a default: lambda x, {name}={name}: ...",
    )


def impure(name: str) -> tuple[str, str]:
    return (
        f"reads {name}, which can give something else each time",
        "Call that where you build, and pass the result as an argument.",
    )
