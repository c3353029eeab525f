"""What JAX keeps to itself and canonopt has to know. Nowhere else is anything private read.

Each function says what it relies on, and what it gives where that is gone. `test_jax_internals`
fails where JAX has moved it.
"""

import contextlib
import functools
import importlib.metadata
import inspect
import re
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu

from ._errors import UnsupportedVersionError


def key_context() -> dict[str, str]:
    """What a jit cache has in its key beside the call, by JAX's own names.

    Read from `trace_context` of `jax._src.config`. Empty where there are no names to it, which came
    with jax 0.10.
    """
    try:
        from jax._src import config

        named = zip(config.trace_context_names(), config.trace_context(), strict=True)
        return {name: _words(value) for name, value in named}
    except Exception:
        return {}


def _words(value: Any) -> str:
    if type(value).__repr__ is not object.__repr__:
        return str(value)
    held = (getattr(value, name, None) for name in type(value).__slots__)
    return ", ".join(str(dict(item)) for item in held if isinstance(item, Mapping) and item)


class _PublicX64:
    @property
    def value(self) -> bool:
        public: Any = jax.config
        return public.jax_enable_x64


def x64_state() -> Any:
    """What has as its `value` whether x64 is on, in this thread.

    By `enable_x64` of `jax._src.config`, since the public way takes twice as long, and every call
    of a factory asks. If that is gone, the public way.
    """
    try:
        from jax._src.config import enable_x64

        assert isinstance(enable_x64.value, bool)
    except Exception:
        return _PublicX64()
    return enable_x64


_WITHOUT_OPTIONS: Any = jax.jit(lambda: None)
Jitted = type(_WITHOUT_OPTIONS)

_OPTIONS = (
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "keep_unused",
    "inline",
)


def jit_options(jitted: Any) -> dict[str, Any] | None:
    """What `jax.jit` was given besides the function, as keyword arguments for it.

    Read from the attribute `_jit_info`, a named tuple of what `jax.jit` made of its arguments. None
    where that is not all there is to `jitted`, or where `jax.jit` makes something else of these.
    """
    try:
        info = jitted._jit_info._asdict()
        options = {name: info[name] for name in _OPTIONS}
        options["compiler_options"] = dict(info["compiler_options_kvs"]) or None
        if info["user_specified_in_shardings"]:
            options["in_shardings"] = info["in_shardings_treedef"].unflatten(
                info["in_shardings_leaves"]
            )
        if info["out_shardings_leaves"] != _WITHOUT_OPTIONS._jit_info.out_shardings_leaves:
            options["out_shardings"] = info["out_shardings_treedef"].unflatten(
                info["out_shardings_leaves"]
            )
        again = jax.jit(jitted.__wrapped__, **options)
        made: Any = again
        same = made._jit_info._asdict() == info and _attributes(again) == _attributes(jitted)
    except Exception:
        return None
    return options if same else None


def _attributes(jitted: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(jitted).items() if name != "_jit_info"}


def rebinds_only_if_set(function: types.FunctionType, name: str) -> bool:
    """Whether `function` binds its captured variable `name` anew only if that is not None.

    No proof in general, but a fact about the function inside of `jax.vmap`: it sets
    `spmd_axis_name` to None, after having asked whether it is something else.
    """
    return (
        name == "spmd_axis_name"
        and function.__code__.co_qualname == "vmap.<locals>.vmap_f"
        and function.__globals__ is _globals_inside(jax.vmap)
    )


def _globals_inside(transform: Any) -> dict[str, Any]:
    while hasattr(transform, "__wrapped__"):
        transform = transform.__wrapped__
    return transform.__globals__


# Lest Python merges a partial with the one that it is the function of, `jax.tree_util.Partial` puts
# that in an object that has it as `fun`.
_Shim = type(jtu.Partial(functools.partial(len)).func)


def function_of_partial(partial: functools.partial) -> Callable[..., Any]:
    """What `jax.tree_util.Partial` was given."""
    is_shim = type(partial.func) is _Shim and _Shim is not functools.partial
    return vars(partial.func)["fun"] if is_shim else partial.func


