"""What dynamic hyperparameters save in a sweep, and what they cost in a step."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt

from ..support.timing import ratio, timed
from .test_benchmarks import make_step

RATES = np.geomspace(1e-4, 1e-1, 20).tolist()


def parameters(leaves):
    return [jnp.full((16, 16), i, jnp.float32) for i in range(leaves)]


# --- a sweep --------------------------------------------------------------------------------------


def rebuilt_optax(rates, steps):
    # A transformation of optax's cannot be an ordinary argument of `jax.jit`.
    step = jax.jit(make_step(), static_argnums=0)
    for rate in rates:
        optim, params = optax.adamw(rate), parameters(6)
        opt_state = optim.init(params)
        for _ in range(steps):
            params, opt_state = step(optim, params, opt_state)
    jax.block_until_ready(params)


def rebuilt_specs(rates, steps):
    step = jax.jit(make_step())
    for rate in rates:
        optim, params = canonopt.adamw(canonopt.dynamic(rate)), parameters(6)
        opt_state = optim.init(params)
        for _ in range(steps):
            params, opt_state = step(optim, params, opt_state)
    jax.block_until_ready(params)


def one_program(rates, steps):
    step = jax.jit(jax.vmap(make_step()))
    optim = canonopt.adamw(canonopt.dynamic(rates))
    params = [jnp.stack([leaf] * len(rates)) for leaf in parameters(6)]
    opt_state = jax.vmap(lambda optim, params: optim.init(params))(optim, params)
    for _ in range(steps):
        params, opt_state = step(optim, params, opt_state)
    jax.block_until_ready(params)


@pytest.mark.parametrize("sweep", [rebuilt_specs, one_program])
def test_sweep(sweep, benchmark, report):
    def seconds(run):
        # Each run compiles its own step: a new function is a new program to `jax.jit`.
        start = time.perf_counter()
        run(RATES, 20)
        return time.perf_counter() - start

    seconds(lambda rates, steps: rebuilt_optax(rates[:1], 1))
    benchmark.pedantic(lambda: seconds(sweep))
    measured = ratio(lambda: seconds(sweep), lambda: seconds(rebuilt_optax), rounds=3)
    what = f"sweep of {len(RATES)} values, {sweep.__name__.replace('_', ' ')}, against optax"
    report.ratios(what, [measured], limit=0.1)


# --- a step ---------------------------------------------------------------------------------------


def static(*names):
    return canonopt.adamw(1e-3)


def dynamic(*names):
    return canonopt.dynamic(canonopt.adamw(1e-3), *names)


@pytest.mark.parametrize("leaves, number, compiles", [(10, 20, 24), (500, 1, 8)])
@pytest.mark.parametrize(
    "names",
    [
        ("lr",),
        ("lr", "weight_decay"),
        pytest.param(
            ("lr", "b1", "b2", "weight_decay"),
            # Four runs gave 1.026 to 1.041. RESULTS.md says where the time goes.
            marks=pytest.mark.xfail(reason="eight more arrays for jit to take", strict=False),
        ),
    ],
)
def test_step(names, leaves, number, compiles, benchmark, report):
    params = [jnp.full(8, i, jnp.float32) for i in range(leaves)]
    opt_state = optax.adamw(1e-3).init(params)

    def compiled(build):
        step, optim = jax.jit(make_step()), build(*names)
        # As in a sweep, where all specs but the first are others than the one that was compiled.
        step(build(*names), params, opt_state)
        return lambda: jax.block_until_ready(step(optim, params, opt_state))

    def measure(ours_first):
        # Two equal programs in one process differ by some percent, and the one compiled first is
        # the faster one more often.
        calls = [
            compiled(build) for build in ((dynamic, static) if ours_first else (static, dynamic))
        ]
        ours, theirs = calls if ours_first else reversed(calls)
        return ratio(timed(ours, number), timed(theirs, number), rounds=100)

    measured = [measure(ours_first) for ours_first in (True, False) * (compiles // 2)]
    benchmark(compiled(dynamic))
    what = f"step of {leaves} leaves, {len(names)} dynamic, against Python numbers"
    report.ratios(what, measured, limit=1.03)


def test_building(benchmark, report):
    rates = iter(np.linspace(1e-4, 1e-1, 1_000_000).tolist())
    benchmark(lambda: canonopt.adamw(canonopt.dynamic(next(rates))))
    ours = timed(lambda: canonopt.adamw(canonopt.dynamic(next(rates))), 20)
    theirs = timed(lambda: optax.adamw(next(rates)), 20)
    middle, ours, theirs = ratio(ours, theirs, rounds=101)
    note = f"{ours * 1e6:.0f} us against {theirs * 1e6:.1f} us"
    report.figure(
        "building adamw with another dynamic value, against optax", f"{middle:.0f}", note=note
    )
