"""What would shorten the compiles that have to be."""

import re
from collections.abc import Mapping, Sequence

from .._recompiles import Advice

SLOW_SECONDS = 0.5  # of one compile
_FEW = 8  # items that a Python loop may go over
# JAX keeps no compile that takes less, unless it is told to.
_MIN_KEPT_SECONDS = 1.0

# The number of an item: of a list, or of a name such as `layers_3` or `Dense_3`.
_NUMBER = re.compile(r"(?:\[|_)(?P<number>\d+)'?\]")


def alike_items(leaves: Mapping[str, str]) -> tuple[str, int] | None:
    """The items whose arrays have the same paths and shapes, such as the layers of a model.

    **Arguments:**

    - `leaves`: from the paths of a call's arrays to their shapes as text.

    **Returns:** the path, with `i` in the place of the number, and how many they are. Those with
    the most arrays, and of these the first. None if there are few.
    """
    # By path and number, what is inside of the item.
    items: dict[str, dict[str, list[str]]] = {}
    for path, shape in leaves.items():
        for found in _NUMBER.finditer(path):
            start, end = found.span("number")
            item = f"{path[:start]}i{path[end : found.end()]}"
            inside = f"{path[found.end() :]}: {shape}"
            items.setdefault(item, {}).setdefault(found["number"], []).append(inside)
    best, most = None, 0
    for path, numbered in items.items():
        contents = [tuple(sorted(inside)) for inside in numbered.values()]
        common = max(contents, key=contents.count)
        count = contents.count(common)
        if count >= _FEW and count * len(common) > most:
            best, most = (path, count), count * len(common)
    return best


def layers_hint(name: str, path: str, count: int) -> str:
    return (
        f"{name}: {count} items {path} have the same shapes. If a Python loop goes over them, each "
        "is compiled: stack them, and jax.lax.scan compiles one"
    )


def cache_advice(compiles: Sequence[float]) -> Advice | None:
    """What to write if the persistent cache was off, given the seconds of each compile by XLA."""
    total = sum(compiles)
    kept = sum(seconds for seconds in compiles if seconds >= _MIN_KEPT_SECONDS)
    if total < _MIN_KEPT_SECONDS:
        return None
    lines = ["export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"]
    if kept < total / 2:
        kept = total
        lines.append("export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0")
    hint = "JAX's persistent cache is off. With it, the next run of the same program reads from a "
    return Advice("; ".join(lines), f"{hint}folder what XLA took {kept:.2f} s for")
