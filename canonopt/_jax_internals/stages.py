"""The stages of `jax.stages`: lowered and compiled by hand."""

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax


class StageWatch:
    """Calls `lowered` with each jaxpr and its lowering, from `start` to `stop`.

    A lowering for which that is true is compiled in `compiling`, whenever that is. For users who
    lower and compile themselves; `jax.jit` does not use these methods. The methods are public, but
    replacing them is not, so it is done here.
    """

    def __init__(
        self,
        lowered: Callable[[Any, Any], bool],
        compiling: Callable[[Any], AbstractContextManager[Any]],
    ) -> None:
        self._class: Any = jax.stages.Traced
        self._original = original = jax.stages.Traced.lower

        class Lowered(jax.stages.Lowered):
            __slots__ = ()

            def compile(self, *args: Any, **kwargs: Any) -> Any:
                with compiling(self):
                    return super().compile(*args, **kwargs)

        @functools.wraps(original)
        def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            result: Any = original(self, *args, **kwargs)
            if lowered(self.jaxpr, result):
                with contextlib.suppress(TypeError):  # of a class of its own
                    result.__class__ = Lowered
            return result

        class Traced(jax.stages.Traced):
            __slots__ = ()
            lower: Any = watched

        self._lower, self._traced = watched, Traced

    def start(self) -> None:
        self._class.lower = self._lower

    def stop(self) -> None:
        if self._class.lower is self._lower:
            self._class.lower = self._original

    def keep(self, traced: Any) -> None:
        """Watches what was traced here also after `stop`."""
        with contextlib.suppress(TypeError):
            traced.__class__ = self._traced
