"""What a jit cache keys on, for one leaf, static value or pytree node, without the value itself.

`static_of` and `node_of` make the records, as `array_of` does for an array.
"""

import contextlib
import functools
import inspect
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import jax.numpy as jnp

from .._identity import closure_items, partial_items, read
from .._jax_internals import Array
from .._python_internals import is_constant, token_of
from .._texts import (
    MAX_SHOWN,
    PLAIN,
    cut_to_difference,
    fields_of,
    is_gradient_transformation,
    is_spec,
    place_of,
    shortened,
    text_of,
)
from .causes import HANDFUL, PAIR


@attrs.frozen
class Scalar:
    """A Python number that is traced: its type is in the key, its value is not."""

    type: str

    def __str__(self) -> str:
        return f"a Python {self.type}"


@attrs.frozen
class Static:
    """A value that is part of the program."""

    # Equal where `==` of the values is. Sometimes equal where it is not, since hashes collide.
    token: Hashable
    # Equal where canonopt treats the values as the same.
    key: Hashable = attrs.field(eq=False)
    text: str = attrs.field(eq=False)
    kind: str = attrs.field(eq=False)
    # By name, for example the captured variables and the defaults of a function.
    parts: Mapping[str, "Static"] = attrs.field(eq=False, factory=dict)
    place: str | None = attrs.field(eq=False, default=None)
    node: "Node | None" = attrs.field(eq=False, default=None)
    # For a canonopt spec: why another build is not the same object, and what to write.
    why_not_shared: str | None = attrs.field(eq=False, default=None)
    # Whether the class compares by identity.
    is_unique: bool = attrs.field(eq=False, default=False)
    # The variables around a function that it stores to.
    stores: frozenset[str] = attrs.field(eq=False, default=frozenset())

    @property
    def is_number(self) -> bool:
        return re.fullmatch(r"-?[\d.]+(e-?\d+)?", self.text) is not None

    def __str__(self) -> str:
        return shortened(self.text)


@attrs.frozen
class Node:
    """The type of a pytree node or of a static value."""

    type: str
    token: Hashable  # differs for a class that is defined again under the same name

    def __str__(self) -> str:
        return f"a {self.type}"

    def is_defined_again(self, other: "Node") -> bool:
        return self.type == other.type and self.token != other.token


@attrs.frozen
class Nothing:
    """None in place of a leaf."""

    def __str__(self) -> str:
        return "None"


Record: TypeAlias = Array | Scalar | Static | Node | Nothing


def as_traced(record: Record | None, other: Record | None) -> Record | None:
    """A Python number as the weakly typed array that it becomes, if the other call has an array."""
    types = {"bool": bool, "int": int, "float": float, "complex": complex}
    if not isinstance(record, Scalar) or not isinstance(other, Array) or record.type not in types:
        return record  # an `enum.IntEnum`, for one
    kind = types[record.type]
    # It is on no device yet, as an array that is not committed.
    committed = None if other.committed is None else False
    dtype, is_weak = str(jnp.result_type(kind)), kind is not bool
    return Array((), dtype, is_weak, None, committed, other.memory_kind)


# --- static values ----------------------------------------------------------------------------

_MAX_DEPTH = 16  # of parts in parts: an optimizer of a schedule in a chain has ten
_ENDS = 64  # items that are read at each end of a container
WRAPPED_FUNCTION = "function"  # the name of this part


@attrs.define
class Budget:
    """What may still be recorded of all static values of a call together.

    Each part is read with all inside of it, for minutes if a function holds half of a program.
    """

    parts: int = 1000
    words: int = 30_000  # of keys


def static_of(
    value: Any, budget: Budget | None = None, depth: int = 0, seen: set[int] | None = None
) -> Static:
    """The record of a static value. Without its key or its parts if the budget is used up."""
    budget = Budget() if budget is None else budget
    if type(value) in PLAIN:
        is_float = type(value) in (float, complex)
        key = (type(value), repr(value) if is_float else value)  # NaN equals NaN, 0.0 is not -0.0
        # To JAX, NaN is equal to itself only as one object.
        token = key if value == value else (key, id(value))
        return Static(token, key, text_of(value), "value", is_unique=value != value)
    kind, key, place, parts = "value", None, None, {}
    if budget.words > 0:
        with contextlib.suppress(Exception):
            found = read((value,), max_words=budget.words).key
            key = found if len(found) < budget.words else None
            budget.words -= len(found)
    with contextlib.suppress(Exception):  # from an attribute of a user's class
        kind, place = _kind(value), place_of(value)
        for name, part in _parts(value, budget, depth + 1, set() if seen is None else seen):
            parts[name] = part
    return Static(
        # Among the parts, only functions are compared by token.
        _equality_token(value) if depth == 0 or kind != "value" else None,
        key,
        text_of(value),
        kind,
        parts,
        place,
        node_of(type(value)),
        _why_not_shared(value),
        is_unique=type(value).__eq__ is object.__eq__,
    )


