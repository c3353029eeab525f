"""What a process costs that `canonopt doctor` watches: cached calls, compiles, memory."""

import sys

import pytest

from ..support.timing import ratio
from .conftest import SERVES, serving

PYTHON = [sys.executable, "-c"]
DOCTOR = [sys.executable, "-m", "canonopt", "doctor", "--", *PYTHON]
LIMIT_MB = 30

SERVER = """
import time
import equinox as eqx, jax, jax.numpy as jnp, optax
{imports}
optim = optax.adam(1e-3)
model = eqx.nn.MLP(8, 1, 64, depth=4, key=jax.random.key(0))
params, static = eqx.partition(model, eqx.is_inexact_array)
state = optim.init(params)

def new_step():
    @jax.jit
    def step(params, state, x):
        def loss_fn(params):
            return jnp.mean(jax.vmap(eqx.combine(params, static))(x) ** 2)
        updates, new_state = optim.update(jax.grad(loss_fn)(params), state, params)
        return optax.apply_updates(params, updates), new_state
    return step

step, batch = new_step(), jnp.ones((4, 8))

def cached():
    start = time.perf_counter()
    for _ in range(200):
        jax.block_until_ready(step(params, state, batch))
    return (time.perf_counter() - start) / 200

def compiles():
    fresh, batches = new_step(), [jnp.ones((n, 8)) for n in (1, 2, 3)]
    start = time.perf_counter()
    for batch in batches:
        jax.block_until_ready(fresh(params, state, batch))
    return time.perf_counter() - start

def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * 4096 / 2**20

cached(), compiles()
"""


def server(command, imports=""):
    return serving([*command, SERVER.format(imports=imports) + SERVES])


@pytest.mark.parametrize(
    ("what", "name", "rounds", "limit"),
    [
        ("cached", "a cached call of a step", 41, 1.03),
        ("compiles", "three compiles of a step", 9, 1.05),
    ],
)
def test_a_watched_process(what, name, rounds, limit, benchmark, report):
    def measure():
        # New processes each time, for two processes of one program differ by a hundredth.
        with server(DOCTOR) as watched, server(PYTHON) as plain:
            return ratio(lambda: watched.ask(what), lambda: plain.ask(what), rounds)

    measured = [measure() for _ in range(3)]
    benchmark.pedantic(lambda: None)
    report.ratios(f"canonopt doctor: {name}", measured, limit)


def test_the_memory_of_a_watched_process(benchmark, report):
    def resident(command, imports=""):
        with server(command, imports) as process:
            for _ in range(5):
                process.ask("compiles")
            return process.ask("resident")

    plain, imported, watched = (
        resident(PYTHON),
        resident(PYTHON, "import canonopt"),
        resident(DOCTOR),
    )
    benchmark.pedantic(lambda: None)
    added = watched - imported
    note = f"{plain:.0f} MB unwatched, {imported:.0f} MB with `import canonopt`"
    report.figure("canonopt doctor: memory", f"+{added:.1f} MB", f"<= {LIMIT_MB} MB", note)
    assert added <= LIMIT_MB, note
