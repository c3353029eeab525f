"""Calls that a jit cache has an entry for, and how to trace them again."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax

from .filter_jit import call_of_filter_jit, combined, is_of_filter_jit
from .functions import attribute
from .misses import Miss
from .settings import unsupported
from .tracing import unwatched


class HitWatch:
    """Calls `on_hit` with the jitted function and its arguments after each call of its C++ cache.

    From `start` to `stop`, in all threads. What `on_hit` raises, the call raises. Relies on
    `_post_hook_state` of `jax._src.api`: the hook with which JAX looks for NaNs, which is not part
    of the key of a jit cache. A block of `jax.debug_nans` sets and resets it, so until `stop` this
    object stands in for it there.

    To make one raises `UnsupportedVersionError` if the hook is gone.
    """

    def __init__(self, on_hit: Callable[[Any, tuple, dict[str, Any]], None]) -> None:
        try:
            from jax._src import api

            self._state: Any = api._post_hook_state
            for name in ("get_global", "set_global", "get_local", "set_local"):
                getattr(self._state, name)
        except (ImportError, AttributeError) as error:
            raise unsupported("jax._src.api._post_hook_state", "find stale reads") from error
        self._api: Any = api
        self._on_hit = on_hit

    def start(self) -> None:
        self._api._post_hook_state = self
        self._put(lambda hook: _Hook(hook, self._on_hit))

    def stop(self) -> None:
        self._put(_of_jax)
        if self._api._post_hook_state is self:
            self._api._post_hook_state = self._state

    def _put(self, change: Callable[[Any], Any]) -> None:
        self._state.set_global(change(self._state.get_global()))
        # None hides that of all threads. JAX has an object in its place if nothing is set.
        if (local := self._state.get_local()) is None or callable(local):
            self._state.set_local(change(local))

    def set_global(self, hook: Any) -> None:
        """Set what JAX calls in all threads."""
        self._state.set_global(_Hook(hook, self._on_hit))

    def set_local(self, hook: Any) -> None:
        """Set what JAX calls in this thread."""
        self._state.set_local(_Hook(hook, self._on_hit))


class _Hook:
    __slots__ = ("_on_hit", "of_jax")

    def __init__(self, of_jax: Any, on_hit: Callable[..., None]) -> None:
        self.of_jax, self._on_hit = _of_jax(of_jax), on_hit

    def __call__(self, jitted: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        if self.of_jax is not None:
            self.of_jax(jitted, args, kwargs, output)
        self._on_hit(jitted, args, kwargs)


def _of_jax(hook: Any) -> Any:
    return hook.of_jax if isinstance(hook, _Hook) else hook


def stands_for_others(given: Any) -> bool:
    """Return True if what `jax.jit` was given calls a function of the user's that it is passed."""
    marks = ("__canonical_call__", "__call_of_user__")
    return is_of_filter_jit(given) or any(attribute(given, mark) for mark in marks)


def function_of_call(given: Any, args: tuple) -> Any:
    """Return what `jax.jit` was given, or the user's function if several functions share that."""
    users_call = attribute(given, "__canonical_call__")
    if users_call is not None:
        return users_call((), {})[0]
    if not is_of_filter_jit(given):
        return given
    donated, kept, static = args  # without the other arguments, which take long to combine
    return combined((donated if "fun" in donated else kept)["fun"], static[0])


_contexts = itertools.count()


class CachedCall:
    """A call that has a program.

    **Arguments:**

    - `given`: what `jax.jit` was given.
    - `trace`: `jitted.trace`.
    """

    def __init__(
        self, given: Any, args: tuple, kwargs: dict[str, Any], trace: Callable[..., Any]
    ) -> None:
        self.given, self.args, self.kwargs = given, args, kwargs
        self._trace = functools.partial(trace, *args, **kwargs)
        again = attribute(given, "__canonical_trace__")
        # Which knows the function of the call that runs now.
        self._trace_again = self._trace if again is None else again(trace, args, kwargs)

    @property
    def is_shared(self) -> bool:
        """Return True if functions that are made again may run the program."""
        return attribute(self.given, "__canonical_call__") is not None

    @classmethod
    def of_miss(cls, miss: Miss) -> "CachedCall":
        options = {name: miss.options[name] for name in ("static_argnums", "static_argnames")}
        return cls(miss.jitted, *miss.given, jax.jit(miss.jitted, **options).trace)

    def users_call(self) -> tuple[Any, tuple, dict[str, Any]]:
        """Return the user's function, and what the user called it with."""
        function, args, kwargs = self.given, self.args, self.kwargs
        if (users_call := attribute(function, "__canonical_call__")) is not None:
            function, args, kwargs = users_call(args, kwargs)
        return call_of_filter_jit(function, args) or (function, args, kwargs)

    def cached(self) -> Any:
        """Return the program that JAX has, without running the function."""
        with unwatched():
            return self._trace().jaxpr

    def afresh(self) -> Any:
        """Return the program that the function gives now, and those that it calls.

        Each time in another context of `set_xla_metadata`, by which JAX finds no earlier trace.
        `jax.make_user_context` would do too, but to make one empties all jit caches.
        """
        from jax.experimental.xla_metadata import set_xla_metadata

        with unwatched(), set_xla_metadata(canonopt_traced_again=str(next(_contexts))):
            return self._trace_again().jaxpr
