"""What a code object reads, and when two code objects are the same.

Everything here is found out once for each code object, so that reading a function again costs no
more than looking its globals up.
"""

import dis
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import attrs

from .libraries import is_library_code
from .weak import WeakIdMap


class CodeKey:
    """Stands for all code objects of the same content: equal bytecode, constants, names and flags.

    What only a traceback shows does not count: the file and the line numbers. So a notebook cell
    that runs again gives the same keys.
    """

    __slots__ = ("__weakref__", "_content")

    def __init__(self, content: Hashable) -> None:
        self._content = content


# One key for each content, so that comparing two is a comparison by identity.
_keys: weakref.WeakValueDictionary[Hashable, CodeKey] = weakref.WeakValueDictionary()


@attrs.frozen(eq=False)
class Code:
    """What is known of a code object, the code nested in it included."""

    key: CodeKey
    # The names that it loads, stores or deletes as globals.
    globals: tuple[str, ...]
    # The names that it reads of other objects, as `lr` in `self.lr`.
    attributes: frozenset[str]
    # Each variable with an attribute that is read right after it, as ("np", "random").
    paths: frozenset[tuple[str, str]]
    # The modules that it imports when it runs.
    imports: tuple[str, ...]
    # What the operands of `is` are: the name of a global, or None for anything else. Comparisons
    # with None, True, False and `...` are left out.
    identity_tests: tuple[str | None, ...]
    is_library: bool


_known: WeakIdMap[Code] = WeakIdMap()


def code_of(function: types.FunctionType) -> Code:
    """What is known of the code of `function`."""
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
    for each in (code, *_nested(code)):
        before = None
        instructions = list(dis.get_instructions(each))
        for i, instruction in enumerate(instructions):
            if instruction.opname in _GLOBAL:
                names[instruction.argval] = None
            elif instruction.opname == "IMPORT_NAME":
                imports.append(instruction.argval)
            elif instruction.opcode in dis.hasname:
                attributes.add(instruction.argval)
                if before is not None and before.opname in _NAMED:
                    paths.add((before.argval, instruction.argval))
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


# The body of a class inside of a function loads its names as LOAD_NAME.
_GLOBAL = frozenset(
    f"{verb}_{kind}" for verb in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")
) | {"LOAD_FROM_DICT_OR_GLOBALS"}
_NAMED = _GLOBAL | {"LOAD_DEREF", "LOAD_FAST", "LOAD_CLASSDEREF"}
_SINGLETONS = (None, True, False, ...)


def _note_test(before: list[dis.Instruction], tests: list[str | None]) -> None:
    """Notes what an `is` compares with, given the instructions before it."""
    right = before[-1]
    if right.opname == "LOAD_CONST" and any(right.argval is single for single in _SINGLETONS):
        return
    if any(each.argval in ("type", "__class__") for each in before):
        return  # `type(x) is type(y)`: classes count by identity anyway
    if "HAS_DEFAULT_FACTORY" in str(right.argval):
        return  # in the `__init__` that dataclasses writes
    tests.append(right.argval if right.opname in _GLOBAL else None)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def key_of(code: types.CodeType) -> CodeKey:
    """The key of a code object; code objects that are the same have one key."""
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
    kind = type(constant)
    if kind is types.CodeType:
        return (kind, key_of(constant))
    if kind in (tuple, frozenset):
        return (kind, *map(_constant, constant))  # of a set in the order in which it iterates
    # 0.0 == -0.0 and nan != nan, while their texts are right in both cases.
    return (kind, repr(constant) if kind in (float, complex) else constant)
