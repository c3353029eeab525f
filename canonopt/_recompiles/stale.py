"""Find cached programs that still use a value that has changed since the trace.

JAX looks at the arguments of a call, not at what else the function reads: globals, captured
variables, attributes, items of containers. `Reads` notes these values, by name, when a function is
traced. After a cached call, `StaleWatch` compares them. If a value differs, the function is traced
again, without JAX's caches. A change is reported only if the new trace gives another program. If
the function has effects, it is not traced again, and the change is reported as unconfirmed.
"""

import collections
import contextlib
import dis
import enum
import functools
import hashlib
import itertools
import logging
import operator
import re
import threading
import time
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

import attrs
import jax
import jax.core
import numpy as np

from .._identity import Reading, all_inside, read
from .._jax_internals.functions import functions_inside, innermost, name_of, users_function
from .._jax_internals.jaxprs import CachedCall, is_same_program
from .._jax_internals.tracing import is_unwatched
from .._jax_internals.watching import Miss, function_called, hits, misses, users_call
from .._python_internals.bytecode import code_of, nested_in
from .._python_internals.callers import place_of, place_of_line
from .._python_internals.libraries import (
    attribute,
    is_library_class,
    is_library_function,
    is_library_module,
)
from .._python_internals.namespaces import is_mock, loaded
from .._python_internals.weak import WeakIdMap
from .._texts import PLAIN, is_gradient_transformation, text_of
from ..errors import (
    CACHE,
    FINDS,
    IDENTITY_TEST,
    INNER_JIT,
    UNKNOWN_JIT,
    CanonoptError,
    StaleReadError,
)
from .differences import listed, shortened
from .records import reading_of
from .rules import MOST

# --- what a function reads ------------------------------------------------------------------------

_MAX_READS = 400  # maximum number of values that a call compares; that many take 60 us
_MAX_ITEMS = 64  # maximum number of items of a container
_MAX_BYTES = 1 << 16  # the largest array that is compared at each call

_Find: TypeAlias = Callable[[], Any]
_Get: TypeAlias = Callable[[Any], Any]  # returns a part of its argument
_IsSame: TypeAlias = Callable[[Any], bool]
# Maps the path of a value to its text before, its text now, and the value now.
Changes: TypeAlias = dict[str, tuple[str, str, Any]]


def reads_of_call(function: Any, args: tuple, kwargs: dict[str, Any]) -> "Reads":
    """Return the values that a call would read now, besides its arguments."""
    is_partial = isinstance(function, functools.partial)
    names = _names(function.func)[len(function.args) :] if is_partial else _names(function)
    roots: list[tuple[Any, str]] = [(function, "self")]
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        leaves, structure = jax.tree.flatten(value)
        structures = [structure]
        for each in structures:  # the list grows by the children of each
            structures += each.children()
        nodes = [each.node_data() or (None, None) for each in structures]
        # JAX compares leaves and static data, but not what their functions and methods read.
        kinds = {*map(type, leaves), *(kind for kind, _ in nodes)}
        inside = _users_code([static for _, static in nodes])
        roots += ((each, name) for each in (*leaves, *kinds, *inside))
    return Reads(roots).now()


