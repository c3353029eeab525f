"""The names of `optax.projections`."""

from optax.projections import *
