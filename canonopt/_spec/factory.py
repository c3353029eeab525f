"""`Factory`: a function that builds transformations or schedules, and the specs it has built."""

import functools
import importlib
import operator
import types
import weakref
from collections.abc import Callable
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
from .._optax_compat import dtype_of
from .._python_internals import signature_with_alias, token_of
from ..errors import ParameterError
from .arguments import WHOLE, Copies, copied, is_iterator, is_spec
from .expressions import expression
from .mistakes import check_hyperparameters, check_transformations
from .parameters import FactoryParameters, NotGiven
from .spec import Internals, ScheduleSpec, Spec, class_for, internals_of, make_spec

_config: Any = jax.config
_x64 = x64_state()

# What a factory can ask of JAX when it is called, besides its arguments and x64.
_settings = operator.attrgetter(
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_random_seed_offset",
    "jax_threefry_partitionable",
    *(["jax_default_dtype_bits"] if hasattr(_config, "jax_default_dtype_bits") else []),
)
# The attributes of specs, which no field hides.
_RESERVED = frozenset((*dir(Spec), *dir(ScheduleSpec), "_internals", "lr"))
# Parameters from which a factory makes a random key.
_KEYS = frozenset(("key", "seed", "rng"))
_NUMBERS = frozenset((float, int, bool, type(None)))
# Types of defaults that pickles hold, since another version of the factory may have others.
_DATA = PLAIN | {tuple, list, dict}


