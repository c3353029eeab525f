"""What modules and classes have under a name."""

import dataclasses
import enum
import functools
import gc
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from .libraries import is_library_class, is_library_function, is_library_module
from .weak import WeakIdMap

# --- values that a module has under a name ------------------------------------------------------

_stable: WeakIdMap[bool] = WeakIdMap()


def is_stable(value: Any) -> bool:
    """Return True if `value` is what the module of a library has under its name.

    Then it is the same object whenever it is looked up.
    """
    if _stable.get(value):
        return True
    module = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
    if module is None or not is_library_module(module) or not is_in_place(value):
        return False
    _stable.setdefault(value, True)
    return True


def is_stable_callable(value: Any) -> bool:
    """The same for any object: False for one that cannot be called, or fails to say what it is."""
    if not callable(value):
        return False
    try:
        return is_stable(value)
    except Exception:  # an attribute of the user's
        return False


def import_later(namespace: dict[str, Any], name: str, module: str) -> Any:
    """The value of `name` in a module of the package with this namespace, which keeps it.

    For the `__getattr__` of a package that imports some modules when they are asked for.
    """
    found = getattr(importlib.import_module(f".{module}", namespace["__name__"]), name)
    namespace[name] = found
    return found


def loaded(module: str, name: str) -> Any:
    """Return what a module has under a name, if it has been imported.

    Otherwise an empty tuple, of which nothing is an instance or a subclass.
    """
    return getattr(sys.modules.get(module), name, ())


def is_in_place(value: Any) -> bool:
    """Return True if the module of `value` has it under its name, as functions and classes."""
    found: Any = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str) or "<" in name:
        return False
    for part in name.split("."):
        # A class may have a function in a descriptor, and `getattr` makes a method of it.
        found = getattr(found, "__dict__", {}).get(part)
    return getattr(found, "__func__", found) is value


def is_name_of_code(name: str) -> bool:
    """Return True if a function or a class has this name, or will once its code has run.

    Walks all objects of the garbage collector, some 0.1 s if there is none.
    """
    codes = {}
    for value in gc.get_objects():
        kind = type(value)  # `isinstance` may run code of an object that stands for another
        if issubclass(kind, types.FunctionType | type) and value.__name__ == name:
            return True
        if kind is types.FunctionType:
            codes[id(value.__code__)] = value.__code__
    found = [*codes.values()]
    for code in found:
        found += (inner for inner in code.co_consts if isinstance(inner, types.CodeType))
    return any(code.co_name == name for code in found)


def is_constant(fn: Any) -> bool:
    """Return True if a module has `fn` under any name, so that it is one object already."""
    if is_in_place(fn):
        return True
    if isinstance(fn, types.FunctionType):
        return "<locals>" not in fn.__code__.co_qualname and _holds(fn.__globals__, fn)
    # An instance that stands for a default.
    return dataclasses.is_dataclass(fn) and _holds(_module_of(fn), fn)


def is_constant_to(function: types.FunctionType | None, value: Any) -> bool:
    """Return True if the module of its class, or one that `function` uses, has a name for it."""
    if _holds(_module_of(value), value):
        return True
    if function is None:
        return False
    imported = (v for v in function.__globals__.values() if isinstance(v, types.ModuleType))
    return any(_holds(space, value) for space in (function.__globals__, *map(vars, imported)))


def _module_of(value: Any) -> dict[str, Any]:
    """The namespace of the module in which the class of `value` is defined."""
    return getattr(sys.modules.get(str(type(value).__module__)), "__dict__", {})


def _holds(namespace: dict[str, Any], value: Any) -> bool:
    return any(each is value for each in namespace.values())


def can_tell_apart(path: tuple[str, ...], namespace: dict[str, Any]) -> bool:
    """Return True if `x is NAME` or `x is NAME.ATTRIBUTE` can tell values of one key apart."""
    if not path:
        return True
    # Other values, such as a sentinel, are compared by identity in any case.
    value = namespace.get(path[0])
    for name in path[1:]:
        if isinstance(value, types.ModuleType):
            value = getattr(value, name, None)  # canonopt has its names when they are asked for
            continue
        of_enum = value.__members__ if isinstance(value, enum.EnumType) else {}
        value = of_enum.get(name, getattr(value, "__dict__", {}).get(name))
    is_record = dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__")
    is_equal_to_others = isinstance(value, types.FunctionType | functools.partial | tuple | str)
    is_lifted = hasattr(value, "__array__")  # an array may become an argument
    return not isinstance(value, type | enum.Enum) and (
        is_record or is_equal_to_others or is_lifted
    )


# --- attributes of classes ----------------------------------------------------------------------


class _Named(NamedTuple):
    name: str


# What a class has for a slot, and a named tuple for a field.
_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(_Named)["name"]))


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# Attributes that libraries ask the instances of users for.
_ASKED_FOR = frozenset(
    "init update setup tree_flatten tree_unflatten tree_flatten_with_keys keys shape dtype".split()
)


def asked_for(cls: type) -> list[str]:
    """Return the attributes of a user's class that Python or a library asks for by their names.

    That is its special methods, and what it defines in place of what a library's class has.
    """
    bases = [base for base in cls.__mro__ if base is not object and is_library_class(base)]
    return [
        name
        for name, value in vars(cls).items()
        if name in _ASKED_FOR
        or (
            (callable(value) or hasattr(type(value), "__get__"))
            and (is_dunder(name) or any(name in vars(base) for base in bases))
            and not isinstance(value, _FIELDS)
            and not (name == "__repr__" and _is_made_by_library(value))  # by dataclasses
        )
    ]


def _is_made_by_library(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and is_library_function(value)


def attribute_of(owner: Any, name: str) -> Any:
    """Return what a module or a class has under a name, without the descriptor around it.

    The function in a method, a property or a cached property; the member of an enum; None for a
    field, which has a value in instances only.
    """
    if isinstance(owner, type) and issubclass(owner, enum.Enum) and name in owner.__members__:
        return owner.__members__[name]
    value = vars(owner)[name]
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return (value.fget, value.fset)
    if type(value) is functools.cached_property:
        return value.func
    return None if isinstance(value, _FIELDS) else value


class ClassAttribute:
    """A descriptor for an attribute of a class, not of its instances, made when it is read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._value = functools.cache(make)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._value()
        raise AttributeError(f"only the class {owner.__name__!r} has this attribute")


class InstanceAttribute:
    """A descriptor for a method that instances have and their class does not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return functools.partial(self._method, instance)
        raise AttributeError(f"only instances of {owner.__name__!r} have this attribute")
