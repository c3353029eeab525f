"""Everything private in JAX and Equinox that canonopt reads, behind one function for each fact.

Nothing private of these libraries is read anywhere else. Each docstring names what it relies on.
If JAX has moved that, the function falls back as its docstring says, or counting raises
`UnsupportedVersionError`; a count is never silently zero. `tests/test_jax_internals.py` removes
each of the names in turn. Other modules import from here, not from the modules inside.
"""

import importlib
import typing

from .arrays import array_text as array_text
from .arrays import code_of_sharding as code_of_sharding
from .arrays import placement_text as placement_text
from .arrays import sharding_text as sharding_text
from .functions import IMMUTABLE as IMMUTABLE
from .functions import Jitted as Jitted
from .functions import attribute as attribute
from .functions import function_of_partial as function_of_partial
from .functions import functions_inside as functions_inside
from .functions import has_programs as has_programs
from .functions import identity_of_code as identity_of_code
from .functions import innermost as innermost
from .functions import is_helper as is_helper
from .functions import is_jitted as is_jitted
from .functions import is_jitted_inside as is_jitted_inside
from .functions import is_module_class as is_module_class
from .functions import is_of_jax as is_of_jax
from .functions import jit_options as jit_options
from .functions import jits_itself as jits_itself
from .functions import jitted_by_equinox as jitted_by_equinox
from .functions import name_in_events as name_in_events
from .functions import name_of as name_of
from .functions import node_functions as node_functions
from .functions import users_function as users_function
from .jaxprs import is_same_program as is_same_program
from .jaxprs import kept_by as kept_by
from .jaxprs import values_in as values_in
from .options import CAPTURED as CAPTURED
from .options import jit_with_captured as jit_with_captured
from .options import stand_at as stand_at
from .options import static_arguments as static_arguments
from .settings import context_of_calls as context_of_calls
from .settings import key_context as key_context
from .settings import tracing_context as tracing_context
from .settings import unsupported as unsupported
from .settings import whole_context as whole_context
from .settings import x64_state as x64_state
from .tracing import NotTraced as NotTraced
from .tracing import call_site as call_site
from .tracing import clearings_so_far as clearings_so_far
from .tracing import frames_to_the_user as frames_to_the_user
from .tracing import is_at_top_level as is_at_top_level
from .tracing import is_compiling_by_hand as is_compiling_by_hand
from .tracing import is_in_backward_pass as is_in_backward_pass
from .tracing import is_in_shard_map as is_in_shard_map
from .tracing import is_staging as is_staging
from .tracing import is_unwatched as is_unwatched
from .tracing import listen as listen
from .tracing import makes_tracers as makes_tracers
from .tracing import top_level_check as top_level_check
from .tracing import unwatched as unwatched
from .tracing import without_own_frame as without_own_frame

if typing.TYPE_CHECKING:
    from .distributed import Processes as Processes
    from .distributed import processes as processes
    from .equinox_errors import HidingFailedCallbacks as HidingFailedCallbacks
    from .equinox_errors import error_of_equinox as error_of_equinox
    from .filter_jit import is_given as is_given
    from .flax_nnx import module_parts as module_parts
    from .hits import CachedCall as CachedCall
    from .hits import HitWatch as HitWatch
    from .hits import function_finder as function_finder
    from .watching import Compile as Compile
    from .watching import CompileWatch as CompileWatch
    from .watching import Miss as Miss
    from .watching import MissWatch as MissWatch
else:
    # Building a spec needs none of these. And counting must not import Equinox or `jax.extend`:
    # they import Pallas, which changes what JAX compares of each call.
    _LATER = {
        "CachedCall": "hits",
        "Compile": "watching",
        "HidingFailedCallbacks": "equinox_errors",
        "HitWatch": "hits",
        "Miss": "watching",
        "MissWatch": "watching",
        "Processes": "distributed",
        "CompileWatch": "watching",
        "error_of_equinox": "equinox_errors",
        "function_finder": "hits",
        "is_given": "filter_jit",
        "module_parts": "flax_nnx",
        "processes": "distributed",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        globals()[name] = found
        return found
