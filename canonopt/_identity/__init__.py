"""Keys that tell whether values are the same, and tables with one object for each key.

- `read` turns values into a key. Two values are the same exactly if their keys are equal.
- `Table` maps each key to one object, for as long as something else keeps that object alive.
- `Watched` removes an object from its table if a trace finds that a value in its key has changed.
- `hoist` and `canonicalize` use these for callables and models. Functions like `canonopt.adam` use
  them for the *specs* that they return: Optax transformations and schedules.

Read `interning` first, then `reader`, which walks over values with `rules` for their types.
`parts` takes values apart and rebuilds them, so that `hoist` and `canonicalize` can replace the
callables in a value, and `Copy` can replace the arrays that a function captures.
"""

from .._python_internals.libraries import is_in_place as is_in_place
from .hoisting import canonicalize as canonicalize
from .hoisting import described as described
from .hoisting import hoist as hoist
from .hoisting import hoisted_field as hoisted_field
from .instances import attributes_of as attributes_of
from .instances import is_frozen_record as is_frozen_record
from .instances import is_namedtuple as is_namedtuple
from .instances import is_record as is_record
from .instances import is_sentinel as is_sentinel
from .instances import register_constant as register_constant
from .instances import slots_of as slots_of
from .instances import static_fields as static_fields
from .interning import ENTERED as ENTERED
from .interning import KEEPS as KEEPS
from .interning import NUMPY as NUMPY
from .interning import ONE_ARRAY as ONE_ARRAY
from .interning import PLAIN as PLAIN
from .interning import Table as Table
from .interning import Watched as Watched
from .interning import all_inside as all_inside
from .interning import clear_caches as clear_caches
from .interning import cleared as cleared
from .interning import keeps_state as keeps_state
from .interning import note_not_shared as note_not_shared
from .interning import read as read
from .interning import read_call as read_call
from .interning import why_not_shared as why_not_shared
from .parts import Copy as Copy
from .parts import closure_items as closure_items
from .parts import kind_of as kind_of
from .reader import ATOMS as ATOMS
from .reader import MAX_WORDS as MAX_WORDS
from .reader import UNBOUND as UNBOUND
from .reader import HoldsArray as HoldsArray
from .reader import Mode as Mode
from .reader import Reading as Reading
from .rules import has_negative_zero as has_negative_zero
