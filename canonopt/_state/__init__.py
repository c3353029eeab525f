"""TODO."""

from .init import grads_like as grads_like
from .init import init_like_grads as init_like_grads
