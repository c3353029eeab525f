"""When a script calls its jitted functions, cached calls too, which JAX itself logs nothing of."""

import contextlib
import importlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from ._by_identity import ByIdentity
from ._jax_private import Miss, _combined, watch_misses
from ._logs import CompileLog, FunctionLog, name_of, users_function
from ._tracing import is_inside_jit

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
        # One that a thread may enter again: a finalizer, run in the midst of it, may call as well.
        self._lock = threading.RLock()
        self._end: Callable[[], None] | None = None
        self._is_complete = False

    def start(self) -> None:
        """Does nothing where JAX does not tell."""
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
            function = _as_filter_jit_was_given(function, args)
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
        log = self._log._of(name_of(function), function)
        if log is None:
            return Calls()
        with self._lock:
            calls = self._calls.setdefault(log, Calls())
        with contextlib.suppress(TypeError):
            self._of.set(jitted, calls)
        return calls


# --- what JAX keeps to itself -------------------------------------------------------------------


def watch_calls(called: Callable[[Any, tuple], None]) -> Callable[[], None] | None:
    """Calls `called` with a function that was jitted and its arguments, at each call of it.

    Returns what ends it, or None where JAX does not tell. A cached call runs the hook that
    `jax_debug_nans` has in `_post_hook_state`, and runs nothing else that is Python. The others ask
    `_infer_params`, as `lower` and the like do too, but from another function.
    """
    try:
        api: Any = importlib.import_module("jax._src.api")
        hooks = _Hooks(api._post_hook_state, called)
        hooks.set_global(hooks.get_global())
    except (ImportError, AttributeError):
        return None

    def enter(miss: Miss) -> None:
        if sys._getframe(2).f_code.co_name in ("cache_miss", "_python_pjit_helper"):
            called(miss.function, miss.args)

    end_misses = watch_misses(enter, lambda *_: None)
    api._post_hook_state = hooks

    def end() -> None:
        api._post_hook_state = hooks.end()
        if end_misses is not None:
            end_misses()

    if end_misses is None:
        end()
        return None
    return end


class _Hooks:
    """Stands where JAX sets its hook, since the hook of a thread hides that of all threads."""

    def __init__(self, state: Any, called: Callable[[Any, tuple], None]) -> None:
        self._state = state
        self._called = called
        self.get_global = state.get_global

    def set_global(self, hook: Any) -> None:
        self._global = hook
        self._state.set_global(self._with_ours(hook))

    def set_local(self, hook: Any) -> None:
        self._state.set_local(self._with_ours(hook))

    def end(self) -> Any:
        self._called = lambda *_: None  # the hooks of other threads stay
        self._state.set_global(self._global)
        return self._state

    def _with_ours(self, hook: Any) -> Any:
        def watched(jitted: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
            function = getattr(jitted, "__wrapped__", None)
            if function is not None:  # or it is a program without a function, as in a gradient
                self._called(function, args)
            if hook is None:
                return
            try:
                hook(jitted, args, kwargs, output)
            except BaseException as error:
                if error.__traceback__ is not None:  # so that it reads as if nobody watched
                    error.__traceback__ = error.__traceback__.tb_next
                raise

        return watched


def _as_filter_jit_was_given(function: Any, args: tuple) -> Any:
    """The user's function, where `function` is what `equinox.filter_jit` gives to `jax.jit`."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_qualname != "_filter_jit_cache.<locals>.fun_wrapped":
        return function
    donated, kept, (static, *_) = args
    return _combined({**donated, **kept}["fun"], static)
