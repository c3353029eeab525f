"""Which captured variables can still be rebound, as far as bytecode can tell.

A closure captures variables, not values: `lambda: x` also sees what is assigned to `x` later. So
the value that `x` has now says what the function does only if no store to `x` can run any more. To
find out, the analysis looks up the code of the function that owns `x`, and every store to `x` in
that code and in the code nested in it.

It may err in one direction only. A variable that is reported without need costs a compile. A
variable that is missed would merge two functions that do different things later.
"""

import dis
import inspect
import itertools
import types
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from .bytecode import key_of, nested_in
from .weak import WeakIdMap

# Which stores to a variable may run after the function that captures it is created: none, only the
# store that binds the variable first (as for a function that calls itself), or any.
_Verdict: TypeAlias = Literal["closed", "once", "open"]


def rebindable_variables(function: types.FunctionType) -> list[str]:
    """The variables that `function` captures and that can still be rebound."""
    if function.__closure__ is None:
        return []
    verdicts = _verdicts_on(function)
    return [
        name
        for name, cell in cells_of(function)
        if verdicts[name] == "open" or (verdicts[name] == "once" and not is_bound(cell))
    ]


def cells_of(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """The captured variables of `function`, with their names."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def is_bound(cell: types.CellType) -> bool:
    """Return True if a captured variable has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def captured_by(function: types.FunctionType) -> dict[str, Any]:
    """The values of the captured variables that have one, by name."""
    return {name: cell.cell_contents for name, cell in cells_of(function) if is_bound(cell)}


# By identity, because code objects of two functions may compare equal, and weakly, because exec
# makes any number of them.
_known_verdicts: WeakIdMap[dict[str, _Verdict]] = WeakIdMap()


def _verdicts_on(function: types.FunctionType) -> dict[str, _Verdict]:
    code = function.__code__
    known = _known_verdicts.get(code)
    if known is not None:
        return known
    path = _path_to(function)
    if path is None:
        # Not remembered: the code around it may be found at a later call.
        return {name: "open" for name in code.co_freevars}
    verdicts: dict[str, _Verdict] = {name: _verdict(name, path) for name in code.co_freevars}
    _known_verdicts.setdefault(code, verdicts)
    return verdicts


# --- the code around a function ---------------------------------------------------------------

_MAX_WRAPPERS = 32


def _path_to(function: types.FunctionType) -> list[types.CodeType] | None:
    """The code objects from an outermost function down to `function`, each in the one before."""
    for root in _roots(function):
        path = _descend(root, function.__code__)
        if path is not None:
            return path
    return None


def _roots(function: types.FunctionType) -> Iterator[types.CodeType]:
    """Code that may contain that of `function`: found by qualified name, or running now."""
    # The name in the code itself: `functools.wraps` gives a wrapper the name of another function.
    names = function.__code__.co_qualname.partition(".<locals>")[0].split(".")
    found = function.__globals__.get(names[0])
    for name in names[1:]:
        found = vars(found).get(name) if isinstance(found, type) else None
    # Bounded, because some objects have every attribute that they are asked for.
    for _ in range(_MAX_WRAPPERS):
        if isinstance(found, types.FunctionType):
            yield found.__code__
        # Static and class methods have `__wrapped__` too.
        found = found.fget if isinstance(found, property) else getattr(found, "__wrapped__", None)
    frame = inspect.currentframe()
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _descend(code: types.CodeType, target: types.CodeType) -> list[types.CodeType] | None:
    # By content: the code that made a function may have been compiled again since.
    if code is target or (
        code.co_qualname == target.co_qualname and key_of(code) is key_of(target)
    ):
        return [code]
    for inner in nested_in(code):
        path = _descend(inner, target)
        if path is not None:
            return [code, *path]
    return None


def _owner(name: str, path: list[types.CodeType]) -> tuple[types.CodeType, types.CodeType] | None:
    """The code that owns variable `name`, and the code next to it on `path`.

    The owner has the variable as a cell of its own; the code between it and the function that
    captures it passes the cell on.
    """
    for child, owner in itertools.pairwise(reversed(path)):
        if name in owner.co_cellvars:
            return owner, child
        if name not in owner.co_freevars:
            return None
    return None


# --- stores that may run later ----------------------------------------------------------------


def _verdict(name: str, path: list[types.CodeType]) -> _Verdict:
    found = _owner(name, path)
    if found is None:
        return "open"
    owner, child = found
    # With `nonlocal`, code nested in the owner stores whenever somebody calls it.
    if any(_rebinds(inner, name) for inner in nested_in(owner)):
        return "open"
    instructions = list(dis.get_instructions(owner))
    created = min((i.offset for i in instructions if i.argval is child), default=None)
    if created is None:
        return "open"
    stores = [i.offset for i in instructions if _is_store(i, name)]
    backward_jumps = [i for i in instructions if _is_jump(i) and i.argval <= i.offset]

    def earliest_after(offset: int) -> int:
        """The lowest offset that may run after the instruction at `offset`.

        Instructions run in the order of their offsets, except where a loop jumps back. So all that
        is at or above this offset may still run, and all that is below has run for good. A loop in
        a loop may lead back further, hence the repetition.
        """
        while True:
            targets = [
                jump.argval for jump in backward_jumps if jump.offset >= offset > jump.argval
            ]
            if not targets:
                return offset
            offset = min(targets)

    if name in ("__class__", "__classdict__"):  # `type.__new__` binds them, when the body has run
        return "once"
    first = earliest_after(created)
    if not any(store >= first for store in stores):
        return "closed"
    # A function that calls itself is stored after it is created, but only once: the variable has no
    # other store, is no argument, and the store is in no loop.
    is_single = len(stores) == 1 and name not in _arguments(owner)
    return "once" if is_single and earliest_after(stores[0]) == stores[0] else "open"


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _rebinds(code: types.CodeType, name: str) -> bool:
    """Return True if `code`, or code nested in it, declares `name` nonlocal and stores to it."""
    if name not in code.co_freevars:
        return False
    return any(_is_store(i, name) for i in dis.get_instructions(code)) or any(
        _rebinds(inner, name) for inner in nested_in(code)
    )


def _is_store(instruction: dis.Instruction, name: str) -> bool:
    # A list of what does not store, and not of what does: an opcode that a later Python adds is a
    # store until somebody looks at it. `del` is one as well.
    return (
        instruction.argval == name
        and not instruction.opname.startswith(("LOAD_", "MAKE_CELL", "COPY_FREE_VARS"))
        and instruction.opcode not in dis.hasname
        and instruction.opcode not in dis.hasconst
    )


def _is_jump(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
