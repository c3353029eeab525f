"""Specs: optax transformations and schedules that know the configuration they were built from.

A spec is made by its factory and by nothing else; `_factories` is the place that makes them and
gives each factory its own class, with a field for each parameter.
"""

import inspect
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import optax

from ._init import init_like_grads
from ._keys import identity_key
from ._paths import Parametrised, find, hyperparameters, replaced

if TYPE_CHECKING:
    from typing import Self


class Configured(Parametrised):
    """What specs of transformations and of schedules have in common.

    Instances are interned: there is one object for each configuration, for as long as anything
    uses it. So `==` and `hash` go by identity, a copy is the object itself, and unpickling finds
    the same object again.
    """

    __slots__ = ()

    # Set by `_factories` on the class that it makes for each factory. The factory is an object
    # that `build`s from values by name.
    _factory: ClassVar[Any]
    # What the factory makes of the parameters.
    _build: Callable[[], Any]

    def replace(self, **changes: Any) -> "Self":
        """The spec of the same factory with other values for the parameters named.

        ```python
        >>> import canonopt
        >>> canonopt.adam(lr=1e-3).replace(lr=3e-4)
        canonopt.adam(learning_rate=0.0003)

        ```

        A parameter of a spec inside this one is named by its path, or by the end of it.

        ```python
        >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(lr=1e-3))
        >>> optim.replace(**{"args[1].lr": 3e-4}) is optim.replace(lr=3e-4)
        True
        >>> optim.replace(lr=3e-4)
        canonopt.chain(canonopt.clip(max_delta=1.0), canonopt.adam(learning_rate=0.0003))

        ```

        **Arguments:** the parameters to change, by the names the factory has for them, or by paths
        as `hyperparameters` lists them. A value in place of a traced one is traced only if it is
        given as one: `replace(lr=canonopt.dynamic(3e-4))`.

        **Raises:** `ParameterError` for a parameter there is not, or a name that several have.
        """
        own = {name: v for name, v in changes.items() if self._factory.takes(name)}
        within = {name: v for name, v in changes.items() if name not in own}
        spec = self
        if within:
            if not any("." in path for path in hyperparameters(self)):
                self._factory.named({n: v for n, v in within.items() if n.isidentifier()})
            paths = {find(self, name)[0]: value for name, value in within.items()}
            spec = replaced(self, paths, lambda spec, new: spec.replace(**new))
        if not own and within:
            return spec
        return self._factory.from_fields(spec.parameters() | self._factory.named(own))

    def hyperparameters(self) -> dict[str, Any]:
        """The hyperparameters by path, those of specs inside this one too: what to log.

        ```python
        >>> import canonopt
        >>> schedule = canonopt.linear_schedule(1e-3, 0.0, transition_steps=100)
        >>> canonopt.chain(canonopt.clip(1.0), canonopt.sgd(schedule)).hyperparameters()
        {'args[0].max_delta': 1.0, 'args[1].learning_rate.init_value': 0.001, ...}

        ```

        **Returns:** the numbers, strings and arrays among the parameters, defaults included. What
        `canonopt.dynamic` made of a number is that number. Masks, dtypes, `None` and the like are
        left out.
        """
        return hyperparameters(self)

    def parameters(self) -> dict[str, Any]:
        """The value of each parameter, by the name that the factory has for it."""
        return {name: getattr(self, field) for name, field in self._factory.fields.items()}

    def __repr__(self) -> str:
        return self._factory.describe(self.parameters())

    def __copy__(self) -> "Self":
        return self

    def __deepcopy__(self, memo: dict) -> "Self":
        return self

    def __reduce__(self) -> tuple:
        return _restore, (self._factory, self._factory.given(self.parameters()))

    def __canonical_key__(self, captured: bool) -> Hashable:
        return identity_key(self)


def _restore(factory: Any, parameters: dict[str, Any]) -> Any:
    return factory.from_fields(parameters)


