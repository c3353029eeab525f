"""Specs: optax transformations and schedules that know the configuration they were built from.

A spec is made by its factory and by nothing else; `_factories` is the place that makes them and
gives each factory its own class, with a field for each parameter.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import attrs
import jax
import optax

from .._errors import DynamicSpecError, SharedSpecError
from .._identity import Mode, Watched
from .._optax_compat import as_transform
from .._python_internals import token_of
from .._state import init_like_grads
from .containers import copied, is_changed, still_held, that_can_part
from .paths import (
    Parametrised,
    find,
    hyperparameters,
    replaced,
)

if TYPE_CHECKING:
    from typing import Self


_FEW = 16  # containers that are kept before it is asked whether anybody else has them


@attrs.define(eq=False)
class Internals:
    """What a spec has beside its parameters."""

    factory: Any
    # Gives what the factory made of the parameters.
    build: Callable[[], Any]
    # What is read again when the spec is traced, if anything of it can change.
    watched: Watched | None = None
    # What is read again: the factory if it is the user's, and the arguments as they were given.
    roots: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
    # Whether the factory is the user's and is called again for each trace, with traced values.
    is_called_again: bool = False
    # Whether what the factory made has kept a list, dict or set that it was given.
    keeps_containers: bool = False
    # The names of these arguments, and copies as they were before the factory had them.
    names: tuple[str, ...] = ()
    kept: tuple[Any, ...] = ()
    # The lists, dicts and sets among them for which equal ones have been given again, and these, as
    # long as somebody else has them; each with a copy as it was.
    shared: dict[int, tuple[Any, Any]] = attrs.field(factory=dict)
    others: list[tuple[Any, Any]] = attrs.field(factory=list)
    _most_others: int = _FEW
    # Whether a table has it.
    is_interned: bool = False
    # Of a spec with arrays: these, and what is left without them.
    flat: Any = None
    # The warnings of its factory.
    warned: Any = ()
    # Whether its parameters are plain values, which lead to no other object.
    is_plain: bool = False

    def check(self) -> None:
        """Reads again what the spec was built from.

        **Raises:** `SharedSpecError` if the containers of two builds were equal, and are not now;
        `DynamicSpecError` if the factory would be called with other values than before.
        """
        watched = self.watched
        if watched is None:
            return
        is_unchanged = watched.is_unchanged()
        if not is_unchanged and self.is_called_again:
            raise DynamicSpecError(
                f"{self.factory.expression} reads something that has changed since the spec was "
                "built, and for a traced value it has to be called again. Build the spec again, or "
                "write Python numbers instead of the arrays and of canonopt.dynamic(...)."
            )
        if is_unchanged and not self.shared:
            return
        given = [*self.shared.values(), *self.others]
        if any(is_changed(value, copy) for value, copy in given):
            raise SharedSpecError(
                f"{self.factory.name} was given equal lists or dicts more than once, so one spec "
                "stands for all, and one of these has been changed since. Give each its own copy: "
                f"{self.factory.name}(..., copy.deepcopy(value)), or change it before you build."
            )

    def given(self) -> dict[str, Any]:
        """The arguments as they were given, and copies of those that have been changed since."""
        pairs = zip(self.roots[1], self.kept, strict=True)
        values = [copy if is_changed(value, copy) else value for value, copy in pairs]
        return dict(zip(self.names, values, strict=True))

    def share(self, value: Any, earlier: Any) -> None:
        """Notes that `value` was given again, equal to the argument `earlier`."""
        for new, old in that_can_part(value, earlier):
            self.others.append((new, copied(new)))
            if id(old) not in self.shared:
                self.shared[id(old)] = (old, copied(old))
        if len(self.others) > self._most_others:
            self.others = still_held(self.others)
            self._most_others = 2 * len(self.others) + _FEW


class Configured(Parametrised):
    """What specs of transformations and of schedules have in common.

    Instances are interned: there is one object for each configuration, for as long as anything
    uses it. So `==` and `hash` go by identity, a copy is the object itself, and unpickling finds
    the same object again.
    """

    __slots__ = ()
    __canonicalized__ = True  # so `canonopt.canonicalize` returns it as it is

    _internals: Internals

    @property
    def _factory(self) -> Any:
        return self._internals.factory

    def replace(self, /, **changes: Any) -> "Self":
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
                self._factory.check_names({n: v for n, v in within.items() if n.isidentifier()})
            paths = {find(self, name)[0]: value for name, value in within.items()}
            spec = replaced(self, paths, lambda spec, new: spec.replace(**new))
        if not own and within:
            return spec
        return self._factory.from_fields(own, spec.parameters() | spec._internals.given())

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

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Any:
        """Set on the class that is made for a factory."""
        raise NotImplementedError

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
        # Defaults as well: one that changes in a later version does not change what is restored.
        return _restore, (self._factory, self._factory.to_pickle(self.parameters()))

    def __canonical_key__(self, mode: Mode) -> Hashable:
        return token_of(anchor_of(self))

    def __canonical_parts__(self) -> tuple[Any, ...]:
        internals = self._internals
        return () if internals.watched is None else internals.roots


def anchor_of(spec: Any) -> Any:
    """What can be referenced weakly: a tuple cannot be, the `update` that holds it can."""
    return spec.update if isinstance(spec, Spec) else spec


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

    def __new__(cls, /, **fields: Any) -> "Self":
        if cls is Spec:
            raise TypeError(
                "canonopt.Spec is the type of all specs and builds none: "
                "write canonopt.adam(...), or canonopt.canonical(factory)(...) for one of yours."
            )
        return cls._from_fields(fields)

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
            if hasattr(transform := self._internals.build(), name):
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

    def __new__(cls, /, **fields: Any) -> "Self":
        if cls is ScheduleSpec:
            raise TypeError(
                "canonopt.ScheduleSpec is the type of all schedule specs and builds none: "
                "write canonopt.cosine_decay_schedule(...) or another schedule."
            )
        return cls._from_fields(fields)

    def __call__(self, count: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
        """The value at `count`, an integer scalar: the number of updates made so far."""
        internals = self._internals
        internals.check()
        value = internals.build()(count)
        internals.check()  # what it calls may have changed what it reads
        return value


def make(
    cls: type[Configured],
    parameters: dict[str, Any],
    internals: Internals,
    transform: Callable[[], optax.GradientTransformationExtraArgs] | None = None,
) -> Configured:
    """A new spec of class `cls`.

    `transform` gives what the factory makes as a transformation, if it is another one.
    """
    if issubclass(cls, Spec):
        if transform is None:
            made = as_transform(internals.build())
            transform = lambda: made  # noqa: E731
        spec = _make_transform(cls, internals, transform)
    else:
        spec = object.__new__(cls)
    fields = internals.factory.fields
    vars(spec).update({fields[name]: value for name, value in parameters.items()})
    vars(spec)["_internals"] = internals
    return spec


def _make_transform(
    cls: type[Spec],
    internals: Internals,
    transform: Callable[[], optax.GradientTransformationExtraArgs],
) -> Spec:
    def init(params: optax.Params) -> optax.OptState:
        internals.check()
        state = transform().init(params)
        internals.check()  # what it calls may have changed what it reads
        return state

    def update(
        updates: optax.Updates,
        state: optax.OptState,
        params: optax.Params | None = None,
        **extra_args: Any,
    ) -> tuple[optax.Updates, optax.OptState]:
        internals.check()
        result = transform().update(updates, state, params, **extra_args)
        internals.check()
        return result

    spec = tuple.__new__(cls, (init, update))
    # Whoever holds one of the functions, a jit cache for one, holds the spec and so its interning.
    for function in (init, update):
        function.__dict__["__canonical_owner__"] = spec
    return spec
