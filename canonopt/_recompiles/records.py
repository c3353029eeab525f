"""Record what `jax.jit` compares in a call: for each path, such as `model.lr`, one `Leaf`.

A `Leaf` has facts about a value, but not the value itself. So a `Call`, which holds the leaves,
keeps no argument alive. Later calls are compared with the `Call`.
"""

import collections
import contextlib
import enum
import functools
import inspect
import itertools
import operator
import re
import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any

import attrs
import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax.sharding import Mesh, Sharding

from .._identity import (
    ENTERED,
    KEEPS,
    MAX_WORDS,
    NUMPY,
    ONE_ARRAY,
    HoldsArray,
    Reading,
    attributes_of,
    closure_items,
    described,
    keeps_state,
    read,
    read_call,
    static_fields,
    why_not_shared,
)
from .._jax_internals.arrays import array_text, code_of_sharding, in_batch, placement_text
from .._jax_internals.flax_nnx import UNNAMED_STATIC, module_parts
from .._jax_internals.functions import call_of_pmap, name_of
from .._jax_internals.settings import around_calls, context_of_calls, entered_context
from .._jax_internals.tracing import clearings_so_far
from .._jax_internals.watching import Miss
from .._python_internals.bytecode import code_of, key_of
from .._python_internals.callers import Caller, caller_of, place_of
from .._python_internals.libraries import (
    attribute,
    is_library_class,
    is_library_module,
    is_users_function,
    unwrapped,
)
from .._python_internals.namespaces import is_constant, loaded, noted
from .._python_internals.rebinding import captured_by
from .._python_internals.weak import token_of
from .._texts import (
    PLAIN,
    children_of,
    fields_of,
    is_gradient_transformation,
    is_same_plain,
    is_spec,
    text_of,
)
from ..errors import ARRAY, INNER_JIT, OLD_TRACE, Incomparable

# --- paths ----------------------------------------------------------------------------------------

# Paths, and beginnings of paths, that lead to no argument. A report leaves out the beginnings.
FUNCTION = "<function>"
CONTEXT, OPTION, GIVEN = "<context> ", "<option> ", "<given> "
TRANSFORMS, CACHE, JIT = "<transforms>", "<cache>", f"{CONTEXT}jit"
BY_ITSELF = "by itself"  # the text of a call without a transformation around it
CLASS = ".__class__"  # ends the path to a node's class, recorded only for canonopt's jits


def is_inside(path: str, outer: Collection[str]) -> bool:
    """Return True if `path` is one of `outer` or leads into one, as `x.lr` leads into `x`."""
    return path in outer or any(path[: m.start()] in outer for m in re.finditer(r"[.\[]", path))


# --- records --------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Leaf:
    """The facts about one leaf, static value or pytree node of a call.

    `kind` is "array", "number" (a Python number that is traced), "none", "node" (a pytree node),
    "text" (an option or a setting), or for a static value "value", "callable" or "transformation".
    """

    kind: str
    text: str
    # Two values of one kind that JAX finds equal have equal tokens. Since hashes collide, static
    # values that JAX finds different may have equal tokens, too.
    token: Hashable
    # Equal for static values that canonopt treats as the same; None for a value that was not read.
    digest: Hashable = None
    type: str = ""
    type_token: Hashable = None  # differs if a class is defined again under the same name
    # For arrays. Placement is not recorded for a tracer, nor sharding for an uncommitted array.
    shape: tuple[int, ...] = ()
    dtype: str = ""
    weak_type: bool = False
    committed: bool | None = None
    sharding: str | None = None
    devices: int = 1
    memory_kind: str | None = None
    # The parts of a static value by name, such as the captured variables of a function. The dict is
    # flat: the parts of a part come just before the part, whose own `parts` is empty.
    parts: Mapping[str, "Leaf"] = attrs.field(factory=dict)
    made: str = ""  # where or by what a function is made, as words that follow its name
    code: object = None  # the code of a function, without its file and line
    why_not_shared: str | None = None
    is_unique: bool = False  # whether its class compares instances by identity
    is_opaque: bool = False  # whether `canonicalize` cannot find functions inside it
    stores: frozenset[str] = frozenset()  # the outer variables that a function may change
    is_of_optax: bool = False  # whether a factory or a class of Optax made it
    is_own: bool = False  # whether nothing but fields is between the value and the part
    is_of_module: bool = False  # whether a module has a name for it: `hoist` returns it unchanged
    is_wrapped: bool = False  # whether it is the jitted function inside of a wrapper of Equinox

    @property
    def is_static(self) -> bool:
        return self.kind in ("value", "callable", "transformation")

    @property
    def is_array(self) -> bool:
        return self.kind == "array"

    @property
    def is_key(self) -> bool:
        """Return True for a typed random key."""
        return self.dtype.startswith("key<")

    def looks_like(self, other: "Leaf") -> bool:
        return (self.text, self.code) == (other.text, other.code)

    @property
    def number(self) -> str:
        """Return a number of Python, NumPy or `canonopt.dynamic` as text; "" for other values."""
        pattern = r"(?:canonopt\.dynamic\()?(?:np\.\w+\()?(-?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan))\)*"
        found = re.fullmatch(pattern, self.text)
        return "" if found is None else found[1]

    @property
    def spec_and_mesh(self) -> tuple[str, str]:
        """Return the text of the sharding without its mesh, and the text of the mesh, or ""."""
        spec, _, mesh = str(self.sharding).partition(" of ")
        return spec, mesh

    @property
    def holds_dynamic(self) -> bool:
        return "canonopt.dynamic(" in self.text

    @property
    def is_dynamic(self) -> bool:
        return self.text.startswith("canonopt.dynamic(")

    @property
    def factories(self) -> list[str]:
        """Return the names of the factories that have built a transformation."""
        text = re.sub(r"canonopt\.dynamic\([^()]*\)", "", self.text)
        # The text of a transformation of Optax consists of the names of its factories.
        return [text] if text.startswith("optax.") else re.findall(r"[\w.]+(?=\()", text)

    @property
    def is_integer(self) -> bool:
        return self.number.lstrip("-").isdigit()


