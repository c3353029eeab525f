"""Run a loop in this process, and print the compiles, seconds and result of each trial, as JSON.

```
python tests/packages/measure.py flowjax loop optax
```
"""

import argparse
import importlib
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import jax

# What JAX reports once for each program that XLA compiles, for eager operations too, and once for
# each trace of a jitted function, a library's too.
EVENTS = {
    "/jax/core/compile/backend_compile_duration": "compiles",
    "/jax/core/compile/jaxpr_trace_duration": "traces",
}
# And of the seconds of these events, those of the first trial are told.
STAGES = {
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package")
    parser.add_argument("function", choices=["loop", "advised"])
    parser.add_argument("library", choices=["optax", "canonopt", "sweep"], help="of factories")
    options = parser.parse_args()
    script = importlib.import_module(f"loops.{options.package.replace('-', '_')}")
    function = getattr(script, options.function)
    library = Sweep() if options.library == "sweep" else importlib.import_module(options.library)
    notes, results = counted(lambda number: float(function(library, number)), trials=5)
    print(json.dumps({**notes, "results": results}))


def counted(trial: Callable[[int], Any], trials: int) -> tuple[dict[str, Any], list[Any]]:
    """Return the compiles, traces and seconds of each trial, and what each returned.

    And the seconds by stage of the first trial.
    """
    events: list[tuple[str, float]] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: events.append((event, seconds))
    )
    notes: dict[str, Any] = {"seconds": [], **{name: [] for name in EVENTS.values()}}
    results = []
    for number in range(trials):
        events.clear()
        start = time.perf_counter()
        results.append(jax.block_until_ready(trial(number)))
        notes["seconds"].append(time.perf_counter() - start)
        for event, name in EVENTS.items():
            notes[name].append(sum(each == event for each, _ in events))
        if not number:
            notes["stages"] = {
                stage: sum(seconds for each, seconds in events if each == event)
                for event, stage in STAGES.items()
            }
    return notes, results


class Sweep:
    """In place of canonopt: each call of a factory takes another learning rate, a traced one."""

    calls = itertools.count(1)

    def __getattr__(self, name: str) -> Callable[[float], Any]:
        import canonopt

        def build(learning_rate: float) -> Any:
            rate = learning_rate * (1 + next(self.calls) / 10)
            return getattr(canonopt, name)(canonopt.dynamic(rate))

        return build


if __name__ == "__main__":
    main()
