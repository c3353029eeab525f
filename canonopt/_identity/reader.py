"""`Reader` walks over values and writes their key; `Reading` is the result.

A key is a flat tuple: the type of a value and the number of its parts, then the parts. So values
may be nested to any depth. The *rule* of a type decides what its values add to the key. A rule is a
function of the reader, the value and the `Mode`, in `rules` or `instances`. A rule that cannot read
a value completely adds the value's identity, or an `object()`, which equals nothing else.
"""

import abc
import builtins
import contextlib
import copy
import dataclasses
import enum
import functools
import importlib.util
import inspect
import logging
import operator
import struct
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._jax_internals.functions import Jitted, is_module_class, node_functions
from .._python_internals.bytecode import (
    ARRAY_ATTRIBUTES,
    HIDE_ERRORS,
    TELLS_TRACERS,
    Code,
    code_of,
    has_format,
    passes_self,
)
from .._python_internals.libraries import (
    REFLECTION,
    attribute,
    impure_name,
    is_in_place,
    is_known,
    is_library_class,
    is_library_module,
    is_users_function,
    makes_text,
    reflects,
)
from .._python_internals.namespaces import (
    FIELDS,
    asked_for,
    attribute_of,
    can_tell_apart,
    is_constant_to,
    is_dunder,
    is_stable,
    loaded,
)
from .._python_internals.weak import known_by_identity, token_of

# How a value is reached, which decides whether its identity counts:
# - "given": an argument of a factory. Containers count by their items; arrays are refused.
# - "held": something keeps a reference to the value, as a function does to a captured value. Two
#   mutable values that look alike now may differ later, so the identity counts as well.
# - "live": code looks the value up in an object whose identity is in the key, as a global in its
#   module. All code with this key looks in the same object, so the present content is enough.
# - "now": a function that is traced only right after this reading, and the values that it holds.
#   Later changes do not matter, so the content is enough. The arrays become arguments: the function
#   is traced as a copy with tracers in place of the arrays.
# - "fixed": like "now", for a value that is not copied: the arrays in it count by identity.
Mode: TypeAlias = Literal["given", "held", "live", "now", "fixed"]
NOW = ("now", "fixed")


def inside(mode: Mode) -> Mode:
    """Return the mode for the parts of a function, which holds them: "held" in place of "given"."""
    return "held" if mode == "given" else mode


def fixed(mode: Mode) -> Mode:
    """Return the mode for parts that `parts.Copy` does not copy: "fixed" in place of "now"."""
    return "fixed" if mode == "now" else mode


MAX_OBJECTS, MAX_WORDS = 20_000, 1_000_000  # limits of a reading: objects, and items in its key
_MAX_NOTES = 64  # the most `Incomparable`s that `note` adds: it takes 0.1 ms for each


def exact(value: float, mode: Mode) -> Hashable:
    """Return the key item of a float: it differs for 0.0 and -0.0, and equals itself for a NaN.

    In the mode "given", all NaNs are equal. In other modes, NaNs differ if their bits do.
    """
    if value and value == value:
        return value
    return repr(value) if mode == "given" else struct.pack("d", value)


class HoldsArray(Exception):
    """An error for a factory's argument that is or contains an array, and so gets no key."""


class _Mark:
    """An item of a key that equals only itself."""


SEEN, PENDING, IDENTITY, ARGUMENT, MODULE, BUILTIN, FIELD, UNBOUND = (_Mark() for _ in range(8))
WHOLE = ""  # stands for all attributes where the name of one is expected


Rule: TypeAlias = "Callable[[Reader, Any, Mode], None]"
ATOMS = frozenset((type(None), bool, int, str, bytes, type(...)))


