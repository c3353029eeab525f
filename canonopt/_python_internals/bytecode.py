"""What a code object reads, and when two code objects are the same.

All of this is computed once for each code object, so that reading a function again costs no more
than looking up its globals.
"""

import dis
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import attrs

from .libraries import IMPURE, is_library_code
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
    is_library: bool

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
        known = _known.setdefault(code, _read(code, function.__globals__))
    return known


def _read(code: types.CodeType, namespace: dict[str, Any]) -> Code:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    tests: list[str | None] = []
    paths: set[tuple[str, str]] = set()
    imports: list[str] = []
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
            before = instruction
    return Code(
        key=key_of(code),
        globals=tuple(names),
        attributes=frozenset(attributes),
        paths=frozenset(paths),
        imports=tuple(imports),
        identity_tests=tuple(tests),
        is_library=is_library_code(code, namespace),
    )


# The body of a class in a function loads names with LOAD_NAME.
_GLOBAL = frozenset(
    f"{verb}_{kind}" for verb in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")
) | {"LOAD_FROM_DICT_OR_GLOBALS"}
_SINGLETONS = (None, True, False, ...)


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
    content = _content(code)
    key = _keys.get(content)
    return _keys.setdefault(content, CodeKey(content)) if key is None else key


def _content(code: types.CodeType) -> Hashable:
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_stacksize),
        (code.co_name, code.co_qualname),
        (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
        tuple(map(_constant, code.co_consts)),
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
