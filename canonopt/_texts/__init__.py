"""What messages and reports say: values as text, differences, causes and verdicts.

All of it is text and numbers, without a record of a call, so that a report can be sent on.
"""

from .causes import Advice as Advice
from .causes import Cause as Cause
from .causes import CauseLine as CauseLine
from .causes import Change as Change
from .causes import aligned as aligned
from .causes import cause_lines as cause_lines
from .causes import nth as nth
from .causes import times as times
from .counts import COUNTS as COUNTS
from .counts import STAGES as STAGES
from .counts import Counts as Counts
from .markup import log_markup as log_markup
from .shortening import SLOW_SECONDS as SLOW_SECONDS
from .shortening import alike_items as alike_items
from .shortening import cache_advice as cache_advice
from .shortening import layers_hint as layers_hint
from .transformations import built_as as built_as
from .transformations import is_gradient_transformation as is_gradient_transformation
from .values import MAX_SHOWN as MAX_SHOWN
from .values import PLAIN as PLAIN
from .values import cut_to_difference as cut_to_difference
from .values import fields_of as fields_of
from .values import is_spec as is_spec
from .values import place_of as place_of
from .values import shortened as shortened
from .values import text_of as text_of
from .verdicts import COMMITTED_BY_ORBAX as COMMITTED_BY_ORBAX
from .verdicts import HANDFUL as HANDFUL
from .verdicts import PAIR as PAIR
from .verdicts import many_operations as many_operations
from .verdicts import no_difference as no_difference
from .verdicts import path_of_growth as path_of_growth
from .verdicts import repeated_operation as repeated_operation
from .verdicts import several_shapes as several_shapes
from .verdicts import verdict as verdict
