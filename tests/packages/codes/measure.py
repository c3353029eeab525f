"""Run a code in this process, and print the compiles and seconds of each trial, as JSON.

```
python tests/packages/codes/measure.py neural_ode FOLDER results.npz
```

The trial is that of the code in `adapters`. `FOLDER` has the script as `prepared` left it. With
`--stale`, canonopt looks on, and notes what goes on with an old value.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("folder", type=Path, help="of the script")
    parser.add_argument("results", type=Path, help="where the numbers of all trials go")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--stale", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(options.folder))
    os.environ["MPLBACKEND"] = "agg"  # no window for a plot
    trial = getattr(importlib.import_module("codes.adapters"), options.name)(options.folder)
    block = contextlib.nullcontext()  # in which canonopt is not even imported
    if options.stale:
        import canonopt

        block = canonopt.compile_log(stale=True)
    with block as log:
        notes, results = counted(lambda number: numbers(trial, number), options.trials)
    notes["stale"] = [] if log is None else [str(read) for read in log.stale]
    if log is not None:
        options.results.with_suffix(".txt").write_text(str(log))
    named = {f"trial {number}": found for number, found in enumerate(results)}
    np.savez(options.results, **named)
    print(json.dumps(notes))


def numbers(trial: Any, number: int) -> Any:
    """Return all numbers that a trial returns, one after the other as float64."""

    def printed(pattern: str) -> list[float]:
        return [*map(float, re.findall(pattern, output.getvalue()))]

    with contextlib.redirect_stdout(io.StringIO()) as output:
        result = trial(number, printed)
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(result)]
    return np.concatenate(leaves)


if __name__ == "__main__":
    main()