class Reads:
    """The values that a function, and the user's functions that it calls, read besides arguments.

    These are all values that names in the code may lead to, even if that code does not run. Each is
    found again through a module's namespace, which is kept alive, or through a weak reference.
    The list is flat, since each cached call compares all values: 0.1 to 0.3 us for one value.

    - `codes`: the code of these functions.
    - `has_effects`: whether the functions print, use a logger, or are wrapped by a library whose
        wrapper changes objects or variables. `reading_of` finds other effects.
    """

    def __init__(
        self,
        roots: Iterable[tuple[Any, str]],
        names: Iterable[str] = (),
        ignored: frozenset[str] = frozenset(),
        owners: Iterable[int] = (),
    ) -> None:
        self.codes: list[types.CodeType] = []
        self.has_effects = False
        # The attributes that code names, and names with "()" whose values code calls or passes on.
        self._names, self._ignored = set(names), ignored
        # For each value: a function that finds it, a function that compares it, its path and text.
        self._values: list[tuple[_Find, _IsSame, str, str]] = []
        # The functions, partials and objects from which other values are found, with their names.
        self._roots: list[tuple[weakref.ref[Any], str]] = []
        self._seen: set[object] = set()
        self._owners = set(owners)  # the ids of objects whose methods are called
        for value, path in roots:
            if _is_callable(value):
                self._add_callable(value)
            elif not isinstance(value, _WHOLE):
                self._add_root(value, path)
        for reference, path in self._roots:  # the list grows meanwhile
            self._add_parts(functools.partial(_referent, reference), reference(), path)
        del self._seen

    def now(self, ignored: Collection[str] = ()) -> "Reads":
        """Return the values that the same call would read now, without the paths in `ignored`."""
        paths = self._ignored.union(ignored)
        alive = [(v, path) for reference, path in self._roots if (v := reference()) is not None]
        found = Reads(alive, self._names, paths, self._owners)
        # A function found late may name attributes of objects that were read before: read again.
        return found if found._names == self._names else found.now()

    def differing(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the path of each value that differs now, its text before, and its value now."""
        for find, is_same, path, before in self._values:
            try:
                value = find()
                if is_same(value):
                    continue
            except ReferenceError:  # the object is gone, so nothing reads it
                continue
            except Exception:
                value = _GONE
            yield path, before, value

    def changes(self) -> Changes:
        """Return the values that differ now, with their texts, which take long to make."""
        found: Changes = {}
        for path, before, value in self.differing():
            after = "gone"
            if value is not _GONE:
                with contextlib.suppress(Exception):
                    after = _text(value)
            if after == before:
                is_array = isinstance(value, np.ndarray)
                after = f"{after}, other values" if is_array else f"another {after}"
            found[path] = before, after, value
        # If a part has changed, report the part, and not the object around it.
        leads = {p for p in found for o in found if o.startswith((f"{p}.", f"{p}["))}
        return {path: each for path, each in found.items() if path not in leads}

    def after_trace(self, changes: Changes) -> "Reads":
        """Return the values to compare later, without those that a trace has changed or made."""
        made = self.now(changes).paths() - self.paths()
        return self.now({*changes, *made})

    def paths(self) -> set[str]:
        return {path for *_, path, _ in self._values}

    def named(self, paths: Iterable[str]) -> list[str]:
        """Return `paths`, but leave out paths that end in a key (`['lr']`) which no code names."""
        keys = {path: _KEY.search(path) for path in paths}
        return [p for p, key in keys.items() if key is None or key[1] in self._names]

    def _add_callable(self, fn: Any) -> None:
        """Add the values that a callable reads when it is called."""
        for inner in functions_inside(fn):
            if isinstance(inner, types.FunctionType):
                self._add_function(inner, hasattr(inner, "__wrapped__"))
            elif isinstance(inner, types.MethodType):
                if inner not in self._seen:  # `__func__` may lead back to an equal method
                    self._seen.add(inner)
                    self._add_callable(inner.__func__)
                self._owners.add(id(inner.__self__))
                self._add_root(inner.__self__, next(iter(_names(inner.__func__)), "self"))
            elif isinstance(inner, jax.custom_jvp | jax.custom_vjp):
                for name in ("jvp", "fwd", "bwd"):
                    self._add_function(getattr(inner, name, None))
            elif isinstance(inner, functools.partial):
                self._add_root(inner)
            elif not (isinstance(inner, _CALLABLES) or hasattr(type(inner), "call_wrapped")):
                self._add_function(innermost(type(inner).__call__), hasattr(inner, "__wrapped__"))
                self._add_root(inner, "self")

    def _add_function(self, function: Any, is_wrapper: bool = False) -> None:
        if isinstance(function, types.FunctionType):
            # A library's wrapper may have effects, but wrappers of JAX and canonopt have none.
            is_pure = str(function.__globals__.get("__name__")).startswith(("jax.", "canonopt."))
            if (is_wrapper and not is_pure) or not is_library_function(function):
                self._add_root(function)
            else:
                self._add_code_in(function)

    def _add_code_in(self, value: Any) -> None:
        """Add the user's code in a library's object. The code of the library is not read."""
        for each in _users_code(value):
            self._add_root(each, each.__name__)

    def _add_root(self, value: Any, path: str = "") -> None:
        if ("root", id(value)) not in self._seen and len(self._roots) < _MAX_READS:
            with contextlib.suppress(TypeError):  # no weak reference to it is possible
                self._roots.append((weakref.ref(value), path))
                self._seen.add(("root", id(value)))

    def _add_parts(self, find: _Find, value: Any, path: str) -> None:
        """Add the parts of a value that the functions may read, and the parts of these parts."""
        for get, name in self._parts(value, path):
            self._add(lambda get=get: get(find()), name)
        # Of a container or a function, `_parts` has yielded all that code may read, up to a limit.
        is_followed = isinstance(value, _CONTAINERS | types.FunctionType | functools.partial)
        if not is_followed and is_library_class(type(value)):
            self._add_code_in(value)

    def _add(self, find: _Find, path: str) -> None:
        """Add the value that `find` returns. If it raises an error, add nothing."""
        with contextlib.suppress(Exception):
            if len(self._values) >= _MAX_READS:
                return
            value = find()
            if is_mock(value):
                return
            # Not `isinstance`, which reads `__class__` and so may run the user's code.
            self.has_effects |= issubclass(type(value), logging.Logger | logging.LoggerAdapter)
            if (is_same := _comparison(value)) is not None and path not in self._ignored:
                self._values.append((find, is_same, path, _text(value)))
            if id(value) not in self._seen and not isinstance(value, _WHOLE):
                self._seen.add(id(value))
                if is_gradient_transformation(value):  # it is compared as a whole
                    self._add_code_in(value)
                elif _is_callable(value):
                    self._add_callable(value)
                else:
                    self._add_parts(find, value, path)

    def _parts(self, value: Any, path: str) -> Iterator[tuple[_Get, str]]:
        """Yield a getter and the path of each part of `value` that code may read."""
        if isinstance(value, types.FunctionType):
            yield from self._read_by(value)
        if isinstance(value, types.FunctionType | functools.partial):
            for name in _bound(value):
                yield (lambda function, name=name: _bound(function)[name]), name
        elif isinstance(value, _CONTAINERS):
            yield len, f"len({path})"
            fields = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
            keys = value if isinstance(value, _MAPPINGS) else range(len(value))
            for key in [*itertools.islice(keys, _MAX_ITEMS)]:
                is_read = self._names.isdisjoint(fields) or fields[key] in self._names
                if is_read and isinstance(key, _PLAIN):
                    step = f".{fields[key]}" if fields else f"[{key!r}]"
                    yield operator.itemgetter(key), path + step
        elif isinstance(value, loaded("flax.nnx", "Variable")):
            yield operator.methodcaller("get_raw_value"), f"{path}[...]"
        elif isinstance(value, types.ModuleType):
            if not is_library_module(value):
                yield from self._attributes(value, path)
        elif not type(value).__module__.startswith(("jax", "numpy")):
            yield from self._attributes(value, path)

    def _read_by(self, function: types.FunctionType) -> Iterator[tuple[_Get, str]]:
        """Add the globals of a user's function; yield a getter and a name per captured variable."""
        code, space = code_of(function), function.__globals__
        if is_library_function(function):  # it may count runs: `eqx.debug.assert_max_traces` does
            self.has_effects |= bool(code.changes_objects or code.stores)
            return
        self.codes.append(function.__code__)
        self._names |= code.attributes | {f"{name}()" for name in code.passed}
        self.has_effects |= "print" in code.globals
        for name in code.globals:
            if name in space and (id(space), name) not in self._seen:
                self._seen.add((id(space), name))
                self._add(functools.partial(space.__getitem__, name), name)
        for i, name in enumerate(function.__code__.co_freevars):
            yield (lambda f, i=i: f.__closure__[i].cell_contents), name

    def _attributes(self, value: Any, path: str) -> Iterator[tuple[_Get, str]]:
        """Yield a getter and the path of each attribute that code may use; add what methods use."""
        cls = value if isinstance(value, type) else type(value)
        own = {} if value is cls else getattr(value, "__dict__", {})
        definer = next((each for each in cls.__mro__ if "__getattr__" in vars(each)), None)
        # A library's `__getattr__`, such as a config's, is called to find values. A user's is not
        # called, but may use any attribute of the object, so all attributes are read.
        is_asked = value is not cls and definer is not None and is_library_class(definer)
        names = {*own} if definer is not None and not is_asked else self._names & own.keys()
        if is_library_class(cls):  # Flax's code is not read, so add all variables of a layer
            variable = loaded("flax.nnx", "Variable")
            names |= {name for name, part in own.items() if isinstance(part, variable)}
        own_classes = [each for each in cls.__mro__ if not is_library_class(each)]
        # A method such as `trainer.step` need not call `trainer`, so leave out `__call__`. But if
        # the trainer has a base class of a library, the library may call the trainer.
        is_of_user = len(own_classes) == len(cls.__mro__) - 1
        is_called = not (id(value) in self._owners and is_of_user) or f"{path}()" in self._names
        special = {"__getitem__", "__getattr__"} | ({"__call__"} if is_called else set())
        for each in own_classes:
            names |= self._names & vars(each).keys()
            for name in (special | self._names) & {*vars(each)}:
                method = vars(each)[name]
                for inner in ("__func__", "fget", "func"):  # of a method or a property
                    method = getattr(method, inner, method)
                if _is_callable(method):
                    self._add_callable(method)
        for name in sorted(names):
            found = _looked_up(value, name)
            if name in own or not hasattr(type(found), "__get__"):
                yield functools.partial(_looked_up, name=name), f"{path}.{name}"
        for name in sorted(self._names - names) if is_asked else ():
            found = None
            with contextlib.suppress(Exception):
                found = getattr(value, name)
            if not (found is None or isinstance(found, types.MethodType)):
                yield operator.attrgetter(name), f"{path}.{name}"


_GONE = object()
_KEY = re.compile(r"\['(\w+)'\]$")
_PLAIN: Any = (*PLAIN, slice, range, type(...), np.generic, np.dtype, enum.Enum)
_MAPPINGS = dict | types.MappingProxyType | collections.UserDict | collections.ChainMap
_CONTAINERS = _MAPPINGS | list | tuple | collections.deque
_WHOLE: Any = (*_PLAIN, np.ndarray, set, frozenset, jax.Array)  # these have no parts to read
_CALLABLES = (
    *(types.FunctionType, types.MethodType, functools.partial, type(jax.jit(len))),
    *(jax.custom_jvp, jax.custom_vjp),
)


def _users_code(value: Any) -> list[Any]:
    """Return the user's functions and classes that can be reached from `value`.

    For example, the `GraphDef` of a Flax NNX model holds the class of the model.
    """
    return [
        each
        for each in all_inside(value)
        if (isinstance(each, types.FunctionType) and not is_library_function(each))
        or (isinstance(each, type) and not is_library_class(each))
    ]


def _is_callable(value: Any) -> bool:
    return isinstance(value, _CALLABLES) or attribute(value, "__wrapped__") is not None


def _names(fn: Any) -> tuple[str, ...]:
    """Return the names of the positional parameters of a function, without a bound `self`."""
    code, is_bound = attribute(innermost(fn), "__code__"), isinstance(fn, types.MethodType)
    return code.co_varnames[is_bound : code.co_argcount] if isinstance(code, types.CodeType) else ()


def _is_impure(reading: Reading) -> bool:
    """Return True if code that canonopt cannot read or compare may have effects."""
    for each in reading.incomparable[: reading.stops]:
        if each.why == CACHE.why:
            if not read(now=(each.part.__wrapped__,)).is_comparable:
                return True
        elif each.why not in _HARMLESS and not isinstance(each.part, np.ndarray):
            return True
    return False


# These reasons keep a function from sharing a program, but do not mean that it has effects.
_HARMLESS = [each.why for each in (FINDS, IDENTITY_TEST, INNER_JIT, UNKNOWN_JIT)]


def _words(reading: Reading) -> list[Any]:
    """Return the items of a reading's key, except each `object()`, which equals only itself."""
    return [word for word in reading.key if type(word) is not object]


# --- finding values -------------------------------------------------------------------------------


def _referent(reference: Any) -> Any:
    if (value := reference()) is None:
        raise ReferenceError
    return value


def _bound(fn: Any) -> dict[str, Any]:
    """Return the arguments of a partial or the defaults of a function, by name."""
    if isinstance(fn, functools.partial):
        return {**dict(zip(_names(fn.func), fn.args, strict=False)), **fn.keywords}
    defaults, code = fn.__defaults__ or (), fn.__code__
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(names, defaults, strict=True)), **(fn.__kwdefaults__ or {})}


