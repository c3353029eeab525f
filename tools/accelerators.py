"""Compile a training step for TPUs and for H200s, with their own compilers, without the hardware.

```
pip install 'canonopt[accelerators,test]'
python -m tools.accelerators             # writes its part of docs/compile-table.md
python -m tools.accelerators v5e adam    # one target and one optimizer, and only prints
```

For each cell of the table, the script makes a state for parameters that are only shapes, compiles
a step for the target, and compares the step's outputs with its inputs: avals, weak types, shardings
and memory kinds. If they are the same, the next call runs the same program.
"""

import concurrent.futures
import importlib.metadata
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

# Set before the import of JAX, which looks for the devices of this machine.
os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-8",
    TPU_WORKER_HOSTNAMES="localhost",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",  # in several processes
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt
from tests.support import catalogue
from tests.support.placements import OPTIMIZERS, PLACEMENTS, build, offloaded

# The tables come after the marker in the page.
MARKER = "<!-- compiled for accelerators -->\n"
PAGE = Path(__file__).parents[1] / "docs" / "compile-table.md"

# The properties of the H200, from NVIDIA's data sheet and XLA's public specifications.
_H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 151397597184 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  device_vendor: "NVIDIA Corporation" platform_version: "Compute Capability 9.0a"
  device_address_bits: 64 name: "NVIDIA H200"
  driver_version: "12.8.0" runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0"
  dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H200"
"""

# Maps the name of a target to its title and to the arguments of `get_topology_desc`.
TARGETS: dict[str, tuple[str, dict[str, str]]] = {
    "v5e": ("TPU v5e, 2 x 4 chips", {"platform": "tpu", "topology_name": "v5e:2x4"}),
    "v5p": ("TPU v5p, 4 x 4 x 4 chips", {"platform": "tpu", "topology_name": "v5p:4x4x4"}),
    "h200": (
        "8 NVIDIA H200",
        {
            "platform": "cuda",
            "topology_name": "h200",
            "topology": "1x1x8",
            "target_config": _H200,
        },
    ),
}

SAME, OTHER = "●", "○"
# Sizes that the axes of each mesh divide evenly.
_IN, _OUT, _BATCH = 256, 128, 64


def moved(target: str, name: str, placement: str, library: str = "canonopt") -> list[str]:
    """Return the leaves whose type or placement a step changes: the path, before and after.

    With `library` "optax", the state comes from `optim.init` on the target under `jax.jit`.
    """
    devices = topologies.get_topology_desc(**TARGETS[target][1]).devices
    mesh = Mesh(np.array(devices).reshape(-1, 2), ("data", "model"))
    specs, batch, dtype, memory = PLACEMENTS[placement]

    def struct(shape: tuple[int, ...], dtype: Any, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    params = {
        "w": struct((_IN, _OUT), dtype, specs["w"]),
        "b": struct((_OUT,), jnp.float32, specs["b"]),
    }
    x = struct((_BATCH, _IN), jnp.float32, batch)
    optim = build(library, name)
    if library == "canonopt":
        state = canonopt.init_like_grads(params, catalogue.loss_fn, x, optim=optim)
    else:
        init = jax.jit(optim.init).trace(params)
        made = init.lower().compile().output_shardings
        whole = NamedSharding(mesh, P())
        state = jax.tree.map(
            # A leaf that depends on no parameter is compiled for a device of this machine.
            lambda leaf, s: leaf.update(sharding=s if s.device_set == whole.device_set else whole),
            init.out_info,
            made,
        )
    step, options = catalogue.step_for(name), {}
    if memory is not None:
        step, on_host, options = offloaded(step, params, state, memory)
        state = jax.tree.map(lambda leaf, there: leaf.update(sharding=there), state, on_host)
    traced = jax.jit(step, static_argnums=0, **options).trace(optim, params, state, x)
    compiled = traced.lower().compile()
    before = jax.tree_util.tree_leaves_with_path((params, state))
    after = jax.tree.leaves(traced.out_info)
    shardings = jax.tree.leaves(compiled.output_shardings)
    if jax.tree.structure(traced.out_info) != jax.tree.structure((params, state)):
        return ["structure"]
    return [
        f"{jax.tree_util.keystr(path)}: {found}"
        for (path, old), new, sharding in zip(before, after, shardings, strict=True)
        if (found := _difference(old, new, sharding))
    ]


def _difference(old: jax.ShapeDtypeStruct, new: Any, sharding: Any) -> str:
    kinds = [(old.shape, new.shape), (old.dtype, new.dtype), (old.weak_type, new.weak_type)]
    if not old.sharding.is_equivalent_to(sharding, len(old.shape)):
        kinds.append((old.sharding.spec, getattr(sharding, "spec", sharding)))
    kinds.append((old.sharding.memory_kind or "device", sharding.memory_kind or "device"))
    return ", ".join(f"{before} -> {after}" for before, after in kinds if before != after)


def cells_of(target: str, name: str) -> dict[tuple[str, str, str], str]:
    """Return for each placement of an optimizer `SAME`, or the leaves that moved, or the error."""
    found = {}
    for placement in PLACEMENTS:
        try:
            found[target, name, placement] = "; ".join(moved(target, name, placement)) or SAME
        except Exception as error:
            text = str(error).strip().splitlines()
            found[target, name, placement] = f"{type(error).__name__}: {text[0] if text else ''}"
    return found


def section(cells: dict[tuple[str, str, str], str]) -> str:
    """Return the part of the page that this script writes: a table for each target."""
    versions = ", ".join(
        f"{package} {importlib.metadata.version(package)}"
        for package in ("jax", "libtpu", "jax-cuda12-plugin", "optax")
    )
    same = sum(text == SAME for text in cells.values())
    parts = [
        f"""\
