"""The errors a user can cause. Each is a small class over the standard type one would catch."""


class CanonoptError(Exception):
    """Base of every error that canonopt raises itself."""

    __module__ = "canonopt"

    def __init_subclass__(cls) -> None:
        cls.__module__ = "canonopt"  # where users find it, and what a traceback shows


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
        super().__init__(name, package, version, tested)
        self.name, self.package, self.version, self.tested = name, package, version, tested

    def __str__(self) -> str:
        return (
            f"canonopt cannot count traces and compiles with {self.package} {self.version}: "
            f"{self.name} is gone or has changed. Tested: {self.tested}. "
            f'Write: pip install "{self.tested}", or upgrade canonopt.'
        )


class RecompileWarning(UserWarning):
    """A function was traced or compiled more often than it may be, and is only to warn of it."""

    __module__ = "canonopt"
