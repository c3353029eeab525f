"""Specs: Optax transformations and schedules, with one object for each configuration.

A factory is a function that returns a transformation or a schedule. `canonical` turns a factory
into a function that builds specs: `_identity.read` turns the configuration into a key, the factory
is called once for each key, and a table holds the spec weakly.

- `Spec` and `ScheduleSpec` are the types of specs, and `Configured` is their base class.
- `internals_of` returns the `Internals` of a spec: its factory, the factory's result and so on.
- `Dynamic` is a number that a spec stores as traced leaves.
- `catalogue` returns canonopt's functions for Optax's factories. `names_of` lists the names that a
  module of canonopt has from Optax, and `find_in` returns the object for such a name.
- `replace_in_optax` replaces Optax's functions by canonopt's.

Read `factory` first, then `spec`. Two modules are imported on first use: `dynamic_spec`, for specs
with traced leaves, and `config`, which writes, reads and compares specs as plain data.
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
