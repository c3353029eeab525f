"""Cached programs that go on with a value that has changed since they were traced.

JAX looks at the arguments of a call, not at what else the function reads: globals, captured
variables, attributes, items of containers. `Reads` notes these values, by name, when a function is
traced. JAX's hook after cached calls compares them, in one loop over a flat list. Where one differs,
the function is traced once more, apart from JAX's caches, and what is reported is only what gives
another program.
"""

import builtins
import collections
import contextlib
import dis
import enum
import functools
import hashlib
import io
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import attrs
import jax
import jax.core
import numpy as np

from .._jax_internals import (
    HitWatch,
    Miss,
    MissWatch,
    Retrace,
    attribute,
    function_of_hit,
    function_of_miss,
    functions_inside,
    innermost,
    is_same_program,
    name_of,
    retrace_of_hit,
    retrace_of_miss,
    stands_for_others,
    users_call_of_hit,
)
from .._python_internals import (
    WeakIdMap,
    cells_of,
    code_of,
    impure_name,
    is_bound,
    is_library_class,
    is_library_function,
    is_library_module,
    place_of_line,
)
from .._texts import place_of, shortened, text_of
from ..errors import StaleReadError

# --- what a function reads ------------------------------------------------------------------------

_MAX_STEPS = 400  # of one function: 25 us a call
_MAX_ITEMS = 64  # of a container
_MAX_NESTING = 6
_MAX_BYTES = 1 << 16  # of an array that is compared at each call


class _Gone:
    def __repr__(self) -> str:
        return "gone"


_GONE: Any = _Gone()
# How a value is compared: by its type alone, since what is in it is compared next; by identity, and
# by value if that differs; or by a function of the value and of what was noted, which says True if
# the value has changed.
_Check: TypeAlias = str | Callable[[Any, Any], bool]
HOLDER, VALUE = "holder", "value"
# The register with the object that holds the value; the key or name there; how the value is found
# there (None for `holder[key]`); how it is compared, and with what.
_Step: TypeAlias = tuple[int, Any, Callable[[Any, Any], Any] | None, _Check, Any]


