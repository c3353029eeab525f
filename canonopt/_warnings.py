"""Whether a call warns, found out without showing the warnings."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

_lock = threading.RLock()


def noting_warnings(function: Callable[[Any], Any], argument: Any) -> tuple[Any, bool | None]:
    """Calls `function` without showing its warnings.

    **Returns:** what it returned, and whether it warned; `None` for that if it is not known,
    because another thread is in here, and the warnings have been shown as they came. Waiting for
    that thread could be waiting for ourselves, since `function` may start threads.
    """
    if not _lock.acquire(blocking=False):
        return function(argument), None
    thread = threading.get_ident()
    warned = False
    try:
        # The filters are the interpreter's: another thread's warnings are passed on.
        with warnings.catch_warnings():
            show = warnings.showwarning

            def note(*details: Any, **kwargs: Any) -> None:
                nonlocal warned
                if threading.get_ident() == thread:
                    warned = True
                else:
                    show(*details, **kwargs)

            warnings.showwarning = note
            warnings.simplefilter("always")
            made = function(argument)
    finally:
        _lock.release()
    return made, warned
