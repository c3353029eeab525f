"""Rules that read classes and instances for a key, and `register_constant`.

An instance counts by value if its class says that the attributes do not change: a frozen
dataclass, a frozen attrs class or an `equinox.Module`. Any other instance may change after it is
read, so in the mode "held" its identity counts as well. But the user may promise with
`register_constant` that instances of a class do not change, and give a key for them.
"""

import dataclasses
import enum
import functools
import logging
import pathlib
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal, TypeVar, overload

from .._jax_internals.functions import is_module_class, node_functions
from .._python_internals.libraries import impure_name, is_library_class
from .._python_internals.namespaces import is_mock, loaded
from .._python_internals.weak import WeakIdMap, known_by_identity
from ..errors import CHANGES, HIDDEN, NO_VALUE, ConstantError, impure, mutable
from .reader import LOGGERS, UNBOUND, Mode, Reader, fixed, is_plain

# --- promises -----------------------------------------------------------------------------------

C = TypeVar("C", bound=type)
Key = Callable[[Any], Any]

# Maps each registered class to a tuple with one item: its key function, or None if it has none.
_promised: WeakIdMap[tuple[Key | None]] = WeakIdMap()


@overload
def register_constant(cls: C, key: Callable[[Any], Hashable] | None = None) -> C: ...
@overload
def register_constant(
    cls: None = None, key: Callable[[Any], Hashable] | None = None
) -> Callable[[C], C]: ...
def register_constant(cls: Any = None, key: Key | None = None) -> Any:
    """Promise that the instances of a class do not change after they are made.

    Frozen dataclasses, frozen attrs classes and `equinox.Module`s need no promise. For any other
    class without a promise, two masks or schedules that capture an instance are the same only if
    they capture the same, unchanged object. canonopt reads the whole object again at each trace.

    ```python
    >>> import canonopt
    >>> @canonopt.register_constant(key=lambda config: config.rate)
    ... class Config:
    ...     def __init__(self, rate):
    ...         self.rate = rate
    >>> def build(config):
    ...     return canonopt.sgd(lambda count: config.rate / (count + 1))
    >>> build(Config(0.1)) is build(Config(0.1)), build(Config(0.1)) is build(Config(0.2))
    (True, False)

    ```

    If an instance changes despite the promise, a compiled step continues with the earlier values.

    **Arguments:**

    - `cls`: the class. Its subclasses are not included, because they may add attributes that
        change. A second promise about a class replaces the first.
    - `key`: a function of an instance. Two instances are the same if their keys are equal. Without
        `key`, an instance equals only itself.

    **Returns:** `cls`, or a decorator if `cls` is not given.

    **Raises:** `ConstantError` if `cls` is not a class, or `key` is not callable.
    """
    if key is not None and not callable(key):
        raise ConstantError(
            f"canonopt.register_constant takes a function as key, not {key!r}.",
            "Write key=lambda instance: (instance.a, instance.b).",
        )
    if cls is None:
        return lambda decorated: register_constant(decorated, key)
    if not isinstance(cls, type):
        raise ConstantError(
            f"canonopt.register_constant takes a class, not {cls!r}.",
            "For the class of an instance, write canonopt.register_constant(type(instance)).",
        )
    _promised.set(cls, (key,))
    return cls


# --- classes ------------------------------------------------------------------------------------


def read_class(reader: Reader, value: type, mode: Mode) -> None:
    reader.add_class(value)
    reader.note_reached(value)
    if not is_library_class(value):
        reader.reading.can_change = True
    elif name := impure_name(value):
        reader.stop(reader.function or value, impure(name))


def read_enum(reader: Reader, value: enum.Enum, mode: Mode) -> None:
    if isinstance(value, list | dict | set):
        reader.stop(value, CHANGES)
        return
    reader.add_identity(value)
    if not is_library_class(type(value)):
        reader.add_class(type(value))
        attributes = {n: part for n, part in vars(value).items() if n not in _OF_ENUM}
        reader.reading.can_change = True
        reader.add_named(attributes, "live")


