"""`canonical`: from a function that builds transformations to one that builds specs."""

import functools
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import attrs
import jax
import jax.tree_util as jtu
import optax

from ._arguments import Signature, as_optax_takes, is_transformation
from ._calls import anchor_of, has_negative_zero, is_plain, make_builder, spec_of
from ._dynamic import make_dynamic, make_dynamic_class
from ._errors import NotAFactoryError
from ._interning import Table
from ._keys import HoldsArray, dtype_of, identify
from ._repr import expression
from ._spec import Configured, ScheduleSpec, Spec, make
from ._warnings import noting_warnings

P = ParamSpec("P")


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    The one object behind each function that `canonical` returns. It names the parameters, decides
    which configurations are the same, and makes the spec classes.
    """

    # Whether it tells arrays from numbers, and so has to be given an array for a traced number.
    asks_for_arrays = False

    def __init__(self, function: Callable[..., Any], name: str, module: str) -> None:
        self.function = function
        self.name = name
        self.module = module
        # From the key of a configuration to its spec.
        self.specs: Table[Any] = Table()
        # The same from a call as it was written, for calls with nothing but plain values: it
        # spares the binding of arguments and the making of a key.
        self.spellings: Table[Any] = Table()
        self.find = self.spellings.find
        self._classes: dict[type[Configured], type[Configured]] = {}
        self.builder = make_builder(self)

    @functools.cached_property
    def signature(self) -> Signature:
        return Signature.of(self.function, self.name, reserved={*dir(Spec), "lr"})

    @property
    def fields(self) -> dict[str, str]:
        """The attribute of the spec that holds each parameter."""
        return self.signature.fields

    @functools.cached_property
    def _defaults(self) -> dict[str, tuple[Any, Any]]:
        return {name: identify(v, True) for name, v in self.signature.defaults.items()}

    # --- building -----------------------------------------------------------------------------

    def from_call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The spec of a call, remembered as it was written."""
        spec = self.from_values(self.signature.bind(args, kwargs))
        values = (*args, *kwargs.values())
        plain = all(map(is_plain, values)) and not has_negative_zero(values)
        if plain and vars(spec).get("_warns") is False:
            spelling = (tuple(map(type, values)), tuple(kwargs), values)
            self.spellings.setdefault(spelling, anchor_of(spec))
        return spec

    def named(self, changes: dict[str, Any]) -> dict[str, Any]:
        """`changes` by the parameters' own names."""
        return self.signature.resolve(changes)

    def takes(self, name: str) -> bool:
        """Whether a parameter of the factory itself has this name."""
        return self.signature.takes(name)

    def from_fields(self, fields: dict[str, Any]) -> Any:
        """The spec with the parameters given by name, as attrs.evolve and pickle give them."""
        return self.from_values(self.signature.complete(self.named(fields)))

    def from_values(self, given: dict[str, Any]) -> Any:
        """The spec with the values given, and defaults for the rest."""
        given = {n: dtype_of(value) if "dtype" in n else value for n, value in given.items()}
        self.signature.check_transformations(given)
        try:
            identified = self._defaults | {n: identify(value) for n, value in given.items()}
        except HoldsArray:
            return self._make_dynamic(given)
        key = tuple(identified[name][0] for name in self.signature.names)
        anchor = self.specs.get(key)
        if anchor is None:
            parameters = {name: identified[name][1] for name in self.signature.names}
            anchor = self.specs.setdefault(key, anchor_of(self._make_static(parameters)))
        elif vars(spec_of(anchor))["_warns"] is not False:
            self._warn_again(spec_of(anchor), given)
        return spec_of(anchor)

    def _make_static(self, parameters: dict[str, Any]) -> Any:
        # What is interned outlives the trace that may be going on.
        with jax.ensure_compile_time_eval():
            made, warns = noting_warnings(self.call, parameters)
            if warns:
                made = self.call(parameters)
        spec = self._wrap(made, parameters)
        plain = all(map(is_plain, parameters.values()))
        vars(spec).update(_warns=warns, _plain=plain)
        return spec

    def _warn_again(self, spec: Any, given: dict[str, Any]) -> None:
        if vars(spec)["_warns"] is None:
            _, vars(spec)["_warns"] = noting_warnings(self.call, given)
        if vars(spec)["_warns"]:
            self.call(given)

    def _wrap(self, made: Any, parameters: dict[str, Any]) -> Any:
        return make(self._class_for(made), parameters, lambda: made)

    def _make_dynamic(self, given: dict[str, Any]) -> Configured:
        parameters = {n: given.get(n, self.signature.defaults.get(n)) for n in self.fields}
        return make_dynamic(
            self, parameters, lambda made: self._dynamic_class_for(self._class_for(made))
        )

    def call(self, parameters: dict[str, Any]) -> Any:
        """What the function itself makes of `parameters`."""
        given = self.given(parameters)
        args, kwargs = self.signature.unbind(
            {name: as_optax_takes(name, value, given) for name, value in given.items()}
        )
        return self.function(*args, **kwargs)

    def given(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Those of `parameters` that differ from their defaults."""
        return {n: value for n, value in parameters.items() if not self._is_default(n, value)}

    def _is_default(self, name: str, value: Any) -> bool:
        if name not in self._defaults:
            return False
        try:
            return identify(value)[0] == self._defaults[name][0]
        except HoldsArray:
            return value is self.signature.defaults[name]

    # --- classes ------------------------------------------------------------------------------

    def _class_for(self, made: Any) -> type[Configured]:
        if not is_transformation(made) and not callable(made):
            raise NotAFactoryError(
                f"{self.expression}(...) returned {made!r}, which is neither a gradient "
                "transformation nor a schedule. Give canonopt.canonical a function that returns "
                "an optax.GradientTransformation, or one that returns a function of the count."
            )
        kind = Spec if is_transformation(made) else ScheduleSpec
        if kind not in self._classes:
            self._classes.setdefault(kind, self._make_class(kind))
        return self._classes[kind]

    def _make_class(self, kind: type[Configured]) -> type[Configured]:
        defaults = self.signature.defaults
        fields = {
            field: attrs.field(
                default=defaults.get(name, attrs.NOTHING),
                alias=name,
                kw_only=name in self.signature.keyword_only,
            )
            for name, field in self.fields.items()
        }
        cls = attrs.make_class(
            "".join(word[:1].upper() + word[1:] for word in self.name.split("_")),
            fields,
            bases=(kind,),
            class_body={"_factory": self, "__doc__": self.function.__doc__},
            frozen=True,
            slots=False,
            init=False,
            repr=False,
            eq=False,
        )
        cls.__module__ = self.module
        # A pytree without leaves, and what a jit cache compares is the spec itself.
        jtu.register_pytree_node(cls, lambda spec: ((), spec), lambda spec, _: spec)
        return cls

    def _dynamic_class_for(self, static_class: type[Configured]) -> type[Configured]:
        if static_class not in self._classes:
            self._classes.setdefault(static_class, make_dynamic_class(static_class))
        return self._classes[static_class]

    # --- words and pickles --------------------------------------------------------------------

    def _is_importable(self) -> bool:
        found = _import(self.module, self.name)
        return vars(found).get("factory") is self if callable(found) else False

    def __reduce__(self) -> tuple:
        if self._is_importable():
            return _factory_named, (self.module, self.name)
        return _factory_of, (self.function,)

    @property
    def expression(self) -> str:
        """Python source for the function that this is behind."""
        if not self._is_importable():
            return f"canonopt.canonical({expression(self.function)})"
        module = self.module
        if getattr(sys.modules["canonopt"], self.name, None) is self.builder:
            module = "canonopt"
        return self.name if module == "__main__" else f"{module}.{self.name}"

    def describe(self, parameters: dict[str, Any]) -> str:
        """Python source for the spec with these parameters."""
        args, kwargs = self.signature.unbind(self.given(parameters))
        words = [*map(expression, args), *(f"{n}={expression(v)}" for n, v in kwargs.items())]
        return f"{self.expression}({', '.join(words)})"


class FactoryOfFactories(Factory):
    """A function that takes a factory and returns another, as `optax.inject_hyperparams` does.

    What it returns is a function that builds specs, the same one for the same arguments.
    """

    def _wrap(self, made: Any, parameters: dict[str, Any]) -> Any:
        return _MadeFactory(made, self, parameters).builder


class _MadeFactory(Factory):
    # What `inject_hyperparams` returns keeps arrays in the state and passes on what is none.
    asks_for_arrays = True

    def __init__(self, function: Any, outer: Factory, parameters: dict[str, Any]) -> None:
        super().__init__(function, function.__name__, outer.module)
        self._outer = outer
        self._parameters = parameters

    def __reduce__(self) -> tuple:
        return _factory_made_by, (self._outer, self._outer.given(self._parameters))

    @property
    def expression(self) -> str:
        return self._outer.describe(self._parameters)


def _factory_named(module: str, name: str) -> Factory:
    return vars(_import(module, name))["factory"]


def _factory_of(function: Callable[..., Any]) -> Factory:
    return vars(canonical(function))["factory"]


def _factory_made_by(outer: Factory, parameters: dict[str, Any]) -> Factory:
    return vars(outer.from_fields(parameters))["factory"]


def _import(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --- the public face --------------------------------------------------------------------------

# Or `canonical(optax.adam)` would no longer be `canonopt.adam`.
_factories: Table[Any] = Table(stays=True)


@overload
def canonical(function: Callable[P, optax.GradientTransformation]) -> Callable[P, Spec]: ...
@overload
def canonical(function: Callable[P, Callable[..., Any]]) -> Callable[P, ScheduleSpec]: ...
def canonical(function: Callable[..., Any]) -> Callable[..., Any]:
    """The factory, made to build the same spec whenever it is given the same configuration.

    Works for any function that returns an `optax.GradientTransformation` or a schedule, a third
    party's or one's own, also as a decorator. Functions annotated with `float` and so on keep
    their signature for type checkers.

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

    - `function`: the factory. What it builds must depend on its arguments only: it is not called
        again for a configuration that is there, but to raise the warnings it raised before.

    **Returns:** a function with the signature of `function` that returns specs.

    **Raises:** `NotAFactoryError` if `function` is not callable, and when called, if it returns
    neither a transformation nor a schedule.
    """
    if not callable(function):
        raise NotAFactoryError(
            f"canonopt.canonical needs a function that builds transformations, and got "
            f"{function!r}. Give it the factory itself, as in canonopt.canonical(optax.adam)."
        )
    if isinstance(function, types.FunctionType) and "factory" in vars(function):
        return function
    name = getattr(function, "__qualname__", type(function).__name__)
    return register(Factory, function, name, getattr(function, "__module__", "__main__"))


def register(
    kind: type[Factory], function: Callable[..., Any], name: str, module: str, page: str = ""
) -> Callable[..., Any]:
    """The function that builds specs in place of `function`: one for each.

    `page` is where `function` is documented, for the docstring.
    """
    key, function = identify(function, True)
    builder = _factories.get(key)
    if builder is None:
        builder = kind(function, name, module).builder
        if page:
            builder.__doc__ = f"As {page}, interned.\n\n{builder.__doc__}"
        builder = _factories.setdefault(key, builder)
    return builder


def builder_of(function: Any) -> Callable[..., Any] | None:
    """The function that builds specs in place of `function`, if there is one already."""
    key, _ = identify(function, True)
    return _factories.get(key)
