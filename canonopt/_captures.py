"""Whether a variable that a function captures can still be bound anew.

Two functions made by the same code behave the same when they captured the same values, but
only as long as nobody rebinds a captured variable. This module proves that nobody can, by
reading the bytecode of the function that owns the variable: after the capturing function has
been created, no instruction that stores to the variable can run again. Where the owner cannot
be found there is no proof, and the function counts by identity.
"""

import dis
import functools
import inspect
import itertools
import types
import weakref
from collections.abc import Iterator


def settled(function: types.FunctionType) -> bool:
    """Whether nothing can rebind any variable that `function` captures."""
    if function.__closure__ is None:
        return True
    code = function.__code__
    known = _verdicts.get(id(code))
    if known is not None:
        return known[1]
    path = _path_to(function)
    verdict = path is not None and all(_cannot_be_rebound(name, path) for name in code.co_freevars)
    if path is not None:
        # By identity, since code objects of two functions may compare equal, and weakly, since
        # exec makes any number of them.
        forget = functools.partial(_forget, id(code))
        _verdicts[id(code)] = (weakref.ref(code, forget), verdict)
    return verdict


_verdicts: dict[int, tuple[weakref.ref, bool]] = {}


def _forget(identity: int, _: weakref.ref) -> None:
    _verdicts.pop(identity, None)


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


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _descend(code: types.CodeType, target: types.CodeType) -> list[types.CodeType] | None:
    if code is target:
        return [code]
    for inner in _nested(code):
        path = _descend(inner, target)
        if path is not None:
            return [code, *path]
    return None


def _cannot_be_rebound(name: str, path: list[types.CodeType]) -> bool:
    found = _owner(name, path)
    if found is None:
        return False
    owner, child = found
    if any(_rebinds(inner, name) for inner in _nested(owner)):
        return False
    instructions = list(dis.get_instructions(owner))
    created = min((i.offset for i in instructions if i.argval is child), default=None)
    if created is None:
        return False
    stores = [i.offset for i in instructions if _stores(i, name)]
    # A store runs after the creation if it stands below it, or if a jump leads back above it.
    jumps = [i for i in instructions if _is_jump(i) and i.argval <= i.offset]
    return not any(
        store > created or any(j.offset >= created and j.argval <= store for j in jumps)
        for store in stores
    )


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
        _rebinds(inner, name) for inner in _nested(code)
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
