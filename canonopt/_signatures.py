"""What `jax.jit` keys on, leaf by leaf, and nothing that would keep an argument alive.

A signature is taken from the arguments of one call. It holds for each leaf, static value and node
a record that says what the key says of it: shapes and shardings for arrays, and for what is static
a token that is equal where jit's comparison is.
"""

import collections
import contextlib
import dataclasses
import functools
import inspect
import itertools
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeAlias, TypeVar

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
    # These four are None of a tracer, for which there is nothing to say.
    sharding: Hashable = None
    committed: bool | None = None
    memory_kind: str | None = None
    layout: Hashable = None

    def differences(self, other: "Array") -> list[str]:
        """In what the two differ, of what is known of both; what matters most first."""
        if self == other:
            return []
        if self.is_key != other.is_key:
            return ["dtype"]  # two numbers more in the shape are of the old style of keys
        is_placed = None not in (self.committed, other.committed)
        is_laid_out = None not in (self.layout, other.layout)
        type_differs = {
            "shape": self.shape != other.shape,
            "dtype": self.dtype != other.dtype,
            "weak type": self.weak_type != other.weak_type,
        }
        place_differs = {
            "memory kind": self.memory_kind != other.memory_kind,
            "commitment": self.committed != other.committed,
            "sharding": self.sharding != other.sharding,
            # Where shapes differ, so do layouts.
            "layout": is_laid_out and self.shape == other.shape and self.layout != other.layout,
        }
        differs = {**type_differs, **(place_differs if is_placed else {})}
        return [kind for kind, is_different in differs.items() if is_different]

    @property
    def is_key(self) -> bool:
        return self.dtype.startswith("key<")

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
    # What it is made of, by name: of a function what it captured and its defaults.
    parts: Mapping[str, "Static"] = attrs.field(eq=False, factory=dict)
    place: str | None = attrs.field(eq=False, default=None)
    node: "Node | None" = attrs.field(eq=False, default=None)
    # Whether `==` takes it for no other value, were it the same in all it has.
    is_unique: bool = attrs.field(eq=False, default=False)

    def __str__(self) -> str:
        return shortened(self.text)


@attrs.frozen
class Node:
    """The type of a value, where it is not to be told from what is in it."""

    type: str
    serial: Hashable  # a class that is defined again is another one, of the same name

    def __str__(self) -> str:
        return f"a {self.type}"

    def is_defined_again(self, other: "Node") -> bool:
        return self.type == other.type and self.serial != other.serial


@attrs.frozen
class Nothing:
    """None in place of a leaf."""

    def __str__(self) -> str:
        return "None"


T = TypeVar("T")
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
    # What traces it: the types of the tracers among the arguments.
    tracers: frozenset[str] = frozenset()


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
    room = iter(range(PARTS))
    for index, name, value in _named(function, args, kwargs):
        if is_static(name) or (index is not None and is_static(index)):
            records[name] = static_of(value, room)
        else:
            for path, record in _records(value, name, filtered, room):
                records[path] = record
            if _holds_state(value):
                states.add(name)
    if filtered and isinstance(function, eqx.Module):
        records.update(_records(function, "self", filtered, room))
    return Signature(
        records,
        dict(options or {}),
        _context(),
        frozenset(states),
        by_keyword=frozenset(() if filtered else kwargs),
        tracers=frozenset(
            type(leaf).__name__
            for leaf in jtu.tree_leaves((args, kwargs))
            if isinstance(leaf, jax.core.Tracer)
        ),
    )


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
    value: Any, path: str, filtered: bool, room: Iterator[int], seen: tuple[int, ...] = ()
) -> Iterator[tuple[str, Record]]:
    if value is None:
        yield path, Nothing()
        return
    if isinstance(value, jax.Array | np.ndarray):
        yield path, _array(value)
        return
    children, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if jtu.treedef_is_leaf(structure) or id(value) in seen:
        yield path, _leaf(value, filtered, room)
        return
    if isinstance(value, optax.GradientTransformation):
        leaves = jtu.tree_leaves(value)
        if not any(map(eqx.is_array, leaves)) and (filtered or not leaves):
            yield path, static_of(value, room)  # one thing to its user, and not two functions
            return
    yield path, _node(type(value))
    for step, static in _static_parts(value, [key for (key,), _ in children], structure):
        yield path + step, static_of(static, room)
    for (key,), child in children:
        yield from _records(child, path + jtu.keystr((key,)), filtered, room, (*seen, id(value)))