## Compiled for accelerators

Each step below was **compiled, not run**, with the compilers of the accelerators, on a machine that
has none ({versions}).
A dot says that avals, weak types, shardings and memory kinds come out of the step as they went in,
so the next call is the same program: {same} of {len(cells)}. The model and the state are
`jax.ShapeDtypeStruct`s, and the step names no shardings, unless the state lies on the host, where
random keys stay on the device. `tox -e accelerators` compiles all of it again."""
    ]
    for target, (title, _) in TARGETS.items():
        summary = f"<summary>{len(OPTIMIZERS)} optimizers</summary>"
        parts += ["", f"### {title}", "", f'<details markdown="1">{summary}', ""]
        parts.append(f"| optimizer | {' | '.join(PLACEMENTS)} |")
        parts.append("| --- |" + " :-: |" * len(PLACEMENTS))
        for name in OPTIMIZERS:
            row = [cells[target, name, placement] for placement in PLACEMENTS]
            dots = [text if text == SAME else OTHER for text in row]
            parts.append(f"| `{name}` | {' | '.join(dots)} |")
        parts += ["", "</details>"]
    others = {key: text for key, text in cells.items() if text != SAME}
    if others:
        parts += ["", "Where something differs:", ""]
        parts += [f"- {', '.join(key)}: `{text}`" for key, text in others.items()]
    return "\n".join(parts) + "\n"


def main(wanted: list[str]) -> None:
    targets = [target for target in TARGETS if target in wanted] or [*TARGETS]
    names = [name for name in OPTIMIZERS if name in wanted] or [*OPTIMIZERS]
    if unknown := {*wanted} - {*targets, *names}:
        sys.exit(f"neither a target nor an optimizer: {', '.join(sorted(unknown))}")
    if not moved(targets[0], "adafactor", "fsdp", "optax"):
        sys.exit("adafactor's own init should not fit: the comparison sees nothing")
    pairs = [(target, name) for target in targets for name in names]
    cells: dict[tuple[str, str, str], str] = {}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), context) as pool:
        for found in pool.map(cells_of, *zip(*pairs, strict=True)):
            cells |= found
            for key, text in found.items():
                print(*key, text, flush=True)
    if not wanted:
        above = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
        text = f"{above.rstrip()}\n\n{MARKER}\n{section(cells)}"
        PAGE.write_text(text, encoding="utf-8")
    sys.exit(any(text != SAME for text in cells.values()))


if __name__ == "__main__":
    main(sys.argv[1:])