def functions_inside(function: Any) -> list[Any]:
    """`function` and the functions that it wraps, as far as they can be found.

    By the attributes that `functools.wraps`, partials, JAX and Flax keep them in, and by what
    closures captured: JAX's own, those of `jax.pmap` for one, and those that `equinox.filter_pmap`
    makes.
    """
    found = [function]
    for outer in found:
        # An object of the user's may have a function of its own as `f`.
        library = type(outer).__module__.partition(".")[0]
        names = ("__wrapped__", "func", "fun", "f") if library in _WRAPPING else ("__wrapped__",)
        inner: list[Any] = [*(attribute(outer, name) for name in names), call_of(outer)]
        wrapper = getattr(outer, "__self__", None)
        if hasattr(wrapper, "call_wrapped"):
            inner.append(getattr(wrapper, "f", None))
        if isinstance(outer, types.FunctionType):
            captured = _captured_by(outer)
            if is_of_jax(outer):
                inner += captured.values()
            if outer.__code__.co_qualname.startswith("_filter_pmap_cache.<locals>."):
                inner += captured.get("static", ())[:1]
        inner += [new.f for new in inner if hasattr(new, "call_wrapped")]
        for new in inner:
            if callable(new) and len(found) < 64 and not any(new is f for f in found):
                found.append(new)
    return found


def _captured_by(function: types.FunctionType) -> dict[str, Any]:
    """The captured variables that have a value."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # of a variable that is not bound
            found[name] = cell.cell_contents
    return found


# Classes whose instances do not change after they are made, with the attributes that say what they
# are. Where JAX has moved one, what holds its instances is merged no more.
IMMUTABLE: dict[str, tuple[str, ...]] = {
    "jax._src.util.HashablePartial": ("f", "args", "kwargs"),
    "jax._src.linear_util.WrappedFun": ("f", "transforms", "params", "in_type"),
}

_WRAPPING = frozenset(("functools", "jax", "jaxlib", "equinox", "flax"))


def attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # a __getattr__ of the user's
        return None


def is_jitted(function: Any) -> bool:
    """Whether a function is what `jax.jit`, `equinox.filter_jit` and the like made, or wraps it.

    Or an object that has such a function for its `__call__`.
    """
    for _ in range(64):
        wrapped = attribute(function, "__wrapped__")
        if wrapped is not None and attribute(function, "lower") is not None:
            return True
        if wrapped is None and not isinstance(function, functools.partial):
            wrapped = call_of(function)
        function = function.func if isinstance(function, functools.partial) else wrapped
    return False


def call_of(function: Any) -> Any:
    """What is written as the `__call__` of an object's class, or None of what is a function."""
    call = attribute(type(function), "__call__")
    return call if attribute(call, "__wrapped__") is not None else None


def name_in_events(function: Any) -> str:
    """The name that `jax.monitoring` has for a function that `jax.jit` was given."""
    while isinstance(function, functools.partial) and not hasattr(function, "__name__"):
        function = function.func
    return str(getattr(function, "__name__", "<unnamed function>"))


def is_of_jax(function: types.FunctionType) -> bool:
    """Whether JAX made a function, or has it: by its globals, since wrappers take other names."""
    return str(function.__globals__.get("__name__")).startswith("jax.")


def is_staging() -> bool:
    """Whether what runs now becomes part of a program, as a body under `jax.jit` does.

    By what `jax.extend` has under a name of its own in later versions. It looks at the trace that
    is current and at those around it. Where that is gone, by what JAX makes of a new array: that
    leaves an operation without use in the program.
    """
    try:
        from jax._src.core import unsafe_am_i_under_a_jit

        return unsafe_am_i_under_a_jit()
    except (ImportError, TypeError):
        return isinstance(jnp.zeros(()), jax.core.Tracer)


def is_in_backward_pass() -> bool:
    """Whether what runs now is the backward pass that JAX made of a function, and no call in it.

    By the names of what JAX runs it with, in `jax._src.interpreters.ad`, and of what it runs a call
    of a jitted function with.
    """
    frame = inspect.currentframe()
    while frame is not None:
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if module == "jax._src.interpreters.ad" and name.startswith("backward_pass"):
            return True
        if module == "jax._src.pjit" and name == "cache_miss":
            return False
        frame = frame.f_back
    return False


