"""What "the same value" means: the one place that says so.

`identify(value)` gives a key and a copy. Two values are the same exactly when their keys are
equal. Types count (`1`, `1.0` and `True` differ), and so does every bit of a number (`0.0` and
`-0.0` differ; NaN is NaN). Containers and pytrees count by type, structure and leaves, callables by
what they do: code, defaults, globals, captured values. All else counts by identity: a missed merge
costs a compile, a wrong one a wrong result. `doubts(value)` tells what that was, and why.

A key keeps nothing alive: it is made of plain values and of ids. The copy does, and nobody else
can change it. Whoever keeps a key keeps the copy with it. Both are made in one pass, so that they
cannot disagree.
"""

import collections
import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

from ._captures import is_bound, rebindable
from ._doubts import ARRAY, CHANGES, NO_RULE, NO_VALUE, UNKNOWN_JIT, Doubt, is_importable
from ._jax_private import (
    Jitted,
    function_of_partial,
    is_of_jax,
    jit_options,
    rebinds_only_if_set,
)

Identified: TypeAlias = tuple[Hashable, Any]


class HoldsArray(Exception):
    """The value is or contains an array: a leaf, neither compared nor interned."""


class _Id:
    """Tags a key that is an identity."""


def identity_key(value: object) -> Hashable:
    """The key of a value that is the same as itself only."""
    return (_Id, id(value))


def identify(value: Any, captured: bool = False) -> Identified:
    """The key of `value`, and the copy of it to keep.

    **Arguments:**

    - `value`: any value.
    - `captured`: whether `value` is not ours to copy, because a function captured it. Mutable
        containers and arrays then count by identity, since their owner may change them.

    **Returns:** a pair of key and copy. An immutable value is its own copy.

    **Raises:** `HoldsArray` where `value` is or contains an array, unless it is captured.
    """
    rule = _RULES.get(type(value))
    if rule is None:
        rule = _rule_for(value)
    return rule(value, captured)


class _Walk(threading.local):
    """What goes with a value down into its parts, besides the arguments."""

    def __init__(self) -> None:
        # The functions and objects that are being identified, outermost first, with their copies.
        self.inside: list[tuple[Any, Any]] = []
        # Collects, where somebody asks, what counts by identity and might have had a value.
        self.doubts: list[Doubt] | None = None


_walk = _Walk()


def doubts(value: Any) -> list[Doubt]:
    """Where a captured `value` counts by identity."""
    outer, _walk.doubts = _walk.doubts, []
    try:
        identify(value, True)
        return _walk.doubts
    finally:
        _walk.doubts = outer


def _by_identity(value: Any, captured: bool, why: tuple[str, str] = NO_VALUE) -> Identified:
    if _walk.doubts is not None:
        user = _walk.inside[-1][0] if _walk.inside else None
        if not is_importable(value, user):
            _walk.doubts.append(Doubt(value, *why))
    return identity_key(value), value


class _Up:
    """Tags the key of a value that contains itself."""


def _enclosing(value: Any) -> Identified | None:
    """The key of a value that is being identified already, farther out."""
    for depth, (outer, copy) in enumerate(_walk.inside):
        if outer is value:
            return (_Up, depth), copy
    return None


def _parts(values: Iterable[Any], captured: bool) -> tuple[list[Hashable], list[Any]]:
    if not values:
        return [], []
    pairs = [identify(value, captured) for value in values]
    return [key for key, _ in pairs], [copy for _, copy in pairs]


# --- numbers, strings, dtypes ---------------------------------------------------------------


def _by_value(value: Any, captured: bool) -> Identified:
    return (type(value), value), value


def _float(value: float, captured: bool) -> Identified:
    # 0.0 == -0.0 and nan != nan, while their texts are right in both cases.
    return (float, value if value and value == value else repr(value)), value


def _complex(value: complex, captured: bool) -> Identified:
    return (complex, repr(value)), value


def _numpy_scalar(value: np.generic, captured: bool) -> Identified:
    if isinstance(value, np.void) or value.dtype.hasobject:  # a record is a view of its array
        return _by_identity(value, captured)
    is_nan = value.dtype.kind == "f" and value != value
    return (type(value), value.dtype.str, "nan" if is_nan else value.tobytes()), value


def _numpy_dtype(value: np.dtype, captured: bool) -> Identified:
    if value.metadata is not None or value.fields is not None or value.subdtype is not None:
        return _by_identity(value, captured)
    return (np.dtype, value.str, value.name), value


