"""What a code object reads, and when two code objects are the same.

Everything here is found out once for each code object, so that reading a function again costs no
more than looking its globals up.
"""

import dis
import inspect
import itertools
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Literal, TypeAlias

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


# Which captured variables can still be bound anew.


def rebindable(function: types.FunctionType) -> list[str]:
    """The variables that `function` captures and that something may bind anew."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    if function.__closure__ is None:
        return []
    verdicts = _verdicts_on(function)
    return [
        name
        for name, cell in cells
        if verdicts[name] == "open" or (verdicts[name] == "once" and not is_bound(cell))
    ]


def captured_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The captured variables that have a value, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return ((name, cell.cell_contents) for name, cell in cells if is_bound(cell))


def is_bound(cell: types.CellType) -> bool:
    """Whether a captured variable has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


# Whether stores to a variable may run after the creation of the function that captures it: none
# does, only the one that binds it first, or any.
_Verdict: TypeAlias = Literal["closed", "once", "open"]


def _verdicts_on(function: types.FunctionType) -> dict[str, _Verdict]:
    code = function.__code__
    known = _known_verdicts.get(code)
    if known is not None:
        return known
    path = _path_to(function)
    if path is None:
        return {name: "open" for name in code.co_freevars}
    verdicts: dict[str, _Verdict] = {name: _verdict(name, path) for name in code.co_freevars}
    _known_verdicts.setdefault(code, verdicts)
    return verdicts


# By identity, since code objects of two functions may compare equal, and weakly, since exec makes
# any number of them.
_known_verdicts: WeakIdMap[dict[str, _Verdict]] = WeakIdMap()


_WRAPPERS = 32


def _path_to(function: types.FunctionType) -> list[types.CodeType] | None:
    """The code objects from an outermost function down to `function`, each in the one before."""
    for root in _roots(function):
        path = _descend(root, function.__code__)
        if path is not None:
            return path
    return None


def _roots(function: types.FunctionType) -> Iterator[types.CodeType]:
    """Code that may contain `function`'s: found by its qualified name, or running now."""
    # The code's own name: a wrapper carries that of the function it wraps.
    names = function.__code__.co_qualname.partition(".<locals>")[0].split(".")
    found = function.__globals__.get(names[0])
    for name in names[1:]:
        found = vars(found).get(name) if isinstance(found, type) else None
    # Chains of wrappers are short, but for objects that answer to every name.
    for _ in range(_WRAPPERS):
        if isinstance(found, types.FunctionType):
            yield found.__code__
        # `__wrapped__` is on what functools.wraps made, and on static and class methods.
        found = found.fget if isinstance(found, property) else getattr(found, "__wrapped__", None)
    frame = inspect.currentframe()
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _directly_inside(code: types.CodeType) -> Iterator[types.CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _descend(code: types.CodeType, target: types.CodeType) -> list[types.CodeType] | None:
    # By content: the code that made a function may have been compiled again since.
    if code is target or (
        code.co_qualname == target.co_qualname and key_of(code) is key_of(target)
    ):
        return [code]
    for inner in _directly_inside(code):
        path = _descend(inner, target)
        if path is not None:
            return [code, *path]
    return None


def _verdict(name: str, path: list[types.CodeType]) -> _Verdict:
    found = _owner(name, path)
    if found is None:
        return "open"
    owner, child = found
    if any(_rebinds(inner, name) for inner in _directly_inside(owner)):
        return "open"
    instructions = list(dis.get_instructions(owner))
    created = min((i.offset for i in instructions if i.argval is child), default=None)
    if created is None:
        return "open"
    stores = [i.offset for i in instructions if _stores(i, name)]
    jumps = [i for i in instructions if _is_jump(i) and i.argval <= i.offset]

    def first_after(offset: int) -> int:
        """The highest instruction that may run after the one at `offset`: all below may, too."""
        while True:
            above = [jump.argval for jump in jumps if jump.offset >= offset > jump.argval]
            if not above:
                return offset
            offset = min(above)

    if name in ("__class__", "__classdict__"):  # bound when the class is there
        return "once"
    # A store runs after the creation if it stands below, or below what a jump leads back to.
    if not any(store >= first_after(created) for store in stores):
        return "closed"
    # One that stands alone and outside of any loop runs once: a function that calls itself.
    if len(stores) == 1 and name not in _arguments(owner) and first_after(*stores) == stores[0]:
        return "once"
    return "open"


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _owner(name: str, path: list[types.CodeType]) -> tuple[types.CodeType, types.CodeType] | None:
    """The code whose variable `name` is, and the code next to it on `path`."""
    for child, owner in itertools.pairwise(reversed(path)):
        if name in owner.co_cellvars:
            return owner, child
        if name not in owner.co_freevars:
            return None
    return None


def _rebinds(code: types.CodeType, name: str) -> bool:
    """Whether `code`, or code inside it, declares `name` nonlocal and stores to it."""
    if name not in code.co_freevars:
        return False
    return any(_stores(i, name) for i in dis.get_instructions(code)) or any(
        _rebinds(inner, name) for inner in _directly_inside(code)
    )


def _stores(instruction: dis.Instruction, name: str) -> bool:
    # Any other instruction that names the variable and is neither a load nor the making of its
    # cell counts as a store too, so that an opcode of a later Python is never overlooked.
    return (
        instruction.argval == name
        and not instruction.opname.startswith(("LOAD_", "MAKE_CELL", "COPY_FREE_VARS"))
        and instruction.opcode not in dis.hasname
        and instruction.opcode not in dis.hasconst
    )


def _is_jump(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
