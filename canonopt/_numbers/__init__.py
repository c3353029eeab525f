"""Python numbers that are traced, with the results that the Python numbers have.

`traced` turns a number into a `Dynamic`, whose leaves a program takes as arguments. In a factory it
behaves like a float, in double precision, until it meets an array. If a factory asks for its value
it raises `ValueNeeded`, except for `if x == 0.0`, which is answered inside `both_branches` and
`first_branch`. `NUMBERS` are the types that `traced` accepts. `converted` gives an array another
weak type.
"""

from .conditionals import both_branches as both_branches
from .conditionals import first_branch as first_branch
from .double_float import converted as converted
from .dynamic_number import NUMBERS as NUMBERS
from .dynamic_number import Dynamic as Dynamic
from .dynamic_number import ValueNeeded as ValueNeeded
from .dynamic_number import traced as traced
