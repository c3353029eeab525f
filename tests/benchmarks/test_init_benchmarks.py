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

from ..support.timing import ratio, timed

ROOT = pathlib.Path(__file__).parents[2]
LBFGS = functools.partial(canonopt.lbfgs, 1e-3, memory_size=2)
FACTORED = functools.partial(canonopt.adafactor, 1e-3, min_dim_size_to_factor=8)


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


def its_parts(optim, params, asked=(), traces=1):
    """`optim.init`, and the loss and the update traced for shapes.

    Where the fixed point takes more, with as many traces of the update.
    """
    value = jnp.zeros(())
    from_loss = {"value": value, "grad": params, "value_fn": lambda params: value}
    extra_args = {name: from_loss[name] for name in asked}

    def new_update():
        return lambda grads, state, params: optim.update(grads, state, params, **extra_args)[1]

    def run():
        state = jax.block_until_ready(optim.init(params))
        grads = jax.eval_shape(jax.grad(new_loss()), params)
        for _ in range(traces):
            state = jax.eval_shape(new_update(), grads, state, params)

    return run


def compare_time(optim, params, rounds, benchmark, **what_it_takes):
    ours, parts = our_init(optim, params), its_parts(optim, params, **what_it_takes)
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


@pytest.mark.parametrize(
    "build, place, what_it_takes",
    [
        # Refused without what it asks for, which is seen on one leaf.
        (LBFGS, plain, {"asked": ("value", "grad", "value_fn")}),
        # Its scalars widen, these its moments, and only a third trace sees that it is at rest.
        (canonopt.contrib.prodigy, mixed, {"traces": 3}),
        # Only the compiler knows where its memory is, or its factors.
        (functools.partial(LBFGS, linesearch=None), on_mesh, {}),
        (functools.partial(canonopt.sm3, 1e-3), on_mesh, {}),
        (FACTORED, on_mesh, {}),
    ],
)
def test_time_where_more_is_to_be_found_out(build, place, what_it_takes, benchmark, report):
    # A compile of one leaf for each shape does not grow with the number of leaves.
    leaves, rounds = (1_000, 3) if place is on_mesh else (100, 7)
    optim, params = build(), place(leaves, (8, 8))
    measured = compare_time(optim, params, rounds, benchmark, **what_it_takes)
    what = f"state of {type(optim).__name__.lower()}, {leaves} leaves, {place.__name__}"
    report.ratios(what, [measured], limit=1.5)


@pytest.mark.parametrize("build, place", [(canonopt.adam, plain), (canonopt.sm3, on_mesh)])
def test_time_grows_linearly(build, place, benchmark, report):
    optim = build(1e-3)
    large, small = (our_init(optim, place(leaves)) for leaves in (10_000, 100))
    benchmark.pedantic(small)
    per_leaf_large, per_leaf_small = timed(large, 1), timed(small, 3)
    measured = ratio(lambda: per_leaf_large() / 10_000, lambda: per_leaf_small() / 100, rounds=3)
    what = f"{build.__name__}, {place.__name__}: time for a leaf of 10,000, against one of 100"
    report.ratios(what, [measured], limit=1.5)


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
peak = megabytes("VmHWM") - before
new = [leaf for leaf in jax.tree.leaves(state) if not any(leaf is param for param in params)]
print(peak, sum(shard.data.nbytes for leaf in new for shard in leaf.addressable_shards) / 2**20)
"""


def memory(how, place, optim):
    """The megabytes that a state of 20 x 8 MB of parameters adds at its peak, and its own."""
    command = [sys.executable, "-c", GROWTH, how, place.__name__, repr(optim)]
    # What is freed goes back to the system, and is not kept for a leaf of the same size.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment
    )
    peak, own = map(float, done.stdout.split())
    return peak, own


def report_memory(what, ratio, ours, theirs, report):
    note = f"{ours:.0f} MB against {theirs:.0f} MB"
    report.figure(f"peak memory of {what}", f"{ratio:.3f}", "<= 1.05", note)
    assert ratio <= 1.05, f"{what}: {ratio:.3f}, {note}"


needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="needs Linux's /proc"
)


@needs_proc
@pytest.mark.parametrize("place", [plain, mixed, on_device, on_mesh])
def test_peak_memory(place, benchmark, report):
    optim = canonopt.adam(1e-3)
    ours, theirs = (
        functools.partial(memory, how, place, optim) for how in ("init_like_grads", "init")
    )
    benchmark.pedantic(ours)
    measured = ratio(lambda: ours()[0], lambda: theirs()[0], rounds=3)
    report_memory(f"adam, {place.__name__}", *measured, report)


@needs_proc
@pytest.mark.parametrize(
    "build, place",
    [(canonopt.contrib.prodigy, mixed), (functools.partial(LBFGS, linesearch=None), on_mesh)],
)
def test_peak_memory_of_another_state_than_init_makes(build, place, benchmark, report):
    """Against the state itself, which is wider, or has memory where `init` has unwritten zeros."""
    optim = build()
    peak, own = benchmark.pedantic(memory, ("init_like_grads", place, optim))
    report_memory(
        f"{type(optim).__name__.lower()}, {place.__name__}", peak / own, peak, own, report
    )
