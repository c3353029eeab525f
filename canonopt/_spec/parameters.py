"""A factory's parameters: names, aliases, defaults, and the errors of calls that do not fit."""

import difflib
import enum
import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs
import optax

from .._optax_compat import is_transformation, mentions_transformation, needs_transformation
from .._python_internals import parameters_of
from ..errors import NotATransformationError, ParameterError

_Kind = inspect.Parameter


class NotGiven(enum.StrEnum):
    """The default of `lr` in a signature. Configs may pass it on, and YAML makes text of it."""

    NOT_GIVEN = "NOT_GIVEN"

    def __repr__(self) -> str:
        return "<not given>"


@attrs.frozen(eq=False)
class FactoryParameters:
    """The parameters of one factory.

    `bind` turns a call into `given`: a dict with the values of the parameters that were given, by
    name. `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    factory: str
    parameters: dict[str, inspect.Parameter]
    names: tuple[str, ...]
    # The attribute of a spec that holds each parameter.
    fields: dict[str, str]
    defaults: dict[str, Any]
    # Whether the attribute of some parameter has another name.
    is_renamed: bool
    # The defaults, in the order of the parameters; None for those without.
    template: dict[str, Any]
    # Those that a class with the parameters as fields, in this order, takes by keyword only.
    keyword_only: frozenset[str]
    # The parameters that can be given by position, and those that must be.
    positional: tuple[str, ...]
    positional_only: tuple[str, ...]
    # The names of `*args` and `**kwargs`.
    variadic: str | None
    keywords: str | None
    required: frozenset[str]
    # The parameter that each keyword of a call stands for, whatever else is given.
    by_keyword: dict[str, str]
    # Whether `lr` belongs to `**kwargs`, unless the required learning rate is missing without it.
    lr_may_be_extra: bool
    # The annotations of the parameters that take a transformation, or a container of them.
    transformations: dict[str, Any]

    @classmethod
    def of(
        cls, function: Callable[..., Any], name: str, reserved: Collection[str]
    ) -> "FactoryParameters":
        """The parameters of `function`; a field must not hide one of the `reserved` attributes."""
        parameters = parameters_of(function)
        of_kind = {
            kind: [n for n, p in parameters.items() if p.kind is kind]
            for kind in type(_Kind.VAR_KEYWORD)
        }
        either = of_kind[_Kind.POSITIONAL_OR_KEYWORD]
        variadic = next(iter(of_kind[_Kind.VAR_POSITIONAL]), None)
        keywords = next(iter(of_kind[_Kind.VAR_KEYWORD]), None)
        defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        defaults |= {} if variadic is None else {variadic: ()}
        defaults |= {} if keywords is None else {keywords: {}}
        names = list(parameters)
        optional = min((names.index(n) for n in defaults), default=len(names))
        after_default = [n for n in names[optional:] if n not in defaults]
        by_keyword = {n: n for n in (*either, *of_kind[_Kind.KEYWORD_ONLY])}
        annotations = {n: p.annotation for n, p in parameters.items()}
        has_alias = "learning_rate" in by_keyword and "lr" not in parameters
        if has_alias and keywords is None:
            by_keyword["lr"] = "learning_rate"
        return cls(
            factory=name,
            parameters=parameters,
            names=tuple(parameters),
            fields=(fields := _fields(names, reserved)),
            is_renamed=any(field != name for name, field in fields.items()),
            defaults=defaults,
            template=dict.fromkeys(names) | defaults,
            keyword_only=frozenset((*of_kind[_Kind.KEYWORD_ONLY], *after_default)),
            positional=(*of_kind[_Kind.POSITIONAL_ONLY], *either),
            positional_only=tuple(of_kind[_Kind.POSITIONAL_ONLY]),
            variadic=variadic,
            keywords=keywords,
            required=frozenset(n for n in names if n not in defaults),
            by_keyword=by_keyword,
            lr_may_be_extra=has_alias and keywords is not None and "learning_rate" not in defaults,
            transformations={n: a for n, a in annotations.items() if mentions_transformation(a)},
        )

    # --- from a call to values and back -------------------------------------------------------

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values given by a call, as Python would bind them, with `lr` for `learning_rate`.

        Raises `ParameterError` for a call that Python would refuse.
        """
        given = dict(zip(self.positional, args, strict=False))
        if len(args) > len(given):
            if self.variadic is None:
                raise self._too_many(args)
            given[self.variadic] = args[len(given) :]
        if kwargs:
            extras = {}
            for keyword, value in kwargs.items():
                name = self.by_keyword.get(keyword)
                is_alias = keyword == "lr" and name == "learning_rate"
                if is_alias and isinstance(value, str) and value == NotGiven.NOT_GIVEN:
                    continue
                if name is None:
                    extras[keyword] = value
                elif name in given:
                    raise self._twice(name, kwargs)
                else:
                    given[name] = value
            if extras:
                self._add_extras(given, extras)
        # In C, where `complete` would loop in Python.
        return given if given.keys() >= self.required else self.complete(given)

    def _add_extras(self, given: dict[str, Any], extras: dict[str, Any]) -> None:
        if self.keywords is None:
            raise self._unknown(next(iter(extras)))
        if self.lr_may_be_extra and "lr" in extras and "learning_rate" not in given:
            given["learning_rate"] = extras.pop("lr")
        if extras:
            given[self.keywords] = extras

    def from_fields(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The values given by name, as `attrs.evolve` and pickle give them.

        Unlike in a call, the names of `*args` and `**kwargs` stand for a tuple and a dict. Values
        that are not named come from `current`, the parameters of the spec to change, if given.

        Raises `ParameterError` for an unknown name, or a missing parameter without a default.
        """
        return self.complete(self.resolve(named, current))

    def takes(self, name: str) -> bool:
        """Whether `from_fields` accepts the name. In `**kwargs` it must be an identifier."""
        return (
            name in self.parameters
            or name in self.by_keyword
            or (self.keywords is not None and name.isidentifier())
        )

    def resolve(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Like `from_fields`, but parameters without a default may be missing."""
        current = current or {}
        given, extras = dict(current), {}
        for name, value in named.items():
            if name in self.parameters:
                given[name] = value
            elif name not in self.by_keyword:
                extras[name] = value
            elif "learning_rate" in named:  # the one keyword that is not a parameter's name is lr
                raise self._twice("learning_rate", named)
            else:
                given["learning_rate"] = value
        if extras and self.keywords is None:
            raise self._unknown(next(iter(extras)))
        if self.variadic in given:
            given[self.variadic] = self._checked_variadic(given[self.variadic])
        if self.keywords is not None:
            others = self._checked_keywords(given.pop(self.keywords, {}))
            # As in a call: the current learning rate of the spec does not count as given.
            is_rate = "lr" in extras and "lr" not in others and "learning_rate" not in named
            if self.lr_may_be_extra and is_rate:
                given["learning_rate"] = extras.pop("lr")
            given[self.keywords] = others | extras
        for name in (self.variadic, self.keywords):
            if name in given and not given[name]:
                del given[name]  # as `bind` leaves it out
        return given

    def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """`given`. Raises `ParameterError` if a parameter without a default is missing."""
        missing = [name for name in self.names if name in self.required and name not in given]
        if missing:
            written = (n if n in self.positional_only else f"{n}=..." for n in missing)
            raise ParameterError(
                f"{self.factory} needs {', '.join(missing)}.",
                f"Write {self.factory}({', '.join(written)}).",
                path=missing[0],
            )
        return given

    def unbind(self, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call that `bind` turns into `given`.

        By keyword where possible, so that a parameter left out keeps the factory's own default.
        """
        kwargs = dict(given)
        rest = () if self.variadic is None else kwargs.pop(self.variadic, ())
        extras = {} if self.keywords is None else kwargs.pop(self.keywords, {})
        if rest:
            by_position = self.positional
        else:
            by_position = self.positional_only
            while by_position and by_position[-1] not in kwargs:
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

    def check_transformations(self, given: Mapping[str, Any]) -> None:
        """Raises `NotATransformationError` for an argument that has to be a transformation."""
        for name, annotation in self.transformations.items():
            if name == self.variadic:
                for index, item in enumerate(given.get(name, ())):
                    _check(self.factory, item, annotation, f"{name}[{index}]")
            elif name in given:
                _check(self.factory, given[name], annotation, name)

    # --- errors -------------------------------------------------------------------------------

    def _too_many(self, args: tuple) -> ParameterError:
        count = len(self.positional)
        takes = f"at most {count}" if count else "no"
        listed = f" ({', '.join(self.positional)})" if count else ""
        others = [n for n in self.by_keyword if n not in self.positional and n != "lr"]
        if self.keywords is not None or others:
            fix = f"Name the others: {', '.join(f'{n}=...' for n in others) or 'name=...'}."
        else:
            fix = "Leave out the others."
        return ParameterError(
            f"{self.factory} takes {takes} positional argument{'s' * (count != 1)}{listed} "
            f"and got {len(args)}.",
            fix,
        )

    def _twice(self, name: str, kwargs: Mapping[str, Any]) -> ParameterError:
        if name == "learning_rate" and "lr" not in self.parameters and {"lr", name} <= {*kwargs}:
            return ParameterError(
                f"{self.factory} got both lr and learning_rate, which are one parameter.",
                "Write only one of them; in attrs.evolve, learning_rate.",
                path=name,
            )
        problem = f"{self.factory} got {name!r} twice, the second time as a keyword."
        return ParameterError(problem, "Write it once.", path=name)

    def _unknown(self, name: str) -> ParameterError:
        if name in self.positional_only:
            return ParameterError(
                f"{self.factory} takes {name!r} by position only.",
                f"Write {self.factory}({', '.join(self.positional_only)}).",
                path=name,
            )
        if name == self.variadic:
            return ParameterError(
                f"{self.factory} takes any number of {name!r}, by position only.",
                f"Unpack them: {self.factory}({', '.join((*self.positional, f'*{name}'))}).",
                path=name,
            )
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return ParameterError(
            f"{self.factory} has no parameter {name!r}.",
            f"{hint}Its parameters are: {', '.join(self.names) or 'none'}.",
            path=name,
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
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise ParameterError(
                f"{self.factory} takes further arguments by name in {self.keywords!r}, and got "
                f"{value!r} for all of them.",
                f"Write a dict: {self.keywords}={{'name': ...}}.",
                path=self.keywords,
            )
        own = next((key for key in value if key in self.by_keyword), None)
        if own is not None:
            raise ParameterError(
                f"{self.factory} got {own!r} in {self.keywords!r}, and has a parameter of that "
                "name.",
                f"Take it out of the dict and write {own}=... beside it.",
                path=own,
            )
        return dict(value)


# --- transformations ----------------------------------------------------------------------------


def _check(factory: str, value: Any, annotation: Any, path: str) -> None:
    if isinstance(annotation, type) and is_transformation(value):
        return
    inner = typing.get_args(annotation)
    if inner == (str, optax.GradientTransformation):
        # A transformation is a pair too, of functions.
        is_pair = isinstance(value, tuple | list) and len(value) == 2
        if not is_pair or is_transformation(value):
            raise NotATransformationError(
                f"{factory} takes pairs of a name and a transformation, and {path} is {value!r}.",
                f'Write {factory}(("clip", canonopt.clip(1.0)), ...).',
                path=path,
            )
        _check(factory, value[1], inner[1], f"{path}[1]")
    elif optax.GradientTransformation in inner and isinstance(value, Mapping):
        for key, item in value.items():
            _check(factory, item, optax.GradientTransformation, f"{path}[{key!r}]")
    elif needs_transformation(annotation) and not is_transformation(value):
        if value is None and type(None) in inner:
            return
        found, fix = _described(value)
        raise NotATransformationError(
            f"{factory} needs a gradient transformation, and {path} is {found}.", fix, path=path
        )


def _described(value: Any) -> tuple[str, str]:
    """What was given in place of a transformation, and what to write."""
    if isinstance(value, Sequence) and any(map(is_transformation, value)):
        found = f"a {type(value).__name__} of {len(value)}"
        return found, "Unpack it: canonopt.chain(*transforms)."
    if callable(value):
        name = getattr(value, "__name__", repr(value))
        return f"the function {name}", f"Call it, as in {name}(...), if it is a factory."
    return repr(value), f"Build one, with canonopt.sgd({value!r}) for example."


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


def _fields(names: Sequence[str], reserved: Collection[str]) -> dict[str, str]:
    fields, taken = {}, {*names, *reserved}
    for name in names:
        field = name
        if name in reserved:
            while field in taken:
                field += "_"
            taken.add(field)
        fields[name] = field
    return fields