STATIC = ".<static>"  # the step to what is static in a node and has no name


def _static_parts(value: Any, keys: list[Any], structure: Any) -> Iterator[tuple[str, Any]]:
    """What is static in a node of a pytree, by field as far as it has fields."""
    if isinstance(value, eqx.Module):
        fields = (f.name for f in dataclasses.fields(value) if f.metadata.get("static", False))
        yield from ((f".{name}", getattr(value, name)) for name in fields if hasattr(value, name))
        return
    _, static = structure.node_data()
    if static is None or type(value) in (dict, list, tuple):
        return
    left = list(static) if type(static) is tuple else [static]
    dynamic = {key.name for key in keys if isinstance(key, jtu.GetAttrKey)}
    if len(dynamic) == len(keys):
        for name in _field_names(type(value)):
            held = getattr(value, name, None) if name not in dynamic else None
            found = [i for i, item in enumerate(left) if item is held]
            if held is not None and found:
                yield f".{name}", left.pop(found[0])
    if any(item is not None for item in left):
        yield STATIC, tuple(left) if type(static) is tuple else static


def _field_names(kind: type) -> list[str]:
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    return [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []


def _leaf(value: Any, filtered: bool, room: Iterator[int]) -> Record:
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return _array(value)
    if not filtered and isinstance(value, bool | int | float | complex):
        return Scalar(type(value).__name__)
    return static_of(value, room)


def _array(value: Any) -> Array:
    aval = value
    with contextlib.suppress(TypeError):  # of NumPy's dtypes that are none of JAX's
        aval = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    sharding = committed = memory_kind = layout = None
    if isinstance(value, np.ndarray | np.generic):
        committed, memory_kind = False, jax.devices()[0].default_memory().kind
    elif not isinstance(value, jax.core.Tracer) and value.sharding is not None:
        committed = getattr(value, "committed", True)
        memory_kind = value.sharding.memory_kind
        if committed:  # where an array that is not happens to be is not in the key
            sharding, layout = value.sharding, _layout(value)
    return Array(
        tuple(aval.shape),
        _dtype_name(_dtype(aval)),
        bool(getattr(aval, "weak_type", False)),
        sharding,
        committed,
        memory_kind,
        layout,
    )


_dtype_name = functools.lru_cache(str)  # NumPy makes it anew each time, and a call has many leaves


def _dtype(aval: Any) -> Any:
    """The dtype in a trace, which may have fewer bits than one asked for."""
    if not isinstance(aval, jax.ShapeDtypeStruct):
        return aval.dtype
    try:
        return jax.dtypes.canonicalize_dtype(aval.dtype)
    except (TypeError, ValueError):  # of keys
        return aval.dtype


def _layout(value: Any) -> Hashable:
    try:
        return value.format.layout
    except Exception:  # of keys, and of arrays that are deleted
        return None


# --- what is static ---------------------------------------------------------------------------

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEPTH = 6  # of parts in parts
_ENDS = 64  # items at each end of a container are looked into: what is in between is not
PARTS = 1000  # of all that is static in a call
INSIDE = "function"
_serials = itertools.count()
_serial_of: ByIdentity[int] = ByIdentity()


def static_of(
    value: Any, room: Iterator[int] | None = None, depth: int = 0, seen: set[int] | None = None
) -> Static:
    """The record of a value that is static.

    **Arguments:**

    - `room`: one item for each part that there is room for still.
    """
    room = iter(range(PARTS)) if room is None else room
    if type(value) in _PLAIN:
        is_rounded = type(value) in (float, complex)
        token = (type(value), repr(value) if is_rounded else value)
        return Static(token, token, _text(value), "value")
    kind, place, parts = "value", None, {}
    with contextlib.suppress(Exception):  # of an attribute of the user's
        kind, place = _kind(value), place_of(value)
        for name, part in _parts(value, room, depth + 1, set() if seen is None else seen):
            parts[name] = part
    return Static(
        # Of parts, it is asked of functions only.
        _token(value) if depth == 0 or kind != "value" else None,
        _key(value),
        _text(value),
        kind,
        parts,
        place,
        _node(type(value)),
        is_unique=type(value).__eq__ is object.__eq__,
    )


def _token(value: Any) -> Hashable:
    """Equal to that of another value as long as `==` takes the two for the same."""
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return serial_of(value)
    kind = serial_of(type(value))
    try:
        token = hash(value)
    except Exception:
        return (kind, _text(value))
    return (kind, *map(_token, value)) if type(value) is tuple else (kind, token)


def serial_of(value: Any) -> Hashable:
    """A number that no other object has or will have."""
    known = _serial_of.get(value)
    if known is None:
        known = next(_serials)
        try:
            _serial_of.set(value, known)
        except TypeError:  # its id is the best there is
            return ("object", serial_of(type(value)), id(value))
    return ("object", known)


def _node(kind: type) -> Node:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return Node(f"{module}{kind.__qualname__}", serial_of(kind))


def _key(value: Any) -> Hashable:
    try:
        return identify(value, True)[0]
    except Exception:
        return None


def _kind(value: Any) -> str:
    if isinstance(value, optax.GradientTransformation):
        return "transformation"
    if isinstance(value, type):
        return "class"
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.FunctionType) and value.__code__.co_name in ("init_fn", "update_fn"):
        return "transformation" if module.startswith("optax.") else "callable"
    return "callable" if callable(value) else "value"


