"""Find the line of the user's code that is making a call, and the names in that code."""

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import linecache
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .libraries import attribute, is_library_code, unwrapped

# --- lines and names of code, as messages show them -----------------------------------------------


def place_of_line(path: str, line: int) -> str:
    """Return `path:line`, or `In[3]:2` for a line of a notebook cell that IPython has run.

    Relies on `format_code_name` of IPython's compiler, which its tracebacks use too.
    """
    ipython: Any = sys.modules.get("IPython")
    with contextlib.suppress(Exception):  # no such method, or `path` is not that of a cell
        _, path = ipython.get_ipython().compile.format_code_name(path)
    return f"{path}:{line}"


def place_of(value: Any) -> str | None:
    """Return where a function is defined, as `file:line`, or `In[3]:1` in a notebook."""
    code = attribute(unwrapped(value), "__code__")
    return place_of_line(code.co_filename, code.co_firstlineno) if code is not None else None


# --- frames ---------------------------------------------------------------------------------------


def frames() -> Iterator[types.FrameType]:
    """Yield the frames of this thread, from the caller's outwards."""
    frame = inspect.currentframe()
    # A variable with this frame would make a cycle, which keeps the variables of callers alive.
    frame = frame and frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


# `call_site` returns the user's innermost line, even in a function that these libraries call.
_PURE = sys.stdlib_module_names | {"jax", "jaxlib", "equinox", "flax", "canonopt"}


def call_site() -> str | None:
    """Return the line of the user's code that runs now, as `file:line`.

    The line is that of the innermost frame whose file is not a library's, or else of the innermost
    frame of `__main__`. Returns None if there is neither. If a library outside of `_PURE` calls the
    user's function and runs inside it, as NumPyro does, the line is that of its outermost call.
    """
    stack = [*itertools.islice(frames(), 1, None)]  # a list with this frame would make a cycle
    names = [str(f.f_globals.get("__name__")) for f in stack]
    users = [i for i, f in enumerate(stack) if not is_library_code(f.f_code, f.f_globals)]
    if not (users := users or [i for i, name in enumerate(names) if name == "__main__"]):
        return None
    packages = [name.partition(".")[0] for name in names]
    inside = {*packages[: users[0]]} - _PURE
    last = max((i for i, package in enumerate(packages) if package in inside), default=0)
    frame = stack[next((i for i in users if i > last), users[0])]
    return place_of_line(frame.f_code.co_filename, frame.f_lineno)


def frames_to_the_user() -> int:
    """Return the number of frames from the caller of this function to the user's code.

    The `stacklevel` of a warning needs it: the number of JAX's frames varies with jit and version.
    """
    found = itertools.takewhile(lambda f: is_library_code(f.f_code, f.f_globals), frames())
    return sum(1 for _ in found) - 2  # without this function and the generator expression


# --- the caller -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The names that the code around a call has for arguments, modules and other values."""

    # Maps each parameter's name to its argument's source, such as "self.x", if that is assignable.
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Maps the full name of a module or function to the caller's name: "jax.numpy" to "jnp".
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # The variables whose values have one of the types given to `caller_of` as `kinds`.
    variables: dict[str, Any] = dataclasses.field(default_factory=dict)
    # The modules of libraries that the call came through.
    through: frozenset[str] = frozenset()
    place: str = ""  # the place of the call, as `file:line`

    @property
    def package(self) -> str:
        """Return the name of a library in `through` besides JAX and Equinox, or ""."""
        packages = {module.partition(".")[0] for module in self.through}
        libraries = packages - {"jax", "equinox", "canonopt"} - sys.stdlib_module_names
        return min(libraries, default="")

    def with_modules(self, code: str) -> str:
        """Return missing imports, then `code` with the caller's names for `{jnp}` and the like."""
        imports = ""
        for short, module in MODULES.items():
            if f"{{{short}}}" in code:
                if module not in self.modules:
                    imports += f"import {module}{'' if short == module else f' as {short}'}; "
                code = code.replace(f"{{{short}}}", self.name_of(short))
        return imports + code

    def name_of(self, short: str, attribute: str = "") -> str:
        """Return the caller's name for a module, or for an attribute of it; else the usual name."""
        module = self.modules.get(MODULES[short], short)
        if not attribute:
            return module
        return self.modules.get(f"{MODULES[short]}.{attribute}", f"{module}.{attribute}")


# The modules that the advice in messages uses, by their usual names.
MODULES = {"canonopt": "canonopt", "eqx": "equinox", "jax": "jax", "jnp": "jax.numpy"}
# Users may import these functions by name.
_FUNCTIONS = [f"{module}.{jit}" for module in MODULES.values() for jit in ("jit", "filter_jit")]


