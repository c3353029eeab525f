"""`canonical`: from a function that builds transformations or schedules to one that builds specs."""

import functools
import importlib
import math
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import attrs
import jax.tree_util as jtu
import optax

from ._arguments import Signature, as_optax_takes, is_transformation
from ._dynamic import make_dynamic_class, make_lazily
from ._errors import NotAFactoryError, NotMirroredError
from ._interning import Table
from ._keys import HoldsArray, dtype_of, identify
from ._repr import expression
from ._spec import Configured, ScheduleSpec, Spec, make

P = ParamSpec("P")


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    The one object behind each function that `canonical` returns. It names the parameters, decides
    which configurations are the same, and makes the spec classes.
    """

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
        self.builder = _make_builder(self)

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
        plain = all(map(_is_plain, values)) and not _has_negative_zero(values)
        if plain and not vars(spec).get("_warns", True):
            spelling = (tuple(map(type, values)), tuple(kwargs), values)
            self.spellings.setdefault(spelling, _anchor(spec))
        return spec

    def named(self, changes: dict[str, Any]) -> dict[str, Any]:
        """`changes` by the parameters' own names."""
        return self.signature.resolve(changes)

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
            anchor = self.specs.setdefault(key, _anchor(self._make_static(parameters)))
        elif vars(_spec(anchor))["_warns"]:
            self.call(given)
        return _spec(anchor)

    def _make_static(self, parameters: dict[str, Any]) -> Any:
        made, warns = _noting_warnings(self.call, parameters)
        if warns:
            made = self.call(parameters)
        spec = self._wrap(made, parameters)
        plain = all(map(_is_plain, parameters.values()))
        vars(spec).update(_warns=warns, _plain=plain)
        return spec

    def _wrap(self, made: Any, parameters: dict[str, Any]) -> Any:
        return make(self._class_for(made), parameters, lambda: made)

    def _make_dynamic(self, given: dict[str, Any]) -> Configured:
        given = jtu.tree_map(lambda leaf: leaf, given)  # containers of our own
        parameters = {n: given.get(n, self.signature.defaults.get(n)) for n in self.fields}
        # Called here for its errors and its warnings, and to see what it makes.
        cls = self._class_for(self.call(parameters))
        return make_lazily(self._dynamic_class_for(cls), parameters)

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


# --- what runs at every call ------------------------------------------------------------------


def _make_builder(factory: "Factory") -> Callable[..., Any]:
    # The first half of `build` is what a loop that builds its optimizer again and again pays, so
    # it is written out flat.
    def build(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        try:
            entry = factory.find((tuple(map(type, values)), tuple(kwargs), values))
        except TypeError:  # an argument that cannot be hashed: an array, a list
            entry = None
        if entry is not None and not (0.0 in values and _has_negative_zero(values)):
            anchor = entry()
            if anchor is not None:
                return anchor.spec if type(anchor) is types.FunctionType else anchor
        return factory.from_call(args, kwargs)

    function = factory.function
    functools.update_wrapper(build, function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.spec = build  # pyright: ignore[reportFunctionMemberAccess]
    return build


def _has_negative_zero(values: tuple) -> bool:
    # A dict takes -0.0 for 0.0, so a spelling with the one may find what the other is.
    for value in values:
        if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0:
            return True
    return False


_PLAIN = frozenset((float, int, bool, str, bytes, type(None)))


def _is_plain(value: Any) -> bool:
    """Whether a table may hold `value` in its keys: it cannot lead back to what the table holds."""
    return type(value) in _PLAIN or (
        isinstance(value, Configured) and vars(value).get("_plain", False)
    )


def _anchor(spec: Any) -> Any:
    """What a table can hold weakly: a tuple cannot be, the `update` that holds it can."""
    return spec.update if isinstance(spec, Spec) else spec


def _spec(anchor: Any) -> Any:
    return anchor.spec if type(anchor) is types.FunctionType else anchor


_warnings_lock = threading.RLock()


def _noting_warnings(function: Callable[[Any], Any], argument: Any) -> tuple[Any, bool]:
    """Calls `function` without its warnings; what it returns, and whether it would have warned."""
    thread = threading.get_ident()
    warned = False
    with _warnings_lock, warnings.catch_warnings():
        show = warnings.showwarning

        def note(*details: Any, **kwargs: Any) -> None:
            nonlocal warned
            if threading.get_ident() == thread:
                warned = True
            else:
                show(*details, **kwargs)

        warnings.showwarning = note
        warnings.simplefilter("always")
        made = function(argument)
    return made, warned


# --- the public face --------------------------------------------------------------------------

_factories: Table[Any] = Table()


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
    ... def clipped_sgd(learning_rate: float, max_norm: float = 1.0) -> optax.GradientTransformation:
    ...     return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))
    >>> clipped_sgd(0.1) is clipped_sgd(lr=0.1, max_norm=1.0)
    True

    ```

    **Arguments:**

    - `function`: the factory. It is called once for each configuration, and should depend on its
        arguments only.

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
    kind: type[Factory], function: Callable[..., Any], name: str, module: str
) -> Callable[..., Any]:
    """The function that builds specs in place of `function`: one for each."""
    key, function = identify(function, True)
    return _factories.get(key) or _factories.setdefault(key, kind(function, name, module).builder)


class Mirror:
    """One of optax's namespaces, as functions that build specs.

    `mirror.adam` is `canonical(optax.adam)`. A factory that the installed optax does not have
    becomes a function that says so, so that one removal does not break the rest.
    """

    def __init__(self, namespace: types.ModuleType, module: str) -> None:
        self._namespace = namespace
        self._module = module
        self.mirrored: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._mirrored(Factory, name)

    def factory_of_factories(self, name: str) -> Callable[..., Any]:
        return self._mirrored(FactoryOfFactories, name)

    def _mirrored(self, kind: type[Factory], name: str) -> Callable[..., Any]:
        self.mirrored.append(name)
        function = vars(self._namespace).get(name)
        if function is not None:
            return register(kind, function, name, self._module)
        message = f"{self._namespace.__name__} {optax.__version__} has no {name}."

        def missing(*args: Any, **kwargs: Any) -> Any:
            raise NotMirroredError(message)

        missing.__name__ = missing.__qualname__ = name
        missing.__module__ = self._module
        return missing


def find_in(namespace: types.ModuleType, name: str) -> Any:
    """What a canonopt module answers for a name it does not have: `namespace` may have moved it.

    Raises `NotMirroredError`, with the name of optax's where optax has one that is no factory.
    """
    where = namespace.__name__
    # Optax warns here of a name that is deprecated.
    found = None if name.startswith("__") else getattr(namespace, name, None)
    if found is None:
        raise NotMirroredError(f"canonopt has no {name!r}, nor has {where} {optax.__version__}.")
    key, _ = identify(found, True)
    builder = _factories.get(key)
    if builder is None:
        raise NotMirroredError(
            f"canonopt has no {name!r}: it builds neither a transformation nor a schedule, so "
            f"there is nothing to intern. Use {where}.{name}."
        )
    return builder