def _parts(
    value: Any, room: Iterator[int], depth: int, seen: set[int]
) -> Iterator[tuple[str, Static]]:
    if depth > _DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    for (name, content), _ in zip(_contents(value), room, strict=False):
        # What a global function is made of is none of the function's.
        inner = _DEPTH if name.startswith("global") else depth
        yield name, static_of(content, room, inner, seen)


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield from contents_of_function(value)
        for name in value.__code__.co_names:
            found = value.__globals__.get(name)
            if type(found) in _PLAIN[:-1] or isinstance(found, types.FunctionType):
                yield f"global {name!r}", found
    elif isinstance(value, functools.partial):
        yield from contents_of_partial(value)
    elif isinstance(value, types.MethodType):
        yield INSIDE, value.__func__
        yield "object", value.__self__
    elif isinstance(value, tuple | list):
        names = getattr(type(value), "_fields", None)
        for i in _ends(range(len(value))):
            yield f"field {names[i]!r}" if names else f"item {i}", value[i]
    elif isinstance(value, dict):
        for key in _ends(list(value)):
            yield f"item {_text(key)}", value[key]
    elif names := _field_names(type(value)):
        yield from ((f"field {n!r}", getattr(value, n)) for n in _ends(names) if hasattr(value, n))
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield INSIDE, inspect.unwrap(value)
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        for name in _ends(list(vars(value))):
            yield f"attribute {name!r}", vars(value)[name]


def _ends(items: Sequence[T]) -> Sequence[T]:
    return items if len(items) <= 2 * _ENDS else [*items[:_ENDS], *items[-_ENDS:]]