def caller_of(
    arguments: Iterable[tuple[str, Any]],
    is_given: Callable[[Any, Any], bool],
    kinds: tuple[type, ...],
) -> Caller:
    """Return the `Caller` for the innermost code of the user that runs now.

    If only library code runs, the result has no more than `place`. `arguments` has the name and
    the value of each parameter. `is_given(found, value)` returns True if `found`, a value in the
    caller's code, was given as `value`. `kinds` are the types of the variables to keep.
    """
    through: set[str] = set()
    for frame in frames():
        if not is_library_code(frame.f_code, frame.f_globals):
            break
        through.add(str(frame.f_globals.get("__name__")))
    else:
        return Caller(place=call_site() or "")
    space = _variables(frame)
    call = _call_in_source(frame)
    given = [] if call is None else [*call.args, *(keyword.value for keyword in call.keywords)]
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED:
        # In a function, assigning to a global or captured variable would make a local variable.
        own = (*code.co_varnames, *code.co_cellvars)
        given = [node for node in given if not isinstance(node, ast.Name) or node.id in own]
    found: dict[str, str] = {}
    for name, value in arguments:
        # Compare values: the source may call a library, which makes the call with other arguments.
        node = next((node for node in given if is_given(_value_of(node, space), value)), None)
        if node is not None:
            given.remove(node)
            owner = _value_of(node.value, space) if isinstance(node, ast.Attribute) else None
            # A class's own `__setattr__` may raise, as that of a frozen dataclass does.
            if not isinstance(type(owner).__setattr__, types.FunctionType):
                found[name] = ast.unparse(node)
    return Caller(
        found,
        _imported(space) | _imported(frame.f_globals, _FUNCTIONS),
        {name: value for name, value in space.items() if issubclass(type(value), kinds)},
        frozenset(through),
        place_of_line(code.co_filename, frame.f_lineno),
    )


def _imported(space: dict[str, Any], functions: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that hold a module of `MODULES` or one of `functions`, by full name."""
    full = {id(sys.modules[name]): name for name in MODULES.values() if name in sys.modules}
    for function in functions:
        module, _, name = function.rpartition(".")
        # Not `getattr`, because some modules import a name when it is asked for.
        names = getattr(sys.modules.get(module), "__dict__", {})
        full[id(names.get(name, _MISSING))] = function
    # The first of several names counts: in sorted imports, `canonopt` is before `optax`.
    variables = reversed(space.items())
    return {full[id(value)]: name for name, value in variables if id(value) in full}


def _variables(frame: types.FrameType) -> dict[str, Any]:
    variables = frame.f_locals
    found = {**frame.f_globals, **variables}
    # Before Python 3.13, `f_locals` makes a copy of the variables. The frame keeps the copy, and so
    # the values alive, until the function ends. Empty the copy, unless the function has it from
    # `locals()`: then more than the frame and this function refer to it.
    is_copy = frame.f_code.co_flags & inspect.CO_OPTIMIZED and type(variables) is dict
    if is_copy and sys.getrefcount(variables) <= 3:
        variables.clear()
    return found


def _call_in_source(frame: types.FrameType) -> ast.Call | None:
    """Return the call that a frame is making; None unless a line could be inserted before it."""
    positions = frame.f_code.co_positions()
    here = next(itertools.islice(positions, frame.f_lasti // 2, None), None)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if here is None or None in here or not lines:
        return None
    first, last, start, end = here
    start, end = (first, start), (last, end)
    covering = [each for each in _nodes("".join(lines)) if each[0] <= start and end <= each[1]]
    way = [node for _, _, node in covering]  # outermost first
    call = next((n for *at, n in covering if at == [start, end] and type(n) is ast.Call), None)
    at = max((i for i, node in enumerate(way) if isinstance(node, ast.stmt)), default=0)
    # A line before a block, such as a loop, may not run before each call. A line before a lambda or
    # a comprehension lacks its variables.
    if call is None or hasattr(way[at], "body") or any(isinstance(n, _SCOPES) for n in way[at:]):
        return None
    is_first = not lines[way[at].lineno - 1].encode()[: way[at].col_offset].strip()
    return call if is_first else None


_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# CPython 3.11 raises a SystemError if two threads parse: github.com/python/cpython/issues/106905.
_parsing = threading.RLock()


@functools.lru_cache(16)
def _nodes(source: str) -> list[tuple[tuple[int, int], tuple[int, int], Any]]:
    """Return a source's statements and expressions, with start and end; outer ones come first."""
    try:
        with _parsing:
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the file has changed since it was imported
        return []
    nodes: list[Any] = [n for n in ast.walk(tree) if isinstance(n, ast.stmt | ast.expr)]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset), n) for n in nodes]


_MISSING = object()


def _value_of(node: ast.expr, space: Mapping[str, Any]) -> Any:
    """Return the value of a variable, attribute or item without running code; else `_MISSING`."""
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
