"""How Optax built a transformation, without importing Optax."""

import contextlib
import functools
import itertools
import re
import types
from collections.abc import Mapping
from typing import Any

from .._python_internals import captured_by, loaded


def is_gradient_transformation(value: Any) -> bool:
    return isinstance(value, loaded("optax", "GradientTransformation"))


def built_as(value: Any) -> str | None:
    """How Optax built a transformation: `optax.chain(clip_by_global_norm, adamw)`.

    None for other values, and for what Optax did not build. Relies on an `update` being named after
    the factory around it, and on what those of `chain`, `with_extra_args_support`, `masked` and
    `inject_hyperparams` capture. If that has changed, the name is that of the outermost factory.
    """
    if not is_gradient_transformation(value):
        return None
    if not str(getattr(value.update, "__module__", "")).startswith("optax."):
        return None
    return f"optax.{_factory_of(value.update, _aliases()).replace(_NESTEROV, '')}"


_NESTEROV = "'"  # marks a factory that was given `nesterov=True`, which has aliases of its own


def _factory_of(update: Any, aliases: Mapping[tuple[str, ...], str]) -> str:
    name = str(getattr(update, "__qualname__", type(update).__name__)).partition(".")[0]
    held = captured_by(update) if isinstance(update, types.FunctionType) else {}
    if name == "with_extra_args_support" and "tx" in held:
        return _factory_of(held["tx"].update, aliases)
    if name == "chain" and "update_fns" in held:
        parts = tuple(_factory_of(each, aliases) for each in held["update_fns"])
        # A mask is a parameter of `adamw`.
        alias = aliases.get(tuple(re.sub(r"^masked\((\w+)\)$", r"\1", part) for part in parts))
        return alias or f"chain({', '.join(parts)})"
    if name == "masked" and "inner" in held:
        return f"masked({_factory_of(held['inner'].update, aliases)})"
    if name == "inject_hyperparams" and "inner_factory" in held:
        return f"inject_hyperparams({getattr(held['inner_factory'], '__name__', '...')})"
    return name + (_NESTEROV if held.get("nesterov") is True else "")


@functools.cache
def _aliases() -> dict[tuple[str, ...], str]:
    """The optimizers by the transformations that they chain, the most common first."""
    found: dict[tuple[str, ...], str] = {}
    settings: list[tuple[str, dict[str, Any]]] = [
        *((name, {}) for name in ("adam", "adamw", "sgd", "rmsprop", "lion", "adagrad")),
        *((name, {}) for name in ("adabelief", "lamb", "lars", "nadam", "nadamw", "radam")),
        ("sgd", {"momentum": 0.9}),
        ("sgd", {"momentum": 0.9, "nesterov": True}),
    ]
    for (name, given), rate in itertools.product(settings, (0.1, lambda _: 0.1)):
        with contextlib.suppress(Exception):
            update = loaded("optax", name)(rate, **given).update
            parts = (_factory_of(each, {}) for each in captured_by(update)["update_fns"])
            found.setdefault(tuple(parts), name)
    return found
