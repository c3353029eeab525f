"""Set how XLA compiles the programs of the tests.

Compiling takes most of the time of the tests, so XLA optimizes as little as it can, unless
`CANONOPT_DEFAULT_XLA` is set, as tox does for the suite. Nothing here imports JAX, which reads the
settings when it is imported or first looks for devices.
"""

import os

_QUICK = "CANONOPT_DEFAULT_XLA" not in os.environ

# Options of `jax.jit` to compile a program as for users, if the last bits of results matter.
AS_FOR_USERS: dict[str, int | bool] = (
    {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
    if _QUICK
    else {}
)


def set_up() -> None:
    """Set the environment for this process and those that it starts."""
    flags = os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8"
    os.environ["XLA_FLAGS"] = " ".join(flags)
    if _QUICK:
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