class Spec(Configured, optax.GradientTransformationExtraArgs):
    """An optax gradient transformation that knows how it was built.

    It is an `optax.GradientTransformationExtraArgs`, so whatever takes one takes a spec. Unlike one
    it is the same object whenever the same configuration is built again, so `jax.jit` and
    `equinox.filter_jit` do not trace again. It can be closed over, be a static argument, an
    ordinary argument (a pytree whose leaves are the hyperparameters given as arrays, if any), or a
    field of a module.

    Specs are made by the functions that carry optax's names, `canonopt.adam` and so on, and by
    `canonopt.canonical`. Each factory has a subclass, a frozen attrs class with a field for each
    parameter.

    ```python
    >>> import attrs, canonopt
    >>> optim = canonopt.adam(lr=1e-3)
    >>> optim is canonopt.adam(1e-3)
    True
    >>> optim.learning_rate
    0.001
    >>> attrs.evolve(optim, b1=0.95)
    canonopt.adam(learning_rate=0.001, b1=0.95)

    ```
    """

    if TYPE_CHECKING:  # as optax's, but for any pytree: an equinox.Module is no optax.Params

        @staticmethod
        def init(params: Any) -> optax.OptState: ...
        @staticmethod
        def update(
            updates: Any, state: Any, params: Any = None, **extra_args: Any
        ) -> tuple[Any, optax.OptState]: ...

    def __new__(cls, **fields: Any) -> "Self":
        if cls is Spec:
            raise TypeError(
                "canonopt.Spec is the type of all specs and builds none: "
                "write canonopt.adam(...), or canonopt.canonical(factory)(...) for one of yours."
            )
        return cls._factory.from_fields(fields)

    @classmethod
    def _make(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, iterable: Any
    ) -> optax.GradientTransformationExtraArgs:
        # `_replace` comes here: another `init` or `update` is no longer the configuration.
        return optax.GradientTransformationExtraArgs(*iterable)

    def __getattr__(self, name: str) -> Any:
        # What a factory's own result has beyond `init` and `update`: `MultiSteps.has_updated`.
        if not name.startswith("_"):
            if name == "lr" and "learning_rate" in self._factory.fields:
                return self.learning_rate
            if hasattr(transform := self._build(), name):
                return getattr(transform, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def init_like_grads(
        self, model: Any, loss_fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any
    ) -> optax.OptState:
        """As `canonopt.init_like_grads` with this spec as `optim`."""
        return init_like_grads(model, loss_fn, *args, optim=self, **kwargs)


class ScheduleSpec(Configured):
    """An optax schedule that knows how it was built: a function from a count to a value.

    ```python
    >>> import canonopt
    >>> schedule = canonopt.linear_schedule(1.0, 0.0, transition_steps=4)
    >>> float(schedule(1))
    0.75
    >>> schedule is canonopt.linear_schedule(1.0, 0.0, 4)
    True

    ```
    """

    def __new__(cls, **fields: Any) -> "Self":
        if cls is ScheduleSpec:
            raise TypeError(
                "canonopt.ScheduleSpec is the type of all schedule specs and builds none: "
                "write canonopt.cosine_decay_schedule(...) or another schedule."
            )
        return cls._factory.from_fields(fields)

    def __call__(self, count: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
        """The value at `count`, an integer scalar: the number of updates made so far."""
        return self._build()(count)


def make(
    cls: type[Configured],
    parameters: dict[str, Any],
    build: Callable[[], Any],
    transform: Callable[[], optax.GradientTransformationExtraArgs] | None = None,
) -> Configured:
    """A new spec of class `cls`. `build` gives what the factory makes of `parameters`.

    `transform` gives that as a transformation, where it is another one.
    """
    if issubclass(cls, Spec):
        spec = _make_transform(cls, transform or (lambda: as_transform(build())))
    else:
        spec = object.__new__(cls)
    fields = cls._factory.fields
    vars(spec).update({fields[name]: value for name, value in parameters.items()}, _build=build)
    return spec


def _make_transform(
    cls: type[Spec], transform: Callable[[], optax.GradientTransformationExtraArgs]
) -> Spec:
    def init(params: optax.Params) -> optax.OptState:
        return transform().init(params)

    def update(
        updates: optax.Updates,
        state: optax.OptState,
        params: optax.Params | None = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, optax.OptState]:
        return transform().update(updates, state, params, **extra_args)

    spec = tuple.__new__(cls, (init, update))
    # Whoever holds one of the functions, a jit cache for one, holds the spec and so its interning.
    init.spec = update.spec = spec  # pyright: ignore[reportFunctionMemberAccess]
    return spec


def as_transform(made: Any) -> optax.GradientTransformationExtraArgs:
    if isinstance(made, optax.GradientTransformation):
        return optax.with_extra_args_support(made)
    # An object with the two methods, as `optax.MultiSteps` is.
    kinds = [p.kind for p in inspect.signature(made.update).parameters.values()]
    takes_extra_args = inspect.Parameter.VAR_KEYWORD in kinds
    pair = (
        optax.GradientTransformationExtraArgs if takes_extra_args else optax.GradientTransformation
    )
    return optax.with_extra_args_support(pair(made.init, made.update))
