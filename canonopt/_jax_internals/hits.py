"""Calls that a jit cache has an entry for, and how to trace them again."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from .filter_jit import call_of_filter_jit, combined, is_of_filter_jit
from .functions import attribute
from .misses import Miss
from .settings import unsupported
from .tracing import unwatched


class HitWatch:
    """Calls `on_hit` with the jitted function and its arguments after each call of its C++ cache.

    From `start` to `stop`, in the threads that started it, or in all. What `on_hit` raises, the
    call raises. Relies on `_post_hook_state` of `jax._src.api`: the hook with which JAX looks for
    NaNs, which is not part of the key of a jit cache. A block of `jax.debug_nans` sets and resets
    it, so until `stop` this object stands in for it there.

    To make one raises `UnsupportedVersionError` if the hook is gone.
    """

    def __init__(self, on_hit: Callable[[Any, tuple, dict[str, Any]], None]) -> None:
        try:
            from jax._src import api

            self._state: Any = api._post_hook_state
            for name in ("value", "get_global", "set_global", "set_local", "swap_local"):
                getattr(self._state, name)
        except (ImportError, AttributeError) as error:
            raise unsupported("jax._src.api._post_hook_state", "find stale reads") from error
        self._api = api
        self._on_hit = on_hit
        self._lock = threading.RLock()
        self._blocks = self._blocks_of_all = 0
        self._here = _Here()

    def start(self, all_threads: bool) -> None:
        with self._lock:
            if not self._blocks:
                self._api._post_hook_state = self
            self._blocks += 1
            if all_threads and not self._blocks_of_all:
                self._state.set_global(self._hook(self._state.get_global()))
            self._blocks_of_all += all_threads
        if not self._here.blocks:
            self._here.is_set = False
            self._here.before = self._state.swap_local(self._hook(self._state.value))
        self._here.blocks += 1

    def stop(self, all_threads: bool) -> None:
        self._here.blocks -= 1
        if not self._here.blocks:
            now = _of_jax(self._state.value)
            self._state.set_local(now if self._here.is_set else self._here.before)
            self._here.before = None
        with self._lock:
            self._blocks_of_all -= all_threads
            if all_threads and not self._blocks_of_all:
                self._state.set_global(_of_jax(self._state.get_global()))
            self._blocks -= 1
            if not self._blocks and self._api._post_hook_state is self:
                self._api._post_hook_state = self._state

    def set_global(self, hook: Any) -> None:
        """Set what JAX calls in all threads."""
        self._state.set_global(self._hook(hook) if self._blocks_of_all else hook)
        if self._here.blocks and not self._here.is_set:  # ours would be called instead
            self._state.set_local(self._hook(hook))

    def set_local(self, hook: Any) -> None:
        """Set what JAX calls in this thread."""
        self._here.is_set = True
        is_watched = self._here.blocks or self._blocks_of_all
        self._state.set_local(self._hook(hook) if is_watched else hook)

    def _hook(self, of_jax: Any) -> "_Hook":
        return _Hook(_of_jax(of_jax), self._on_hit)


class _Here(threading.local):
    blocks = 0
    is_set = False  # whether JAX has set a hook since the first of these
    before: Any = None


class _Hook:
    __slots__ = ("_on_hit", "of_jax")

    def __init__(self, of_jax: Any, on_hit: Callable[..., None]) -> None:
        self.of_jax, self._on_hit = of_jax, on_hit

    def __call__(self, jitted: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        if self.of_jax is not None:
            self.of_jax(jitted, args, kwargs, output)
        self._on_hit(jitted, args, kwargs)


def _of_jax(hook: Any) -> Any:
    return hook.of_jax if isinstance(hook, _Hook) else hook


def function_of_hit(jitted: Any, args: tuple) -> Any:
    """Return what `jax.jit` was given, or the user's function if several functions share that."""
    function = jitted.__wrapped__
    users_call = getattr(function, "__canonical_call__", None)
    if users_call is not None:
        return users_call(args, {})[0]
    return _function_of_equinox(args) if is_of_filter_jit(function) else function


def stands_for_others(function: Any) -> bool:
    """Return True if what `jax.jit` was given calls a function of the user's that it is passed."""
    marks = ("__canonical_call__", "__call_of_user__")
    return is_of_filter_jit(function) or any(attribute(function, mark) for mark in marks)


def users_call_of_hit(
    jitted: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[Any, tuple, dict[str, Any]]:
    """Return the user's function, and what the user called it with."""
    function = jitted.__wrapped__
    users_call = attribute(function, "__canonical_call__")
    if users_call is not None:
        function, args, kwargs = users_call(args, kwargs)
    return call_of_filter_jit(function, args) or (function, args, kwargs)


def function_of_miss(miss: Miss) -> Any:
    """Return the same for a miss."""
    users_call = attribute(miss.jitted, "__canonical_call__")
    if users_call is not None:
        return users_call((), {})[0]
    return miss.function if is_of_filter_jit(miss.jitted) else miss.jitted


def _function_of_equinox(args: tuple) -> Any:
    donated, kept, static = args
    dynamic = donated["fun"] if "fun" in donated else kept["fun"]
    return combined(dynamic, static[0])


class Retrace:
    """Traces a call again that has a program.

    **Arguments:**

    - `function`: what `jax.jit` was given.
    - `trace`: `jitted.trace`.
    """

    def __init__(
        self, function: Any, trace: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
    ) -> None:
        self._cached = lambda: trace(*args, **kwargs)
        again = attribute(function, "__canonical_trace__")
        self._again = self._cached if again is None else again(trace, args, kwargs)

    def cached(self) -> Any:
        """Return the program that JAX has, without running the function."""
        with unwatched():
            return self._cached().jaxpr

    def afresh(self) -> Any:
        """Return the program that the function gives now, and those that it calls.

        Each time in another context of `set_xla_metadata`, by which JAX finds no earlier trace.
        `jax.make_user_context` would do too, but to make one empties all jit caches.
        """
        with unwatched(), _new_context():
            return self._again().jaxpr


_contexts = itertools.count()


@contextlib.contextmanager
def _new_context() -> Iterator[None]:
    from jax.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(canonopt_traced_again=str(next(_contexts))):
        yield


def retrace_of_hit(jitted: Any, args: tuple, kwargs: dict[str, Any]) -> Retrace:
    return Retrace(jitted.__wrapped__, jitted.trace, args, kwargs)


def retrace_of_miss(miss: Miss) -> Retrace:
    options = {name: miss.options[name] for name in ("static_argnums", "static_argnames")}
    return Retrace(miss.jitted, jax.jit(miss.jitted, **options).trace, *miss.given)
