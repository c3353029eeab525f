"""What "the same" means.

`read` is the entrance: it turns values into a key, and two values are the same exactly if their
keys are equal. `Table` finds the one object for a key. `Watched` sees to it that an object leaves
its table when what was read changes before it is traced.
"""

from .callables import contents_of_function as contents_of_function
from .callables import contents_of_partial as contents_of_partial
from .callables import is_in_place as is_in_place
from .canonicalizing import canonicalize as canonicalize
from .canonicalizing import hoisted_field as hoisted_field
from .hoisting import hoist as hoist
from .instances import register_constant as register_constant
from .interning import Table as Table
from .interning import Watched as Watched
from .interning import clear_caches as clear_caches
from .keys import read as read
from .reader import HoldsArray as HoldsArray
from .reader import Mode as Mode
from .reader import Reading as Reading
from .values import is_namedtuple as is_namedtuple
