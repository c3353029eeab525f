"""Raises or warns when something was traced or compiled that should not be, and says why."""

import collections
import copy
import time
import warnings
import weakref
from typing import Any, Literal, TypeAlias, get_args

from .._jax_internals import frames_to_the_user
from ..errors import ExcessError, LimitError, RecompileWarning
from .causes import Explanation
from .log import Entry, FunctionLog

Mode: TypeAlias = Literal["raise", "warn", "record"]

# At most so many warnings for one function, within so many seconds. If a loop exceeds the limit in
# each step, more of them would say nothing new.
_WARNINGS, _WINDOW = 3, 60


def check_mode(mode: object, modes: tuple[str, ...] = get_args(Mode)) -> None:
    if mode not in modes:
        text = ", ".join(map(repr, modes))
        raise LimitError(
            f"mode must be one of {text}, not {mode!r}.", "Write mode='raise'.", path="mode"
        )


def check_limit(name: str, limit: object) -> None:
    # To Python, True is an int.
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise LimitError(f"{name} must be an int, not {limit!r}.", f"Write {name}=1.", path=name)
    if limit < 0:
        raise LimitError(f"{name} must be 0 or more, not {limit}.", f"Write {name}=1.", path=name)


class Alarm:
    """Raises `error`, warns, or does nothing, by its mode."""

    def __init__(self, mode: Mode, error: type[ExcessError] = ExcessError) -> None:
        self._mode = mode
        self._error = error
        self._warned: dict[FunctionLog, collections.deque[float]] = {}
        # JAX keeps the trace of a call that raised, and would run it the next time.
        self._refused: weakref.WeakKeyDictionary[Any, ExcessError] = weakref.WeakKeyDictionary()

    def repeat(self, program: Any) -> None:
        """Raises again if `sound` raised for this program."""
        if program is not None and (error := self._refused.get(program)):
            raise copy.copy(error)

    def sound(
        self,
        log: FunctionLog,
        entry: Entry,
        problem: str,
        program: Any = None,
        told: Explanation | None = None,
    ) -> None:
        """Says that there was a `problem`, and why.

        **Arguments:**

        - `program`: what JAX keeps of the trace, for `repeat`.
        - `told`: why, if not by the entry.
        """
        if self._mode == "record":
            return
        error = self._error_of(problem, told or entry.told)
        if self._mode == "raise":
            entry.refused = True
            if program is not None:
                self._refused[program] = copy.copy(error)  # the one raised gets a traceback
            raise error
        now = time.monotonic()
        warned = self._warned.setdefault(log, collections.deque(maxlen=_WARNINGS))
        if len(warned) == _WARNINGS and now - warned[0] < _WINDOW:
            return
        warned.append(now)
        text = str(error)
        if len(warned) == _WARNINGS and now - warned[0] < _WINDOW:
            text += f"\n  No more warnings for {_WINDOW} s."
        warnings.warn(text, RecompileWarning, stacklevel=frames_to_the_user() + 1)

    def _error_of(self, problem: str, told: Explanation) -> ExcessError:
        lines, facts = told.report(), {}
        if told.changes:
            change = told.changes[0]
            facts = {"path": change.path, "before": change.before, "after": change.after}
        why = [str(line) for line in lines if line.role != "fix"]
        fixes = [line.text for line in lines if line.role == "fix"]
        return self._error("\n  ".join([problem, *why]), "\n  write: ".join(fixes) or None, **facts)
