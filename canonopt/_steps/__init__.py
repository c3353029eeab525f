"""Training steps, and optimizer states whose structure and types an update preserves.

`init_like_grads` makes such a state, so that the second training step is neither traced nor
compiled again; `grads_like` cuts a model to the leaves that get a gradient. From the public
functions down: `init`, `fixed_point` (types and structure), `update` (tracing the update of an
optimizer), `placement` (types and shardings of single leaves). Other rooms use the two functions.
"""

from .filter_jitting import filter_jit as filter_jit
from .init import grads_like as grads_like
from .init import init_like_grads as init_like_grads
from .jitting import jit as jit
from .jitting import keep_programs as keep_programs
