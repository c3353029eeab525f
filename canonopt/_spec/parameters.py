"""A factory's parameters: names, aliases, defaults, and the errors of calls that do not fit."""

import difflib
import enum
import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs

from .._errors import ParameterError
from .._optax_compat import is_transformation, mentions_transformation

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
        parameters = _parameters_of(function)
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


# --- signatures -------------------------------------------------------------------------------


def _parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    function, follow = _past_wrappers(function)
    for eval_str in (True, False):
        try:
            found = inspect.signature(function, follow_wrapped=follow, eval_str=eval_str)
            return dict(found.parameters)
        except Exception:  # an annotation with an unknown name, or a function written in C
            continue
    return dict(inspect.signature(lambda *args, **kwargs: None).parameters)


def signature_with_lr(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `function` with `lr`. `None` if `lr` is not another name in it."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):  # a function written in C
        return None
    parameters = list(found.parameters.values())
    rate = found.parameters.get("learning_rate")
    takes_others = any(p.kind is p.VAR_KEYWORD for p in parameters)  # `lr` may be one of them
    if rate is None or takes_others or "lr" in found.parameters:
        return None
    if rate.kind not in (rate.POSITIONAL_OR_KEYWORD, rate.KEYWORD_ONLY):
        return None
    lr = rate.replace(name="lr", kind=rate.KEYWORD_ONLY, default=NotGiven.NOT_GIVEN)
    return found.replace(parameters=[*parameters, lr])


# Libraries whose wrappers pass the arguments on unchanged. Other wrappers may take arguments of
# their own, have other defaults, or depend on which ones were given by position, so the signature
# of the function inside does not describe them.
_PASS_ON = frozenset(
    (
        *("canonopt", "chex", "contextlib", "equinox", "jax", "jaxlib", "jaxtyping", "optax"),
        *("typing_extensions", "warnings", "_py_warnings"),
    )
)


def _past_wrappers(function: Any) -> tuple[Any, bool]:
    """A function with the signature of `function`, and whether `inspect` may unwrap it further."""
    if isinstance(function, types.MethodType):
        inner, follow = _past_wrappers(function.__func__)
        return types.MethodType(inner, function.__self__), follow
    if isinstance(function, functools.partial):
        inner, follow = _past_wrappers(function.func)
        return functools.partial(inner, *function.args, **function.keywords), follow
    function = inspect.unwrap(function, stop=lambda f: not _passes_on(f))
    return function, not hasattr(function, "__wrapped__")


def _passes_on(wrapper: Any) -> bool:
    if hasattr(wrapper, "__signature__") and not hasattr(wrapper, "__canonical_owner__"):
        return False
    if isinstance(wrapper, types.FunctionType):
        written_in = wrapper.__globals__.get("__name__", "")
        # Beartype defines its wrapper in the module of the function that it wraps.
        is_beartype = wrapper.__code__.co_filename.startswith("<@beartype(")
        return is_beartype or written_in.partition(".")[0] in _PASS_ON
    module = type(wrapper).__module__
    return module == "functools" or module.partition(".")[0] in _PASS_ON  # functools.lru_cache


def _is_same_value(value: Any, default: Any) -> bool:
    """Whether a value equals a default of its type. Only `is` compares objects of other kinds."""
    if type(value) in (int, float, bool, str):
        # 0.0 == -0.0, but their texts differ.
        return value == default and (bool(value) or repr(value) == repr(default))
    if type(value) is tuple:
        pairs = zip(value, default, strict=False)
        are_same = (type(a) is type(b) and _is_same_value(a, b) for a, b in pairs)
        return len(value) == len(default) and all(are_same)
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
