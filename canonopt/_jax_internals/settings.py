"""JAX's settings and version."""

import contextlib
import importlib.metadata
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from .._errors import UnsupportedVersionError


def key_context() -> dict[str, str]:
    """The settings in the key of a jit cache, under JAX's own names for them.

    Relies on `trace_context` and `trace_context_names` of `jax._src.config`. Empty if these are
    gone, and with jax before 0.10, which has no names.
    """
    try:
        from jax._src import config

        named = zip(config.trace_context_names(), config.trace_context(), strict=True)
        return {name: _text(value) for name, value in named}
    except Exception:
        return {}


def _text(value: Any) -> str:
    if type(value).__repr__ is not object.__repr__:
        return str(value)
    # The objects for `set_xla_metadata` and for axis names have no text of their own.
    held = (getattr(value, name, None) for name in type(value).__slots__)
    return ", ".join(str(dict(item)) for item in held if isinstance(item, Mapping) and item)


class _PublicX64:
    @property
    def value(self) -> bool:
        public: Any = jax.config
        return public.jax_enable_x64


def x64_state() -> Any:
    """An object whose `value` is whether x64 is enabled in this thread.

    Relies on `enable_x64` of `jax._src.config`, since every call of a factory asks and the public
    way takes twice as long. Falls back to the public way.
    """
    try:
        from jax._src.config import enable_x64

        assert isinstance(enable_x64.value, bool)
    except Exception:
        return _PublicX64()
    return enable_x64


@contextlib.contextmanager
def default_settings() -> Iterator[None]:
    """Inside the block JAX jits and logs nothing about it, whatever the user has set."""
    with jax.disable_jit(False), jax.log_compiles(False), jax.explain_cache_misses(False):
        yield


def unsupported(name: str) -> UnsupportedVersionError:
    """The error to raise if `name`, of JAX or Equinox, is gone or has changed."""
    package = "equinox" if name.startswith("equinox.") else "jax"
    tested = package
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("canonopt") or ()
        tested = next((r for r in requirements if re.match(rf"{package}\b", r)), package)
    version = str(sys.modules[package].__version__)
    return UnsupportedVersionError(name, package, version, tested)
