"""A factory's parameters: names, aliases, defaults, and the errors of calls that do not fit."""

import dataclasses
import difflib
import enum
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .._optax_compat import is_transformation, mentions_transformation
from .._python_internals import parameters_of
from ..errors import ParameterError

_Kind = inspect.Parameter
_BY_KEYWORD = (_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY)


class NotGiven(enum.StrEnum):
    """The default of `lr` in a signature. Configs may pass it on, and YAML makes text of it."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return "<not given>"


@dataclasses.dataclass(frozen=True, eq=False)
class FactoryParameters:
    """The parameters of one factory.

    `bind` turns a call into `given`: a dict with the values of the parameters that were given, by
    name. `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    factory: str
    signature: inspect.Signature
    # The attribute of a spec that holds each parameter.
    fields: dict[str, str]
    # The defaults, with `()` and `{}` for `*args` and `**kwargs`.
    defaults: dict[str, Any]
    # The names of `*args` and `**kwargs`.
    variadic: str | None
    keywords: str | None
    # The parameters that can be given by position, and those that must be.
    positional: tuple[str, ...]
    positional_only: tuple[str, ...]

    @classmethod
    def of(
        cls, function: Callable[..., Any], name: str, reserved: Collection[str]
    ) -> "FactoryParameters":
        """The parameters of `function`; a field must not hide one of the `reserved` attributes."""
        parameters = parameters_of(function)
        of_kind = {
            kind: tuple(n for n, p in parameters.items() if p.kind is kind)
            for kind in type(_Kind.VAR_KEYWORD)
        }
        (variadic,), (keywords,) = (
            of_kind[kind] or (None,) for kind in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)
        )
        defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        defaults |= {} if variadic is None else {variadic: ()}
        defaults |= {} if keywords is None else {keywords: {}}
        positional_only = of_kind[_Kind.POSITIONAL_ONLY]
        return cls(
            factory=name,
            signature=inspect.Signature(list(parameters.values())),
            fields=_fields([*parameters], reserved),
            defaults=defaults,
            variadic=variadic,
            keywords=keywords,
            positional=(*positional_only, *of_kind[_Kind.POSITIONAL_OR_KEYWORD]),
            positional_only=positional_only,
        )

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return self.signature.parameters

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.parameters)

    @functools.cached_property
    def required(self) -> frozenset[str]:
        return frozenset(name for name in self.names if name not in self.defaults)

    @functools.cached_property
    def by_keyword(self) -> frozenset[str]:
        """The parameters that can be given by keyword."""
        return frozenset(n for n, p in self.parameters.items() if p.kind in _BY_KEYWORD)

    @functools.cached_property
    def is_renamed(self) -> bool:
        """Whether the attribute of some parameter has another name."""
        return any(field != name for name, field in self.fields.items())

    @functools.cached_property
    def template(self) -> dict[str, Any]:
        """The defaults, in the order of the parameters; None for those without."""
        return dict.fromkeys(self.names) | self.defaults

    @functools.cached_property
    def keyword_only(self) -> frozenset[str]:
        """Those that a class with these fields, in this order, takes by keyword only."""
        optional = min((self.names.index(n) for n in self.defaults), default=len(self.names))
        after_default = (n for n in self.names[optional:] if n not in self.defaults)
        of_call = (n for n, p in self.parameters.items() if p.kind is _Kind.KEYWORD_ONLY)
        return frozenset((*of_call, *after_default))

    @functools.cached_property
    def has_alias(self) -> bool:
        """Whether `learning_rate` can be given as `lr`, in some calls at least."""
        return "learning_rate" in self.by_keyword and "lr" not in self.parameters

    @functools.cached_property
    def transformations(self) -> dict[str, Any]:
        """The annotations of the parameters that take a transformation, or a container of them."""
        annotations = {n: p.annotation for n, p in self.parameters.items()}
        return {n: a for n, a in annotations.items() if mentions_transformation(a)}

    # --- from a call to values and back -------------------------------------------------------

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values given by a call, as Python would bind them, with `lr` for `learning_rate`.

        Raises `ParameterError` for a call that Python would refuse.
        """
        if "lr" in kwargs and self.has_alias:
            kwargs = self._without_alias(kwargs, (*self.positional[: len(args)], *kwargs))
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
            raise self._refused(str(error), (*self.positional[: len(args)], *kwargs)) from None

    def _without_alias(self, named: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
        """`named` with the name of the learning rate in place of `lr`, if that is what it means.

        A factory with `**kwargs` may have a use for `lr` itself. There it is the learning rate only
        if that is missing otherwise.
        """
        rest = {name: value for name, value in named.items() if name != "lr"}
        value = named["lr"]
        if self.keywords is None:
            if isinstance(value, str) and value == NotGiven.NOT_GIVEN:
                return rest
            if "learning_rate" in rest:
                raise ParameterError(
                    f"{self.factory} got both lr and learning_rate, which are one parameter.",
                    "Write only one of them; in attrs.evolve, learning_rate.",
                    path="learning_rate",
                )
        elif "learning_rate" in given or "learning_rate" in self.defaults:
            return dict(named)
        return rest | {"learning_rate": value}

    def takes(self, name: str) -> bool:
        """Whether `from_fields` accepts the name. In `**kwargs` it must be an identifier."""
        is_alias = name == "lr" and self.has_alias
        in_keywords = self.keywords is not None and name.isidentifier()
        return name in self.parameters or is_alias or in_keywords

    def from_fields(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The values given by name, as `attrs.evolve` and pickle give them.

        Unlike in a call, the names of `*args` and `**kwargs` stand for a tuple and a dict. Values
        that are not named come from `current`, the parameters of the spec to change, if given.

        Raises `ParameterError` for an unknown name, or a missing parameter without a default.
        """
        given = self.resolve(named, current)
        for name in self.names:
            if name not in given and name not in self.defaults:
                raise self._refused(f"missing a required argument: {name!r}", given)
        return given

    def resolve(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Like `from_fields`, but parameters without a default may be missing."""
        given = {**(current or {}), **{n: v for n, v in named.items() if n in self.parameters}}
        others = self._checked_keywords(given.pop(str(self.keywords), {}))
        if "lr" in named and self.has_alias and "lr" not in others:
            named = self._without_alias(named, named)
            given |= {n: v for n, v in named.items() if n == "learning_rate"}
        extras = {n: v for n, v in named.items() if n not in self.parameters}
        if self.keywords is not None:
            given[self.keywords] = others | extras
        elif extras:
            raise self._refused(
                f"got an unexpected keyword argument {next(iter(extras))!r}", extras
            )
        if self.variadic in given:
            given[self.variadic] = self._checked_variadic(given[self.variadic])
        for name in (self.variadic, self.keywords):
            if name in given and not given[name]:
                del given[name]  # as `bind` leaves it out
        return given

    def unbind(self, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call that `bind` turns into `given`.

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

    def differing(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values in `given` that differ from the defaults, in the order of the parameters."""
        # In a call, keyword arguments may be in any order.
        names = given if len(given) == 1 else [name for name in self.names if name in given]
        found, defaults = {}, self.defaults
        for name in names:
            value, default = given[name], defaults.get(name, _NO_DEFAULT)
            is_default = value is default or (
                type(value) is type(default) and _is_same_value(value, default)
            )
            if not is_default:
                found[name] = value
        return found

    # --- errors -------------------------------------------------------------------------------

    def _refused(self, reason: str, given: Collection[str]) -> ParameterError:
        """The error for a call, with what Python says of it."""
        unknown = next((name for name in given if name not in self.parameters), None)
        missing = (name for name in self.names if name not in given and name not in self.defaults)
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
        if not isinstance(value, tuple | list) or is_transformation(value):
            raise ParameterError(
                f"{self.factory} takes any number of {self.variadic!r}, and got {value!r} for all "
                "of them.",
                f"Write a tuple: {self.variadic}=(...,).",
                path=self.variadic,
            )
        return tuple(value)

    def _checked_keywords(self, value: Any) -> dict[str, Any]:
        is_dict = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        if not is_dict or not self.by_keyword.isdisjoint(value):
            raise ParameterError(
                f"{self.factory} takes further arguments by name in {self.keywords!r}, and got "
                f"{value!r} for all of them.",
                f"Write a dict of other names than those of its parameters: "
                f"{self.keywords}={{'name': ...}}.",
                path=self.keywords,
            )
        return dict(value)


def _is_same_value(value: Any, default: Any) -> bool:
    """Whether a value equals a default of its type. Only `is` compares objects of other kinds."""
    if type(value) in (int, float, bool, str):
        # 0.0 == -0.0, but their texts differ.
        return value == default and (bool(value) or repr(value) == repr(default))
    if type(value) is tuple:
        pairs = zip(value, default, strict=False)
        return len(value) == len(default) and all(
            type(a) is type(b) and _is_same_value(a, b) for a, b in pairs
        )
    return value is None


_NO_DEFAULT: Any = object()


def _fields(names: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    fields, taken = {}, {*names, *reserved}
    for name in names:
        field = name
        if name in reserved:
            while field in taken:
                field += "_"
            taken.add(field)
        fields[name] = field
    return fields
