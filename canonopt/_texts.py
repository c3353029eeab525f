"""Render values as texts for messages: bounded, on one line, and without memory addresses."""

import collections
import dataclasses
import functools
import itertools
import re
import types
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

import attrs
import jax
import jax.tree_util as jtu
import numpy as np

from ._jax_internals.arrays import array_text
from ._python_internals.libraries import attribute
from ._python_internals.namespaces import loaded
from ._python_internals.rebinding import captured_by

PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_spec(value: Any) -> bool:
    """Return True for a spec: a gradient transformation or a schedule that canonopt has built."""
    return hasattr(type(value), "__canonicalized__") and hasattr(type(value), "hyperparameters")


def fields_of(kind: type) -> Sequence[Any]:
    if attrs.has(kind):
        return attrs.fields(kind)
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


# No library replaces `text_of`: `equinox.tree_pformat` shows addresses, and all of a large value.
# `reprlib` does not know arrays, functions or dataclasses, and omits the number of items.

_MAX_TEXT = 1000  # maximum number of characters; ten times as many for a string
_MAX_ITEMS = 32  # maximum number of items of a container
_MAX_NESTING = 3
_BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}"}
_CONTAINERS = (*_BRACKETS, frozenset, collections.deque, collections.OrderedDict)
_SHOWN_AS_CONTAINERS = {kind.__repr__ for kind in _CONTAINERS}


def text_of(value: Any, depth: int = 0) -> str:
    """Return a bounded `repr` without addresses, and read only the parts that it shows."""
    try:
        return _text(value, depth)
    except Exception:  # an attribute of a user's class may raise any error
        return _on_one_line(object.__repr__(value))