@dataclasses.dataclass(eq=False, slots=True)
class Reading:
    """The key of some values at one moment, and other facts that were found in the same walk."""

    key: tuple[Hashable, ...] = ()
    is_comparable: bool = True  # whether another reading can have the same key
    can_change: bool = False  # whether reading the same values later can give another key
    reads_data: bool = False  # whether some of what can change is data, not only code
    stores: str = ""  # names code that may change something that already exists
    captures_arrays: bool = False  # whether an array was read that could become an argument
    # How code may, without an error, tell a tracer from an array, or keep a tracer; else empty.
    tells_tracers: str = ""
    # The parts that are likely to count as new each time. Empty unless `explain`.
    incomparable: list[errors.Incomparable] = dataclasses.field(default_factory=list)
    stops: int = 0  # how many parts at the start of `incomparable` come from `stop`
    has_numpy: bool = False  # whether a NumPy array was read: it may change in place
    # Whether code passes on an object that equals only itself, and that may change. The receiver,
    # such as an inner jit or `functools.lru_cache`, may cache a result for the object.
    passes_objects: bool = False
    makes_sets: bool = False  # whether code may find or order objects by identity, as a set does
    # Whether code may call a jitted function, which looks traces up by the arguments' static parts.
    has_inner_jit: bool = False
    reads_dimensions: bool = False  # whether jaxtyping may compare dimensions with a caller's
    hides_traces: bool = False  # whether JAX may trace functions that the program does not contain
    # The objects whose ids are in the key. The list keeps them alive, so that no id is reused.
    pinned: list[Any] = dataclasses.field(default_factory=list)
    # The objects that are read only once even if met twice, such as functions and instances, in the
    # order of the key. If two readings have equal keys, objects at the same index do the same.
    objects: list[Any] = dataclasses.field(default_factory=list)
    # By id: each cell that library code may rebind, with the value that it had before the trace.
    rebound_cells: dict[int, tuple[types.CellType, Any]] = dataclasses.field(default_factory=dict)
    # `arrays`: the captured arrays that a copy of the function replaces, in order. `above`: the ids
    # of these and of values that lead to them. Both are empty if a copy might behave differently.
    arrays: list[Any] = dataclasses.field(default_factory=list)
    above: set[int] = dataclasses.field(default_factory=set)
    # The ids of values in a copied function that code also reaches elsewhere, as through a global.
    shared: set[int] = dataclasses.field(default_factory=set)
    # Maps the id of each instance to the names of its attributes that count, if not all of them do.
    by_name: dict[int, set[str]] = dataclasses.field(default_factory=dict)


def leading_to(ids: Iterable[int], owners_of: Mapping[int, list[int]]) -> set[int]:
    """Return the given ids of parts, and the ids of all values that lead to one of the parts."""
    found: set[int] = set()
    pending = [*ids]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += owners_of.get(one, ())
    return found


