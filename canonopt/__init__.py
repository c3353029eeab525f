"""Optax specs that a training step is traced once for, and compiled once.

`canonopt.adam(lr=1e-3)` is an optax transformation, and the same object whenever it is built again.
"""

import typing as _typing

import optax as _optax

from . import contrib as contrib
from . import errors as errors
from . import optimizers as optimizers
from . import schedules as schedules
from . import transforms as transforms
from ._identity import canonicalize as canonicalize
from ._identity import clear_caches as clear_caches
from ._identity import hoist as hoist
from ._identity import hoisted_field as hoisted_field
from ._identity import register_constant as register_constant
from ._python_internals import import_later as _import_later
from ._spec import ScheduleSpec as ScheduleSpec
from ._spec import Spec as Spec
from ._spec import canonical as canonical
from ._spec import dynamic as dynamic
from ._spec import find_in as _find_in
from ._steps import apply_updates as apply_updates
from ._steps import filter_jit as filter_jit
from ._steps import grads_like as grads_like
from ._steps import init_like_grads as init_like_grads
from ._steps import jit as jit
from ._steps import keep_programs as keep_programs
from .errors import CanonoptError as CanonoptError
from .optimizers import *
from .schedules import *
from .transforms import *

__version__ = "0.2.0"


if _typing.TYPE_CHECKING:
    from ._checkpoints import manifest as manifest
    from ._checkpoints import restore_like as restore_like
    from ._processes import assert_same_across_processes as assert_same_across_processes
    from ._recompiles import CompileLog as CompileLog
    from ._recompiles import assert_max_compiles as assert_max_compiles
    from ._recompiles import assert_max_traces as assert_max_traces
    from ._recompiles import compile_log as compile_log
    from ._spec.config import Difference as Difference
    from ._spec.config import Differences as Differences
    from ._spec.config import diff as diff
    from ._spec.config import fingerprint as fingerprint
    from ._spec.config import from_config as from_config
    from ._spec.config import register_hooks as register_hooks
    from ._spec.config import to_config as to_config
else:
    # Imported when they are asked for: most training runs count nothing and write no data.
    _LATER = {
        "CompileLog": "_recompiles",
        "Difference": "_spec.config",
        "Differences": "_spec.config",
        "assert_max_compiles": "_recompiles",
        "assert_max_traces": "_recompiles",
        "assert_same_across_processes": "_processes",
        "compile_log": "_recompiles",
        "diff": "_spec.config",
        "fingerprint": "_spec.config",
        "from_config": "_spec.config",
        "manifest": "_checkpoints",
        "register_hooks": "_spec.config",
        "restore_like": "_checkpoints",
        "to_config": "_spec.config",
    }
    __all__ = [name for name in (*globals(), *_LATER) if not name.startswith("_")]

    def __getattr__(name: str) -> object:
        if name.endswith(("Error", "Warning")) and hasattr(errors, name):
            return getattr(errors, name)
        if name not in _LATER:
            return _find_in(_optax, name)
        return _import_later(globals(), name, _LATER[name])

    def __dir__() -> list[str]:
        return [*{**globals(), **_LATER}]
