"""Specs as plain data: for JSON, YAML and TOML files, run logs and sweeps.

`to_config` writes the data, `from_config` reads them: in `files`, with the table in `codecs`.
`fingerprint` and `diff` compare specs and stored data. `register_hooks` and `pydantic_schema` have
cattrs and pydantic, neither of which is imported before, write and read specs.
"""

from .comparing import Difference as Difference
from .comparing import Differences as Differences
from .comparing import diff as diff
from .comparing import fingerprint as fingerprint
from .files import from_config as from_config
from .files import pydantic_schema as pydantic_schema
from .files import register_hooks as register_hooks
from .files import to_config as to_config
