"""`canonical`: from a function that builds transformations to one that builds specs."""

import functools
import importlib
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import jax
import optax

from .._errors import NotAFactoryError
from .._identity import HoldsArray, Reading, Table, Watched, is_in_place, read
from .._optax_compat import (
    callable_tree_as_function,
    dtype_of,
    is_transformation,
)
from .._python_internals import recording_warnings, token_of, warn_again
from .calls import (
    has_negative_zero,
    is_plain,
    make_builder,
    settings,
    spec_of,
    spelling,
)
from .classes import class_for, dynamic_class_for
from .containers import copied, is_changed, reference_counts
from .dynamic_spec import make_dynamic
from .expressions import expression
from .parameters import FactoryParameters
from .spec import (
    Configured,
    Internals,
    ScheduleSpec,
    Spec,
    anchor_of,
    make,
)

P = ParamSpec("P")

_NO_DEFAULT: Any = object()
_KEYS = frozenset(("key", "seed", "rng"))


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    The one object behind each function that `canonical` returns. It names the parameters, decides
    which configurations are the same, and makes the spec classes.
    """

    # Whether it tells arrays from numbers, and so has to be given an array for a traced number.
    asks_for_arrays = False

    def __init__(
        self, function: Callable[..., Any], name: str, module: str, of_optax: bool = False
    ) -> None:
        self.function = function
        self.name = name
        self.module = module
        self._of_optax = of_optax
        # From the key of a configuration to its spec.
        self.specs: Table[Any] = Table()
        # The same from a call as it was written, for calls with nothing but plain values: it
        # spares the binding of arguments and the making of a key.
        self.spellings: Table[Any] = Table()
        self.find = self.spellings.find
        self.reading: Reading | None = None
        self.classes: dict[type[Configured], type[Configured]] = {}
        self.builder = make_builder(self)

    @functools.cached_property
    def signature(self) -> FactoryParameters:
        reserved = {*dir(Spec), *dir(ScheduleSpec), "_internals", "lr"}
        return FactoryParameters.of(self.function, self.name, reserved)

    @functools.cached_property
    def _dtypes(self) -> list[str]:
        """The parameters that are dtypes, which Optax names so and others need not."""
        return [n for n in self.signature.names if "dtype" in n] if self._of_optax else []

    @property
    def fields(self) -> dict[str, str]:
        """The attribute of the spec that holds each parameter."""
        return self.signature.fields

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.signature.names)}

    @functools.cached_property
    def is_stable(self) -> bool:
        """Whether the function is a library's, and always the same."""
        return not read((self.function,)).can_change

    # --- building -----------------------------------------------------------------------------

    def from_call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The spec of a call, remembered as it was written."""
        key = self._spelling_of(args, kwargs)
        if key is not None and (anchor := self.spellings.get(key)) is not None:
            spec = spec_of(anchor)
            watched = spec._internals.watched
            if watched is None or watched.has_same_parts():
                return spec
        spec = self._from_given(self.signature.bind(args, kwargs))
        if key is not None and self._is_to_be_remembered(spec):
            self.spellings.setdefault(key, anchor_of(spec))
        return spec

    def _spelling_of(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A key of the call as it was written, if it has plain values and functions only."""
        values = (*args, *kwargs.values())
        if not self.is_stable or has_negative_zero(values):
            return None
        if types.FunctionType not in map(type, values):
            return spelling(args, kwargs) if all(map(is_plain, values)) else None
        try:
            reading = read((), values)
        except HoldsArray:
            return None
        if not reading.is_comparable or reading.has_containers:
            return None
        return (settings(), len(args), *kwargs, reading.key)

    def _is_to_be_remembered(self, spec: Any) -> bool:
        internals = spec._internals
        if internals.warned or _KEYS & {*self.signature.names}:
            return False  # a random key is made by the implementation that is the default then
        return internals.is_interned

    def takes(self, name: str) -> bool:
        """Whether a parameter of the factory itself has this name."""
        return self.signature.takes(name)

    def check_names(self, changes: dict[str, Any]) -> None:
        """Raises `ParameterError` for an unknown parameter."""
        self.signature.resolve(changes)

    def from_fields(self, fields: dict[str, Any], current: dict[str, Any] | None = None) -> Any:
        """The spec with the parameters given by name, as attrs.evolve and pickle give them."""
        given = self.signature.from_fields(fields, current)
        return self._from_given({n: v for n, v in given.items() if not self._is_default(n, v)})

    def _from_given(self, given: dict[str, Any]) -> Any:
        """The spec with the values given, and defaults for the rest."""
        for name in self._dtypes:
            if name in given:
                given = given | {name: dtype_of(given[name])}
        if self.signature.transformations:
            self.signature.check_transformations(given)
        counting, has_iterators = self._that_count(given)
        kept = given
        if has_iterators:
            given, kept = _split_iterators(given)
            counting |= {name: given[name] for name in counting}
        held, values = (() if self.is_stable else (self.function,)), tuple(counting.values())
        try:
            reading = read(held, values)
        except HoldsArray:
            return make_dynamic(self, self._in_order(kept))
        key = (settings(), tuple(counting), reading.key)
        found = self._found(key, values) if reading.is_comparable else None
        if found is not None:
            return found
        kept = {name: copied(value) for name, value in kept.items()}
        spec = self._build(given, kept)
        internals = spec._internals
        internals.roots, internals.names = (held, values), tuple(counting)
        internals.kept = tuple(kept[name] for name in counting)
        return self._intern(spec, key, reading) if reading.is_comparable else spec

    def _that_count(self, given: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """What differs from the defaults, in the order of the factory; whether an iterator does."""
        counting, has_iterators, defaults = {}, False, self.signature.defaults
        # A call with several arguments may have them in any order.
        names = given if len(given) == 1 else sorted(given, key=self._places.__getitem__)
        for name in names:
            value, default = given[name], defaults.get(name, _NO_DEFAULT)
            if value is not default and not _is_same_value(value, default):
                counting[name] = value
                has_iterators |= _is_iterator(value)
        return counting, has_iterators

    def _found(self, key: tuple, values: tuple[Any, ...]) -> Any:
        """The spec that stands for a key, if there is one that has not changed since."""
        anchor = self.specs.get(key)
        if anchor is None:
            return None
        spec = spec_of(anchor)
        internals = spec._internals
        if internals.watched is not None:
            _, earlier = internals.roots
            others = [i for i, value in enumerate(values) if value is not earlier[i]]
            if others and not self._is_as_it_was(internals):
                return None
            for i in others if internals.keeps_containers else ():
                internals.share(values[i], earlier[i])
        warn_again(internals.warned)
        return spec

    def _is_as_it_was(self, internals: Internals) -> bool:
        """Whether what was given for a spec before is the same as what was read just now."""
        watched, (_, values) = internals.watched, internals.roots
        assert watched is not None
        if watched.has_containers and any(map(is_changed, values, internals.kept)):
            return watched.is_unchanged()
        return watched.has_same_parts()

    def _build(self, given: dict[str, Any], kept: dict[str, Any]) -> Any:
        """A new spec of what was given; `kept` is a copy, since the factory may change `given`."""
        parameters = self._in_order(kept)
        # What is interned outlives the trace that may be going on.
        before = reference_counts(given.values())
        with jax.ensure_compile_time_eval():
            made, warned = recording_warnings(lambda: self.call(given))
        internals = Internals(self, lambda: made, warned=warned)
        after = reference_counts(given.values())
        internals.keeps_containers = len(after) != len(before) or any(
            map(operator.gt, after, before)
        )
        internals.is_plain = all(map(is_plain, parameters.values()))
        return self._wrap(made, parameters, internals)

    def _in_order(self, given: dict[str, Any]) -> dict[str, Any]:
        """All parameters, in the order of the factory."""
        values = self.signature.defaults | given
        return {name: values[name] for name in self.signature.names}

    def _intern(self, spec: Any, key: tuple, reading: Reading) -> Any:
        """The spec that stands for a key: this one, if no thread was faster."""
        if reading.can_change:
            roots = spec._internals.roots
            if read(*roots).key != reading.key:
                return spec  # the factory has changed its arguments, and would do so again
            watched = spec._internals.watched = Watched(reading, lambda: read(*roots))
            watched.stands_in(self.specs, key, weakref.ref(anchor_of(spec)))
        spec._internals.is_interned = True
        return spec_of(self.specs.setdefault(key, anchor_of(spec)))

    def _wrap(self, made: Any, parameters: dict[str, Any], internals: Internals) -> Any:
        """The spec of what the function has made."""
        return make(self._class_for(made), parameters, internals)

    def call(self, given: dict[str, Any]) -> Any:
        """What the function itself makes of what was given."""
        args, kwargs = self.signature.unbind(
            {name: callable_tree_as_function(name, value, given) for name, value in given.items()}
        )
        return self.function(*args, **kwargs)

    def given(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Those of `parameters` that differ from their defaults."""
        return {n: value for n, value in parameters.items() if not self._is_default(n, value)}

    def to_pickle(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters, without those defaults that are only known by their identity."""
        return {
            n: value
            for n, value in parameters.items()
            if not self._is_default(n, value) or _is_data(value)
        }

    def _is_default(self, name: str, value: Any) -> bool:
        default = self.signature.defaults.get(name, _NO_DEFAULT)
        return value is default or _is_same_value(value, default)

    # --- classes ------------------------------------------------------------------------------

    def _class_for(self, made: Any) -> type[Configured]:
        if not is_transformation(made) and not callable(made):
            raise NotAFactoryError(
                f"{self.expression}(...) returned {made!r}, which is neither a gradient "
                "transformation nor a schedule. Give canonopt.canonical a function that returns "
                "an optax.GradientTransformation, or one that returns a function of the count."
            )
        return class_for(self, Spec if is_transformation(made) else ScheduleSpec)

    def dynamic_class_for(self, made: Any) -> type[Configured]:
        return dynamic_class_for(self._class_for(made))

    def __canonical_key__(self, mode: Any) -> int:
        return token_of(self)

    def __canonical_parts__(self) -> tuple[Any, ...]:
        return () if self.is_stable else (self.function,)

    # --- words and pickles --------------------------------------------------------------------

    def _is_importable(self) -> bool:
        found = _import(self.module, self.name)
        return isinstance(found, types.FunctionType) and vars(found).get("factory") is self

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

    def _wrap(self, made: Any, parameters: dict[str, Any], internals: Internals) -> Any:
        builder = _MadeFactory(made, self, parameters).builder
        builder._internals = internals  # pyright: ignore[reportFunctionMemberAccess]
        return builder


class _MadeFactory(Factory):
    # What `inject_hyperparams` returns keeps arrays in the state and passes on what is none.
    asks_for_arrays = True

    def __init__(self, function: Any, outer: Factory, parameters: dict[str, Any]) -> None:
        super().__init__(function, function.__name__, outer.module)
        self._outer = outer
        self._parameters = parameters

    def __reduce__(self) -> tuple:
        return _factory_made_by, (self._outer, self._outer.to_pickle(self._parameters))

    @property
    def expression(self) -> str:
        return self._outer.describe(self._parameters)


# --- arguments as they were given -----------------------------------------------------------------


def _is_same_value(value: Any, default: Any) -> bool:
    """Whether a value is like a default. What is no plain value may be told from it by `is`."""
    if type(value) is not type(default):
        return False
    if type(value) in (int, float, bool, str):
        # 0.0 == -0.0, while their texts are right.
        return value == default and (bool(value) or repr(value) == repr(default))
    if type(value) is tuple:
        return len(value) == len(default) and all(map(_is_same_value, value, default))
    return value is None


def _is_iterator(value: Any) -> bool:
    kind = type(value)  # a weak proxy has all methods
    return hasattr(kind, "__next__") and kind not in weakref.ProxyTypes


def _split_iterators(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the factory is given, and what is kept of it: of an iterator each has one."""
    iterators = [name for name, value in given.items() if _is_iterator(value)]
    if not iterators:
        return given, given
    pairs = {name: itertools.tee(given[name]) for name in iterators}
    one, other = ({n: pair[i] for n, pair in pairs.items()} for i in (0, 1))
    return given | one, given | other


def _is_data(value: Any) -> bool:
    """Whether a pickle gives back what is the same as `value`."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_data, value))
    if type(value) is dict:
        return all(_is_data(name) and _is_data(item) for name, item in value.items())
    if isinstance(value, int | float | complex | str | bytes | Configured) or value is None:
        return True
    try:
        return is_in_place(value)
    except Exception:  # an attribute of the user's
        return False


# --- factories by name ----------------------------------------------------------------------------


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

    - `function`: the factory. It is called once for a configuration, with the arguments as they
        were given. The globals and the captured variables that it reads are part of the
        configuration.

    **Returns:** a function with the signature of `function` that returns specs.

    **Raises:** `NotAFactoryError` if `function` is not callable, and when called, if it returns
    neither a transformation nor a schedule.
    """
    if isinstance(function, staticmethod | classmethod):
        inner: Any = canonical(function.__func__)
        return type(function)(inner)  # pyright: ignore[reportReturnType]
    if not callable(function):
        raise NotAFactoryError(
            f"canonopt.canonical needs a function that builds transformations, and got "
            f"{function!r}. Give it the factory itself, as in canonopt.canonical(optax.adam)."
        )
    factory = vars(function).get("factory") if isinstance(function, types.FunctionType) else None
    if isinstance(factory, Factory) and factory.builder is function:
        return function
    name = getattr(function, "__qualname__", type(function).__name__)
    return register(Factory, function, name, getattr(function, "__module__", "__main__"))


def register(
    kind: type[Factory], function: Callable[..., Any], name: str, module: str, page: str = ""
) -> Callable[..., Any]:
    """The function that builds specs in place of `function`: one for each.

    `page` is where `function` is documented, for the docstring, if it is one of Optax's.
    """
    reading = read((function,))
    builder = _builder_for(reading, function)
    if builder is None:
        builder = kind(function, name, module, of_optax=bool(page)).builder
        if page:
            builder.__doc__ = f"As {page}, interned.\n\n{builder.__doc__}"
        vars(builder)["factory"].reading = reading  # which keeps what the key has the id of
        if reading.is_comparable:
            builder = _factories.setdefault(reading.key, builder)
    return builder


def builder_of(function: Any) -> Callable[..., Any] | None:
    """The function that builds specs in place of `function`, if there is one already."""
    return _builder_for(read((function,)), function)


def _builder_for(reading: Reading, function: Any) -> Any:
    builder = _factories.get(reading.key)
    if builder is None or builder.factory.function is function:
        return builder
    return builder if read((builder.factory.function,)).key == reading.key else None
