"""Rules that write values into keys: `RULES` by type, and `rule_for` for the other types."""

import collections
import contextlib
import enum
import functools
import inspect
import operator
import pathlib
import re
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from math import copysign
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .. import errors
from .._jax_internals.functions import (
    Jitted,
    has_programs,
    is_module_class,
    jit_options,
    jitted_by_equinox,
)
from .._python_internals.bytecode import MUTATORS, TELLS_TRACERS, Code, code_of, passes_self
from .._python_internals.libraries import (
    HIDDEN_ATTRIBUTES,
    impure_name,
    is_known,
    is_library_function,
)
from .._python_internals.namespaces import is_stable, noted
from .._python_internals.rebinding import captured_by, cells_of, is_bound, rebindable_variables
from .._python_internals.weak import known_by_identity, token_of
from . import instances
from .parts import kind_of
from .reader import LOGGERS, NOW, UNBOUND, HoldsArray, Mode, Reader, Rule, fixed, inside

MAX_BYTES = 1 << 16  # a larger NumPy array is not read, and equals no other

# --- functions ------------------------------------------------------------------------------------


def read_function(reader: Reader, function: types.FunctionType, mode: Mode) -> None:
    attributes = vars(function)
    if attributes and (original := noted(function, "__canonical_original__")) is not None:
        if not reader.was_seen(function, mode):  # records `function`, too: a program may return it
            reader.out.append("hoisted")
            reader.add(original, mode)
        return
    if attributes and (owner := noted(function, "__canonical_owner__")) is not None:
        # canonopt made this function: add its name and owner. The owner of an `update` is a spec.
        reader.out.append(function.__name__)
        reader.add(owner, fixed(inside(mode)))
        return
    is_library = is_library_function(function)
    # Return before `code_of` reads the bytecode, which takes 0.1 s for all of Optax's factories.
    if is_library and is_stable(function):
        read_stable(reader, function, mode)
        return
    if reader.was_seen(function, mode):
        return
    code = code_of(function)
    mode = inside(mode)
    out = reader.out
    out.append(types.FunctionType)
    reader.reading.can_change = True
    reader.function = function
    if "__wrapped__" in attributes and _read_type_checked(reader, function, mode):
        return
    _add_code(reader, function, code, mode)
    # A spec factory may read these attributes of a function, besides calling the function.
    out += (function.__name__, function.__qualname__)
    reader.add(function.__module__, mode)
    reader.add(function.__doc__, mode)
    if function.__closure__:
        _add_captured(reader, function, code, mode)
    reader.add_all(function.__defaults__ or (), mode)
    reader.add_named(function.__kwdefaults__ or {}, mode)
    # Reading `__annotations__` makes a dict, so skip it for a lambda, which has no annotations.
    annotations = {} if function.__name__ == "<lambda>" else function.__annotations__
    out.append(len(annotations))
    for name, annotation in annotations.items():  # runtime type checkers read these
        out += (name, annotation_key(annotation))
    if attributes:
        _add_attributes(reader, function, mode)
    # Globals of functions in the standard library, JAX, Optax and the like count as constant.
    if not is_known(function.__code__.co_filename):
        reader.add_globals(function, code)


def _add_code(reader: Reader, function: types.FunctionType, code: Code, mode: Mode) -> None:
    reader.out.append(code.key)
    if mode != "live":
        # The code looks up its globals in this namespace, so the namespace's id counts. A program
        # may outlive a function read in a mode of `NOW`, so the reading keeps the namespace alive.
        reader.out.append(id(function.__globals__))
        if mode in NOW:
            reader.reading.pinned.append(function.__globals__)