def _text(value: Any, depth: int) -> str:
    if isinstance(value, str | bytes):
        more = len(value) - 10 * _MAX_TEXT
        text = _on_one_line(repr(value[: 10 * _MAX_TEXT]))
        return text + (f" and {more} more" if more > 0 else "")
    if isinstance(value, jax.Array | np.ndarray):
        return array_text(value)
    if isinstance(value, loaded("flax.nnx", "Variable")):  # its `repr` has the values of arrays
        return f"{type(value).__name__}({text_of(value.get_raw_value(), depth)})"
    if isinstance(value, type):
        return value.__qualname__ if depth else f"class {value.__qualname__}"
    is_module = isinstance(value, loaded("equinox", "Module"))
    name = attribute(value, "__qualname__") if callable(value) and not is_module else None
    if name is not None:
        return f"<function {name}>" if depth else f"function {name}"
    if not is_spec(value) and (built := built_as(value)):
        return built
    if is_spec(value) or (items := _items(value)) is None:
        return _on_one_line(repr(value)[: 10 * _MAX_TEXT])
    if depth == _MAX_NESTING:
        return "..."
    shown = [
        label + text_of(item, depth + 1) for label, item in itertools.islice(items, _MAX_ITEMS)
    ]
    if next(items, None) is not None:
        shown.append(f"{len(value)} in all" if isinstance(value, Sized) else "...")
    opening, closing = _BRACKETS.get(type(value), (f"{type(value).__name__}(", ")"))
    closing = f",{closing}" if opening == "(" and len(shown) == 1 else closing
    text = f"{opening}{', '.join(shown)}{closing}"
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Return the labeled items or fields of a value; None if its `repr` is to be shown."""
    kind = type(value)
    if kind.__repr__ in _SHOWN_AS_CONTAINERS:
        if isinstance(value, dict):
            return ((f"{text_of(key)}: ", item) for key, item in value.items())
        # A small set is sorted, because the order of its items may differ in each process.
        is_set = isinstance(value, set | frozenset) and len(value) <= _MAX_ITEMS
        return (("", item) for item in (sorted(value, key=text_of) if is_set else value))
    if isinstance(value, functools.partial):
        positional = (("", item) for item in (value.func, *value.args))
        return itertools.chain(positional, ((f"{n}=", v) for n, v in value.keywords.items()))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return ((f"{name}=", item) for name, item in zip(kind._fields, value, strict=False))
    if not (fields := fields_of(kind)):
        # The `repr` of a pytree, such as `nnx.State`, has the values of its arrays.
        children = children_of(value)
        return ((f"{step}: ", child) for step, child in children) if children else None
    held = ((f, getattr(value, f.name)) for f in fields if f.repr and hasattr(value, f.name))
    own = ((f, x) for f, x in held if x is not f.default and not is_same_plain(x, f.default))
    return ((f"{field.name}=", item) for field, item in own)


def children_of(value: Any) -> list[tuple[str, Any]] | None:
    """Return the children of a pytree node, each with its key as text (`[0]`); None for a leaf.

    A spec and a dynamic number count as leaves.
    """
    if hasattr(type(value), "__canonical_key__") or jtu.all_leaves((value,)):
        return None
    pairs, _ = jtu.tree_flatten_with_path(value, is_leaf=lambda each: each is not value)
    return [(jtu.keystr(keys), child) for keys, child in pairs]


def is_same_plain(value: Any, default: Any) -> bool:
    """Return True if `value` equals `default`, and both are of the same plain type."""
    return type(value) in PLAIN and type(value) is type(default) and value == default


def _on_one_line(text: str) -> str:
    text = re.sub(r"^<(.*) object at 0x\w+>$", r"\1 object", " ".join(text.split()))
    return re.sub(r" at 0x\w+", "", text)


# --- differences, counts and tables ---


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the texts that differ, by name, as `(before, after)`. An absent text is `"missing"`.

    The names are in the order of `after`. Names that are only in `before` come last.
    """
    pairs = {n: (before.get(n, "missing"), after.get(n, "missing")) for n in {**after, **before}}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def aligned(rows: list[tuple[object, ...]]) -> list[str]:
    """Return the lines of a table in which each column is as wide as its widest cell."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def compiles_text(compiles: int, backward: int, loaded: int) -> str:
    """Return the text of a table cell, such as `2 + 1 backward + 3 loaded`.

    `loaded` counts the programs that JAX has loaded from its persistent cache.
    """
    others = ((backward, "backward"), (loaded, "loaded"))
    return " + ".join((f"{compiles}", *(f"{count} {word}" for count, word in others if count)))


# --- transformations of Optax ---


def is_gradient_transformation(value: Any) -> bool:
    return isinstance(value, loaded("optax", "GradientTransformation"))


def built_as(value: Any) -> str | None:
    """Return how Optax built a transformation: `optax.chain(clip_by_global_norm, adamw)`.

    Returns None for a value that is no transformation of Optax. Relies on the qualified name of
    `update`, which begins with the factory's name, and on variables that `chain`, `masked` and
    `with_extra_args_support` capture. Without these variables, only the outermost factory is named.
    """
    if not is_gradient_transformation(value):
        return None
    if not str(getattr(value.update, "__module__", "")).startswith("optax."):
        return None
    return f"optax.{_factory_of(value.update)}".replace("'", "")


# Maps all but the last part of a chain to the name of the optimizer. `'` means `nesterov=True`.
_OPTIMIZERS = {
    ("scale_by_adam",): "adam",
    ("scale_by_adam", "add_decayed_weights"): "adamw",
    ("scale_by_adam'",): "nadam",
    ("scale_by_adam'", "add_decayed_weights"): "nadamw",
    ("scale_by_adam", "add_decayed_weights", "scale_by_trust_ratio"): "lamb",
    ("scale_by_lion", "add_decayed_weights"): "lion",
    ("scale_by_rss",): "adagrad",
    ("scale_by_belief",): "adabelief",
    ("scale_by_radam",): "radam",
    **dict.fromkeys((("identity",), ("trace",), ("trace'",)), "sgd"),
}


def _factory_of(update: Any) -> str:
    name = str(getattr(update, "__qualname__", type(update).__name__)).partition(".")[0]
    held = captured_by(update) if isinstance(update, types.FunctionType) else {}
    if name == "with_extra_args_support" and "tx" in held:
        return _factory_of(held["tx"].update)
    if name == "chain" and "update_fns" in held:
        parts = [_factory_of(each) for each in held["update_fns"]]
        # `adamw` has a parameter for a mask, so its parts may be masked.
        plain = [re.sub(r"^masked\((\w+)\)$", r"\1", part) for part in parts]
        known = _OPTIMIZERS.get(tuple(plain[:-1]))
        is_rate = plain[-1:] in (["scale"], ["scale_by_schedule"])
        return known if known and is_rate else f"chain({', '.join(parts)})"
    if name == "masked" and "inner" in held:
        return f"masked({_factory_of(held['inner'].update)})"
    return name + ("'" if held.get("nesterov") is True else "")
