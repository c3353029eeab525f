"""Which tracers Python code makes a text of, as `print` and an f-string do."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax.core

_Made = Callable[[jax.core.Tracer], None]


class _ThisThread(threading.local):
    def __init__(self) -> None:
        self.blocks: list[_Made] = []


_this_thread = _ThisThread()
_lock = threading.RLock()
_blocks = 0
_class: Any = jax.core.Tracer
_repr = jax.core.Tracer.__repr__


def _watched(tracer: Any) -> str:
    for made in reversed(_this_thread.blocks):
        made(tracer)
    return _repr(tracer)


@contextlib.contextmanager
def on_texts_of_tracers(made: _Made) -> Iterator[None]:
    """Calls `made` with each tracer whose text this thread makes in the block, before it is made.

    In a block inside of another, that of the inner one is called first. Puts a method in the place
    of `jax.core.Tracer.__repr__` while a block runs in any thread. If JAX makes the text in another
    way, `made` is not called.
    """
    global _blocks
    with _lock:
        _blocks += 1
        _class.__repr__ = _watched
    _this_thread.blocks.append(made)
    try:
        yield
    finally:
        _this_thread.blocks.pop()
        with _lock:
            _blocks -= 1
            if not _blocks:
                _class.__repr__ = _repr
