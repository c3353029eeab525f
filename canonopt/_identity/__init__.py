"""What "the same" means.

`read` is the entrance: it turns values into a key, and two values are the same exactly if their
keys are equal. `Table` finds the one object for a key. `Watched` sees to it that an object leaves
its table when what was read changes before it is traced.
"""

from .callables import is_in_place as is_in_place
from .constants import register_constant as register_constant
from .containers import copied as copied
from .containers import is_changed as is_changed
from .containers import still_held as still_held
from .containers import that_can_part as that_can_part
from .incomparable import Incomparable as Incomparable
from .interning import Table as Table
from .interning import clear_caches as clear_caches
from .keys import read as read
from .reader import HoldsArray as HoldsArray
from .reader import Mode as Mode
from .reader import Reading as Reading
from .rebinding import captured_by as captured_by
from .values import is_namedtuple as is_namedtuple
from .watching import Watched as Watched
from .weak import WeakIdMap as WeakIdMap
from .weak import token_of as token_of
