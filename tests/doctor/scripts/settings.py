"""Settings that JAX reads when it is imported."""

import os

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "float32"
os.environ["JAX_TYPO"] = "1"

import jax
import jax.numpy as jnp

print(jnp.arange(2.0).dtype, jax.config.jax_default_matmul_precision, jax.__spec__.name)
