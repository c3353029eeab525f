"""What a code object reads, and when two code objects are the same.

All of this is computed once for each code object, so that reading a function again costs no more
than looking up its globals.
"""

import dataclasses
import dis
import re
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from .libraries import HIDDEN_ATTRIBUTES, REFLECTION, REFLECTION_ATTRIBUTES
from .weak import WeakIdMap


class CodeKey:
    """Stands for all code objects of the same content: equal bytecode, constants, names and flags.

    What only a traceback shows does not count: the file and the line numbers. So a notebook cell
    that runs again gives the same keys.
    """

    __slots__ = ("__weakref__", "_content")

    def __init__(self, content: Hashable) -> None:
        self._content = content


# One key for each content, so that comparing two keys is a comparison by identity.
_keys: weakref.WeakValueDictionary[Hashable, CodeKey] = weakref.WeakValueDictionary()


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Code:
    """The facts about a code object and the code nested in it."""

    key: CodeKey
    # The names that it loads, stores or deletes as globals.
    globals: tuple[str, ...]
    # The names that it may read of other objects, as `lr` in `self.lr`, and all words in strings:
    # `getattr(self, "lr")`, `model.apply(params, x, method="encode")`.
    attributes: frozenset[str]
    # Each variable with the attributes that are read right after it: ("np", "random", "normal").
    paths: frozenset[tuple[str, ...]]
    # The modules that it imports when it runs, each with what it takes from there. A relative name
    # begins with dots.
    imports: tuple[tuple[str, ...], ...]
    # The right operand of each `is`: the name of a global and attributes of it, or nothing for
    # anything else. Comparisons with None, True, False and `...` are left out.
    identity_tests: tuple[tuple[str, ...], ...]
    # The captured variables that it stores to.
    stores: frozenset[str]
    # Whether dataclasses or attrs wrote it: it compares classes and asks for hashes.
    is_generated: bool
    # Whether it can read attributes that it does not name.
    reads_any_attribute: bool
    # The attributes with which it reads variables of other code.
    hidden_inputs: tuple[str, ...]
    # Whether it may do something else with a tracer than with an array, and not fail: it catches
    # errors, makes texts, or asks an object what it is.
    can_tell_tracers: bool
    # Whether it stores into objects, which may have been there before it ran.
    changes_objects: bool
    # Whether it stores into variables that were there before it ran.
    changes_variables: bool


# By identity, because code objects of two functions may compare equal.
_known: WeakIdMap[Code] = WeakIdMap()


def code_of(function: types.FunctionType) -> Code:
    """Return what is known about the code of `function`."""
    code = function.__code__
    known = _known.get(code)
    if known is None:
        known = _known.setdefault(code, _read(code))
    return known


def _read(code: types.CodeType) -> Code:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    words: set[str] = set()
    tests: list[tuple[str, ...]] = []
    paths: set[tuple[str, ...]] = set()
    imports: dict[tuple[str, ...], None] = {}
    stores: set[str] = set()
    seen: set[str] = set()  # names of instructions
    tells = changes = False
    for each in _with_nested(code):
        path: tuple[str, ...] = ()
        imported = ""
        instructions = list(dis.get_instructions(each))
        for i, instruction in enumerate(instructions):
            opname, name = instruction.opname, instruction.argval
            seen.add(opname)
            if opname in _GLOBAL:
                names[name] = None
            if opname in _NEUTRAL:
                continue
            is_attribute = instruction.opcode in dis.hasname and opname not in _GLOBAL
            if opname == "IMPORT_NAME":
                before = [e for e in instructions[max(0, i - 5) : i] if e.opname in _CONSTANTS]
                imported = "." * before[-2].argval + name  # the level, and what to take from it
                imports[(imported,)] = None
                imports[(imported.partition(".")[0] or imported,)] = None  # the package
            elif opname == "IMPORT_FROM":
                imports[(imported, name)] = None
                attributes.add(name)
            elif is_attribute:
                attributes.add(name)
            if path and is_attribute:
                path += (name,)
            else:
                paths.add(path)
                variable = _variable(instruction)
                path = () if variable is None else (variable,)
            if opname == "IS_OP":
                _note_test(instructions[max(0, i - 6) : i], tests)
            if opname in _STORES and (opname.endswith("GLOBAL") or name in code.co_freevars):
                stores.add(name)
            tells |= _makes_text(instructions, i) or _catches(instructions, i)
            changes |= opname in _CHANGES and each.co_name not in _MAKES
            if opname == "LOAD_CONST":
                words.update(_words(name))
        paths.add(path)
    named = {*names, *attributes}
    is_generated = code.co_name.startswith("__") and code.co_filename.startswith(
        ("<string>", "<attrs generated")
    )
    return Code(
        key=key_of(code),
        globals=tuple(names),
        attributes=frozenset(attributes | words),
        paths=frozenset(paths),
        imports=tuple(imports),
        identity_tests=tuple(tests),
        stores=frozenset(stores),
        is_generated=is_generated,
        reads_any_attribute=not REFLECTION_ATTRIBUTES.isdisjoint(attributes)
        or "MATCH_CLASS" in seen,
        hidden_inputs=tuple(HIDDEN_ATTRIBUTES & attributes),
        can_tell_tracers=not is_generated
        and (tells or code.co_name == "__exit__" or not TELLS_TRACERS.isdisjoint(named)),
        changes_objects=changes or not _MUTATORS.isdisjoint(named),
        changes_variables=bool(stores),
    )


