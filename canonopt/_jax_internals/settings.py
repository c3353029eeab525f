"""JAX's settings and version."""

import contextlib
import importlib.metadata
import operator
import re
import sys
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jax

from .._python_internals.bounded_store import BoundedStore
from ..errors import UnsupportedVersionError


def private(path: str) -> Any:
    """Return the object at a path in JAX, such as "jax._src.config"; None if it is gone."""
    try:
        return operator.attrgetter(path.removeprefix("jax."))(jax)
    except AttributeError:
        return None


def tracing_context() -> Hashable:
    """Return the settings and contexts by which `jax.jit` finds a trace.

    Relies on `trace_context` of `jax._src.config`. Returns None if that is gone. Then a caller may
    find a program that was traced in another context, which JAX then traces again for this one.
    """
    context = private("jax._src.config.trace_context")
    return context and context()


def whole_context() -> Hashable:
    """Return all settings and contexts, of JAX and of other libraries, that can change a trace."""
    return tracing_context(), *around_calls().items()


def around_calls() -> dict[str, Hashable]:
    """Return the settings that a trace can depend on, by name, even those that JAX's caches ignore.

    These are all of `jax.config`, with the values of this thread, and the global switches of other
    libraries, such as the filters of `warnings`, which can turn warnings into errors.
    """
    found = dict(all_settings())
    for name, module, path, default in _SWITCHES:
        library = sys.modules.get(module)
        found[name] = default if library is None else _switch(library, path)
    return found


def _switch(library: Any, path: str) -> Hashable:
    """Return the state of one of `_SWITCHES` as text; None if its public name is missing.

    Older versions lack some public names. A missing private name may have moved, so its switch gets
    an object that equals no other.
    """
    try:
        value = operator.attrgetter(path)(library)
    except AttributeError:
        is_private = re.search(r"(^|\.)_", f"{library.__name__}.{path}")
        return object() if is_private else None
    state = value() if callable(value) else value
    text = repr(state)
    if " at 0x" in text:  # keep the objects alive, so that no other object gets the address
        held = state.values() if isinstance(state, dict) else (state,)
        _addressed.setdefault(text, [dict(v) if isinstance(v, dict) else v for v in held])
    return text


_addressed: BoundedStore[Any] = BoundedStore(1024)


def bound_dimensions() -> Hashable:
    """Return, as text, the sizes to which `jaxtyping.jaxtyped` has bound names of dimensions.

    Relies on `get_shape_memo` of jaxtyping. If jaxtyping is not imported, or that function is gone,
    the result equals no other.
    """
    bound = getattr(sys.modules.get("jaxtyping._storage"), "get_shape_memo", None)
    return repr(bound()[:3]) if bound else object()


def entered_context() -> str | None:
    """Return the name of an entered context that cannot be compared, such as `hk.transform`.

    Returns None if there is none. Relies on the names of the stacks in `_STACKS`. If a stack is
    gone, its context counts as entered.
    """
    for name, stack, context in _STACKS:
        module = sys.modules.get(name)
        if module is not None and len(getattr(module, stack, (True,))):
            return context
    return None


def all_settings() -> tuple[tuple[str, Hashable], ...]:
    """Return the whole of `jax.config`, with the values of this thread."""
    values = jax.config.values.items()
    return tuple((n, v if type(v).__hash__ else repr(v)) for n, v in values)


# For each switch: its name for users, the module, the path of the value or function in the module,
# and the state to return before the module is imported, which may happen between two calls.
_SWITCHES = (
    ("np.errstate", "numpy", "geterr", None),
    ("np.seterrcall", "numpy", "geterrcall", None),
    ("np.setbufsize", "numpy", "getbufsize", None),
    ("np.printoptions", "numpy", "get_printoptions", None),
    ("warnings.filters", "warnings", "filters", None),
    ("absl.logging", "absl.logging", "get_verbosity", "-1"),
    ("attrs.validators.set_disabled", "attr.validators", "get_disabled", "False"),
    ("chex.disable_asserts", "chex._src.asserts_internal", "DISABLE_ASSERTIONS", "False"),
    ("flax.config", "flax", "config", None),
    ("hk.config", "haiku._src.config", "get_config", None),
    ("jaxtyping.config", "jaxtyping", "config.jaxtyping_disable", "False"),
    ("nn.logical_axis_rules", "flax.linen", "get_logical_axis_rules", "()"),
    ("nnx.use_eager_sharding", "flax.nnx", "using_eager_sharding", "True"),
    ("nnx.var_defaults", "flax.nnx", "var_defaults", "VarDefaults(hijax=False, ref=False)"),
    ("numpyro.enable_validation", "numpyro.distributions", "Distribution._validate_args", "True"),
    ("numpyro.util", "numpyro.util", "_DISABLE_CONTROL_FLOW_PRIM", "False"),
)
_STACKS = (
    ("flax.linen.module", "_global_interceptor_stack", "nn.intercept_methods"),
    ("haiku._src.base", "frame_stack", "hk.transform"),
    ("haiku._src.module", "interceptor_stack", "hk.intercept_methods or hk.mixed_precision"),
    ("numpyro.primitives", "_PYRO_STACK", "numpyro.handlers"),
)


# For settings without a public name in JAX, the names by which users know them.
_CONTEXT_NAMES = {
    "mesh_context_manager": "with mesh",
    "xla_metadata_context_manager": "set_xla_metadata",
    "compute_on_context_manager": "compute_on",
    "axis_env_state": "axis names",
}


def context_of_calls() -> dict[str, str]:
    """Return the settings in the key of a jit cache as texts, by the names that users know.

    Relies on `trace_context` and `trace_context_names` of `jax._src.config`. Returns all settings
    if these are gone, and with jax before 0.10, which lacks `trace_context_names`.
    """
    try:
        from jax._src import config

        named = zip(config.trace_context_names(), config.trace_context(), strict=True)
        context: Any = {_CONTEXT_NAMES.get(name, name): _text(value) for name, value in named}
    except Exception:
        context = {name: _text(value) for name, value in jax.config.values.items()}
    context.pop("abstract_mesh_context_manager", None)  # "mesh" below stands for it
    mesh = jax.sharding.get_abstract_mesh()
    return {**context, "mesh": "none" if mesh.empty else str(mesh)}


def _text(value: Any) -> str:
    if type(value).__repr__ is not object.__repr__:
        return str(value)
    # The objects for `set_xla_metadata` and for axis names do not have a text of their own.
    held = (getattr(value, name, None) for name in type(value).__slots__)
    return ", ".join(str(dict(item)) for item in held if isinstance(item, Mapping) and item)


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """Enable jit in the block, and disable JAX's logs of compiles and misses, whatever is set."""
    with jax.disable_jit(False), jax.log_compiles(False), jax.explain_cache_misses(False):
        yield


def unsupported(name: str, purpose: str = "count traces and compiles") -> UnsupportedVersionError:
    """Return the error to raise if `name`, a name of JAX or Equinox, is gone or has changed."""
    package = "equinox" if name.startswith("equinox.") else "jax"
    tested = package
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("canonopt") or ()
        tested = next((r for r in requirements if re.match(rf"{package}\b", r)), package)
    version = str(sys.modules[package].__version__)
    return UnsupportedVersionError(name, package, version, tested, purpose)
