"""Lines and names of code, as messages and reports have them."""

import contextlib
import gc
import sys
import types
from typing import Any


def place_of_line(path: str, line: int) -> str:
    """`path:line`, or `In[3]:2` for a line of a notebook cell that IPython has run."""
    return f"{_cell_of(path) or path}:{line}"


def _cell_of(path: str) -> str | None:
    """The number of the cell that IPython compiled under this path.

    Relies on `format_code_name` of IPython's compiler, which its tracebacks use too. None if that
    is gone.
    """
    ipython: Any = sys.modules.get("IPython")
    with contextlib.suppress(Exception):
        _, name = ipython.get_ipython().compile.format_code_name(path)
        return str(name)
    return None


def is_name_of_code(name: str) -> bool:
    """Return True if a function or a class has this name, or will once its code has run.

    Walks all objects of the garbage collector, some 0.1 s if there is none.
    """
    codes = {}
    for value in gc.get_objects():
        kind = type(value)  # `isinstance` may run code of an object that stands for another
        if issubclass(kind, types.FunctionType | type) and value.__name__ == name:
            return True
        if kind is types.FunctionType:
            codes[id(value.__code__)] = value.__code__
    found = [*codes.values()]
    for code in found:
        found += (inner for inner in code.co_consts if isinstance(inner, types.CodeType))
    return any(code.co_name == name for code in found)
