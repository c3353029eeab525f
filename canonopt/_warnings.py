"""Whether a call warns, found out without showing the warnings."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

_lock = threading.RLock()


def noting_warnings(function: Callable[[Any], Any], argument: Any) -> tuple[Any, bool]:
    """Calls `function` without its warnings; what it returns, and whether it would have warned."""
    thread = threading.get_ident()
    warned = False
    with _lock, warnings.catch_warnings():
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
    return made, warned
