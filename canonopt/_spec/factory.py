"""`Factory`: a function that builds transformations or schedules, and the specs it has built."""

import contextlib
import functools
import importlib
import operator
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import jax

from .._identity import (
    PLAIN,
    HoldsArray,
    Reading,
    Table,
    Watched,
    has_negative_zero,
    leads_to_objects,
    read,
)
from .._jax_internals import is_at_top_level, makes_tracers, x64_state
from .._optax_compat import callable_tree_as_function, dtype_of
from .._python_internals import signature_with_alias, token_of
from .arguments import (
    Copies,
    Internals,
    check_no_iterator,
    copied,
    copied_config,
    in_key,
    plain_config,
)
from .expressions import expression, is_data
from .mistakes import check_hyperparameters, check_transformations
from .parameters import FactoryParameters, NotGiven
from .spec import Configured, ScheduleSpec, Spec, class_for, internals_of, make_spec

_config: Any = jax.config
_x64 = x64_state()

# What a factory can ask of JAX when it is called, besides its arguments and x64.
_settings = operator.attrgetter(
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    *(["jax_default_dtype_bits"] if hasattr(_config, "jax_default_dtype_bits") else []),
)
# Parameters from which a factory makes a random key.
_KEYS = frozenset(("key", "seed", "rng"))
_NUMBERS = frozenset((float, int, bool, type(None)))


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    There is one behind each function that `canonical` returns. It binds arguments, decides which
    configurations are the same, calls the function once for each, and holds the specs weakly.
    """

    # Whether the function needs an array where a traced number is given.
    asks_for_arrays = False

    def __init__(
        self, function: Callable[..., Any], name: str, module: str, of_optax: bool = False
    ) -> None:
        self.function = function
        self.name = name
        self.module = module
        self._of_optax = of_optax
        # Whether the parameters are those of a function of Optax, and have its annotations.
        self.is_checked = of_optax
        # From the key of a configuration to its spec.
        self.specs: Table[Internals] = Table()
        # From a call as written to its spec, for calls with plain values only: a call that was
        # seen before needs no binding of arguments and no key.
        self.spellings: Table[Internals] = Table()
        self.find = self.spellings.find
        self.reading: Reading | None = None
        self.classes: dict[Any, Any] = {}
        self.builder = make_builder(self)

    @functools.cached_property
    def signature(self) -> FactoryParameters:
        reserved = {*dir(Spec), *dir(ScheduleSpec), "_internals", "lr"}
        return FactoryParameters.of(self.function, self.name, reserved)

    @functools.cached_property
    def _dtypes(self) -> list[str]:
        """The parameters that are dtypes. Only Optax's naming is known."""
        return [n for n in self.signature.names if "dtype" in n] if self._of_optax else []

    @functools.cached_property
    def _has_plain_defaults(self) -> bool:
        # What a user's factory reads may change, and a key with its spec would not tell.
        return self.is_stable and all(map(_is_plain, self.signature.defaults.values()))

    @functools.cached_property
    def is_stable(self) -> bool:
        """Whether the function belongs to a library, and never changes."""
        return not read((self.function,)).can_change

    # --- building a spec --------------------------------------------------------------------------

    def from_call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The spec of a call that `find` did not find.

        Remembers the call as it was written when it finds the spec, not when it builds it: the key
        keeps the specs among the arguments alive for longer than the spec itself.
        """
        values, key = tuple(map(in_key, (*args, *kwargs.values()))), None
        has_function = self.is_stable and types.FunctionType in map(type, values)
        if has_function and (key := _key_with_functions(values, len(args), kwargs)) is not None:
            found = self.spellings.get(key)
            if found and (found.watched is None or found.watched.is_unchanged()):
                return found.spec
        spec = self._from_given(self.signature.bind(args, kwargs))
        internals = self.internals_of(spec)
        # A random key depends on a setting of JAX.
        if internals.is_rebuilt and not _KEYS & {*self.signature.names}:
            if self.is_stable and not has_function and all(map(_is_plain, values)):
                key = None if has_negative_zero(values) else _spelling(args, kwargs)
                internals.has_zero |= 0.0 in values
            if key is not None:
                self.spellings.setdefault(key, internals)
        return spec

    def from_fields(self, fields: dict[str, Any], current: dict[str, Any] | None = None) -> Any:
        """The spec with parameters given by name, as `attrs.evolve` and pickle give them."""
        given = self.signature.from_fields(fields, current)
        check_no_iterator(self, {n: v for n, v in given.items() if n not in fields})
        return self._from_given(self.signature.differing(given))

    def _from_given(self, given: dict[str, Any]) -> Any:
        """The spec with these values, and defaults for the rest: an existing one, or a new one."""
        signature, are_numbers = self.signature, _NUMBERS.issuperset(map(type, given.values()))
        if self.is_checked and not are_numbers:
            check_hyperparameters(signature, given)
        for name in self._dtypes:
            if name in given:
                given = given | {name: dtype_of(given[name])}
        if signature.transformations:
            check_transformations(signature, given)
        differing, is_complete = signature.differing(given), True
        if not are_numbers:
            copies = Copies(plain_config if self.is_checked else copied_config)
            differing = {name: copies.of(value) for name, value in differing.items()}
            given, is_complete = given | differing, copies.is_complete
        parameters = signature.template | given
        held, values = (() if self.is_stable else (self.function,)), tuple(differing.values())
        try:
            reading = read(held, tuple(map(in_key, values)))
        except HoldsArray:
            from .dynamic_spec import make_dynamic  # most specs hold no array

            return make_dynamic(self, parameters)
        is_comparable = reading.is_comparable and is_complete
        key = (_x64.value, _settings(_config), tuple(differing), reading.key)
        found = self.specs.get(key) if is_comparable else None
        if found and (found.watched is None or found.watched.is_unchanged()):
            found.is_rebuilt = True
            return found.spec
        if reading.can_change:  # the factory may change what it is given, and the fields stay
            parameters |= {name: copied(value) for name, value in differing.items()}
        spec = self.build(given, parameters)
        internals = self.internals_of(spec)
        internals.roots = held, values
        if internals.is_temporary or not is_comparable:
            return spec
        if reading.can_change:
            read_again = lambda: read(held, tuple(map(in_key, values)))  # noqa: E731
            if read_again().key != reading.key:
                return spec  # the factory has changed what was read
            internals.watched = Watched(reading, read_again)
            internals.watched.stands_in(self.specs, key, weakref.ref(internals))
        return self.specs.setdefault(key, internals).spec  # another thread may have been faster

    def build(self, given: dict[str, Any], parameters: dict[str, Any]) -> Any:
        """A new spec with these `parameters`. Calls the function with `given`."""
        # An interned spec outlives the trace that may be going on.
        with contextlib.nullcontext() if is_at_top_level() else jax.ensure_compile_time_eval():
            made = self.call(given)
        is_plain = self._has_plain_defaults and all(map(_is_plain, given.values()))
        internals = Internals(self, made, is_plain=is_plain)
        if makes_tracers():  # and a user's factory may hide them in specs that it builds
            internals.is_temporary = not self.is_stable or leads_to_objects((made,))
        internals.spec = self._wrap(made, parameters, internals)
        return internals.spec

    def call(self, given: dict[str, Any]) -> Any:
        """What the function returns for these values."""
        args, kwargs = self.signature.unbind(
            {name: callable_tree_as_function(name, value, given) for name, value in given.items()}
        )
        return self.function(*args, **kwargs)

    @property
    def made_by(self) -> "tuple[Factory, dict[str, Any]] | None":
        """The factory that made the function and its parameters, if one did."""
        return None

    # `FactoryOfFactories` overrides these two, since what it builds is not a spec.

    def _wrap(self, made: Any, parameters: dict[str, Any], internals: Internals) -> Any:
        return make_spec(class_for(self, made), parameters, internals)

    internals_of: Callable[[Any], Internals] = staticmethod(internals_of)

    def __canonical_key__(self, mode: Any) -> int:
        return token_of(self)

    def __canonical_parts__(self, mode: Any) -> tuple[Any, ...]:
        return () if self.is_stable else (self.function,)

    # --- text and pickles -------------------------------------------------------------------------

    def to_pickle(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters, without the defaults that only their identity tells from other values."""
        differing = self.signature.differing(parameters)
        return {n: value for n, value in parameters.items() if n in differing or is_data(value)}

    def _is_importable(self) -> bool:
        found = _import(self.module, self.name)
        return isinstance(found, types.FunctionType) and vars(found).get("factory") is self

    def __reduce__(self) -> tuple:
        if self._is_importable():
            return _factory_named, (self.module, self.name)
        return factory_of, (self.function,)

    @property
    def expression(self) -> str:
        """Python source for the function that builds the specs."""
        if not self._is_importable():
            return f"canonopt.canonical({expression(self.function)})"
        return self.name if self.module == "__main__" else f"{self.module}.{self.name}"

    def describe(self, parameters: dict[str, Any]) -> str:
        """Python source for the spec with these parameters."""
        args, kwargs = self.signature.unbind(self.signature.differing(parameters))
        words = [*map(expression, args), *(f"{n}={expression(v)}" for n, v in kwargs.items())]
        return f"{self.expression}({', '.join(words)})"


