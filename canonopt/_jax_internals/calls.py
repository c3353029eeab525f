"""Every call of a jitted function, cached calls included."""

from collections.abc import Callable
from typing import Any

from .._errors import UnsupportedVersionError
from .filter_jit import combined, is_of_filter_jit
from .misses import Miss, watch_misses


def watch_calls(called: Callable[[Any, tuple], None]) -> Callable[[], None] | None:
    """Calls `called` with the function and the arguments of each call of a jitted function.

    Returns the function that ends the watch, or None if JAX lacks the hook. Relies on the hook of
    `jax_debug_nans`, `jax._src.api._post_hook_state`: the only Python that a cached call runs.
    Other calls are misses.
    """
    try:
        from jax._src import api

        hooks = _Hooks(api._post_hook_state, called)
        hooks.set_global(hooks.get_global())
        local = api._post_hook_state.get_local()
        if local is None or callable(local):  # or this thread has set none yet
            hooks.set_local(local)
    except (ImportError, AttributeError):
        return None

    def enter(miss: Miss) -> None:
        if miss.is_call:
            called(miss.function, miss.args)

    try:
        end_misses = watch_misses(enter, lambda *_: None)
    except UnsupportedVersionError:
        hooks.end()
        return None
    api._post_hook_state = hooks

    def end() -> None:
        api._post_hook_state = hooks.end()
        end_misses()

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


def as_filter_jit_was_given(function: Any, args: tuple) -> Any:
    """The user's function, where `function` is what `equinox.filter_jit` gives to `jax.jit`."""
    if not is_of_filter_jit(function):
        return function
    donated, kept, (static, *_) = args
    return combined({**donated, **kept}["fun"], static)
