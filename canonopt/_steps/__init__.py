"""Training steps, and optimizer states whose structure and types an update preserves.

- `jit` lets functions that do the same share one program. Read `jitting`, then `programs` (finds
  the program for a call), `templates` (results that hold objects of one call) and `old_traces`
  (functions of which JAX may use an old trace).
- `filter_jit` shares programs, too, and acts like `equinox.filter_jit`. Read `filter_jitting`, then
  `partition`, which takes the arrays out of modules.
- `init_like_grads` makes a state so that the second step is neither traced nor compiled again, and
  `grads_like` cuts a model to the leaves that get a gradient. Read `init`.
- `apply_updates` adds updates to a model and keeps the types of its leaves. Read `leaves`, which
  also finds and converts types and shardings, for example to restore a checkpoint.

Only `leaves` is imported with this package. The other modules need Equinox and `jax.extend`, which
add settings to those that JAX compares at each call. If `apply_updates` imported them during the
first trace of a step, the second call would be traced again.
"""

import importlib
import typing

from .leaves import apply_updates as apply_updates
from .leaves import as_type as as_type
from .leaves import struct_of as struct_of
from .leaves import uncommitted as uncommitted

if typing.TYPE_CHECKING:
    from .filter_jitting import filter_jit as filter_jit
    from .init import grads_like as grads_like
    from .init import init_like_grads as init_like_grads
    from .jitting import jit as jit
    from .jitting import keep_programs as keep_programs
else:
    _LATER = {
        "filter_jit": "filter_jitting",
        "grads_like": "init",
        "init_like_grads": "init",
        "jit": "jitting",
        "keep_programs": "jitting",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
