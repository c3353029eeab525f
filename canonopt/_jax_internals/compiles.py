"""The events of `jax.monitoring` that tell of compiles."""

import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .settings import default_settings, unsupported
from .tracing import is_staging, listen


class CompileWatch:
    """Calls `on_compile` with the name, the seconds, and whether JAX's persistent cache had it.

    JAX compiles in the thread of the call. Its events have public functions, but their names are
    documented nowhere.
    """

    def __init__(self, on_compile: Callable[[str, float, bool], None]) -> None:
        self._on_compile = on_compile
        # Whether the persistent cache had what is reported next: JAX has two events for a hit.
        self._thread = threading.local()
        # Whether JAX has reported a compile with the name of its function.
        self._is_seen = False

    def listen(self) -> None:
        """Registers the listeners, unless they are there. They stay, and cost next to nothing."""
        listen(self._on_duration, self._on_event)

    def check(self) -> None:
        """Raises `UnsupportedVersionError` if JAX reports no compiles: none of a small function."""
        # In a trace, nothing would be compiled: the small function would become part of the trace.
        if self._is_seen or is_staging():
            return
        try:
            with default_settings():
                jax.jit(lambda: np.zeros(()))()
        except Exception:  # without a device nothing has been compiled before, either
            return
        if not self._is_seen:
            raise unsupported("the event of a compile in jax.monitoring")

    def _on_event(self, event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            self._thread.is_hit = True

    def _on_duration(self, event: str, duration_secs: float, **about: Any) -> None:
        if event.endswith("cache_retrieval_time_sec"):
            self._thread.is_hit = True
        if event.endswith("backend_compile_duration"):
            is_hit, self._thread.is_hit = getattr(self._thread, "is_hit", False), False
            name = str(about.get("fun_name", "")).removeprefix("jit(").removesuffix(")") or "?"
            self._is_seen = self._is_seen or name != "?"
            # Another name before JAX 0.9.
            self._on_compile(name.replace("unnamed wrapped", "unnamed"), duration_secs, is_hit)
