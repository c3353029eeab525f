"""Look up names and values in modules and classes."""

import collections
import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from .libraries import (
    is_in_place,
    is_library_class,
    is_library_function,
    is_library_module,
)

# --- values that a module has under a name ------------------------------------------------------


def loaded(module: str, name: str) -> Any:
    """Return the value that a module has under a name, if the module has been imported.

    Otherwise returns an empty tuple, for which `isinstance` and `issubclass` return False.
    """
    return getattr(sys.modules.get(module), name, ())


def is_mock(value: Any) -> bool:
    """Return True for a mock of `unittest`, which makes a mock for each attribute that is read."""
    return isinstance(value, loaded("unittest.mock", "NonCallableMock"))


def noted(function: types.FunctionType, name: str) -> Any:
    """Return the attribute `name` of a function that canonopt made; None for any other function.

    `functools.wraps` copies the attribute to a wrapper, which does something else.
    """
    module = str(function.__globals__.get("__name__"))
    is_own = module.startswith(("canonopt._identity.", "canonopt._spec."))
    return vars(function).get(name) if is_own else None


def is_stable(value: Any) -> bool:
    """Return True if `value` is a callable that a library's module has under the callable's name.

    Then each lookup of the name finds the same object.
    """
    if not callable(value):
        return False
    try:
        module = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
        return module is not None and is_library_module(module) and is_in_place(value)
    except Exception:  # an attribute of a user's class has raised the error
        return False


def is_constant(fn: Any) -> bool:
    """Return True if `fn` is known to be made only once: its module has it under some name."""
    if is_in_place(fn):
        return True
    if isinstance(fn, types.FunctionType):
        return "<locals>" not in fn.__code__.co_qualname and _holds(fn.__globals__, fn)
    # A library may keep an instance of a dataclass in a module, as a default for arguments.
    return dataclasses.is_dataclass(fn) and _holds(_module_of(fn), fn)


def is_constant_to(function: types.FunctionType | None, value: Any) -> bool:
    """Return True if `value` is in its class's module, or in a module that `function` uses."""
    namespace = {} if function is None else function.__globals__
    imported = (vars(v) for v in namespace.values() if isinstance(v, types.ModuleType))
    return any(_holds(each, value) for each in (_module_of(value), namespace, *imported))


def _module_of(value: Any) -> dict[str, Any]:
    """Return the namespace of the module in which the class of `value` is defined."""
    return getattr(sys.modules.get(str(type(value).__module__)), "__dict__", {})


def _holds(namespace: dict[str, Any], value: Any) -> bool:
    return any(each is value for each in namespace.values())


def can_tell_apart(path: tuple[str, ...], namespace: dict[str, Any]) -> bool:
    """Return True if `x is NAME.ATTRIBUTE` can tell values apart that canonopt takes for equal."""
    if not path:
        return True
    # canonopt compares some values, such as sentinels, by identity, so `is` adds nothing.
    value = namespace.get(path[0])
    for name in path[1:]:
        # `__dict__` may lack names of canonopt's modules, and members of an enum.
        is_asked = isinstance(value, types.ModuleType | enum.EnumType)
        namespace = {} if is_asked else getattr(value, "__dict__", {})
        value = getattr(value, name, None) if is_asked else namespace.get(name)
    if value is None or value is ... or isinstance(value, type | enum.Enum | types.ModuleType):
        return False
    # An object that equals only itself is compared by identity. But an array may become an
    # argument, and functions and records are compared by content.
    is_record = dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__")
    is_object = type(value).__eq__ is object.__eq__ and not (callable(value) or is_record)
    return not is_object or hasattr(value, "__array__")


# --- attributes of classes ----------------------------------------------------------------------


# The types of the descriptors for slots of classes, and for fields of named tuples.
FIELDS = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType),
    type(vars(collections.namedtuple("_Named", "name"))["name"]),
)


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# Libraries look up these attributes of the instances of users' classes.
_ASKED_FOR = frozenset(
    "init update setup tree_flatten tree_unflatten tree_flatten_with_keys keys shape dtype "
    "weak_type sharding on_get_value on_set_value on_create_value on_add_axis "
    "on_remove_axis".split()
)


def asked_for(cls: type) -> Iterator[str]:
    """Yield the names of the attributes of a user's class that Python or a library looks up.

    These are special methods, attributes that override those of a library's class, and the names
    in `_ASKED_FOR`.
    """
    bases = [base for base in cls.__mro__ if base is not object and is_library_class(base)]
    for name, value in vars(cls).items():
        is_special = is_dunder(name) or any(name in vars(base) for base in bases)
        if name in _ASKED_FOR:
            yield name
        elif is_special and not (name in _WRITTEN or isinstance(value, FIELDS)):
            # A name like `_x` counts only if it is a method, or a number or None in place of one.
            is_method = callable(value) or hasattr(type(value), "__get__")
            is_read = is_method or value is None or isinstance(value, int | float)
            if name in ("__repr__", "__hash__") and isinstance(value, types.FunctionType):
                # Dataclasses and pydantic make these two methods from the fields.
                is_read = not is_library_function(value)
            if is_read or not name.startswith("_"):
                yield name


# Python writes these attributes into a class, and no code looks them up.
_WRITTEN = ("__module__", "__doc__", "__firstlineno__", "__slots__", "__static_attributes__")


def attribute_of(owner: Any, name: str) -> Any:
    """Return the value that a module or a class has under a name, without its descriptor.

    Returns the function in a method or cached property, the functions and docstring of a property,
    or the member of an enum. For a slot or a field of a named tuple, whose value only instances
    have, returns item 1 of its `__reduce__()`. For `__dict__` and the like, returns None.
    """
    if isinstance(owner, enum.EnumType) and name in owner.__members__:
        return owner.__members__[name]
    value = vars(owner)[name]
    kind = type(value)  # a subclass may do something else
    if kind in (staticmethod, classmethod):
        return value.__func__
    if kind is property:
        return (value.fget, value.fset, value.fdel, value.__doc__)
    if kind is functools.cached_property:
        return value.func
    if kind is types.GetSetDescriptorType:  # such as `__dict__`
        return None
    return value.__reduce__()[1] if isinstance(value, FIELDS) else value
