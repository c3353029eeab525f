"""What `init_like_grads` costs beside `optim.init`: time and memory, measured in the same run."""

import functools
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import canonopt

from .conftest import ratio, timed

ROOT = pathlib.Path(__file__).parents[2]
LBFGS = functools.partial(canonopt.lbfgs, 1e-3, memory_size=2)


def loss_fn(params):
    return sum(jnp.sum((p.astype(jnp.float32) - 1) ** 2) for p in params)


def plain(leaves, shape=(8,)):
    return [jnp.full(shape, i, jnp.float32) for i in range(leaves)]


def mixed(leaves, shape=(8,)):
    first, *rest = plain(leaves, shape)
    return [first, *(leaf.astype(jnp.bfloat16) for leaf in rest)]


def on_device(leaves, shape=(8,)):
    return jax.device_put(plain(leaves, shape), jax.devices()[0])


def on_mesh(leaves, shape=(8,)):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    return jax.device_put(plain(leaves, shape), NamedSharding(mesh, PartitionSpec("data")))


# --- time -----------------------------------------------------------------------------------------


def new_loss():
    """A function of its own for each call, or jax would remember the trace."""
    return lambda params: loss_fn(params)


def our_init(optim, params):
    return lambda: jax.block_until_ready(canonopt.init_like_grads(params, new_loss(), optim=optim))


def its_parts(optim, params, extra_args):
    """`optim.init`, and the loss and the update traced for shapes: each once."""

    def run():
        def update(grads, state, params):
            return optim.update(grads, state, params, **extra_args)[1]

        state = jax.block_until_ready(optim.init(params))
        grads = jax.eval_shape(jax.grad(new_loss()), params)
        jax.eval_shape(update, grads, state, params)

    return run


def compare_time(optim, params, rounds, benchmark, extra_args=None):
    ours, parts = our_init(optim, params), its_parts(optim, params, extra_args or {})
    benchmark.pedantic(ours)
    return ratio(timed(ours, 1), timed(parts, 1), rounds)


@pytest.mark.parametrize(
    "place, leaves, rounds",
    [
        (plain, 100, 21),
        (plain, 1_000, 7),
        (plain, 10_000, 3),
        (on_device, 1_000, 5),
        (on_mesh, 1_000, 5),
    ],
)
def test_time(place, leaves, rounds, benchmark, report):
    measured = compare_time(canonopt.adam(1e-3), place(leaves), rounds, benchmark)
    report.ratios(f"state of {leaves} leaves, {place.__name__}", [measured], limit=1.5)


# The limit is missed here. A test that comes to pass fails for its mark, which then goes.
@pytest.mark.xfail(reason="the update is traced again, or compiled", raises=AssertionError)
@pytest.mark.parametrize(
    "build, place, asked",
    [
        # Traced anew for each widening.
        (canonopt.contrib.prodigy, mixed, ()),
        # For what it asks for, which its error says.
        (LBFGS, plain, ("value", "grad", "value_fn")),
        # Once, but compiled.
        (functools.partial(LBFGS, linesearch=None), on_mesh, ()),
    ],
)
def test_time_where_more_is_to_be_found_out(build, place, asked, benchmark, report):
    optim, params = build(), place(100)
    value = jnp.zeros(())
    from_loss = {"value": value, "grad": params, "value_fn": lambda params: value}
    extra_args = {name: from_loss[name] for name in asked}
    measured = compare_time(optim, params, 7, benchmark, extra_args)
    what = f"state of {type(optim).__name__.lower()}, 100 leaves, {place.__name__}"
    report.ratios(what, [measured], limit=1.5)


def test_time_grows_linearly(benchmark, report):
    optim = canonopt.adam(1e-3)
    large, small = (our_init(optim, plain(leaves)) for leaves in (10_000, 100))
    benchmark.pedantic(small)
    per_leaf_large, per_leaf_small = timed(large, 1), timed(small, 3)
    measured = ratio(lambda: per_leaf_large() / 10_000, lambda: per_leaf_small() / 100, rounds=3)
    report.ratios("time for a leaf of 10,000, against one of 100", [measured], limit=1.5)


# --- memory ---------------------------------------------------------------------------------------

# Not `resource.getrusage`: its peak includes that of the parent, from before this process began.
GROWTH = """
import sys

import jax

import canonopt
from tests.benchmarks import test_init_benchmarks as benchmarks


def megabytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024


how, place, optim = sys.argv[1:]
optim = eval(optim)
params = jax.block_until_ready(getattr(benchmarks, place)(20, (1000, 2000)))
before = megabytes("VmRSS")
if how == "init_like_grads":
    state = canonopt.init_like_grads(params, benchmarks.loss_fn, optim=optim)
else:
    state = optim.init(params)
jax.block_until_ready(state)
print(megabytes("VmHWM") - before)
"""


def peak_growth(how, place, optim):
    """Samples of the megabytes that a state of 20 x 8 MB of parameters adds at its peak."""
    command = [sys.executable, "-c", GROWTH, how, place.__name__, repr(optim)]
    run = functools.partial(subprocess.run, check=True, capture_output=True, text=True, cwd=ROOT)
    return lambda: float(run(command).stdout)


def compare_memory(optim, place, benchmark, report):
    ours, theirs = (peak_growth(how, place, optim) for how in ("init_like_grads", "init"))
    benchmark.pedantic(ours)
    middle, ours, theirs = ratio(ours, theirs, rounds=3)
    what = f"peak memory of {type(optim).__name__.lower()}, {place.__name__}"
    report.figure(what, f"{middle:.3f}", "<= 1.05", f"{ours:.0f} MB against {theirs:.0f} MB")
    assert middle <= 1.05, f"{what}: {middle:.3f}, {ours:.0f} MB against {theirs:.0f} MB"


needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="needs Linux's /proc"
)


@needs_proc
@pytest.mark.parametrize("place", [plain, mixed, on_device, on_mesh])
def test_peak_memory(place, benchmark, report):
    compare_memory(canonopt.adam(1e-3), place, benchmark, report)


@needs_proc
@pytest.mark.xfail(
    reason="the state is made anew where it is wider or spread", raises=AssertionError
)
@pytest.mark.parametrize(
    "build, place",
    [(canonopt.contrib.prodigy, mixed), (functools.partial(LBFGS, linesearch=None), on_mesh)],
)
def test_peak_memory_of_another_state_than_init_makes(build, place, benchmark, report):
    compare_memory(build(), place, benchmark, report)