# `enum` itself sets these attributes of a member.
_OF_ENUM = frozenset(("_name_", "_sort_order_", "__objclass__"))


# --- where instances keep their state -----------------------------------------------------------


_BASES = (object, types.SimpleNamespace, dict, list, tuple)


@known_by_identity
def _layout_of(cls: type) -> tuple[type | None, list[types.MemberDescriptorType]]:
    """Return the first class in the MRO of `cls` that is in `_BASES`, and the slots of `cls`.

    Returns None and an empty list if instances may keep state in C, which Python cannot read.
    """
    base = next(base for base in cls.__mro__ if base in _BASES)
    slots = [
        member
        for each in cls.__mro__[: cls.__mro__.index(base)]
        for member in vars(each).values()
        if isinstance(member, types.MemberDescriptorType)
    ]
    # Each slot gets a name of its own, because a subclass may repeat a slot of its base.
    extra = [f"{member.__name__}_{i}" for i, member in enumerate(slots)]
    if cls.__dictoffset__ and not base.__dictoffset__:
        extra.append("__dict__")
    if cls.__weakrefoffset__ and not base.__weakrefoffset__:
        extra.append("__weakref__")
    try:
        # If two classes written in Python have the same slots, their instances have the same size.
        # So instances that are larger than those of `twin` keep something in C.
        # Python does not allow slots in a subclass of `tuple`.
        twin = type("twin", (base,), {} if base.__itemsize__ else {"__slots__": tuple(extra)})
    except TypeError:
        return None, []
    return (base, slots) if cls is base or twin.__basicsize__ == cls.__basicsize__ else (None, [])


@known_by_identity
def _is_frozen(cls: type) -> bool:
    """Return True if `cls` declares that instances do not change, and compares them by fields.

    Such instances are the same if their fields are the same. Others count as mutable.
    """
    if is_module_class(cls):
        return True
    # `getattr` would also find the parameters of a base class, but a subclass need not be frozen.
    dataclass = vars(cls).get("__dataclass_params__")
    if dataclass is not None:
        is_frozen = dataclass.frozen and dataclass.eq
    else:
        is_frozen = "__attrs_attrs__" in vars(cls) and (
            cls.__setattr__.__name__ == "_frozen_setattrs" and cls.__eq__ is not object.__eq__
        )
    # A class with its own `__new__` may keep something that no field shows.
    return is_frozen and cls.__new__ is object.__new__


@known_by_identity
def static_fields(cls: type) -> tuple[str, ...]:
    """Return the names of the static fields of a subclass of `equinox.Module`."""
    fields = dataclasses.fields(cls)
    return tuple(field.name for field in fields if field.metadata.get("static", False))


@known_by_identity
def _is_known_to_jax(cls: type) -> bool:
    """Return True for a class of JAX that is neither a pytree nor a dataclass.

    JAX keeps data about instances of such a class elsewhere, by their identity: for example, the
    rules of a primitive, or the value of a `jax.Ref`.
    """
    is_of_jax = cls.__module__.startswith(("jax.", "jaxlib.")) and is_library_class(cls)
    has_fields = dataclasses.is_dataclass(cls)  # such as a `BlockSpec`, which users may change
    return is_of_jax and not (has_fields or node_functions(cls))


def state_of(cls: type) -> Literal["attributes", "slots"] | None:
    """Return "attributes" or "slots" if these alone define an instance of `cls`; else None."""
    base, slots = _layout_of(cls)
    if _promised.get(cls) is not None or _is_known_to_jax(cls) or base is not object:
        return None
    if not slots:
        return "attributes"
    return None if cls.__dictoffset__ else "slots"