# --- what happens at a miss of a jit cache ----------------------------------------------------


@attrs.frozen(eq=False)
class Miss:
    """A call that no entry of a jit cache was found for, in the caller's own terms."""

    function: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    is_static: Callable[[str | int], bool]
    # Whether it came through equinox.filter_jit, for which all leaves but arrays are static.
    filtered: bool
    options: dict[str, Any]
    # What `jax.jit` was given: for filter_jit a function of equinox's.
    jitted: Callable[..., Any]
    # Whether the jitted function is called, and not lowered or asked for its shapes.
    is_call: bool


def watch_misses(
    enter: Callable[[Miss], Any], leave: Callable[[Any, bool, Any], None]
) -> Callable[[], None]:
    """Calls `enter` before jit looks for a trace, and `leave` with its result after.

    `leave` is told whether the function was traced and the jaxpr that was found, and may raise;
    then nothing is compiled. Returns what ends it. Wraps `_infer_params`, which `jax.jit` calls
    wherever its C++ cache has no entry: what is cached runs as before.

    Raises `UnsupportedVersionError` if misses cannot be watched: nothing would be counted.
    """
    if not getattr(jax.config, "jax_no_tracing", False):  # else nothing can be traced
        _check_misses()
    return _watch_misses(enter, leave)


def _watch_misses(
    enter: Callable[[Miss], Any], leave: Callable[[Any, bool, Any], None]
) -> Callable[[], None]:
    try:
        from jax._src import pjit

        original = pjit._infer_params
        parameters = tuple(inspect.signature(original).parameters)
    except (ImportError, AttributeError) as error:
        raise unsupported("jax._src.pjit._infer_params") from error
    _listen_for_traces()
    if parameters != ("fun", "ji", "args", "kwargs"):
        raise unsupported(f"jax._src.pjit._infer_params({', '.join(parameters)})")

    found: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def watched(fun: Any, ji: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        token = enter(_miss(fun, ji, args, kwargs))
        before = _traces_so_far()
        try:
            result = original(fun, ji, args, kwargs)
        except BaseException as error:
            # Its output may be refused after it has run, or its arguments before.
            is_traced = _traces_so_far() > before or _was_tracing(error)
            has_run = is_traced and _takes(fun, args, kwargs)
            leave(token, has_run or _came_from(fun, error), None)
            if error.__traceback__ is not None:  # so that it reads as if nobody watched
                error.__traceback__ = error.__traceback__.tb_next
            raise
        jaxpr = _jaxpr_of(result)
        leave(token, _is_new(jaxpr, found) and _traces_so_far() > before, jaxpr)
        return result

    pjit._infer_params = watched
    _is_no_line_of_the_users(__file__)

    def end() -> None:
        if pjit._infer_params is watched:
            pjit._infer_params = original

    return end


@functools.cache  # or it raises, and is run again the next time
def _check_misses() -> None:
    """Traces some small functions, and raises unless `watch_misses` tells of each as it should.

    Starts no backend, as nothing is lowered. Takes some milliseconds.
    """
    # Without what is in a miss: kept longer than its trace, that would be a leaked tracer.
    programs: dict[Any, Any] = {}
    ways: dict[Any, tuple[bool, bool]] = {}
    traces: list[bool] = []
    staging: list[bool] = []
    backward: list[bool] = []
    refusals: list[bool] = []

    def leave(miss: Miss, is_traced: bool, program: Any) -> None:
        if not any(miss.function is function for function in functions):
            return  # of another thread
        programs[miss.function] = program
        ways[miss.function] = miss.is_call, miss.filtered
        traces.append(is_traced)
        if (error := sys.exception()) is not None and miss.function is refused:
            refusals.append(_was_tracing(error))

    def called(x: Any) -> Any:
        backward.append(is_in_backward_pass())
        return x

    def filtered(x: Any) -> Any:
        return x

    def pull(_: None, cotangent: Any) -> tuple[Any]:
        backward.append(is_in_backward_pass())
        return (jax.jit(called)(cotangent),)

    pulled = jax.custom_vjp(lambda x: x)
    pulled.defvjp(lambda x: (x, None), pull)

    def traced(x: Any) -> Any:
        staging.append(is_staging())
        return jax.grad(pulled)(eqx.filter_jit(filtered)(x))

    def refused(_: Any) -> Any:
        return object()

    functions = (traced, called, filtered, refused)
    end = _watch_misses(lambda miss: miss, leave)
    x = jax.ShapeDtypeStruct((), jnp.float32)
    try:
        with default_settings():
            jaxpr = jax.jit(traced).trace(x).jaxpr
            with contextlib.suppress(TypeError):
                jax.jit(refused).trace(x)
    except Exception as error:
        raise unsupported("jax._src.pjit._infer_params") from error
    finally:
        end()
    if not {traced, called, refused} <= set(ways):
        raise unsupported("jax._src.pjit._infer_params")
    if filtered not in ways or not ways[filtered][1]:
        raise unsupported("equinox._jit._filter_jit_cache")
    if not all(traces) or refusals != [True]:
        raise unsupported("jax._src.interpreters.partial_eval.trace_to_jaxpr")
    if programs[traced] is not jaxpr:
        raise unsupported("the jaxpr in the result of jax._src.pjit._infer_params")
    if [ways[function][0] for function in (traced, called, filtered)] != [False, True, True]:
        raise unsupported("jax._src.pjit.cache_miss")
    if staging != [True]:
        raise unsupported("jax._src.core.unsafe_am_i_under_a_jit")
    if backward != [True, False]:
        raise unsupported("jax._src.interpreters.ad.backward_pass")


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """JAX jits inside of the block, and logs nothing of it, whatever the user has set."""
    with jax.disable_jit(False), jax.log_compiles(False), jax.explain_cache_misses(False):
        yield


def unsupported(name: str) -> UnsupportedVersionError:
    """The error where `name`, of JAX or Equinox, is gone or is not what it was."""
    package = "equinox" if name.startswith("equinox.") else "jax"
    tested = package
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("canonopt") or ()
        tested = next((r for r in requirements if re.match(rf"{package}\b", r)), package)
    version = str(sys.modules[package].__version__)
    return UnsupportedVersionError(name, package, version, tested)


@functools.cache  # JAX keeps a list
def _is_no_line_of_the_users(path: str) -> None:
    """Has JAX look further out for the line that it names to the user, in its logs for one.

    By `register_exclusion` of `jax._src.source_info_util`. Where that is gone, JAX names `path`.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import source_info_util

        source_info_util.register_exclusion(path)


def callers() -> Iterator[str]:
    """The modules that a call of a jitted function came through, from the nearest one on.

    Without those that every such call comes through, by their names.
    """
    frame = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_ON_THE_WAY):
            yield module
        frame = frame.f_back


_ON_THE_WAY = (
    *("canonopt._jax_internals", "canonopt._recompiles"),
    *(f"jax._src.{name}" for name in ("api", "pjit", "stages", "traceback_util")),
    *("contextlib", "equinox._jit", "equinox._module", "flax.nnx.transforms"),
)


def watch_stages(
    lowered: Callable[[Any, Any], None], compiling: Callable[[Any], AbstractContextManager[Any]]
) -> None:
    """Calls `lowered` with a jaxpr and what it was lowered to, and compiles that in `compiling`.

    What `jax.jit` compiles by itself does not come this way. Wraps methods that are public, which
    nobody but this may know.
    """
    lower, compile = jax.stages.Traced.lower, jax.stages.Lowered.compile

    @functools.wraps(lower)
    def watched_lower(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = lower(self, *args, **kwargs)
        lowered(self.jaxpr, result)
        return result

    @functools.wraps(compile)
    def watched_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        with compiling(self):
            return compile(self, *args, **kwargs)

    stages: Any = jax.stages
    stages.Traced.lower, stages.Lowered.compile = watched_lower, watched_compile


def _is_of_filter_jit(function: Any) -> bool:
    name = "_filter_jit_cache.<locals>.fun_wrapped"
    return isinstance(function, types.FunctionType) and function.__code__.co_qualname == name


def _jaxpr_of(result: Any) -> Any:
    try:
        return result[0].params["jaxpr"]
    except (AttributeError, KeyError, TypeError):
        return None


def _is_new(jaxpr: Any, found: weakref.WeakValueDictionary[int, Any]) -> bool:
    """Whether a jaxpr is not among those that were found before, and adds it.

    What another thread traces meanwhile makes the count of traces grow too.
    """
    if jaxpr is None:
        return True
    is_new = found.get(id(jaxpr)) is not jaxpr
    found[id(jaxpr)] = jaxpr
    return is_new


_seen_trace_events = 0


@functools.cache  # once
def _listen_for_traces() -> None:
    jax.monitoring.register_event_duration_secs_listener(_on_duration)


def _on_duration(event: str, *_: Any, **__: Any) -> None:
    global _seen_trace_events
    if event.endswith("jaxpr_trace_duration"):
        _seen_trace_events += 1


def _traces_so_far() -> int:
    """A number that grows with each run of a function for its jaxpr.

    From the cache of traces, which counts its misses. JAX before 0.9 has no such count, but fires
    an event at each trace, nested ones too. Later versions fire none for a nested trace.
    """
    from jax._src.interpreters import partial_eval

    info = getattr(getattr(partial_eval, "trace_to_jaxpr", None), "cache_info", None)
    return _seen_trace_events if info is None else info().misses


def _was_tracing(error: BaseException) -> bool:
    """Whether an exception came out of what JAX calls a function with for its jaxpr.

    By the name of that. A function that fails each time is a miss of the cache of traces only once.
    """
    from jax._src.interpreters import partial_eval

    return any(
        code.co_name.startswith("trace_to_jaxpr") and code.co_filename == partial_eval.__file__
        for code in _codes_of(error)
    )


def _takes(function: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _came_from(function: Any, error: BaseException) -> bool:
    """Whether an exception came out of the body of `function`."""
    codes = [attribute(inner, "__code__") for inner in functions_inside(function)]
    return any(code in codes for code in _codes_of(error))


def _codes_of(error: BaseException) -> Iterator[types.CodeType]:
    """Of what an exception came through."""
    return (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))


def _miss(fun: Any, info: Any, args: tuple, kwargs: dict[str, Any]) -> Miss:
    options = {name: getattr(info, name, None) for name in (*_OPTIONS, "compiler_options_kvs")}
    for name in ("in_shardings", "out_shardings"):
        options[name] = getattr(info, f"{name}_leaves", None)
    try:
        function, args, kwargs = _as_filter_jit_was_called(fun, args)
        return Miss(function, args, kwargs, lambda _: False, True, options, fun, _is_call())
    except (ValueError, TypeError, KeyError, AttributeError):
        names, numbers = frozenset(info.static_argnames), frozenset(info.static_argnums)
        static = names | numbers | {i + len(args) for i in numbers if i < 0}
        return Miss(fun, args, kwargs, static.__contains__, False, options, fun, _is_call())


def _is_call() -> bool:
    """Whether JAX looks for a trace in order to run it, by the name of what it does that with."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame.f_code.co_name in ("cache_miss", "_python_pjit_helper")


def _as_filter_jit_was_called(fun: Any, args: tuple) -> tuple[Any, tuple, dict[str, Any]]:
    """The user's function and arguments, from those that `equinox.filter_jit` gives to `jax.jit`.

    They come in three parts, each partitioned into arrays and the rest. Raises where `fun` is not
    what equinox makes of a function.
    """
    if not _is_of_filter_jit(fun):
        raise ValueError
    donated, kept, static = args
    dynamic = {**donated, **kept}
    names = ("fun", "first", "rest")
    function, first, (rest, kwargs) = (
        _combined(dynamic[name], part) for name, part in zip(names, static, strict=True)
    )
    return function, (first, *rest)[:-1], kwargs  # equinox adds a None


def _combined(dynamic: tuple, static: tuple) -> Any:
    leaves, structure = static
    parts = zip(dynamic, leaves, strict=True)
    return jtu.tree_unflatten(structure, [d if s is None else s for d, s in parts])
