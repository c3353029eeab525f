"""When a script calls its jitted functions, cached calls too, which JAX itself says nothing of.

The interpreter tells of calls from Python 3.12 on, by `sys.monitoring`. A place in the code that
calls something else is looked at once, so that no more than the calls in question cost anything.
"""

import functools
import sys
import time
import types
from typing import Any

import attrs
import equinox as eqx

from ._by_identity import ByIdentity
from ._jax_private import is_jitted
from ._logs import CompileLog, FunctionLog, is_helper, is_of_a_library, name_of
from ._tracing import is_inside_jit, users_function

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
        self._of: ByIdentity[Calls] = ByIdentity()
        self._tool: int | None = None

    def start(self) -> None:
        """Does nothing where the interpreter does not tell, or has others to tell."""
        monitoring: Any = vars(sys).get("monitoring")
        if monitoring is None:
            return
        # Those that are nobody's by convention, as a debugger's and a profiler's are not.
        self._tool = next((tool for tool in (4, 3) if monitoring.get_tool(tool) is None), None)
        if self._tool is not None:
            monitoring.use_tool_id(self._tool, "canonopt")
            monitoring.register_callback(self._tool, monitoring.events.CALL, self._on_call)
            monitoring.set_events(self._tool, monitoring.events.CALL)

    def stop(self) -> None:
        if self._tool is not None:
            monitoring: Any = vars(sys)["monitoring"]
            monitoring.set_events(self._tool, monitoring.events.NO_EVENTS)
            monitoring.register_callback(self._tool, monitoring.events.CALL, None)
            monitoring.free_tool_id(self._tool)

    def of(self, function: FunctionLog) -> Calls | None:
        """The calls of a function, or None if nobody tells of calls."""
        return None if self._tool is None else self._calls.get(function, Calls())

    def _on_call(self, code: types.CodeType, offset: int, called: Any, _: Any) -> Any:
        never_again = vars(sys)["monitoring"].DISABLE
        try:
            called = _without_wrappers(called)
            if not _may_be_jitted(called):
                return never_again
            calls = self._of.get(called)
            if calls is None:
                calls = self._calls_of(called)
            # Code of a library's: what `filter_jit` jits, for one. The call above it counts.
            if calls is None or is_of_a_library(sys._getframe(1).f_globals.get("__name__")):
                return never_again
            if not is_inside_jit():
                calls.add(time.perf_counter())
        except Exception:  # the script is to run as without the doctor
            return never_again
        return None

    def _calls_of(self, jitted: Any) -> Calls | None:
        if not is_jitted(jitted):
            return None
        function = users_function(jitted.__wrapped__)
        log = None if is_helper(function) else self._log._of(name_of(function), function)
        if log is None:
            return None
        calls = self._calls.setdefault(log, Calls())
        self._of.set(jitted, calls)
        return calls


def _without_wrappers(called: Any) -> Any:
    while True:
        if isinstance(called, types.MethodType):
            called = called.__func__
        elif isinstance(called, functools.partial | eqx.Partial):
            called = called.func
        else:
            return called


def _may_be_jitted(called: Any) -> bool:
    """Without a look at attributes of what may be anything."""
    if isinstance(called, type):
        return False
    if isinstance(called, types.FunctionType):
        return "lower" in vars(called)
    return hasattr(type(called), "lower")