def slots_of(value: Any) -> Iterator[tuple[types.MemberDescriptorType, Any]]:
    """Yield the slots of an instance, each with its value: `UNBOUND` if it has none."""
    for slot in _layout_of(type(value))[1]:  # also slots that a subclass hides
        try:
            yield slot, slot.__get__(value)
        except AttributeError:
            yield slot, UNBOUND


def is_frozen(value: Any) -> bool:
    """Return True for an instance that consists of attributes which do not change."""
    return is_frozen_record(type(value)) or _is_unbound_linen_module(value)


def is_frozen_record(cls: type) -> bool:
    """Return True if instances of `cls` consist of attributes that do not change."""
    return state_of(cls) == "attributes" and _is_frozen(cls)


def is_sentinel(value: Any) -> bool:
    """Return True for an `object()`, or an instance of a library's class that holds no values."""
    cls = type(value)
    is_simple = is_library_class(cls) and state_of(cls) == "attributes"
    return cls is object or (is_simple and not attributes_of(value))


def is_namedtuple(kind: type) -> bool:
    """Return True for a type of named tuples that have no attributes besides their fields."""
    return kind.__bases__ == (tuple,) and hasattr(kind, "_fields") and not kind.__dictoffset__


def is_record(kind: type) -> bool:
    """Return True for a type of named tuple or Optax transformation: its fields are its parts."""
    return is_namedtuple(kind) or issubclass(kind, loaded("optax", "GradientTransformation"))


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the `__dict__` of an instance, or {}, without calling its `__getattribute__`."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


# --- instances ----------------------------------------------------------------------------------


def read_instance(reader: Reader, value: Any, mode: Mode) -> None:
    cls = type(value)
    if (promise := _promised.get(cls)) is not None:
        (key,) = promise
        reader.add_class(cls)
        if key is None:
            reader.add_identity(value)
        else:
            reader.add_identity(key)  # an earlier promise may have had another `key`
            reader.add(key(value), "live")
        return
    base, _ = _layout_of(cls)
    if is_mock(value):
        reader.stop(value, HIDDEN)
    elif _counts_by_attributes(reader, value, mode):
        if not reader.was_seen(value, mode):
            reader.add_class(cls)
            reader.enter_mutable(value, mode, mutable(value, is_library_class(cls)))
            reader.was_seen(attributes_of(value), mode)  # two instances may share a `__dict__`
        reader.add_instance(value)
    elif _is_known_to_jax(cls):
        _read_of_jax(reader, value)
    elif base is None:
        reader.stop(value, HIDDEN)
    elif not reader.was_seen(value, mode):
        reader.add_class(cls)
        if is_sentinel(value):
            is_found_again = mode == "live" and cls is not object  # as a Flax descriptor is
            reader.add_identity(value, None if is_found_again else NO_VALUE)
        else:
            _read_state(reader, value, base, mode)


def _counts_by_attributes(reader: Reader, value: Any, mode: Mode) -> bool:
    """Return True if a key has only those attributes of an instance that code names.

    If code also passes the instance on, the key has all of them.
    """
    if not reader.is_by_name(value, mode):
        return False
    cls = type(value)
    is_mutable = state_of(cls) == "attributes" and not _is_frozen(cls)
    return is_mutable and cls is not object and (is_plain(cls) or cls in LOGGERS)


def _read_of_jax(reader: Reader, value: Any) -> None:
    """Read an object of JAX by its identity and by the functions among its attributes.

    A primitive is not comparable: JAX keeps its rules elsewhere, and users may write such rules.
    """
    if isinstance(value, loaded("jax.extend.core", "Primitive")):
        reader.stop(value, HIDDEN)
        return
    reader.add_identity(value, NO_VALUE)
    parts = {**attributes_of(value), **{slot.__name__: part for slot, part in slots_of(value)}}
    functions = {n: p for n, p in parts.items() if isinstance(p, _MADE_OF_FUNCTIONS)}
    reader.reading.can_change |= bool(functions)
    reader.add_named(functions, "live")


_MADE_OF_FUNCTIONS = types.FunctionType | functools.partial | types.MethodType