def _add_captured(reader: Reader, function: types.FunctionType, code: Code, mode: Mode) -> None:
    is_library = is_library_function(function)
    own = code.stores if is_library else ()  # variables that library code may rebind in a trace
    rebindable_names = () if mode == "live" else rebindable_variables(function)
    for name, cell in cells_of(function):
        value: Any = cell.cell_contents if is_bound(cell) else UNBOUND
        if reader.was_seen(cell, mode):  # a variable that two functions share
            reader.note_part(value)
            continue
        how = mode
        # Ignore that a library may rebind a variable which is still None, as `jax.vmap` does.
        if name in rebindable_names and not (value is None and name in own):
            reader.reading.reads_data = True
            if mode == "held":
                # The variable may get another value later, for all functions that share it. So the
                # variable counts by identity, as a mutable object does.
                how = "live"
                reader.add_identity(cell)
                reader.note(function, errors.OF_LIBRARY if is_library else errors.rebindable(name))
        if mode in NOW and name in own:
            # A trace of an Optax schedule may replace a captured int by a float. The int counts.
            _, value = reader.reading.rebound_cells.setdefault(id(cell), (cell, value))
        if type(value) is types.ModuleType:
            reader.add_module(function, value, code, name)
        elif isinstance(value, type) and name == "__class__" and name not in code.passed:
            # `super()` loads this cell, and makes no instance.
            reader.add_class(value)
        else:
            reader.add(value, how, name)


def annotation_key(annotation: Any) -> Any:
    """Return the key of an annotation: the token of a class, else the `repr` of the annotation."""
    # jaxtyping makes a new class for each annotation, so such a class counts by its `repr`.
    is_class = isinstance(annotation, type) and not hasattr(annotation, "dim_str")
    return token_of(annotation) if is_class else repr(annotation)


def _add_attributes(reader: Reader, function: types.FunctionType, mode: Mode) -> None:
    wrapped = vars(function).get("__wrapped__")
    # Leave out the attributes that `functools.wraps` has copied from a function of JAX or canonopt.
    kept = {name: vars(wrapped).get(name, UNBOUND) for name in _kept_on(wrapped)}
    attributes = {
        name: value
        for name, value in vars(function).items()
        if kept.get(name, UNBOUND) is not value and not name.startswith("__beartype")
    }
    is_wrapper = attributes.keys() <= {"__wrapped__"}
    if mode == "held" and not is_wrapper and not is_library_function(function):
        # Any code may give the attributes a meaning, and set them at any time.
        reader.add_identity(function, errors.has_attributes(attributes))
    reader.add_named(attributes, mode)


def _kept_on(wrapped: Any) -> set[str]:
    """Return the names of attributes that JAX or canonopt set on `wrapped` and functions in it."""
    own = getattr(type(wrapped), "__captured_fields__", None)
    if type(wrapped) in (Jitted, jax.custom_jvp, jax.custom_vjp):
        own = vars(wrapped).keys() - getattr(wrapped.__wrapped__, "__dict__", {}).keys()
    return set() if own is None else {*own} | _kept_on(wrapped.__wrapped__)


def _read_type_checked(reader: Reader, function: types.FunctionType, mode: Mode) -> bool:
    """Read a wrapper that beartype or jaxtyping made; return False for any other function.

    Such a wrapper has new code and cells each time, but all wrappers of one function do the same.
    """
    wrapped = vars(function)["__wrapped__"]
    defaults = function.__kwdefaults__ or {}
    if defaults.get("__beartype_func", UNBOUND) is wrapped:
        # The key leaves out the code of the wrapper, because its names contain ids of objects.
        reader.out.append("beartype")
        # Equal `BeartypeConf`s are one object, which changes when beartype caches its `repr`.
        reader.add_identity(defaults.get("__beartype_conf"))
    elif function.__code__.co_qualname == "jaxtyped.<locals>.wrapped_fn":
        _add_code(reader, function, code_of(function), mode)
        checker = captured_by(captured_by(function)["wrapped_fn_impl"]).get("param_fn")
        reader.add(type(checker).__name__, mode)
    else:
        return False
    reader.add(wrapped, mode)
    _add_attributes(reader, function, mode)
    return True


def read_stable(reader: Reader, value: Any, mode: Mode) -> None:
    """Add the identity of a stable value (see `is_stable`); `stop` if the value is impure."""
    reader.add_identity(value)
    if id(value) not in reader.judged:
        reader.judged[id(value)] = value
        reader.note_reached(value)
        if name := impure_name(value):
            reader.stop(reader.function or value, errors.impure(name))


# --- objects made of functions --------------------------------------------------------------------


