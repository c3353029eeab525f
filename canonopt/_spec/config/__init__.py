"""Specs as plain data: for JSON, YAML and TOML files, run logs and sweeps.

`to_config` writes the data, `from_config` reads them, `register_hooks` has cattrs do both.
`fingerprint` and `diff` compare specs and stored data.

`form` says what the data look like. `names` says which objects have a name in them.
"""

from .comparing import Difference as Difference
from .comparing import Differences as Differences
from .comparing import diff as diff
from .comparing import fingerprint as fingerprint
from .hooks import register_hooks as register_hooks
from .reading import from_config as from_config
from .writing import to_config as to_config
