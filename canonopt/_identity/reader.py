"""A walk over values that writes down all that they are, and all that they read."""

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .._jax_internals import Jitted
from .._python_internals import Code, WeakIdMap, is_library_class, is_library_module, token_of
from .incomparable import (
    HIDDEN,
    TOO_LARGE,
    Incomparable,
    impure,
)

# How a value is reached, which decides whether its identity counts:
# - "given": an argument of a factory. Containers count by what is in them; arrays are refused.
# - "held": something holds it for good, as a function holds what it captured. If it can change,
#   two that look alike may differ later, so its identity counts as well.
# - "live": it was looked up in something of which the identity counts already, as a global is in
#   its module. The next one to look finds the same, so what is in it is enough.
Mode: TypeAlias = Literal["given", "held", "live"]


def inside(mode: Mode) -> Mode:
    """How the parts of a function are reached: it holds them, whoever has the function."""
    return "live" if mode == "live" else "held"


ITEMS = 20_000  # objects that one reading looks at, at most


class HoldsArray(Exception):
    """The value is or contains an array: a leaf, neither compared nor interned."""


class IdentityAsked(Exception):
    """Code that compares objects with `is` has been found."""


class _Mark:
    """A word of the keys. Equal to itself only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


AGAIN, LATER, IDENTITY, MODULE, BUILTIN, FIELD, UNBOUND = map(
    _Mark, ("again", "later", "identity", "module", "builtin", "field", "unbound")
)
_MISSING: Any = object()
Rule: TypeAlias = "Callable[[Reading, Any, Mode], None]"
ATOMS = frozenset((type(None), bool, int, str, bytes, type(...)))


class Reading:
    """What was read of some values, at one moment: a walk over them that writes their key."""

    # Whether another build can be the same. If not, the key equals no other.
    is_comparable = True
    # Whether reading the same values later can give another key.
    can_change = False
    # Whether some of that is data, and not only code that could be defined again.
    reads_data = False
    # Whether lists or dicts were given. Their identity does not count, so equal ones can part.
    has_containers = False
    # What another build is not likely to have, if asked for.
    doubts: list[Incomparable] | None = None
    # Whether code that was read compares objects with `is`.
    identity_counts = False
    # The function that was met last: what its module has is no cause for doubt.
    function: Any = None
    _asks_for_all = False

    def __init__(self, rules: dict[type, "Rule"], rule_for: Callable[[Any], "Rule"]) -> None:
        self._rules, self._rule_for = rules, rule_for
        self.key: tuple[Hashable, ...] = ()
        self.out: list[Hashable] = []
        # What counts by identity and cannot be weakly referenced: kept as long as the key is.
        self.pinned: list[Any] = []
        # The functions that were read, with their parts; None if that is not all there is to
        # compare with what was read, besides the lists and dicts that were given.
        self.functions: list[tuple[Any, ...]] | None = []
        self._later: list[tuple[Any, Mode]] = []
        # From the id of a value that was read to its place in the order, and how it was reached.
        self._seen: dict[int, tuple[int, Mode]] = {}
        self._kept: list[Any] = []  # or another object could come to have such an id
        # The attributes that code which was read asks for, and the modules and classes of the
        # user's that it may ask.
        self._asked: list[Iterable[str]] = []
        self._owners: list[tuple[Any, set[str]]] = []

    def read(self, held: Iterable[Any], given: Iterable[Any]) -> "Reading":
        for value in held:
            self.add(value, "held")
        for value in given:
            self.add(value, "given")
        self._later.reverse()
        self.finish()
        self.key = tuple(self.out)
        # What served the walk only, and would keep values alive.
        del self.out, self._later, self._seen, self._kept, self._asked, self._owners
        self.function = None
        return self

    def finish(self) -> None:
        """Reads all that has been added."""
        later, rule_of = self._later, self._rules.get
        while later or self._read_owners():
            if not later:
                continue
            value, mode = later.pop()
            start = len(later)
            try:
                # By the type itself: a proxy says that it is an instance of something else.
                (rule_of(type(value)) or self._rule_for(value))(self, value, mode)
            except (HoldsArray, IdentityAsked):
                raise
            except Exception:  # of an attribute of the user's
                self.stop(value, HIDDEN)
            if len(later) - start > 1:
                # The parts in their order, and before what comes after the whole.
                later[start:] = later[: start - 1 : -1] if start else later[::-1]

    # --- what a rule may do -------------------------------------------------------------------

    def add(self, value: Any, mode: Mode) -> None:
        """Reads one part of the value that is being read."""
        kind = type(value)
        if kind in ATOMS:
            self.out += (kind, value)
        elif kind is float:
            # 0.0 == -0.0 and nan != nan, while their texts are right in both cases.
            self.out += (float, value if value and value == value else repr(value))
        elif kind is types.ModuleType:
            self._module(value)
        else:
            self.out.append(LATER)
            self._later.append((value, mode))

    def add_all(self, values: Iterable[Any], mode: Mode) -> None:
        values = tuple(values)
        self.out.append(len(values))
        for value in values:
            self.add(value, mode)

    def add_named(self, values: dict[Any, Any], mode: Mode, owned: bool = False) -> None:
        """Reads a mapping, in its order, since a factory may read it in order.

        `owned` says that dicts in it are not changed: those that Equinox keeps of a class.
        """
        self.out.append(len(values))
        for name, value in values.items():
            self.add(name, mode)
            if type(value) is dict and (owned or name == "__annotations__"):
                self.add_named(value, mode)
            else:
                self.add(value, mode)

    def read_instead(self, value: Any, mode: Mode) -> None:
        """Reads `value` in place of the one that is being read."""
        (self._rules.get(type(value)) or self._rule_for(value))(self, value, mode)

    def is_again(self, value: Any, mode: Mode) -> bool:
        """Whether `value` has been met in this reading; if so, the key says where.

        So two parts that are one object are not taken for two that look alike.
        """
        seen = self._seen.get(id(value))
        if seen is None:
            if len(self._kept) >= ITEMS:
                self._later.clear()
                self.stop(self._kept[0], TOO_LARGE)
                return True
            self._seen[id(value)] = (len(self._kept), mode)
            self._kept.append(value)
            if self.identity_counts:
                self.identity(value)
            return False
        place, first = seen
        self.out += (AGAIN, place)
        if first == "live" and mode != "live":
            self.identity(value)
        return True

    def identity(self, value: Any) -> None:
        """Has the identity of `value` count."""
        try:
            self.out += (IDENTITY, token_of(value))
        except TypeError:
            self.out += (IDENTITY, id(value))
            self.pinned.append(value)

    def of_what_can_change(self, value: Any, mode: Mode, why: tuple[str, str]) -> Mode:
        """How the parts of something that can change are reached."""
        self.can_change = True
        if mode == "given":
            self.has_containers = True
            return mode
        self.reads_data = True
        if mode == "held":
            self.identity(value)
            self.doubt(value, why)
        return "live"

    def doubt(self, value: Any, why: tuple[str, str]) -> None:
        """Notes that another build is not likely to have the same `value`."""
        if self.doubts is not None and not _is_constant(value, self.function):
            self.doubts.append(Incomparable(value, *why))

    def stop(self, value: Any, why: tuple[str, str] = HIDDEN) -> None:
        """Says that `value` cannot be read, so that nothing with it in it is ever the same."""
        self.out.append(object())
        self.is_comparable = False
        self.doubt(value, why)

    def unfinished(self) -> "Reading":
        """A reader for a part that has to be read whole before the rest, as if it was this one."""
        inner = Reading(self._rules, self._rule_for)
        inner.identity_counts = self.identity_counts
        inner._seen, inner._kept, inner.pinned = self._seen, self._kept, self.pinned
        inner._asked, inner._owners = self._asked, self._owners
        inner.doubts, inner.functions = self.doubts, self.functions
        return inner

    def take(self, inner: "Reading") -> None:
        """Adds what an inner reader has read to the end."""
        self.out += inner.out
        self.reads_data |= inner.reads_data
        self.can_change |= inner.can_change
        self.has_containers |= inner.has_containers
        self._asks_for_all |= inner._asks_for_all
        self.is_comparable &= inner.is_comparable

    # --- names: globals, and attributes of modules and classes --------------------------------

    def globals_of(self, function: types.FunctionType, code: Code) -> None:
        """Reads the globals that the code of `function` names, with the values they have now."""
        namespace = function.__globals__
        self.can_change = True
        self._asked.append(code.attributes)
        for name in code.identity_tests:
            if not self.identity_counts and _can_tell(name, namespace):
                raise IdentityAsked
        for name in code.globals:
            value = namespace.get(name, _MISSING)
            if value is _MISSING:
                self.out.append(BUILTIN)
                if name in _REACHING:
                    self._asks_for_all = True
                elif name in _UNSEEN:
                    self.stop(function, impure(f"{name}()"))
                elif name == "id" and not self.identity_counts:
                    raise IdentityAsked
                continue
            self.reads_data |= not isinstance(value, _CODE)
            if type(value) is types.ModuleType:
                self.check_pure(function, name, value, code)
            self.add(value, "live")
        for name in code.imports:
            package = namespace.get("__package__") or ""
            found = sys.modules.get(name) or sys.modules.get(f"{package}.{name}")
            if found is None:
                self.stop(function, impure(f"the module {name!r}"))
            else:
                self.check_pure(function, None, found, code)
                self.add(found, "live")

    def check_pure(
        self, function: Any, name: str | None, module: types.ModuleType, code: Code
    ) -> None:
        """Stops if `function` asks a module, which it has as `name`, for what is never the same."""
        impure_names = _IMPURE.get(module.__name__)
        if impure_names is None:
            return
        asked = {attribute for owner, attribute in code.paths if name in (owner, None)}
        found = asked & impure_names if impure_names else asked or {""}
        for attribute in sorted(found):
            self.stop(function, impure(f"{module.__name__}.{attribute}".rstrip(".")))

    def _module(self, module: types.ModuleType) -> None:
        token = _library_tokens.get(module)
        if token is None:
            token = token_of(module)
            if is_library_module(module):
                _library_tokens.setdefault(module, token)
            else:
                self.can_change = True
                self.may_be_asked(module)
        self.out += (MODULE, token)

    def asks(self, names: Iterable[str]) -> None:
        """Notes attributes that code asks modules and classes for."""
        self._asked.append(names)

    def may_be_asked(self, owner: Any) -> None:
        """Has those attributes of a module or a class read that code asks for."""
        if not any(known is owner for known, _ in self._owners):
            self._owners.append((owner, set()))

    def _read_owners(self) -> bool:
        """Reads the attributes that code asks for by now. False if there were no more."""
        if not self._owners:
            return False
        before, asked = len(self.out), {name for names in self._asked for name in names}
        for owner, done in self._owners:
            namespace: Any = vars(owner)
            if self._asks_for_all:
                names = [name for name in namespace if not _is_dunder(name)]
            else:
                names = [name for name in asked if name in namespace]
            if isinstance(owner, type):
                names += [name for name in namespace if _is_method(name, namespace[name])]
            names = {*names} - namespace.get("__dataclass_fields__", {}).keys()  # only defaults
            for name in sorted(names - done):
                done.add(name)
                self.can_change = True
                self.out += (FIELD, name)
                value = _without_descriptor(_member(owner, name) or namespace[name])
                self.reads_data |= not isinstance(value, _CODE)
                self.add(value, "live")
        return len(self.out) > before

    def class_of(self, cls: type) -> None:
        """Reads a class: the user's by identity and by what code asks of it."""
        self.out.append(token_of(cls))
        meta: Any = type(cls)
        for base in (*cls.__mro__, *meta.__mro__):
            if not is_library_class(base):
                self.may_be_asked(base)


