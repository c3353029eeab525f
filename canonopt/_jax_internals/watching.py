"""Watch compiles by XLA, misses (calls without an entry in a jit cache) and cached calls."""

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._python_internals.libraries import attribute
from .._python_internals.namespaces import loaded
from .._python_internals.weak import WeakIdMap
from .functions import JIT_OPTIONS
from .settings import default_settings, private, unsupported
from .tracing import (
    NotTraced,
    hide_own_frames,
    innermost_run,
    is_staging,
    is_unwatched,
    listen,
    traces_so_far,
    unwatched,
    was_tracing,
)

# --- compiles -------------------------------------------------------------------------------------

_MAX_NAMES = 1000  # per thread, the maximum number of functions lowered but not compiled yet


@attrs.frozen
class Compile:
    """One compile by XLA, as JAX reports it."""

    name: str
    seconds: float  # to compile, or to read the persistent compilation cache
    lowering_seconds: float
    # Whether the persistent cache had the program; None if the cache is off.
    cache: Literal["hit", "miss"] | None
    # `on_compile` fills in these two fields.
    in_backward_pass: bool = False
    is_by_hand: bool = False  # whether the user called `.compile()`

    @property
    def is_hit(self) -> bool:
        return self.cache == "hit"


class CompileWatch:
    """A watch that calls `on_compile` with each compile, and each hit of the persistent cache.

    `on_compile` runs in the thread of the user's call, in which JAX compiles. Relies on the names
    of events in `jax.monitoring`: the module is public, but does not document these names.
    """

    def __init__(self, on_compile: Callable[[Compile], None]) -> None:
        self._on_compile = on_compile
        self._thread = _Thread()
        # True once JAX has reported both a lowering and a compile under the name of one function.
        self._is_seen = False

    def listen(self) -> None:
        """Register the listener, unless it is registered. It stays, and costs next to nothing."""
        listen(self._on_duration)

    def check(self) -> None:
        """Raise `UnsupportedVersionError` if JAX reports no compile of a small function."""
        # In a trace, JAX would not compile the small function, but make it a part of the trace.
        if self._is_seen or is_staging():
            return

        def canonopt_check() -> Any:  # no other function was lowered under this name
            return np.zeros(())

        self.listen()  # the user may have cleared all listeners
        try:
            with default_settings(), unwatched():
                jax.jit(canonopt_check)()
        except Exception:  # without a device, JAX compiles nothing, so no compile was missed
            return
        if not self._is_seen:
            raise unsupported("the event of a compile in jax.monitoring")

    def _on_duration(self, event: str, duration_secs: float, **about: Any) -> None:
        thread = self._thread
        name = str(about.get("fun_name", "")).removeprefix("jit(").removesuffix(")") or "?"
        name = name.replace("unnamed wrapped", "unnamed")  # JAX before 0.9 adds "wrapped"
        if event.endswith("cache_retrieval_time_sec"):
            thread.is_hit = True
        if event.endswith("jaxpr_to_mlir_module_duration"):
            if len(thread.lowered) >= _MAX_NAMES:
                thread.lowered.clear()
            thread.lowered[name] = thread.lowered.get(name, 0.0) + duration_secs
        if event.endswith("backend_compile_duration"):
            is_hit, thread.is_hit = thread.is_hit, False
            self._is_seen = self._is_seen or (name != "?" and name in thread.lowered)
            lowering = thread.lowered.pop(name, 0.0)
            cache = "hit" if is_hit else "miss" if has_persistent_cache() else None
            if not is_unwatched():
                self._on_compile(Compile(name, duration_secs, lowering, cache))


class _Thread(threading.local):
    """Facts about the compile that JAX reports next in this thread."""

    def __init__(self) -> None:
        # True if the persistent cache had the program that is reported next.
        self.is_hit = False
        # The seconds of lowering, by name: a function that is lowered by hand may compile later.
        self.lowered: dict[str, float] = {}


def has_persistent_cache() -> bool:
    flags: Any = jax.config
    # The events of the cache do not tell: JAX fires them even if the cache has no folder.
    return bool(flags.jax_compilation_cache_dir and flags.jax_enable_compilation_cache)


# --- calls through `equinox.filter_jit`, which is private -----------------------------------------


def is_of_filter_jit(function: Any) -> bool:
    """Return True if `equinox.filter_jit` made `function` and gave it to `jax.jit`.

    Relies on the qualified name of the function inside of `equinox._jit._filter_jit_cache`.
    """
    # Only the code has this name: Equinox gives the function the name of the user's function.
    name = "_filter_jit_cache.<locals>.fun_wrapped"
    return isinstance(function, types.FunctionType) and function.__code__.co_qualname == name


