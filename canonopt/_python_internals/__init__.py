"""Facts about CPython, and about who wrote a piece of code.

CPython does not promise any of this, so it may differ between versions: instruction names and the
layout of closures in bytecode, how descriptors are stored in a class, how `warnings` applies its
filters, where library files are installed, and how IPython names its cells. Also here are weak
mappings by object identity, which rely on when an object gives up its id. All other modules of
canonopt go through these names.
"""

from .bounded_store import BoundedStore as BoundedStore
from .bytecode import TELLS_TRACERS as TELLS_TRACERS
from .bytecode import Code as Code
from .bytecode import code_of as code_of
from .bytecode import content_of_code as content_of_code
from .callers import MODULES as MODULES
from .callers import Caller as Caller
from .callers import caller_of as caller_of
from .callers import is_name_of_code as is_name_of_code
from .callers import place_of_line as place_of_line
from .descriptors import ClassAttribute as ClassAttribute
from .descriptors import InstanceAttribute as InstanceAttribute
from .libraries import HIDDEN_ATTRIBUTES as HIDDEN_ATTRIBUTES
from .libraries import REFLECTION as REFLECTION
from .libraries import impure_name as impure_name
from .libraries import is_library_class as is_library_class
from .libraries import is_library_code as is_library_code
from .libraries import is_library_file as is_library_file
from .libraries import is_library_function as is_library_function
from .libraries import is_library_module as is_library_module
from .libraries import makes_text as makes_text
from .libraries import reflects as reflects
from .namespaces import asked_for as asked_for
from .namespaces import attribute_of as attribute_of
from .namespaces import can_tell_apart as can_tell_apart
from .namespaces import is_constant as is_constant
from .namespaces import is_constant_to as is_constant_to
from .namespaces import is_dunder as is_dunder
from .namespaces import is_in_place as is_in_place
from .namespaces import is_stable as is_stable
from .namespaces import loaded as loaded
from .rebinding import captured_by as captured_by
from .rebinding import cells_of as cells_of
from .rebinding import is_bound as is_bound
from .rebinding import rebindable_variables as rebindable_variables
from .signatures import parameters_of as parameters_of
from .signatures import signature_with_alias as signature_with_alias
from .weak import KeyedRef as KeyedRef
from .weak import WeakIdMap as WeakIdMap
from .weak import known_by_identity as known_by_identity
from .weak import new_token as new_token
from .weak import refer as refer
from .weak import token_of as token_of
