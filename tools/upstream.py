"""Says what the installed Optax has that the catalogue lacks, and the lines to add.

    python -m tools.upstream

It exits with status 1 if there is something. A factory is a public function of Optax that returns
a transformation or a schedule, by its annotation. A parameter is new if the stub of its factory
lacks it, which `python -m tools.stubs` wrote from an earlier Optax.
"""

import ast
import inspect
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optax
import optax.contrib
import optax.schedules
import optax.transforms

import canonopt

# Public functions of optax that build neither a transformation nor a schedule, although their
# signature does not say so. A new one without a return annotation has to be put here or mirrored.
NO_FACTORIES = {
    "bias_correction",
    "init_empty_state",
    "update_infinity_moment",
    "update_moment",
    "update_moment_per_elem_norm",
    "schedule_free_eval_params",
    "unitwise_clip",
    "value_and_grad_from_state",
    "matrix_inverse_pth_root",
    "power_iteration",
    "sigmoid_binary_cross_entropy",
}
# Optax's namespaces, and canonopt's.
NAMESPACES = {
    optax: canonopt,
    optax.contrib: canonopt.contrib,
    optax.schedules: canonopt.schedules,
    optax.transforms: canonopt.transforms,
}
_CATALOGUE = (
    canonopt.optimizers,
    canonopt.transforms,
    canonopt.schedules,
    canonopt.contrib,
)


# --- factories ----------------------------------------------------------------------------------


def factories(namespace: types.ModuleType) -> dict[str, Any]:
    """The functions in one of Optax's namespaces that build transformations or schedules."""
    names = {name for name in dir(namespace) if not name.startswith("_")}
    names |= {*getattr(namespace, "__all__", ())}
    found = {name: value_of(namespace, name) for name in sorted(names)}
    return {name: value for name, value in found.items() if _returned(name, value)}


def value_of(namespace: types.ModuleType, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(namespace, name, None)


def _returned(name: str, value: Any) -> str:
    """What a public object of Optax builds: "transformation", "schedule", or nothing."""
    if value is optax.MultiSteps:
        return "transformation"
    if isinstance(value, type) or not callable(value) or typing.get_origin(value) is not None:
        return ""
    returned = inspect.signature(value, eval_str=True).return_annotation
    if returned is inspect.Signature.empty:
        return "" if name in NO_FACTORIES else "transformation"
    if returned == optax.Schedule:
        return "schedule"
    inner = (returned, *typing.get_args(returned))
    is_transformation = any(
        isinstance(kind, type) and issubclass(kind, optax.GradientTransformation) for kind in inner
    )
    return "transformation" if is_transformation else ""


def _new_factories() -> Iterator[str]:
    told: list[Any] = []
    for theirs, ours in NAMESPACES.items():
        for name, value in factories(theirs).items():
            is_mirrored = isinstance(_mirrored(ours, name), types.FunctionType)
            if is_mirrored or any(value is each for each in told):
                continue
            told.append(value)
            file = _file_for(theirs, name, value)
            path = f"contrib.{name}" if file == "contrib" else name
            yield f"Optax {optax.__version__} has a new factory, {theirs.__name__}.{name}:"
            yield f"  canonopt/{file}.py: {name} = _mirror.{name}"
            yield f'  tests/support/catalogue.py: "{path}": lambda o: o.{path}(...),'
            yield "  then run: python -m tools.stubs"


def _mirrored(namespace: types.ModuleType, name: str) -> Any:
    try:
        return value_of(namespace, name)
    except canonopt.errors.NotMirroredError:
        return None


def _file_for(namespace: types.ModuleType, name: str, value: Any) -> str:
    if namespace is optax.contrib:
        return "contrib"
    if _returned(name, value) == "schedule":
        return "schedules"
    return "optimizers" if "learning_rate" in inspect.signature(value).parameters else "transforms"


# --- parameters ---------------------------------------------------------------------------------


def _changed_parameters() -> Iterator[str]:
    for module in _CATALOGUE:
        file = Path(typing.cast(str, module.__file__)).with_suffix(".pyi")
        recorded = _parameters_in(file.read_text("utf-8"))
        for name in module.__all__:
            factory = vars(getattr(module, name)).get("factory")
            now = {*inspect.signature(factory.function).parameters} if factory else set()
            # The stub has `lr` beside `learning_rate`.
            before = recorded.get(name, set()) - {"lr"}
            for what, names in (("gained", now - before), ("lost", before - now)):
                if names:
                    words = ", ".join(sorted(names))
                    yield f"{module.__name__}.{name} has {what} {words} in {optax.__version__}:"
                    yield "  run: python -m tools.stubs"


def _parameters_in(stub: str) -> dict[str, set[str]]:
    """The names of the parameters of each function in a stub, in all of its overloads."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            starred = filter(None, [given.vararg, given.kwarg])
            found.setdefault(node.name, set()).update(each.arg for each in (*named, *starred))
    return found


def drift() -> list[str]:
    """A line for each thing that the catalogue lacks, and below it the lines to add."""
    return [*_new_factories(), *_changed_parameters()]


if __name__ == "__main__":
    lines = drift()
    print("\n".join(lines) or f"The catalogue has all of Optax {optax.__version__}.")
    sys.exit(bool(lines))