def dtype_of(value: Any) -> Any:
    """JAX's scalar type for whatever spells its dtype (`"bfloat16"`, `np.dtype`, NumPy's type).

    Parameters that take a dtype pass through this first, so that a factory sees one spelling and
    cannot tell them apart. What is no spelling is returned as it is: Python's `float` among
    others, which means another dtype under `jax_enable_x64`.
    """
    if not isinstance(value, str | np.dtype | type(jnp.float32)) and not (
        isinstance(value, type) and issubclass(value, np.generic)
    ):
        return value
    try:
        dtype = np.dtype(value)
    except TypeError:
        return value
    if not dtype.isnative or dtype.metadata is not None:
        return value
    if isinstance(value, str) and value != dtype.name:
        return value
    scalar_type = getattr(jnp, dtype.name, None)
    return scalar_type if isinstance(scalar_type, type(jnp.float32)) else value


# --- callables ------------------------------------------------------------------------------


# What a factory may read of a function besides calling it.
_LABELS = ("__name__", "__qualname__", "__module__", "__doc__")


def _function(function: types.FunctionType, captured: bool) -> Identified:
    # A module-level function already is the stable reference.
    if "<" not in function.__qualname__ and is_importable(function):
        return identity_key(function), function
    if _walk.inside and (enclosing := _enclosing(function)) is not None:
        return enclosing
    # A variable that may be rebound later has no value to go by.
    closure, code = function.__closure__ or (), function.__code__
    cells = dict(zip(code.co_freevars, closure, strict=True))
    for name in rebindable(function):
        is_none = is_bound(cells[name]) and cells[name].cell_contents is None
        if not (is_none and rebinds_only_if_set(function, name)):
            why = f"captures {name!r}, which a loop or an assignment may bind anew"
            remedy = f"Bind it once and before, or as a default: lambda x, {name}={name}: ..."
            return _by_identity(function, captured, (why, remedy))
    attributes = vars(function)
    if attributes and not _are_copied(function):  # they may mean anything to whoever reads them
        return _by_identity(function, captured, _attributes_of(attributes))
    # A copy, since whoever holds the original may assign its code, its defaults and its cells.
    new_closure = tuple([types.CellType() for _ in closure]) or None
    copy = types.FunctionType(code, function.__globals__, None, None, new_closure)
    _walk.inside.append((function, copy))
    try:
        # A variable that is not bound now never will be.
        contents = {n: cell.cell_contents for n, cell in cells.items() if is_bound(cell)}
        content_keys, contents = _named_parts(contents)
        default_keys, defaults = _parts(function.__defaults__ or (), True)
        keyword_keys, keywords = _named_parts(function.__kwdefaults__ or {})
        annotation_keys, annotations = _named_parts(function.__annotations__)
        attribute_keys, attributes = _attribute_parts(attributes, True, False)
    finally:
        _walk.inside.pop()
    for name, cell in zip(cells, copy.__closure__ or (), strict=True):
        if name in contents:
            cell.cell_contents = contents[name]
    copy.__defaults__ = tuple(defaults) or None
    copy.__kwdefaults__ = keywords or None
    copy.__annotations__ = annotations
    labels = [getattr(function, label) for label in _LABELS]
    for label, value in zip(_LABELS, labels, strict=True):
        setattr(copy, label, value)
    vars(copy).update(attributes)
    key = (
        types.FunctionType,
        id(code),
        id(function.__globals__),
        content_keys,
        tuple(default_keys),
        keyword_keys,
        annotation_keys,
        attribute_keys,
        *labels,
    )
    return key, copy


def _attributes_of(attributes: Iterable[str]) -> tuple[str, str]:
    remedy = "Keep what they say in a default or in a captured variable."
    return f"has attributes of its own ({', '.join(attributes)})", remedy


def _are_copied(function: types.FunctionType) -> bool:
    """Whether the attributes of a wrapper only say what it wraps.

    `functools.wraps` sets `__wrapped__`, and copies all that a jitted function or a custom_jvp has.
    So does JAX, which reads none of it in what it makes.
    """
    if is_of_jax(function):
        return True
    wrapped = vars(function).get("__wrapped__")
    copied = vars(wrapped) if type(wrapped) in (Jitted, jax.custom_jvp, jax.custom_vjp) else {}
    return all(
        name == "__wrapped__" or (name in copied and copied[name] is value)
        for name, value in vars(function).items()
    )


def _attribute_parts(
    values: dict[str, Any], captured: bool, of_equinox: bool
) -> tuple[Hashable, dict[str, Any]]:
    """As `_named_parts`. Annotations are in a dict that nobody changes, and equinox's options."""
    pairs = [
        _items(part, captured)
        if type(part) is dict and (of_equinox or name == "__annotations__")
        else identify(part, captured)
        for name, part in values.items()
    ]
    copies = dict(zip(values, (copy for _, copy in pairs), strict=True))
    return tuple(zip(values, (key for key, _ in pairs), strict=True)), copies


