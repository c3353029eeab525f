"""A factory's parameters: names, aliases, defaults, and the errors of a call that does not fit."""

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs
import optax

from .._errors import NotATransformationError, ParameterError
from .._optax_compat import is_transformation

_Kind = inspect.Parameter


@attrs.frozen(eq=False)
class FactoryParameters:
    """The parameters of one factory.

    A call is turned into `given`: the values by name, of only those parameters that were given.
    `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    factory: str
    parameters: dict[str, inspect.Parameter]
    names: tuple[str, ...]
    # The attribute of a spec that holds each parameter.
    fields: dict[str, str]
    defaults: dict[str, Any]
    # What a class with the parameters as fields, in this order, has to take by keyword only.
    keyword_only: frozenset[str]
    # The parameters that can be given by position, and those that can be given no other way.
    positional: tuple[str, ...]
    positional_only: tuple[str, ...]
    # The names of `*args` and `**kwargs`.
    variadic: str | None
    keywords: str | None
    required: frozenset[str]
    # The parameter that each keyword of a call stands for, whatever else is given.
    by_keyword: dict[str, str]
    # Whether `lr` belongs to `**kwargs`, except where Python would miss a learning rate.
    lr_may_be_extra: bool
    transformations: dict[str, Any]

    @classmethod
    def of(
        cls, function: Callable[..., Any], name: str, reserved: Collection[str]
    ) -> "FactoryParameters":
        """The parameters of `function`; `reserved` are attributes that no field may hide."""
        parameters = _parameters_of(function)
        of_kind = {kind: [n for n, p in parameters.items() if p.kind is kind] for kind in _KINDS}
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
        has_alias = "learning_rate" in by_keyword and "lr" not in parameters
        if has_alias and keywords is None:
            by_keyword["lr"] = "learning_rate"
        return cls(
            factory=name,
            parameters=parameters,
            names=tuple(parameters),
            fields=_fields(names, reserved),
            defaults=defaults,
            keyword_only=frozenset((*of_kind[_Kind.KEYWORD_ONLY], *after_default)),
            positional=(*of_kind[_Kind.POSITIONAL_ONLY], *either),
            positional_only=tuple(of_kind[_Kind.POSITIONAL_ONLY]),
            variadic=variadic,
            keywords=keywords,
            required=frozenset(n for n in names if n not in defaults),
            by_keyword=by_keyword,
            lr_may_be_extra=has_alias and keywords is not None and "learning_rate" not in defaults,
            transformations={
                n: p.annotation for n, p in parameters.items() if _mentions(p.annotation)
            },
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
                if name is None:
                    extras[keyword] = value
                elif name in given:
                    raise self._twice(name, kwargs)
                else:
                    given[name] = value
            if extras:
                self._add_extras(given, extras)
        # A dict's keys tell in C whether they have all that is required.
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
        """The values given by the parameters' names, as `attrs.evolve` and pickle give them.

        Unlike in a call, the names of `*args` and `**kwargs` stand for a tuple and a dict. What is
        not named is as in `current`, if that is given: the parameters of the spec to change.

        Raises `ParameterError` for an unknown name, or if a parameter without default is missing.
        """
        return self.complete(self.resolve(named, current))

    def takes(self, name: str) -> bool:
        """Whether `from_fields` knows the name. Only an identifier can be one of `**kwargs`."""
        return (
            name in self.parameters
            or name in self.by_keyword
            or (self.keywords is not None and name.isidentifier())
        )

    def resolve(
        self, named: Mapping[str, Any], current: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """As `from_fields`, where parameters without default may be missing."""
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
            # As in a call, where the learning rate that the spec has by now is not yet given.
            is_rate = "lr" in extras and "lr" not in others and "learning_rate" not in named
            if self.lr_may_be_extra and is_rate:
                given["learning_rate"] = extras.pop("lr")
            given[self.keywords] = others | extras
        for name in (self.variadic, self.keywords):
            if name in given and not given[name]:
                del given[name]  # as `bind` leaves it out
        return given

    def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """`given`, if it has every parameter that has no default."""
        missing = [name for name in self.names if name in self.required and name not in given]
        if missing:
            written = (n if n in self.positional_only else f"{n}=..." for n in missing)
            raise ParameterError(
                f"{self.factory} needs {', '.join(missing)}. "
                f"Write {self.factory}({', '.join(written)})."
            )
        return given

    def unbind(self, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call that `bind` turns into `given`.

        By keyword where it can be, so that a parameter left out keeps the factory's own default.
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

    # --- errors -------------------------------------------------------------------------------

    def _too_many(self, args: tuple) -> ParameterError:
        count = len(self.positional)
        takes = f"at most {count}" if count else "no"
        listed = f" ({', '.join(self.positional)})" if count else ""
        others = [n for n in self.by_keyword if n not in self.positional and n != "lr"]
        if self.keywords is not None or others:
            cure = f"Name the others: {', '.join(f'{n}=...' for n in others) or 'name=...'}."
        else:
            cure = "Leave out the others."
        return ParameterError(
            f"{self.factory} takes {takes} positional argument{'s' * (count != 1)}{listed} "
            f"and got {len(args)}. {cure}"
        )

    def _twice(self, name: str, kwargs: Mapping[str, Any]) -> ParameterError:
        if name == "learning_rate" and "lr" not in self.parameters and {"lr", name} <= {*kwargs}:
            return ParameterError(
                f"{self.factory} got both lr and learning_rate, which are one parameter. "
                "Write only one of them; in attrs.evolve, learning_rate."
            )
        return ParameterError(
            f"{self.factory} got {name!r} twice, the second time as a keyword. Write it once."
        )

    def _unknown(self, name: str) -> ParameterError:
        if name in self.positional_only:
            return ParameterError(
                f"{self.factory} takes {name!r} by position only. "
                f"Write {self.factory}({', '.join(self.positional_only)})."
            )
        if name == self.variadic:
            return ParameterError(
                f"{self.factory} takes {name!r} by position only, as many as there are. "
                f"Unpack them: {self.factory}({', '.join((*self.positional, f'*{name}'))})."
            )
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return ParameterError(
            f"{self.factory} has no parameter {name!r}. {hint}"
            f"Its parameters are: {', '.join(self.names) or 'none'}."
        )

    def _checked_variadic(self, value: Any) -> tuple:
        # A transformation is a tuple too, of functions.
        if not isinstance(value, tuple | list) or is_transformation(value):
            raise ParameterError(
                f"{self.factory} has any number of {self.variadic!r}, and got {value!r} for all "
                f"of them. Write a tuple: {self.variadic}=(...,)."
            )
        return tuple(value)

    def _checked_keywords(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise ParameterError(
                f"{self.factory} has further arguments by name in {self.keywords!r}, and got "
                f"{value!r} for all of them. Write a dict: {self.keywords}={{'name': ...}}."
            )
        own = next((key for key in value if key in self.by_keyword), None)
        if own is not None:
            raise ParameterError(
                f"{self.factory} got {own!r} in {self.keywords!r}, and has a parameter of that "
                f"name. Take it out of the dict and write {own}=... beside it."
            )
        return dict(value)

    # --- what the factory takes ---------------------------------------------------------------

    def check_transformations(self, given: Mapping[str, Any]) -> None:
        """Raises `NotATransformationError` where a transformation is needed and is not there."""
        for name, annotation in self.transformations.items():
            if name == self.variadic:
                for index, item in enumerate(given.get(name, ())):
                    self._check(item, annotation, f"{name}[{index}]")
            elif name in given:
                self._check(given[name], annotation, name)

    def _check(self, value: Any, annotation: Any, where: str) -> None:
        inner = typing.get_args(annotation)
        if inner == (str, optax.GradientTransformation):
            # A transformation is a pair too, of functions.
            is_pair = isinstance(value, tuple | list) and len(value) == 2
            if not is_pair or is_transformation(value):
                raise NotATransformationError(
                    f"{self.factory} takes pairs of a name and a transformation, and {where} is "
                    f'{value!r}. Write {self.factory}(("clip", canonopt.clip(1.0)), ...).'
                )
            self._check(value[1], inner[1], f"{where}[1]")
        elif optax.GradientTransformation in inner and isinstance(value, Mapping):
            for key, item in value.items():
                self._check(item, optax.GradientTransformation, f"{where}[{key!r}]")
        elif _needs_transformation(annotation) and not is_transformation(value):
            if value is None and type(None) in inner:
                return
            raise NotATransformationError(
                f"{self.factory} needs a gradient transformation, and {where} is "
                f"{_describe(value)}."
            )


_KINDS = (
    _Kind.POSITIONAL_ONLY,
    _Kind.POSITIONAL_OR_KEYWORD,
    _Kind.VAR_POSITIONAL,
    _Kind.KEYWORD_ONLY,
    _Kind.VAR_KEYWORD,
)


def _parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    function, follow = _past_wrappers(function)
    for eval_str in (True, False):
        try:
            found = inspect.signature(function, follow_wrapped=follow, eval_str=eval_str)
            return dict(found.parameters)
        except Exception:  # an annotation that names what is not there, or a function written in C
            continue
    return dict(inspect.signature(lambda *args, **kwargs: None).parameters)


# Whose wrappers hand on the arguments as they are. Another's may take arguments of its own, have
# other defaults, or ask whether one was given by position: what it wraps does not tell.
_HAND_ON = frozenset(
    (
        *("canonopt", "chex", "contextlib", "equinox", "jax", "jaxlib", "jaxtyping", "optax"),
        *("typing_extensions", "warnings", "_py_warnings"),
    )
)


def _past_wrappers(function: Any) -> tuple[Any, bool]:
    """What has the signature of `function`, and whether `inspect` may look for wrappers therein."""
    if isinstance(function, types.MethodType):
        inner, follow = _past_wrappers(function.__func__)
        return types.MethodType(inner, function.__self__), follow
    if isinstance(function, functools.partial):
        inner, follow = _past_wrappers(function.func)
        return functools.partial(inner, *function.args, **function.keywords), follow
    function = inspect.unwrap(function, stop=lambda f: not _hands_on(f))
    return function, not hasattr(function, "__wrapped__")


def _hands_on(wrapper: Any) -> bool:
    if hasattr(wrapper, "__signature__"):
        return False
    if isinstance(wrapper, types.FunctionType):
        written_in = wrapper.__globals__.get("__name__", "")
        # Beartype writes the function into the module of the one that it wraps.
        is_beartype = wrapper.__code__.co_filename.startswith("<@beartype(")
        return is_beartype or written_in.partition(".")[0] in _HAND_ON
    module = type(wrapper).__module__
    return module == "functools" or module.partition(".")[0] in _HAND_ON  # functools.lru_cache


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


def _mentions(annotation: Any) -> bool:
    """Whether `annotation` is a transformation's type or is made of one."""
    if isinstance(annotation, type) and issubclass(annotation, optax.GradientTransformation):
        return True
    return any(map(_mentions, typing.get_args(annotation)))


def _needs_transformation(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        others = (kind for kind in typing.get_args(annotation) if kind is not type(None))
        return all(map(_needs_transformation, others))
    return isinstance(annotation, type) and issubclass(annotation, optax.GradientTransformation)


def _describe(value: Any) -> str:
    if isinstance(value, list | tuple) and any(map(is_transformation, value)):
        kind = type(value).__name__
        return f"a {kind} of {len(value)}. Unpack it: canonopt.chain(*transforms)"
    if callable(value):
        name = getattr(value, "__name__", repr(value))
        return f"the function {name}. Call it, as in {name}(...), if it is a factory"
    return f"{value!r}. Build one, with canonopt.sgd({value!r}) for example"