class Reads:
    """The values that a function, and the user's functions that it calls, read besides arguments.

    A superset: by the names in their code, not by what runs. Each value is reached from a module's
    namespace or a weak reference, so nothing that a function could free is kept.
    """

    def __init__(self, collect: "Callable[[Reads], None]") -> None:
        self.codes: dict[types.CodeType, None] = {}
        self._functions: dict[int, Any] = {}
        # The objects that nothing else leads to, with their names.
        self._roots: dict[int, tuple[Any, str]] = {}
        self._names: set[str] = set()  # of attributes
        self.has_effects = self.may_change_objects = False
        count = -1
        while len(self._names) > count:  # a function that is found later may name more
            count = len(self._names)
            self._steps: list[_Step] = []
            self.paths: list[str] = []
            self._texts: dict[int, str] = {}
            self._holders, self._depth = 1, 0
            self._functions.clear()
            self._spaces: dict[int, int] = {}  # the holders of the namespaces
            self._seen: set[Any] = set()
            collect(self)
        self._leave_out_empty_holders()
        del self._seen
        self._origins = [(weakref.ref(fn), "") for fn in self._functions.values()]
        self._origins += [(weakref.ref(value), name) for value, name in self._roots.values()]
        del self._functions, self._roots

    @classmethod
    def of_call(cls, function: Any, args: tuple, kwargs: dict[str, Any]) -> "Reads":
        """Return what a call reads besides its arguments."""
        names = _names(innermost(function))[isinstance(function, types.MethodType) :]

        def collect(reads: Reads) -> None:
            reads._add_callable(function)
            for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
                reads._add_argument(value, name)

        return cls(collect)

    def now(self) -> "Reads":
        """Return the same values as they are now."""

        def collect(reads: Reads) -> None:
            for reference, name in self._origins:
                value = reference()
                if name and value is not None:
                    reads._add_root(value, name)
                elif value is not None:
                    reads._add_function(value)

        return Reads(collect)

    # --- comparing --------------------------------------------------------------------------------

    def differ(self) -> bool:
        """Return False if all values are the same objects, or the same arrays, as before."""
        holders: list[Any] = [None]
        try:
            for source, key, get, check, expected in self._steps:
                value = holders[source][key] if get is None else get(holders[source], key)
                if check is VALUE:
                    if value is not expected:
                        return True
                elif check is HOLDER:
                    if type(value) is not expected:
                        return True
                    holders.append(value)
                elif check(value, expected):
                    return True
        except Exception:
            return True
        return False

    def changes(self) -> dict[str, tuple[str, str]]:
        """Return the names of the values that differ now, each with the value before and after."""
        holders: list[Any] = [None]
        found: dict[str, tuple[str, str]] = {}
        for i, (source, key, get, check, expected) in enumerate(self._steps):
            holder, value = holders[source], _GONE
            if holder is not _GONE:
                with contextlib.suppress(Exception):
                    value = holder[key] if get is None else get(holder, key)
            if check is HOLDER:
                is_same = type(value) is expected
                holders.append(value if is_same else _GONE)
            elif check is VALUE:
                is_same = value is expected or _is_equal(value, expected)
                if is_same:  # an equal number that was computed again
                    self._steps[i] = (source, key, get, check, value)
            else:
                is_same = not (value is _GONE or check(value, expected))
            # What a function reads that nobody has any more counts no more.
            if not is_same and holder is not _GONE and self.paths[i]:
                before, after = self._text(i), _text(value)
                if before == after:
                    after = f"another {after}" if check is _is_another else f"{after}, other values"
                found[self.paths[i]] = before, after
        # An object that has been replaced is told by what is in it, if something is.
        inside = [
            path for path in found for end in ".[" if any(f.startswith(path + end) for f in found)
        ]
        return {path: texts for path, texts in found.items() if path not in inside}

    def _text(self, i: int) -> str:
        check, expected = self._steps[i][3:]
        if i in self._texts:
            return self._texts[i]
        return _text(expected) if check is VALUE else f"a {expected.__name__}"

    # --- collecting -------------------------------------------------------------------------------

    def _leave_out_empty_holders(self) -> None:
        steps, used = [], set[int]()
        holder = self._holders
        for i in range(len(self._steps) - 1, -1, -1):  # what a holder holds comes after it
            step = self._steps[i]
            if step[3] is HOLDER:
                holder -= 1
                if holder not in used:
                    continue
            used.add(step[0])
            steps.append((i, step))
        numbers = {old: new for new, old in enumerate(sorted({0, *used}))}
        steps.reverse()
        self._texts = {new: self._texts[i] for new, (i, _) in enumerate(steps) if i in self._texts}
        self.paths = [self.paths[i] for i, _ in steps]
        self._steps = [(numbers[step[0]], *step[1:]) for _, step in steps]

    def _step(
        self, source: int, key: Any, get: Any, check: _Check, expected: Any, path: str
    ) -> None:
        self._steps.append((source, key, get, check, expected))
        self.paths.append(path)

    def _hold(self, source: int, key: Any, get: Any, value: Any, path: str = "") -> int:
        self._step(source, key, get, HOLDER, type(value), path)
        self._holders += 1
        return self._holders - 1

    def _add_root(self, value: Any, path: str) -> None:
        """Add an object that nothing else in the list leads to, as long as it lives."""
        with contextlib.suppress(TypeError):  # it takes no weak reference
            reference = weakref.ref(value)
            self._roots[id(value)] = value, path
            self._add(0, reference, _referent, value, path, is_root=True)

    def _add_argument(self, value: Any, path: str, depth: int = 0) -> None:
        """Add an object that JAX compares by identity, or the methods of a pytree that is traced."""
        if isinstance(value, _NO_OBJECTS) or depth > 3:
            return
        if callable(value) and isinstance(value, _CALLABLES):
            self._add_callable(value)
        elif jax.tree_util.all_leaves((value,)):
            self._add_root(value, path)
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            for _, item in zip(range(_MAX_ITEMS), items, strict=False):
                self._add_argument(item, path, depth + 1)
        else:
            for inner in _functions_of(type(value), self._names):
                self._add_callable(inner)
            for item in [*getattr(value, "__dict__", {}).values()][:_MAX_ITEMS]:
                self._add_argument(item, path, depth + 1)

    def _add_callable(self, fn: Any) -> None:
        """Add what a callable reads when it is called."""
        for inner in functions_inside(fn):
            if isinstance(inner, types.FunctionType):
                if not is_library_function(inner):
                    self._add_function(inner)
                elif hasattr(inner, "__wrapped__"):
                    self._note_wrapper(inner)
            elif isinstance(inner, types.MethodType):
                self._add_callable(inner.__func__)
                self._add_root(inner.__self__, next(iter(_names(inner.__func__)), "self"))
            elif isinstance(inner, functools.partial):
                holder = self._hold(0, weakref.ref(inner), _referent, inner)
                named = dict(zip(_names(innermost(inner)), inner.args, strict=False))
                for i, (name, value) in enumerate(named.items()):
                    self._add(holder, i, _argument, value, name)
                for name, value in inner.keywords.items():
                    self._add(holder, name, _keyword, value, name)
            elif not isinstance(inner, _CALLABLES) and not hasattr(inner, "call_wrapped"):
                if hasattr(inner, "__wrapped__") and is_library_class(type(inner)):
                    self._note_wrapper(innermost(type(inner).__call__))
                self._add_root(inner, "self")

    def _add_function(self, fn: types.FunctionType) -> None:
        if id(fn) in self._functions or len(self._functions) > _MAX_STEPS:
            return
        self._functions[id(fn)] = fn
        self.codes[fn.__code__] = None
        code, space = code_of(fn), fn.__globals__
        self.has_effects |= bool(code.stores) or _is_impure(fn)
        self.has_effects |= not _CONSUMERS.isdisjoint({*code.globals, *code.attributes})
        self.may_change_objects |= code.changes_objects
        self._names |= code.attributes
        names = [n for n in code.globals if n in space and (id(space), n) not in self._seen]
        self._seen.update((id(space), name) for name in names)
        if names and id(space) not in self._spaces:
            self._spaces[id(space)] = self._hold(0, space, _itself, space)
        holder = self._spaces.get(id(space), 0)
        for name in names:
            self._add(holder, name, None, space[name], name)
        holder = self._hold(0, weakref.ref(fn), _referent, fn)
        for i, (name, cell) in enumerate(cells_of(fn)):
            if is_bound(cell):
                self._add(holder, i, _captured, cell.cell_contents, name)
        defaults = fn.__defaults__ or ()
        for i, name in enumerate(_names(fn)[len(_names(fn)) - len(defaults) :]):
            self._add(holder, i, _default, defaults[i], name)
        for name, value in (fn.__kwdefaults__ or {}).items():
            self._add(holder, name, _keyword_default, value, name)

    def _note_wrapper(self, wrapper: Any) -> None:
        """Note that a wrapper of a library counts the runs, as `chex.assert_max_traces` does."""
        if isinstance(wrapper, types.FunctionType) and not _is_of_jax(wrapper):
            code = code_of(wrapper)
            self.has_effects |= code.changes_objects or code.changes_variables

    def _add(
        self, source: int, key: Any, get: Any, value: Any, path: str, is_root: bool = False
    ) -> None:
        """Add a value, and all in it that the functions may read."""
        if len(self._steps) >= _MAX_STEPS or self._depth > _MAX_NESTING:
            return
        self._depth += 1
        with contextlib.suppress(Exception):  # an attribute of the user's
            self._add_value(source, key, get, value, path, is_root)
        self._depth -= 1

    def _add_value(
        self, source: int, key: Any, get: Any, value: Any, path: str, is_root: bool
    ) -> None:
        kind = type(value)
        if isinstance(value, (*_PLAIN, np.generic, np.dtype, enum.Enum)):
            self._step(source, key, get, VALUE, value, path)
        elif isinstance(value, np.ndarray):
            self._texts[len(self._steps)] = _text(value)
            self._step(source, key, get, *_array(value), path)
        elif isinstance(value, dict | list | tuple | collections.deque):
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            self._add_items(self._hold(source, key, get, value, path), value, path)
        elif isinstance(value, jax.core.Tracer):
            return
        elif isinstance(value, types.ModuleType):
            if not is_library_module(value):
                found = {name: vars(value)[name] for name in self._names & vars(value).keys()}
                self._add_named(0, vars(value), _itself, vars(value), found, path)
        else:
            with contextlib.suppress(TypeError):  # it takes no weak reference
                reference = weakref.ref(value)
                self._texts[len(self._steps)] = _text(value)
                if not is_root:
                    self._step(source, key, get, _is_another, reference, path)
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            if isinstance(value, type):
                if not (is_library_class(value) or issubclass(value, enum.Enum)):
                    self._add_class(self._hold(source, key, get, value), value, value, path)
            elif isinstance(value, _CALLABLES) or attribute(value, "__wrapped__") is not None:
                self._add_callable(value)
            elif not kind.__module__.startswith(("jax", "numpy", "builtins.")):
                self._add_instance(source, key, get, value, path)

    def _add_items(self, holder: int, value: Any, path: str) -> None:
        self._step(holder, None, _length, VALUE, len(value), f"len({path})")
        items = value.items() if isinstance(value, dict) else enumerate(value)
        fields = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
        if fields and not self._names.isdisjoint(fields):
            items = [(i, item) for i, item in items if fields[i] in self._names]
        for _, (key, item) in zip(range(_MAX_ITEMS), [*items], strict=False):
            if isinstance(key, _PLAIN) or isinstance(key, enum.Enum):
                name = f".{fields[key]}" if fields else f"[{key!r}]"
                self._add(holder, key, None, item, path + name)

    def _add_instance(self, source: int, key: Any, get: Any, value: Any, path: str) -> None:
        holder = self._hold(source, key, get, value)
        own = getattr(value, "__dict__", {})
        # Such an object may find its attributes anywhere in what it holds.
        names = own.keys() if hasattr(type(value), "__getattr__") else self._names & own.keys()
        if names:
            found = {name: own[name] for name in sorted(names)}
            self._add_named(holder, None, _attributes, own, found, path)
        self._add_class(holder, type(value), value, path)

    def _add_class(self, holder: int, cls: type, value: Any, path: str) -> None:
        """Add the attributes of a user's class, and what its methods read."""
        for inner in _functions_of(cls, self._names):
            self._add_callable(inner)
        known = {*(getattr(value, "__dict__", {}) if value is not cls else ())}
        for each in _users_classes(cls):
            names = sorted(self._names & vars(each).keys() - known)
            known.update(names)
            for name in names:
                found = vars(each)[name]
                if isinstance(found, types.MemberDescriptorType) and value is not cls:
                    found = getattr(value, name)
                if not hasattr(type(found), "__get__"):
                    self._add(holder, name, _looked_up, found, f"{path}.{name}")

    def _add_named(
        self, source: int, key: Any, get: Any, namespace: dict, found: dict, path: str
    ) -> None:
        holder = self._hold(source, key, get, namespace)
        for name, value in found.items():
            self._add(holder, name, None, value, f"{path}.{name}")


