"""Validates canonopt on the devices that JAX finds, and writes a record of it.

python -m tools.validate [--out FOLDER] [--host-devices N] [--seconds N] [--quick]

Needs a checkout, and in its environment canonopt and what canonopt depends on. The exit status is 1
if an expectation is not met, if something failed, or if the time did not suffice for all of it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

RECORDS = Path(__file__).parents[2] / "docs" / "records"
_FLAG = "--xla_force_host_platform_device_count"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m tools.validate", description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder for the record")
    parser.add_argument(
        "--host-devices",
        type=int,
        default=8,
        help="how many devices the CPU is split into, unless XLA_FLAGS says it (default: 8)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=450,
        help="after which nothing more is begun: more than 450 if other jobs share the machine",
    )
    parser.add_argument("--quick", action="store_true", help="a few optimizers and short loops")
    options = parser.parse_args(arguments)
    # JAX reads these when it first looks for devices. The first one concerns the CPU only.
    if _FLAG not in (flags := os.environ.get("XLA_FLAGS", "")):
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}={options.host_devices}".strip()
    # Several processes share a GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    # These import JAX.
    from . import record, running

    # Without the folder, which says nothing about the device.
    command = "python -m tools.validate"
    for name, value in vars(options).items():
        if name != "out" and value != parser.get_default(name):
            command += f" --{name.replace('_', '-')}" + ("" if value is True else f" {value}")
    found = running.validate(command, options.seconds, is_quick=options.quick)
    path = record.write(found, options.out)
    print(record.summary(found), f"Written to {path}", sep="\n\n")
    return 0 if record.is_met(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
