"""How Optax built a transformation, without importing Optax."""

import re
import types
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
    return f"optax.{_factory_of(value.update)}".replace("'", "")


# The common optimizers, by what they chain before the learning rate. `'` is for `nesterov=True`.
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
        # A mask is a parameter of `adamw`.
        plain = [re.sub(r"^masked\((\w+)\)$", r"\1", part) for part in parts]
        known = _OPTIMIZERS.get(tuple(plain[:-1]))
        is_rate = plain[-1:] in (["scale"], ["scale_by_schedule"])
        return known if known and is_rate else f"chain({', '.join(parts)})"
    if name == "masked" and "inner" in held:
        return f"masked({_factory_of(held['inner'].update)})"
    if name == "inject_hyperparams" and "inner_factory" in held:
        return f"inject_hyperparams({getattr(held['inner_factory'], '__name__', '...')})"
    return name + ("'" if held.get("nesterov") is True else "")