class Reader:
    """One walk over values, which collects their key in `out`."""

    holds_mutable = False
    reads_any_attribute = False  # whether code reads attributes that it does not name
    changes_objects = ""  # names code that may change objects that exist before it runs
    _takes_remainders = _has_formats = _is_inner = False
    _constructs_any = False  # whether code may call the class of any instance
    # The function that was read last: reports name it, and `note` leaves out what its globals hold.
    function: Any = None
    refused_attributes: frozenset[str] = frozenset()  # code that names one may read a file

    def __init__(
        self,
        rules: dict[type, Rule],
        rule_for: Callable[[Any], Rule],
        takes_apart: Callable[[Any], bool],
        explain: bool = False,
        max_words: int = MAX_WORDS,
        rebound_cells: dict[int, tuple[types.CellType, Any]] | None = None,
    ) -> None:
        # `rules` has most rules, because a lookup is faster than a call. `rule_for` finds the rest.
        self._rules, self._rule_for, self._takes_apart = rules, rule_for, takes_apart
        self._max_words = max_words
        self.reading, self._explains = Reading(), explain
        if rebound_cells is not None:
            self.reading.rebound_cells = rebound_cells
        self.out: list[Hashable] = []  # the key
        self._pending: list[tuple[Any, Mode, str | None]] = []
        # Maps the id of each value read to its index in `Reading.objects` and its first mode.
        self._seen: dict[int, tuple[int, Mode]] = {}
        self._alive = self.reading.objects  # keeps the values alive, so that no id is reused
        self.judged: dict[int, Any] = {}  # by id, the values that `read_stable` has checked
        # The attributes that code names. The second set leaves out names that only libraries use.
        self.named: set[str] = set()
        self._named_in_code: set[str] = set()
        # `_owners`: the modules, classes and instances whose attributes code may read, by id, each
        # with its index and the attributes already read. `_held`: ids of modules from `_add_held`.
        self._owners: dict[int, tuple[int, Any, set[str]]] = {}
        self._held: set[int] = set()
        # `_names_of`: maps the id of each instance to the names that code has for it: variables,
        # attributes (with a dot), and None for any other way to it. `_passed`: names whose values
        # code passes on (see `Code.passed`). `_passing`: by class id, methods that pass on `self`.
        self._names_of: dict[int, set[str | None]] = {}
        self._passed: set[str] = set()
        self._passing: dict[int, set[str]] = {}
        self._is_now = False  # whether `read` was given values in a mode of `NOW`
        # `_arrays`: the arrays that a copy of a function can replace, by id, with their index in
        # the key. `_owners_of`: maps the id of each part to the ids of the values that have it.
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._owners_of: dict[int, list[int]] = {}
        self._current: Any = None  # the value that is being read
        self.name: str | None = None  # the name that code has for the value
        # The ids of the user's classes that code may call, and of their bases.
        self._constructed: set[int] = set()

    def read(self, **values: Iterable[Any]) -> Reading:
        """Return the reading of `values`, which maps each `Mode` to the values to read in it."""
        self._is_now = bool(values.get("now") or values.get("fixed"))
        for mode, of_mode in values.items():
            for value in of_mode:
                self.add(value, cast(Mode, mode))
        self._pending.reverse()
        self._finish()
        reading = self.reading
        if self.named & self.refused_attributes:
            self.stop(self.function, errors.impure("a file"))
        finds = reading.makes_sets or reading.has_inner_jit
        if finds and (reading.passes_objects or self._passes_methods()):
            self.stop(self.function, errors.FINDS if reading.makes_sets else errors.INNER_JIT)
        if self.holds_mutable:
            reading.stores = reading.stores or self.changes_objects
        if reading.stores and not reading.tells_tracers:
            what = f"{reading.stores} may change something that already exists"
            reading.tells_tracers = what
        if self._takes_remainders and not reading.tells_tracers:
            texts = (word for word in self.out if type(word) in (str, bytes))
            if self._has_formats or any(map(has_format, texts)):
                reading.tells_tracers = "its code may format a string with %"
        reading.captures_arrays = bool(self._arrays)
        above = leading_to(self._arrays, self._owners_of)
        # Code that meets both an object and its copy can tell them apart, so no array is replaced.
        if above and not (reading.tells_tracers or reading.shared & above):
            reading.above = above
            reading.arrays = [array for array, _ in self._arrays.values()]
        else:
            for array, place in self._arrays.values():
                self.out[place] = self._key_of_array(array)
        reading.hides_traces |= reading.has_inner_jit or bool(self.named & _HIDE_TRACES_BY_NAME)
        counted = {i: self._owners[i][2] for i in self._names_of}
        reading.by_name = {i: names for i, names in counted.items() if WHOLE not in names}
        reading.key = tuple(self.out)
        return reading

    def _finish(self) -> None:
        """Read all that is pending, without recursion."""
        pending, rule_of = self._pending, self._rules.get
        while pending or self._read_owners():
            if not pending:
                continue
            value, mode, self.name = pending.pop()
            self._current = value
            if len(self._alive) >= MAX_OBJECTS or len(self.out) >= self._max_words:
                pending.clear()
                return self.stop(self._alive[0] if self._alive else value, errors.TOO_LARGE)
            start = len(pending)
            try:
                if mode == "now" and not self._takes_apart(value):
                    mode = "fixed"
                # Not `isinstance`: a proxy claims to be an instance of another class.
                (rule_of(type(value)) or self._rule_for(value))(self, value, mode)
            except HoldsArray:
                raise
            except Exception:  # an attribute of a user's class has raised the error
                self.stop(value, errors.HIDDEN)
            if len(pending) - start > 1:
                # Reverse the new parts: `pop` then takes them in order, before all earlier entries.
                pending[start:] = pending[: start - 1 : -1] if start else pending[::-1]

    # --- methods that rules call --------------------------------------------------------------

    def add(self, value: Any, mode: Mode, name: str | None = None) -> None:
        """Add a value to the key; `name` is the variable or `.attribute` that code has for it."""
        kind = type(value)
        if kind in ATOMS:
            self.out += (kind, value)
            if kind is str and value.isidentifier():  # as in `module.apply(..., method=value)`
                self.named.add(value)
                self._named_in_code.add(value)
        elif kind is _Mark:
            self.out.append(value)
        elif kind is float:
            self.out += (float, exact(value, mode))
        elif kind is types.ModuleType:
            self._add_held(value)
        else:
            self.out.append(PENDING)
            self._pending.append((value, mode, name))
            if mode == "now":
                self.note_part(value)

    def note_part(self, value: Any) -> None:
        """Note `value` as a part of the value that is being read: a copy may replace the part."""
        if self._current is not None:
            self._owners_of.setdefault(id(value), []).append(id(self._current))

    def add_all(self, values: Iterable[Any], mode: Mode) -> None:
        """Add several parts, and how many there are."""
        values = tuple(values)
        self.out.append(len(values))
        for value in values:
            self.add(value, mode)

    def add_named(self, values: Mapping[Any, Any], mode: Mode, immutable: bool = False) -> None:
        """Add a mapping in its order, because a factory may read it in order.

        `immutable`: whether inner dicts never change, like those that Equinox keeps for a class.
        """
        self.out.append(len(values))
        for name, value in values.items():
            if type(name) is str:
                self.out += (str, name)  # `add` would take `name` for the name of an attribute
            else:
                self.add(name, fixed(mode))
            if type(value) is dict and (immutable or name == "__annotations__"):
                self.add_named(value, fixed(mode))
            else:
                self.add(value, mode)

    def was_seen(self, value: Any, mode: Mode) -> bool:
        """Return True if `value` was read before, and add its index to the key; else record it.

        So the key of one object in two places differs from that of two objects that look alike.
        """
        seen = self._seen.get(id(value))
        if seen is None:
            self._seen[id(value)] = (len(self._alive), mode)
            self._alive.append(value)
            return False
        place, first = seen
        self.out += (SEEN, place)
        if (first == "now") != (mode == "now"):
            self.reading.shared.add(id(value))
        if first == "live" and mode in ("held", "given"):
            # Where `value` was read first, its identity did not count, so add it now.
            self.add_identity(value)
        return True

    def add_identity(self, value: Any, reason: errors.Reason | None = None) -> None:
        """Add the identity of `value`, and `note` the `reason` if one is given."""
        try:
            self.out += (IDENTITY, token_of(value))
        except TypeError:
            self.out += (IDENTITY, id(value))
            self.reading.pinned.append(value)
        if reason is not None:
            self.note(value, reason)

    def add_array(self, array: Any, mode: Mode) -> None:
        """Add an array by identity; in the mode "now" by aval, since it may become an argument."""
        if mode != "now":
            self.out.append(self._key_of_array(array))
            return
        place = len(self.out)
        _, first = self._arrays.setdefault(id(array), (array, place))
        if first == place:
            self.out.append((ARGUMENT, jax.typeof(array)))
        else:  # the key has the array already, at the index `first`
            self.out += (ARGUMENT, first)

    def _key_of_array(self, array: Any) -> Hashable:
        """Return the item of the key for an array that counts by identity."""
        if isinstance(array, jax.core.Tracer):
            self.stop(array, errors.TRACER)
            return object()
        self.note(array, errors.ARRAY)
        return (IDENTITY, token_of(array))

    def enter_mutable(self, value: Any, mode: Mode, reason: errors.Reason) -> Mode:
        """Note that a value is mutable, add its identity if "held", and return its parts' mode."""
        self.reading.can_change = self.holds_mutable = True
        if mode == "given":
            return mode
        self.reading.reads_data = True
        if mode == "held":
            self.add_identity(value, reason)
            return "live"
        return mode

    def note(self, value: Any, reason: errors.Reason) -> None:
        """Note, if `explain` was given, that `value` is likely to be a new object each time."""
        notes = self.reading.incomparable
        if self._explains and len(notes) < _MAX_NOTES and not is_constant_to(self.function, value):
            notes.append(errors.Incomparable(value, *reason))

    def stop(self, value: Any, reason: errors.Reason = errors.HIDDEN) -> None:
        """Note that `value` cannot be read, so that the key equals no other key."""
        self.out.append(object())
        self.reading.is_comparable = False
        if self._explains:  # parts from `stop` come before those from `note`, in order
            found = errors.Incomparable(value, *reason)
            self.reading.incomparable.insert(self.reading.stops, found)
            self.reading.stops += 1

    def reads_data_in(self, value: Any, mode: Mode) -> bool:
        """Return True if `value` may read data that can change, even data that was read already."""
        if self._is_inner:  # an outer call made this reader, which reads all of `value` anyway
            return False
        reader = Reader(self._rules, self._rule_for, self._takes_apart, self._explains)
        reader._is_inner = True
        reading = reader.read(**{inside(mode): (value,)})
        self.reading.incomparable += reading.incomparable  # reports name parts before the whole
        return reading.reads_data or not reading.is_comparable

    # --- names: globals, and attributes of modules and classes --------------------------------

    def add_globals(self, function: types.FunctionType, code: Code) -> None:
        """Add the globals that the code of `function` names, with the values they have now."""
        namespace = function.__globals__
        self.reading.can_change = True
        for path, how in code.tells_tracers.items():
            if self.reading.tells_tracers:
                break
            found = _reached(namespace.get(path[0]), path[1:])[1] if path else None
            if not _is_of_library(found):
                self.reading.tells_tracers = f"{function.__qualname__} {how}"
        # Setting an attribute always counts as storing: a class or module may keep a tracer.
        if code.stores or code.sets_attributes:
            self.reading.stores = self.reading.stores or function.__qualname__
        if code.changes_objects and not self.changes_objects:
            self.changes_objects = f"{function.__qualname__} in {code.changes_objects}"
        self.reads_any_attribute |= code.reads_any_attribute
        self.named.update(code.attributes)
        self._named_in_code |= code.attributes
        self._passed |= code.passed
        self.reading.makes_sets |= code.makes_sets
        self._takes_remainders |= code.takes_remainders
        self._has_formats |= code.has_formats
        for name in code.hidden_inputs:
            self.stop(function, errors.impure(name))
        for path in code.identity_tests:
            if can_tell_apart(path, namespace):
                self.stop(function, errors.IDENTITY_TEST)
        for name in code.globals:
            value = namespace.get(name, UNBOUND)
            if value is UNBOUND:
                self.out.append(BUILTIN)
                value = function.__builtins__.get(name, UNBOUND)
                if not is_stable(value) and value is not NotImplemented:
                    self.add(value, "live")  # somebody has set this builtin, or may set it
                elif not code.is_generated:
                    self._judge(function, value)
                continue
            self.reading.reads_data |= not _is_code(value)
            if type(value) is types.ModuleType:
                self.add_module(function, value, code, name)
            else:
                self.add(value, "live", name)
        for name, *attributes in code.imports:
            with contextlib.suppress(ImportError):  # a relative name may have no package
                name = importlib.util.resolve_name(name, namespace.get("__package__"))
            module = sys.modules.get(name)
            if module is None:
                self.stop(function, errors.not_loaded(name))
            else:
                self.add_module(function, module, code, None, attributes)

    def add_module(
        self,
        function: Any,
        module: types.ModuleType,
        code: Code,
        variable: str | None,
        *imported: Iterable[str],
    ) -> None:
        """Add a module that code reaches; `stop` if the code finds an impure library value there.

        `variable`: the code's name for the module, or None; `imported`: the names taken from it.
        """
        self.out += (MODULE, token_of(module))
        if not is_library_module(module):
            self.reading.can_change = True
            self.add_owner(module)
        if code.is_generated:
            return
        paths = [p[1:] for p in code.paths if p and (p[0] == variable or variable is None)]
        if code.reads_any_attribute or not _READ_ATTRIBUTES.isdisjoint(code.globals):
            paths += ((name,) for name in code.attributes if not is_dunder(name))
        for path in (*imported, *paths):
            holder, found = _reached(module, path)
            if _is_of_library(found) or _is_of_library(holder):  # `add_owner` covers other values
                self._judge(function, found, holder)
            elif type(found) is types.ModuleType:
                self._add_held(found)

    def _add_held(self, module: types.ModuleType) -> None:
        """Add a module that an object holds or code passes on: any variable may refer to it."""
        self.out += (MODULE, token_of(module))
        if is_library_module(module):
            self._judge(self.function or module, module, module)
        elif id(module) not in self._held:
            self.reading.can_change = True
            self._held.add(id(module))
            self.add_owner(module)
            self._owners[id(module)][2].clear()

    def _judge(self, function: Any, value: Any, module: Any = None) -> None:
        """Add a library's `value` if it is data. If it is impure, call `stop(function)`.

        `module`: where the value was found; None for a builtin that code calls by its name.
        """
        if is_users_function(value):
            self.add(value, "live")  # somebody has put the function into the library
        elif type(value) in ATOMS or isinstance(value, float | tuple):
            self.add(tuple(value) if isinstance(value, tuple) else value, "live")
        elif name := impure_name(value, builtins if module is None else module):
            self.stop(function, errors.impure(name))
        elif not (_is_code(value) or is_in_place(value) or typing.get_origin(value)):
            self.add(value, "live")  # data that a library keeps, as in `absl.flags.FLAGS`
        if type(value) is types.ModuleType:  # any variable may refer to the module
            self.add_owner(value)
        self.note_reached(value, is_builtin=module is None)

    def note_reached(self, value: Any, is_builtin: bool = False) -> None:
        """Note what code can do with a value, whatever name the code has for the value."""
        self.named.update(_named_by(value))
        self.reads_any_attribute |= reflects(value)
        self._constructs_any |= any(value is each for each in _CONSTRUCT)
        if isinstance(value, type) and not is_library_class(value):
            self._constructed.update(map(id, value.__mro__))
        name = str(attribute(value, "__name__"))
        self.reading.hides_traces |= name in _HIDE_TRACES
        self.reading.reads_dimensions |= getattr(value, "__module__", None) == "jaxtyping"
        self._takes_remainders |= value is operator.mod or value is operator.imod
        # For a builtin that code calls by its name, `code.tells_tracers` has the answer already:
        # the bytecode shows if the string is only for an error.
        is_telling = name in TELLS_TRACERS
        if name in ARRAY_ATTRIBUTES:  # `jax.devices` is no method of an array
            is_telling = not is_in_place(value) or "." in value.__qualname__
        if is_telling or (makes_text(value) and not is_builtin):
            self.note_telling(name)

    def note_telling(self, name: str) -> None:
        """Note that code reaches `name`, which may tell a tracer from an array."""
        self.reading.tells_tracers = self.reading.tells_tracers or f"its code may use {name}"

    def add_class(self, cls: type) -> None:
        """Add a class by identity; for a user's class, also the attributes that code names."""
        self.out.append(token_of(cls))
        if id(cls) in self._seen:
            return
        self._seen[id(cls)] = (len(self._alive), "live")
        self._alive.append(cls)
        meta: Any = type(cls)
        for base in (*cls.__mro__, *meta.__mro__):
            if is_library_class(base):
                self.named.update(_named_in_class(base))
                # Skip `type`, a base of each metaclass, and `str` as a base of an enum of strings.
                if base is not type and not (makes_text(base) and isinstance(cls, enum.EnumMeta)):
                    self.note_reached(base)
            else:
                self.add_owner(base)
                if isinstance(base, abc.ABCMeta) and not is_module_class(base):
                    self.out.append(abc.get_cache_token())  # changes if a class is registered
                for field in vars(base).get("__dataclass_fields__", {}).values():
                    metadata = dict(getattr(field, "metadata", ()))  # may hold converters
                    self.add_all((field.default, field.default_factory, *metadata.items()), "live")
        if not is_library_class(cls):
            self.out += (cls.__name__, cls.__qualname__, *map(token_of, cls.__mro__))
            self.out.append(cls.__flags__ & _FLAGS)
            # A call of an enum finds the member in a table, to which `_add_value_alias_` may add.
            # Leave out a `Flag`: any call may add to its table.
            if isinstance(cls, enum.EnumMeta) and not issubclass(cls, enum.Flag):
                self.out.append(len(vars(cls).get("_value2member_map_", ())))
            functions = node_functions(cls)
            self.stop(cls) if functions is None else self.add_all(functions, "live")

    def add_owner(self, owner: Any) -> None:
        """Queue a module, class or instance, to add its attributes that the code names."""
        if id(owner) not in self._owners:
            self._owners[id(owner)] = (len(self._owners), owner, set())

    def add_instance(self, instance: Any) -> None:
        """Queue an instance, to add the attributes that code names, or all if code passes it on."""
        self.add_owner(instance)
        self._names_of.setdefault(id(instance), set()).add(self.name)

    def is_by_name(self, instance: Any, mode: Mode) -> bool:
        """Return True if `instance` may count by the attributes that code names, not by all."""
        is_now = mode in NOW or (mode == "live" and self._is_now)
        return is_now or id(instance) in self._names_of

    def _is_passed(self, instance: Any) -> bool:
        """Return True if code may do more with an instance than read attributes of it."""
        names = self._names_of[id(instance)]
        if self.reads_any_attribute or None in names or not names.isdisjoint(self._passed):
            return True
        if type(instance) in LOGGERS and not self.named.isdisjoint(_OF_LOGGERS):
            return True
        called = (n for base in type(instance).__mro__ for n in self._passing.get(id(base), ()))
        return any(name in self.named or name in _CALLED_UNNAMED for name in called)

    def _read_owners(self) -> bool:
        """Add the owners' attributes that code has named so far; return True if any are new.

        Bytecode does not say which object an attribute belongs to, so each name is looked up in
        each of the user's modules, classes and instances.
        """
        self._constructs_any |= self.reads_any_attribute or "__class__" in self.named
        before = len(self.out)
        for place, owner, done in [*self._owners.values()]:
            if not issubclass(type(owner), type | types.ModuleType):
                self._read_instance(place, owner, done)
                continue
            namespace = vars(owner)
            for name in sorted({*self._names_to_read(owner, namespace)} - done):
                done.add(name)
                self.reading.can_change = True
                self.out += (FIELD, place, name)
                self._add_attribute(owner, namespace, name)
        return len(self.out) > before

    def _read_instance(self, place: int, instance: Any, done: set[str]) -> None:
        if WHOLE in done:
            return
        namespace = vars(instance).copy()  # another thread may add attributes meanwhile
        mode: Mode = "now" if self._seen[id(instance)][1] == "now" else "fixed"
        self._current = instance
        if self._is_passed(instance):
            done.add(WHOLE)
            self.note_passed(type(instance))
            self.out += (FIELD, place, WHOLE)
            self.add_named(namespace, mode)
            return
        for name in sorted(self.named.intersection(namespace) - done):
            done.add(name)
            self.out += (FIELD, place, name)
            self.add(namespace[name], mode, f".{name}")

    def _passes_methods(self) -> bool:
        """Return True if code may pass on a method of an instance that `add_instance` queued."""
        for one in (self._owners[each][1] for each in self._names_of):
            bases = (vars(base) for base in type(one).__mro__ if base is not object)
            methods = {n for base in bases for n, v in base.items() if hasattr(v, "__code__")}
            # An attribute hides a method: `self.loss = canonopt.jit(self.loss)`.
            if any(f".{name}" in self._passed for name in methods.difference(vars(one))):
                return True
        return False

    def note_passed(self, cls: type) -> None:
        """Set `passes_objects` if `cls` is a user's class whose instances hash by identity."""
        is_by_identity = cls.__hash__ is object.__hash__
        self.reading.passes_objects |= is_by_identity and not is_library_class(cls)

    def _names_to_read(self, owner: Any, namespace: Mapping[str, Any]) -> Iterator[str]:
        """Yield an owner's attributes that code names, or that Python or libraries look up."""
        if namespace.get("_is_protocol"):  # `isinstance` looks up all attributes of a protocol
            self.named.update(_readable(namespace))
            for name in TELLS_TRACERS.intersection(n for n in namespace if not is_dunder(n)):
                self.note_telling(name)
        if _is_of_library(owner):
            yield from self._named_in_code.intersection(namespace)
            return
        if hides := HIDE_ERRORS.intersection(namespace):
            self.note_telling(f"{min(hides)}, which can hide an error")
        yield from self.named.intersection(namespace)
        if self.reads_any_attribute:
            names = _readable(namespace)
            yield from (n for n in names if not is_dunder(n) or n == "__match_args__")
        if isinstance(owner, types.ModuleType):
            yield from {"__getattr__"}.intersection(namespace)
        else:
            yield from namespace.get("_member_names_", ())
            is_called = self._constructs_any or id(owner) in self._constructed
            is_called = is_called or not is_plain(owner)
            yield from (n for n in asked_for(owner) if is_called or n not in _CONSTRUCTORS)

    def _add_attribute(self, owner: Any, namespace: Mapping[str, Any], name: str) -> None:
        """Add the value that a module or a class has under a name."""
        value, kind = attribute_of(owner, name), type(namespace.get(name))
        if _is_of_library(owner):
            self._judge(self.function or owner, value, owner)
            return
        if not (isinstance(owner, type) or id(owner) in self._held) and _is_of_library(value):
            self.out += (MODULE, token_of(value))  # `add_module` refuses impure values in it
            return
        self._constructs_any |= kind is classmethod
        if isinstance(owner, type) and hasattr(kind, "__get__") and kind not in _NOT_OF_INSTANCES:
            functions = value[:3] if kind is property else (value,)
            if any(each is not None and passes_self(each) for each in functions):
                self._passing.setdefault(id(owner), set()).add(name)
        # A cached property keeps its result, even in a frozen instance.
        if kind is functools.cached_property:
            self.reading.stores = self.reading.stores or "a cached property"
        is_own = False  # a frozen instance has a value of its own in place of a field's default
        if name in namespace.get("__dataclass_fields__", ()):
            is_module = is_module_class(owner) or issubclass(owner, loaded("flax.linen", "Module"))
            is_own = is_module or owner.__dataclass_params__.frozen
        self.reading.reads_data |= not (is_own or _is_code(value))
        self.add(value, "live", f".{name}")


