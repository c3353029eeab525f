"""Rules for the keys of numbers, containers, arrays and trees; `rule_for` finds a value's rule."""

import collections
import enum
import inspect
import operator
import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterable
from math import copysign
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._jax_internals.functions import is_module_class, jitted_by_equinox
from .._python_internals.namespaces import is_stable
from .._python_internals.weak import known_by_identity
from ..errors import ARRAY, CHANGES, NO_VALUE, TOO_LARGE
from .callables import add_programs, annotation_key, read_caching, read_stable
from .instances import (
    is_immutable,
    is_record,
    read_class,
    read_enum,
    read_immutable,
    read_instance,
    read_logger,
    read_path,
)
from .reader import LOGGERS, NOW, HoldsArray, Mode, Reader, Rule, fixed

MAX_BYTES = 1 << 16  # the size of the largest NumPy array that is read at each build


# --- numbers, dtypes and names ----------------------------------------------------------------


def has_negative_zero(values: Iterable[Any]) -> bool:
    """Return True if one of these plain values is -0.0, which a dict takes for 0.0."""
    for value in values:  # noqa: SIM110, since `any` takes three times as long
        if not value and type(value) is float and copysign(1.0, value) < 0:
            return True
    return False


def read_numpy_scalar(reader: Reader, value: np.generic, mode: Mode) -> None:
    is_exact = np.dtype(type(value)).type is type(value) and not value.dtype.hasobject
    if isinstance(value, np.void) or not is_exact:  # a structured scalar is a view of its array
        reader.stop(value)
        return
    reader.out += (type(value), value.dtype.str, value.tobytes())


def read_numpy_dtype(reader: Reader, value: np.dtype, mode: Mode) -> None:
    if value.metadata is not None or value.fields is not None or value.subdtype is not None:
        reader.add_identity(value, NO_VALUE)
    else:
        reader.out += (np.dtype, value.str, value.name)  # bfloat16 has the `str` of a raw dtype


def read_forward_ref(reader: Reader, value: typing.ForwardRef, mode: Mode) -> None:
    """Read a forward reference; refuse one that is evaluated, or that names its module."""
    if value.__forward_evaluated__ or value.__forward_module__ is not None:
        reader.stop(value)
    elif not reader.was_seen(value, mode):
        reader.enter_mutable(value, mode, CHANGES)  # its first evaluation changes it
        flags = (value.__forward_is_argument__, value.__forward_is_class__)
        reader.out += (typing.ForwardRef, value.__forward_arg__, *flags)


def read_ufunc(reader: Reader, value: np.ufunc, mode: Mode) -> None:
    if getattr(np, value.__name__, None) is value:
        reader.out += (np.ufunc, value.__name__)
    else:
        reader.stop(value)  # canonopt cannot read the function in a ufunc of `numpy.frompyfunc`


# Values of these types cannot change, and are the same if the parts listed here are the same.
_PARTS: dict[Any, Callable[[Any], Iterable[Any]]] = {
    complex: lambda value: [value.real, value.imag],
    **dict.fromkeys((range, slice), operator.attrgetter("start", "stop", "step")),
    re.Pattern: operator.attrgetter("pattern", "flags"),
    types.GenericAlias: operator.attrgetter("__origin__", "__args__", "__unpacked__"),
    types.UnionType: lambda value: value.__args__,
    frozenset: list,  # a factory may depend on the order of iteration
    inspect.Signature: lambda value: [
        *value.parameters.values(),
        annotation_key(value.return_annotation),
    ],
    inspect.Parameter: lambda value: [
        *(value.name, int(value.kind), annotation_key(value.annotation)),
        () if value.default is value.empty else (value.default,),
    ],
    jax.ShapeDtypeStruct: lambda value: [
        value.shape,
        str(value.dtype),
        bool(value.weak_type),
        value.sharding,
        *(getattr(value, name, None) for name in ("is_ref", "vma", "manual_axis_type")),
    ],
}


def read_parts(reader: Reader, value: Any, mode: Mode) -> None:
    reader.out.append(type(value))
    reader.add_all(_PARTS[type(value)](value), fixed(mode))


