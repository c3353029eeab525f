"""Lines of code, as messages name them."""

import contextlib
import sys
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
