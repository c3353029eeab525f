"""The errors a user can cause. Each is a small class over the standard type one would catch."""

from typing import Any


class CanonoptError(Exception):
    """Base of every error that canonopt raises itself.

    The facts are attributes, each `None` if it does not apply. `str(error)` is the problem and the
    fix.

    - `problem`: what happened, in a sentence.
    - `fix`: what to write instead.
    - `path`: the argument, field or leaf that the error is about.
    - `before`, `after`: what differs, in words.
    """

    __module__ = "canonopt"

    def __init_subclass__(cls) -> None:
        cls.__module__ = "canonopt"  # where users find it, and what a traceback shows

    def __init__(
        self,
        problem: str,
        fix: str | None = None,
        *,
        path: str | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix
        self.path, self.before, self.after = path, before, after

    def __str__(self) -> str:
        return " ".join(filter(None, (self.problem, self.fix)))

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made anew from its positional arguments, and then gets its attributes.
        return type(self), self.args, vars(self)


class ParameterError(CanonoptError, TypeError):
    """A factory was called with a parameter it has not, without one it needs, or with one twice."""


class NotATransformationError(CanonoptError, TypeError):
    """Something that is no gradient transformation stands where one is needed."""


class NotAFactoryError(CanonoptError, TypeError):
    """`canonical` was given something that builds neither a transformation nor a schedule."""


class NotMirroredError(CanonoptError, AttributeError):
    """A name of optax's that is no factory, or that optax does not have."""


class ConstantError(CanonoptError, TypeError):
    """`register_constant` was given something that is not a class, or a key that is no function."""


class SharedSpecError(CanonoptError, ValueError):
    """One spec stands for two builds whose lists or dicts were equal, and are not any more."""


class DynamicSpecError(CanonoptError, TypeError):
    """A spec that holds arrays was used where only a static one can be."""


class LossError(CanonoptError, ValueError):
    """The loss given to `init_like_grads` or `grads_like` is no scalar, or has no gradient."""


class ExtraArgsError(CanonoptError, TypeError):
    """The update of an optimizer needs an argument that `init_like_grads` was not given."""


class UnsettledStateError(CanonoptError, ValueError):
    """An update changes the structure or the types of its own state without coming to rest."""


class PlacementError(CanonoptError, ValueError):
    """The parameters of a model are on devices that no single step can use."""


class HoistError(CanonoptError, TypeError):
    """`hoist` was given what is no callable, or with `strict` what it can make nothing of."""


class ExcessError(CanonoptError, AssertionError):
    """A function was traced or compiled more often than it may be."""


class LimitError(CanonoptError, ValueError):
    """An assertion on traces or compiles was given a limit, or a mode, that there is not."""


class NotJittedError(CanonoptError, TypeError):
    """A plain function stands where a jitted one is needed."""


class UnsupportedVersionError(CanonoptError, RuntimeError):
    """The installed JAX or Equinox differs from the tested versions, and canonopt cannot count.

    Raised when counting starts, or at the end of what was to be counted.

    - `name`: the name in JAX or Equinox that is gone or has changed.
    - `package`, `version`: what is installed.
    - `tested`: the versions that canonopt was tested with, as a requirement for `pip install`.
    """

    def __init__(self, name: str, package: str, version: str, tested: str) -> None:
        super().__init__(
            f"canonopt cannot count traces and compiles with {package} {version}: {name} is gone "
            f"or has changed. Tested: {tested}.",
            f'Write: pip install "{tested}", or upgrade canonopt.',
        )
        self.args = (name, package, version, tested)  # of which a pickle makes it anew
        self.name, self.package, self.version, self.tested = name, package, version, tested


class RecompileWarning(UserWarning):
    """A function was traced or compiled more often than it may be, and is only to warn of it."""

    __module__ = "canonopt"
