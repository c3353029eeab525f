"""A factory's parameters: names, aliases, defaults, and the errors of calls that do not fit."""

import difflib
import enum
import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .._optax_compat import is_transformation, mentions_transformation
from .._python_internals import parameters_of
from ..errors import ParameterError

_Kind = inspect.Parameter


class NotGiven(enum.StrEnum):
    """The default of `lr` in a signature. Configs may pass it on, and YAML makes text of it."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return "<not given>"


class FactoryParameters:
    """The parameters of one factory.

    `bind` turns a call into `given`: a dict with the values of the parameters that were given, by
    name. `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    def __init__(
        self, function: Callable[..., Any], factory: str, reserved: Collection[str]
    ) -> None:
        """Read the parameters of `function`. No field hides one of the `reserved` attributes."""
        self.factory = factory
        self.parameters = parameters_of(function)
        self.names = tuple(self.parameters)
        self.signature = inspect.Signature(list(self.parameters.values()))
        self.positional_only = self._of_kind(_Kind.POSITIONAL_ONLY)
        # Those that can be given by position, and those that can be given by keyword.
        self.positional = (*self.positional_only, *self._of_kind(_Kind.POSITIONAL_OR_KEYWORD))
        self.by_keyword = frozenset(self._of_kind(_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY))
        # The names of `*args` and `**kwargs`.
        self.variadic = next(iter(self._of_kind(_Kind.VAR_POSITIONAL)), None)
        self.keywords = next(iter(self._of_kind(_Kind.VAR_KEYWORD)), None)
        empty = {_Kind.VAR_POSITIONAL: (), _Kind.VAR_KEYWORD: {}}
        defaults = {n: empty.get(p.kind, p.default) for n, p in self.parameters.items()}
        self.defaults = {n: value for n, value in defaults.items() if value is not _Kind.empty}
        self.required = frozenset(self.names).difference(self.defaults)
        # The defaults, in the order of the parameters; None for those without.
        self.template = dict.fromkeys(self.names) | self.defaults
        # The attribute of a spec that holds each parameter.
        self.fields = _fields(self.names, reserved)
        self.is_renamed = any(field != name for name, field in self.fields.items())
        # True if `learning_rate` can be given as `lr`, which nothing else can mean.
        is_free = "lr" not in self.parameters and self.keywords is None
        self.has_alias = "learning_rate" in self.by_keyword and is_free

    def _of_kind(self, *kinds: Any) -> tuple[str, ...]:
        return tuple(name for name, p in self.parameters.items() if p.kind in kinds)

    @functools.cached_property
    def keyword_only(self) -> frozenset[str]:
        """The fields that a class with these, in this order, takes by keyword only."""
        required_first = itertools.dropwhile(lambda name: name in self.required, self.names)
        after_default = self.required.intersection(required_first)
        return after_default.union(self._of_kind(_Kind.KEYWORD_ONLY))

    @functools.cached_property
    def transformations(self) -> dict[str, Any]:
        """The annotations of the parameters that take a transformation, or a container of them."""
        annotated = ((name, p.annotation) for name, p in self.parameters.items())
        return {name: a for name, a in annotated if mentions_transformation(a)}

    # --- from a call to values and back -------------------------------------------------------

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values given by a call, as Python would bind them, `lr` as `learning_rate`.

        Raises `ParameterError` for a call that Python would refuse.
        """
        if "lr" in kwargs and self.has_alias:
            kwargs = self._without_alias(kwargs)
        # `Signature.bind` takes 8 us, as long as Optax takes to build two optimizers.
        given = dict(zip(self.positional, args, strict=False))
        rest = args[len(given) :]
        if rest and self.variadic is not None:
            given[self.variadic], rest = rest, ()
        if not rest and given.keys().isdisjoint(kwargs) and self.by_keyword.issuperset(kwargs):
            given.update(kwargs)
            if self.required <= given.keys():
                return given
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            # Python 3.13 says first what is missing.
            unknown = [] if self.keywords else [n for n in kwargs if n not in self.parameters]
            what = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else str(error)
            raise self._refused(what, (*self.positional[: len(args)], *kwargs)) from None

    def _without_alias(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return `named` with `learning_rate` in place of `lr`."""
        rest = {name: value for name, value in named.items() if name != "lr"}
        if isinstance(named["lr"], str) and named["lr"] == NotGiven.NOT_GIVEN:
            return rest
        if "learning_rate" in rest:
            raise ParameterError(
                f"{self.factory} got both lr and learning_rate, which are one parameter.",
                "Write only one of them; in attrs.evolve, learning_rate.",
                path="learning_rate",
            )
        return rest | {"learning_rate": named["lr"]}

    def takes(self, name: str) -> bool:
        """Return True if `from_fields` accepts the name. In `**kwargs` it must be an identifier."""
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
        if "lr" in named and self.has_alias:
            named = self._without_alias(named)
        extras = {name: v for name, v in named.items() if name not in self.parameters}
        if extras and self.keywords is None:
            reason = f"got an unexpected keyword argument {next(iter(extras))!r}"
            raise self._refused(reason, extras)
        given = {**(current or {}), **{n: v for n, v in named.items() if n not in extras}}
        if self.keywords is not None:
            given[self.keywords] = self._checked_keywords(given.get(self.keywords, {})) | extras
        if self.variadic in given:
            given[self.variadic] = self._checked_variadic(given[self.variadic])
        for name in (self.variadic, self.keywords):
            if name in given and not given[name]:
                del given[name]  # as `bind` leaves it out
        for name in self.names:
            if name in self.required and name not in given:
                raise self._refused(f"missing a required argument: {name!r}", given)
        return given

    def unbind(self, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Return the arguments of a call that `bind` turns into `given`.

        By keyword where possible, so that a parameter left out keeps the factory's own default.
        """
        kwargs = dict(given)
        rest = () if self.variadic is None else kwargs.pop(self.variadic, ())
        extras = {} if self.keywords is None else kwargs.pop(self.keywords, {})
        by_position = self.positional if rest else self.positional_only
        while by_position and not rest and by_position[-1] not in kwargs:
            by_position = by_position[:-1]
        args = [kwargs.pop(n) if n in kwargs else self.defaults[n] for n in by_position]
        return (*args, *rest), kwargs | extras

    def differing(self, given: Mapping[str, Any], containers: bool = False) -> dict[str, Any]:
        """Return the values that differ from the defaults, in the order of the parameters.

        A list or a dict differs from an equal default, which the factory may read later, in a call.
        A field of a spec has a copy of the default, so `containers` asks what is in them.
        """
        # In a call, keyword arguments may be in any order.
        names = given if len(given) == 1 else [name for name in self.names if name in given]
        found, defaults = {}, self.defaults
        for name in names:
            value, default = given[name], defaults.get(name, _NO_DEFAULT)
            if value is not default and not _is_same_value(value, default, containers):
                found[name] = value
        return found

    # --- errors -------------------------------------------------------------------------------

    def _refused(self, reason: str, given: Collection[str]) -> ParameterError:
        """Build the error for a call, with what Python says of it."""
        unknown = next((name for name in given if name not in self.parameters), None)
        missing = (name for name in self.names if name in self.required and name not in given)
        near = difflib.get_close_matches(unknown or "", self.names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        plain = [p.replace(annotation=p.empty) for p in self.parameters.values()]
        alias = " lr is another name of learning_rate." if self.has_alias else ""
        return ParameterError(
            f"{self.factory}: {reason}.",
            f"{hint}Its signature is {self.factory}{inspect.Signature(plain)}.{alias}",
            path=unknown or next(missing, None),
        )

    def _checked_variadic(self, value: Any) -> tuple:
        # A transformation is a tuple too, of functions.
        if isinstance(value, tuple | list) and not is_transformation(value):
            return tuple(value)
        raise self._of_another_kind(self.variadic, value, "a tuple", "(...,)")

    def _checked_keywords(self, value: Any) -> dict[str, Any]:
        is_dict = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        if is_dict and self.by_keyword.isdisjoint(value):
            return dict(value)
        what = "a dict of other names than those of its parameters"
        raise self._of_another_kind(self.keywords, value, what, "{'name': ...}")

    def _of_another_kind(
        self, name: str | None, value: Any, what: str, example: str
    ) -> ParameterError:
        problem = f"{self.factory} takes any number of {name!r}, and got {value!r} for all of them."
        return ParameterError(problem, f"Write {what}: {name}={example}.", path=name)


def _is_same_value(value: Any, default: Any, containers: bool) -> bool:
    """Return True if a value is a default, or equals it in a way that no factory can tell."""
    kind = type(value)
    if value is default or kind is not type(default):
        return value is default
    if kind in (int, float, bool, str):
        # 0.0 == -0.0, but their texts differ.
        return value == default and (bool(value) or repr(value) == repr(default))
    if kind is dict and containers:
        value, default = list(value.items()), list(default.items())
    elif kind is not tuple and not (kind is list and containers):
        return False
    pairs = zip(value, default, strict=False)
    return len(value) == len(default) and all(_is_same_value(a, b, containers) for a, b in pairs)


_NO_DEFAULT: Any = object()


def _fields(names: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name in names:
        field = name
        while field in reserved or (field != name and field in (*names, *fields.values())):
            field += "_"
        fields[name] = field
    return fields
