"""What a code object reads, and when two code objects are the same.

All of this is computed once for each code object, so that reading a function again costs no more
than looking up its globals.
"""

import collections
import dis
import re
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import attrs

from .libraries import IMPURE, REFLECTION
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


@attrs.frozen(eq=False)
class Code:
    """What is known about a code object, including the code nested in it."""

    key: CodeKey
    # The names that it loads, stores or deletes as globals.
    globals: tuple[str, ...]
    # The names that it reads of other objects, as `lr` in `self.lr`.
    attributes: frozenset[str]
    # Each variable with an attribute that is read right after it, as ("np", "random"). For `from
    # numpy import random`, which has no variable for the module, ("random", "random").
    paths: frozenset[tuple[str, str]]
    # The modules that it imports when it runs.
    imports: tuple[str, ...]
    # The right operand of each `is`: the name of a global, or None for anything else. Comparisons
    # with None, True, False and `...` are left out.
    identity_tests: tuple[str | None, ...]
    # The variables that it only counts up, appends to or resets, whose values change nothing else.
    counters: frozenset[str]
    # Whether it may do something else with a tracer than with an array, and not fail: it catches
    # errors, or asks an object what it is.
    can_tell_tracers: bool
    # Whether it changes something that was there before it ran, so that it may do something else
    # when it runs again.
    can_change_things: bool

    def impure_attributes(self, module: types.ModuleType, name: str | None) -> list[str]:
        """The impure attributes of a module that the code reads, with the name of the module.

        `name` is the variable that holds the module, or None if any variable may hold it.
        """
        impure = IMPURE.get(module.__name__)
        if impure is None:
            return []
        read = {attribute for variable, attribute in self.paths if name in (variable, None)}
        if impure:
            read &= impure
        elif not read:  # the module is used in another way
            return [module.__name__]
        return [f"{module.__name__}.{attribute}" for attribute in sorted(read)]


# By identity, because code objects of two functions may compare equal.
_known: WeakIdMap[Code] = WeakIdMap()


def code_of(function: types.FunctionType) -> Code:
    """What is known about the code of `function`."""
    code = function.__code__
    known = _known.get(code)
    if known is None:
        known = _known.setdefault(code, _read(code))
    return known


def _read(code: types.CodeType) -> Code:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    tests: list[str | None] = []
    paths: set[tuple[str, str]] = set()
    imports: list[str] = []
    catches = False
    loads: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    stores: set[str] = set()
    changes = False
    for each in _with_nested(code):
        before = None
        instructions = list(dis.get_instructions(each))
        for i, instruction in enumerate(instructions):
            if instruction.opname in _GLOBAL:
                names[instruction.argval] = None
            elif instruction.opname == "IMPORT_NAME":
                imports.append(instruction.argval)
            elif instruction.opcode in dis.hasname:
                attributes.add(instruction.argval)
                if instruction.opname == "IMPORT_FROM":
                    paths.add((instruction.argval, instruction.argval))
                elif (variable := _variable(before)) is not None:
                    paths.add((variable, instruction.argval))
            elif instruction.opname == "IS_OP":
                _note_test(instructions[max(0, i - 6) : i], tests)
            catches |= _catches(instruction, before)
            if instruction.opname.startswith("LOAD_") and instruction.opname[5:] in _SHARED:
                loads[instruction.argval] += 1
                counts[instruction.argval] += _is_count(instructions[i : i + 11])
            if instruction.opname in _STORES:
                stores.add(instruction.argval)
            changes |= instruction.opname in _CHANGES and each.co_name not in _MAKES
            before = instruction
    counters = {name for name, count in counts.items() if count == loads[name]}
    if not _TELLS_VARIABLES.isdisjoint({*names, *attributes}):
        counters.clear()
    changes |= not counters.issuperset(name for name, count in counts.items() if count)
    changes |= not counters.issuperset(stores & {*code.co_freevars, *names})
    # What dataclasses writes compares the classes of instances.
    is_generated = code.co_filename.startswith("<") and code.co_name.startswith("__")
    return Code(
        key=key_of(code),
        globals=tuple(names),
        attributes=frozenset(attributes),
        paths=frozenset(paths),
        imports=tuple(imports),
        identity_tests=tuple(tests),
        counters=frozenset(counters),
        can_tell_tracers=not is_generated
        and (catches or not _TELLS_TRACERS.isdisjoint({*names, *attributes})),
        can_change_things=changes,
    )


