"""The values that a function reads besides its arguments, by name, to compare them later."""

import builtins
import contextlib
import enum
import functools
import hashlib
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

import jax
import jax.core
import numpy as np

from .._jax_internals import attribute, functions_inside, innermost
from .._python_internals import (
    captured_by,
    cells_of,
    code_of,
    impure_name,
    is_library_class,
    is_library_function,
    is_library_module,
)
from .._texts import place_of, shortened, text_of

_MAX_READS = 400  # of one call: 60 us
_MAX_ITEMS = 64  # of a container
_MAX_BYTES = 1 << 16  # of an array that is compared at each call

_Find: TypeAlias = Callable[[], Any]
_Get: TypeAlias = Callable[[Any], Any]  # of a part, from what has it
_IsSame: TypeAlias = Callable[[Any], bool]
# By path, the texts of a value before and now, and the value now.
Changes: TypeAlias = dict[str, tuple[str, str, Any]]


def reads_of_call(function: Any, args: tuple, kwargs: dict[str, Any]) -> "Reads":
    """Return what a call reads now."""
    names = _names(innermost(function))[isinstance(function, types.MethodType) :]
    roots: list[tuple[Any, str]] = [(function, "self")]
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        nodes: list[Any] = []
        leaves = jax.tree.leaves(value, is_leaf=lambda node, nodes=nodes: bool(nodes.append(node)))
        # The objects that JAX compares as a whole, and the classes of pytrees, for their methods.
        roots += ((each, name) for each in (*leaves, *{type(node) for node in nodes}))
    return Reads(roots).now()


