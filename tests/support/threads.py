"""Functions that run at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Return what the functions give, each in a thread, or raise the first of their errors."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [found.result(60) for found in [pool.submit(each) for each in functions]]
