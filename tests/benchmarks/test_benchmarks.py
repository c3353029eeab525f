"""What canonopt costs, as ratios to optax and equinox measured in the same run.

    python -m pytest tests/benchmarks

Asserts the limits that RESULTS.md lists. Not part of the suite, since time is shared.
"""

import functools
import itertools
import os
import random
import statistics
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

from ..support.timing import interleaved, ratio, seconds, timed

# --- building a configuration that was seen before ----------------------------------------------


def adam(library):
    return library.adam(1e-3)


def adamw(library):
    return library.adamw(1e-3, weight_decay=1e-2)


def chain(library):
    schedule = library.warmup_cosine_decay_schedule(0.0, 1e-3, 100, 1000)
    return library.chain(library.clip_by_global_norm(1.0), library.adamw(schedule))


def adamw_with_a_mask(library):
    return library.adamw(1e-3, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params))


def adamw_with_a_mask_that_captures(library, ndim=1):
    return library.adamw(1e-3, mask=lambda params: jax.tree.map(lambda p: p.ndim > ndim, params))


def sgd_with_a_schedule(library):
    return library.sgd(lambda count: 0.1 * jnp.exp(-count))


WITH_FUNCTIONS = [adamw_with_a_mask, adamw_with_a_mask_that_captures, sgd_with_a_schedule]


@pytest.mark.parametrize("build", WITH_FUNCTIONS)
def test_building_again_with_a_function_of_the_user(build, benchmark, report):
    seen = build(canonopt)
    assert benchmark(build, canonopt) is seen
    ours, theirs = (timed(functools.partial(build, lib), 100) for lib in (canonopt, optax))
    # A function is read in full at each build: 25 to 35 us.
    report.ratios(f"building {build.__name__} again", [ratio(ours, theirs, 1000)], limit=12.0)


@pytest.mark.parametrize(("build", "limit"), [(adam, 0.15), (adamw, 0.2), (chain, 0.25)])
def test_building_again(build, limit, benchmark, report):
    seen = build(canonopt)
    assert benchmark(build, canonopt) is seen
    ours, theirs = (timed(functools.partial(build, lib), 100) for lib in (canonopt, optax))
    report.ratios(f"building {build.__name__} again", [ratio(ours, theirs, 1000)], limit=limit)


def adam_at(library, rate):
    return library.adam(rate)


def chain_at(library, rate):
    return library.chain(library.clip_by_global_norm(1.0), library.adamw(rate))


@pytest.mark.parametrize("build", [adam_at, chain_at])
def test_building_a_new_configuration(build, benchmark, report):
    rates = itertools.count(1.0)
    keep = canonopt.clip_by_global_norm(1.0)
    benchmark(lambda: build(canonopt, next(rates)))
    # With the garbage collector, because it frees the specs, and reference counts free Optax's.
    ours, theirs = (
        timed(lambda lib=lib: build(lib, next(rates)), 200, collects=True)
        for lib in (canonopt, optax)
    )
    name = build.__name__.removesuffix("_at")
    report.ratios(f"building {name} with a new rate", [ratio(ours, theirs, 200)], limit=16.0)
    del keep


# --- a jitted step ------------------------------------------------------------------------------


def make_step():
    def step(optim, params, opt_state):
        grads = jax.grad(lambda params: sum(jnp.sum((p - 1) ** 2) for p in params))(params)
        updates, opt_state = optim.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step


def closed_over(optim):
    return jax.jit(functools.partial(make_step(), optim))


def static(optim):
    return functools.partial(jax.jit(make_step(), static_argnums=0), optim)


def argument(optim):
    return functools.partial(jax.jit(make_step()), optim)


@pytest.mark.parametrize("leaves, number, compiles", [(10, 20, 24), (500, 1, 8)])
@pytest.mark.parametrize("pass_spec", [closed_over, static, argument])
def test_jitted_step(pass_spec, leaves, number, compiles, benchmark, report):
    params = [jnp.full(8, i, jnp.float32) for i in range(leaves)]
    opt_state = optax.adam(1e-3).init(params)

    def compiled(make, optim):
        step = make(optim)
        call = lambda: jax.block_until_ready(step(params, opt_state))  # noqa: E731
        call()
        return call

    def measure(ours_first):
        # Two equal programs in one process differ by some percent, and the one compiled first is
        # the faster one more often. So each is compiled many times, first and second in turn.
        kinds = [(pass_spec, canonopt.adam(1e-3)), (closed_over, optax.adam(1e-3))]
        calls = [compiled(*kind) for kind in (kinds if ours_first else reversed(kinds))]
        ours, theirs = calls if ours_first else reversed(calls)
        return ratio(timed(ours, number), timed(theirs, number), rounds=100)

    measured = [measure(ours_first) for ours_first in (True, False) * (compiles // 2)]
    benchmark(compiled(pass_spec, canonopt.adam(1e-3)))
    what = f"step of {leaves} leaves, spec as {pass_spec.__name__.replace('_', ' ')}"
    report.ratios(what, measured, limit=1.02)


# --- importing ----------------------------------------------------------------------------------


def importing(modules):
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"

    def sample():
        command = [sys.executable, "-c", code]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return sample


def test_importing(benchmark, report):
    ours, theirs = importing("canonopt"), importing("optax, equinox")
    benchmark.pedantic(ours, warmup_rounds=1)
    # What else the machine does only ever adds to an import.
    samples = interleaved(ours, theirs, rounds=11)
    ours, theirs = map(min, samples)
    report.ratios("importing", [(ours / theirs, ours, theirs)], limit=1.10)


# --- many threads, many configurations ------------------------------------------------------------


def test_64_threads_get_one_object_each(benchmark, report):
    rounds = iter(range(100))

    def new_rates():
        first = next(rounds)
        return ([(first + i / 1000) * 1e-3 for i in range(1000)],), {}

    def build_in_threads(rates):
        built = {rate: [] for rate in rates}
        start = threading.Barrier(64)

        def build():
            mine = random.sample(rates, len(rates))
            start.wait()
            for rate in mine:
                built[rate].append(canonopt.adam(rate))

        threads = [threading.Thread(target=build) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(len(specs) == 64 and len(set(map(id, specs))) == 1 for specs in built.values())

    benchmark.pedantic(build_in_threads, setup=new_rates, rounds=5)
    times = benchmark.stats.stats.data
    report.figure("64 threads x 1,000 new configurations", seconds(statistics.median(times)))


# In a process of its own: the free memory that other benchmarks leave behind would hide a leak.
BUILD_AND_DROP = """
import gc
import time

import canonopt


def build_and_drop(start, stop):
    for i in range(start, stop):
        canonopt.adam(i * 1e-9)
    gc.collect()


def resident_kilobytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


build_and_drop(0, 10_000)  # what Python and jax allocate once
before = resident_kilobytes()
start = time.perf_counter()
build_and_drop(10_000, 1_010_000)
print(before / 1024, (resident_kilobytes() - before) / 1024, time.perf_counter() - start)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_a_million_configurations_leave_memory_flat(benchmark, report):
    command = [sys.executable, "-c", BUILD_AND_DROP]
    run = functools.partial(subprocess.run, command, check=True, capture_output=True, text=True)
    before, growth, duration = map(float, benchmark.pedantic(run).stdout.split())
    note = f"{before:.0f} MB before, {seconds(duration)}"
    report.figure(
        "1,000,000 configurations, built and dropped", f"{growth:+.1f} MB", "<= 8 MB", note
    )
    # A table that kept as little as a pointer for each would be past this.
    assert growth <= 8