_PLAIN = (bool, int, float, complex, str, bytes, type(None), slice, range, type(...))
_NO_OBJECTS = (*_PLAIN, jax.Array, np.ndarray, np.generic)
_CALLABLES = (
    *(types.FunctionType, types.MethodType, functools.partial, type(jax.jit(len))),
    *(jax.custom_jvp, jax.custom_vjp),
)
_CALLED = ("__call__", "__getitem__", "__getattr__")
# What takes the next of something, or writes: a second run of the function would take another.
_CONSUMERS = frozenset(("next", "send", "write", "put", "put_nowait"))


def _referent(_: Any, reference: Any) -> Any:
    return reference()


def _itself(_: Any, value: Any) -> Any:
    return value


def _attributes(value: Any, _: Any) -> Any:
    return value.__dict__


def _length(value: Any, _: Any) -> int:
    return len(value)


def _argument(partial: Any, i: int) -> Any:
    return partial.args[i]


def _keyword(partial: Any, name: str) -> Any:
    return partial.keywords[name]


def _default(function: Any, i: int) -> Any:
    return function.__defaults__[i]


def _keyword_default(function: Any, name: str) -> Any:
    return function.__kwdefaults__[name]


def _captured(function: Any, i: int) -> Any:
    return function.__closure__[i].cell_contents


