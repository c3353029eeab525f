"""Count what JAX traces and compiles in each trial, in a process of its own."""

import time
from collections.abc import Callable
from typing import Any

# What JAX reports once for each program that XLA compiles, for eager operations too, and once for
# each trace of a jitted function, a library's too.
EVENTS = {
    "/jax/core/compile/backend_compile_duration": "compiles",
    "/jax/core/compile/jaxpr_trace_duration": "traces",
}


def counted(trial: Callable[[int], Any], trials: int) -> tuple[dict[str, list], list[Any]]:
    """Return the compiles, traces and seconds of each trial, and what each returned."""
    import jax

    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    notes: dict[str, list] = {"seconds": [], **{name: [] for name in EVENTS.values()}}
    results = []
    for number in range(trials):
        events.clear()
        start = time.perf_counter()
        results.append(jax.block_until_ready(trial(number)))
        notes["seconds"].append(time.perf_counter() - start)
        for event, name in EVENTS.items():
            notes[name].append(events.count(event))
    return notes, results