def _unless_stable(rule: Rule) -> Rule:
    """Return a rule that adds a stable value by identity, and reads any other once, by `rule`."""

    @functools.wraps(rule)
    def read(reader: Reader, value: Any, mode: Mode) -> None:
        if is_stable(value):
            read_stable(reader, value, mode)
        elif not reader.was_seen(value, mode):
            rule(reader, value, mode)

    return read


def read_partial_or_method(reader: Reader, value: Any, mode: Mode) -> None:
    if reader.was_seen(value, mode):
        return
    kind: Any = kind_of(value)
    reader.out.append(type(value))
    if isinstance(value, functools.partial) and vars(value):
        reader.add_identity(value, errors.has_attributes(vars(value)))
        reader.add_named(vars(value), fixed(inside(mode)))
    if isinstance(value, types.MethodType) and not passes_self(value.__func__):
        reader.add(value.__func__, inside(mode))
        reader.add(value.__self__, inside(mode), "")
    else:
        reader.add_named(dict(kind.items(value)), inside(mode))


def read_builtin(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a function or a method that is written in C."""
    owner = value.__self__
    # `__self__` is the module of a function, and the object of a method.
    if owner is not None and not isinstance(owner, types.ModuleType):
        reader.out += (types.BuiltinFunctionType, value.__name__)
        reader.note_reached(value)
        reader.reads_any_attribute |= value.__name__ in ("format", "format_map")
        if value.__name__ in MUTATORS:
            reader.changes_objects = value.__name__
        reader.add(owner, inside(mode))
    elif is_stable(value):
        read_stable(reader, value, mode)
    else:
        reader.stop(value)


def read_descriptor(reader: Reader, value: Any, mode: Mode) -> None:
    reader.out += (type(value), token_of(value.__objclass__), value.__name__)
    if type(value) is not types.GetSetDescriptorType:  # ignore `__dict__`, which Flax wraps
        reader.note_reached(value)


def read_getter(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an `operator.itemgetter`, `attrgetter` or `methodcaller`."""
    made_by, arguments = value.__reduce__()  # getters have no attributes
    arguments = (*getattr(made_by, "args", ()), *arguments)  # `made_by` may be a partial
    # JAX calls methods of a registered class, such as `tree_flatten`, through a getter.
    names = ".".join(map(str, arguments)).split(".")
    if hidden := HIDDEN_ATTRIBUTES.intersection(names):
        reader.stop(value, errors.impure(min(hidden)))
        return
    reader.named.update(names)
    if told := TELLS_TRACERS.intersection(names):
        reader.note_telling(min(told))
    reader.out.append(type(value))
    reader.add_all(arguments, mode)
    reader.add_named(getattr(made_by, "keywords", {}), mode)


def add_programs(reader: Reader, value: Any, mode: Mode) -> None:
    """Add the identity of a jitted function if its compiled programs may be out of date.

    A value that the wrapped function reads may have changed since a program was traced. Then two
    jitted functions can differ, although the functions that they wrap are the same.
    """
    reader.reading.has_inner_jit = True
    called = mode in NOW and has_programs(value)
    if called or (mode not in NOW and reader.reads_data_in(value.__wrapped__, mode)):
        reader.add_identity(value, errors.OLD_TRACE)


@_unless_stable
def read_caching(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an object that keeps compiled programs: a result of `jax.jit` or `canonopt.jit`."""
    options = jit_options(value) if type(value) is Jitted else value.__captured_options__
    if options is None:
        reader.stop(value, errors.UNKNOWN_JIT)
        return
    if own := _set_on(value):
        reader.stop(value, errors.has_attributes(own))
        return
    reader.out.append(type(value))
    reader.add(value.__wrapped__, inside(mode))
    add_programs(reader, value, mode)
    for name, option in options.items():
        leaves, structure = jtu.tree_flatten(option)
        reader.out.append(name)
        reader.add_all(leaves, "held")
        reader.add(structure, "held")


def _set_on(jitted: Any) -> list[str]:
    """Return the names of attributes that were set on a result of `canonopt.jit`, or deleted."""
    if type(jitted) is Jitted or is_module_class(type(jitted)):  # `jit_options` checks a `Jitted`
        return []
    plain: Any = types.SimpleNamespace()
    made, own = vars(functools.update_wrapper(plain, jitted.__wrapped__)), vars(jitted)
    changed = []
    for name in (made | own).keys() - {*jitted.__captured_fields__}:
        one, other = made.get(name, UNBOUND), own.get(name, UNBOUND)
        # A function written in C makes new strings for its name and docstring at each access.
        if one is not other and not (type(one) is type(other) is str and one == other):
            changed.append(name)
    return sorted(changed)


@_unless_stable
def read_lru_cached(reader: Reader, value: Any, mode: Mode) -> None:
    """Refuse an `lru_cache`d function: it returns cached objects, whose content cannot be read."""
    reader.stop(value, errors.CACHE)


@_unless_stable
def read_with_derivative_rule(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a `jax.custom_jvp` or `jax.custom_vjp`."""
    reader.out.append(type(value))
    if vars(value).get("jvp", vars(value).get("fwd")) is None:
        reader.add_identity(value, errors.NO_RULE)
    reader.add_named(vars(value), inside(mode))


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
        reader.add_identity(value, errors.NO_VALUE)
    else:
        reader.out += (np.dtype, value.str, value.name)  # `str` of bfloat16 is that of raw bytes


def read_forward_ref(reader: Reader, value: typing.ForwardRef, mode: Mode) -> None:
    """Read a forward reference; refuse one that has been evaluated or that names its module."""
    if value.__forward_evaluated__ or value.__forward_module__ is not None:
        reader.stop(value)
    elif not reader.was_seen(value, mode):
        reader.enter_mutable(value, mode, errors.CHANGES)  # its first evaluation changes it
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


def read_weak_reference(reader: Reader, value: weakref.ref[Any], mode: Mode) -> None:
    if value() is not None:
        reader.stop(value)
    elif not reader.was_seen(value, mode):
        known = None  # a dead reference keeps the hash that it had been asked for
        with contextlib.suppress(TypeError):
            known = hash(value)
        reader.out += (weakref.ref, known)


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
            reader.add_identity(value, errors.NO_VALUE)
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
        # A copy would have another order, so the factory gets the set itself, which may change.
        reader.stop(value, errors.CHANGES)
        return
    reader.out.append(kind)
    mode = reader.enter_mutable(value, mode, errors.CHANGES)
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
            reader.stop(value, errors.TOO_LARGE)
            return
        reader.holds_mutable = True
        reader.reading.has_numpy = True  # even a read-only view may change with its base
        # Dtypes with fields, and the dtypes of `ml_dtypes`, have the `str` of raw bytes.
        dtype = (value.dtype.str, repr(value.dtype))
        reader.out += (np.ndarray, *dtype, value.shape, value.flags.writeable)
        # JAX reuses its copy while a program has it: see docs/upstream/jax-numpy-constants.md.
        reader.add_identity(value, None if mode == "live" else errors.ARRAY)
        reader.reading.can_change = reader.reading.reads_data = True
        reader.out.append(value.tobytes())
    else:
        reader.stop(value, errors.ARRAY)


def is_integer_scalar(array: jax.Array) -> bool:
    """Return True for an addressable integer or bool scalar: JAX may use its value in `x**n`."""
    if isinstance(array, jax.core.Tracer) or array.ndim:
        return False
    is_integer = array.dtype == bool or jnp.issubdtype(array.dtype, np.integer)
    return is_integer and array.is_fully_addressable


# --- trees ------------------------------------------------------------------------------------


def read_node(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an instance; raise `HoldsArray` if it is "given" and has arrays among its leaves."""
    leaves = jtu.tree_leaves(value) if mode == "given" else ()
    if any(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves):
        raise HoldsArray
    instances.read_instance(reader, value, mode)
    if jitted_by_equinox(value):
        add_programs(reader, value, mode)


def read_treedef(reader: Reader, value: Any, mode: Mode) -> None:
    pending, out = [value], reader.out
    while pending:
        node = pending.pop()
        out.append(jtu.PyTreeDef)
        if (data := node.node_data()) is None:  # the node is a leaf
            out.append(node.num_leaves)
            continue
        kind, static = data
        reader.add_class(kind)
        # JAX compares `static` with the static data of an earlier call, which may have changed
        # since. So mutable parts have the mode "held". But dicts of JAX and Equinox count by
        # content: a sparse matrix has a new dict, and Equinox wrappers have dicts of annotations.
        if kind.__module__.startswith(("jax.", "equinox.")):
            _read_static(reader, static)
        else:  # for a dict, `static` is a new list of its keys
            reader.add(tuple(static) if kind is dict else static, "held")
        children = node.children()
        out.append(len(children))
        pending += reversed(children)


def _read_static(reader: Reader, static: Any) -> None:
    """Read static data: the outer tuples and dicts by their parts only, the rest as "held"."""
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

    - `__canonical_key__` returns the object's item in a key. In the mode "given", it raises
        `HoldsArray` for an object with leaves. In a mode of `NOW`, a spec made only from constants
        is its own item: the key keeps it alive, so that an equal spec built later is the same.
    - `__canonical_parts__` returns what the object was made from, if that can change, or values to
        read in place of the object.
    """
    parts = tuple(value.__canonical_parts__("now" if mode in NOW else mode))
    # Two equal specs that have parts may be different objects, so `was_seen` records each one.
    is_spec, is_now = hasattr(type(value), "__canonicalized__"), mode in NOW
    if is_spec and is_now and parts and reader.was_seen(value, mode):
        return
    reader.out += (value.__canonical_key__("now" if is_now else mode), len(parts))
    for part in parts:  # a copy of a spec replaces only its arrays and inner specs
        is_replaced = isinstance(part, jax.Array) or hasattr(type(part), "__canonicalized__")
        of_now: Mode = mode if is_replaced else "fixed"
        reader.add(part, of_now if is_now else "held")


def rule_for(value: Any) -> Rule:
    """Return the rule for a value of a type that is not in `RULES`."""
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
    if instances.is_immutable(kind):
        return instances.read_immutable
    if instances.is_record(kind):
        return read_tuple
    return None


# A subclass of several of these classes is read by the rule of the first.
_BY_BASE: tuple[tuple[Any, Rule], ...] = (
    ((jax.Array, np.ndarray, jax.core.Tracer), read_array),
    (np.generic, read_numpy_scalar),
    (np.dtype, read_numpy_dtype),
    (type, instances.read_class),
    (enum.Enum, instances.read_enum),
    ((jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec), read_comparable),
    (jax.Device, read_comparable),
    (pathlib.PurePath, instances.read_path),
)


RULES: dict[type, Rule] = {
    types.FunctionType: read_function,
    types.MethodType: read_partial_or_method,
    types.BuiltinFunctionType: read_builtin,
    # A C method that receives its defining class has this type, which has no public name.
    type(re.compile("").search): read_builtin,
    types.MethodWrapperType: read_builtin,
    weakref.ref: read_weak_reference,
    types.MethodDescriptorType: read_descriptor,
    types.WrapperDescriptorType: read_descriptor,
    types.ClassMethodDescriptorType: read_descriptor,
    types.GetSetDescriptorType: read_descriptor,
    functools.partial: read_partial_or_method,
    jtu.Partial: read_partial_or_method,
    operator.itemgetter: read_getter,
    operator.attrgetter: read_getter,
    operator.methodcaller: read_getter,
    Jitted: read_caching,
    type(functools.lru_cache(len)): read_lru_cached,
    jax.custom_jvp: read_with_derivative_rule,
    jax.custom_vjp: read_with_derivative_rule,
    **dict.fromkeys(_PARTS, read_parts),
    tuple: read_tuple,
    **dict.fromkeys((list, dict, set, collections.deque, types.MappingProxyType), read_container),
    **dict.fromkeys((collections.OrderedDict, collections.defaultdict), read_container),
    np.ufunc: read_ufunc,
    typing.ForwardRef: read_forward_ref,
    **dict.fromkeys(LOGGERS, instances.read_logger),
    type: instances.read_class,
    jtu.PyTreeDef: read_treedef,
}