def _jitted(value: Any, captured: bool) -> Identified:
    if is_importable(value):
        return identity_key(value), value
    options = jit_options(value)
    # `jax.jit` reads the signature of a function, which a copy that is being made has not yet.
    if options is None or _enclosing(value.__wrapped__) is not None:
        return _by_identity(value, captured, UNKNOWN_JIT)
    function_key, function = identify(value.__wrapped__, True)
    try:
        option_keys, _ = _parts(options.values(), False)
    except HoldsArray:
        return _by_identity(value, captured, UNKNOWN_JIT)
    key = (Jitted, function_key, *zip(options, option_keys, strict=True))
    return key, value if function is value.__wrapped__ else jax.jit(function, **options)


def _named_parts(values: dict[str, Any]) -> tuple[Hashable, dict[str, Any]]:
    if not values:
        return None, {}
    keys, copies = _parts(values.values(), True)
    return tuple(zip(values, keys, strict=True)), dict(zip(values, copies, strict=True))


def _partial(value: functools.partial, captured: bool) -> Identified:
    if vars(value):
        return _by_identity(value, captured, _attributes_of(vars(value)))
    function_key, function = identify(function_of_partial(value), True)
    argument_keys, arguments = _parts(value.args, True)
    keyword_keys, keywords = _named_parts(value.keywords)
    key = (type(value), function_key, tuple(argument_keys), keyword_keys)
    return key, type(value)(function, *arguments, **keywords)


def _method(value: types.MethodType, captured: bool) -> Identified:
    (function_key, owner_key), (function, owner) = _parts((value.__func__, value.__self__), True)
    return (types.MethodType, function_key, owner_key), types.MethodType(function, owner)


def _annotation(value: Any, captured: bool) -> Identified:
    """`list[int]`, `int | None` and so on: types that are made of others."""
    arguments = (tuple(part) if type(part) is list else part for part in typing.get_args(value))
    keys, _ = _parts((typing.get_origin(value), *arguments), True)
    return (type(value), *keys), value


def _signature(value: inspect.Signature, captured: bool) -> Identified:
    parameters = value.parameters.values()
    default_keys, _ = _parts((parameter.default for parameter in parameters), True)
    annotations = [*(parameter.annotation for parameter in parameters), value.return_annotation]
    annotation_keys, _ = _parts(annotations, True)
    names = [(parameter.name, parameter.kind) for parameter in parameters]
    return (inspect.Signature, *names, *default_keys, *annotation_keys), value


# --- objects ----------------------------------------------------------------------------------


def _object(value: Any, captured: bool) -> Identified:
    """An object that is nothing but its attributes: a module, a frozen dataclass, a custom_jvp."""
    enclosing = _enclosing(value)
    if enclosing is not None:
        return enclosing
    copy = object.__new__(type(value))
    of_equinox = type(value).__module__.startswith("equinox.")
    _walk.inside.append((value, copy))
    try:
        keys, copies = _attribute_parts(vars(value), captured, of_equinox)
    finally:
        _walk.inside.pop()
    vars(copy).update(copies)
    return (identity_key(type(value)), keys), copy


def _with_rule(value: Any, captured: bool) -> Identified:
    if is_importable(value):
        return identity_key(value), value
    if vars(value).get("jvp", vars(value).get("fwd")) is None:
        return _by_identity(value, captured, NO_RULE)
    return _object(value, True)


# --- containers and pytrees -----------------------------------------------------------------


def _immutable_sequence(value: Any, captured: bool) -> Identified:
    """Tuples, named tuples, and the transformations of optax, which are named tuples too."""
    if getattr(value, "__dict__", None):  # attributes may mean anything
        return _by_identity(value, captured)
    keys, copies = _parts(value, captured)
    # A class is kept alive by its instance.
    key = (identity_key(type(value)), *keys)
    if all(copy is item for copy, item in zip(copies, value, strict=True)):
        return key, value
    return key, tuple.__new__(type(value), copies)


def is_namedtuple(kind: type) -> bool:
    """Whether instances of `kind` are nothing but the values of their fields."""
    return kind.__bases__ == (tuple,) and hasattr(kind, "_fields") and not kind.__dictoffset__


def _list(value: list, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured, CHANGES)
    keys, copies = _parts(value, captured)
    return (list, *keys), copies


def member_key(value: Hashable) -> Hashable:
    """The key of a member of a set or a key of a mapping, which cannot be replaced by a copy."""
    key, copy = identify(value, True)
    return key if copy is value else identity_key(value)


def _frozenset(value: frozenset, captured: bool) -> Identified:
    return (frozenset, frozenset(map(member_key, value))), value


def _set(value: set, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured, CHANGES)
    return (set, frozenset(map(member_key, value))), set(value)


def _mapping(value: Any, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured, CHANGES)
    return _items(value, captured)


