"""TODO."""

from .dynamic_spec import dynamic as dynamic
from .factory import canonical as canonical
from .mirror import Mirror as Mirror
from .mirror import find_in as find_in
from .spec import Configured as Configured
from .spec import ScheduleSpec as ScheduleSpec
from .spec import Spec as Spec