# The body of a class in a function loads names with LOAD_NAME.
_GLOBAL = frozenset(
    f"{verb}_{kind}" for verb in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")
) | {"LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = frozenset(
    f"{verb}_{kind}" for verb in ("STORE", "DELETE") for kind in ("GLOBAL", "DEREF")
)
_CHANGES = frozenset(("STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"))
_CONSTANTS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
# These stand between a variable and its attribute.
_NEUTRAL = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "NOP"))
# Functions that change only the object that is made.
_MAKES = frozenset(("__init__", "__new__", "__post_init__", "setup"))
# Methods and functions that change a container, an iterator or an attribute.
# `update`, `add` and `sort` are not among them: optimizers and arrays have these too.
_MUTATORS = frozenset(
    "append appendleft clear discard extend extendleft insert pop popitem popleft remove "
    "reverse rotate setdefault move_to_end setattr delattr __setattr__ __delattr__ "
    "__setitem__ __delitem__ setitem delitem iadd ior next send write fill setflags".split()
)
_SINGLETONS = (None, True, False, ...)


def _words(constant: Any) -> Iterator[str]:
    """Yield the words in a constant: a string, or a tuple with strings."""
    if isinstance(constant, str):
        yield from re.findall(r"[^\W\d]\w*", constant) if len(constant) < 100 else ()
    elif isinstance(constant, tuple | frozenset):
        for part in constant:
            yield from _words(part)


def _catches(instructions: list[dis.Instruction], i: int) -> bool:
    """Return True for the handler of an error that may end without raising the error again.

    An `except`, a `finally` that returns; not a `with`, whose context manager is read.
    """
    opname = instructions[i].opname
    if opname != "PUSH_EXC_INFO":
        return opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH")
    for each in instructions[i + 1 :]:
        if each.opname == "WITH_EXCEPT_START" or (each.opname == "RERAISE" and each.arg == 0):
            return False
        if each.opname in ("PUSH_EXC_INFO", "POP_EXCEPT", "RETURN_VALUE", "RETURN_CONST"):
            break
    return True


_TEXTS = frozenset("FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE FORMAT_SPEC".split())
_MAKE_TEXT = frozenset("str repr ascii format print".split())
_FORMAT = frozenset("tree_pformat tree_pprint pformat pprint".split())


