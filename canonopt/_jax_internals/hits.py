"""Hits, which are calls that a jit cache has an entry for, and how to trace them again."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax

from .._python_internals.libraries import attribute
from .jaxprs import Traced
from .options import CAPTURED
from .settings import unsupported
from .tracing import unwatched
from .watching import Miss, Watch, combined, is_of_filter_jit, tell


class HitWatch(Watch):
    """Calls its listeners with a jitted function and its arguments after each cached call.

    It hears the calls of all threads. If a listener raises an error, the call raises it. Relies on
    `_post_hook_state` of `jax._src.api`, which holds the hook with which JAX looks for NaNs. The
    hook is not part of the key of a jit cache. A block of `jax.debug_nans`, which JAX itself enters
    too, sets and resets the hook, so this object replaces `_post_hook_state`.

    Adding a listener raises `UnsupportedVersionError` if the hook is gone.
    """

    _state: Any = None  # the state that this object replaces

    def _start(self) -> None:
        try:
            from jax._src import api

            if api._post_hook_state is not self:
                self._state = api._post_hook_state
                for name in ("get_global", "set_global", "get_local", "set_local"):
                    getattr(self._state, name)
        except (ImportError, AttributeError) as error:
            raise unsupported("jax._src.api._post_hook_state", "find stale reads") from error
        stand_in: Any = self
        api._post_hook_state = stand_in
        self._change(self._hook)  # at each start, since each thread may have another hook

    def _stop(self) -> None:
        from jax._src import api

        self._change(_of_jax)
        if api._post_hook_state is self:
            api._post_hook_state = self._state

    def _change(self, change: Callable[[Any], Any]) -> None:
        self._state.set_global(change(self._state.get_global()))
        # A local None hides the global hook. If no local hook is set, JAX has another object here.
        if (local := self._state.get_local()) is None or callable(local):
            self._state.set_local(change(local))

    def set_global(self, hook: Any) -> None:
        """Set the hook that JAX calls in all threads, inside of the hook of this watch."""
        self._state.set_global(self._hook(hook))

    def set_local(self, hook: Any) -> None:
        """Set the hook that JAX calls in this thread, inside of the hook of this watch."""
        self._state.set_local(self._hook(hook))

    def _hook(self, hook: Any) -> Any:
        return functools.partial(_call, _of_jax(hook), self)


def _call(of_jax: Any, watch: HitWatch, jitted: Any, args: tuple, kwargs: Any, output: Any) -> None:
    __tracebackhide__ = True
    if of_jax is not None:
        of_jax(jitted, args, kwargs, output)
    tell(watch.listeners, jitted, args, kwargs)


def _of_jax(hook: Any) -> Any:
    return hook.args[0] if getattr(hook, "func", None) is _call else hook


hits = HitWatch()


def function_called(given: Any, args: tuple) -> Any:
    """Return the user's function in a call of `given`, the function that `jax.jit` was given."""
    if (of_our_jit := attribute(given, "__canonical_call__")) is not None:
        return of_our_jit((), {})[0]
    if is_of_filter_jit(given):
        # Combine only the function: combining the other arguments takes long.
        return combined((args[0] if "fun" in args[0] else args[1])["fun"], args[2][0])
    return given


_contexts = itertools.count()


class CachedCall:
    """A call whose program JAX has cached.

    **Arguments:**

    - `given`: the function that `jax.jit` was given.
    - `trace`: the method `trace` of the jitted function.
    - `jaxpr`: the program that JAX has, if it is known.
    """

    def __init__(
        self,
        given: Any,
        args: tuple,
        kwargs: dict[str, Any],
        trace: Callable[..., Any],
        jaxpr: Any = None,
    ) -> None:
        self.call, self._jaxpr = (given, args, kwargs), jaxpr
        self._trace = plain = functools.partial(trace, *args, **kwargs)
        again = attribute(given, "__canonical_trace__")
        # `__canonical_trace__` finds the function of the present call, and its captured arrays.
        self._again = again(trace, args, kwargs) if again else lambda: (plain(), ())
        # True if functions that are made again may run the program.
        self.is_shared = attribute(given, "__canonical_call__") is not None

    @classmethod
    def of_miss(cls, miss: Miss, jaxpr: Any) -> "CachedCall":
        options = {name: miss.options[name] for name in ("static_argnums", "static_argnames")}
        return cls(miss.jitted, *miss.given, jax.jit(miss.jitted, **options).trace, jaxpr)

    def jaxpr(self) -> Any:
        """Return the program that JAX has, without running the function."""
        if self._jaxpr is None:
            with unwatched():
                self._jaxpr = self._trace().jaxpr
        return self._jaxpr

    def cached(self) -> Traced:
        """Return the program that JAX has, with the captured arrays that it gets as an argument."""
        return self.jaxpr(), self.call[2].get(CAPTURED, ())

    def afresh(self) -> Traced:
        """Trace the function again, with the functions that it calls, and return the new program.

        Each call enters another context of `set_xla_metadata`, so that JAX finds no earlier trace.
        `jax.make_user_context` would also work, but making such a context empties all jit caches.
        """
        from jax.experimental.xla_metadata import set_xla_metadata

        with unwatched(), set_xla_metadata(canonopt_traced_again=str(next(_contexts))):
            traced, arrays = self._again()
            return traced.jaxpr, arrays
