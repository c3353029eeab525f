"""Time calls and training runs, beside plain JAX, Equinox and Optax."""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import canonopt
from tests.support.placements import LIBRARIES
from tests.support.timing import deep, flat_step, loop, plus_one, ratio, timed

from .checks import SAME, Check, Row, Size, numbers_of

# What is allowed of times: of a step with a spec beside one with Optax's transformation, and of
# `canonopt.filter_jit` beside `jax.jit` on a flat list.
STEP_RATIO = 1.1
FLAT_RATIO = 4.0


def dispatch(size: Size) -> Mapping[str, Check]:
    checks: dict[str, Check] = {}
    for leaves in size.leaves:
        checks[f"spec, Optax: {leaves} leaves"] = functools.partial(_specs, leaves, size.rounds)
        checks[f"canonopt.filter_jit, equinox.filter_jit: {leaves} leaves"] = functools.partial(
            _loops, leaves, size.rounds, lambda step, state: loop(eqx.filter_jit(step), state), 1.0
        )
        checks[f"canonopt.filter_jit, flat jax.jit: {leaves} leaves"] = functools.partial(
            _loops, leaves, size.rounds, flat_step, FLAT_RATIO
        )
    return checks


def _ratio_row(measured: Sequence[tuple[float, float, float]], limit: float) -> Row:
    found, ours, theirs = map(statistics.median, zip(*measured, strict=True))
    return {
        "canonopt, us": ours * 1e6,
        "beside, us": theirs * 1e6,
        "ratio": found,
        "expected": f"<= {limit}",
        "met": found <= limit,
    }


def _calls(leaves: int) -> int:
    return max(3, 1_000 // leaves)


def _specs(leaves: int, rounds: int) -> Row:
    params = [jnp.full(8, i, jnp.float32) for i in range(leaves)]

    def compiled(library: Any) -> Callable[[], object]:
        optim = library.sgd(1e-3, momentum=0.9)

        def step(optim: Any, params: Any, opt_state: Any) -> Any:
            updates, opt_state = optim.update(params, opt_state, params)
            return optax.apply_updates(params, updates), opt_state

        jitted, opt_state = jax.jit(step, static_argnums=0), optim.init(params)
        return lambda: jax.block_until_ready(jitted(optim, params, opt_state))

    measured = []
    # Two equal programs in one process differ by some percent, and the one compiled first is often
    # the faster one. So each is compiled several times, first and second in turn.
    for turn in range(2 if leaves > 100 else 8):
        order = reversed(LIBRARIES) if turn % 2 else LIBRARIES
        calls = {library: compiled(LIBRARIES[library]) for library in order}
        samples = {library: timed(call, _calls(leaves)) for library, call in calls.items()}
        for call in calls.values():
            call()
        measured.append(ratio(samples["canonopt"], samples["optax"], rounds))
    return _ratio_row(measured, STEP_RATIO)


def _loops(leaves: int, rounds: int, other: Callable, limit: float) -> Row:
    def step(state: Any) -> tuple[Any]:
        return (plus_one(state),)

    ours, theirs = loop(canonopt.filter_jit(step), (deep(leaves),)), other(step, (deep(leaves),))
    samples = timed(ours, _calls(leaves)), timed(theirs, _calls(leaves))
    return _ratio_row([ratio(*samples, rounds)], limit)


def training(size: Size) -> Mapping[str, Check]:
    return {
        "canonopt.adamw": functools.partial(_training, eqx.filter_jit, eqx.apply_updates, size),
        "canonopt.adamw, filter_jit, apply_updates": functools.partial(
            _training, canonopt.filter_jit, canonopt.apply_updates, size
        ),
    }


def _training(jit: Callable, apply_updates: Callable, size: Size) -> Row:
    plain = eqx.filter_jit, eqx.apply_updates, optax
    libraries = {"canonopt": (jit, apply_updates, canonopt), "optax": plain}
    first: dict[str, list[float]] = {name: [] for name in libraries}
    runs = {}
    for turn in range(min(3, size.trials)):
        for name in libraries if turn % 2 else reversed(libraries):
            canonopt.clear_caches()  # or `canonopt.filter_jit` finds the program of a turn before
            runs[name] = _Training(*libraries[name])
            first[name].append(timed(runs[name], 1)())
    ours, theirs = runs["canonopt"], runs["optax"]
    for run in runs.values():
        run(size.steps)
    numbers = numbers_of(*(eqx.filter(run.model, eqx.is_array) for run in (ours, theirs)))
    samples = (timed(functools.partial(run, size.steps), 1) for run in (ours, theirs))
    found, seconds, plain_seconds = ratio(*samples, size.rounds)
    return {
        "first call, s": statistics.median(first["canonopt"]),
        "plain, s": statistics.median(first["optax"]),
        "a further step, ms": seconds / size.steps * 1e3,
        "plain, ms": plain_seconds / size.steps * 1e3,
        "ratio": found,
        "numbers": numbers,
        "met": numbers == SAME and found <= STEP_RATIO,
    }


class _Training:
    """A model of six layers in training. Each is compiled anew."""

    def __init__(self, jit: Callable, apply_updates: Callable, library: Any) -> None:
        optim = library.adamw(1e-3)
        self.model = eqx.nn.MLP(32, 1, 128, 5, key=jax.random.key(0))
        self._opt_state = optim.init(eqx.filter(self.model, eqx.is_inexact_array))
        self._batch = jax.random.normal(jax.random.key(1), (256, 32))

        def step(model: Any, opt_state: Any, x: jax.Array) -> Any:
            grads = eqx.filter_grad(lambda model: jnp.mean(jax.vmap(model)(x) ** 2))(model)
            params = eqx.filter(model, eqx.is_inexact_array)
            updates, opt_state = optim.update(grads, opt_state, params)
            return apply_updates(model, updates), opt_state

        self._step = jit(step)

    def __call__(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.model, self._opt_state = self._step(self.model, self._opt_state, self._batch)
        jax.block_until_ready(self._opt_state)