def _read_state(reader: Reader, value: Any, base: type, mode: Mode) -> None:
    cls, attributes = type(value), attributes_of(value)
    if attributes is value:  # `value` is a dict whose items are its attributes
        attributes = {}
    if attributes and reader.was_seen(attributes, mode):
        reader.stop(value)  # two instances share a `__dict__`
        return
    is_of_equinox = cls.__module__.startswith("equinox.")
    if _is_unbound_linen_module(value):
        attributes = {n: part for n, part in attributes.items() if n not in _OF_LINEN}
    elif not _is_frozen(cls):
        reason = mutable(value, is_library_class(cls))
        mode = reader.enter_mutable(value, "held" if mode == "given" else mode, reason)
        reader.note_passed(cls)
    if mode in ("given", "now") and is_module_class(cls):
        # The leaves of a module have the mode of the module, as in a dict. But static fields may
        # hold an object, such as a list, that the user can still change.
        names = static_fields(cls)
        static = {name: part for name, part in attributes.items() if name in names}
        reader.add_named(static, "held" if mode == "given" else "fixed", immutable=is_of_equinox)
        attributes = {name: part for name, part in attributes.items() if name not in names}
    elif mode == "given" and not is_frozen_record(cls):
        mode = "held"
    reader.add_named(attributes, mode, immutable=is_of_equinox)
    for _, part in slots_of(value):
        reader.add(part, mode)
    # Read the items with the methods of the base, because a subclass may override the methods.
    if base is dict:
        reader.add_named(dict(dict.items(value)), mode)
    elif base in (list, tuple):
        reader.add_all(base.__iter__(value), mode)


# These attributes say where a Flax module is bound, and not what it computes.
_OF_LINEN = frozenset(("parent", "scope", "_parent_ref", "_id", "_state"))


def _is_unbound_linen_module(value: Any) -> bool:
    """Return True for a Flax module that is not yet bound to variables: its fields define it."""
    is_linen = isinstance(value, loaded("flax.linen", "Module"))
    return is_linen and vars(value).get("scope") is None and vars(value).get("parent") is None


# Instances of these library classes do not change. Each class is listed with the attributes that
# define an instance: the other attributes of the instance are computed from them.
_IMMUTABLE: dict[str, tuple[str, ...]] = {
    "flax.core.frozen_dict.FrozenDict": ("_dict",),
    "flax.typing.HashableMapping": ("_mapping",),  # the static data of nnx modules
    # Pydantic makes one object of each of these types per model class, from the class definition.
    "pydantic_core._pydantic_core.SchemaSerializer": (),
    "pydantic_core._pydantic_core.SchemaValidator": (),
}


def is_immutable(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}" in _IMMUTABLE


def read_immutable(reader: Reader, value: Any, mode: Mode) -> None:
    kind = type(value)
    reader.add_class(kind)
    names = _IMMUTABLE[f"{kind.__module__}.{kind.__qualname__}"]
    parts = {name: getattr(value, name) for name in names}
    reader.add_named(parts, fixed(mode), immutable=True)


def read_logger(reader: Reader, value: logging.Logger, mode: Mode) -> None:
    """Read a logger's levels, whether it is disabled, and those attributes that code names.

    As with `print`, a program does not depend on where a message goes.
    """
    levels = value.getEffectiveLevel(), value.manager.disable
    reader.out += (*levels, value.disabled)
    read_instance(reader, value, mode)


def read_path(reader: Reader, value: pathlib.PurePath, mode: Mode) -> None:
    if not is_library_class(type(value)):  # a user's class may add attributes
        reader.stop(value)
        return
    reader.out += (type(value), str(value))
    # A `pathlib.Path`, or a path of another library such as epath, has methods that read files.
    names = (name for name in dir(type(value)) if not name.startswith("__"))
    reader.refused_attributes |= {*names}.difference(dir(pathlib.PurePath))
