"""Scripts that recompile as public reports say, and a score of what the doctor says of them.

`scripts.py` says what an entry has, and the modules beside it have the entries. `fine.py` has
scripts that are as they should be. `measuring.py` runs an entry without canonopt and under the
doctor, and `score.py` compares the two with what the entry expects. `python -m tools.doctor_score`
writes `docs/doctor-score.md`.
"""

from . import equinox_reports as equinox_reports
from . import fine as fine
from . import flax_reports as flax_reports
from . import jax_arrays as jax_arrays
from . import jax_eager as jax_eager
from . import jax_functions as jax_functions
from . import jax_static as jax_static
from . import optax_reports as optax_reports
from . import other_reports as other_reports
from . import unseen_arguments as unseen_arguments
from . import unseen_clean as unseen_clean
from . import unseen_functions as unseen_functions
from . import unseen_placement as unseen_placement
from .scripts import SCRIPTS as SCRIPTS
from .scripts import UNSEEN as UNSEEN

# What the doctor does not get right, and why.
MISSED: dict[str, str] = {}
