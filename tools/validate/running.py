"""Runs the parts within the time, and gathers what they found and where."""

import datetime
import importlib.metadata
import multiprocessing
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import jax

from . import parts
from .checks import FULL, QUICK, Check, Failed, NotRun, Part, Row, Size
from .record import TIME_IS_UP

_PACKAGES = ("canonopt", "jax", "jaxlib", "equinox", "optax", "numpy")


def validate(command: str, seconds: float, *, is_quick: bool = False) -> dict[str, Any]:
    """The record, as it is written to JSON. After `seconds`, nothing more is begun."""
    start = time.monotonic()
    load = [os.getloadavg()[0]]
    size = QUICK if is_quick else FULL
    found = []
    for title, part in parts.PARTS.items():
        print(title, flush=True)
        found.append(_run(title, part, size, start + seconds))
    load.append(os.getloadavg()[0])
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - start, 1),
        "is_quick": is_quick,
        "device": _device(),
        "host": {"cpu": _cpu(), "cores": os.cpu_count(), "load": [round(x, 1) for x in load]},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
        "parts": found,
    }


def _run(title: str, part: Part, size: Size, end: float) -> dict[str, Any]:
    start = time.monotonic()
    found: dict[str, Any] = {"title": title, "text": part.text, "is_grid": part.is_grid}
    found |= {"rows": [], "failed": [], "not_run": []}
    try:
        for name, outcome in _outcomes(part, size, end):
            if isinstance(outcome, NotRun):
                found["not_run"].append({"what": name, "reason": outcome.reason})
            elif isinstance(outcome, Failed):
                found["failed"].append({"what": name, "error": outcome.error})
            else:
                found["rows"].append({"what": name, **outcome})
    except Exception as error:  # of the part itself
        found["failed"].append({"what": "the part", "error": Failed.by(error).error})
    return found | {"seconds": round(time.monotonic() - start, 1)}


def _outcomes(part: Part, size: Size, end: float) -> Iterator[tuple[str, Row | NotRun | Failed]]:
    checks: dict[str, Check] = {}
    for name, check in part.checks(size).items():
        if isinstance(check, NotRun):
            yield name, check
        else:
            checks[name] = check
    if not part.is_grid or jax.default_backend() == "tpu":  # which one process can use
        for name, check in checks.items():
            yield name, NotRun(TIME_IS_UP) if time.monotonic() > end else _outcome(check)
        return
    workers = min(os.cpu_count() or 1, 8)
    with multiprocessing.get_context("spawn").Pool(workers, _begin) as pool:  # ends them
        waiting = {name: pool.apply_async(_outcome, [check]) for name, check in checks.items()}
        for name, result in waiting.items():
            try:
                yield name, result.get(max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                yield name, NotRun(TIME_IS_UP)


def _outcome(check: Check) -> Row | NotRun | Failed:
    try:
        return check()
    except Exception as error:
        return Failed.by(error)


def _begin() -> None:
    """In each process of a grid: on a CPU, the time would not suffice otherwise."""
    jax.config.update("jax_disable_most_optimizations", jax.default_backend() == "cpu")


def _device() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "kind": device.device_kind,
        "count": jax.device_count(),
        "memories": sorted(memory.kind for memory in device.addressable_memories()),
        "platform_version": device.client.platform_version,
        "driver": _driver() if device.platform == "gpu" else None,
        "flags": {name: os.environ.get(name, "") for name in ("JAX_PLATFORMS", "XLA_FLAGS")},
    }


def _driver() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    return f"NVIDIA {done.stdout.split()[0]}" if done.stdout.split() else None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