def _looked_up(owner: Any, name: str) -> Any:
    """Return an attribute without running the user's code."""
    try:  # `contextlib.suppress` would take longer
        return owner.__dict__[name]
    except (AttributeError, KeyError):
        pass
    is_class = isinstance(owner, type)
    # `inspect.getattr_static` would take 5 us.
    for each in (owner if is_class else type(owner)).__mro__:
        if name in vars(each):
            found = vars(each)[name]
            is_slot = isinstance(found, types.MemberDescriptorType) and not is_class
            return found.__get__(owner) if is_slot else found
    raise AttributeError(name)


# --- comparing values -----------------------------------------------------------------------------


def _comparison(value: Any) -> _IsSame | None:
    """Return a function that tells if its argument is the same as `value`; None to skip `value`."""
    if isinstance(value, _PLAIN):
        # The text of a number is compared, since 0.0 == -0.0 and nan != nan.
        kind, text = type(value), repr(value)
        return lambda found: found is value or (type(found) is kind and repr(found) == text)
    if isinstance(value, np.ndarray):
        return _same_array(value)
    if isinstance(value, set | frozenset):
        known = frozenset(value)
        # The result is `NotImplemented` for a value that is no set.
        return (lambda found: known.__eq__(found) is True) if len(known) <= _MAX_ITEMS else None
    if isinstance(value, types.ModuleType | jax.core.Tracer):
        return None
    is_transformation = is_gradient_transformation(value)  # a tuple has no weak reference
    try:
        reference = weakref.ref(value.update if is_transformation else value)
    except TypeError:  # the class allows no weak references
        return None
    if is_transformation:
        return lambda found: getattr(found, "update", reference) is reference()
    return lambda found: found is not None and found is reference()


