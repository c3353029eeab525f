"""Measure what each further trial costs with canonopt and with five other ways.

`python -m tools.benchmarks` writes the table into `docs/comparison.md`, and
`python -m tools.benchmarks.rivals` prints it for the devices of a machine.

Each way runs in processes of its own, in turns. A trial builds its optimizer and trains for 20
steps. The figure is the median of the trials after the first, over all processes.
"""

import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- rivals.py begins -->\n", "<!-- rivals.py ends -->\n"
TURNS, TRIALS = 3, 6

# The definitions are those of the example.
_DEFINITIONS, _, _ = (ROOT / "examples" / "train.py").read_text("utf-8").partition("\nfor ")
_PROGRAM = """
import functools, time
import canonopt

arrays = eqx.filter(model, eqx.is_inexact_array)
{define}
for trial in range({trials}):
    begin = time.perf_counter()
    optim = {build}
    trained, opt_state = model, optim.init(arrays)
    for _ in range(20):
        trained, opt_state = step(trained, opt_state, optim, x, y)
    jax.block_until_ready(trained)
    print(time.perf_counter() - begin)
"""
_CHAIN = "{0}.chain({0}.clip_by_global_norm(1.0), {0}.adamw(1e-3))"
_CACHED = """
class cached:
    chain, clip_by_global_norm, adamw = map(
        functools.lru_cache, (optax.chain, optax.clip_by_global_norm, optax.adamw)
    )
"""
_INJECTED = """
injected = optax.chain(
    optax.clip_by_global_norm(1.0), optax.inject_hyperparams(optax.adamw)(learning_rate=1e-3)
)
"""

# Maps the name of a way to its definitions before the trials, the code with which each trial builds
# its optimizer, and what the way does not do.
WAYS: dict[str, tuple[str, str, str]] = {
    "Optax as it is": ("", _CHAIN.format("optax"), "traces and compiles again in each trial"),
    "JAX's persistent cache, warm": (
        "",
        _CHAIN.format("optax"),
        "traces and lowers again in each trial, and compiles for each new rate",
    ),
    "`equinox.internal.closure_to_pytree`": (
        "",
        f"eqx.internal.closure_to_pytree({_CHAIN.format('optax')})",
        "treats functions with other defaults or globals as one; fails on a mask function",
    ),
    "`functools.lru_cache` on the factories": (
        _CACHED,
        _CHAIN.format("cached"),
        "treats `1` and `1.0` as one, and a lambda made again as another; no dict; frees nothing",
    ),
    "`inject_hyperparams`, built once": (
        _INJECTED,
        "injected",
        "must be built once, outside of the trials; other numbers than the constant",
    ),
    "canonopt": ("", _CHAIN.format("canonopt"), "[where it loses](benchmarks.md)"),
}


def trials(name: str, cache: str) -> list[float]:
    """Return the seconds of each trial but the first, in a new process."""
    define, build, _ = WAYS[name]
    environment = dict(os.environ)
    if "persistent cache" in name:
        environment["JAX_COMPILATION_CACHE_DIR"] = cache
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    program = _DEFINITIONS + _PROGRAM.format(define=define, build=build, trials=TRIALS)
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [*map(float, ran.stdout.split())][1:]


def _device() -> str:
    code = "import jax; print(jax.default_backend(), jax.devices()[0].device_kind)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    backend, _, kind = ran.stdout.strip().partition(" ")
    return f"{os.cpu_count()} cores of a CPU" if backend == "cpu" else f"an {kind}"


def table() -> str:
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as cache:
        trials("JAX's persistent cache, warm", cache)  # warms it
        for turn in range(TURNS):
            for name in [*WAYS] if turn % 2 else [*reversed(WAYS)]:
                found[name] += trials(name, cache)
    versions = (
        f"{name} {importlib.metadata.version(name)}" for name in ("jax", "optax", "equinox")
    )
    rows = (
        f"| {name} | {statistics.median(seconds):.3f} | {WAYS[name][2]} |\n"
        for name, seconds in found.items()
    )
    return (
        f"Median seconds of each further trial, in one run on {_device()}, "
        f"{', '.join(versions)}:\n\n| | seconds | what it does not do |\n| --- | --- | --- |\n"
        f"{''.join(rows)}"
    )


def write() -> None:
    text = PAGE.read_text("utf-8")
    made = f"{BEGIN}{table()}{END}".replace("\\", r"\\")
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", made, text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    print(table())
