"""Find the captured variables that can still be rebound, as far as bytecode can tell.

A closure captures variables, not values: `lambda: x` also sees values that are assigned to `x`
later. So the value that `x` has now is its last one only if no store to `x` can run any more. To
find out, the analysis looks up the code of the function that owns `x`, and every store to `x` in
that code and in the code nested in it.

The analysis may report a variable that is never rebound: this costs a compile. It must not miss
one that is rebound: two functions that do different things later would count as the same.
"""

import dis
import math
import types
from collections.abc import Iterator
from typing import Any

from .bytecode import key_of, nested_in
from .callers import frames
from .weak import WeakIdMap

# For each code object, how many stores to each captured variable may run after the function is
# made: 0, inf, or 1 if only the first value is stored later, as in a function that calls itself.
# Keyed by identity, because code objects of two functions may compare equal, and weakly, because
# `exec` may make any number of them.
_later_stores: WeakIdMap[dict[str, float]] = WeakIdMap()


def rebindable_variables(function: types.FunctionType) -> list[str]:
    """Return the variables that `function` captures and that can still be rebound."""
    code = function.__code__
    later = _later_stores.get(code)
    if later is None:
        path = next(filter(None, (_path_to(code, root) for root in _roots(function))), None)
        later = {name: _count(name, path) if path else math.inf for name in code.co_freevars}
        if path:  # else a later call may find the code around the function
            _later_stores.setdefault(code, later)
    return [
        name
        for name, cell in cells_of(function)
        if later[name] and (later[name] > 1 or not is_bound(cell))
    ]


def cells_of(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """Return the name and the cell of each variable that `function` captures."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


def is_bound(cell: types.CellType) -> bool:
    """Return True if a captured variable has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def captured_by(function: types.FunctionType) -> dict[str, Any]:
    """Return the captured variables that have a value, as a dict from names to values."""
    return {name: cell.cell_contents for name, cell in cells_of(function) if is_bound(cell)}


# --- the code around a function ---------------------------------------------------------------


def _roots(function: types.FunctionType) -> Iterator[types.CodeType]:
    """Yield code that may contain the code of `function`: found by name, then in running frames."""
    # Use the name in the code: `functools.wraps` gives a wrapper the name of another function.
    names = function.__code__.co_qualname.partition(".<locals>")[0].split(".")
    found = function.__globals__.get(names[0])
    for name in names[1:]:
        found = vars(found).get(name) if isinstance(found, type) else None
    for _ in range(32):  # bounded, because some objects have every attribute
        if isinstance(found, types.FunctionType):
            yield found.__code__
        # Static and class methods have `__wrapped__` too.
        found = found.fget if isinstance(found, property) else getattr(found, "__wrapped__", None)
    yield from (frame.f_code for frame in frames())


def _path_to(target: types.CodeType, code: types.CodeType) -> list[types.CodeType]:
    """Return the code objects from `code` down to `target`, each inside the one before, or []."""
    # Compare by content: the code that made a function may have been compiled again since.
    if code is target or (
        code.co_qualname == target.co_qualname and key_of(code) is key_of(target)
    ):
        return [code]
    for inner in nested_in(code):
        if path := _path_to(target, inner):
            return [code, *path]
    return []


# --- stores that may run later ----------------------------------------------------------------


def _count(name: str, path: list[types.CodeType]) -> float:
    """Return how many stores to `name` may run after the last function of `path` is made."""
    if name in ("__class__", "__classdict__"):  # `type.__new__` binds them after the body
        return 1
    # The owner is the function that makes the cell. The functions in between pass the cell on.
    depth = max((i for i, code in enumerate(path) if name in code.co_cellvars), default=None)
    # With `nonlocal`, code nested in the owner stores whenever somebody calls it.
    if depth is None or any(_rebinds(inner, name) for inner in nested_in(path[depth])):
        return math.inf
    owner, child = path[depth : depth + 2]
    instructions = list(dis.get_instructions(owner))
    made = min((i.offset for i in instructions if i.argval is child), default=None)
    if made is None:
        return math.inf

    def first_after(offset: int) -> int:
        """Return the lowest offset that may run once `offset` is reached.

        Instructions run in the order of their offsets, except where a loop jumps back.
        """
        for jump in reversed(instructions):
            if jump.opcode in dis.hasjrel and jump.offset >= offset:
                offset = min(offset, jump.argval)
        return offset

    stores = [i.offset for i in instructions if _is_store(i, name)]
    first = first_after(made)
    if all(store < first for store in stores):
        return 0
    # An argument has a value before its first store.
    is_single = [*map(first_after, stores)] == stores[:1] and name not in owner.co_varnames
    return 1 if is_single else math.inf


def _rebinds(code: types.CodeType, name: str) -> bool:
    """Return True if `code`, or code nested in it, declares `name` nonlocal and stores to it."""
    if name not in code.co_freevars:
        return False
    return any(_is_store(i, name) for i in dis.get_instructions(code)) or any(
        _rebinds(inner, name) for inner in nested_in(code)
    )


def _is_store(instruction: dis.Instruction, name: str) -> bool:
    # This lists the opcodes that do not store, so an opcode that a later Python adds counts as a
    # store until somebody lists it here. `del` counts as a store, too.
    return (
        instruction.argval == name
        and not instruction.opname.startswith(("LOAD_", "MAKE_CELL", "COPY_FREE_VARS"))
        and instruction.opcode not in dis.hasname
        and instruction.opcode not in dis.hasconst
    )
