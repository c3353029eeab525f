"""Everything private in JAX and Equinox that canonopt reads, behind one function for each fact.

Nothing private of these libraries is read anywhere else. Each docstring names what it relies on.
If JAX has moved that, the function falls back as its docstring says, or counting raises
`UnsupportedVersionError`; a count is never silently zero. `tests/test_jax_internals.py` removes
each of the names in turn. Other modules import from here, not from the modules inside.
"""

from .filter_jit import HidingFailedCallbacks as HidingFailedCallbacks
from .filter_jit import error_of_equinox as error_of_equinox
from .filter_jit import is_given as is_given
from .flax_nnx import module_parts as module_parts
from .functions import IMMUTABLE as IMMUTABLE
from .functions import Jitted as Jitted
from .functions import attribute as attribute
from .functions import function_of_partial as function_of_partial
from .functions import functions_inside as functions_inside
from .functions import is_jitted as is_jitted
from .functions import jit_options as jit_options
from .functions import name_in_events as name_in_events
from .functions import rebinds_only_if_set as rebinds_only_if_set
from .jaxprs import agrees as agrees
from .jaxprs import has_values as has_values
from .jaxprs import kept_by as kept_by
from .misses import Miss as Miss
from .misses import watch_misses as watch_misses
from .misses import watch_stages as watch_stages
from .options import is_one_sharding as is_one_sharding
from .options import jit_with_first as jit_with_first
from .settings import call_context as call_context
from .settings import default_settings as default_settings
from .settings import key_context as key_context
from .settings import unsupported as unsupported
from .settings import x64_state as x64_state
from .shardings import code_of_sharding as code_of_sharding
from .shardings import devices_of as devices_of
from .shardings import spans_devices as spans_devices
from .tracing import callers as callers
from .tracing import is_in_backward_pass as is_in_backward_pass
from .tracing import is_staging as is_staging