# The body of a class in a function loads names with LOAD_NAME.
_GLOBAL = frozenset(
    f"{verb}_{kind}" for verb in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")
) | {"LOAD_FROM_DICT_OR_GLOBALS"}
_STORES = frozenset(
    f"{verb}_{kind}" for verb in ("STORE", "DELETE") for kind in ("GLOBAL", "DEREF")
)
_CHANGES = frozenset(("STORE_ATTR", "DELETE_ATTR"))
# Functions that change only the object that is made.
_MAKES = frozenset(("__init__", "__new__", "__post_init__", "setup"))
# With these, code reads variables that it does not name.
_TELLS_VARIABLES = frozenset(("locals", "vars", "dir", "cell_contents", "__closure__"))
_SINGLETONS = (None, True, False, ...)


# What shares a variable with other functions, after `LOAD_`.
_SHARED = frozenset(("GLOBAL", "NAME", "DEREF", "CLASSDEREF", "FROM_DICT_OR_GLOBALS"))
# `n += 1`, `counts["n"] += 1` and `calls.append(x.shape)`, each after the variable is loaded. The
# instructions differ between versions of Python.
_COUNTS = tuple(
    map(
        re.compile,
        (
            r"CONST INPLACE STORE",
            r"CONST COPY COPY BINARY_SUBSCR CONST INPLACE SWAP SWAP STORE_SUBSCR",
            r"APPEND (CONST|LOAD_FAST|LOAD_DEREF|LOAD_GLOBAL)( LOAD_ATTR)* (PRECALL )?CALL POP_TOP",
        ),
    )
)


def _is_count(instructions: list[dis.Instruction]) -> bool:
    """Whether the first instruction loads a variable that the others only count up or append to."""
    variable = instructions[0].argval
    words = [_word(instruction, variable) for instruction in instructions[1:]]
    text = " ".join(words)
    return any(pattern.match(text) for pattern in _COUNTS)


def _word(instruction: dis.Instruction, variable: str) -> str:
    name, argument = instruction.opname, instruction.argval
    if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return "CONST"
    if name == "BINARY_OP" and instruction.argrepr in ("+=", "-="):
        return "INPLACE"
    if name in ("LOAD_ATTR", "LOAD_METHOD") and argument == "append":
        return "APPEND"
    if name.startswith("STORE_") and name[6:] in _SHARED and argument == variable:
        return "STORE"
    return name


def _catches(instruction: dis.Instruction, before: dis.Instruction | None) -> bool:
    """Whether an instruction belongs to an `except`, and not to a `with` or a `finally`."""
    if instruction.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
        return True
    is_first = before is not None and before.opname == "PUSH_EXC_INFO"
    return is_first and instruction.opname == "POP_TOP"  # of an `except:` without a class


_TELLS_TRACERS = REFLECTION | {
    "Tracer",
    "__class__",
    "committed",
    "is_concrete",
    "sharding",
    "suppress",
    "type",
}


def _variable(instruction: dis.Instruction | None) -> str | None:
    """The variable that an instruction loads, if it loads one."""
    if instruction is None:
        return None
    name, variable = instruction.opname, instruction.argval
    if name not in _GLOBAL and not name.endswith("DEREF") and "LOAD_FAST" not in name:
        return None
    # Since Python 3.13, one instruction may load two variables. The second is on top of the stack.
    return variable[-1] if isinstance(variable, tuple) else variable


def _note_test(before: list[dis.Instruction], tests: list[str | None]) -> None:
    """Notes what an `is` compares with, given the instructions before it."""
    right = before[-1]
    if right.opname == "LOAD_CONST" and any(right.argval is single for single in _SINGLETONS):
        return
    if any(each.argval in ("type", "__class__") for each in before):
        return  # `type(x) is type(y)`: classes are always compared by identity
    if "HAS_DEFAULT_FACTORY" in str(right.argval):
        return  # in the `__init__` that dataclasses writes
    tests.append(right.argval if right.opname in _GLOBAL else None)


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
    """What a code object does, for another process to compare: with the same text in each.

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
