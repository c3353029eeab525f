"""When a script calls its jitted functions, cached calls too, which JAX itself logs nothing of."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from .._jax_internals import as_filter_jit_was_given, watch_calls
from .._python_internals import WeakIdMap
from .._recompiles import CompileLog, FunctionLog, is_inside_jit, name_of, users_function

_KEPT = 2000  # times of each function


@attrs.define
class Calls:
    """The calls of one function."""

    count: int = 0
    # Seconds of `time.perf_counter`: of each call, or of each so many if there are too many.
    at: list[float] = attrs.field(factory=list)
    _one_in: int = 1

    def add(self, at: float) -> None:
        if self.count % self._one_in == 0:
            self.at.append(at)
            if len(self.at) == _KEPT:
                del self.at[1::2]
                self._one_in *= 2
        self.count += 1


class Steps:
    """The calls of the functions in a log, from `start` to `stop`."""

    def __init__(self, log: CompileLog) -> None:
        self._log = log
        self._calls: dict[FunctionLog, Calls] = {}
        self._of: WeakIdMap[Calls] = WeakIdMap()
        # One that a thread may enter again: a finalizer, run in the midst of it, may call as well.
        self._lock = threading.RLock()
        self._end: Callable[[], None] | None = None
        self._is_complete = False

    def start(self) -> None:
        """Does nothing if JAX lacks the hook for calls: then `of` gives None."""
        self._end = watch_calls(self._on_call)
        self._is_complete = self._end is not None

    def stop(self) -> None:
        if self._end is not None:
            self._end()

    def of(self, function: FunctionLog) -> Calls | None:
        """The calls of a function, or None if not all of them are known."""
        return self._calls.get(function, Calls()) if self._is_complete else None

    def _on_call(self, function: Any, args: tuple) -> None:
        try:
            function = as_filter_jit_was_given(function, args)
            calls = self._of.get(function)
            if calls is None:
                calls = self._calls_of(function)
            if not is_inside_jit():
                with self._lock:
                    calls.add(time.perf_counter())
        except Exception:  # the script is to run as without the doctor
            self._is_complete = False

    def _calls_of(self, jitted: Any) -> Calls:
        function = users_function(jitted)
        log = self._log.function_log(name_of(function), function)
        if log is None:
            return Calls()
        with self._lock:
            calls = self._calls.setdefault(log, Calls())
        with contextlib.suppress(TypeError):
            self._of.set(jitted, calls)
        return calls
