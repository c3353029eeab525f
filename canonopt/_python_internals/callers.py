"""The line of the user's code that is making a call now, and the variables it names."""

import ast
import inspect
import itertools
import linecache
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from .libraries import is_library_file


@attrs.frozen
class Caller:
    """What the code around a call has names for."""

    # By the name of the parameter: what the caller passes, if one can assign to that.
    arguments: Mapping[str, str] = attrs.field(factory=dict)
    # By the full name of the module, for example "jnp" for "jax.numpy".
    modules: Mapping[str, str] = attrs.field(factory=dict)
    # The variables whose values have one of the types that were asked for.
    variables: Mapping[str, Any] = attrs.field(factory=dict)

    def with_modules(self, code: str) -> str:
        """`code` with the names of the modules that it has as `{jnp}`, or imports of them first."""
        imports = ""
        for short, module in MODULES.items():
            if f"{{{short}}}" in code:
                if module not in self.modules:
                    imports += f"import {module}{'' if short == module else f' as {short}'}; "
                code = code.replace(f"{{{short}}}", self.name_of(short))
        return imports + code

    def name_of(self, short: str) -> str:
        """The caller's name of a module, or the usual one."""
        return self.modules.get(MODULES[short], short)


# What advice is written with, by the usual name.
MODULES = {"canonopt": "canonopt", "eqx": "equinox", "jax": "jax", "jnp": "jax.numpy"}


def caller_of(
    arguments: Iterable[tuple[str, Any]],
    is_given: Callable[[Any, Any], bool],
    kinds: tuple[type, ...],
) -> Caller:
    """The caller of the user's call that runs now; an empty one if it cannot be read.

    **Arguments:**

    - `arguments`: the names of the parameters, and the values.
    - `is_given`: whether a value of the caller is one of these.
    - `kinds`: the types of the variables to keep.
    """
    frame = _users_frame()
    if frame is None:
        return Caller()
    space = _variables(frame)
    call = _call_in_source(frame)
    given = [] if call is None else [*call.args, *(keyword.value for keyword in call.keywords)]
    found: dict[str, str] = {}
    for name, value in arguments:
        # Not by position alone: the source may be that of another call, with other arguments.
        node = next((node for node in given if is_given(_value_of(node, space), value)), None)
        if node is not None:
            given.remove(node)
            found[name] = ast.unparse(node)
    imported = ((v.__name__, n) for n, v in space.items() if issubclass(type(v), types.ModuleType))
    return Caller(
        found,
        {module: name for module, name in imported if module in MODULES.values()},
        {name: value for name, value in space.items() if issubclass(type(value), kinds)},
    )


def _users_frame() -> types.FrameType | None:
    frame = inspect.currentframe()
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _variables(frame: types.FrameType) -> dict[str, Any]:
    found = {**frame.f_globals, **frame.f_locals}
    # Before Python 3.13, the frame of a function that was asked for its variables keeps a copy of
    # them, and so keeps alive what they were, until the function ends.
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED and type(frame.f_locals) is dict:
        frame.f_locals.clear()
    return found


def _call_in_source(frame: types.FrameType) -> ast.Call | None:
    """The call that a frame is making, parsed from its source."""
    positions = frame.f_code.co_positions()
    here = next(itertools.islice(positions, frame.f_lasti // 2, None), None)
    first, last, start, end = here or (None,) * 4
    if first is None or last is None or start is None or end is None:
        return None
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if not lines:
        return None
    # The columns count bytes. The end is cut first: both may be on one line.
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    try:
        node = ast.parse(f"({b''.join(encoded).decode()})", mode="eval").body
    except (SyntaxError, ValueError):  # the file has changed since it was imported
        return None
    return node if isinstance(node, ast.Call) else None


_MISSING = object()


def _value_of(node: ast.expr, space: Mapping[str, Any]) -> Any:
    """The value of a variable, an attribute of an instance or an item, without running any code."""
    if isinstance(node, ast.Name):
        return space.get(node.id, _MISSING)
    if isinstance(node, ast.Attribute):
        owner = _value_of(node.value, space)
        return getattr(owner, "__dict__", {}).get(node.attr, _MISSING)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, key = _value_of(node.value, space), node.slice.value
        if type(owner) is dict:
            return owner.get(key, _MISSING)
        if type(owner) is list and type(key) is int and -len(owner) <= key < len(owner):
            return owner[key]
    return _MISSING