def _items(value: Any, captured: bool) -> Identified:
    keys, copies = _parts(value.values(), captured)
    # In order, for a factory may read it so: `lambda stages: chain(*stages.values())`.
    key = (type(value), *zip(map(member_key, value), keys, strict=True))
    return key, type(value)(zip(value, copies, strict=True))


def _node(value: Any, captured: bool) -> Identified:
    """Any other pytree node: by its type, its children and what is static in it."""
    try:
        children, structure = jtu.tree_flatten(value, is_leaf=lambda node: node is not value)
    except Exception:  # a type that is registered, and a value that its rules do not fit
        return _by_identity(value, captured)
    if captured or jtu.treedef_is_leaf(structure):
        return _by_identity(value, captured)
    _, static = structure.node_data()
    if doubts(static):  # made for this flattening, and gone with the ids in its key
        return _by_identity(value, captured)
    keys, copies = _parts(children, captured)
    key = (identity_key(type(value)), identify(static, True)[0], *keys)
    return key, jtu.tree_unflatten(structure, copies)


def _partition_spec(value: Any, captured: bool) -> Identified:
    keys, _ = _parts(tuple(value), captured)  # P("x") == P(("x",)), and their parts differ
    return (type(value), value, *keys), value


def _treedef(value: Any, captured: bool) -> Identified:
    data = value.node_data()
    if data is None:  # of a leaf
        return (jtu.PyTreeDef, None), value
    kind, static = data
    if issubclass(kind, eqx.Module):  # a tuple that the structure keeps
        static_key = _static_key(static)
    else:
        static = tuple(static) if kind is dict else static  # the names, in a new list
        if doubts(static):
            return _by_identity(value, captured)
        static_key, _ = identify(static, True)
    keys, _ = _parts(value.children(), captured)
    return (jtu.PyTreeDef, identity_key(kind), static_key, *keys), value


def _static_key(static: Any) -> Hashable:
    """Of what equinox keeps of a module: tuples, with annotations in dicts that nobody changes."""
    if type(static) is tuple:
        return (tuple, *map(_static_key, static))
    return _items(static, True)[0] if type(static) is dict else identify(static, True)[0]


def _array(value: Any, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured, ARRAY)
    raise HoldsArray


def _interned(value: Any, captured: bool) -> Identified:
    return value.__canonical_key__(captured), value


_RULES: dict[type, Callable[[Any, bool], Identified]] = {
    **dict.fromkeys((type(None), bool, int, str, bytes, type(...)), _by_value),
    float: _float,
    complex: _complex,
    types.FunctionType: _function,
    functools.partial: _partial,
    jtu.Partial: _partial,
    Jitted: _jitted,
    jax.custom_jvp: _with_rule,
    jax.custom_vjp: _with_rule,
    inspect.Signature: _signature,
    typing.ForwardRef: lambda value, captured: ((type(value), value.__forward_arg__), value),
    jtu.PyTreeDef: _treedef,
    types.MethodType: _method,
    tuple: _immutable_sequence,
    list: _list,
    dict: _mapping,
    collections.OrderedDict: _mapping,
    set: _set,
    frozenset: _frozenset,
    np.ndarray: _array,
    optax.GradientTransformation: _immutable_sequence,
    optax.GradientTransformationExtraArgs: _immutable_sequence,
}


def _rule_for(value: Any) -> Callable[[Any, bool], Identified]:
    """The rule for a type that is not listed, by what the value is an instance of."""
    kind = type(value)
    if hasattr(kind, "__canonical_key__"):
        return _interned
    if isinstance(value, jax.Array | np.ndarray):
        return _array
    if isinstance(value, np.generic):
        return _numpy_scalar
    if isinstance(value, np.dtype):
        return _numpy_dtype
    if isinstance(value, eqx.Module):
        return _object
    if isinstance(value, jax.sharding.Sharding | jax.sharding.Mesh):
        return _by_value
    if isinstance(value, jax.sharding.PartitionSpec):
        return _partition_spec
    if is_namedtuple(kind):
        return _immutable_sequence
    if _is_frozen_dataclass(kind):
        return _object
    if typing.get_origin(value) is not None:
        return _annotation
    # A subclass of a container may have more to it than its items, and jax forgets the rest.
    return _by_identity if isinstance(value, tuple | list | dict) else _node


def _is_frozen_dataclass(kind: type) -> bool:
    """Whether the attributes of an instance of `kind` are all there is to it, and stay."""
    parameters = vars(kind).get("__dataclass_params__")  # its own: a subclass need not be frozen
    return (
        parameters is not None
        and parameters.frozen
        and parameters.eq
        and kind.__new__ is object.__new__
        and not any(vars(base).get("__slots__") for base in kind.__mro__)
    )