def _same_array(before: np.ndarray) -> _IsSame:
    """Return a comparison with `before`. It reads large arrays (1 ms a MB) at calls 1, 2, 4, ..."""
    content, is_same_now, calls = _content(before), True, 0

    def is_same(value: Any) -> bool:
        nonlocal is_same_now, calls
        calls += 1
        is_array = isinstance(value, np.ndarray)
        if not is_array or value.nbytes <= _MAX_BYTES or calls & (calls - 1) == 0:
            is_same_now = is_array and _content(value) == content
        return is_same_now

    return is_same


def _content(value: np.ndarray) -> tuple[Any, ...]:
    data = value.tobytes()
    is_small = value.nbytes <= _MAX_BYTES
    return value.dtype, value.shape, data if is_small else hashlib.blake2b(data).digest()


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):  # show its own dtype, which JAX may convert
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    place = place_of(value) if isinstance(value, types.FunctionType) else None
    return shortened(text_of(value)) + (f" ({place})" if place else "")


# --- what is reported -----------------------------------------------------------------------------


_AT_TRACE, _AT_CALL = "when it was traced", "at the first watched call"


@attrs.frozen
class ReadValue:
    """A value that a program was traced with, and that has changed since."""

    path: str
    before: str
    after: str
    place: str | None  # where it is read
    when: str = _AT_TRACE  # when it had the value `before`

    def __str__(self) -> str:
        change = f"was {self.before} {self.when}, and is {self.after} now"
        return f"{self.path} {change}" + (f" (read in {self.place})" if self.place else "")


