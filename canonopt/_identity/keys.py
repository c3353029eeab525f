"""What "the same value" means: the one place that says so.

`read(values)` gives a key. Two values are the same exactly if their keys are equal. Types count
(`1`, `1.0` and `True` differ), and so does every bit of a number. Containers and pytrees count by
type, structure and leaves. Functions count by all that they read: code, defaults, captured
variables, and the globals that the code names, with the values these have now. What can change
counts by identity *and* by what is in it now. When in doubt, two values are not the same: a missed
merge costs a compile, a wrong merge trains another model.

A key is a flat tuple: each value writes what kind it is and how many parts it has, and its parts
follow. So no value is nested too deeply to be read. A key keeps nothing alive: it is made of plain
values, of ids of what the value itself holds, and of tokens, which no other object ever gets.
"""

import weakref
from collections.abc import Collection
from typing import Any

from .callables import CALLABLES, read_proxy
from .reader import (
    IdentityAsked,
    Reading,
    Rule,
)
from .values import VALUES, rule_for

_RULES: dict[type, Rule] = {
    **CALLABLES,
    **VALUES,
    weakref.ProxyType: read_proxy,
    weakref.CallableProxyType: read_proxy,
    weakref.ReferenceType: read_proxy,
}


def read(
    held: Collection[Any] = (), given: Collection[Any] = (), *, explain: bool = False
) -> Reading:
    """Reads values.

    **Arguments:**

    - `held`: values that something holds for good, a function for one.
    - `given`: values that are the arguments of a factory.
    - `explain`: whether to find out what stops the values from being the same as others.

    **Raises:** `HoldsArray` if one of `given` is or contains an array.
    """
    reading = Reading(_RULES, rule_for)
    if explain:
        reading.doubts = []
    try:
        return reading.read(held, given)
    except IdentityAsked:
        # Some code compares objects with `is`, so it could tell apart what is otherwise the same.
        reading = Reading(_RULES, rule_for)
        reading.doubts, reading.identity_counts = [] if explain else None, True
        return reading.read(held, given)
