"""Promises of the user: classes whose instances do not change after they are made."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, overload

from .._errors import ConstantError
from .weak import WeakIdMap

C = TypeVar("C", bound=type)
Key = Callable[[Any], Any]

_promised: WeakIdMap[tuple[Key | None]] = WeakIdMap()


def promised(cls: type) -> tuple[Key | None] | None:
    """What `register_constant` was told of a class; None if nothing."""
    return _promised.get(cls)


@overload
def register_constant(cls: C, key: Callable[[Any], Hashable] | None = None) -> C: ...
@overload
def register_constant(
    cls: None = None, key: Callable[[Any], Hashable] | None = None
) -> Callable[[C], C]: ...
def register_constant(cls: Any = None, key: Key | None = None) -> Any:
    """Promises that the instances of a class are not changed after they are made.

    canonopt cannot see that of a class of yours unless it is a frozen dataclass, a frozen attrs
    class or an `equinox.Module`. Without the promise, an instance that a mask or a schedule
    captures is the same only if it is the same object and nothing in it has changed, and all of it
    is read again at each trace.

    ```python
    >>> import canonopt
    >>> @canonopt.register_constant(key=lambda config: config.rate)
    ... class Config:
    ...     def __init__(self, rate):
    ...         self.rate = rate
    >>> def build(config):
    ...     return canonopt.sgd(lambda count: config.rate / (count + 1))
    >>> build(Config(0.1)) is build(Config(0.1)), build(Config(0.1)) is build(Config(0.2))
    (True, False)

    ```

    If the promise is broken, a step goes on with the values from before.

    **Arguments:**

    - `cls`: the class. Its subclasses are not included, because they may add what changes.
    - `key`: gives for an instance what tells it from others. Two instances are the same if their
        keys are. Without it, an instance is the same as itself only.

    **Returns:** `cls`, or a decorator if there is none.

    **Raises:** `ConstantError` if `cls` is not a class, or `key` cannot be called.
    """
    if key is not None and not callable(key):
        raise ConstantError(
            f"canonopt.register_constant needs a function as key, and got {key!r}. Write "
            "key=lambda instance: (instance.a, instance.b)."
        )
    if cls is None:
        return lambda decorated: register_constant(decorated, key)
    if not isinstance(cls, type):
        raise ConstantError(
            f"canonopt.register_constant needs a class, and got {cls!r}. For the class of an "
            "instance, write canonopt.register_constant(type(instance))."
        )
    _promised.setdefault(cls, (key,))
    return cls