@attrs.define(eq=False)
class StaleRead:
    """The report on a cached program that used an old value."""

    function: str
    place: str | None
    values: tuple[ReadValue, ...]
    since: int  # which call in the block is the first with the old value, counted from 1
    is_confirmed: bool  # False if the function has effects, and so was not traced again
    is_filtered: bool = False  # True for `filter_jit`: Python numbers are static there
    calls: int = 1

    def lines(self) -> list[str]:
        """Return the lines of the report, with a hint in the last line."""
        names = [re.sub(r"^len\((.*)\)$", r"\1", value.path) for value in self.values]
        more = len(names) - MOST
        if more > 0 and all(_ARRAY.fullmatch(value.after) for value in self.values):
            names = [*dict.fromkeys(name.partition("[")[0] for name in names)]  # name the pytrees
        calls = "1 cached call" if self.calls == 1 else f"{self.calls} cached calls"
        again = "a new trace gives another program"
        if not self.is_confirmed:
            again = "unconfirmed: the function has effects or reads outside state, so it was not "
            again += "traced again"
        if self.is_filtered:
            both = zip(names, self.values, strict=False)
            names = [f"jnp.asarray({n})" if _FLOAT.match(v.after) else n for n, v in both]
        whole = [v.after for v in self.values if not v.path.startswith("len(")]
        untraced = [after for after in whole if not _MAY_BE_TRACED.match(after)]
        is_one, static = len(names) == 1, ""
        if untraced and not self.is_filtered:
            static = ", which must be static for jax.jit"
            if any(map(_NUMBERS.match, untraced)):
                static = f", in {'an array' if is_one else 'arrays'} or as "
                static += f"{'a static argument' if is_one else 'static arguments'} of jax.jit"
            static += " (a tuple, not a list)" * any(text.startswith("[") for text in untraced)
        return [
            f"{self.function} goes on with an old value, since call {self.since}:",
            *(f"  {value}" for value in self.values[:MOST]),
            *[f"  and {more} more value{'s' if more > 1 else ''}"] * (more > 0),
            f"  {calls} since; {again}",
            f"  hint: {'' if self.is_confirmed else 'if the result depends on it, '}"
            f"pass {listed(names)} to {self.function} as "
            f"{'an argument' if is_one else 'arguments'}{static}",
        ]


