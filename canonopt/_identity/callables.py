"""How functions and other callables are read: by what they do."""

import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.tree_util as jtu

from .._jax_internals import (
    Jitted,
    function_of_partial,
    jit_options,
    rebinds_only_if_set,
)
from .._python_internals import (
    Code,
    WeakIdMap,
    captured_by,
    code_of,
    is_bound,
    is_library_module,
    token_of,
)
from .._python_internals import rebindable as rebindable_names
from .incomparable import (
    HIDDEN,
    MEMORY,
    NO_RULE,
    UNKNOWN_JIT,
    impure,
    rebindable,
)
from .reader import (
    UNBOUND,
    Mode,
    Reading,
    inside,
    is_impure,
)

# --- what a library has under a name ------------------------------------------------------------

_stable: WeakIdMap[bool] = WeakIdMap()


def is_stable(value: Any) -> bool:
    """Whether `value` is what the module of a library has under its name.

    Then it is the same object whenever somebody asks for it.
    """
    if _stable.get(value):
        return True
    module = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
    if module is None or not is_library_module(module) or not is_in_place(value):
        return False
    _stable.setdefault(value, True)
    return True


def is_in_place(value: Any) -> bool:
    """Whether `value` is what its module has under its name, as functions and classes are."""
    found: Any = sys.modules.get(str(getattr(value, "__module__", None) or "builtins"))
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str) or "<" in name:
        return False
    for part in name.split("."):
        # A class may have a function in a descriptor, and `getattr` makes a method of it.
        found = getattr(found, "__dict__", {}).get(part)
    return getattr(found, "__func__", found) is value


# --- functions ------------------------------------------------------------------------------------


def read_function(reader: Reading, function: types.FunctionType, mode: Mode) -> None:
    attributes = vars(function)
    if attributes and (guarded := attributes.get("__canonical_original__")) is not None:
        reader.read_instead(guarded, mode)  # what `hoist` returned for it
        return
    if attributes and (owner := attributes.get("__canonical_owner__")) is not None:
        # One of canonopt's own, which stands for something else: `update` of a spec.
        reader.out.append(function.__name__)
        reader.add(owner, mode)
        return
    code = code_of(function)
    if code.is_library and is_stable(function):
        reader.out.append(token_of(function))
        if is_impure(function):
            reader.stop(function, impure(f"{function.__module__}.{function.__name__}"))
        return
    if reader.is_again(function, mode):
        return
    mode = inside(mode)
    out = reader.out
    reader.can_change = True
    reader.function = function
    out += (types.FunctionType, code.key)
    if mode != "live":
        out.append(id(function.__globals__))  # which the function keeps
        if reader.functions is not None:
            reader.functions.append(parts_of(function))
    if "__wrapped__" in attributes and _read_known_wrapper(reader, function, mode):
        return
    # What a factory may read of a function besides calling it.
    out += (function.__name__, function.__qualname__)
    reader.add(function.__module__, mode)
    reader.add(function.__doc__, mode)
    if function.__closure__:
        _read_cells(reader, function, mode)
    if defaults := function.__defaults__:
        reader.add_all(defaults, mode)
    else:
        out.append(None)
    if defaults := function.__kwdefaults__:
        reader.add_named(defaults, mode)
    else:
        out.append(None)
    # To ask a function for its annotations makes a dict, and a lambda has none.
    if function.__name__ != "<lambda>" and (annotations := function.__annotations__):
        reader.add_named(annotations, mode)
    else:
        out.append(None)
    if attributes:
        _read_attributes(reader, function, code, mode)
    if not code.is_library:
        reader.globals_of(function, code)


def parts_of(function: types.FunctionType) -> tuple[Any, ...]:
    """What can be replaced on a function: the parts that it holds, and the ids of the others."""
    named, closure = function.__kwdefaults__, function.__closure__
    ids = [id(value) for value in named.values()] if named else []
    if closure:
        # Only the ids, or a value that a variable no longer has would be kept.
        ids += [id(cell.cell_contents) if is_bound(cell) else 0 for cell in closure]
    return function, function.__code__, function.__defaults__, ids


