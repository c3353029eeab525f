"""A factory's parameters: names, aliases, defaults, and the errors of a call that does not fit."""

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import jax.tree_util as jtu
import optax

from ._errors import NotATransformationError, ParameterError

_Kind = inspect.Parameter


@attrs.frozen(eq=False)
class Signature:
    """The parameters of one factory.

    A call is turned into `given`: the values by name, of only those parameters that were written.
    `*args` and `**kwargs` are parameters like others, with a tuple and a dict as values.
    """

    factory: str
    parameters: dict[str, inspect.Parameter]
    names: tuple[str, ...]
    fields: dict[str, str]
    defaults: dict[str, Any]
    keyword_only: frozenset[str]
    positional: tuple[str, ...]
    variadic: str | None
    keywords: str | None
    transformations: dict[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str, reserved: set[str]) -> "Signature":
        """The signature of `function`; `reserved` are attributes that no field may hide."""
        try:
            parameters = dict(inspect.signature(function, eval_str=True).parameters)
        except Exception:  # an annotation that names what is not there
            parameters = dict(inspect.signature(function).parameters)
        of_kind = {kind: [n for n, p in parameters.items() if p.kind is kind] for kind in _KINDS}
        variadic = next(iter(of_kind[_Kind.VAR_POSITIONAL]), None)
        keywords = next(iter(of_kind[_Kind.VAR_KEYWORD]), None)
        defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        defaults |= {} if variadic is None else {variadic: ()}
        defaults |= {} if keywords is None else {keywords: {}}
        names = list(parameters)
        optional = min((names.index(n) for n in defaults), default=len(names))
        after_default = [n for n in names[optional:] if n not in defaults]
        return cls(
            factory=name,
            parameters=parameters,
            names=tuple(parameters),
            fields={n: f"{n}_" if n in reserved else n for n in parameters},
            defaults=defaults,
            keyword_only=frozenset((*of_kind[_Kind.KEYWORD_ONLY], *after_default)),
            positional=(*of_kind[_Kind.POSITIONAL_ONLY], *of_kind[_Kind.POSITIONAL_OR_KEYWORD]),
            variadic=variadic,
            keywords=keywords,
            transformations={
                n: p.annotation for n, p in parameters.items() if _mentions(p.annotation)
            },
        )

    # --- from a call to values and back -------------------------------------------------------

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values given by a call, as Python would bind them, with `lr` for `learning_rate`."""
        given = dict(zip(self.positional, args, strict=False))
        rest = args[len(given) :]
        if rest and self.variadic is None:
            raise ParameterError(
                f"{self.factory} takes at most {len(self.positional)} positional arguments "
                f"({', '.join(self.positional)}) and got {len(args)}. Name the others."
            )
        if rest:
            given[typing.cast(str, self.variadic)] = rest
        for name, value in self.resolve(kwargs).items():
            if name in given:
                raise ParameterError(
                    f"{self.factory} got {name!r} twice, the second time as a keyword. "
                    "Write it once."
                )
            given[name] = value
        return self.complete(given)

    def takes(self, name: str) -> bool:
        """Whether `resolve` knows the name."""
        return (
            name in self.parameters
            or (name == "lr" and "learning_rate" in self.parameters)
            or (self.keywords is not None and name.isidentifier())
        )

    def resolve(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the parameters' own names. Raises `ParameterError` for a name there is not."""
        resolved, others = {}, {}
        for name, value in named.items():
            if name in self.parameters:
                resolved[name] = value
            elif name == "lr" and "learning_rate" in self.parameters:
                if "learning_rate" in named:
                    raise ParameterError(
                        f"{self.factory} got both lr and learning_rate, which are one parameter. "
                        "Write only one of them; in attrs.evolve, learning_rate."
                    )
                resolved["learning_rate"] = value
            elif self.keywords is not None:
                others[name] = value
            else:
                raise self._unknown(name)
        if others:
            resolved[typing.cast(str, self.keywords)] = others
        return resolved

    def complete(self, given: dict[str, Any]) -> dict[str, Any]:
        """`given`, if it has every parameter that has no default."""
        missing = [name for name in self.names if name not in given and name not in self.defaults]
        if missing:
            raise ParameterError(
                f"{self.factory} needs {', '.join(missing)}. "
                f"Write {self.factory}({', '.join(f'{name}=...' for name in missing)})."
            )
        return given

    def unbind(self, given: Mapping[str, Any], positional: bool = True) -> tuple[list, dict]:
        """The arguments of a call that `bind` turns into `given`.

        By keyword where it can be, so that a parameter left out keeps the factory's own default.
        """
        kwargs = {name: value for name, value in given.items()}
        variadic = kwargs.pop(self.variadic, ()) if self.variadic else ()
        others = kwargs.pop(self.keywords, {}) if self.keywords else {}
        by_position = self.positional if variadic else self._positional_only
        args = [kwargs.pop(n) if n in kwargs else self.defaults[n] for n in by_position]
        return [*args, *variadic], kwargs | others

    @property
    def _positional_only(self) -> tuple[str, ...]:
        return tuple(n for n in self.positional if self.parameters[n].kind is _Kind.POSITIONAL_ONLY)

    def _unknown(self, name: str) -> ParameterError:
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return ParameterError(
            f"{self.factory} has no parameter {name!r}. {hint}"
            f"Its parameters are: {', '.join(self.names) or 'none'}."
        )

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


def is_transformation(value: Any) -> bool:
    """Whether `value` has what makes a gradient transformation: an `init` and an `update`."""
    if isinstance(value, optax.GradientTransformation):
        return True
    functions = (getattr(value, "init", None), getattr(value, "update", None))
    return not isinstance(value, type) and all(map(callable, functions))


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


def as_optax_takes(name: str, value: Any, parameters: Mapping[str, Any]) -> Any:
    """`value` such that optax takes a tree for a tree, even one that happens to be callable.

    Optax asks `callable(value)` to tell a function from a tree, and so takes a tree that is an
    `equinox.Module` with a `__call__` for a function (optax#1373). It is handed a function instead
    that returns the tree.
    """
    leaf_is_right = _TREES.get(name)
    if leaf_is_right is None or not callable(value):
        return value
    leaves = jtu.tree_leaves(value)
    if not leaves or any(leaf is value for leaf in leaves):
        return value
    is_tree = all(leaf_is_right(leaf, parameters) for leaf in leaves)
    return (lambda _: value) if is_tree else value


def _is_label(leaf: Any, parameters: Mapping[str, Any]) -> bool:
    try:
        return leaf in parameters.get("transforms", ())
    except TypeError:  # not hashable
        return False


def _is_axis(leaf: Any, parameters: Mapping[str, Any]) -> bool:
    return isinstance(leaf, int)


# The parameters that optax documents as "a tree or a function" and asks `callable` about.
_TREES: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "param_labels": _is_label,
    "weight_dimension_numbers": _is_axis,
    "muon_weight_dimension_numbers": _is_axis,
}
