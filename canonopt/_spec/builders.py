"""Functions that build specs: `canonical`, for any factory, and `Mirror`, for those of Optax."""

import inspect
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import optax

from ..errors import NotAFactoryError, NotMirroredError
from .arguments import Internals
from .factory import Factory, builder_of, factory_of, register
from .spec import Configured, ScheduleSpec, Spec, internals_of

P = ParamSpec("P")


@overload
def canonical(function: Callable[P, optax.GradientTransformation]) -> Callable[P, Spec]: ...
@overload
def canonical(function: Callable[P, Callable[..., Any]]) -> Callable[P, ScheduleSpec]: ...
def canonical(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a factory that builds the same spec whenever it is given the same configuration.

    It works for any function that returns an `optax.GradientTransformation` or a schedule, your own
    or a third party's, also as a decorator. A function annotated with `float` and so on keeps its
    signature for type checkers.

    ```python
    >>> import canonopt, optax
    >>> @canonopt.canonical
    ... def clipped_sgd(
    ...     learning_rate: float, max_norm: float = 1.0
    ... ) -> optax.GradientTransformation:
    ...     return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))
    >>> clipped_sgd(0.1) is clipped_sgd(lr=0.1, max_norm=1.0)
    True

    ```

    **Arguments:**

    - `function`: the factory. It is called once for each configuration, with the arguments as
        given. The globals and the captured variables that it reads are part of the configuration.

    **Returns:** a function with the signature of `function` that returns specs.

    **Raises:** `NotAFactoryError` if `function` is not callable. The returned function raises it if
    `function` returns neither a transformation nor a schedule.
    """
    # So that `canonical` may stand above these decorators as well as below.
    if isinstance(function, staticmethod | classmethod):
        inner: Any = canonical(function.__func__)
        return type(function)(inner)  # pyright: ignore[reportReturnType]
    if not callable(function):
        raise NotAFactoryError(
            f"canonopt.canonical needs a function that builds transformations, and got "
            f"{function!r}.",
            "Give it the factory itself, as in canonopt.canonical(optax.adam).",
        )
    factory = factory_behind(function)
    return function if factory is not None else factory_of(function).builder


def factory_behind(value: Any) -> Factory | None:
    """The factory of a spec or of a function that builds specs; `None` for other values."""
    if isinstance(value, Configured):
        return internals_of(value).factory  # pyright: ignore[reportReturnType]
    factory = vars(value).get("factory") if isinstance(value, types.FunctionType) else None
    # `functools.wraps` copies the attribute to a wrapper, which may do something else.
    return factory if isinstance(factory, Factory) and factory.builder is value else None


# --- factories that build factories -------------------------------------------------------------


class FactoryOfFactories(Factory):
    """A function that takes a factory and returns another, as `optax.inject_hyperparams` does.

    What it returns is a function that builds specs, the same one for the same arguments.
    """

    def _wrap(self, made: Any, parameters: dict[str, Any], internals: Internals) -> Any:
        return _MadeFactory(made, self, parameters, internals).builder

    internals_of: Callable[[Any], Internals] = staticmethod(
        operator.attrgetter("factory.internals")
    )


class _MadeFactory(Factory):
    # What `inject_hyperparams` returns keeps arrays in the state, and passes anything else on.
    asks_for_arrays = True

    def __init__(
        self, function: Any, outer: Factory, parameters: dict[str, Any], internals: Internals
    ) -> None:
        super().__init__(function, function.__name__, outer.module)
        self.is_checked = str(inspect.unwrap(function).__module__).startswith("optax.")
        self._outer = outer
        self._parameters = parameters
        self.internals = internals

    @property
    def made_by(self) -> tuple[Factory, dict[str, Any]]:
        return self._outer, self._parameters

    def __reduce__(self) -> tuple:
        # No module has this function under a name, so pickle makes it again.
        return _factory_made_by, (self._outer, self._outer.to_pickle(self._parameters))

    @property
    def expression(self) -> str:
        return self._outer.describe(self._parameters)


def _factory_made_by(outer: Factory, parameters: dict[str, Any]) -> Factory:
    return vars(outer.from_fields(parameters))["factory"]


# --- Optax's factories --------------------------------------------------------------------------

# The function that builds specs for each name that Optax has a factory under: "adam",
# "contrib.muon". Filled when the catalogue is imported.
catalogue: dict[str, Callable[..., Any]] = {}


class Mirror:
    """One of Optax's namespaces, as functions that build specs.

    `mirror.adam` is `canonical(optax.adam)`. For a name that the installed Optax does not have it
    is a function that raises an error, so that one removal does not break the rest.
    """

    def __init__(self, namespace: types.ModuleType, module: str, page: str) -> None:
        self._namespace = namespace
        self._page = f"https://optax.readthedocs.io/en/latest/api/{page}.html#optax."
        self._module = module
        # The names that were asked for, for `__all__`.
        self.mirrored: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)  # doctest and inspect ask for __wrapped__
        return self._mirrored(Factory, name)

    def factory_of_factories(self, name: str) -> Callable[..., Any]:
        return self._mirrored(FactoryOfFactories, name)

    def _mirrored(self, kind: type[Factory], name: str) -> Callable[..., Any]:
        self.mirrored.append(name)
        # Not `getattr`, with which Optax warns of a deprecated name.
        function = vars(self._namespace).get(name)
        if function is not None:
            where = f"{self._namespace.__name__}.{name}".removeprefix("optax.")
            builder = register(kind, function, name, self._module, page=self._page + where)
            catalogue[name if vars(optax).get(name) is function else where] = builder
            return builder
        message = f"{self._namespace.__name__} {optax.__version__} has no {name}."

        def missing(*args: Any, **kwargs: Any) -> Any:
            raise NotMirroredError(message, path=name)

        missing.__name__ = missing.__qualname__ = name
        missing.__module__ = self._module
        return missing


def find_in(namespace: types.ModuleType, name: str) -> Any:
    """The value of a name that a module of canonopt lacks. Optax may have moved a factory.

    Raises `NotMirroredError`, which refers to Optax if that has something else by this name.
    """
    where = namespace.__name__
    # Optax warns here if the name is deprecated.
    found = None if name.startswith("__") else getattr(namespace, name, None)
    if found is None:
        raise NotMirroredError(
            f"Neither canonopt nor {where} {optax.__version__} has {name!r}.", path=name
        )
    builder = builder_of(found)
    if builder is None:
        raise NotMirroredError(
            f"canonopt has no {name!r}: it builds neither a transformation nor a schedule, so "
            "there is nothing to intern.",
            f"Use {where}.{name}.",
            path=name,
        )
    return builder


def mirrored_names() -> dict[str, tuple[str, Any]]:
    """From the name of each of Optax's factories, `optax.adam`, to canonopt's name and function."""
    found = {}
    for namespace in (optax, optax.contrib, optax.schedules, optax.transforms):
        for name, value in vars(namespace).items():
            builder = None if name.startswith("_") else builder_of(value)
            if builder is not None:
                # `optax.transforms` has again what `optax` has.
                owner = optax if vars(optax).get(name) is value else namespace
                ours = f"canonopt{owner.__name__.removeprefix('optax')}.{name}"
                found[f"{namespace.__name__}.{name}"] = ours, builder
    return found


def replace_in_optax() -> None:
    """Puts canonopt's factories in Optax's place, in this process.

    Optax's own modules go on with what they have, and so do those of canonopt.
    """
    original = types.SimpleNamespace(**vars(optax))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "canonopt" and vars(module).get("optax") is optax:
            vars(module)["optax"] = original
    for theirs, (_, builder) in mirrored_names().items():
        namespace, _, name = theirs.rpartition(".")
        setattr(sys.modules[namespace], name, builder)
