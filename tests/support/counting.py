"""Count the traces and the XLA compiles of a function separately.

A counter in the Python body sees every trace but not the second compile of committed arrays;
the monitoring events see every compile but not the traces. Tests assert both.
"""

import collections
import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import equinox as eqx
import jax

import canonopt

JITS = {
    "jax.jit": jax.jit,
    "eqx.filter_jit": eqx.filter_jit,
    "canonopt.jit": canonopt.jit,
    "canonopt.filter_jit": canonopt.filter_jit,
}
_compiles: collections.Counter[str] = collections.Counter()
_names = itertools.count()


def _note_compile(event: str, _: float, fun_name: str | None = None, **__: object) -> None:
    if event.endswith("backend_compile_duration") and fun_name is not None:
        _compiles[fun_name] += 1


jax.monitoring.register_event_duration_secs_listener(_note_compile)


@attrs.define
class Counted:
    """A function with a unique name, under which its traces and compiles are counted."""

    function: Callable
    __name__: str = attrs.field(factory=lambda: f"counted_{next(_names)}")
    traces: int = 0

    def __call__(self, *args, **kwargs):
        self.traces += 1
        return self.function(*args, **kwargs)

    @property
    def compiles(self) -> int:
        return compiles(self.__name__)


def compiles(name: str) -> int:
    """Return how often XLA has compiled jitted functions of this name."""
    return _compiles[f"jit({name})"] + _compiles[name]


def all_compiles(*parts: str) -> int:
    """Return how often XLA has compiled functions whose names have one of these parts."""
    return sum(n for name, n in _compiles.items() if any(p in name for p in parts or ("",)))


def counted(
    function: Callable, jit: Callable = lambda function: function, **options: Any
) -> tuple[Callable, Counted]:
    """Return a jitted plain function that calls `function`, and the `Counted` for it."""
    count = Counted(function)

    def call(*args, **kwargs):
        return count(*args, **kwargs)

    call.__name__ = call.__qualname__ = count.__name__
    return jit(call, **options), count


def fresh(name="step"):
    """Return a new function, and a list to which each run of the function appends an item."""
    runs = []

    def function(x):
        runs.append(1)
        return x * 2

    function.__name__ = function.__qualname__ = name
    return function, runs


def calls_of(function):
    """Return the files and the names of the Python functions that a call runs, in order."""
    found = []

    def note(frame, event, _):
        if event == "call":
            found.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def line_marked(file, mark):
    """Return the line that ends with the comment `mark`, as a report writes it: `file:line`."""
    lines = enumerate(Path(file).read_text().splitlines(), 1)
    (line,) = (number for number, text in lines if text.endswith(f"  # {mark}"))
    return f"{file}:{line}"


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Run each function in a thread. Return the results, or raise the first of the errors."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [found.result(60) for found in [pool.submit(each) for each in functions]]
