"""Specs: Optax transformations and schedules, with one object for each configuration.

A factory is a function that returns a transformation or a schedule. `canonical` turns a factory
into a function that builds specs. A `Dynamic` is a hyperparameter that is a traced leaf of its
spec; the module `dynamic_spec` is imported when a spec holds one. The types of specs are `Spec`,
`ScheduleSpec` and their base `Configured`. `internals_of` returns the `Internals` of a spec: its
factory, the factory's result and so on. `names_of` lists the names that a module of canonopt has
from Optax, `find_in` returns the object for such a name, and `catalogue` has canonopt's functions
for Optax's factories. `replace_in_optax` is for tools that put canonopt in Optax's place. The
module `config` writes, reads and compares specs as plain data; it is imported on first use.

`_identity.read` turns a configuration into a key. The factory is called once for each key, and a
table holds the spec weakly. Read `factory` first, then `spec`.
"""

from .builders import canonical as canonical
from .builders import catalogue as catalogue
from .builders import find_in as find_in
from .builders import names_of as names_of
from .builders import replace_in_optax as replace_in_optax
from .dynamic_number import Dynamic as Dynamic
from .spec import Configured as Configured
from .spec import ScheduleSpec as ScheduleSpec
from .spec import Spec as Spec
from .spec import internals_of as internals_of