class Reads:
    """The values that a function, and the user's functions that it calls, read besides arguments.

    These are all values that the names in their code may lead to, whatever runs. Each is found
    from the namespace of a module or from a weak reference, so nothing else is kept alive. They are
    a flat list, since each cached call compares them: 0.1 to 0.3 us for one.

    - `codes`: of these functions.
    - `has_effects`: whether running them again may change something, or give something else.
    - `may_change_objects`: whether they store into objects, which may be their own.
    """

    def __init__(
        self,
        roots: Iterable[tuple[Any, str]],
        names: Iterable[str] = (),
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self.codes: list[types.CodeType] = []
        self.has_effects = self.may_change_objects = False
        self._names, self._ignored = set(names), ignored  # of attributes; paths
        # How each value is found, how it is compared, its name and its text.
        self._values: list[tuple[_Find, _IsSame, str, str]] = []
        # The functions, partials, and objects that nothing else leads to, with their names.
        self._roots: list[tuple[weakref.ref[Any], str]] = []
        self._seen: set[object] = set()
        for value, path in roots:
            if _is_callable(value):
                self._add_callable(value)
            elif not isinstance(value, _WHOLE):
                self._add_root(value, path)
        for reference, path in self._roots:  # which grow
            self._add_parts(functools.partial(_referent, reference), reference(), path)
        del self._seen

    def now(self, ignored: Collection[str] = ()) -> "Reads":
        """Return what the same call would read now, without the paths in `ignored`."""
        paths = self._ignored.union(ignored)
        alive = [(v, path) for reference, path in self._roots if (v := reference()) is not None]
        found = Reads(alive, self._names, paths)
        # A function that was found late may name attributes of what was read before.
        return found if found._names == self._names else found.now()

    def differ(self) -> bool:
        """Return False if all values are as they were."""
        try:
            for find, is_same, _, _ in self._values:
                if not is_same(find()):
                    return True
        except Exception:  # it is gone
            return True
        return False

    def changes(self) -> Changes:
        """Return the values that differ now."""
        found: Changes = {}
        for find, is_same, path, before in self._values:
            value, after = None, "gone"
            try:
                value = find()
                if is_same(value):
                    continue
                after = _text(value)
            except ReferenceError:  # what nobody has any more reads nothing
                continue
            except Exception:
                pass
            if after == before:
                is_array = isinstance(value, np.ndarray)
                after = f"{after}, other values" if is_array else f"another {after}"
            found[path] = before, after, value
        # Not that the whole is another one, if something in it is told of.
        leads = {p for p in found for o in found if o.startswith((f"{p}.", f"{p}["))}
        return {path: each for path, each in found.items() if path not in leads}

    def _add_callable(self, fn: Any) -> None:
        """Add what a callable reads when it is called."""
        for inner in functions_inside(fn):
            if isinstance(inner, types.FunctionType):
                self._add_function(inner, hasattr(inner, "__wrapped__"))
            elif isinstance(inner, types.MethodType):
                if inner not in self._seen:  # a method may wrap an equal one
                    self._seen.add(inner)
                    self._add_callable(inner.__func__)
                self._add_root(inner.__self__, next(iter(_names(inner.__func__)), "self"))
            elif isinstance(inner, jax.custom_jvp | jax.custom_vjp):
                for name in ("jvp", "fwd", "bwd"):
                    self._add_function(getattr(inner, name, None))
            elif isinstance(inner, functools.partial):
                self._add_root(inner)
            elif not (isinstance(inner, _CALLABLES) or hasattr(inner, "call_wrapped")):
                self._add_function(innermost(type(inner).__call__), hasattr(inner, "__wrapped__"))
                self._add_root(inner, "self")

    def _add_function(self, function: Any, is_wrapper: bool = False) -> None:
        if isinstance(function, types.FunctionType):
            is_of_jax = str(function.__globals__.get("__name__")).startswith("jax.")
            if (is_wrapper and not is_of_jax) or not is_library_function(function):
                self._add_root(function)

    def _add_root(self, value: Any, path: str = "") -> None:
        if ("root", id(value)) not in self._seen and len(self._roots) < _MAX_READS:
            with contextlib.suppress(TypeError):  # it takes no weak reference
                self._roots.append((weakref.ref(value), path))
                self._seen.add(("root", id(value)))

    def _add_parts(self, find: _Find, value: Any, path: str) -> None:
        """Add what is in a value, with all in it that the functions may read."""
        for get, part, name in self._parts(value, path):
            if len(self._values) < _MAX_READS:
                with contextlib.suppress(Exception):  # an attribute of the user's
                    self._add(functools.partial(_part, find, get), part, name)

    def _add(self, find: _Find, value: Any, path: str) -> None:
        if (is_same := _comparison(value)) is not None and path not in self._ignored:
            self._values.append((find, is_same, path, _text(value)))
        # A second run would take the next of an iterator, a file or a generator of numbers.
        is_random = type(value).__module__.startswith(("numpy.random", "random"))
        self.has_effects |= is_random or hasattr(type(value), "__next__")
        if id(value) not in self._seen and not isinstance(value, _WHOLE):
            self._seen.add(id(value))
            if _is_callable(value):
                self._add_callable(value)
            else:
                self._add_parts(find, value, path)

    def _parts(self, value: Any, path: str) -> Iterator[tuple[_Get, Any, str]]:
        """Yield how to get each part of a value that may be read, the part and its name."""
        if isinstance(value, types.FunctionType):
            yield from self._read_by(value)
        if isinstance(value, types.FunctionType | functools.partial):
            for name, held in _bound(value).items():
                yield (lambda function, name=name: _bound(function)[name]), held, name
        elif isinstance(value, dict | list | tuple):
            yield len, len(value), f"len({path})"
            fields = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in [*itertools.islice(items, _MAX_ITEMS)]:
                is_read = self._names.isdisjoint(fields) or fields[key] in self._names
                if is_read and isinstance(key, _PLAIN):
                    step = f".{fields[key]}" if fields else f"[{key!r}]"
                    yield operator.itemgetter(key), item, path + step
        elif isinstance(value, types.ModuleType):
            if not is_library_module(value):
                yield from self._attributes(value, path)
        elif not type(value).__module__.startswith(("jax", "numpy")):
            yield from self._attributes(value, path)

    def _read_by(self, function: types.FunctionType) -> Iterator[tuple[_Get, Any, str]]:
        """Yield the globals and the captured variables of a function."""
        code, space = code_of(function), function.__globals__
        if is_library_function(function):  # may count the runs, as `chex.assert_max_traces`
            self.has_effects |= code.changes_objects or bool(code.stores)
            return
        self.codes.append(function.__code__)
        self._names |= code.attributes
        self.may_change_objects |= code.changes_objects
        self.has_effects |= bool(code.stores) or _is_impure(function)
        for name in code.globals:
            if name in space and (id(space), name) not in self._seen:
                self._seen.add((id(space), name))
                yield (lambda function, name=name: function.__globals__[name]), space[name], name
        captured = captured_by(function)
        for i, (name, _) in enumerate(cells_of(function)):
            if name in captured:
                yield (lambda f, i=i: f.__closure__[i].cell_contents), captured[name], name

    def _attributes(self, value: Any, path: str) -> Iterator[tuple[_Get, Any, str]]:
        """Yield the attributes of an instance, a module or a class; add what its methods read."""
        cls = value if isinstance(value, type) else type(value)
        own = {} if value is cls else getattr(value, "__dict__", {})
        # `__getattr__` may find an attribute in anything that the object has.
        names = {*own} if hasattr(cls, "__getattr__") else self._names & own.keys()
        for each in cls.__mro__:
            if each is object or is_library_class(each):
                continue
            names |= self._names & vars(each).keys()
            for name in ({"__call__", "__getitem__", "__getattr__"} | self._names) & {*vars(each)}:
                method = vars(each)[name]
                for inner in ("__func__", "fget", "func"):  # of methods and properties
                    method = getattr(method, inner, method)
                if _is_callable(method):
                    self._add_callable(method)
        for name in sorted(names):
            found = _looked_up(value, name)
            if name in own or not hasattr(type(found), "__get__"):
                yield functools.partial(_looked_up, name=name), found, f"{path}.{name}"


_PLAIN: Any = (bool, int, float, complex, str, bytes, type(None), slice, range, type(...))
_PLAIN += (np.generic, np.dtype, enum.Enum)
_WHOLE: Any = (*_PLAIN, np.ndarray, set, frozenset, jax.Array)  # without parts to read
_CALLABLES = (
    *(types.FunctionType, types.MethodType, functools.partial, type(jax.jit(len))),
    *(jax.custom_jvp, jax.custom_vjp),
)


def _is_callable(value: Any) -> bool:
    return isinstance(value, _CALLABLES) or attribute(value, "__wrapped__") is not None


def _names(fn: Any) -> tuple[str, ...]:
    """Return the names of the positional parameters of a function."""
    code = attribute(fn, "__code__")
    return code.co_varnames[: code.co_argcount] if isinstance(code, types.CodeType) else ()


def _is_impure(fn: types.FunctionType) -> bool:
    """Return True if a function names something that gives another value each time, or writes."""
    code, space = code_of(fn), {**vars(builtins), **fn.__globals__}
    if not code.attributes.isdisjoint(("send", "write", "put", "put_nowait")):
        return True
    for name, *attributes in filter(None, code.paths):
        value, module = space.get(name) if name in code.globals else None, None
        for each in attributes:
            if isinstance(value, types.ModuleType):
                value, module = getattr(value, each, None), value
        if not isinstance(value, types.ModuleType | None) and impure_name(value, module):
            return True
    return False


# --- finding values -------------------------------------------------------------------------------


def _referent(reference: Any) -> Any:
    if (value := reference()) is None:
        raise ReferenceError
    return value


def _part(find: _Find, get: _Get) -> Any:
    return get(find())


def _bound(fn: Any) -> dict[str, Any]:
    """Return the arguments of a partial or the defaults of a function, by name."""
    if isinstance(fn, functools.partial):
        return {**dict(zip(_names(innermost(fn)), fn.args, strict=False)), **fn.keywords}
    defaults = fn.__defaults__ or ()
    names = _names(fn)[len(_names(fn)) - len(defaults) :]
    return {**dict(zip(names, defaults, strict=True)), **(fn.__kwdefaults__ or {})}


def _looked_up(owner: Any, name: str) -> Any:
    """Return an attribute without running code of the user's."""
    try:  # `contextlib.suppress` would take longer
        return owner.__dict__[name]
    except (AttributeError, KeyError):
        pass
    is_class = isinstance(owner, type)
    for each in (owner if is_class else type(owner)).__mro__:
        if name in vars(each):
            found = vars(each)[name]
            is_slot = isinstance(found, types.MemberDescriptorType) and not is_class
            return found.__get__(owner) if is_slot else found
    raise AttributeError(name)


# --- comparing values -----------------------------------------------------------------------------


def _comparison(value: Any) -> _IsSame | None:
    """Return what compares a value with this one, or None if only its parts are compared."""
    if isinstance(value, _PLAIN):
        return _same_plain(value)
    if isinstance(value, np.ndarray):
        return _same_array(value)
    if isinstance(value, set | frozenset):
        return (
            functools.partial(operator.eq, frozenset(value)) if len(value) <= _MAX_ITEMS else None
        )
    if isinstance(value, types.ModuleType | jax.core.Tracer):
        return None
    try:
        reference = weakref.ref(value)
    except TypeError:  # it takes no weak reference
        return None
    return lambda found: found is reference()


def _same_plain(known: Any) -> _IsSame:
    def is_same(value: Any) -> bool:
        nonlocal known
        if value is known:
            return True
        # By the text of a number, since 0.0 == -0.0, and nan equals nothing.
        if type(value) is not type(known) or repr(value) != repr(known):
            return False
        known = value
        return True

    return is_same


def _same_array(before: np.ndarray) -> _IsSame:
    """Compare an array; a large one at calls 1, 2, 4, 8 and so on, since a megabyte takes 1 ms."""
    content, last, is_same_now, calls = _content(before), weakref.ref(before), True, 0

    def is_same(value: Any) -> bool:
        nonlocal last, is_same_now, calls
        if not isinstance(value, np.ndarray):
            return False
        calls += 1
        is_due = value.nbytes <= _MAX_BYTES or calls & (calls - 1) == 0
        if is_due or value is not last():
            is_same_now, last = _content(value) == content, weakref.ref(value)
        return is_same_now

    return is_same


def _content(value: np.ndarray) -> tuple[Any, ...]:
    data = value.tobytes()
    is_small = value.nbytes <= _MAX_BYTES
    return value.dtype, value.shape, data if is_small else hashlib.blake2b(data).digest()


def _text(value: Any) -> str:
    place = place_of(value) if isinstance(value, types.FunctionType) else None
    return shortened(text_of(value)) + (f" ({place})" if place else "")