def _looked_up(owner: Any, name: str) -> Any:
    """Return an attribute without running code of the user's."""
    own = getattr(owner, "__dict__", {})
    if not isinstance(owner, type) and name in own:
        return own[name]
    for each in (owner if isinstance(owner, type) else type(owner)).__mro__:
        if name in vars(each):
            found = vars(each)[name]
            is_slot = isinstance(found, types.MemberDescriptorType)
            return found.__get__(owner) if is_slot else found
    return _GONE


def _is_another(value: Any, reference: Any) -> bool:
    return reference() is not value


def _is_equal(value: Any, expected: Any) -> bool:
    # By the text of a number, since 0.0 == -0.0, and nan equals nothing.
    return type(value) is type(expected) and repr(value) == repr(expected)


def _array(value: np.ndarray) -> tuple[_Check, Any]:
    """Return how a NumPy array is compared, and with what."""
    if value.nbytes <= _MAX_BYTES:
        return _is_other_array, (value.dtype, value.shape, value.tobytes())
    return _LargeArray(value).has_changed, None


def _is_other_array(value: Any, expected: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and (value.dtype, value.shape) == expected[:2]
    return not (is_array and value.tobytes() == expected[2])


class _LargeArray:
    """Compares an array at calls 1, 2, 4, 8 and so on: a megabyte takes 1 ms."""

    def __init__(self, value: np.ndarray) -> None:
        self._digest, self._calls, self._result = _digest(value), 0, False
        self._last: Any = weakref.ref(value)

    def has_changed(self, value: Any, _: Any) -> bool:
        self._calls += 1
        if value is not self._last() or self._calls & (self._calls - 1) == 0:
            self._result = not isinstance(value, np.ndarray) or _digest(value) != self._digest
            self._last = weakref.ref(value)
        return self._result


def _digest(value: np.ndarray) -> Any:
    return value.dtype, value.shape, hashlib.blake2b(np.ascontiguousarray(value)).digest()


def _users_classes(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if not (each is object or is_library_class(each))]


def _functions_of(cls: type, names: set[str]) -> Iterator[Any]:
    """Yield the functions of a user's class that have one of the names, or that Python calls."""
    for each in _users_classes(cls):
        for name, found in list(vars(each).items()):
            if name in names or name in _CALLED:
                if isinstance(found, staticmethod | classmethod):
                    yield found.__func__
                elif isinstance(found, property):
                    yield found.fget
                elif isinstance(found, functools.cached_property):
                    yield found.func
                elif isinstance(found, _CALLABLES) or hasattr(found, "__wrapped__"):
                    yield found


def _names(fn: Any) -> tuple[str, ...]:
    code = attribute(fn, "__code__")
    return code.co_varnames[: code.co_argcount] if isinstance(code, types.CodeType) else ()


def _is_of_jax(function: types.FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).startswith("jax.")


def _is_impure(fn: types.FunctionType) -> bool:
    """Return True if a function names something that gives another value each time, or writes."""
    code, space = code_of(fn), fn.__globals__
    for path in code.paths:
        if not path or path[0] not in code.globals:
            continue
        value, module = space.get(path[0], vars(builtins).get(path[0])), None
        for name in path[1:]:
            if isinstance(value, types.ModuleType):
                value, module = getattr(value, name, None), value
        if value is not None and not isinstance(value, types.ModuleType):
            if impure_name(value, module) is not None:
                return True
    return False


def _text(value: Any) -> str:
    if value is _GONE:
        return "gone"
    if isinstance(value, np.ndarray) and value.size <= 8:
        return f"array({np.array2string(value, separator=', ')}, {value.dtype})"
    place = place_of(value) if isinstance(value, types.FunctionType) else None
    return shortened(text_of(value)) + (f" ({place})" if place else "")


# --- what is reported -----------------------------------------------------------------------------


@attrs.frozen
class ReadValue:
    """A value that a program has, and that has changed."""

    path: str
    before: str
    after: str
    place: str | None  # where it is read

    def __str__(self) -> str:
        change = f"was {self.before} when it was traced, and is {self.after} now"
        return f"{self.path} {change}" + (f" (read in {self.place})" if self.place else "")


@attrs.define(eq=False)
class StaleRead:
    """A cached program that went on with an old value."""

    function: str
    place: str | None
    values: tuple[ReadValue, ...]
    since: int  # the call of the function, counted in the block
    is_confirmed: bool  # False if the function has effects, and so was not traced again
    calls: int = 1

    def lines(self) -> list[str]:
        """Return the report."""
        names = [value.path for value in self.values]
        again = "traced again now, it gives another program"
        if not self.is_confirmed:
            again = "unconfirmed: it changes or reads what is outside, so it was not traced again"
        return [
            f"{self.function} goes on with an old value, since call {self.since}:",
            *(f"  {value}" for value in self.values),
            f"  {_counted(self.calls)} since; {again}",
            f"  hint: pass {' and '.join(names)} to {self.function} as an argument",
        ]


def _counted(calls: int) -> str:
    return "1 cached call" if calls == 1 else f"{calls} cached calls"


def _place(codes: dict[types.CodeType, None], path: str) -> str | None:
    """Return where a value is read: in which function, and at which line."""
    names = re.findall(r"(?<![\w'\"])[A-Za-z_]\w*", re.sub(r"\[.*?\]|^len\(|\)$", "", path))
    for code in codes:
        for inner in (code, *(c for c in code.co_consts if isinstance(c, types.CodeType))):
            for instruction in dis.get_instructions(inner):
                line = instruction.positions and instruction.positions.lineno
                if (
                    instruction.argval == names[-1]
                    and instruction.opname.startswith("LOAD")
                    and line
                ):
                    return f"{code.co_name} at {place_of_line(code.co_filename, line)}"
    return None


# --- what has been traced -------------------------------------------------------------------------


class _Program:
    """A cached program, with what its function read when it was traced."""

    def __init__(self, jaxpr: Any, reads: Reads, has_effects: bool) -> None:
        self._jaxpr = weakref.ref(jaxpr)
        # When it was traced, and when it was last compared.
        self._first = self.reads = reads
        self._has_effects = reads.has_effects or has_effects
        self._ignored: set[str] = set()
        self.objects: tuple[int, ...] = ()  # among the arguments of the trace
        self.active: StaleRead | None = None  # what its calls are now
        self._latest: Any = None  # the program that it should be now
        self._due: dict[str, int] = {}  # the call at which a value is looked at again
        self._before: dict[str, str] = {}

    def after_trace(self) -> None:
        """Leave out what the trace itself has changed, such as a counter of traces."""
        self._ignored = {*self.reads.changes()}
        if self._ignored:
            self._has_effects = True
            self._first = self.reads = self.reads.now()

    def check(self, function: Any, call: int, retrace: Callable[[], Retrace]) -> StaleRead | None:
        """Compare what is read now, and return a new report."""
        found = None
        if self.reads.differ():
            changes = {p: t for p, t in self.reads.changes().items() if p not in self._ignored}
            if not changes and self.reads.differ():  # of something that nobody has any more
                self.reads = self.reads.now()
            elif changes:
                found = self._check(changes, function, call, retrace)
        if found is None and self.active is not None:
            self.active.calls += 1
        return found

    def _check(
        self,
        changes: dict[str, tuple[str, str]],
        function: Any,
        call: int,
        retrace: Callable[[], Retrace],
    ) -> StaleRead | None:
        for path, (before, _) in changes.items():
            self._before.setdefault(path, before)
        if self._first is not self.reads and not self._first.changes():
            self.reads, self.active, self._latest = self._first, None, None
            return None
        if not any(call >= self._due.get(path, 0) for path in changes):
            return None
        verdict = self._verdict(retrace)
        # What has changed before without an effect is not the cause.
        new = {path for path in changes if path not in self._due} or {*changes}
        self._due.update((path, 2 * call) for path in changes)
        self.reads = self.reads.now()
        if verdict != "stale":
            self.active = None if verdict == "fresh" else self.active
            return None
        values = [
            ReadValue(path, self._before[path], after, _place(self.reads.codes, path))
            for path, (_, after) in changes.items()
            if path in new
        ]
        place = place_of(innermost(function))
        self.active = StaleRead(
            *(name_of(function), place, tuple(values), call, not self._has_effects)
        )
        return self.active

    def _verdict(self, retrace: Callable[[], Retrace]) -> Literal["stale", "fresh", "unknown"]:
        if self._has_effects:
            return "stale" if self.active is None else "unknown"
        try:
            again = retrace()
            cached = self._jaxpr() or again.cached()
            with _silent():
                now = again.afresh()
                if is_same_program(now, cached):
                    self._latest = None
                    return "fresh"
                if self._latest is not None and is_same_program(now, self._latest):
                    return "unknown"
                if not is_same_program(now, again.afresh()):
                    return "unknown"
        except Exception:  # the function fails now
            return "unknown"
        self._latest = now
        return "stale"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let this thread print nothing inside the block."""
    with contextlib.redirect_stdout(_Others(sys.stdout)):
        yield


class _Others(io.TextIOBase):
    """Writes what other threads print."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str) -> int:
        is_own = threading.get_ident() == self._thread
        return len(text) if is_own else self._stream.write(text)


@attrs.define(eq=False)
class _Function:
    """The programs of a function."""

    is_followed: bool  # False for those of libraries
    stands_for_others: bool = False
    calls: int = 0
    programs: list[_Program] = attrs.field(factory=list)
    by_jaxpr: WeakIdMap[_Program] = attrs.field(factory=WeakIdMap)

    def add(self, jaxpr: Any, program: _Program) -> _Program:
        self.by_jaxpr.set(jaxpr, program)
        self.programs = [*self.programs[1 - _MAX_PROGRAMS :], program]
        return program


_MAX_PROGRAMS = 16  # of a function


class StaleWatch:
    """Compares what functions read, and calls `on_report` with each stale read.

    **Arguments:**

    - `on_report`: may raise; then the call raises.
    - `on_problem`: is called with what failed in canonopt itself.
    - `thread`: the thread to watch, or None for all.
    """

    def __init__(
        self,
        on_report: Callable[[StaleRead], None],
        on_problem: Callable[[str], Any],
        thread: int | None,
    ) -> None:
        self._on_report, self._on_problem, self.thread = on_report, on_problem, thread
        self._lock = threading.RLock()
        self._functions: WeakIdMap[_Function] = WeakIdMap()
        self._programs: WeakIdMap[_Program] = WeakIdMap()  # by jaxpr

    def known(self, function: Any) -> _Function:
        found = self._functions.get(function)
        if found is None:
            found = _Function(_is_of_user(function), stands_for_others(function))
            with contextlib.suppress(TypeError):
                self._functions.set(function, found)
        return found

    def on_hit(self, jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        function = jitted.__wrapped__
        known = self.known(function)
        if known.stands_for_others:
            function = function_of_hit(jitted, args)
            known = self.known(function)
        if not known.is_followed:
            return
        known.calls += 1
        programs = known.programs
        for program in programs:
            if program.active is not None or program.reads.differ():
                break
        else:
            if programs:
                return
        report = None
        with self._noting_problems(), self._lock:
            again = functools.partial(retrace_of_hit, jitted, args, kwargs)
            if len(programs) == 1:
                program = programs[0]
            else:
                jaxpr = again().cached()
                program = known.by_jaxpr.get(jaxpr)
                if program is None and function is jitted.__wrapped__:
                    if program := self._programs.get(jaxpr):  # of an equal method
                        known.add(jaxpr, program)
                if program is None:
                    users, args, kwargs = users_call_of_hit(jitted, args, kwargs)
                    reads = Reads.of_call(users, args, kwargs)
                    program = _Program(jaxpr, reads, reads.may_change_objects)
                    known.add(jaxpr, program)
            report = program.check(function, known.calls, again)
        if report is not None:
            self._on_report(report)

    def enter(self, miss: Miss) -> Any:
        with self._noting_problems():
            function = function_of_miss(miss)
            known = self.known(function)
            if known.is_followed:
                call = miss.function, miss.args, miss.kwargs
                objects = _objects_in(*call[1:])
                reads = (p.reads for p in known.programs if p.objects == objects)
                same = next((each for each in reads if not each.differ()), None)
                return miss, function, known, same or Reads.of_call(*call), objects
        return None

    def leave(self, entered: Any, traced: bool, jaxpr: Any) -> None:
        if entered is None or jaxpr is None:
            return
        miss, function, known, reads, objects = entered
        report = None
        with self._noting_problems(), self._lock:
            known.calls += miss.is_call
            program = known.by_jaxpr.get(jaxpr)
            if program is None and not traced and not miss.is_shared:
                program = self._programs.get(jaxpr)  # of an equal method
            if program is None:
                program = _Program(jaxpr, reads, not traced and reads.may_change_objects)
                program.objects = objects
                if traced:
                    program.after_trace()
            if known.by_jaxpr.get(jaxpr) is None:
                known.add(jaxpr, program)
                self._programs.set(jaxpr, program)
            if not traced:
                again = functools.partial(retrace_of_miss, miss)
                report = program.check(function, known.calls, again)
        if report is not None:
            self._on_report(report)

    @contextlib.contextmanager
    def _noting_problems(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._on_problem(f"{type(error).__name__}: {error}")


def _objects_in(args: tuple, kwargs: dict[str, Any]) -> tuple[int, ...]:
    """Return the identities of the arguments that JAX compares as a whole."""
    values = (*args, *kwargs.values())
    objects = (each for each in values if not isinstance(each, _NO_OBJECTS))
    return tuple(id(each) for each in objects if jax.tree_util.all_leaves((each,)))


def _is_of_user(function: Any) -> bool:
    """Return True if a function is the user's, or calls one of the user's."""
    if stands_for_others(function):
        return True
    for inner in functions_inside(getattr(function, "__func__", function)):
        if isinstance(inner, types.FunctionType):
            if not is_library_function(inner):
                return True
        elif not (isinstance(inner, _CALLABLES) or is_library_class(type(inner))):
            return True
    return False


# --- listening ------------------------------------------------------------------------------------

_watches: list[StaleWatch] = []


def _here() -> list[StaleWatch]:
    thread = threading.get_ident()
    return [each for each in _watches if each.thread is None or each.thread == thread]


def _on_hit(jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    for each in _watches:
        if each.thread is None or each.thread == threading.get_ident():
            each.on_hit(jitted, args, kwargs)


def _enter(miss: Miss) -> list[tuple[StaleWatch, Any]]:
    return [(each, each.enter(miss)) for each in _here()]


def _leave(entered: list[tuple[StaleWatch, Any]], traced: bool, jaxpr: Any) -> None:
    for each, token in entered:
        each.leave(token, traced, jaxpr)


def _passes(function: Any) -> bool:
    return not any(each.known(function).is_followed for each in _here())


@functools.cache  # if it raises, the next use checks again
def _listeners() -> tuple[HitWatch, MissWatch]:
    return HitWatch(_on_hit), MissWatch(_enter, _leave, _passes)


@contextlib.contextmanager
def watching(
    on_report: Callable[[StaleRead], None],
    on_problem: Callable[[str], Any],
    all_threads: bool = False,
) -> Iterator[None]:
    """Watch for stale reads inside the block."""
    hits, misses = _listeners()
    watch = StaleWatch(on_report, on_problem, None if all_threads else threading.get_ident())
    _watches.append(watch)
    if len(_watches) == 1:
        misses.start()
    hits.start(all_threads)
    try:
        yield
    finally:
        _watches.remove(watch)
        hits.stop(all_threads)
        if not _watches:
            misses.stop()


@contextlib.contextmanager
def assert_not_stale(*, all_threads: bool = False) -> Iterator[None]:
    """Raise in a cached call that goes on with a value that has changed since it was traced.

    A jitted function reads its globals, captured variables and attributes when it is traced. A
    cached call has the values from then, whatever they are now, and says nothing.

    ```python
    >>> import canonopt, jax, types
    >>> runtime = types.SimpleNamespace(weight=1.0)
    >>> @jax.jit
    ... def loss(x):
    ...     return runtime.weight * x
    >>> with canonopt.assert_not_stale():
    ...     _ = loss(2.0)
    ...     runtime.weight = 5.0
    ...     loss(2.0)
    Traceback (most recent call last):
        ...
    canonopt.errors.StaleReadError: loss goes on with an old value, since call 2:
      runtime.weight was 1.0 when it was traced, and is 5.0 now (read in loss at ...)
      1 cached call since; traced again now, it gives another program
      hint: pass runtime.weight to loss as an argument

    ```

    What a function and the functions of yours that it calls read is found by the names in their
    code. Where one has another value, the function is traced again, apart from JAX's caches. If
    that gives the same program, nothing is raised. A function that has effects (it counts its runs,
    reads a file) is not traced again, and raises nothing; `compile_log(stale=True)` reports it as
    unconfirmed. A function that was traced before the block is compared with what it read at its
    first call in the block.

    The program has run when this raises, and its result is lost, also if arguments were donated.

    **Arguments:**

    - `all_threads`: whether to watch what other threads call in the meantime, too.

    **Raises:** `StaleReadError`, an `AssertionError`, in the call. `UnsupportedVersionError` at the
    start if JAX has changed so that canonopt cannot see cached calls.
    """

    def fail(report: StaleRead) -> None:
        if report.is_confirmed:
            first, *rest, hint = report.lines()
            value = report.values[0]
            raise StaleReadError(
                "\n".join((first, *rest)),
                hint,
                path=value.path,
                before=value.before,
                after=value.after,
            )

    problems: list[str] = []
    with watching(fail, problems.append, all_threads):
        yield
    if problems:
        raise RuntimeError(f"canonopt failed to look for stale reads: {problems[0]}")
