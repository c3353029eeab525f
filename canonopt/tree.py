"""The names of `optax.tree`."""

from optax.tree import *
