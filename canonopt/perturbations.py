"""The names of `optax.perturbations`."""

from optax.perturbations import *