def node_of(kind: type) -> Node:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return Node(f"{module}{kind.__qualname__}", _object_token(kind))


def _equality_token(value: Any) -> Hashable:
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return _object_token(value)
    kind = _object_token(type(value))
    try:
        hashed = hash(value)
    except Exception:
        return (kind, text_of(value))
    # Not by the hash of a named tuple of functions, such as a transformation: that of a function is
    # its address, which another one may have once it is gone.
    is_tuple = isinstance(value, tuple) and type(value).__eq__ is tuple.__eq__
    return (kind, *map(_equality_token, value)) if is_tuple else (kind, hashed)


def _object_token(value: Any) -> Hashable:
    """Stands for this object and no other; by its id if it has no weak references."""
    try:
        return ("object", token_of(value))
    except TypeError:
        return ("object", token_of(type(value)), id(value))


def _why_not_shared(value: Any) -> str | None:
    if is_spec(value):
        found = read((*value.parameters().values(),), explain=True).incomparable
        return f"{text_of(found[0].part)} {found[0].why}. {found[0].fix}" if found else None
    if isinstance(value, types.FunctionType) and is_constant(value):
        return "canonopt takes what a module has under a name for one object. Define it once."
    return None


def _kind(value: Any) -> str:
    if is_gradient_transformation(value):
        return "transformation"
    if isinstance(value, type):
        return "class"
    if isinstance(value, types.FunctionType) and value.__code__.co_name in ("init_fn", "update_fn"):
        return "transformation" if str(value.__module__).startswith("optax.") else "callable"
    return "callable" if callable(value) else "value"


def _parts(value: Any, budget: Budget, depth: int, seen: set[int]) -> Iterator[tuple[str, Static]]:
    if depth > _MAX_DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    for name, content in _contents(value):
        if not budget.parts:
            return
        budget.parts -= 1
        # A function that is read as a global has no parts here, which bounds the search.
        inner = _MAX_DEPTH if name.startswith("global") else depth
        yield name, static_of(content, budget, inner, seen)


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        yield from closure_items(value)
        for name in value.__code__.co_names:
            found = value.__globals__.get(name)
            if type(found) in PLAIN[:-1] or isinstance(found, types.FunctionType):
                yield f"global {name!r}", found
    elif isinstance(value, functools.partial):
        names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
        labels = {f"argument {i}": f"argument {name!r}" for i, name in enumerate(names)}
        yield from ((labels.get(label, label), part) for label, part in partial_items(value))
    elif isinstance(value, types.MethodType):
        yield WRAPPED_FUNCTION, value.__func__
        yield "object", value.__self__
    elif is_spec(value):  # by its parameters
        names = [field.name for field in fields_of(type(value)) if field.name != "_rebuild"]
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
    elif isinstance(value, tuple | list):
        names = getattr(type(value), "_fields", None)
        for i in _ends(range(len(value))):
            yield f"field {names[i]!r}" if names else f"item {i}", value[i]
    elif isinstance(value, dict):
        for key in _ends(list(value)):
            yield f"item {text_of(key)}", value[key]
    elif fields := fields_of(type(value)):
        names = (field.name for field in _ends(fields) if hasattr(value, field.name))
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield WRAPPED_FUNCTION, inspect.unwrap(value)
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        for name in _ends(list(vars(value))):
            yield f"attribute {name!r}", vars(value)[name]


def _ends(items: Sequence[Any]) -> Sequence[Any]:
    return items if len(items) <= 2 * _ENDS else [*items[:_ENDS], *items[-_ENDS:]]


# --- how two of them differ -------------------------------------------------------------------


@attrs.frozen
class StaticDifference:
    """Two static values that differ, and where in them."""

    before: Static
    after: Static
    # The outermost functions or transformations on the way to what differs, or the values.
    old_function: Static
    new_function: Static
    # The innermost parts of these that look different, if any do, and the name of the part.
    visible: tuple[Static, Static] | None
    name: str | None
    # The class that was defined again between the two calls, if that is what differs.
    redefined: Node | None

    @property
    def is_of_numbers(self) -> bool:
        return self.visible is not None and all(s.is_number for s in self.visible)

    @property
    def is_same_to_canonopt(self) -> bool:
        # Keys may be equal though a global, or a variable that several functions capture, changed.
        same_key = self.old_function.key is not None and (
            self.old_function.key == self.new_function.key
        )
        return same_key and self.visible is None

    def wanted(self, kind: str) -> int:
        """How many programs are likely wanted that differ in this."""
        parts = self.visible or (self.before, self.after)
        if self.redefined is not None or parts[0].text == parts[1].text:
            return 1  # the same, made again
        if parts[0].is_number and parts[1].is_number:
            return 1 if kind == "transformation" else PAIR
        return HANDFUL


