"""Scripts that recompile as public reports say, and a score of what the doctor says of them.

`scripts.py` says what a script has, and `earlier_sets.py` and `last_set.py` have the scripts.
`score.py` runs a script without canonopt and under the doctor, and compares both with the truth.
`python -m tools.doctor_score` writes `docs/doctor-score.md`.
"""

from . import earlier_sets as earlier_sets
from . import last_set as last_set
from .scripts import SCRIPTS as SCRIPTS

# What the doctor does not get right, and why.
MISSED: dict[str, str] = {
    "a checkpointed block that each layer wraps again": "JAX traces three wrappers, which run the "
    "body once, and the doctor says that it was traced three times.",
    "a padding that is compiled for each length": "four lengths are few.",
}
