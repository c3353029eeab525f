"""Factories: a function that builds transformations or schedules, and a table of its specs."""

import difflib
import enum
import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax

from .._identity import PLAIN, HoldsArray, Table, Watched, has_negative_zero, read
from .._jax_internals.settings import all_settings
from .._jax_internals.tracing import is_at_top_level, makes_tracers
from .._optax_compat import dtype_of, is_factory_of_factories, takes_number
from .._python_internals.signatures import signature_of
from .._python_internals.weak import token_of
from ..errors import NotAFactoryError, ParameterError
from .expressions import call_expression, expression
from .spec import WHOLE, Configured, Internals, Spec, class_for, copied, internals_of, make_spec

_config: Any = jax.config

# The settings of JAX that a factory of Optax can read when it is called.
_settings = operator.attrgetter(
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_random_seed_offset",
    "jax_threefry_partitionable",
    *(["jax_default_dtype_bits"] if hasattr(_config, "jax_default_dtype_bits") else []),
)
# Names that no parameter may have: attributes of specs, and "canonical", a key of config data.
_RESERVED = frozenset((*dir(Spec), "_internals", "canonical")).difference(dir(tuple))
# The names of parameters from which a factory makes a random key.
_KEYS = frozenset(("key", "seed", "rng"))
# Pickles hold defaults of these types, since a later version may have other defaults.
_DATA = PLAIN | {tuple, list, dict}


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    Each function that `canonical` returns is the `builder` of a factory. The factory binds
    arguments, decides which configurations are the same, calls its `function` once for each
    configuration, and holds the specs weakly.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        module: str,
        of_optax: bool = False,
        made_by: "tuple[Factory, dict[str, Any]] | None" = None,
    ) -> None:
        self.function, self.name, self.module = function, name, module
        self.signature = FactoryParameters(function, name)
        self._of_optax = of_optax
        # The factory that returned `function`, as `optax.inject_hyperparams` does, with the values
        # it got; or None. Such a `function` keeps arrays in the state: it gets no `TracedNumber`.
        self.made_by = made_by
        # True if users treat `builder` as a class, as they do `optax.MultiSteps`.
        self.is_class = of_optax and isinstance(function, type)
        self.makes_factories = of_optax and is_factory_of_factories(function)
        # Maps the key of a configuration to the internals of its spec.
        self.specs: Table[Internals] = Table()
        # Maps the arguments of a repeated call to the internals of its spec, so that the next call
        # with these arguments neither binds nor reads them.
        self.spellings: Table[Internals] = Table()
        self.classes: dict[Any, Any] = {}
        self.builder = _make_builder(self)

    @functools.cached_property
    def held(self) -> tuple[Any, ...]:
        """Return `(function,)` if what it reads can change, else `()`. Each key includes this."""
        return (self.function,) if read((self.function,)).can_change else ()

    # --- building a spec --------------------------------------------------------------------------

    def from_call(self, args: tuple, kwargs: dict[str, Any], key: tuple) -> Any:
        """Return the spec for a call not in `spellings`. Add a repeated call with a fixed spec."""
        spec = self._spec_of(self.signature.bind(args, kwargs))
        internals, values = internals_of(spec), (*args, *kwargs.values())
        # A remembered call keeps the specs among its arguments alive for longer than its own spec,
        # so only a repeated call is remembered. No call is remembered if what the factory reads can
        # change, or if the factory makes a random key, which depends on a setting of JAX.
        is_fixed = not self.held and _KEYS.isdisjoint(self.signature.parameters)
        if internals.is_rebuilt and is_fixed and all(map(_is_constant, values)):
            internals.has_zero |= 0.0 in values
            self.spellings.setdefault(key, internals)
        return spec

    def from_fields(self, fields: dict[str, Any], current: dict[str, Any] | None = None) -> Any:
        """Return the spec with these `fields`. Other values are those of `current`, or defaults."""
        given = self.signature.from_fields(fields, current)
        self._check_no_iterator({n: v for n, v in given.items() if n not in fields})
        return self._spec_of(self.signature.differing(given, containers=True))

    def _spec_of(self, given: dict[str, Any]) -> Any:
        """Return the spec with these values, and defaults for the rest."""
        signature = self.signature
        if self._of_optax:
            given = {name: self._as_meant(name, value) for name, value in given.items()}
        given = signature.differing(given)
        if not WHOLE.issuperset(map(type, given.values())):
            given = copied(given, is_plain=self._of_optax)
        parameters = signature.template | given
        held, values = self.held, tuple(given.values())
        try:
            reading = read(held, values)
        except HoldsArray:
            from .dynamic_spec import make_dynamic  # imported here, since most specs hold no array

            self._check_no_iterator(parameters)
            return make_dynamic(self, parameters)
        # The user's code may read any setting. The settings that Optax reads are known.
        settings = all_settings() if reading.can_change else _settings(_config)
        key = (settings, tuple(given), reading.key)
        found = self.specs.get(key) if reading.is_comparable else None
        if found and (found.watched is None or found.watched.is_unchanged()):
            found.is_rebuilt = True
            return found.spec
        if reading.can_change:  # the factory may change its arguments and its defaults
            parameters = copied(parameters)
        spec = self.build(given, parameters)
        internals = internals_of(spec)
        internals.roots = held, values
        # A spec is not stored if its result may hold tracers, or its values cannot be compared.
        if makes_tracers() or not reading.is_comparable:
            return spec
        if reading.can_change:
            read_again = lambda: read(held, values)  # noqa: E731
            if read_again().key != reading.key:
                return spec  # the factory changes what it reads, so it must run each time
            internals.watched = Watched(reading, read_again)
            internals.watched.stands_in(self.specs, key, internals)
        internals.is_interned = True
        return self.specs.setdefault(key, internals).spec  # another thread may be first

    def _as_meant(self, name: str, value: Any) -> Any:
        """Return JAX's scalar type for a dtype, else `value`. Raise if a number is given as text.

        Optax would take the text "false" for `True`, and fail on "1e-3" only in the first update.
        """
        if "dtype" in name:
            return dtype_of(value)
        if isinstance(value, str) and takes_number(self.signature.parameters[name]):
            problem = f"{name} of {self.name} must be a number or a boolean, not {value!r}."
            fix = "Write it without quotes. In YAML, 1e-3 is text, and 1.0e-3 a number."
            raise ParameterError(problem, fix, path=name)
        return value

    def build(self, given: dict[str, Any], parameters: dict[str, Any]) -> Any:
        """Build a spec with these `parameters`, calling the function with `given`."""
        if is_at_top_level():
            made = self.call(given)
        else:  # an interned spec outlives the current trace
            with jax.ensure_compile_time_eval():
                made = self.call(given)
        internals = Internals(self, made)
        if self.makes_factories:
            inner = Factory(made, made.__name__, self.module, made_by=(self, parameters))
            internals.spec = inner.builder
            vars(internals.spec)["_internals"] = internals
        else:
            internals.spec = make_spec(class_for(self, made), parameters, internals)
        return internals.spec

    def _check_no_iterator(self, values: dict[str, Any]) -> None:
        """Raise `ParameterError` for an iterator: an earlier call of the factory has read it."""
        for name in (name for name, value in values.items() if hasattr(type(value), "__next__")):
            problem = f"{name} of {self.expression} is an iterator, which has been read."
            fix = f"Write {name}=list(...) where the spec is built."
            raise ParameterError(problem, fix, path=name)

    def call(self, given: dict[str, Any]) -> Any:
        """Return the result of the function for these values."""
        args, kwargs = self.signature.unbind(given)
        try:
            return self.function(*args, **kwargs)
        except Exception as error:
            values = (*args, *kwargs.values()) if self._of_optax else ()
            found = next(filter(None, map(factory_of, values)), None)
            if found is not None and not self.makes_factories:
                error.add_note(f"{found.name} was passed without a call: write {found.name}(...).")
            raise

    def __canonical_key__(self, mode: Any) -> int:
        return token_of(self)

    def __canonical_parts__(self, mode: Any) -> tuple[Any, ...]:
        return self.held

    # --- text and pickles -------------------------------------------------------------------------

    def is_importable(self) -> bool:
        """Return True if the builder can be imported from its module under its name."""
        return factory_of(found_in(sys.modules.get(self.module), self.name)) is self

    def to_pickle(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters, without defaults that are not plain data, such as functions."""
        defaults = self.signature.defaults
        is_kept = lambda name, value: type(value) in _DATA or value is not defaults.get(name)  # noqa: E731
        return {name: value for name, value in parameters.items() if is_kept(name, value)}

    def __reduce__(self) -> tuple:
        if self.made_by is not None:
            outer, parameters = self.made_by
            return _factory_of, (outer.from_fields, outer.to_pickle(parameters))
        if self.is_importable():
            return operator.attrgetter("factory"), (self.builder,)
        return _factory_of, (register, self.function)

    @property
    def expression(self) -> str:
        """Return Python source for the function that builds the specs."""
        if self.made_by is not None:
            outer, parameters = self.made_by
            return outer.describe(parameters)
        if not self.is_importable():
            return f"canonopt.canonical({expression(self.function)})"
        return self.name if self.module == "__main__" else f"{self.module}.{self.name}"

    def describe(self, parameters: dict[str, Any]) -> str:
        """Return Python source for the spec with these parameters."""
        args, kwargs = self.signature.unbind(self.signature.differing(parameters, containers=True))
        return call_expression(self.expression, args, kwargs)


def _factory_of(make: Callable[[Any], Any], given: Any) -> Factory:
    return vars(make(given))["factory"]


def found_in(module: Any, name: str) -> Any:
    """Return the object that a module has under a qualified name; `None` if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


# --- the function that users call -----------------------------------------------------------------


class NotGiven(enum.StrEnum):
    """The default of `lr` in a signature: a string, so that a YAML file can hold it."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return "<not given>"


_nothing: Callable[[], Any] = type(None)  # returns None, like a dead weak reference


def _make_builder(factory: Factory) -> Callable[..., Any]:
    """Return the function that users call."""

    # A loop that builds its optimizer again and again calls this function each time. So the
    # keys of calls with few arguments are written out: `map` takes twice as long.
    def build(*args: Any, **kwargs: Any) -> Any:
        values = args
        if kwargs:
            values = (*args, *kwargs.values())
            key = (_config.jax_enable_x64, values, *kwargs, *map(type, values))
        elif (count := len(args)) == 1:
            key = (_config.jax_enable_x64, type(args[0]), args[0])
        elif count == 2:
            a, b = args
            key = (_config.jax_enable_x64, type(a), type(b), a, b)
        elif count == 4:
            a, b, c, d = args
            key = (_config.jax_enable_x64, type(a), type(b), type(c), type(d), a, b, c, d)
        else:
            key = (_config.jax_enable_x64, *map(type, args), *args)
        try:
            found = find(key, _nothing)()
        except Exception:  # an argument that cannot be hashed: an array, a list, a user's object
            found = None
        # A dict finds the entry of 0.0 for -0.0.
        if found is None or (found.has_zero and has_negative_zero(values)):
            return factory.from_call(args, kwargs, key)
        return found.spec

    find = factory.spellings.find
    functools.update_wrapper(build, factory.function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    if factory.signature.has_alias:
        parameters = factory.signature.parameters
        lr = parameters["learning_rate"].replace(
            name="lr", kind=_Kind.KEYWORD_ONLY, default=NotGiven.NOT_GIVEN
        )
        shown = factory.signature.signature.replace(parameters=[*parameters.values(), lr])
        build.__signature__ = shown  # pyright: ignore[reportFunctionMemberAccess]
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.__canonical_owner__ = factory  # pyright: ignore[reportFunctionMemberAccess]
    return _as_class(build) if factory.is_class else build


def _as_class(build: Any) -> type:
    """Return a class to use in place of a class of Optax. Its instances are specs.

    A subclass of the returned class acts as a subclass of Optax's class, and builds no specs.
    """

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return build(*args, **kwargs) if cls is made else object.__new__(cls)

    function = build.factory.function
    vars(new)["__wrapped__"] = function.__init__  # gives `inspect` the signature
    body = {name: getattr(build, name) for name in ("__doc__", "__module__", "factory")}
    made = type(build.__name__, (function,), {**body, "__new__": new})
    return made


def _is_constant(value: Any) -> bool:
    """Return True if a key may hold `value`: it cannot change or refer to the key's own spec."""
    if isinstance(value, Configured):
        known = internals_of(value)
        return known.watched is None and known.spec is not None
    # A key with a NaN is never found again, and one with -0.0 is found for 0.0.
    return type(value) in PLAIN and value == value and not has_negative_zero((value,))


def factory_of(builder: Any) -> Factory | None:
    """Return the factory of a function or a class that builds specs; `None` for anything else."""
    is_builder = isinstance(builder, types.FunctionType | type)
    factory = vars(builder).get("factory") if is_builder else None
    # `functools.wraps` copies the attribute to a wrapper, which may do something else.
    return factory if isinstance(factory, Factory) and factory.builder is builder else None


# `clear_caches` does not empty this table: `canonical(optax.adam)` has to stay `canonopt.adam`.
_builders: Table[Any] = Table(stays=True)


def register(
    function: Callable[..., Any],
    name: str | None = None,
    module: str | None = None,
    of_optax: bool = False,
) -> Callable[..., Any]:
    """Return the function that builds specs in place of `function`: one for all equal functions."""
    name = name or str(getattr(function, "__qualname__", type(function).__name__))
    module = module or str(getattr(function, "__module__", "__main__"))
    reading = read((function,))
    if (known := _builders.get(reading.key)) is not None:
        # The values that the registered function reads may have changed since it was registered.
        there = known.factory.function
        if there is function or read((there,)).key == reading.key:
            return known
        _builders.discard(reading.key, known)
    builder = Factory(function, name, module, of_optax).builder
    # The key contains ids of objects, and `reading` keeps these objects alive.
    vars(builder)["factory"].reading = reading
    return _builders.setdefault(reading.key, builder) if reading.is_comparable else builder


# --- parameters -----------------------------------------------------------------------------------

_Kind = inspect.Parameter


class FactoryParameters:
    """The parameters of one factory.

    `bind` turns a call into `given`: a dict with the values of the parameters that were given, by
    name. `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    def __init__(self, function: Callable[..., Any], factory: str) -> None:
        """Read the parameters of `function`. Raise if one has the name of an attribute of specs."""
        self.factory = factory
        self.signature = signature_of(function)
        self.parameters = self.signature.parameters
        for name in _RESERVED.intersection(self.parameters):
            problem = f"{factory} has a parameter {name!r}, but specs have an attribute {name!r}."
            fix = (
                "Rename the parameter, or pass canonopt.canonical a function that calls "
                f"{factory} and has another name for the parameter."
            )
            raise NotAFactoryError(problem, fix, path=name)
        of_kind = lambda kind: tuple(n for n, p in self.parameters.items() if p.kind is kind)  # noqa: E731
        by_position_or_keyword = of_kind(_Kind.POSITIONAL_OR_KEYWORD)
        self.positional_only = of_kind(_Kind.POSITIONAL_ONLY)
        self.positional = self.positional_only + by_position_or_keyword
        # The names of `*args` and `**kwargs`, or None.
        self.variadic = next(iter(of_kind(_Kind.VAR_POSITIONAL)), None)
        self.keywords = next(iter(of_kind(_Kind.VAR_KEYWORD)), None)
        empty = {_Kind.VAR_POSITIONAL: (), _Kind.VAR_KEYWORD: {}}
        defaults = {n: empty.get(p.kind, p.default) for n, p in self.parameters.items()}
        self.defaults = {n: value for n, value in defaults.items() if value is not _Kind.empty}
        # The defaults, in the order of the parameters; None for a parameter without a default.
        self.template = dict.fromkeys(self.parameters) | self.defaults
        # True if `learning_rate` can be given as `lr`, because `lr` cannot mean anything else.
        is_free = "lr" not in self.parameters and self.keywords is None
        by_keyword = by_position_or_keyword + of_kind(_Kind.KEYWORD_ONLY)
        self.has_alias = is_free and "learning_rate" in by_keyword

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a call gives, bound as in Python, with `lr` as `learning_rate`.

        Raises `ParameterError` for a call that Python would refuse.
        """
        kwargs = self.without_alias(kwargs)
        try:
            for name in self.positional_only[len(args) :]:
                if name in kwargs:  # in Python 3.13, `Signature.bind` gives it to `**kwargs`
                    raise TypeError(f"{name!r} parameter is positional only")
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            given = (*self.positional[: len(args)], *kwargs)
            raise self._refused(str(error), given) from None

    def without_alias(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `named` with `learning_rate` in place of `lr`, if `lr` is an alias."""
        if not self.has_alias or "lr" not in named:
            return named
        rest = {name: value for name, value in named.items() if name != "lr"}
        if isinstance(named["lr"], str) and named["lr"] == NotGiven.NOT_GIVEN:
            return rest
        if "learning_rate" in rest:
            problem = f"{self.factory} got both lr and learning_rate, which are one parameter."
            fix = "Write only one of them. In attrs.evolve, write learning_rate."
            raise ParameterError(problem, fix, path="learning_rate")
        return rest | {"learning_rate": named["lr"]}

    def takes(self, name: str) -> bool:
        """Return True if `from_fields` accepts the name. `**kwargs` accepts any identifier."""
        is_alias = name == "lr" and self.has_alias
        in_keywords = self.keywords is not None and name.isidentifier()
        return name in self.parameters or is_alias or in_keywords

    def from_fields(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the values given by name, as `attrs.evolve` and pickle give them.

        Unlike in a call, the names of `*args` and `**kwargs` stand for a tuple and a dict. Values
        that are not named come from `current`, the parameters of the spec to change, if given.

        Raises `ParameterError` for an unknown name, or a missing parameter without a default.
        """
        named = {**(current or {}), **self.without_alias(named)}
        given = {name: value for name, value in named.items() if name in self.parameters}
        if (missing := self._missing(given)) is not None:
            raise self._refused(f"missing a required argument: {missing!r}", named)
        try:
            args, kwargs = self.unbind(given)
        except TypeError as error:  # the value of `*args` or of `**kwargs` has a wrong type
            raise self._refused(str(error).removeprefix("dict() "), given) from None
        return self.bind(args, kwargs | {n: v for n, v in named.items() if n not in given})

    def unbind(self, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Return the arguments of a call that `bind` turns into `given`.

        Arguments are keywords where possible, so that a parameter left out keeps its own default.
        """
        kwargs = dict(given)
        rest = () if self.variadic is None else tuple(kwargs.pop(self.variadic, ()))
        extras = {} if self.keywords is None else kwargs.pop(self.keywords, {})
        by_position = self.positional if rest else self.positional_only
        while by_position and not rest and by_position[-1] not in kwargs:
            by_position = by_position[:-1]
        args = [kwargs.pop(n) if n in kwargs else self.defaults[n] for n in by_position]
        return (*args, *rest), dict(**kwargs, **extras)

    def differing(self, given: Mapping[str, Any], containers: bool = False) -> dict[str, Any]:
        """Return the values that differ from the defaults.

        A list or dict that only equals the default differs from it: the default may change before a
        call reads it. With `containers`, equal items suffice: a spec holds copies of defaults.
        """
        defaults = self.defaults
        return {
            name: value
            for name, value in given.items()
            if name not in defaults or not _is_same_value(value, defaults[name], containers)
        }

    def _refused(self, reason: str, given: Collection[str]) -> ParameterError:
        """Build the error for a refused call. It names an unknown parameter, or gives `reason`."""
        unknown = next((name for name in given if name not in self.parameters), None)
        unknown = None if self.keywords else unknown
        if unknown:  # first, since it may be a typo of a missing one
            reason = f"got an unexpected keyword argument {unknown!r}"
        near = difflib.get_close_matches(unknown or "", self.parameters, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        plain = [p.replace(annotation=p.empty) for p in self.parameters.values()]
        alias = " lr is another name of learning_rate." if self.has_alias else ""
        fix = f"{hint}Its signature is {self.factory}{inspect.Signature(plain)}.{alias}"
        path = unknown or self._missing(given)
        return ParameterError(f"{self.factory}: {reason}.", fix, path=path)

    def _missing(self, given: Collection[str]) -> str | None:
        """Return the first required parameter without a value, or None."""
        needed = (name for name in self.parameters if name not in self.defaults)
        return next((name for name in needed if name not in given), None)


def _is_same_value(value: Any, default: Any, containers: bool) -> bool:
    """Return True if a factory cannot tell `value` from `default`."""
    kind = type(value)
    if value is default or kind is not type(default):
        return value is default
    if kind in (int, float, bool, str):  # 0.0 == -0.0, but their texts differ
        return value == default and (bool(value) or repr(value) == repr(default))
    if kind is dict and containers:
        value, default = list(value.items()), list(default.items())
    elif kind is not tuple and not (kind is list and containers):
        return False
    pairs = zip(value, default, strict=False)
    return len(value) == len(default) and all(_is_same_value(a, b, containers) for a, b in pairs)