def difference_of(before: Static, after: Static) -> StaticDifference:
    old, new = outermost_functions(before, after)
    way = way_to(old, new, looks_different)
    name, visible = (way[-1][0], way[-1][1:]) if way else (None, None)
    return StaticDifference(before, after, old, new, visible, name, class_inside(before, after))


def outermost_functions(before: Static, after: Static) -> tuple[Static, Static]:
    """The outermost function or transformation on the way to what differs, or the values."""
    for inner in ((before, after), *((old, new) for _, old, new in way_in(before, after))):
        if {inner[0].kind, inner[1].kind} & {"transformation", "callable"}:
            return inner
    return before, after


Part: TypeAlias = tuple[str, Static, Static]


def way_in(before: Static, after: Static) -> list[Part]:
    """The named parts that lead to where two values differ, outermost first."""
    # What the user can read comes first: two texts that differ explain more than two objects.
    ends = (looks_different, _is_other_object, _is_other_function)
    if before.kind != "value":
        # A function may capture another object that looks the same in every part.
        ends = (looks_different, _is_other_object, lambda old, new: old.key != new.key)
    return next(filter(None, (way_to(before, after, is_end) for is_end in ends)), [])


def way_to(before: Static, after: Static, is_end: Callable[[Static, Static], bool]) -> list[Part]:
    if before.parts.keys() != after.parts.keys():  # lists of different lengths, for one
        return []
    for name, old in before.parts.items():
        new = after.parts[name]
        # These are new objects as a whole, whatever their parts are.
        is_whole = old.kind == "transformation" or (old.kind == "value" and old.is_unique)
        looks_inside = is_end is looks_different or not is_whole
        inner = way_to(old, new, is_end) if looks_inside else []
        if inner or is_end(old, new):
            return [(name, old, new), *inner]
    return []


def looks_different(before: Static, after: Static) -> bool:
    is_other = before.text != after.text or _defined_again(before, after) is not None
    return is_other and before.key != after.key


def _is_other_object(before: Static, after: Static) -> bool:
    """Whether two that may look the same are two functions, or objects compared by identity."""
    return before.key != after.key and (before.kind != "value" or before.is_unique)


def _is_other_function(before: Static, after: Static) -> bool:
    """Whether two functions are the same to canonopt, and not to JAX."""
    return before.kind != "value" and before.token != after.token


def _defined_again(before: Static, after: Static) -> Node | None:
    """The class of two values, if it was defined again between them."""
    if before.node is None or after.node is None or not after.node.is_defined_again(before.node):
        return None
    return after.node


def class_inside(before: Static, after: Static) -> Node | None:
    """The class that was defined again, of the values or of a part that differs."""
    pairs = ((before, after), *((old, new) for _, old, new in way_in(before, after)))
    return next(filter(None, (_defined_again(*pair) for pair in pairs)), None)


def static_words(before: Static, after: Static) -> tuple[str, str]:
    """The part that differs, with its name and owner; or that none does."""
    is_alike = before.text == after.text
    if again := class_inside(before, after):
        return str(before), f"{after}, and class {again.type} was defined again"
    # Two short texts that differ are enough. Of long ones, and of a partial or a method, the part
    # that differs is easier to see.
    if is_alike or len(before.text) > MAX_SHOWN or before.parts.keys() > {WRAPPED_FUNCTION}:
        owner, outer = before, after
        is_built = before.kind == "transformation"  # as it was built, not as it is inside
        way = way_to(before, after, looks_different) if is_built else way_in(before, after)
        for name, old, new in way:
            # The text of a function is no more than its name, so the way goes on to what it
            # captured.
            is_clear = old.text != new.text and max(len(old.text), len(new.text)) <= MAX_SHOWN
            if new is way[-1][2] or (is_clear and old.place is None):
                if is_built:
                    owner, outer, name = before, after, name.removeprefix("captured variable ")
                old_text, new_text = cut_to_difference(old.text, new.text)
                same = " (another object)" if old.text == new.text else ""
                return f"{owner} with {name} {old_text}", f"{outer} with {name} {new_text}{same}"
            owner, outer = old, new
    if not is_alike:
        return cut_to_difference(before.text, after.text)
    where = f" ({after.place})" if after.place else ""
    if before.kind == "class":
        return f"{before}", "another class of the same name: it was defined again"
    if before.kind != "value":
        return f"{before}{where}", "another object made by the same code"
    if before.is_unique:
        return f"{before}", "another object, equal only to itself"
    return f"{before}", "another value, which differs in a part too long to show"