def _makes_text(instructions: list[dis.Instruction], i: int) -> bool:
    """Return True if an instruction may begin to make a text of a value, other than for an error.

    `print("tracing")` makes none.
    """
    instruction = instructions[i]
    is_remainder = instruction.opname == "BINARY_OP" and instruction.argrepr in ("%", "%=")
    is_named = instruction.opcode in dis.hasname and (
        instruction.argval in _FORMAT
        or (instruction.argval in _MAKE_TEXT and instruction.opname in _GLOBAL)
    )
    if is_remainder:  # of a string
        before = [each.argval for each in instructions[max(0, i - 8) : i]]
        if not any(isinstance(value, str) and "%" in value for value in before):
            return False
    elif not is_named and instruction.opname not in _TEXTS:
        return False
    rest = [each for each in instructions[i + 1 : i + 40] if each.opname not in _NEUTRAL]
    if is_named and [each.opname for each in rest[:2]] == ["LOAD_CONST", "CALL"]:
        return rest[1].arg != 1
    for each in rest:
        if each.opname == "RAISE_VARARGS":
            return False
        if each.opname.startswith(("STORE_", "POP_", "RETURN_", "JUMP_", "YIELD_")):
            break
    return True


# What tells a tracer from an array, and does not fail for a tracer.
TELLS_TRACERS = REFLECTION | {
    *("Tracer", "ArrayImpl", "__class__", "is_concrete", "type", "array_equal", "array_equiv"),
    *("suppress", "ExitStack", "AsyncExitStack", "ensure_compile_time_eval"),
    *("committed", "sharding", "devices", "device", "device_buffer", "layout", "is_deleted"),
    *("is_fully_addressable", "is_fully_replicated", "addressable_shards", "global_shards"),
    *("on_device_size_in_bytes", "is_ready", "unsafe_buffer_pointer", "is_tracer", "delete"),
}


def _variable(instruction: dis.Instruction) -> str | None:
    """Return the variable that an instruction loads, if it loads one."""
    name, variable = instruction.opname, instruction.argval
    is_load = name in _GLOBAL or name.endswith("DEREF") or "LOAD_FAST" in name
    if not is_load or "LOAD" not in name:
        return None
    # Since Python 3.13, one instruction may load two variables. The second is on top of the stack.
    return variable[-1] if isinstance(variable, tuple) else variable


def _note_test(before: list[dis.Instruction], tests: list[tuple[str, ...]]) -> None:
    """Note what an `is` compares with, given the instructions before it."""
    right = before[-1]
    if right.opname == "LOAD_CONST" and any(right.argval is single for single in _SINGLETONS):
        return
    if any(each.argval in ("type", "__class__") for each in before):
        return  # `type(x) is type(y)`: classes are always compared by identity
    if "HAS_DEFAULT_FACTORY" in str(right.argval):
        return  # in the `__init__` that dataclasses writes
    path = [right.argval]
    while before[-1].opname == "LOAD_ATTR" and len(before) > 1:
        before = before[:-1]
        path.insert(0, before[-1].argval)
    tests.append(tuple(path) if before[-1].opname in _GLOBAL else ())


def nested_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code objects directly inside of `code`."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in nested_in(code):
        yield from _with_nested(inner)


def key_of(code: types.CodeType) -> CodeKey:
    """The one key of all code objects with the content of `code`."""
    content = _content(code, _constant)
    key = _keys.get(content)
    return _keys.setdefault(content, CodeKey(content)) if key is None else key


def _content(code: types.CodeType, content_of: Callable[[Any], Any]) -> tuple[Any, ...]:
    """All of a code object but the place of its source, with its constants as `content_of` says."""
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_stacksize),
        (code.co_name, code.co_qualname),
        (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
        tuple(map(content_of, code.co_consts)),
    )


def _constant(constant: Any) -> Hashable:
    """A key for a constant in code, exact where `==` is not: 1 == 1.0 == True, and 0.0 == -0.0."""
    kind = type(constant)
    if kind is types.CodeType:
        return (kind, key_of(constant))
    if kind in (tuple, frozenset):
        return (kind, *map(_constant, constant))  # of a set in the order in which it iterates
    # The text of a number also makes nan equal to nan.
    return (kind, repr(constant) if kind in (float, complex) else constant)


def content_of_code(code: types.CodeType) -> tuple[Any, ...]:
    """Return what a code object does, for another process to compare: with the same text in each.

    Without the order of sets, which depends on the hash seed.
    """
    return _content(code, _content_of_constant)


def _content_of_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return content_of_code(constant)
    if isinstance(constant, tuple):
        return tuple(map(_content_of_constant, constant))
    if isinstance(constant, frozenset):
        return sorted(repr(_content_of_constant(item)) for item in constant)
    return constant
