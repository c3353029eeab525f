"""The names of `optax.experimental`."""

from optax.experimental import *
