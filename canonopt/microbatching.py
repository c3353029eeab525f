"""The names of `optax.microbatching`."""

from optax.microbatching import *
