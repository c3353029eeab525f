"""TODO."""

from .assertions import assert_max_compiles as assert_max_compiles
from .assertions import assert_max_traces as assert_max_traces
from .listeners import check_compiles as check_compiles
from .listeners import compile_log as compile_log
from .listeners import is_inside_jit as is_inside_jit
from .listeners import recording as recording
from .log import Cause as Cause
from .log import CompileLog as CompileLog
from .log import Entry as Entry
from .log import FunctionLog as FunctionLog
from .log import aligned as aligned
from .log import times as times
from .ownership import name_of as name_of
from .ownership import users_function as users_function