def users_call(given: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, Any, bool]:
    """Return the user's function, `args` and `kwargs` in a call of `given`, which JAX has jitted.

    The last value is True if the call came through a `filter_jit`. Equinox passes the function and
    the arguments in three parts, each partitioned into arrays and the rest. The function that
    `canonopt.filter_jit` gives to `jax.jit` has `__call_of_user__`, which returns the user's call.
    """
    if (of_our_jit := attribute(given, "__canonical_call__")) is not None:
        given, args, kwargs = of_our_jit(args, kwargs)
    if isinstance(given, types.FunctionType) and "__call_of_user__" in vars(given):
        return (*vars(given)["__call_of_user__"](*args), True)
    if is_of_filter_jit(given):
        # If Equinox passes other parts, `_check_misses` raises an error.
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
            donated, kept, static = args
            dynamic = {**donated, **kept}
            both = zip(("fun", "first", "rest"), static, strict=True)
            users, first, (rest, named) = (combined(dynamic[name], part) for name, part in both)
            return users, (first, *rest)[:-1], named, True  # equinox appends a None
    return given, args, kwargs, False


def function_called(given: Any, args: tuple) -> Any:
    """Return the first item of `users_call`, or a wrapper of it for `canonopt.filter_jit`."""
    if (of_our_jit := attribute(given, "__canonical_call__")) is not None:
        return of_our_jit((), {})[0]
    if is_of_filter_jit(given):
        # Combine only the function: that takes 2 us, and a call with 100 arrays 60 us.
        return combined((args[0] if "fun" in args[0] else args[1])["fun"], args[2][0])
    return given


def combined(dynamic: tuple, static: tuple) -> Any:
    """Return the pytree that Equinox has partitioned into arrays and the rest."""
    leaves, structure = static
    parts = zip(dynamic, leaves, strict=True)
    # In the static part None stands for an array, as after `equinox.partition`.
    return jtu.tree_unflatten(structure, [d if s is None else s for d, s in parts])


# --- misses ---------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Miss:
    """A call without an entry in a jit cache, with the function and the arguments of the user."""

    function: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    is_static: Callable[[str | int], bool]
    # True if the call came through a `filter_jit`: there, all leaves but arrays are static.
    filtered: bool
    options: dict[str, Any]
    # The function that `jax.jit` was given; for a `filter_jit`, it is not the user's.
    jitted: Callable[..., Any]
    # True if the function is called, not only traced, lowered or evaluated for shapes.
    is_call: bool
    # The positional and keyword arguments of `jitted`.
    given: tuple[tuple, dict[str, Any]]
    # True if `canonopt.jit` made the program, which several functions may share.
    is_shared: bool = False


