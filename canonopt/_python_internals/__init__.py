"""TODO."""

from .bytecode import Code as Code
from .bytecode import captured_by as captured_by
from .bytecode import code_of as code_of
from .bytecode import is_bound as is_bound
from .bytecode import rebindable as rebindable
from .libraries import is_library_class as is_library_class
from .libraries import is_library_module as is_library_module
from .recorded_warnings import recording_warnings as recording_warnings
from .recorded_warnings import warn_again as warn_again
from .weak import WeakIdMap as WeakIdMap
from .weak import token_of as token_of
