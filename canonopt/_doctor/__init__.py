"""TODO."""

from .cli import command as command