class Watch:
    """A watch that replaces a part of JAX as long as it has listeners."""

    def __init__(self) -> None:
        self.listeners: tuple[Any, ...] = ()
        self._renew_lock()
        # A forked child does not have the thread that may hold the lock.
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()  # reentrant, since a signal handler may add a listener, too

    def add(self, listener: Any) -> None:
        with self.lock:
            self._start()
            self.listeners += (listener,)

    def remove(self, listener: Any) -> None:
        with self.lock:
            at = self.listeners.index(listener)
            self.listeners = self.listeners[:at] + self.listeners[at + 1 :]
            if not self.listeners:
                self._stop()

    def _start(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


class MissWatch(Watch):
    """A watch that calls its listeners at each miss, before JAX traces.

    A listener gets the function that `jax.jit` was given, and a function that returns the `Miss`.
    The listener returns None, or a function to call afterwards with two arguments: whether JAX has
    traced, and the jaxpr or None. If this function raises an error, JAX compiles nothing.

    Wraps the private `jax._src.pjit._infer_params`, which `jax.jit` calls if its C++ cache has no
    entry. Cached calls cost nothing.
    """

    hears_unwatched = False  # whether listeners are also called in a block of `unwatched`
    # The function that replaces `_infer_params`, and JAX's own, which the replacement calls.
    _ours: Any = None
    _original: Any = None

    def check(self) -> None:
        """Raise `UnsupportedVersionError` if misses cannot be watched: all counts would be zero."""
        if not getattr(jax.config, "jax_no_tracing", False):  # if it is set, JAX refuses to trace
            _check_misses(loaded("equinox", "filter_jit"))

    def _start(self) -> None:
        from jax._src import pjit

        if self.listeners:
            return
        hide_own_frames()
        self._original = pjit._infer_params
        self._ours = pjit._infer_params = self._wrapped(self._original)

    def _stop(self) -> None:
        from jax._src import pjit

        if pjit._infer_params is self._ours:
            pjit._infer_params = self._original
        else:
            # Somebody has wrapped `_ours`, so it must stay. From now on, it only passes calls on.
            self._ours = None

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(fun: Any, ji: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
            if self._ours is not watched or (is_unwatched() and not self.hears_unwatched):
                return original(fun, ji, args, kwargs)
            # These functions of `jax._src.pjit` call `fun`; others only trace or lower it.
            is_call = sys._getframe(1).f_code.co_name in ("cache_miss", "_python_pjit_helper")
            miss = functools.partial(_miss, fun, ji, args, kwargs, is_call)
            found = [listener(fun, miss) for listener in dict.fromkeys(self.listeners)]
            afterwards = [function for function in found if function is not None]
            if not afterwards:
                return original(fun, ji, args, kwargs)
            before = traces_so_far()
            try:
                result = original(fun, ji, args, kwargs)
            except BaseException as error:
                if is_traced := was_tracing(error) and not isinstance(error, NotTraced):
                    with contextlib.suppress(TypeError):  # `fun` may take no weak reference
                        _failed.set(fun, True)
                tell(afterwards, is_traced, None)
                raise
            jaxpr = None
            with contextlib.suppress(AttributeError, KeyError, TypeError):
                jaxpr = result[0].params["jaxpr"]
            # Neither the jaxpr nor the count is enough: a jaxpr that is new here may be from before
            # the watch began, and the count also grows when another thread traces. After a trace
            # has failed, JAX does not count traces of that function until its caches are cleared.
            is_traced = traces_so_far() != before or _failed.get(fun, False)
            mark = object()
            is_new = jaxpr is None or _seen.setdefault(jaxpr, mark) is mark
            tell(afterwards, is_new and is_traced, jaxpr)
            return result

        return watched


_failed: WeakIdMap[bool] = WeakIdMap()  # functions with a trace that has failed
_seen: WeakIdMap[object] = WeakIdMap()  # the jaxprs that a watch has seen


def tell(listeners: Sequence[Callable[..., None]], *about: Any) -> None:
    """Call each listener, even if one of them raises an error."""
    __tracebackhide__ = True
    for at, listener in enumerate(listeners):
        try:
            listener(*about)
        except BaseException:
            tell(listeners[at + 1 :], *about)
            raise


misses = MissWatch()


@functools.cache  # if it raises, the next use checks again
def _check_misses(filter_jit: Any) -> None:
    """Trace small functions, and raise `UnsupportedVersionError` unless a watch sees all of them.

    `filter_jit` is `equinox.filter_jit`, or an empty tuple if Equinox is not imported. The check
    takes some milliseconds. Nothing is lowered, so JAX does not start a backend.
    """
    if (infer := private("jax._src.pjit._infer_params")) is None:
        raise unsupported("jax._src.pjit._infer_params")
    parameters = tuple(inspect.signature(infer).parameters)
    if parameters != ("fun", "ji", "args", "kwargs"):
        raise unsupported(f"jax._src.pjit._infer_params({', '.join(parameters)})")
    # These facts are kept instead of the misses, whose arguments would be leaked tracers.
    ways: dict[Any, tuple[bool, bool, Any]] = {}
    traces: list[bool] = []
    staging: list[bool] = []
    runs: list[str | None] = []

    def leave(miss: Miss, is_traced: bool, program: Any) -> None:
        if not any(miss.function is function for function in functions):
            return  # it is a miss of another thread
        ways[miss.function] = miss.is_call, miss.filtered, program
        traces.append(is_traced)

    def called(x: Any) -> Any:
        runs.append(innermost_run())
        return x

    def filtered(x: Any) -> Any:
        return x

    def pull(_: None, cotangent: Any) -> tuple[Any]:
        runs.append(innermost_run())
        return (jax.jit(called)(cotangent),)

    pulled = jax.custom_vjp(lambda x: x)
    pulled.defvjp(lambda x: (x, None), pull)

    def traced(x: Any) -> Any:
        staging.append(is_staging())
        return jax.grad(pulled)((filter_jit or jax.jit)(filtered)(x))

    def refused(_: Any) -> Any:
        return object()

    functions = (traced, called, filtered, refused)

    def listener(_: Any, miss: Callable[[], Miss]) -> Callable[..., None]:
        return functools.partial(leave, miss())

    watch = MissWatch()
    watch.hears_unwatched = True
    watch.add(listener)
    # An array would start a backend.
    x = jax.ShapeDtypeStruct((), jnp.float32)
    try:
        with default_settings(), unwatched():
            jaxpr = jax.jit(traced).trace(x).jaxpr
            with contextlib.suppress(TypeError):
                jax.jit(refused).trace(x)
    except Exception as error:
        raise unsupported("jax._src.pjit._infer_params") from error
    finally:
        watch.remove(listener)
    of_traced, of_called, of_filtered, of_refused = (ways.get(each) for each in functions)
    if not (of_traced and of_called and of_refused):
        raise unsupported("jax._src.pjit._infer_params")
    if of_filtered is None or of_filtered[1] != bool(filter_jit):
        raise unsupported("equinox._jit._filter_jit_cache")
    found = {
        # If JAX refuses the output, there is no jaxpr, and only the traceback shows the trace.
        "jax._src.interpreters.partial_eval.trace_to_jaxpr": all(traces),
        "the jaxpr in the result of jax._src.pjit._infer_params": of_traced[2] is jaxpr,
        # `traced` was only traced, while `called` and `filtered` were called in its trace.
        "jax._src.pjit.cache_miss": (of_traced[0], of_called[0], of_filtered[0])
        == (False, True, True),
        "jax._src.core.unsafe_am_i_under_a_jit": staging == [True],
        # In the backward pass, JAX runs `pull` directly, and `called` as a jitted call.
        "jax._src.interpreters.ad.backward_pass": runs == ["backward pass", "call"],
    }
    for name, is_as_expected in found.items():
        if not is_as_expected:
            raise unsupported(name)


def _miss(fun: Any, info: Any, args: tuple, kwargs: dict[str, Any], is_call: bool) -> Miss:
    options = {name: getattr(info, name, None) for name in (*JIT_OPTIONS, "compiler_options_kvs")}
    for name in ("in_shardings", "out_shardings"):
        options[name] = getattr(info, f"{name}_leaves", None)
    given = args, kwargs
    function, args, kwargs, is_filtered = users_call(fun, args, kwargs)
    static: frozenset[str | int] = frozenset()
    if not is_filtered:
        names, numbers = frozenset(info.static_argnames), frozenset(options["static_argnums"] or ())
        # Negative numbers count from the last positional argument.
        static = names | numbers | {i + len(args) for i in numbers if i < 0}
    is_shared = attribute(fun, "__canonical_call__") is not None
    return Miss(
        *(function, args, kwargs, static.__contains__, is_filtered, options),
        *(fun, is_call, given, is_shared),
    )


# --- cached calls ---------------------------------------------------------------------------------


class HitWatch(Watch):
    """A watch that calls its listeners after each cached call, in any thread.

    A listener gets the jitted function, `args` and `kwargs`. An error in a listener is raised by
    the call. Replaces the private `_post_hook_state` of `jax._src.api`, which holds the hook with
    which JAX looks for NaNs. Setting the hook alone would not last: each block of `jax.debug_nans`
    sets and resets it, and JAX enters such blocks too. No jit cache has the hook in its keys.

    Adding a listener raises `UnsupportedVersionError` if `_post_hook_state` is gone.
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
        self._change(self._hook)  # at each `add`, since each thread may have its own hook

    def _stop(self) -> None:
        from jax._src import api

        self._change(_hook_of_jax)
        if api._post_hook_state is self:
            api._post_hook_state = self._state

    def _change(self, change: Callable[[Any], Any]) -> None:
        self._state.set_global(change(self._state.get_global()))
        # A local None hides the global hook. Without a local hook, JAX returns another object here.
        if (local := self._state.get_local()) is None or callable(local):
            self._state.set_local(change(local))

    def set_global(self, hook: Any) -> None:
        """Set JAX's hook for all threads, wrapped in the hook of this watch."""
        self._state.set_global(self._hook(hook))

    def set_local(self, hook: Any) -> None:
        """Set JAX's hook for this thread, wrapped in the hook of this watch."""
        self._state.set_local(self._hook(hook))

    def _hook(self, hook: Any) -> Any:
        return functools.partial(_run_hooks, _hook_of_jax(hook), self)


def _run_hooks(
    of_jax: Any, watch: HitWatch, jitted: Any, args: tuple, kwargs: Any, output: Any
) -> None:
    __tracebackhide__ = True
    if of_jax is not None:
        of_jax(jitted, args, kwargs, output)
    tell(watch.listeners, jitted, args, kwargs)


def _hook_of_jax(hook: Any) -> Any:
    return hook.args[0] if getattr(hook, "func", None) is _run_hooks else hook


hits = HitWatch()