NOTHING = Leaf("none", "None", None)


def text_leaf(text: str, token: Hashable = None) -> Leaf:
    return Leaf("text", text, text if token is None else token)


def node_leaf(node: Any, is_empty: bool = False) -> Leaf:
    kind = type(node)
    name, token = type_name(kind), _object_token(kind)
    text, facts = f"{'an' if name[0] in 'aeio' else 'a'} {name}", (name, token)
    if is_empty:  # so that filling an empty dict is one difference
        text, facts = f"an empty {name}", (name, token, 0)
    elif kind is collections.OrderedDict:  # JAX compares its order
        text, facts = f"an OrderedDict with keys {text_of((*node,))}", (name, repr((*node,)))
    return Leaf("node", text, facts, type=name, type_token=token)


def type_name(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def as_traced(leaf: Leaf, other: Leaf) -> Leaf:
    """Return `leaf`, or its record as an array if it is a number and `other` is an array."""
    kinds = {"bool": bool, "int": int, "float": float, "complex": complex}
    # An `enum.IntEnum` is a number too, but its type is not one of these.
    if not other.is_array or leaf.kind != "number" or leaf.type not in kinds:
        return leaf
    dtype = str(jnp.result_type(kinds[leaf.type]))
    # A Python number is not on a device yet, so it counts as not committed.
    committed = None if other.committed is None else False
    placement = {"committed": committed, "memory_kind": other.memory_kind}
    return attrs.evolve(leaf, kind="array", dtype=dtype, weak_type=dtype != "bool", **placement)


# --- arrays ---------------------------------------------------------------------------------------


def array_leaf(value: Any) -> Leaf:
    """Return the record of an array, a NumPy array, a tracer or a `jax.ShapeDtypeStruct`."""
    aval, dtype = value, value.dtype
    with contextlib.suppress(TypeError, ValueError):  # for random keys, and dtypes that JAX lacks
        if isinstance(value, jax.ShapeDtypeStruct):
            dtype = jax.dtypes.canonicalize_dtype(dtype)  # as in a trace, where x64 may be off
        else:
            aval = jax.typeof(value)
            dtype = aval.dtype
    shape, dtype, is_weak = tuple(aval.shape), _dtype_name(dtype), getattr(aval, "weak_type", False)
    text = f"{dtype}[{','.join(map(str, shape))}]{', weak' if is_weak else ''}"
    placement = {} if isinstance(value, jax.core.Tracer) else _placement_of(value)
    token = (text, *placement.values())
    return Leaf("array", text, token, shape=shape, dtype=dtype, weak_type=is_weak, **placement)


def _placement_of(array: Any) -> dict[str, Any]:
    if (where := getattr(array, "sharding", None)) is None:  # a NumPy array or `ShapeDtypeStruct`
        return {"committed": False, "memory_kind": jax.devices()[0].default_memory().kind}
    placement = {"committed": getattr(array, "committed", True), "memory_kind": where.memory_kind}
    if placement["committed"]:  # otherwise the device is not in a jit cache's key
        devices = getattr(where, "num_devices", 1)
        placement |= {"sharding": _sharding_text(where), "devices": devices}
    return placement


# Cached, because JAX and NumPy build these texts each time, and a call has many leaves.
_dtype_name = functools.lru_cache(str)
_sharding_text = functools.lru_cache(placement_text)


# --- static values --------------------------------------------------------------------------------

_MAX_DEPTH = 16  # maximum levels of parts in parts: a chain with a schedule in it has ten


@attrs.define
class Budget:
    """The limits on what canonopt may still record of the static values of one call.

    Reading a part reads all inside it, which takes minutes if a function leads to many objects.
    """

    parts: int = 1000
    words: int = 30_000  # how many items all `Leaf.digest`s together may have
    seen: set[int] = attrs.field(factory=set)  # the ids of values whose parts are recorded
    own: Collection[str] = ()  # the names of the outermost value's parts
    # How `read` reads the value and its parts, except parts of globals. In "held", the identity of
    # a mutable object counts, not only its content. In "now", as for `canonopt.jit`, only the
    # content counts, and captured arrays that may become arguments of a program are not compared.
    mode: str = "held"
    # Maps ids of objects to the attributes that the function reads. Of other objects, all count.
    by_name: Mapping[int, Collection[str]] = attrs.field(factory=dict)


def static_leaf(
    value: Any,
    budget: Budget | None = None,
    is_part: bool = False,
    explain: bool = False,
    is_live: bool = False,
) -> Leaf:
    """Return the record of a static value, without a digest or parts if the budget is used up.

    `is_part`: the value is a part of another, and its own parts are not recorded. `explain`: also
    record why the value would not be equal if it were built again. `is_live`: the value is
    in a global or is an argument's class, so mutable objects are compared by content, not identity.
    """
    budget = Budget() if budget is None else budget
    if type(value) in PLAIN:
        is_float = type(value) in (float, complex)
        digest = (type(value), repr(value) if is_float else value)  # NaN equals NaN, 0.0 not -0.0
        # JAX finds a NaN equal to another only if both are the same object.
        token = digest if value == value else (digest, id(value))
        return Leaf("value", text_of(value), token, digest)
    facts: dict[str, Any] = {"parts": {}}
    if budget.words > 0:
        with contextlib.suppress(Exception):
            given: dict[str, Any] = {"beside" if is_live else budget.mode: (value,)}
            found = read(**given, explain=explain, max_words=budget.words)
            is_read = found.is_comparable and len(found.key) < budget.words
            facts["digest"] = found.key if is_read else None
            budget.words -= len(found.key)
            # Skip inner jits: if the user removed one, the value might still not be shared.
            reasons = (r for r in found.incomparable if r.why != INNER_JIT.why)
            if (first := next(reasons, None)) is not None:
                what = f"{described(value, first, text_of)[1]} {first.why}"
                facts["why_not_shared"] = f"{what}. {first.fix}"
    kind = "value"
    with contextlib.suppress(Exception):  # an attribute of a user's class may raise any error
        is_of_optax = facts["is_of_optax"] = _is_of_optax(value)
        # An `optax.MultiSteps` has an `update`, but is no `GradientTransformation`.
        is_built = is_of_optax and hasattr(type(value), "update")
        if is_built or is_gradient_transformation(value):
            kind = "transformation"
        elif callable(value) and not isinstance(value, type):
            kind = "callable"
        facts["made"] = _made(value)
        facts["is_of_module"] = callable(value) and is_constant(value)
        if isinstance(value, types.FunctionType):
            facts["code"] = key_of(_unchecked_code(value))
        if not is_part:
            _add_parts(value, budget, facts["parts"])
            facts["stores"] = _stores(value, facts["parts"])
            of_known = (type(v) in PLAIN or callable(v) for v in jtu.tree_leaves(value))
            facts["is_opaque"] = not all(of_known)
        if is_spec(value):
            facts["why_not_shared"] = _why_spec_not_shared(value)
    kind_of = value if isinstance(value, type) else type(value)
    return Leaf(
        kind,
        text_of(value),
        # Among the parts, only functions and transformations are compared by token.
        None if is_part and kind == "value" else _equality_token(value),
        type=type_name(kind_of),
        type_token=_object_token(kind_of),
        is_unique=type(value).__eq__ is object.__eq__ and not isinstance(value, type),
        **facts,
    )


def _unchecked_code(function: types.FunctionType) -> types.CodeType:
    """Return a function's code, without a type checker's wrapper, which has new code each time."""
    code, wrapped = function.__code__, vars(function).get("__wrapped__")
    if code.co_filename.startswith("<") and isinstance(wrapped, types.FunctionType):
        return _unchecked_code(wrapped)
    return code


def _add_parts(
    value: Any,
    budget: Budget,
    parts: dict[str, Leaf],
    depth: int = 0,
    outer: str = "",
    is_own: bool = True,
) -> None:
    """Add the parts of a value to `parts`, each after its own parts. `outer` names the value."""
    contents = [*itertools.islice(_contents(value), budget.parts)]
    if not depth:
        budget.own = {name for name, _ in contents}
    named = budget.by_name.get(id(value))
    unread = () if named is None else [f"attribute {n!r}" for n in vars(value) if n not in named]
    for name, part in contents:
        if not budget.parts:
            return
        if name in unread:
            continue
        is_field = name.startswith("field ") and is_own
        # The name of an object is left out if the function reads only some of its attributes.
        is_of_whole = named is None and outer not in ("", "object") and not is_field
        in_object = name.startswith(("item ", "attribute ", "field ")) or "attribute '" in outer
        if in_object and is_of_whole:
            name = f"{name} of {outer}"
        if is_field and outer:  # the value is a dataclass in a dataclass
            name = f"{outer[:-1]}.{name.removeprefix('field ')[1:]}"
        in_spec = depth and is_spec(value)  # a spec is an optimizer or a schedule of canonopt
        if in_spec and type(part) in PLAIN:
            continue  # the text of a captured spec has these numbers already
        budget.parts -= 1
        if depth < _MAX_DEPTH and id(part) not in budget.seen:
            budget.seen.add(id(part))
            # A global has only one level of parts here, which bounds the search.
            is_bounded = name.startswith("global") and not _is_of_optax(part)
            below = _MAX_DEPTH if is_bounded else depth + 1
            _add_parts(part, budget, parts, below, name, is_field)
        # Inner parts come first, and get a number if the value itself has a part of the same name.
        plain = () if depth and name in budget.own else (name,)
        names = itertools.chain(plain, (f"{name} ({i})" for i in itertools.count(2)))
        leaf = static_leaf(part, budget, is_part=True, is_live=(outer or name)[:6] == "global")
        if in_spec and leaf.is_dynamic:
            continue
        if is_own:
            leaf = attrs.evolve(leaf, is_own=True)
        parts[next(n for n in names if n not in parts)] = leaf


def _equality_token(value: Any) -> Hashable:
    if isinstance(value, types.FunctionType) or type(value).__eq__ is object.__eq__:
        return _object_token(value)
    kind = _object_token(type(value))
    # Do not hash a named tuple of functions, such as an Optax optimizer: a function's hash is its
    # address, which a new function may get once the old function is gone.
    if isinstance(value, tuple) and type(value).__eq__ is tuple.__eq__:
        # Do not compare the types of numbers in it: 1, 1.0 and `np.int64(1)` are equal.
        items = (v.item() if isinstance(v, np.generic) else v for v in value)
        numbers = int | float | complex
        return (kind, *(v if isinstance(v, numbers) else _equality_token(v) for v in items))
    try:
        return (kind, hash(value))
    except Exception:
        return (kind, text_of(value))


def _object_token(value: Any) -> Hashable:
    """Return a token that no other live object has, with an id if no weak reference can be made."""
    try:
        return ("object", token_of(value))
    except TypeError:
        return ("object", token_of(type(value)), id(value))


def _is_of_optax(value: Any) -> bool:
    """Return True for a transformation or a schedule that a factory or a class of Optax made."""
    value = value.update if is_gradient_transformation(value) else value
    is_function = isinstance(value, types.FunctionType)
    owner = value if is_function else type(value)
    is_made = ".<locals>." in owner.__qualname__ if is_function else hasattr(owner, "update")
    return is_made and str(owner.__module__).startswith("optax.") and not isinstance(value, type)


def _why_spec_not_shared(spec: Any) -> str | None:
    """Return why an optimizer or a schedule of canonopt cannot be shared; None if it can be."""
    for name, value in spec.parameters().items():
        for inner in filter(is_spec, jtu.tree_leaves(value, is_leaf=is_spec)):
            if why := _why_spec_not_shared(inner):
                return why
        with contextlib.suppress(HoldsArray):  # raised for a dynamic number
            found = read(given=(value,), explain=True).incomparable
            # If a dict holds arrays, report the arrays: a tuple in place of the dict does not help.
            for each in sorted(found, key=lambda each: each.why != ARRAY.why):
                path, what = described(value, each, text_of)
                part = f"in its {name}, {what.removeprefix('its ')}" if path else f"its {name}"
                return f"{part} {each.why}. {_FROM_ARGUMENT if each.why == ARRAY.why else each.fix}"
    return None


_FROM_ARGUMENT = (
    "Take it from the function's argument (for a mask or a label function: the parameters), or "
    "capture Python numbers."
)


def _made(value: Any) -> str:
    """Return where or by what a function was made, such as `, in make_step (train.py:3)`."""
    if isinstance(value, functools.partial):
        return ", by functools.partial"
    place = f" ({place_of(value)})" if place_of(value) else ""
    # JAX wraps its functions once more, for shorter tracebacks.
    while str((attribute(value, "__globals__") or {}).get("__name__")).endswith("traceback_util"):
        value = captured_by(value).get("fun")
    # Not `__name__`: a wrapper may have the name of the function that it wraps.
    name = value.__code__.co_qualname if isinstance(value, types.FunctionType) else ""
    maker, is_inner, _ = name.rpartition(".<locals>.")
    if not is_inner:
        return place
    if not is_users_function(value):
        package = str(value.__globals__.get("__name__")).partition(".")[0]
        return f", by {package}.{maker.partition('.')[0]}{place}"
    holder, _, last = maker.rpartition(".")
    found = (attribute(value.__globals__.get(holder), "__dict__") or {}).get(last)
    return f", in {'the property ' if isinstance(found, property) else ''}{maker}{place}"


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, or the values that a function reads, each with its name."""
    fields = fields_of(type(value))
    if isinstance(value, types.FunctionType):
        value = noted(value, "__canonical_original__") or value  # what `hoist` was given
        if (owner := noted(value, "__canonical_owner__")) is not None:  # `value` is its `update`
            yield from _contents(owner)
            return
        yield from closure_items(value)
        if is_users_function(value):
            yield from _globals_of(value).items()
    elif isinstance(value, type):
        found = {} if is_library_class(value) else vars(value)
        methods = {name: part for name, part in found.items() if is_users_function(part)}
        named = {name for part in methods.values() for name in code_of(part).attributes}
        yield from ((f"class attribute {n!r}", found[n]) for n in found if n in named - {*methods})
        yield from ((f"method {name!r}", part) for name, part in methods.items())
    elif is_spec(value):  # names are the paths of parameters
        found = {**value.hyperparameters(), **value.parameters()}
        yield from ((f".{name}", part) for name, part in found.items())
    elif isinstance(value, functools.partial):
        names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
        pairs = (*zip(names, value.args, strict=False), *value.keywords.items())
        yield from ((f"argument {name!r}", part) for name, part in pairs)
        yield from _contents(value.func)
    elif isinstance(value, types.MethodType):
        yield from (*_contents(value.__func__), ("object", value.__self__))
    elif callable(value) and (inner := unwrapped(value)) is not value:
        yield from _contents(inner)
    elif fields:
        names = (field.name for field in fields if hasattr(value, field.name))
        yield from ((f"field {name!r}", getattr(value, name)) for name in names)
        yield from _class_of(value)
    elif isinstance(value, tuple | list):
        names = getattr(type(value), "_fields", None)
        for i, item in enumerate(value):
            yield f"field {names[i]!r}" if names else f"item {i}", item
    elif isinstance(value, dict):
        yield from ((f"item {text_of(key)}", item) for key, item in value.items())
    elif (children := children_of(value)) is not None:
        yield from ((f"item {step}", child) for step, child in children)
    elif (
        hasattr(value, "__dict__")
        and not isinstance(value, types.ModuleType | enum.Enum)
        # The attributes of a mesh and the like tell a reader nothing.
        and not type(value).__module__.startswith(("jax.", "numpy."))
    ):
        yield from ((f"attribute {name!r}", item) for name, item in vars(value).items())
        yield from _class_of(value)


def _class_of(value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if not is_library_class(kind):
        yield f"class {kind.__qualname__!r}", kind


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the globals, and the attributes of the user's modules, that a function names."""
    code, named = code_of(function), {}
    for name, *attributes in sorted(filter(None, code.paths)):
        found = function.__globals__.get(name, types) if name in code.globals else types
        if isinstance(found, types.ModuleType) and attributes and not is_library_module(found):
            name, found = f"{name}.{attributes[0]}", vars(found).get(attributes[0], types)
        if not isinstance(found, types.ModuleType | types.BuiltinFunctionType):
            named[f"global {name!r}"] = found
    return named


# The records of functions that `jax.jit` compares by identity, so that each is read only once.
_known: weakref.WeakKeyDictionary[types.FunctionType, Leaf] = weakref.WeakKeyDictionary()


def function_leaf(
    function: Any, is_shared: bool = False, filtered: bool = False, is_ours: bool = False
) -> Leaf:
    """Return the record of a jitted function, with the facts that `canonopt.jit` compares.

    `is_shared`: whether equal functions share a program. `filtered`: whether the jit is
    `filter_jit`. `is_ours`: whether the jit is canonopt's.
    """
    is_plain = isinstance(function, types.FunctionType)
    if is_plain and not is_shared and (known := _known.get(function)) is not None:
        return known
    budget, refused, reading = Budget(mode="now"), why_not_shared(function), None
    most = MAX_WORDS if is_ours else budget.words  # `canonopt.jit` has read all of it already
    with contextlib.suppress(Exception):
        reading = read_call(function, explain=True, max_words=most)
        budget.by_name = reading.by_name
    leaf = static_leaf(function, budget)
    if reading is not None and (is_ours or len(reading.key) < most):
        with contextlib.suppress(Exception):
            found = _why_never_shared(function, reading, leaf.parts, is_ours)
            # Report `stores` only if the reason is a NumPy array, or none is found.
            if refused == KEEPS or (found and not reading.has_numpy):
                leaf = attrs.evolve(leaf, stores=frozenset())
            if found and not (is_ours or refused):
                found += _OTHERWISE
            why = found or why_not_shared(function)  # `read_call` may note a reason
            if (context := entered_context()) is not None:
                why = why or ENTERED.format(context)
            leaf = attrs.evolve(leaf, digest=reading.key, why_not_shared=why)
    if is_plain and not is_shared:
        _known[function] = leaf
    # Bound methods of one object are equal, but `jax.jit` tells them apart.
    elif isinstance(function, types.MethodType) and not filtered:
        leaf = attrs.evolve(leaf, token=token_of(function))
    return leaf


def _stores(function: Any, parts: Mapping[str, Leaf]) -> frozenset[str]:
    """Return the outer variables that a function may change, such as a count of its traces."""
    owner = function.__self__ if isinstance(function, types.MethodType) else None
    function = function if owner is None else function.__func__
    if not is_users_function(function):
        return frozenset()
    code = code_of(function)
    if owner is not None:
        known = {*attributes_of(owner), *dir(type(owner))}
        return frozenset(f"self.{name}" for name in code.sets_attributes & known)
    kinds = ("list", "dict", "set", "collections.Counter", "collections.defaultdict")
    own = (name for name, part in parts.items() if part.is_own and part.type in kinds)
    held = {found[2] for found in map(_NAMED.match, own) if found}
    return code.stores or frozenset(held if code.changes_objects else ())


_OTHERWISE = (
    " Then canonopt.jit or canonopt.filter_jit shares the program. Or make the function once, in a "
    "function under functools.cache."
)
_IN_CELL = (
    " If the array is made again, as when a notebook cell runs again, pass it as an argument."
)
_MAX_STOPS = 4  # maximum number of reasons that a report names
_MAX_CLASSES = 8  # maximum number of classes of arguments in a record: each takes 2 ms or more
_NAMED = re.compile(r"(captured variable|global|attribute) '(\w+)'")


def _why_never_shared(
    function: Any, reading: Reading, parts: Mapping[str, Leaf], is_ours: bool
) -> str | None:
    """Return why `canonopt.jit` would not share the program of a function; None if it would."""
    if reading.has_numpy:
        arrays = {n: part for n, part in parts.items() if part.type == "numpy.ndarray"}
        own = [n for n, part in arrays.items() if part.is_own] or [*arrays][:3]
        named = (found.groups() for n in own if (found := _NAMED.match(n)))
        of_self = getattr(attribute(function, "__self__"), "__dict__", ())
        names = [f"self.{n}" if n in of_self else "" if k == "attribute" else n for k, n in named]
        lines = "; ".join(f"{name} = jnp.asarray({name})" for name in names if name)
        is_global = lines and any(n[:6] == "global" for n in own)
        lines += ", outside of functions" if is_global else ""
        unnamed = f"jnp.asarray for {', '.join([*arrays][:3])}" if arrays else ONE_ARRAY
        what = NUMPY.format(lines or unnamed)
        return f"{what}{_IN_CELL if is_global else ''}"
    with_rules = (o for o in reading.objects if isinstance(o, jax.custom_jvp | jax.custom_vjp))
    rules = (attribute(each, name) for each in with_rules for name in ("jvp", "fwd", "bwd"))
    if any(rule is not None and keeps_state(rule) for rule in rules):
        return KEEPS
    by_why: dict[str, Incomparable] = {}
    for i, each in enumerate(reading.incomparable):
        if i < reading.stops or (is_ours and each.why == OLD_TRACE.why):
            by_why.setdefault(each.why, each)
    if not by_why:
        return None
    first, *others = [*by_why.values()][:_MAX_STOPS]
    # Finding the path to a part takes 0.15 ms or more, so only the first part is named.
    what = f"{described(function, first, text_of)[1]} {first.why}"
    part = "something in the whole function"
    what += "".join(f", and {part} {o.why}" for o in others if o.fix == first.fix)
    more = (f" {part.capitalize()} {o.why}. {o.fix}" for o in others if o.fix != first.fix)
    return f"{what}. {first.fix}{''.join(more)}"


def reading_of(
    function: Any, args: tuple, kwargs: dict[str, Any], before: Reading | None = None
) -> Reading:
    """Return a `Reading` of a function and its static arguments. `before`: an earlier `Reading`."""
    leaves, structure = jtu.tree_flatten((args, kwargs))
    static = [leaf for leaf in leaves if not isinstance(leaf, jax.Array | np.ndarray)]
    return read_call(function, (structure, *static), before=before, explain=True)


# --- calls ----------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Call:
    """The record of a call: the facts that JAX compares, by path, and facts for advice."""

    is_filtered: bool = False  # a call of `filter_jit`, where all leaves but arrays are static
    name: str = ""  # the name of the function
    leaves: dict[str, Leaf] = attrs.field(factory=dict)
    budget: Budget = attrs.field(factory=Budget)
    states: set[str] = attrs.field(factory=set)  # the paths of the optimizer states
    # Maps the user's classes of pytree nodes to the path of the first such node.
    classes: dict[type, str] = attrs.field(factory=dict)
    # The arguments with modules of Flax nnx, whose static attributes cannot be set from outside.
    modules_of_flax: set[str] = attrs.field(factory=set)
    caller: Caller = attrs.field(factory=Caller)  # the names in the code around the call
    # Maps a committed array's sharding (as text) and memory kind to code that makes the sharding.
    places: dict[tuple[str | None, str | None], str | None] = attrs.field(factory=dict)
    wrapper: Hashable = None  # a token of the wrapper that JAX jits, as for `jax.pmap`
    donates: bool = False  # whether some of its arrays are donated
    is_shared: bool = False  # whether `canonopt.jit` compares the digests of leaves, not the tokens
    is_lowered: bool = False  # whether the call was made by `.lower()`, or only traced
    clearings: int = 0  # how often JAX's caches were cleared before this call
    at_default: frozenset[str] = frozenset()  # the arguments that are equal to their defaults

    @property
    def jit(self) -> str:
        """Return the jit that the call came through, such as `jax.jit`, or "" if unknown."""
        return self.leaves[JIT].text if JIT in self.leaves else ""

    def in_state(self, path: str) -> bool:
        return is_inside(path, self.states)

    def root(self, path: str) -> str:
        """Return the argument that a path begins with, such as `x`, or `args[0]` for `*args`."""
        given = (name for name in self.caller.arguments if is_inside(path, {name}))
        return next(given, re.split(r"[.\[]", path)[0])


def call_of(
    function: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    is_static: Callable[[str | int], bool] = lambda _: False,
    filtered: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Call:
    """Return the record of one call.

    `is_static` returns True for an argument, by index or name, that is static as a whole. If
    `filtered` is true, all leaves but arrays are static. `options` are those given to `jax.jit`.
    """
    call, options = Call(filtered, name_of(function)), options or {}
    leaves = call.leaves
    named, call.at_default = _named(function, args, kwargs)
    call.caller = caller_of(((n, v) for _, n, v in named), _is_given, (Mesh, Sharding))
    for index, name, value in named:
        is_whole = is_static(name) or (index is not None and is_static(index))
        (_add_static if is_whole else _add)(call, name, value)
    # To `filter_jit`, the module itself is an argument, so its arrays are leaves of the call.
    if filtered and isinstance(function, loaded("equinox", "Module")):
        _add(call, "self", function)
        # A wrapper of Equinox, such as `filter_value_and_grad`, holds the user's function.
        is_wrapper = type(function).__module__.startswith("equinox._")
        for name in ("_fun", "_fun_value_and_grad._fun") if is_wrapper else ():
            if leaves.get(f"self.{name}", NOTHING).is_static:
                leaf = function_leaf(operator.attrgetter(name)(function), filtered=True)
                leaves[f"self.{name}"] = attrs.evolve(leaf, is_wrapped=True)
    # Equinox binds the arguments to the signature, so keywords make no difference to Equinox.
    for index, name, _ in named if not filtered else ():
        leaves[GIVEN + name] = text_leaf("by keyword" if index is None else "by position")
    for name, value in options.items():
        # JAX infers `_argnames` from `_argnums`, so the names add nothing.
        if not (name.endswith("_argnames") and options.get(f"{name[:-5]}nums")):
            leaves[OPTION + name] = text_leaf(repr(value))
    leaves.update(_context_leaves((*context_of_calls().items(),)))
    flat = jtu.tree_leaves((args, kwargs))
    tracers = frozenset(type(x).__name__ for x in flat if isinstance(x, jax.core.Tracer))
    words = sorted(_TRANSFORMS.get(name, f"with {name}s") for name in tracers)
    leaves[TRANSFORMS] = text_leaf(" and ".join(words) or BY_ITSELF, tracers)
    call.caller.variables.clear()  # a record keeps no mesh alive
    return call


@functools.lru_cache(16)  # the 46 settings seldom change
def _context_leaves(context: tuple[tuple[str, Hashable], ...]) -> dict[str, Leaf]:
    return {CONTEXT + name: text_leaf(str(value)) for name, value in context}


def call_of_miss(miss: Miss, function: Any) -> Call:
    """Return the record of a call that missed the jit cache; `function` is the user's function."""
    given, args, kwargs, is_static = miss.function, miss.args, miss.kwargs, miss.is_static
    is_inside = function is not given
    is_of_jax = is_inside and str(attribute(given, "__module__")).startswith("jax.")
    if is_of_jax and (mapped := call_of_pmap(given, args)) is not None:
        given, args, kwargs, is_static = mapped
    elif is_inside:  # take the user's function, unless JAX has flattened its arguments
        with contextlib.suppress(TypeError):
            inspect.signature(function).bind(*args, **kwargs)
            given = function
    facts = {"is_static": is_static, "filtered": miss.filtered, "options": miss.options}
    call = call_of(given, args, kwargs, **facts)
    # JAX may make another wrapper of the same function, for example for other static data.
    call.wrapper = token_of(miss.function) if is_of_jax else None
    donated = miss.options.get("donate_argnums") or ()
    call.donates = any(jtu.tree_leaves(miss.given[0][i : i + 1]) for i in donated)
    # If `canonopt.jit` runs the call by `jax.jit`, only the modules in `through` show that.
    is_ours = miss.is_shared or "canonopt._steps.programs" in call.caller.through
    # `canonopt.jit` traces before it calls, so its trace does not count as lowered.
    call.is_lowered = not (miss.is_call or miss.is_shared)
    call.clearings = clearings_so_far()
    # Ask this before `function_leaf`, which may note a reason.
    is_refused = miss.is_shared and why_not_shared(function) is not None
    leaf = function_leaf(function, miss.is_shared, miss.filtered, is_ours)
    call.is_shared = miss.is_shared and not is_refused and leaf.digest is not None
    if is_ours and not (miss.is_shared or leaf.why_not_shared):
        with contextlib.suppress(Exception):
            reading = reading_of(function, args, kwargs)
            if reading.stops:
                each = reading.incomparable[0]
                part = text_of(each.part)
                why = f"an argument is or refers to {part}, which {each.why}. {each.fix}"
                leaf = attrs.evolve(leaf, why_not_shared=why)
    if is_ours:  # `canonopt.jit` also compares what the classes of arguments read
        for kind, path in itertools.islice(call.classes.items(), _MAX_CLASSES):
            call.leaves[path + CLASS] = static_leaf(kind, call.budget, is_live=True)
    call.classes.clear()  # a record keeps no class alive
    around = _context_leaves((*around_calls().items(),)) if is_ours else {}
    theirs, name = ("equinox", "filter_jit") if miss.filtered else ("jax", "jit")
    package = call.caller.package
    jit = f"{'canonopt' if is_ours else theirs}.{name}{f' in {package}' if package else ''}"
    if is_ours and call.is_lowered and not miss.is_shared:
        jit += ", lowered by hand"  # `jax.jit` runs it, and does not find the program of a call
    call.leaves = {FUNCTION: leaf, **around, **call.leaves, JIT: text_leaf(jit)}
    return call


def shapes_of_miss(miss: Miss) -> str:
    """Return the arrays and the static values that an operation of JAX was given, as text.

    The text names the device of an array that is committed to one device other than the first.
    """
    given = [*enumerate(miss.args), *miss.kwargs.items()]
    traced = [value for name, value in given if not miss.is_static(name)]
    leaves = map(in_batch, jtu.tree_leaves(traced))
    static = [value for name, value in given if miss.is_static(name)]
    texts = [array_text(a) + _on(a) if hasattr(a, "shape") else type(a).__name__ for a in leaves]
    runs = [(text, len([*run])) for text, run in itertools.groupby((*texts, *map(text_of, static)))]
    return ", ".join(f"{n} of {text}" if n > 1 else text for text, n in runs) or "nothing"


def _on(array: Any) -> str:
    is_placed = isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
    if not is_placed or not array.committed or len(array.sharding.device_set) > 1:
        return ""
    (device,) = array.sharding.device_set
    return "" if device == jax.devices()[0] else f" on device {device.id}"


# The transformation around a call, by the class name of the tracers in its arguments. The keys are
# names, since JAX exports only some of the classes.
_TRANSFORMS = {
    "BatchTracer": "under jax.vmap",
    "JVPTracer": "under jax.jvp",
    "LinearizeTracer": "under jax.grad",
    "DynamicJaxprTracer": "inside another trace",
}


def _named(
    function: Any, args: tuple, kwargs: Mapping[str, Any]
) -> tuple[list[tuple[int | None, str, Any]], frozenset[str]]:
    """Return (index or None, name, value) of each argument, and names of those at their default."""
    parameters: list[inspect.Parameter] = []
    with contextlib.suppress(ValueError, TypeError):  # some C functions lack a signature
        parameters = [*inspect.signature(function).parameters.values()]
    names = [p.name for p in parameters if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    names += [f"{rest}[{i}]" for i in range(len(args))]
    pairs = enumerate(zip(names, args, strict=False))
    given: list[tuple[int | None, str, Any]] = [(i, name, value) for i, (name, value) in pairs]
    given += [(None, name, value) for name, value in kwargs.items()]
    values = {name: value for _, name, value in given}
    optional = (p for p in parameters if p.default is not p.empty and p.name in values)
    at_default = (p.name for p in optional if is_same_plain(values[p.name], p.default))
    return given, frozenset(at_default)


def _is_given(found: Any, value: Any) -> bool:
    """Return True if both are one object, or one pytree that `equinox.filter_jit` built again."""
    if found is value or type(found) is not type(value):
        return found is value
    leaves, others = jtu.tree_leaves(found), jtu.tree_leaves(value)
    is_same = len(leaves) == len(others) > 0
    return is_same and all(map(operator.is_, leaves, others))


_ARRAYS: Any = jax.Array | np.ndarray | np.generic


def _add_static(call: Call, path: str, value: Any) -> None:
    if module_parts(value) is not None:
        return _add(call, path, value)
    made_by = value.func if isinstance(value, functools.partial) else value
    is_explained = any(
        isinstance(each, types.MethodType) or is_users_function(each)
        for each in (made_by, attribute(made_by, "__wrapped__"))  # for a jitted function
    )
    call.leaves[path] = static_leaf(value, call.budget, explain=is_explained)


def _add(call: Call, path: str, value: Any, outer: frozenset[int] = frozenset()) -> None:
    """Add a pytree. `outer` has the ids of the nodes around it: a pytree may contain itself."""
    leaves = call.leaves
    if value is None:  # a node without leaves to JAX, but its record shows where a leaf is missing
        leaves[path] = NOTHING
        return
    if isinstance(value, _ARRAYS | jax.ShapeDtypeStruct):
        leaf = leaves[path] = array_leaf(value)
        place = leaf.sharding, leaf.memory_kind
        if leaf.sharding is not None and place not in call.places:
            call.places[place] = code_of_sharding(value.sharding, call.caller.variables)
        return
    if not call.is_filtered and isinstance(value, bool | int | float | complex):
        name = type(value).__name__
        leaves[path] = Leaf("number", f"a Python {name}", name, type=name)
        return
    if (module := module_parts(value)) is not None:
        call.modules_of_flax.add(call.root(path))
        leaves[path] = node_leaf(value)
        static, children = module
    else:
        # Flatten one level at a time, because each node has a record of its own.
        flat, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
        # Not `treedef_is_leaf`, which is true for an empty dict, too.
        is_whole = jtu.all_leaves((value,)) or id(value) in outer
        if is_gradient_transformation(value):  # it is one thing to the user, not two functions
            inside = jtu.tree_leaves(value)
            has_arrays = any(isinstance(leaf, _ARRAYS) for leaf in inside)
            is_whole = not has_arrays and (call.is_filtered or not inside)
        if is_whole:
            return _add_static(call, path, value)
        if _is_state(value) and not call.in_state(path):
            call.states.add(path)
        leaves[path] = node_leaf(value, is_empty=not flat)
        if not is_library_class(type(value)):
            call.classes.setdefault(type(value), path)
        if is_spec(value):
            leaves[path + UNNAMED_STATIC] = _spec_leaf(value, structure, call.budget)
        static = () if is_spec(value) else _static_parts(value, flat, structure)
        children = [(jtu.keystr((key,)), child) for (key,), child in flat]
    for step, part in static:
        _add_static(call, path + step, part)
    for step, child in children:
        _add(call, path + step, child, outer | {id(value)})


def _static_parts(value: Any, children: list[Any], structure: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path step, value) for the static data of a pytree node. A field's step is `.name`."""
    if isinstance(value, loaded("equinox", "Module")):
        names = (name for name in static_fields(type(value)) if hasattr(value, name))
        yield from ((f".{name}", getattr(value, name)) for name in names)
        return
    _, static = structure.node_data()
    # The static data of a dict are its keys, which the paths of its children show already.
    if static is None or type(value) in (dict, list, tuple, collections.OrderedDict):
        return
    left = list(static) if type(static) is tuple else [static]
    held = {id(child) for _, child in children}
    names = [field.name for field in fields_of(type(value))]
    for name in names or getattr(value, "__dict__", ()):
        found = getattr(value, name, None)
        at = next((i for i, item in enumerate(left) if item is found), None)
        if found is not None and at is not None and id(found) not in held:
            yield f".{name}", left.pop(at)
    if any(item is not None for item in left):
        yield UNNAMED_STATIC, tuple(left) if type(static) is tuple else static


def _spec_leaf(spec: Any, structure: Any, budget: Budget) -> Leaf:
    """Return the record of a spec (see `is_spec`) without its dynamic numbers, which are leaves."""
    leaf, keys = static_leaf(spec, budget), [k for k, _ in jtu.tree_flatten_with_path(spec)[0]]
    traced = {jtu.keystr(each) for key in keys for each in (key, key[:-1])}  # a leaf and its node
    parts = {name: part for name, part in leaf.parts.items() if name not in traced}
    token = _object_token(structure.node_data()[1])
    text = re.sub(r"canonopt\.dynamic\([^()]*\)", "canonopt.dynamic(...)", leaf.text)
    return attrs.evolve(leaf, text=text, token=token, digest=token, parts=parts)


def _is_state(value: Any) -> bool:
    """Return True for a state of Optax or canonopt, or a tuple of such states, as `chain` has.

    The module of the class decides, not the class name: a user's `TrainState` holds a model, too.
    """
    if type(value) is tuple:
        return bool(value) and all(map(_is_state, value))
    package = type(value).__module__.partition(".")[0]
    is_namedtuple = isinstance(value, tuple) and hasattr(type(value), "_fields")
    is_of_optax = package in ("optax", "canonopt")
    return is_of_optax and is_namedtuple and not is_gradient_transformation(value)
