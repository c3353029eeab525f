"""The names of `optax.second_order`."""

from optax.second_order import *