class Factory:
    """A function that builds transformations or schedules, and the specs it has built.

    There is one behind each function that `canonical` returns. It binds arguments, decides which
    configurations are the same, calls the function once for each, and holds the specs weakly.
    """

    # True if the function needs an array where a traced number is given.
    asks_for_arrays = False
    # The factory that made the function and its parameters, if one did.
    made_by: "tuple[Factory, dict[str, Any]] | None" = None

    def __init__(
        self, function: Callable[..., Any], name: str, module: str, of_optax: bool = False
    ) -> None:
        self.function = function
        self.name = name
        self.module = module
        self._of_optax = of_optax
        # True if the parameters are those of a function of Optax, and have its annotations.
        self.is_checked = of_optax
        # True if users take what stands in its place for a class: `optax.MultiSteps`.
        self.is_class = of_optax and isinstance(function, type)
        # From the key of a configuration to its spec.
        self.specs: Table[Internals] = Table()
        # From a call as written to its spec, for calls with plain values only: a call that was
        # seen before needs no binding of arguments and no key.
        self.spellings: Table[Internals] = Table()
        self.reading: Reading | None = None
        self.classes: dict[Any, Any] = {}
        self.builder = make_builder(self)

    @functools.cached_property
    def signature(self) -> FactoryParameters:
        return FactoryParameters(self.function, self.name, _RESERVED)

    @functools.cached_property
    def _dtypes(self) -> list[str]:
        """The parameters that are dtypes. Only Optax's naming is known."""
        return [n for n in self.signature.names if "dtype" in n] if self._of_optax else []

    @functools.cached_property
    def _remembers_calls(self) -> bool:
        # What a user's factory reads may change, and a random key depends on a setting of JAX.
        return self.is_stable and _KEYS.isdisjoint(self.signature.names)

    @functools.cached_property
    def is_stable(self) -> bool:
        """True if the function belongs to a library, and never changes."""
        return not read((self.function,)).can_change

    @functools.cached_property
    def held(self) -> tuple[Any, ...]:
        """Return what is read beside the arguments: the function, if it is the user's."""
        return () if self.is_stable else (self.function,)

    # --- building a spec --------------------------------------------------------------------------

    def from_call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return the spec of a call that `find` did not find, and remember the call."""
        spec = self._from_given(self.signature.bind(args, kwargs))
        values = (*args, *kwargs.values())
        if self._remembers_calls and all(map(_is_plain, values)):
            internals = internals_of(spec)
            # The key of a call keeps the specs in it alive for longer than the spec itself. So one
            # with specs is remembered when the spec is found again.
            is_new = not internals.is_temporary and PLAIN.issuperset(map(type, values))
            if (is_new or internals.is_rebuilt) and not has_negative_zero(values):
                internals.has_zero |= 0.0 in values
                self.spellings.setdefault(_spelling(args, kwargs), internals)
        return spec

    def from_fields(self, fields: dict[str, Any], current: dict[str, Any] | None = None) -> Any:
        """Return the spec with parameters given by name, as `attrs.evolve` and pickle do."""
        given = self.signature.from_fields(fields, current)
        self.check_no_iterator({n: v for n, v in given.items() if n not in fields})
        return self._from_given(self.signature.differing(given, containers=True))

    def _from_given(self, given: dict[str, Any]) -> Any:
        """Return the spec with these values, and defaults for the rest."""
        signature, are_numbers = self.signature, _NUMBERS.issuperset(map(type, given.values()))
        if self.is_checked and not are_numbers:
            check_hyperparameters(signature, given)
        for name in self._dtypes:
            if name in given:
                given = given | {name: dtype_of(given[name])}
        if signature.transformations:
            check_transformations(signature, given)
        differing, is_complete = signature.differing(given), True
        if not WHOLE.issuperset(map(type, differing.values())):
            differing, is_complete = self._copied(differing)
            given = given | differing
        parameters = signature.template | given
        held, values = self.held, tuple(differing.values())
        try:
            reading = read(held, values)
        except HoldsArray:
            return self._with_arrays(parameters)
        is_comparable = reading.is_comparable and is_complete
        key = (_x64.value, _settings(_config), tuple(differing), reading.key)
        found = self.specs.get(key) if is_comparable else None
        if found and (found.watched is None or found.watched.is_unchanged()):
            found.is_rebuilt = True
            return found.spec
        if reading.can_change:  # the factory may change what it is given, and its defaults
            parameters = copied(parameters)
        spec = self.build(given, parameters)
        internals = internals_of(spec)
        internals.roots = held, values
        if internals.is_temporary or not is_comparable:
            return spec
        if reading.can_change:
            read_again = lambda: read(held, values)  # noqa: E731
            if read_again().key != reading.key:
                return spec  # the factory has changed what was read, and is to do so each time
            internals.watched = Watched(reading, read_again)
            internals.watched.stands_in(self.specs, key, weakref.ref(internals))
        return self.specs.setdefault(key, internals).spec  # another thread may have been faster

    def _copied(self, values: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return copies of the containers, and True if all that can change is a copy."""
        copies, made = Copies(is_plain=self.is_checked), {}
        for name, value in values.items():
            try:
                made[name] = copies.of(value)
            except RecursionError:
                raise ParameterError(
                    f"{name} of {self.expression} is a {type(value).__name__} that contains "
                    "itself, which a spec cannot copy, show or write.",
                    "Write one that does not, or an object of a class of your own.",
                    path=name,
                ) from None
        return made, copies.is_complete

    def build(self, given: dict[str, Any], parameters: dict[str, Any]) -> Any:
        """Build a spec with these `parameters`, calling the function with `given`."""
        # An interned spec outlives the trace that may be going on.
        if is_at_top_level():
            made = self.call(given)
        else:
            with jax.ensure_compile_time_eval():
                made = self.call(given)
        internals = Internals(self, made)
        if makes_tracers():  # and a user's factory may hide them in specs that it builds
            internals.is_temporary = not self.is_stable or leads_to_objects((made,))
        internals.spec = self._wrap(made, parameters, internals)
        return internals.spec

    def check_no_iterator(self, values: dict[str, Any]) -> None:
        """Raise `ParameterError` if an argument of an earlier call is an iterator."""
        for name, value in values.items():
            if is_iterator(value):
                raise ParameterError(
                    f"{name} of {self.expression} is an iterator, which has been read, and the "
                    "factory has to be called again.",
                    f"Write {name}=list(...) where the spec is built.",
                    path=name,
                )

    def call(self, given: dict[str, Any]) -> Any:
        """Return what the function makes of these values."""
        args, kwargs = self.signature.unbind(given)
        return self.function(*args, **kwargs)

    def _wrap(self, made: Any, parameters: dict[str, Any], internals: Internals) -> Any:
        """Return the spec for what the function made of the parameters."""
        return make_spec(class_for(self, made), parameters, internals)

    def _with_arrays(self, parameters: dict[str, Any]) -> Any:
        """Return the spec with these parameters, some of which hold arrays."""
        from .dynamic_spec import make_dynamic  # most specs hold no array

        self.check_no_iterator(parameters)
        return make_dynamic(self, parameters)

    def __canonical_key__(self, mode: Any) -> int:
        return token_of(self)

    def __canonical_parts__(self, mode: Any) -> tuple[Any, ...]:
        return self.held

    # --- text and pickles -------------------------------------------------------------------------

    def to_pickle(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters, without the defaults that pickle may make a copy of."""
        defaults = self.signature.defaults
        is_kept = lambda name, value: type(value) in _DATA or value is not defaults.get(name)  # noqa: E731
        return {name: value for name, value in parameters.items() if is_kept(name, value)}

    def is_importable(self) -> bool:
        """Return True if a module has the function that builds specs under its name."""
        try:
            found = _import(self.module, self.name)
        except ImportError:  # of a module that was made by hand
            return False
        return factory_of(found) is self

    def __reduce__(self) -> tuple:
        if self.is_importable():
            return _factory_named, (self.module, self.name)
        return _factory_of, (type(self), self.function)

    @property
    def expression(self) -> str:
        """Python source for the function that builds the specs."""
        if not self.is_importable():
            return f"canonopt.canonical({expression(self.function)})"
        return self.name if self.module == "__main__" else f"{self.module}.{self.name}"

    def describe(self, parameters: dict[str, Any]) -> str:
        """Return Python source for the spec with these parameters."""
        args, kwargs = self.signature.unbind(self.signature.differing(parameters, containers=True))
        words = [*map(expression, args), *(f"{n}={expression(v)}" for n, v in kwargs.items())]
        return f"{self.expression}({', '.join(words)})"


# --- calls that were seen before ----------------------------------------------------------------


def make_builder(factory: Factory) -> Callable[..., Any]:
    """Return the function that users call."""

    # A loop that builds its optimizer again and again pays for this function in each round. So it
    # is written out flat, and so are the keys of a few arguments: `map` takes twice as long.
    def build(*args: Any, **kwargs: Any) -> Any:
        values = args
        if kwargs:
            values = (*args, *kwargs.values())
            key = (_x64.value, values, *kwargs, *map(type, values))
        elif (count := len(args)) == 1:
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
            found = find(key, _nothing)()
        except Exception:  # an argument that cannot be hashed: an array, a list, a user's object
            found = None
        if found is None or (found.has_zero and has_negative_zero(values)):
            return factory.from_call(args, kwargs)
        return found.spec

    find = factory.spellings.find
    functools.update_wrapper(build, factory.function, updated=())
    build.__name__ = build.__qualname__ = factory.name
    build.__module__ = factory.module
    signature = signature_with_alias(factory.function, "learning_rate", "lr", NotGiven.NOT_GIVEN)
    if signature is not None:
        build.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    build.factory = factory  # pyright: ignore[reportFunctionMemberAccess]
    build.__canonical_owner__ = factory  # pyright: ignore[reportFunctionMemberAccess]
    return _as_class(build) if factory.is_class else build


def _as_class(build: Any) -> type:
    """Return a class in place of a class of Optax, whose instances are the specs.

    A subclass of it is one of Optax's class, and builds no specs.
    """

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return build(*args, **kwargs) if cls is made else object.__new__(cls)

    function = build.factory.function
    vars(new)["__wrapped__"] = function.__init__  # for its signature
    names = ("__doc__", "__module__", "__canonical_owner__", "factory")
    body = {name: getattr(build, name) for name in names}
    made = type(build.__name__, (function,), {**body, "__new__": new})
    return made


def factory_of(builder: Any) -> "Factory | None":
    """Return the factory of a function or a class that builds specs; `None` for anything else."""
    is_builder = isinstance(builder, types.FunctionType | type)
    factory = vars(builder).get("factory") if is_builder else None
    # `functools.wraps` copies the attribute to a wrapper, which may do something else.
    return factory if isinstance(factory, Factory) and factory.builder is builder else None


def _nothing() -> None:
    """Stand for a weak reference to nothing."""


def _spelling(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return the key of a call as `build` writes it."""
    values = (*args, *kwargs.values())
    kinds = map(type, values)
    return (_x64.value, values, *kwargs, *kinds) if kwargs else (_x64.value, *kinds, *args)


def _is_plain(value: Any) -> bool:
    """Return True if `value` never changes, nor leads back to the spec that its key is for."""
    if is_spec(value):
        known = internals_of(value)
        return known.watched is None and known.spec is not None
    return type(value) in PLAIN and value == value  # no key is found again by a NaN


# --- pickles ------------------------------------------------------------------------------------


def _factory_named(module: str, name: str) -> Factory:
    return vars(_import(module, name))["factory"]


def _factory_of(kind: type[Factory], function: Callable[..., Any]) -> Factory:
    return vars(register(kind, function))["factory"]


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
    name: str | None = None,
    module: str | None = None,
    of_optax: bool = False,
) -> Callable[..., Any]:
    """Return the function that builds specs in place of `function`: always the same one."""
    name = name or str(getattr(function, "__qualname__", type(function).__name__))
    module = module or str(getattr(function, "__module__", "__main__"))
    reading = read((function,))
    builder = _builders.get(reading.key)
    if builder is not None and builder.factory.function is not function:
        # What the function that was there reads may have changed since.
        then = read((builder.factory.function,))
        builder = builder if then.key == reading.key else None
    if builder is None:
        builder = kind(function, name, module, of_optax).builder
        # The key contains ids of objects that the reading keeps alive.
        vars(builder)["factory"].reading = reading
        if reading.is_comparable:
            builder = _builders.setdefault(reading.key, builder)
    return builder