_FLOAT = re.compile(r"(np\.float\d+\()?-?\d+(\.\d*|e)")
_ARRAY = re.compile(r"(another )?\w+\[[\d,]*\](, weak|, other values)*")
# Matches the text of a float, an array, a pytree with arrays, or a spec with a dynamic number.
_MAY_BE_TRACED = re.compile(
    rf"(another )?({_FLOAT.pattern}|[^'\"]*[a-z]\d+\[[\d,]*\]|canonopt.*canonopt\.dynamic\()"
)
_NUMBERS = re.compile(r"[\[(]?-?\d")


# The instructions that load an attribute, the key of an item and a variable.
_LOADS = {
    ".": ("LOAD_ATTR", "LOAD_METHOD"),
    "[": ("LOAD_CONST",),
    "": ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST"),
}


def _place(codes: list[types.CodeType], path: str) -> str | None:
    """Return where a value is read: in which function, and at which line."""
    inside = ((code, inner) for code in codes for inner in (code, *nested_in(code)))
    found = [(code, each) for code, inner in inside for each in dis.get_instructions(inner)]
    for step in reversed(re.findall(r"[A-Za-z_]\w*|\.\w+|\['\w+'\]", path)):
        # Find the last step of the path that code names: `'lr'` in `config['lr']`, else `config`.
        name = step.strip(".[']")
        loads = _LOADS.get(step[0], _LOADS[""])
        for code, each in found:
            line = each.positions and each.positions.lineno
            if line and each.argval == name and each.opname.startswith(loads):
                return f"{code.co_name} at {place_of_line(code.co_filename, line)}"
    return None


# --- what has been traced -------------------------------------------------------------------------


class _Program:
    """A cached program, with the values read at its trace and at the last check.

    If the trace was not watched, the values at the first watched call replace those at the trace.
    """

    def __init__(self, reads: Reads, has_effects: bool, when: str = _AT_TRACE) -> None:
        self.first = self.reads = reads
        self.has_effects, self.when = has_effects, when
        self.active: StaleRead | None = None  # the report that still applies, and counts calls
        self._harmless = set[str]()  # the paths whose changes gave the same program
        self._traced: Any = None  # the program of the trace that confirmed the report

    def check(
        self, function: Any, call: int, cached: CachedCall, may_trace: bool
    ) -> StaleRead | None:
        """Compare the values read now with those read before. Return the report if it is new."""
        changes = self.reads.changes()
        if self.active is not None:
            told = {value.path for value in self.active.values}
            if told.isdisjoint(changes):  # the values are again those at the trace
                self.active = self._traced = None
            else:
                self.active.calls += 1
                known = told | self._harmless
                changes = {path: each for path, each in changes.items() if path not in known}
        # If there is time to trace, check again values whose earlier changes did not matter.
        if not changes or (not may_trace and changes.keys() <= self._harmless):
            return None
        if self.active is None:
            self.reads = self.reads.now()
        causes = self._causes(cached, changes)
        # A value whose earlier changes did not matter is the cause only if there is no other.
        found = [path for path in causes if path not in self._harmless] or causes
        if self.active is not None or not causes:
            self._harmless.update(changes.keys() - causes)
        self._harmless.difference_update(found)
        if not found:
            return None
        since_trace = {**changes, **self.first.changes()}
        values = tuple(
            ReadValue(path, *since_trace[path][:2], _place(self.first.codes, path), self.when)
            for path in found
        )
        if self.active is not None:
            self.active.values += values
            return None
        *_, is_filtered = users_call(*cached.call)
        user = users_function(function)  # such as the function in a `jax.pmap`
        place = place_of(innermost(user))
        is_confirmed = not self.has_effects
        self.active = StaleRead(name_of(user), place, values, call, is_confirmed, is_filtered)
        self.reads = self.first  # compare with the values at the trace until they are back
        return self.active

    def _causes(self, call: CachedCall, changes: Changes) -> list[str]:
        """Return the changed paths if the function now gives another program, else an empty list.

        Two new traces must agree, and differ from the cached program or, after a report, from the
        trace that confirmed it. A function with effects is not traced: returns `Reads.named(...)`.
        """
        named = self.reads.named(changes)
        if self.has_effects:
            return named
        arrays = [value for *_, value in changes.values() if isinstance(value, np.ndarray)]
        try:
            before, now = self._traced or call.cached(), call.afresh()
            if is_same_program(now, before, arrays) or not is_same_program(now, call.afresh()):
                return []
        except KeyboardInterrupt:
            raise
        except BaseException:  # the function fails now, or exits Python
            return []
        self._traced = now
        return named or [*changes]