def _read_cells(reader: Reading, function: types.FunctionType, mode: Mode) -> None:
    names = function.__code__.co_freevars
    open_names = () if mode == "live" else rebindable_names(function)
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        how = mode
        if name in open_names:
            is_none = is_bound(cell) and cell.cell_contents is None
            if not (is_none and rebinds_only_if_set(function, name)):
                # It may be bound again, for all functions that have this very variable.
                how = "live"
                reader.reads_data = True
                reader.identity(cell)
                reader.doubt(function, rebindable(name))
        if is_bound(cell):
            if type(cell.cell_contents) is types.ModuleType:
                reader.check_pure(function, name, cell.cell_contents, code_of(function))
            reader.add(cell.cell_contents, how)
        else:
            reader.out.append(UNBOUND)


def _read_attributes(reader: Reading, function: types.FunctionType, code: Code, mode: Mode) -> None:
    attributes = _without_copied(vars(function))
    if mode != "live" and not code.is_library and not attributes.keys() <= {"__wrapped__"}:
        # They may mean anything to whoever reads them, and can be set at any time.
        reader.identity(function)
        reader.doubt(function, attributes_of(attributes))
    reader.add_named(attributes, mode)


def attributes_of(attributes: Iterable[str]) -> tuple[str, str]:
    remedy = "Keep what they say in a default or in a captured variable."
    return f"has attributes of its own ({', '.join(attributes)})", remedy


