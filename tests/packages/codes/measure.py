"""Runs a code in this process and prints the compiles and seconds of each trial, as JSON.

```
python tests/packages/codes/measure.py neural_ode FOLDER results.npz
```

A trial is the entry function, called again in the same process. `FOLDER` has the script as
`prepared` left it. With `--stale`, canonopt looks on, and notes what goes on with an old value.
"""

import argparse
import contextlib
import importlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

# What JAX reports once for each program that XLA compiles, for eager operations too, and once for
# each trace of a jitted function, a library's too.
COMPILE = "/jax/core/compile/backend_compile_duration"
TRACE = "/jax/core/compile/jaxpr_trace_duration"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("folder", type=Path, help="of the script")
    parser.add_argument("results", type=Path, help="where the numbers of all trials go")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--stale", action="store_true")
    options = parser.parse_args()
    sys.path[:0] = [str(options.folder), str(Path(__file__).parents[1])]
    adapter = importlib.import_module(f"codes.adapters.{options.name}")
    trial = adapter.entry(options.folder)
    print(json.dumps(timed(trial, options)))


def timed(trial: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The compiles, traces and seconds of each trial, and what goes on with an old value."""
    import jax
    import numpy as np

    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    notes: dict[str, list] = {"compiles": [], "traces": [], "seconds": [], "stale": []}
    results = {}
    with looked_at(options.stale) as log:
        for number in range(options.trials):
            events.clear()
            start = time.perf_counter()
            results[f"trial {number}"] = numbers(trial, number)
            notes["seconds"].append(time.perf_counter() - start)
            notes["compiles"].append(events.count(COMPILE))
            notes["traces"].append(events.count(TRACE))
    if log is not None:
        notes["stale"] = [str(read) for read in log.stale]
        options.results.with_suffix(".txt").write_text(str(log))
    np.savez(options.results, **results)
    return notes


def looked_at(stale: bool) -> Any:
    """A context in which canonopt notes stale reads, or one in which it is not even imported."""
    if not stale:
        return contextlib.nullcontext()
    import canonopt

    return canonopt.compile_log(stale=True)


def numbers(trial: Any, number: int) -> Any:
    """All numbers that a trial returns, or prints, one after the other as float64."""
    import jax
    import numpy as np

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = trial(number, printed)
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(result)]
    return np.concatenate(leaves)


if __name__ == "__main__":
    main()
