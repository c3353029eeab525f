"""Optax's transformations other than optimizers, as functions that build specs."""

import functools

from ._spec import find_in, names_of

__getattr__ = functools.partial(find_in, __name__)
__dir__ = functools.partial(names_of, __name__)
