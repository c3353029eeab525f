"""Run a loop in this process, and print the compiles, seconds and result of each trial, as JSON.

```
python tests/packages/measure.py flowjax loop optax
```
"""

import argparse
import importlib
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from counted import counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package")
    parser.add_argument("function", choices=["loop", "advised"])
    parser.add_argument("library", choices=["optax", "canonopt", "sweep"], help="of factories")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--dump", type=Path, help="where XLA is to write what it compiles")
    options = parser.parse_args()
    if options.dump:
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={options.dump}"  # read when a backend starts
    script = importlib.import_module(f"loops.{options.package.replace('-', '_')}")
    function = getattr(script, options.function)
    library = Sweep() if options.library == "sweep" else importlib.import_module(options.library)
    print(json.dumps(measure(function, library, options.trials, options.dump)))


class Sweep:
    """In place of canonopt: each call of a factory takes another learning rate, a traced one."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[[float], Any]:
        import canonopt

        def build(learning_rate: float) -> Any:
            self.calls += 1
            dynamic = canonopt.dynamic(learning_rate * (1 + self.calls / 10))
            return getattr(canonopt, name)(dynamic)

        return build


def measure(
    function: Callable[[Any, int], object],
    library: ModuleType | Sweep,
    trials: int,
    dump: Path | None,
) -> dict[str, list]:
    dumped = [modules(dump)]

    def trial(number: int) -> float:
        result = float(function(library, number))
        dumped.append(modules(dump))
        return result

    notes, results = counted(trial, trials)
    new = [len(after - before) for before, after in itertools.pairwise(dumped)]
    return {**notes, "dumped": new, "results": results}


def modules(dump: Path | None) -> set[str]:
    """The programs that XLA has compiled, by the number that it gives each of them."""
    return {file.name.partition(".")[0] for file in dump.glob("module_*")} if dump else set()


if __name__ == "__main__":
    main()