@attrs.define(eq=False)
class _Function:
    """A function that JAX calls, and its latest programs with weak references to their jaxprs."""

    is_followed: bool  # False for functions of libraries
    calls: int = 0
    programs: tuple[tuple[weakref.ref[Any], _Program], ...] = ()

    def add(self, jaxpr: Any, program: _Program) -> None:
        self.programs = (*self.programs[1 - _MAX_PROGRAMS :], (weakref.ref(jaxpr), program))


_MAX_PROGRAMS = 16  # maximum number of programs kept of a function
# The functions as the latest watch knows them, for a watch that begins after they were traced.
_latest: WeakIdMap[_Function] = WeakIdMap()


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of `StaleWatch` note its errors, and raise only a `StaleReadError`."""

    @functools.wraps(method)
    def noted(watch: "StaleWatch", *about: Any) -> Any:
        __tracebackhide__ = True
        try:
            return method(watch, *about)
        except StaleReadError:
            raise
        except Exception as error:
            watch.on_problem(f"{type(error).__name__}: {error}")

    return noted


# A trace may take seconds, and a value such as the epoch may change at each call. If earlier
# changes of a value did not matter, later ones are checked only while all checks of the watch have
# taken at most `_SECONDS`, plus `_SHARE` of the time since the watch was made.
_SECONDS, _SHARE = 2.0, 0.1


class StaleWatch:
    """A watch that compares what functions read, from `start` to `stop` or in a `with` block.

    **Arguments:**

    - `on_report`: a function that gets each stale read. If it raises a `StaleReadError`, so does
        the cached call.
    - `on_problem`: a function that gets the text of each error of canonopt itself.
    """

    def __init__(
        self, on_report: Callable[[StaleRead], None], on_problem: Callable[[str], Any]
    ) -> None:
        self._on_report, self.on_problem = on_report, on_problem
        self._lock = threading.RLock()
        self._started, self._spent = time.monotonic(), 0.0
        self._functions: WeakIdMap[_Function] = WeakIdMap()
        self._programs: WeakIdMap[_Program] = WeakIdMap()  # keyed by jaxpr

    def start(self) -> None:
        misses.check()
        hits.add(self.on_hit)
        misses.add(self.before_miss)

    def stop(self, *_: object) -> None:
        misses.remove(self.before_miss)
        hits.remove(self.on_hit)

    __enter__, __exit__ = start, stop

    def _known(self, function: Any) -> _Function:
        known = self._functions.get(function)
        if known is None:
            if (earlier := _latest.get(function)) is not None:
                # Each program begins with its first reads, and no report.
                both = ((j, _Program(p.first, p.has_effects, p.when)) for j, p in earlier.programs)
                known = _Function(earlier.is_followed, programs=(*both,))
            else:
                is_ours = attribute(function, "__call_of_user__") is not None
                known = _Function(is_ours or bool(reads_of_call(function, (), {}).codes))
            with contextlib.suppress(TypeError):
                self._functions.set(function, known)
                _latest.set(function, known)
        return known

    @_noting
    def on_hit(self, jitted: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Look for changes in what the function of a cached call reads."""
        __tracebackhide__ = True
        if (given := getattr(jitted, "__wrapped__", None)) is None:  # some functions of JAX lack it
            return
        function = function_called(given, args)
        known = self._known(function)
        if not known.is_followed:
            return
        known.calls += 1
        for _, program in known.programs:
            if program.active is not None or any(program.reads.differing()):
                break
        else:
            if known.programs:
                return
        if not is_unwatched():  # while canonopt traces a function again, calls in it are unwatched
            self.compare(known, function, CachedCall(jitted.trace, (given, args, kwargs)))

    def compare(self, known: _Function, function: Any, cached: CachedCall) -> None:
        """Compare what a call reads with the values of its cached program, and report a change."""
        __tracebackhide__ = True
        # If another thread traces a function again, do not wait for it: the traced code may wait
        # for this thread. The next call of this thread is compared.
        if not self._lock.acquire(blocking=False):
            return
        now = time.monotonic()
        may_trace = self._spent <= _SECONDS + _SHARE * (now - self._started)
        try:
            jaxpr = cached.jaxpr()
            program = next((each for found, each in known.programs if found() is jaxpr), None)
            if program is None:
                # Equal methods read the same values. Functions that share a program need not.
                program = None if cached.is_shared else self._programs.get(jaxpr)
                if program is None:
                    users = users_call(*cached.call)[:3]
                    reads, reading = reads_of_call(*users), reading_of(*users)
                    # The trace was not watched, so any store counts as an effect.
                    has_effects = reads.has_effects or bool(reading.stores) or _is_impure(reading)
                    program = _Program(reads, has_effects, _AT_CALL)
                known.add(jaxpr, program)
            report = program.check(function, known.calls, cached, may_trace)
        finally:
            self._spent += time.monotonic() - now
            self._lock.release()
        if report is not None:
            self._on_report(report)

    @_noting
    def before_miss(self, _: Any, find_miss: Callable[[], Miss]) -> Callable[..., None] | None:
        """Note what a function reads, and return `after_miss`; None if the function is ignored."""
        miss = find_miss()
        function = function_called(miss.jitted, miss.given[0])
        known = self._known(function)
        if not known.is_followed:
            return None
        call = miss.function, miss.args, miss.kwargs
        noted = function, known, miss, reads_of_call(*call), reading_of(*call)
        return functools.partial(self.after_miss, noted)

    @_noting
    def after_miss(self, noted: tuple[Any, ...], is_new: bool, jaxpr: Any) -> None:
        """Note a newly traced program, or `compare` what the call reads with an earlier program."""
        function, known, miss, reads, reading = noted
        if jaxpr is None:  # the trace has failed
            return
        known.calls += miss.is_call
        if is_new:
            has_effects = reads.has_effects or _is_impure(reading)
            if not has_effects:
                after = reading_of(miss.function, miss.args, miss.kwargs, reading)
                has_effects = _words(reading) != _words(after)
            if changes := reads.changes():  # the trace has changed them
                reads, has_effects = reads.after_trace(changes), True
            program = _Program(reads, has_effects)
            known.add(jaxpr, program)
            self._programs.set(jaxpr, program)
        else:
            options = {name: miss.options[name] for name in ("static_argnums", "static_argnames")}
            trace = jax.jit(miss.jitted, **options).trace
            self.compare(known, function, CachedCall(trace, (miss.jitted, *miss.given), jaxpr))


