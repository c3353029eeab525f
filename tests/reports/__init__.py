"""Scripts that recompile as public reports say, and a score of what the doctor says of them.

`scripts.py` says what an entry has, and the modules beside it have the entries, by package.
`fine.py` has scripts that are as they should be. `measuring.py` runs an entry without canonopt and
under the doctor, `score.py` compares the two with what the entry expects, and
`python -m tests.reports.run` writes `docs/doctor-score.md`.
"""

from . import (
    equinox_reports,
    fine,
    flax_reports,
    jax_arrays,
    jax_eager,
    jax_functions,
    jax_static,
    optax_reports,
    other_reports,
)
from .scripts import SCRIPTS as SCRIPTS

__all__ = ["SCRIPTS"]
