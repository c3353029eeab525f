"""Writes docs/compile-table.md: how often a step is compiled, by optimizer and kind of parameters.

python -m tools.compile_table [path of another page]
"""

import importlib.metadata
import os
import sys
from collections.abc import Callable
from pathlib import Path

# JAX reads this when it first looks for devices. Without an accelerator, it splits the CPU.
if os.environ.get("JAX_PLATFORMS", "") in ("", "cpu"):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 " + os.environ.get(
        "XLA_FLAGS", ""
    )

import jax

from tests.support.placements import COLUMNS, LIBRARIES, OPTIMIZERS, measure, mesh

# What comes after this in the page is written by `tools.accelerators`.
MARKER = "<!-- compiled for accelerators -->\n"
PAGE = Path(__file__).parents[1] / "docs" / "compile-table.md"

# By library, optimizer and kind: "traces/compiles", or the name of an error.
Cells = dict[tuple[str, str, str], str]

_TEXT = """\
# What compiles how often

**You see:** a step is traced or compiled again in its second call, with some optimizers and models
and not with others.

**You write** `canonopt.canonicalize`, `init_like_grads` and `apply_updates`, as on
[My step compiles twice](my-step-compiles-twice.md).

**Why:** the table has how often a step is **traced/compiled** in four calls: canonopt · plain
optax. More than 1/1 is an unnecessary second compile.

| | traced once and compiled once |
| --- | --- |
| `canonopt.canonicalize`, `init_like_grads` and `apply_updates` | {canonopt} of {total} |
| `optim.init` and `equinox.apply_updates` | {optax} of {total} |

Measured on {devices}, with {versions}. The optimizers are those of
`tests/support/placements.py`, the parameters a matrix and a vector. Compiles are counted with
`jax.monitoring`. `python -m tools.compile_table` measures again.

{table}

- mixed bf16/f32: the matrix is bf16, the vector f32.
- mixed, Equinox step: the same in an Equinox module, under `equinox.filter_jit`. The step ends with
  `canonopt.apply_updates` · `equinox.apply_updates`, in the other columns with
  `optax.apply_updates`.
- weakly typed: made with `jnp.full(shape, 0.5)`.
- committed: put on a device with `jax.device_put`.
- replicated, sharded: on a mesh of {mesh} devices.

On a mesh the compiler chooses the shardings of the results, unless the step names them. A
replicated parameter may come back sharded, like another one: a second compile with any optimizer,
also with SGD, which has no state. `jax.jit(step, out_shardings=...)` with the shardings of the
arguments prevents it. The same may happen to a leaf of the state that matches no parameter, if the
loss determines the sharding of the gradient, since `init_like_grads` compiles no loss. Of all
tried, this concerns `contrib.galore` on a mesh of one axis that shards every parameter: 1/2 with
canonopt, 2/2 with plain optax.
"""


def measured(note: Callable[[str], object]) -> Cells:
    cells = {}
    for name in OPTIMIZERS:
        for library in LIBRARIES:
            for kind in COLUMNS:
                cells[library, name, kind] = _cell(library, name, kind)
            row = " ".join(cells[library, name, kind] for kind in COLUMNS)
            note(f"{name:30} {library:9} {row}")
    return cells


def _cell(library: str, name: str, kind: str) -> str:
    try:
        return "{}/{}".format(*measure(library, name, kind))
    except Exception as error:  # a device may be unable to run an optimizer
        return type(error).__name__


def page(cells: Cells) -> str:
    rows = [["optimizer", *COLUMNS], ["---"] * (len(COLUMNS) + 1)]
    for name in OPTIMIZERS:
        row = [" · ".join(cells[library, name, kind] for library in LIBRARIES) for kind in COLUMNS]
        rows.append([f"`{name}`", *row])
    once = {
        library: sum(cells[library, name, kind] == "1/1" for name in OPTIMIZERS for kind in COLUMNS)
        for library in LIBRARIES
    }
    return _TEXT.format(
        **once,
        total=len(OPTIMIZERS) * len(COLUMNS),
        devices=_devices(),
        versions=", ".join(
            f"{package} {importlib.metadata.version(package)}"
            for package in ("jax", "optax", "equinox")
        ),
        mesh=" x ".join(map(str, mesh().axis_sizes)),
        table="\n".join(f"| {' | '.join(row)} |" for row in rows),
    )


def _devices() -> str:
    device, count = jax.devices()[0], jax.device_count()
    kind = device.device_kind
    platform = device.platform.upper()
    name = platform if kind == device.platform else f"{kind} ({platform})"
    return f"{count} {name} device{'s' if count > 1 else ''}"


def main(path: Path = PAGE) -> None:
    _, marker, below = PAGE.read_text(encoding="utf-8").partition(MARKER)
    path.write_text(f"{page(measured(print))}\n{marker}{below}", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