_library_tokens: WeakIdMap[int] = WeakIdMap()


# --- names that reach further than the code says --------------------------------------------------

# What a global name usually stands for.
_CODE = (
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type),
    *(jax.custom_jvp, jax.custom_vjp, Jitted, np.ufunc, jnp.ufunc),
)
# With these, code can ask for attributes that it does not name.
_REACHING = frozenset(("getattr", "vars", "hasattr", "dir"))
# With these, it can read what no reading sees.
_UNSEEN = frozenset(("globals", "eval", "exec", "__import__", "open", "input"))
# Modules that can give something else at each call; the attributes that do, or () for all.
_IMPURE: dict[str, frozenset[str]] = {
    **dict.fromkeys(("random", "time", "secrets", "uuid", "numpy.random"), frozenset()),
    "numpy": frozenset(("random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap")),
    "datetime": frozenset(("datetime", "date")),
    "os": frozenset(("environ", "environb", "getenv", "urandom", "listdir", "getcwd", "stat")),
    "sys": frozenset(("argv", "modules", "path", "flags", "_getframe", "gettrace")),
    "importlib": frozenset(("import_module", "reload")),
    "inspect": frozenset(("currentframe", "stack", "getsource")),
}


def is_impure(function: Any) -> bool:
    """Whether a function of a library can give something else at each call: `time.time`."""
    names = _IMPURE.get(str(getattr(function, "__module__", None)))
    return names is not None and (not names or function.__name__ in names)