def _reached(value: Any, path: Iterable[str]) -> tuple[Any, Any]:
    """Follow a path from `value` through modules; return the last module, and the value in it."""
    holder = value
    for name in path:
        if type(value) is not types.ModuleType:
            break
        holder, value = value, getattr(value, name, None)
    return holder, value


def _is_of_library(value: Any) -> bool:
    return type(value) is types.ModuleType and is_library_module(value)


def _named_by(value: Any) -> frozenset[str]:
    """Return the attributes that a function names; none for a function of a known library.

    Leaves out attributes that are named only in functions that `value` calls.
    """
    if not isinstance(value, types.FunctionType) or is_known(value.__code__.co_filename):
        return frozenset()
    return code_of(value).attributes


@known_by_identity
def _named_in_class(cls: type) -> frozenset[str]:
    return frozenset().union(*map(_named_by, vars(cls).values()))


def is_plain(cls: type) -> bool:
    """Return True for a user's class whose attributes are read only by code that names them.

    Returns False for dataclasses, pytree types and subclasses of a library's class: libraries call
    these classes, and read attributes of their instances.
    """
    has_fields = dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")
    is_own = all(base in _BARE or not is_library_class(base) for base in cls.__mro__)
    is_asked = cls.__getattribute__ is object.__getattribute__
    return is_own and is_asked and not (has_fields or node_functions(cls))