def place_of(value: Any) -> str | None:
    """Where a function is defined, as `file:line`."""
    value = inspect.unwrap(value) if callable(value) else value
    code = getattr(value, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


# --- words ------------------------------------------------------------------------------------

SHOWN = 80  # characters of a value
_KEPT = 1000  # characters of a text, and ten times that of a string
_ITEMS = 32  # of a container
_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}")}
_CONTAINERS = (*_BRACKETS, frozenset, collections.deque, collections.OrderedDict)
_SHOWN_AS_CONTAINERS = frozenset(kind.__repr__ for kind in _CONTAINERS)


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _text(value: Any) -> str:
    """What a value looks like, made from no more of it than is kept of the text."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in _pieces(value, 0):
            pieces.append(piece)
            length += len(piece)
            if length > _KEPT and len(pieces) > 1:
                return "".join([*pieces, "..."])
    except Exception:  # of an attribute of the user's
        return object.__repr__(value)
    return "".join(pieces)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """The text of a value, made as it is asked for."""
    if isinstance(value, str | bytes):
        more = len(value) - 10 * _KEPT
        yield _repr(value[: 10 * _KEPT]) + (f" and {more} more" if more > 0 else "")
    elif isinstance(value, jax.Array | np.ndarray):
        yield str(_array(value))
    elif isinstance(value, type):
        yield value.__qualname__ if depth else f"class {value.__qualname__}"
    elif callable(value) and not isinstance(value, eqx.Module) and hasattr(value, "__qualname__"):
        yield f"<function {value.__qualname__}>" if depth else f"function {value.__qualname__}"
    elif isinstance(value, optax.GradientTransformation) and attrs.has(type(value)):
        yield _repr(value)  # of a spec
    elif (items := _items(value)) is None:
        yield _repr(value)
    elif depth == _DEPTH:
        yield "..."
    else:
        opening, closing = _BRACKETS.get(type(value), (f"{type(value).__name__}(", ")"))
        yield opening
        i = -1
        for i, (label, item) in enumerate(items):
            yield ", " if i else ""
            if i == _ITEMS:
                yield f"{len(value)} in all" if isinstance(value, Sized) else "..."
                break
            yield label
            yield from _pieces(item, depth + 1)
        yield f",{closing}" if opening == "(" and i == 0 else closing


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a text of a value consists of, with labels, or None if it has a text of its own."""
    kind = type(value)
    if kind.__repr__ in _SHOWN_AS_CONTAINERS:
        if isinstance(value, dict):
            return ((f"{_text(key)}: ", item) for key, item in value.items())
        return (("", item) for item in value)
    if isinstance(value, functools.partial):
        positional = (("", item) for item in (value.func, *value.args))
        return itertools.chain(positional, ((f"{n}=", v) for n, v in value.keywords.items()))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return ((f"{name}=", item) for name, item in zip(kind._fields, value, strict=False))
    names = _field_names(kind)
    if not names:
        return None
    fields = attrs.fields_dict(kind) if attrs.has(kind) else kind.__dataclass_fields__
    shown = (fields[name] for name in names if fields[name].repr and hasattr(value, name))
    held = ((f, getattr(value, f.name)) for f in shown)
    return ((f"{f.name}=", item) for f, item in held if not _is_default(item, f.default))


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) in _PLAIN and type(value) is type(default) and value == default
    )


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    text = re.sub(r"^<(.*) object at 0x\w+>$", r"\1 object", " ".join(text.split()))
    return re.sub(r" at 0x\w+", "", text)


# --- surroundings -----------------------------------------------------------------------------


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


# Of the settings in the key of a jit cache, those that anybody changes. JAX has not all in each
# version; of the rest nothing can be asked.
_CONTEXT = (
    "jax_enable_x64",
    "jax_explicit_x64_dtypes",
    "jax_default_matmul_precision",
    "jax_default_device",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_debug_key_reuse",
    "jax_check_static_indices",
    "jax_error_checking_behavior_nan",
    "jax_error_checking_behavior_divide",
    "jax_error_checking_behavior_oob",
    "jax_softmax_custom_jvp",
    "jax_allow_f16_reductions",
    "jax_use_shardy_partitioner",
    "jax_use_direct_linearize",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_enable_pgle",
)


def _context() -> dict[str, str]:
    """The settings of JAX that a trace depends on."""
    settings = {name: str(getattr(jax.config, name, None)) for name in _CONTEXT}
    mesh = jax.sharding.get_abstract_mesh()
    settings["mesh"] = "none" if mesh.empty else str(mesh)
    return settings