def _can_tell(name: str | None, namespace: dict[str, Any]) -> bool:
    """Whether `x is NAME` can tell two values apart that count as the same."""
    if name is None:
        return True
    # Whatever has no value counts by identity anyway: None, a class, a sentinel.
    value = namespace.get(name)
    if isinstance(value, type):
        return False
    is_record = dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__")
    return is_record or isinstance(value, types.FunctionType | functools.partial | tuple | str)


def _is_constant(value: Any, function: types.FunctionType | None) -> bool:
    """Whether a module has `value` under some name: that of its type, or one `function` uses."""
    spaces = []
    if (module := sys.modules.get(str(type(value).__module__))) is not None:
        spaces.append(vars(module))
    if function is not None:
        imported = (v for v in function.__globals__.values() if isinstance(v, types.ModuleType))
        spaces += [function.__globals__, *map(vars, imported)]
    return any(constant is value for space in spaces for constant in space.values())


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# What a library calls of an instance that it is handed.
_CALLED = frozenset(("init", "update", "setup", "tree_flatten", "tree_unflatten"))


def _is_method(name: str, value: Any) -> bool:
    """Whether others than the code that was read may call this attribute of a class."""
    is_known = name in _CALLED or (_is_dunder(name) and name != "__repr__")
    return is_known and isinstance(value, types.FunctionType | staticmethod | classmethod)


def _member(owner: Any, name: str) -> Any:
    """The member of an enum, for which its class has a descriptor."""
    is_enum = isinstance(owner, type) and issubclass(owner, enum.Enum)
    return owner.__members__.get(name) if is_enum else None


class _Named(NamedTuple):
    name: str


# What a class has for a slot, and a named tuple for a field.
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(_Named)["name"]))


def _without_descriptor(value: Any) -> Any:
    """The function inside of a method, a property or a cached property."""
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return (value.fget, value.fset)
    if type(value).__module__ == "functools" and type(value).__name__ == "cached_property":
        return value.func
    if isinstance(value, _FIELDS):
        return None
    return value
