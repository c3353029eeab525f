"""What a callable was made with, under the names that its author knows."""

import functools
import types
from collections.abc import Iterator
from typing import Any

from ._identity import captured_by


def contents_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The captured variables that are bound, and the defaults."""
    code = function.__code__
    for name, captured in captured_by(function):
        yield f"captured variable {name!r}", captured
    defaults = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    names = positional[len(positional) - len(defaults) :]
    for name, default in zip(names, defaults, strict=True):
        yield f"default of {name!r}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"default of {name!r}", default


def contents_of_partial(partial: functools.partial) -> Iterator[tuple[str, Any]]:
    """The function and the arguments."""
    yield "function", partial.func
    for i, argument in enumerate(partial.args):
        yield f"argument {i}", argument
    for name, argument in partial.keywords.items():
        yield f"argument {name!r}", argument
