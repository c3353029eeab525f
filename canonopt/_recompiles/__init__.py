"""Report why a function was traced or compiled again, and which cached programs use old values.

While a log or an assertion is active, canonopt records each call that misses a jit cache. A report
compares the call with the most similar earlier call, and gives advice. Other subpackages import
only the names below.
"""

from .differences import differ as differ
from .limits import assert_max_compiles as assert_max_compiles
from .limits import assert_max_traces as assert_max_traces
from .limits import no_recompiles as no_recompiles
from .listeners import Recorder as Recorder
from .listeners import check_compiles as check_compiles
from .listeners import compile_log as compile_log
from .listeners import record_everywhere as record_everywhere
from .log import COUNTS as COUNTS
from .log import MAX_ENTRIES as MAX_ENTRIES
from .log import STAGES as STAGES
from .log import CompileLog as CompileLog
from .log import Entry as Entry
from .log import FunctionLog as FunctionLog
from .log import is_costly as is_costly
from .records import Call as Call
from .records import Caller as Caller
from .records import Leaf as Leaf
from .rules import Cause as Cause
from .rules import explain as explain
from .stale import ReadValue as ReadValue
from .stale import StaleRead as StaleRead
from .stale import StaleWatch as StaleWatch
from .stale import assert_not_stale as assert_not_stale