def read_comparable(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a value that JAX compares by value: a device, mesh, sharding or partition spec."""
    reader.out += (type(value), value)
    if isinstance(value, jax.sharding.PartitionSpec):
        reader.add_all(tuple(value), mode)  # P("x") == P(("x",)), but their parts differ


# --- containers -------------------------------------------------------------------------------


def read_tuple(reader: Reader, value: tuple, mode: Mode) -> None:
    kind = type(value)
    if kind is not tuple:
        if mode != "given" and reader.was_seen(value, mode):
            return  # `was_seen` records `value`: a shared program may return it
        reader.add_class(kind)
        if attributes := getattr(value, "__dict__", None):  # any code may give them a meaning
            reader.add_identity(value, NO_VALUE)
            reader.add_named(attributes, fixed(mode))
    else:
        reader.out.append(tuple)
    # Not `len` and `iter`, because a named tuple may override them.
    reader.out.append(tuple.__len__(value))
    for item in tuple.__iter__(value):
        reader.add(item, mode)


def read_container(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a list, a dict, a set or a similar container of the standard library."""
    # A spec copies its arguments, so one list that is given twice counts as two equal lists.
    if mode != "given" and reader.was_seen(value, mode):
        return
    kind = type(value)
    if kind is set and mode == "given" and [*set(value)] != [*value]:
        reader.stop(value, CHANGES)  # the factory gets the set itself: a copy has another order
        return
    reader.out.append(kind)
    mode = reader.enter_mutable(value, mode, CHANGES)
    if kind is collections.defaultdict:
        reader.add(value.default_factory, fixed(mode))
    if kind is collections.deque:
        reader.add(value.maxlen, mode)
    if attributes := getattr(value, "__dict__", None):
        reader.add_named(attributes, fixed(mode))
    if isinstance(value, dict | types.MappingProxyType):
        # A key may name an attribute, as in `apply(..., method=key)`.
        reader.named.update(key for key in value if type(key) is str and key.isidentifier())
        reader.add_named(value, mode)
    else:
        reader.add_all(value, mode)


# --- arrays -----------------------------------------------------------------------------------


def read_array(reader: Reader, value: Any, mode: Mode) -> None:
    if mode == "given":
        raise HoldsArray
    if isinstance(value, jax.Array):
        if mode in NOW and is_integer_scalar(value):
            reader.out += (jax.Array, jax.typeof(value), value.item(), value.committed)
            reader.add(value.sharding, "fixed")
        else:
            reader.add_array(value, mode)
    elif type(value) is np.ndarray and not value.dtype.hasobject:
        if value.nbytes > MAX_BYTES:
            reader.stop(value, TOO_LARGE)
            return
        reader.holds_mutable = True
        reader.reading.has_numpy = True  # even a read-only view may change with its base
        # Dtypes with fields, and the dtypes of `ml_dtypes`, have the `str` of raw bytes.
        dtype = (value.dtype.str, repr(value.dtype))
        reader.out += (np.ndarray, *dtype, value.shape, value.flags.writeable)
        # While a program with the array lives, JAX keeps using the constant made from the array.
        reader.add_identity(value, None if mode == "live" else ARRAY)
        reader.reading.can_change = reader.reading.reads_data = True
        reader.out.append(value.tobytes())
    else:
        reader.stop(value, ARRAY)


def is_integer_scalar(array: jax.Array) -> bool:
    """Return True for an integer or bool scalar: JAX may need its value, as for an exponent."""
    if isinstance(array, jax.core.Tracer) or array.ndim:
        return False
    is_integer = array.dtype == bool or jnp.issubdtype(array.dtype, np.integer)
    return is_integer and array.is_fully_addressable


# --- trees ------------------------------------------------------------------------------------


def read_node(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an instance, which may be a node of a registered pytree type."""
    leaves = jtu.tree_leaves(value) if mode == "given" else ()
    if any(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves):
        raise HoldsArray
    read_instance(reader, value, mode)
    if jitted_by_equinox(value):
        add_programs(reader, value, mode)


def read_treedef(reader: Reader, value: Any, mode: Mode) -> None:
    pending, out = [value], reader.out
    while pending:
        node = pending.pop()
        out.append(jtu.PyTreeDef)
        if (data := node.node_data()) is None:  # the node is a leaf, or has no leaves
            out.append(node.num_leaves)
            continue
        kind, static = data
        reader.add_class(kind)
        # JAX compares `static` with the static data of an earlier call, which may have changed
        # since. So mutable parts have the mode "held".
        # Only the structure has the static data of an Equinox module, or of JAX's sparse matrices.
        if is_module_class(kind) or kind.__module__.startswith("jax."):
            _read_static(reader, static)
        else:  # for a dict, `static` is a new list of its keys
            reader.add(tuple(static) if kind is dict else static, "held")
        children = node.children()
        out.append(len(children))
        pending += reversed(children)


def _read_static(reader: Reader, static: Any) -> None:
    """Read static data of which nobody has the containers: tuples, with dicts."""
    if type(static) is tuple:
        reader.out.append(len(static))
        for part in static:
            _read_static(reader, part)
    elif type(static) is dict:
        reader.add_named(static, "held")
    else:
        reader.add(static, "held")


# --- the rule for a type ------------------------------------------------------------------------


def read_keyed(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an object of canonopt, whose class says what to write into the key.

    - `__canonical_key__` returns the object's item in a key, or raises `HoldsArray` if the object
        has leaves. In a mode of `NOW`, an interned object that cannot change is its own item, and
        the program keeps it alive: with a token, the next equal object would differ if it died.
    - `__canonical_parts__` returns values that the object has read and that can change, or values
        to read in place of the object.
    """
    parts = tuple(value.__canonical_parts__("now" if mode in NOW else mode))
    # Two equal specs that have parts may be different objects, so `was_seen` records each one.
    is_spec, is_now = hasattr(type(value), "__canonicalized__"), mode in NOW
    if is_spec and is_now and parts and reader.was_seen(value, mode):
        return
    reader.out += (value.__canonical_key__("now" if is_now else mode), len(parts))
    for part in parts:  # a copy of a spec replaces its arrays and inner specs
        is_replaced = isinstance(part, jax.Array) or hasattr(type(part), "__canonicalized__")
        reader.add(part, "held" if not is_now else mode if is_replaced else "fixed")


def rule_for(value: Any) -> Rule:
    """Return the rule for a value of a type that is neither in `CALLABLES` nor in `VALUES`."""
    return _rule_of(type(value)) or (read_stable if is_stable(value) else read_node)


@known_by_identity
def _rule_of(kind: type) -> "Rule | None":
    """Return the rule for a type by its base classes; None if it depends on the value."""
    if hasattr(kind, "__canonical_key__"):
        return read_keyed
    if hasattr(kind, "__captured_options__"):
        return read_caching
    for bases, rule in _BY_BASE:
        if issubclass(kind, bases):
            return rule
    if is_module_class(kind):
        return read_node
    if is_immutable(kind):
        return read_immutable
    if is_record(kind):
        return read_tuple
    return None


# A subclass of several of these classes is read by the rule of the first.
_BY_BASE: tuple[tuple[Any, Rule], ...] = (
    ((jax.Array, np.ndarray, jax.core.Tracer), read_array),
    (np.generic, read_numpy_scalar),
    (np.dtype, read_numpy_dtype),
    (type, read_class),
    (enum.Enum, read_enum),
    ((jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec), read_comparable),
    (jax.Device, read_comparable),
    (pathlib.PurePath, read_path),
)


VALUES: dict[type, Rule] = {
    **dict.fromkeys(_PARTS, read_parts),
    tuple: read_tuple,
    **dict.fromkeys((list, dict, set, collections.deque, types.MappingProxyType), read_container),
    **dict.fromkeys((collections.OrderedDict, collections.defaultdict), read_container),
    np.ufunc: read_ufunc,
    typing.ForwardRef: read_forward_ref,
    **dict.fromkeys(LOGGERS, read_logger),
    type: read_class,
    jtu.PyTreeDef: read_treedef,
}
