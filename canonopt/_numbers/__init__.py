"""TODO."""

from .conditionals import both_branches as both_branches
from .conditionals import first_branch as first_branch
from .dynamic_number import NUMBERS as NUMBERS
from .dynamic_number import Dynamic as Dynamic
from .dynamic_number import ValueNeeded as ValueNeeded
