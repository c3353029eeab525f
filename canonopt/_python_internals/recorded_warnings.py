"""The warnings of a call, so that they can be shown again without the call."""

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

Recorded: TypeAlias = tuple[tuple[str, type[Warning]], ...]


class _Ear:
    """Hears each warning of one thread, as an entry of `warnings.filters` that matches none.

    Nothing else is changed, since all of it belongs to the whole interpreter: another thread may be
    inside of `warnings.catch_warnings` and put back later what it found.
    """

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()
        self.heard: list[tuple[str, type[Warning]]] = []

    def match(self, text: str) -> None:
        """Called for each warning, as that of a regular expression would be."""
        _now.ear, _now.text = self, text


class _ByCategory(type):
    def __subclasscheck__(cls, category: type) -> bool:
        """Called for each warning, right after `match` in the same thread."""
        ear = getattr(_now, "ear", None)
        if ear is not None and ear.thread == threading.get_ident():
            ear.heard.append((_now.text, category))
        return False


class _Any(Warning, metaclass=_ByCategory):
    """Stands for no category at all."""


_now = threading.local()


def recording_warnings(function: Callable[[], Any]) -> tuple[Any, Recorded]:
    """Calls `function`, whose warnings are shown as ever.

    **Returns:** what it returned, and the warnings that it gave.
    """
    ear = _Ear()
    entry, filters = ("default", ear, _Any, None, 0), warnings.filters
    filters.insert(0, entry)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        made = function()
    finally:
        ear.thread = None
        # In the list that it was put into, which need not be the current one any more.
        for i, each in enumerate(filters):
            if each is entry:
                del filters[i]  # pyright: ignore[reportIndexIssue]
                break
    return made, tuple(ear.heard)


def warn_again(recorded: Recorded) -> None:
    """Shows warnings as if the user's line had given them."""
    if recorded:
        level, frame = 1, sys._getframe(0)
        while frame is not None and str(frame.f_globals.get("__name__")).startswith("canonopt."):
            level, frame = level + 1, frame.f_back
        for text, category in recorded:
            warnings.warn(text, category, stacklevel=level)
