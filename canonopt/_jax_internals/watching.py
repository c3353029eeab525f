"""Misses and compiles, watched together."""

import os
import threading
from collections.abc import Callable
from typing import Any

from .compiles import Compile, CompileWatch
from .misses import Miss, MissWatch


class Watch:
    """Calls the functions that it was given, while at least one block that started it runs.

    After the last block has stopped it, JAX is as it was before. Threads may start and stop it.

    **Arguments:**

    - `enter`, `leave`, `passes`, `failed`: as for `MissWatch`.
    - `on_compile`: as for `CompileWatch`.
    """

    def __init__(
        self,
        enter: Callable[[Miss], Any],
        leave: Callable[[Any, bool, Any], None],
        passes: Callable[[Any], bool],
        failed: Callable[[Exception], None],
        on_compile: Callable[[Compile], None],
    ) -> None:
        self._renew_lock()
        # A forked child does not have the thread that may hold the lock.
        os.register_at_fork(after_in_child=self._renew_lock)
        self._at_misses = enter, leave, passes, failed
        self._misses: MissWatch | None = None
        self._compiles = CompileWatch(on_compile)
        self._blocks = 0

    def _renew_lock(self) -> None:
        # A signal handler may start it, too, and in the middle of this.
        self._lock = threading.RLock()

    def start(self) -> None:
        """Raises `UnsupportedVersionError`, at each call, if JAX does not report its traces."""
        # Each call of a watched function comes here, so there is no more than has to be.
        with self._lock:
            if self._misses is None:
                self._misses = MissWatch(*self._at_misses)
            if not self._blocks:
                self._misses.start()
            self._blocks += 1

    def stop(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks and self._misses is not None:
                self._misses.stop()

    def listen(self) -> None:
        """Listens to compiles. To be called again, since somebody may clear JAX's listeners."""
        self._compiles.listen()

    def check_misses(self) -> None:
        """Raises `UnsupportedVersionError` if Equinox was imported since, and is not known."""
        if self._misses is not None:
            self._misses.check()

    def check_compiles(self) -> None:
        """Raises `UnsupportedVersionError` if JAX reports no compiles."""
        self._compiles.check()