def _without_copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a function without those that `functools.wraps` copied."""
    wrapped = attributes.get("__wrapped__")
    copied = vars(wrapped) if type(wrapped) in (Jitted, jax.custom_jvp, jax.custom_vjp) else {}
    return {
        name: value
        for name, value in attributes.items()
        if not (name in copied and copied[name] is value) and not name.startswith("__beartype")
    }


def _read_known_wrapper(reader: Reading, function: types.FunctionType, mode: Mode) -> bool:
    """Reads a function that a type checker made, whose code and cells are new each time.

    It does what the function inside of it does, after a look at the types of the arguments.
    """
    defaults = function.__kwdefaults__ or {}
    wrapped = vars(function).get("__wrapped__")
    if wrapped is not None and defaults.get("__beartype_func") is wrapped:
        # The names in its code are made of ids.
        del reader.out[-1 if mode == "live" else -2 :]
        reader.out.append("beartype")
        reader.add(defaults.get("__beartype_conf"), "live")
    elif function.__code__.co_qualname == "jaxtyped.<locals>.wrapped_fn" and wrapped is not None:
        captured = inspect.getclosurevars(function).nonlocals
        checker = inspect.getclosurevars(captured["wrapped_fn_impl"]).nonlocals.get("param_fn")
        reader.out.append("jaxtyped")
        reader.add(type(checker).__name__, mode)
    else:
        return False
    reader.add(wrapped, mode)
    return True


# --- what is made of functions --------------------------------------------------------------------


def read_partial(reader: Reading, value: functools.partial, mode: Mode) -> None:
    if reader.is_again(value, mode):
        return
    inner = inside(mode)
    reader.functions = None
    reader.out.append(type(value))
    if vars(value):
        reader.identity(value)
        reader.doubt(value, attributes_of(vars(value)))
        reader.add_named(vars(value), inner)
    reader.add(function_of_partial(value), inner)
    reader.add_all(value.args, inner)
    reader.add_named(value.keywords, inner)


def read_method(reader: Reading, value: types.MethodType, mode: Mode) -> None:
    inner = inside(mode)
    reader.out.append(types.MethodType)
    reader.add(value.__func__, inner)
    reader.add(value.__self__, inner)


def read_builtin(reader: Reading, value: Any, mode: Mode) -> None:
    """Reads a function or a method that is written in C."""
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        if is_stable(value):
            reader.out.append(token_of(value))
            if is_impure(value):
                reader.stop(value, impure(f"{value.__module__}.{value.__name__}"))
        else:
            reader.stop(value)
        return
    reader.out += (types.BuiltinFunctionType, value.__name__)
    reader.add(owner, inside(mode))


def read_descriptor(reader: Reading, value: Any, mode: Mode) -> None:
    reader.out += (type(value), token_of(value.__objclass__), value.__name__)


def read_getter(reader: Reading, value: Any, mode: Mode) -> None:
    """Reads what `operator.itemgetter`, `attrgetter` or `methodcaller` made."""
    made_by, arguments = value.__reduce__()
    reader.out.append(type(value))
    if isinstance(made_by, functools.partial):  # a methodcaller with keywords
        arguments = (*made_by.args, *arguments, made_by.keywords)
    reader.asks(".".join(map(str, arguments)).split("."))
    for argument in arguments:
        if type(argument) is dict:
            reader.add_named(argument, mode)
        else:
            reader.add(argument, mode)


def read_jitted(reader: Reading, value: Any, mode: Mode) -> None:
    if is_stable(value):
        reader.out.append(token_of(value))
        return
    if reader.is_again(value, mode):
        return
    options = jit_options(value)
    if options is None:
        _read_by_identity(reader, value, value.__wrapped__)
        reader.doubt(value, UNKNOWN_JIT)
        return
    reader.out.append(Jitted)
    _read_memory(reader, value, value.__wrapped__, inside(mode))
    for name, option in options.items():
        leaves, structure = jtu.tree_flatten(option)
        reader.out.append(name)
        reader.add_all(leaves, "held")
        reader.add(structure, "held")


def read_cached(reader: Reading, value: Any, mode: Mode) -> None:
    """Reads what `functools.lru_cache` made."""
    if is_stable(value):
        reader.out.append(token_of(value))
        return
    if reader.is_again(value, mode):
        return
    reader.out += (type(value), *sorted(value.cache_parameters().items()))
    _read_memory(reader, value, value.__wrapped__, inside(mode))


def _read_memory(reader: Reading, value: Any, function: Any, mode: Mode) -> None:
    """Reads a function inside of what keeps its results, or its programs.

    If it reads what can change, what is kept may be of another time. So which one it is counts.
    """
    inner = reader.unfinished()
    inner.add(function, mode)
    inner.finish()
    if inner.reads_data:
        reader.identity(value)
        reader.doubt(value, MEMORY)
    reader.take(inner)


def _read_by_identity(reader: Reading, value: Any, function: Any) -> None:
    reader.identity(value)
    reader.add(function, "live")


def read_with_rule(reader: Reading, value: Any, mode: Mode) -> None:
    """Reads a `jax.custom_jvp` or `jax.custom_vjp`."""
    if is_stable(value):
        reader.out.append(token_of(value))
        return
    if reader.is_again(value, mode):
        return
    reader.functions = None
    reader.out.append(type(value))
    if vars(value).get("jvp", vars(value).get("fwd")) is None:
        reader.identity(value)
        reader.doubt(value, NO_RULE)
    reader.add_named(vars(value), inside(mode))


def read_signature(reader: Reading, value: inspect.Signature, mode: Mode) -> None:
    reader.out += (inspect.Signature, len(value.parameters))
    for parameter in value.parameters.values():
        reader.out += (parameter.name, parameter.kind)
        reader.add(parameter.default, mode)
        reader.add(parameter.annotation, mode)
    reader.add(value.return_annotation, mode)


def read_proxy(reader: Reading, value: Any, mode: Mode) -> None:
    """What stands for something else, and may stand for another thing later."""
    reader.stop(type(value), HIDDEN)


CALLABLES: dict[type, Any] = {
    types.FunctionType: read_function,
    types.MethodType: read_method,
    types.BuiltinFunctionType: read_builtin,
    type(re.compile("").search): read_builtin,
    types.MethodWrapperType: read_builtin,
    types.MethodDescriptorType: read_descriptor,
    types.WrapperDescriptorType: read_descriptor,
    types.ClassMethodDescriptorType: read_descriptor,
    functools.partial: read_partial,
    jtu.Partial: read_partial,
    operator.itemgetter: read_getter,
    operator.attrgetter: read_getter,
    operator.methodcaller: read_getter,
    Jitted: read_jitted,
    functools._lru_cache_wrapper: read_cached,
    jax.custom_jvp: read_with_rule,
    jax.custom_vjp: read_with_rule,
    inspect.Signature: read_signature,
}


# What a callable was made with, under the names that its author knows.


def contents_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The captured variables that are bound, and the defaults."""
    code = function.__code__
    for name, captured in captured_by(function):
        yield f"captured variable {name!r}", captured
    defaults = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    names = positional[len(positional) - len(defaults) :]
    for name, default in zip(names, defaults, strict=True):
        yield f"default of {name!r}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"default of {name!r}", default


def contents_of_partial(partial: functools.partial) -> Iterator[tuple[str, Any]]:
    """The function and the arguments."""
    yield "function", partial.func
    for i, argument in enumerate(partial.args):
        yield f"argument {i}", argument
    for name, argument in partial.keywords.items():
        yield f"argument {name!r}", argument
