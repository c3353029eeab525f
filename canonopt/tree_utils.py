"""The names of `optax.tree_utils`."""

from optax.tree_utils import *

# For deprecated names.
from optax.tree_utils import __getattr__ as __getattr__  # pyright: ignore
