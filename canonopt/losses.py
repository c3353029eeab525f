"""The names of `optax.losses`."""

from optax.losses import *