def _readable(namespace: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names in a namespace, except the registry of an abstract class.

    The registry cannot be read. The token of `abc.get_cache_token` counts in its place.
    """
    return (name for name, value in namespace.items() if type(value) is not _REGISTRY)


_REGISTRY = type(vars(abc.ABC)["_abc_impl"])
LOGGERS = logging.Logger, logging.RootLogger
_MESSAGES = "critical debug error exception fatal info log warn warning".split()
# Methods of a logger that may read more of it than its levels and whether it is disabled.
_OF_LOGGERS = frozenset(dir(logging.Logger)).difference(
    *(dir(object), _MESSAGES, ("isEnabledFor", "getEffectiveLevel"))
)
# These flags say if a class is abstract, and if `match` takes it for a sequence or a mapping. They
# change if the class is registered, or if its `__abstractmethods__` are set.
_FLAGS = inspect.TPFLAGS_IS_ABSTRACT | 1 << 5 | 1 << 6
_BARE = (object, abc.ABC, typing.Generic, typing.Protocol)
_CONSTRUCTORS = ("__init__", "__new__")
_NOT_OF_INSTANCES = (classmethod, staticmethod, *FIELDS)
_CONSTRUCT = (type, copy.copy, copy.deepcopy)
_READ_ATTRIBUTES = REFLECTION - {"locals"}  # `locals()` names variables only
_CALLED_UNNAMED = (
    "__call__ __getattr__ __getattribute__ __setattr__ __delattr__ __get__ __set__ __delete__"
).split()


def _is_code(value: Any) -> bool:
    """Return True if a value is code. Data that it uses count when a rule reads that code."""
    return isinstance(value, _CODE) or hasattr(type(value), "__captured_options__")


_CODE = (
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type),
    *(jax.custom_jvp, jax.custom_vjp, Jitted, np.ufunc, jnp.ufunc),
)
# JAX and Equinox functions of these names may use an earlier trace of a function that the program
# does not contain. As names of attributes, only the first set counts: users may use the others.
_HIDE_TRACES_BY_NAME = frozenset("eval_shape make_jaxpr closure_convert inline trace lower".split())
_HIDE_TRACES = _HIDE_TRACES_BY_NAME.union(
    "pmap piecewise filter_jit filter_pmap noinline export".split()
)
