"""How often something was traced and compiled, and for how long: the numbers of each report."""

from collections.abc import Iterable
from typing import Self

import attrs

# What the seconds of a program are made of.
STAGES = ("trace_seconds", "lowering_seconds", "compile_seconds")


@attrs.define(eq=False, kw_only=True)
class Counts:
    """Seconds exclude those of inner functions."""

    traces: int = 0
    nested_traces: int = 0  # those that were parts of other traces
    compiles: int = 0
    # Of JAX's persistent compilation cache: in place of a compile, and before one.
    cache_hits: int = 0
    cache_misses: int = 0
    # The backward pass that `jax.grad` or `jax.vjp` makes of a jitted function is a program of its
    # own. It is no recompile, and no limit counts it.
    backward_compiles: int = 0
    trace_seconds: float = 0.0
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.lowering_seconds + self.compile_seconds

    @property
    def events(self) -> int:
        return self.traces + self.compiles + self.cache_hits + self.backward_compiles

    def add(self, others: Iterable["Counts"]) -> Self:
        for other in others:
            for name in COUNTS:
                setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


COUNTS = tuple(field.name for field in attrs.fields(Counts))
