"""The names of `optax.assignment`."""

from optax.assignment import *