@contextlib.contextmanager
def assert_not_stale() -> Iterator[None]:
    """Raise an error in a cached call that uses a value which has changed since the trace.

    A jitted function reads its globals, captured variables and attributes when it is traced. Cached
    calls keep using these values, even after the values change, and JAX raises no error.

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
      1 cached call since; a new trace gives another program
      hint: pass runtime.weight to loss as an argument

    ```

    canonopt finds the values to compare by the names in the code of the function, and of your
    functions that it calls. If a value has changed, the function is traced again, without JAX's
    caches. If the trace gives the same program, no error is raised. A function with effects (it
    counts its runs, prints, or reads a file) is not traced again, and a change raises no error:
    `compile_log(stale=True)` reports it as unconfirmed. A function that was traced before the block
    is compared with the values that it read in an earlier block, or else at its first call in this
    block.

    All threads are watched. When the error is raised, the program has already run: its result is
    lost, and so are donated arguments.

    **Raises:** `StaleReadError`, an `AssertionError`, in the call. `UnsupportedVersionError` at the
    start if JAX or Equinox has changed so that canonopt cannot see calls. `CanonoptError` at the
    end if canonopt failed to compare the values of a call.
    """

    def fail(report: StaleRead) -> None:
        __tracebackhide__ = True
        if report.is_confirmed:
            first, *rest, hint = report.lines()
            value = report.values[0]
            facts = {"path": value.path, "before": value.before, "after": value.after}
            raise StaleReadError("\n".join((first, *rest)), hint, **facts)

    problems: list[str] = []
    with StaleWatch(fail, problems.append):
        yield
    if problems:
        raise CanonoptError(
            f"canonopt could not check for stale reads: {problems[0]}",
            "Write canonopt.compile_log(stale=True), which notes the failure and goes on.",
        )
