"""What "the same value" means: the one place that says so.

`identify(value)` gives a key and a copy. Two values are the same exactly when their keys are
equal. Types count (`1`, `1.0` and `True` differ), and so does every bit of a number (`0.0` and
`-0.0` differ; NaN is NaN). Containers and pytrees count by type, structure and leaves, callables by
what they do: code, defaults, globals, captured values. All else counts by identity: a missed merge
costs a compile, a wrong one a wrong result.

A key keeps nothing alive: it is made of plain values and of ids. The copy does, and nobody else
can change it. Whoever keeps a key keeps the copy with it. Both are made in one pass, so that they
cannot disagree.
"""

import collections
import functools
import types
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

from ._captures import settled

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


def _by_identity(value: Any, captured: bool) -> Identified:
    return identity_key(value), value


def _parts(values: Any, captured: bool) -> tuple[list[Hashable], list[Any]]:
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
    if value.dtype.hasobject:
        return _by_identity(value, captured)
    is_nan = value.dtype.kind == "f" and value != value
    return (type(value), value.dtype.str, "nan" if is_nan else value.tobytes()), value


def _numpy_dtype(value: np.dtype, captured: bool) -> Identified:
    if value.metadata is not None or value.fields is not None:
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
    # A module-level function already is the stable reference. Attributes may mean anything to
    # whoever reads them. A variable that may be rebound later has no value to go by.
    importable = function.__globals__.get(function.__qualname__) is function
    if importable or vars(function) or not settled(function):
        return _by_identity(function, captured)
    try:
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a captured variable that is not bound yet
        return _by_identity(function, captured)
    content_keys, contents = _parts(contents, True)
    default_keys, defaults = _parts(function.__defaults__ or (), True)
    keyword_keys, keywords = _named_parts(function.__kwdefaults__ or {})
    annotation_keys, annotations = _named_parts(function.__annotations__)
    labels = [getattr(function, label) for label in _LABELS]
    key = (
        types.FunctionType,
        id(function.__code__),
        id(function.__globals__),
        tuple(content_keys),
        tuple(default_keys),
        keyword_keys,
        annotation_keys,
        *labels,
    )
    # A copy, since whoever holds the original may assign its code, its defaults and its cells.
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        tuple(defaults) or None,
        tuple(map(types.CellType, contents)) or None,
    )
    copy.__kwdefaults__ = keywords or None
    copy.__annotations__ = annotations
    for label, value in zip(_LABELS, labels, strict=True):
        setattr(copy, label, value)
    return key, copy


def _named_parts(values: dict[str, Any]) -> tuple[Hashable, dict[str, Any]]:
    keys, copies = _parts(values.values(), True)
    return tuple(zip(values, keys, strict=True)), dict(zip(values, copies, strict=True))


def _partial(value: functools.partial, captured: bool) -> Identified:
    if vars(value):
        return _by_identity(value, captured)
    function_key, function = identify(value.func, True)
    argument_keys, arguments = _parts(value.args, True)
    keyword_keys, keywords = _named_parts(value.keywords)
    key = (functools.partial, function_key, tuple(argument_keys), keyword_keys)
    return key, functools.partial(function, *arguments, **keywords)


def _method(value: types.MethodType, captured: bool) -> Identified:
    (function_key, owner_key), (function, owner) = _parts((value.__func__, value.__self__), True)
    return (types.MethodType, function_key, owner_key), types.MethodType(function, owner)


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
        return _by_identity(value, captured)
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
        return _by_identity(value, captured)
    return (set, frozenset(map(member_key, value))), set(value)


def _mapping(value: Any, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured)
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
    is_mutable = captured and not isinstance(value, eqx.Module)
    if jtu.treedef_is_leaf(structure) or is_mutable:
        return _by_identity(value, captured)
    keys, copies = _parts(children, captured)
    _, static = structure.node_data()
    key = (identity_key(type(value)), member_key(static), *keys)
    return key, jtu.tree_unflatten(structure, copies)


def _array(value: Any, captured: bool) -> Identified:
    if captured:
        return _by_identity(value, captured)
    raise HoldsArray


def _interned(value: Any, captured: bool) -> Identified:
    return value.__canonical_key__(captured), value


_RULES: dict[type, Callable[[Any, bool], Identified]] = {
    **dict.fromkeys((type(None), bool, int, str, bytes, type(...)), _by_value),
    float: _float,
    complex: _complex,
    types.FunctionType: _function,
    functools.partial: _partial,
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
    if is_namedtuple(kind):
        return _immutable_sequence
    # A subclass of a container may have more to it than its items, and jax forgets the rest.
    return _by_identity if isinstance(value, tuple | list | dict) else _node
