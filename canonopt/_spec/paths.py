"""Hyperparameters by path: `args[1].learning_rate.peak_value`.

A path leads from a spec through its parameters, the containers among them, and specs therein.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._errors import ParameterError
from .._identity import is_namedtuple
from .._numbers import NUMBERS, Dynamic


class Parametrised:
    """What has parameters by name: a spec, for those who only walk it."""

    __slots__ = ()

    def parameters(self) -> dict[str, Any]:
        raise NotImplementedError


def hyperparameters(spec: Parametrised) -> dict[str, Any]:
    """The numbers, strings and arrays among the parameters of `spec` and of the specs in it."""
    return {path: _plain(value) for path, value in _walk(spec, "") if _is_listed(value)}


def _is_listed(value: Any) -> bool:
    return isinstance(value, NUMBERS | str | Dynamic | jax.Array | np.ndarray)


def _plain(value: Any) -> Any:
    if isinstance(value, Dynamic):
        value = value.numbers()
        return value.value if isinstance(value, Dynamic) else value
    return value


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each part of `value` with its path, those farther out first."""
    if path:
        yield path, value
    for step, part in _parts(value):
        yield from _walk(part, path + step if path else step.removeprefix("."))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What `value` consists of, and the step that leads there."""
    if isinstance(value, Parametrised):
        yield from ((f".{name}", part) for name, part in value.parameters().items())
    elif type(value) is dict:
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif type(value) in (tuple, list) or is_namedtuple(type(value)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))


def find(spec: Any, name: str) -> tuple[str, Any]:
    """The path that `name` stands for in `spec`, and the value there.

    A name may leave out where a path begins, as long as only one is left; `lr` is `learning_rate`.
    """
    parts = dict(_walk(spec, ""))
    wanted = re.sub(r"(?<![\w'])lr(?![\w'])", "learning_rate", name)
    found = [path for path in parts if path == wanted]
    found = found or [path for path in parts if path.endswith(f".{wanted}")]
    if len(found) == 1:
        return found[0], parts[found[0]]
    listed = list(hyperparameters(spec))
    if found:
        raise ParameterError(
            f"{name!r} may be any of {', '.join(found)}. Write the whole path of the one you mean."
        )
    near = difflib.get_close_matches(wanted, [*listed, *(p.rpartition(".")[2] for p in listed)], 1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ParameterError(
        f"There is no hyperparameter {name!r}. {hint}Those of this spec are: "
        f"{', '.join(listed) or 'none'}."
    )


def replaced(value: Any, changes: Mapping[str, Any], replace: Callable[..., Any]) -> Any:
    """`value` with other values at the paths given. `replace` is that of a spec."""
    return _replaced(value, changes, replace, "")


def _replaced(value: Any, changes: Mapping[str, Any], replace: Callable, path: str) -> Any:
    if path in changes:
        return changes[path]
    new = {}
    for step, part in _parts(value):
        below = path + step if path else step.removeprefix(".")
        if any(p == below or p.startswith((f"{below}.", f"{below}[")) for p in changes):
            new[step] = _replaced(part, changes, replace, below)
    if not new:
        return value
    if isinstance(value, Parametrised):
        return replace(value, {step.removeprefix("."): part for step, part in new.items()})
    parts = [new.get(step, part) for step, part in _parts(value)]
    if type(value) is dict:
        return dict(zip(value, parts, strict=True))
    return list(parts) if type(value) is list else tuple.__new__(type(value), parts)
