"""Errors, warnings, and the reasons why canonopt cannot compare a value.

Each error also inherits from the built-in error that a user would catch.
"""

from typing import Any, NamedTuple


class CanonoptError(Exception):
    """Base class of the errors that canonopt raises.

    The attributes hold the details; an attribute that does not apply is `None`. `str(error)` is the
    problem and the fix. The fix has a line of its own if the problem has several lines.

    - `problem`: what happened.
    - `fix`: what to write instead.
    - `path`: the argument, field or leaf that the error is about.
    - `before`, `after`: the difference, in words.
    """

    def __init__(
        self,
        problem: str,
        fix: str | None = None,
        *,
        path: str | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> None:
        super().__init__(problem)  # pickle calls the class with `problem`, then sets attributes
        self.problem, self.fix = problem, fix
        self.path, self.before, self.after = path, before, after

    def __str__(self) -> str:
        separator = "\n" if "\n" in self.problem else " "
        return separator.join(filter(None, (self.problem, self.fix)))


class ParameterError(CanonoptError, TypeError):
    """A parameter of a factory or spec is unknown, missing or ambiguous, or has a wrong value."""


class ConfigError(CanonoptError, ValueError):
    """A spec cannot be written as plain data, or the data are not those of a spec.

    `path` is the place in the data: `spec.args[1].learning_rate`.
    """


class NotATransformationError(CanonoptError, TypeError):
    """The `optim` of `init_like_grads` is missing, or not a gradient transformation."""


class NotAFactoryError(CanonoptError, TypeError):
    """`canonical` was given a value that is not a factory, or a factory that it cannot use."""


class ConstantError(CanonoptError, TypeError):
    """`register_constant` was given a value that is not a class, or a key that is not callable."""


class DynamicSpecError(CanonoptError, TypeError):
    """`dynamic` was given a wrong value, or a traced number or spec is used where it cannot be."""


class LossError(CanonoptError, ValueError):
    """A loss is missing, given besides `grads`, not a float scalar, or without a gradient."""


class UnsettledStateError(CanonoptError, ValueError):
    """The update changes the structure or types of each state that `init_like_grads` has tried."""


class UpdatesError(CanonoptError, ValueError):
    """The updates that `apply_updates` was given do not match the model."""


class CheckpointError(CanonoptError, ValueError):
    """A checkpoint for `restore_like` cannot be read or does not fit, or `load` is no function."""


class DeletedArrayError(CanonoptError, RuntimeError):
    """A function given to `jit` or `filter_jit` captures an array that was deleted or donated."""


class PlacementError(CanonoptError, ValueError):
    """The parameters of a model are on devices that no step can use together."""


class HoistError(CanonoptError, TypeError):
    """`hoist` was given a value that is not callable, or, with `strict=True`, not comparable."""


class ExcessError(CanonoptError, AssertionError):
    """A function was traced or compiled more often than its limit allows."""

    def __str__(self) -> str:
        # The text looks like the report of `compile_log` or of `canonopt doctor`.
        return "\n  write: ".join(filter(None, (self.problem, self.fix)))


class RecompileError(ExcessError):
    """Something was traced or compiled inside of `no_recompiles`."""


class UnknownFunctionError(CanonoptError, KeyError):
    """A log, `no_recompiles` or a pytest marker was given a name that no function has."""


class StaleReadError(CanonoptError, AssertionError):
    """A cached program still uses the old value of something that has changed since the trace.

    `path` names what has changed, such as `runtime.weight`.
    """


class LimitError(CanonoptError, ValueError):
    """An assertion on traces or compiles, or `keep_programs`, was given an invalid argument."""


class NotJittedError(CanonoptError, TypeError):
    """`assert_max_compiles` was given a function that is not jitted."""


class ProcessMismatchError(CanonoptError, AssertionError):
    """A part of a value differs between processes: `before` in process 0, `after` in another."""


class MissingProcessError(CanonoptError, RuntimeError):
    """Another process did not answer in time, or cannot be reached."""


class UnsupportedVersionError(CanonoptError, RuntimeError):
    """The installed JAX or Equinox differs from the tested versions, and canonopt cannot go on.

    Raised when canonopt starts or stops counting, looks for stale reads, or compares processes.

    - `name`: the name in JAX or Equinox that is gone or has changed.
    - `package`, `version`: the installed package and its version.
    - `tested`: the versions that canonopt was tested with, as a requirement for `pip install`.
    """

    def __init__(self, name: str, package: str, version: str, tested: str, purpose: str) -> None:
        super().__init__(
            f"canonopt cannot {purpose} with {package} {version}: {name} is gone or has changed. "
            f"Tested: {tested}.",
            f'Write: pip install "{tested}", or upgrade canonopt.',
        )
        self.args = (name, package, version, tested, purpose)  # pickle calls the class with these
        self.name, self.package, self.version, self.tested = name, package, version, tested


class RecompileWarning(UserWarning):
    """Something was traced or compiled too often, or inside `no_recompiles`, with `mode="warn"`."""


# --- reasons why values of two builds cannot be compared ----------------------------------------


class Reason(NamedTuple):
    """A reason why a value cannot be compared, and a fix. `why` follows the name of the value."""

    why: str
    fix: str


class Incomparable:
    """A part of a value that counts as new in each build, even if it looks the same."""

    def __init__(self, part: Any, why: str, fix: str) -> None:
        self.part, self.why, self.fix = part, why, fix


# A `fix` is a whole sentence, since it is shown after `why` or by itself. It says what to write.
NO_VALUE = Reason(
    "cannot be compared by value",
    "Create it once, at the top level of a module, or pass it as an argument.",
)
CHANGES = Reason(
    "can be changed in place",
    "Capture a tuple, a frozenset or a flax.core.FrozenDict instead, or pass it as an argument.",
)
ARRAY = Reason(
    "is an array",
    "Pass it as an argument, or capture a Python number or a tuple of numbers. Do not make "
    "the array a field of a model: it would be trained.",
)
UNKNOWN_JIT = Reason(
    "was jitted with options that canonopt cannot read",
    "Define and jit it once, at the top level of a module.",
)
IDENTITY_TEST = Reason(
    "compares objects with `is`",
    "Write `==`, or `is` with None, a class or a sentinel. Or make the function once.",
)
FINDS = Reason(
    "may look up or order objects by identity, as a set does",
    "Define __eq__ and __hash__ in the class of these objects, or pass only the attributes that "
    "are needed.",
)
INNER_JIT = Reason(
    "passes an object or a method to other code, and an inner jit may reuse an old trace for it",
    "Leave out the inner jit: the outer jit compiles the inner function too. Or pass only what the "
    "inner jit needs.",
)
NO_RULE = Reason("has no derivative rule yet", "Call defjvp or defvjp before you use it.")
HIDDEN = Reason(
    "has state that canonopt cannot read",
    "Use it outside, and pass the result, or keep its state in a frozen dataclass.",
)
TOO_LARGE = Reason(
    "is too large to be read each time",
    "Pass it as an argument, or, if it is an instance of your own class, promise that it does not "
    "change: canonopt.register_constant(type(x)).",
)
TRACER = Reason("is a tracer", "Pass it as an argument.")
CACHE = Reason(
    "returns objects that it has cached, which may change",
    "Call it outside of the function, and pass the result as an argument.",
)
OLD_TRACE = Reason(
    "may run an old trace, made before a value that it reads was changed",
    "Leave out the inner jit, or pass what can change as an argument.",
)


def mutable(value: Any, is_of_library: bool) -> Reason:
    """Return the reason why an instance that may change cannot be compared."""
    kind = type(value).__qualname__
    why = f"is a {kind}, which may change"
    if is_of_library:
        return Reason(why, f"Pass its attributes in place of the {kind}.")
    key = "vars" if type(value).__dictoffset__ else "lambda x: x.name"
    return Reason(
        why,
        f"Make {kind} a frozen dataclass, or pass its attributes as arguments, or promise "
        f"that its instances do not change: canonopt.register_constant({kind}, key={key}).",
    )


def rebindable(name: str) -> Reason:
    """Return the reason why a function that captures a rebindable variable cannot be compared."""
    other = "y" if name == "x" else "x"
    return Reason(
        f"captures {name!r}, which a loop or an assignment may rebind",
        f"Assign {name} once, before the function is made, or make it a default: "
        f"lambda {other}, {name}={name}: ...",
    )


OF_LIBRARY = Reason(
    "was made by a library, and a variable in it may be rebound",
    "Make it with canonopt in place of optax, or once, at the top level of a module.",
)


def impure(name: str) -> Reason:
    """Return the reason why code that uses a name such as `time.time` cannot be compared."""
    fix = "Use it outside of the function, and pass the result as an argument."
    if name == "hash()":
        fix = "Leave __hash__ to a frozen dataclass, or pass the hash as an argument."
    return Reason(f"uses {name}, which can give another value each time", fix)


def not_loaded(name: str) -> Reason:
    """Return the reason why code that may import an unloaded module cannot be compared."""
    return Reason(f"may import {name}, which is not loaded", "Import it at the top of the module.")


def has_attributes(names: Any) -> Reason:
    """Return the reason why a function or partial with attributes cannot be compared."""
    return Reason(
        f"has attributes set on it ({', '.join(names)})",
        "Use a default or a captured variable instead.",
    )