# --- calls that were seen before ----------------------------------------------------------------


def make_builder(factory: Factory) -> Callable[..., Any]:
    """The function that users call."""

    # A loop that builds its optimizer again and again pays for this function in each round. So it
    # is written out flat, and so are the keys of a few arguments: `map` takes twice as long.
    def build(*args: Any, **kwargs: Any) -> Any:
        values, count = args, len(args)
        if kwargs:
            values = (*args, *kwargs.values())
            key = (_x64.value, tuple(map(type, values)), tuple(kwargs), values)
        elif count == 1:
            key = (_x64.value, type(args[0]), args[0])
        elif count == 2:
            a, b = args
            key = (_x64.value, type(a), type(b), a, b)
        elif count == 4:
            a, b, c, d = args
            key = (_x64.value, type(a), type(b), type(c), type(d), a, b, c, d)
        else:
            key = (_x64.value, *map(type, args), *args)
        try:
            entry = find(key)
        except Exception:  # an argument that cannot be hashed: an array, a list, a user's object
            entry = None
        if entry is not None:
            found = entry()
            if found is not None and not (found.has_zero and has_negative_zero(values)):
                return found.spec
        return factory.from_call(args, kwargs)

    find = factory.find
    functools.update_wrapper(build, factory.function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    signature = signature_with_alias(factory.function, "learning_rate", "lr", NotGiven.NOT_GIVEN)
    if signature is not None:
        build.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.__canonical_owner__ = factory  # pyright: ignore[reportFunctionMemberAccess]
    return build


def _spelling(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The key of a call as it was written, which has four items only if there are keywords."""
    values = (*args, *kwargs.values())
    kinds = tuple(map(type, values))
    return (_x64.value, kinds, tuple(kwargs), values) if kwargs else (_x64.value, *kinds, *args)


def _is_plain(value: Any) -> bool:
    """Whether a key may hold `value`: it never changes, nor leads back to the spec in the table."""
    if isinstance(value, Configured):
        return internals_of(value).is_plain
    return type(value) in PLAIN and value == value  # no key is found again by a NaN


def _key_with_functions(values: tuple, positional: int, names: Iterable[str]) -> Any:
    """A key for a call as written, with functions among the arguments. `None` if it has no key."""
    try:
        reading = read((), values)
    except HoldsArray:
        return None
    if not reading.is_comparable:
        return None
    return (_x64.value, _settings(_config), positional, *names, reading.key)


# --- pickles ------------------------------------------------------------------------------------


def _factory_named(module: str, name: str) -> Factory:
    return vars(_import(module, name))["factory"]


def factory_of(function: Callable[..., Any]) -> Factory:
    """The factory behind the function that builds specs in place of a user's `function`."""
    name = getattr(function, "__qualname__", type(function).__name__)
    module = getattr(function, "__module__", "__main__")
    return vars(register(Factory, function, name, module))["factory"]


def _import(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --- one factory for each function --------------------------------------------------------------

# `clear_caches` does not empty it, or `canonical(optax.adam)` would no longer be `canonopt.adam`.
_builders: Table[Any] = Table(stays=True)


def register(
    kind: type[Factory],
    function: Callable[..., Any],
    name: str,
    module: str,
    of_optax: bool = False,
) -> Callable[..., Any]:
    """The function that builds specs in place of `function`: always the same one."""
    reading = read((function,))
    builder = _builder_for(reading, function)
    if builder is None:
        builder = kind(function, name, module, of_optax).builder
        # The key contains ids of objects that the reading keeps alive.
        vars(builder)["factory"].reading = reading
        if reading.is_comparable:
            builder = _builders.setdefault(reading.key, builder)
    return builder


def _builder_for(reading: Reading, function: Any) -> Any:
    builder = _builders.get(reading.key)
    if builder is None or builder.factory.function is function:
        return builder
    # Another function with the same key: what the first one reads may have changed since.
    return builder if read((builder.factory.function,)).key == reading.key else None
