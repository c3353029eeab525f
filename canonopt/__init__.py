"""Build Optax transformations for which a training step is traced once, and compiled once.

`canonopt.adam(lr=1e-3)` returns a *spec*: an Optax transformation, and the same object whenever it
is built again. canonopt has all public names of Optax, so `import canonopt as optax` works.
Factories such as `adam` build specs, `apply_updates` is canonopt's, and the rest is Optax's own.
"""

import importlib as _importlib
from typing import Any as _Any

__version__ = "0.2.0"

# A module is imported when one of its names is first used: most runs count no compiles, write no
# specs as data and use no Equinox. `python -m tools.stubs` writes the names for type checkers.
_MODULE_OF = {
    name: module
    for module, names in {
        "_checkpoints": "manifest restore_like",
        "_identity": "canonicalize clear_caches hoist hoisted_field register_constant",
        "_processes": "assert_same_across_processes",
        "_recompiles": (
            "CompileLog assert_max_compiles assert_max_traces assert_not_stale compile_log "
            "no_recompiles"
        ),
        "_spec": "ScheduleSpec Spec canonical",
        "_spec.config": (
            "Difference Differences diff fingerprint from_config register_hooks to_config"
        ),
        "_spec.dynamic_spec": "dynamic",
        "_steps": "apply_updates filter_jit grads_like init_like_grads jit keep_programs",
        "errors": "CanonoptError",
    }.items()
    for name in names.split()
}
_MODULES = (
    *"assignment contrib errors experimental losses microbatching optimizers perturbations".split(),
    *"projections schedules second_order transforms tree tree_utils".split(),
)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _MODULE_OF:
        found = getattr(_importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
    if name == "__all__":
        return sorted({*__dir__(), *_specs().find_in(__name__, name)})
    if name.startswith("_"):  # pytest and doctest look such names up in every module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return _specs().find_in(__name__, name)


def __dir__() -> list[str]:
    return sorted({*_specs().names_of(__name__), *_MODULES, *_MODULE_OF})


def _specs() -> _Any:
    return _importlib.import_module("._spec", __name__)
