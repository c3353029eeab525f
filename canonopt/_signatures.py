"""What `jax.jit` keys on, leaf by leaf, and nothing that would keep an argument alive.

A signature is taken from the arguments of one call. It holds for each leaf, static value and node
a record that says what the key says of it: shapes and shardings for arrays, and for what is static
a token that is equal where jit's comparison is.
"""

import dataclasses
import functools
import inspect
import itertools
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import equinox as eqx
import jax
import jax.core
import jax.tree_util as jtu
import numpy as np
import optax

from ._by_identity import ByIdentity
from ._contents import contents_of_function, contents_of_partial
from ._keys import identify


@attrs.frozen
class Array:
    """An array, a NumPy array or a tracer."""

    shape: tuple[int, ...]
    dtype: str
    weak_type: bool
    # These three are None of a tracer, for which there is nothing to say.
    sharding: Hashable = None
    committed: bool | None = None
    memory_kind: str | None = None

    def is_like(self, other: "Array") -> bool:
        """Whether the two differ in nothing that is known of both."""
        if None in (self.committed, other.committed):
            placeless = {"sharding": None, "committed": None, "memory_kind": None}
            return attrs.evolve(self, **placeless) == attrs.evolve(other, **placeless)
        return self == other

    def __str__(self) -> str:
        weak = ", weak" if self.weak_type else ""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{weak}"


@attrs.frozen
class Scalar:
    """A Python number that is traced: its type counts, its value does not."""

    type: str

    def __str__(self) -> str:
        return f"a Python {self.type}"


@attrs.frozen
class Static:
    """A value that is part of the program."""

    # Equal where `==` of the values is, and now and then where it is not, for hashes are no more
    # than that. `key` is equal where canonopt takes the values for the same.
    token: Hashable
    key: Hashable = attrs.field(eq=False)
    text: str = attrs.field(eq=False)
    kind: str = attrs.field(eq=False)
    # Of a function: what it captured and its defaults, by name.
    parts: Mapping[str, "Static"] = attrs.field(eq=False, factory=dict)
    place: str | None = attrs.field(eq=False, default=None)

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Node:
    """The type of a container, where it is not to be told from what is in it."""

    type: str

    def __str__(self) -> str:
        return f"a {self.type}"


@attrs.frozen
class Nothing:
    """None in place of a leaf."""

    def __str__(self) -> str:
        return "None"


Record: TypeAlias = Array | Scalar | Static | Node | Nothing


@attrs.frozen
class Signature:
    """One entry of a jit cache."""

    records: Mapping[str, Record]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    context: Mapping[str, str] = attrs.field(factory=dict)
    # The arguments that hold an optimizer state, which come by another remedy than a model.
    states: frozenset[str] = frozenset()
    # Those given by name. For `jax.jit` it is another call than by position.
    by_keyword: frozenset[str] = frozenset()


