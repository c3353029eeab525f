"""The names of `optax.tree_utils`."""

from optax.tree_utils import *

# Optax finds its deprecated names with this function.
from optax.tree_utils import __getattr__ as __getattr__  # pyright: ignore
