"""How XLA compiles the programs of the tests.

Most of the time of the tests goes into compiling, of which the fusion emitters take two thirds. So
they are off, unless `CANONOPT_DEFAULT_XLA` is set, as tox does for the suite. Nothing here imports
JAX, which reads the flags when it first looks for devices.
"""

import os

import jaxlib.version

# A version that does not know the flag ends the process.
_KNOWS_EMITTERS = jaxlib.version.__version_info__ < (0, 11)
_QUICK = _KNOWS_EMITTERS and "CANONOPT_DEFAULT_XLA" not in os.environ

FLAGS = ["--xla_force_host_platform_device_count=8"]
if _QUICK:
    FLAGS += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]

# Options of `jax.jit` for a program whose last bits count: it is compiled as for users.
AS_FOR_USERS: dict[str, bool] = {"xla_cpu_use_fusion_emitters": True} if _QUICK else {}
