"""Rules for the keys of callables: each key holds the code and the values that the code uses."""

import functools
import operator
import re
import types
from typing import Any

import jax
import jax.tree_util as jtu

from .._jax_internals.functions import (
    Jitted,
    has_programs,
    is_module_class,
    jit_options,
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
from .._python_internals.weak import token_of
from ..errors import (
    CACHE,
    NO_RULE,
    OF_LIBRARY,
    OLD_TRACE,
    UNKNOWN_JIT,
    has_attributes,
    impure,
    rebindable,
)
from .parts import kind_of
from .reader import NOW, UNBOUND, Mode, Reader, Rule, fixed, inside

# --- functions ------------------------------------------------------------------------------------


def read_function(reader: Reader, function: types.FunctionType, mode: Mode) -> None:
    attributes = vars(function)
    if attributes and (original := noted(function, "__canonical_original__")) is not None:
        if not reader.was_seen(function, mode):  # records it: a shared program may return it
            reader.out.append("hoisted")
            reader.add(original, mode)
        return
    if attributes and (owner := noted(function, "__canonical_owner__")) is not None:
        # A function that canonopt made counts by its name and its owner: for `update`, the spec.
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
    for name, annotation in annotations.items():  # type checkers read annotations
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
    # The variables that a library's function may rebind itself, when it is traced.
    own = code.stores if is_library_function(function) else ()
    rebindable_names = () if mode == "live" else rebindable_variables(function)
    for name, cell in cells_of(function):
        value: Any = cell.cell_contents if is_bound(cell) else UNBOUND
        if reader.was_seen(cell, mode):  # a variable that two functions share
            reader.note_part(value)
            continue
        how = mode
        # Skip a variable that a library rebinds, if it is None: `jax.vmap` has one for a mesh axis.
        if name in rebindable_names and not (value is None and name in own):
            reader.reading.reads_data = True
            if mode == "held":
                # The variable may get another value later, for all functions that share it. So the
                # variable counts by identity, as a mutable object does.
                how = "live"
                reader.add_identity(cell)
                is_library = is_library_function(function)
                reader.note(function, OF_LIBRARY if is_library else rebindable(name))
        if mode in NOW and name in own:
            # When traced, Optax's schedules turn captured ints into floats: the ints count.
            _, value = reader.reading.library_cells.setdefault(id(cell), (cell, value))
        if type(value) is types.ModuleType:
            reader.add_module(function, value, code, name)
        elif isinstance(value, type) and name == "__class__" and name not in code.passed:
            # `super()` loads this cell, and makes no instance.
            reader.add_class(value)
        else:
            reader.add(value, how, name)


def annotation_key(annotation: Any) -> Any:
    """Return the key of an annotation: a class's unique number, or the `repr` of another value."""
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
        reader.add_identity(function, has_attributes(attributes))
    reader.add_named(attributes, mode)


def _kept_on(wrapped: Any) -> set[str]:
    """Return the attributes that JAX or canonopt has set on an inner function."""
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
            reader.stop(reader.function or value, impure(name))


# --- objects made of functions --------------------------------------------------------------------


def _unless_stable(rule: Rule) -> Rule:
    """Return a rule that reads stable values by identity, and all others once, by `rule`."""

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
        reader.add_identity(value, has_attributes(vars(value)))
        reader.add_named(vars(value), fixed(inside(mode)))
    if isinstance(value, types.MethodType) and not passes_self(value.__func__):
        reader.add(value.__func__, inside(mode))
        reader.add(value.__self__, inside(mode), "")
    else:
        reader.add_named(dict(kind.items(value)), inside(mode))


def read_builtin(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a function or a method that is written in C."""
    owner = value.__self__
    # `__self__` is the module of a function in C, and the object of a method.
    if owner is not None and not isinstance(owner, types.ModuleType):
        reader.out += (types.BuiltinFunctionType, value.__name__)
        reader.note_reached(value)
        reader.reads_any_attribute |= value.__name__ in ("format", "format_map")
        reader.changes_objects |= value.__name__ in MUTATORS
        reader.add(owner, inside(mode))
    elif is_stable(value):
        read_stable(reader, value, mode)
    else:
        reader.stop(value)


def read_descriptor(reader: Reader, value: Any, mode: Mode) -> None:
    reader.out += (type(value), token_of(value.__objclass__), value.__name__)
    if type(value) is not types.GetSetDescriptorType:  # for `__dict__`: flax.linen wraps it
        reader.note_reached(value)


def read_getter(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an `operator.itemgetter`, `attrgetter` or `methodcaller`."""
    made_by, arguments = value.__reduce__()  # getters have no attributes
    arguments = (*getattr(made_by, "args", ()), *arguments)  # `made_by` may be a partial
    # JAX calls methods of a registered class, such as `tree_flatten`, through a getter.
    names = ".".join(map(str, arguments)).split(".")
    if hidden := HIDDEN_ATTRIBUTES.intersection(names):
        reader.stop(value, impure(min(hidden)))
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
        reader.add_identity(value, OLD_TRACE)


@_unless_stable
def read_caching(reader: Reader, value: Any, mode: Mode) -> None:
    """Read an object that keeps compiled programs: a result of `jax.jit` or `canonopt.jit`."""
    options = jit_options(value) if type(value) is Jitted else value.__captured_options__
    if options is None:
        reader.stop(value, UNKNOWN_JIT)
        return
    if own := _set_on(value):
        reader.stop(value, has_attributes(own))
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
    """Return the attributes that were set or deleted on a result of `canonopt.jit`."""
    if type(jitted) is Jitted or is_module_class(type(jitted)):  # `jit_options` checks these
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
    reader.stop(value, CACHE)


@_unless_stable
def read_with_derivative_rule(reader: Reader, value: Any, mode: Mode) -> None:
    """Read a `jax.custom_jvp` or `jax.custom_vjp`."""
    reader.out.append(type(value))
    if vars(value).get("jvp", vars(value).get("fwd")) is None:
        reader.add_identity(value, NO_RULE)
    reader.add_named(vars(value), inside(mode))


CALLABLES: dict[type, Rule] = {
    types.FunctionType: read_function,
    types.MethodType: read_partial_or_method,
    types.BuiltinFunctionType: read_builtin,
    # A C method that receives its defining class has this type, which has no public name.
    type(re.compile("").search): read_builtin,
    types.MethodWrapperType: read_builtin,
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
}