def signature_of(
    function: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    is_static: Callable[[str | int], bool] = lambda _: False,
    filtered: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Signature:
    """The signature of one call.

    **Arguments:**

    - `is_static`: whether the argument of this index or name is static as a whole.
    - `filtered`: whether leaves that are no arrays are static, as `equinox.filter_jit` has it.
    - `options`: what else was given to `jax.jit`.
    """
    records: dict[str, Record] = {}
    states = set()
    for index, name, value in _named(function, args, kwargs):
        if is_static(name) or (index is not None and is_static(index)):
            records[name] = static_of(value)
        else:
            for path, record in _records(value, name, filtered, seen=()):
                records[path] = record
            if _holds_state(value):
                states.add(name)
    if filtered and isinstance(function, eqx.Module):
        records.update(_records(function, "self", filtered, seen=()))
    by_keyword = frozenset(() if filtered else kwargs)
    return Signature(records, dict(options or {}), _context(), frozenset(states), by_keyword)


def _named(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
) -> Iterator[tuple[int | None, str, Any]]:
    """The arguments by the function's own names for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    for i, value in enumerate(args):
        yield i, names[i] if i < len(names) else f"{rest}[{i - len(names)}]", value
    for name, value in kwargs.items():
        yield None, name, value


def _records(
    value: Any, path: str, filtered: bool, seen: tuple[int, ...]
) -> Iterator[tuple[str, Record]]:
    if value is None:
        yield path, Nothing()
        return
    children, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if jtu.treedef_is_leaf(structure) or id(value) in seen:
        yield path, _leaf(value, filtered)
        return
    if isinstance(value, optax.GradientTransformation):
        leaves = jtu.tree_leaves(value)
        if not any(map(eqx.is_array, leaves)) and (filtered or not leaves):
            yield path, static_of(value)  # one thing to its user, and not two functions
            return
    yield path, Node(_type_name(type(value)))
    statics = _static_fields(value)
    if statics is None:
        _, static = structure.node_data()
        if static is not None and type(value) not in (dict, list, tuple):
            yield f"{path}.<static>", static_of(static)
    else:
        for name, field in statics:
            yield f"{path}.{name}", static_of(field)
    for (key,), child in children:
        yield from _records(child, path + jtu.keystr((key,)), filtered, (*seen, id(value)))


def _static_fields(value: Any) -> list[tuple[str, Any]] | None:
    if not isinstance(value, eqx.Module):
        return None
    fields = (f.name for f in dataclasses.fields(value) if f.metadata.get("static", False))
    return [(name, getattr(value, name)) for name in fields if hasattr(value, name)]


def _leaf(value: Any, filtered: bool) -> Record:
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return _array(value)
    if not filtered and isinstance(value, bool | int | float | complex):
        return Scalar(type(value).__name__)
    return static_of(value)


def _array(value: Any) -> Array:
    aval = jax.typeof(value) if isinstance(value, jax.Array) else value
    sharding = committed = memory_kind = None
    if isinstance(value, np.ndarray | np.generic):
        committed, memory_kind = False, jax.devices()[0].default_memory().kind
    elif isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        committed = value.committed
        # Where an array that is not committed happens to be is not in the key.
        sharding = value.sharding if committed else None
        memory_kind = value.sharding.memory_kind
    weak_type = bool(getattr(aval, "weak_type", False))
    return Array(tuple(aval.shape), str(aval.dtype), weak_type, sharding, committed, memory_kind)


# --- what is static ---------------------------------------------------------------------------

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEPTH = 6  # of parts in parts
INSIDE = "function"
_serials = itertools.count()
_serial_of: ByIdentity[int] = ByIdentity()


def static_of(value: Any, depth: int = 0, seen: set[int] | None = None) -> Static:
    """The record of a value that is static."""
    seen = set() if seen is None else seen
    if type(value) in _PLAIN:
        return Static((type(value), repr(value)), (type(value), repr(value)), repr(value), "value")
    if type(value) is tuple and all(type(item) in _PLAIN for item in value):
        return Static(repr(value), repr(value), _short(value), "value")
    return Static(
        _token(value),
        _key(value),
        _short(value),
        _kind(value),
        dict(_parts(value, depth + 1, seen)) if depth < _DEPTH else {},
        place_of(value),
    )


def _token(value: Any) -> Hashable:
    """Equal to that of another value as long as `==` takes the two for the same."""
    if type(value) in (tuple, list):
        return (type(value), *map(_token, value))
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return _serial(value)
    try:
        return (type(value), hash(value))
    except Exception:
        return (type(value), _repr(value))


def _serial(value: Any) -> Hashable:
    """A number that no other object has or will have."""
    known = _serial_of.get(value)
    if known is None:
        known = next(_serials)
        try:
            _serial_of.set(value, known)
        except TypeError:  # its id is the best there is
            return ("object", type(value), id(value))
    return ("object", known)


def _key(value: Any) -> Hashable:
    try:
        return identify(value, True)[0]
    except Exception:
        return None


def _kind(value: Any) -> str:
    if isinstance(value, optax.GradientTransformation):
        return "transformation"
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType) and value.__code__.co_name in ("init_fn", "update_fn"):
        return "transformation" if module.startswith("optax.") else "callable"
    return "callable" if callable(value) else "value"


def _parts(value: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Static]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    part = functools.partial(static_of, depth=depth, seen=seen)
    if isinstance(value, types.FunctionType):
        yield from ((name, part(content)) for name, content in contents_of_function(value))
        for name in value.__code__.co_names:
            found = value.__globals__.get(name)
            if type(found) in _PLAIN[:-1] or isinstance(found, types.FunctionType):
                yield f"global {name!r}", static_of(found, _DEPTH)
    elif isinstance(value, functools.partial):
        yield from ((name, part(content)) for name, content in contents_of_partial(value))
    elif attrs.has(type(value)) or dataclasses.is_dataclass(type(value)):
        fields = attrs.fields if attrs.has(type(value)) else dataclasses.fields
        for name in (field.name for field in fields(type(value))):
            if hasattr(value, name):
                yield f"field {name!r}", part(getattr(value, name))
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield f"item {i}", part(item)
    elif isinstance(value, types.MethodType):
        yield INSIDE, part(value.__func__)
        yield "object", part(value.__self__)
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield INSIDE, part(inspect.unwrap(value))


def place_of(value: Any) -> str | None:
    """Where a function is defined, as `file:line`."""
    value = inspect.unwrap(value) if callable(value) else value
    code = getattr(value, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


# --- words and surroundings -------------------------------------------------------------------


def _short(value: Any) -> str:
    if isinstance(value, jax.Array | np.ndarray):
        return str(_array(value))
    if callable(value) and not isinstance(value, eqx.Module):
        name = getattr(value, "__qualname__", None)
        if name is not None:
            return f"function {name}"
    is_spec = isinstance(value, optax.GradientTransformation) and attrs.has(type(value))
    text = _repr(value) if is_spec else " ".join(_pretty(value).split())
    text = re.sub(r"^<(.*) object at 0x\w+>$", r"\1 object", text)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _pretty(value: Any) -> str:
    try:
        return eqx.tree_pformat(value, width=200)
    except Exception:  # a __repr__ of the user's
        return _repr(value)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


def _type_name(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _holds_state(value: Any) -> bool:
    """Whether a pytree has a node that optax made as a state."""
    found = False

    def look(node: Any) -> bool:
        nonlocal found
        kind = type(node)
        found = found or (
            isinstance(node, tuple) and hasattr(kind, "_fields") and kind.__name__.endswith("State")
        )
        return found

    jtu.tree_leaves(value, is_leaf=look)
    return found


_CONTEXT = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_device",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_default_prng_impl",
    "jax_debug_nans",
    "jax_disable_jit",
)


def _context() -> dict[str, str]:
    """The settings of JAX that a trace depends on."""
    settings = {name: str(getattr(jax.config, name, None)) for name in _CONTEXT}
    mesh = jax.sharding.get_abstract_mesh()
    settings["mesh"] = "none" if mesh.empty else str(mesh)
    return settings
