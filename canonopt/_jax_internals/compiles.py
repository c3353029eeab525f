"""The events of `jax.monitoring` that tell of compiles."""

import threading
from collections.abc import Callable
from typing import Any, Literal

import attrs
import jax
import numpy as np

from .settings import default_settings, unsupported
from .tracing import is_staging, is_unwatched, listen, unwatched

_MAX_NAMES = 1000  # of what was lowered and is not compiled yet, in each thread


@attrs.frozen
class Compile:
    """One compile by XLA, as JAX reports it."""

    name: str
    seconds: float  # or to read it from the persistent compilation cache
    lowering_seconds: float
    # Of the persistent cache. None if it is off.
    cache: Literal["hit", "miss"] | None
    # What its listener knows.
    in_backward_pass: bool = False
    is_by_hand: bool = False  # by `.compile()`

    @property
    def is_hit(self) -> bool:
        return self.cache == "hit"


class CompileWatch:
    """Calls `on_compile` with each compile, and each hit of JAX's persistent cache.

    JAX compiles in the thread of the call. Its events have public functions, but their names are
    documented nowhere.
    """

    def __init__(self, on_compile: Callable[[Compile], None]) -> None:
        self._on_compile = on_compile
        self._thread = _Thread()
        # Whether JAX has reported a lowering and a compile with the name of their function.
        self._is_seen = False

    def listen(self) -> None:
        """Registers the listeners, unless they are there. They stay, and cost next to nothing."""
        listen(self._on_duration, self._on_event)

    def check(self) -> None:
        """Raises `UnsupportedVersionError` if JAX reports no compiles: none of a small function."""
        # In a trace, nothing would be compiled: the small function would become part of the trace.
        if self._is_seen or is_staging():
            return

        def canonopt_check() -> Any:  # a name that nothing else has been lowered under
            return np.zeros(())

        self.listen()  # the user may have cleared all listeners
        try:
            with default_settings(), unwatched():
                jax.jit(canonopt_check)()
        except Exception:  # without a device nothing has been compiled before, either
            return
        if not self._is_seen:
            raise unsupported("the event of a compile in jax.monitoring")

    def _on_event(self, event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            self._thread.is_hit = True

    def _on_duration(self, event: str, duration_secs: float, **about: Any) -> None:
        thread = self._thread
        if event.endswith("cache_retrieval_time_sec"):
            thread.is_hit = True
        if event.endswith("jaxpr_to_mlir_module_duration"):
            if len(thread.lowered) >= _MAX_NAMES:
                thread.lowered.clear()
            name = _name(about)
            thread.lowered[name] = thread.lowered.get(name, 0.0) + duration_secs
        if event.endswith("backend_compile_duration"):
            name, is_hit, thread.is_hit = _name(about), thread.is_hit, False
            self._is_seen = self._is_seen or (name != "?" and name in thread.lowered)
            lowering = thread.lowered.pop(name, 0.0)
            cache = "hit" if is_hit else "miss" if _has_persistent_cache() else None
            if not is_unwatched():
                self._on_compile(Compile(name, duration_secs, lowering, cache))


class _Thread(threading.local):
    """The work of a thread for the compile that is reported next."""

    def __init__(self) -> None:
        # Whether the persistent cache had what is reported next: JAX has two events for a hit.
        self.is_hit = False
        # The seconds by name: what is lowered by hand may be compiled later.
        self.lowered: dict[str, float] = {}


def _has_persistent_cache() -> bool:
    # JAX fires the events of its cache also without a folder for it.
    folder, is_on = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
    return bool(getattr(jax.config, folder) and getattr(jax.config, is_on))


def _name(about: dict[str, Any]) -> str:
    name = str(about.get("fun_name", "")).removeprefix("jit(").removesuffix(")") or "?"
    return name.replace("unnamed wrapped", "unnamed")  # as it was called before JAX 0.9
