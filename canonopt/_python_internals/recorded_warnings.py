"""Records the warnings of a call, to show them again later without the call."""

import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

Recorded: TypeAlias = tuple[tuple[str, type[Warning]], ...]


class _Recorder:
    """Records each warning of one thread, as an entry of `warnings.filters` that matches none.

    `warnings.catch_warnings` would not do: it replaces state of the whole interpreter, and another
    thread may be in such a block at the same time and restore what it saved before.
    """

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()
        self.recorded: list[tuple[str, type[Warning]]] = []

    def match(self, text: str) -> None:
        """Called for each warning, in place of the method of a regular expression."""
        _now.recorder, _now.text = self, text


class _ByCategory(type):
    def __subclasscheck__(cls, category: type) -> bool:
        """Called for each warning, right after `match` in the same thread."""
        recorder = getattr(_now, "recorder", None)
        if recorder is not None and recorder.thread == threading.get_ident():
            recorder.recorded.append((_now.text, category))
        return False


class _MatchesNothing(Warning, metaclass=_ByCategory):
    """The category of the filter: no warning belongs to it."""


_now = threading.local()


def recording_warnings(function: Callable[[], Any]) -> tuple[Any, Recorded]:
    """Calls `function`, whose warnings are shown as usual.

    **Returns:** its result, and its warnings.
    """
    recorder = _Recorder()
    entry, filters = ("default", recorder, _MatchesNothing, None, 0), warnings.filters
    filters.insert(0, entry)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        made = function()
    finally:
        recorder.thread = None
        # From the list that it was inserted into, which may have been replaced since.
        for i, each in enumerate(filters):
            if each is entry:
                del filters[i]  # pyright: ignore[reportIndexIssue]
                break
    return made, tuple(recorder.recorded)


def warn_again(recorded: Recorded) -> None:
    """Shows warnings as if the line of the user that called canonopt had caused them."""
    if recorded:
        level, frame = 1, inspect.currentframe()
        while frame is not None and str(frame.f_globals.get("__name__")).startswith("canonopt."):
            level, frame = level + 1, frame.f_back
        for text, category in recorded:
            warnings.warn(text, category, stacklevel=level)
