"""Count the compiles of what is built again or made again."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import canonopt
from tests.support import callables, catalogue
from tests.support.counting import compiles, counted
from tests.support.placements import LIBRARIES

from .checks import DIFFER, NOT_DETERMINISTIC, SAME, Check, Row, Size, numbers_of


def _once(counts: Sequence[int]) -> bool:
    return [*counts] == [1] + [0] * (len(counts) - 1)


# --- what is built again ------------------------------------------------------------------------


def rebuilt(size: Size) -> Mapping[str, Check]:
    names = ("adam", "adamw", "rmsprop", "chain", "multi_transform", "contrib.muon")
    return {name: functools.partial(_rebuilt, name, size.trials) for name in names[: size.most]}


def _rebuilt(name: str, trials: int) -> Row:
    found = {}
    for library, namespace in LIBRARIES.items():
        step, count = counted(catalogue.step_for(name))
        jitted, counts, results = jax.jit(step, static_argnums=0), [], []
        for _ in range(trials):
            before = count.compiles
            optim, params = catalogue.build(name, namespace), catalogue.parameters(name)
            opt_state = optim.init(params)
            for _ in range(3):
                params, opt_state = jitted(optim, params, opt_state, catalogue.batch())
            counts.append(count.compiles - before)
            results.append(params)
        found[library] = counts, results
    return _compared(found, trials_are_equal=True)


def _compared(
    found: Mapping[str, tuple[list[int], list[Any]]], *, trials_are_equal: bool = False
) -> Row:
    """A row from the compiles and the results of each trial, by library."""
    (ours, results), (theirs, expected) = found["canonopt"], found["optax"]
    numbers = numbers_of(results, expected)
    if trials_are_equal and any(numbers_of(expected[0], each) == DIFFER for each in expected):
        numbers = NOT_DETERMINISTIC
    met = _once(ours) and numbers in (SAME, NOT_DETERMINISTIC)
    return {"canonopt": ours, "plain": theirs, "numbers": numbers, "met": met}


def hoisted(size: Size) -> Mapping[str, Check]:
    names = (
        *("a lambda", "a nested function", "custom vjp", "partial", "partial of a closure"),
        *("tree partial of a closure", "filter_vmap", "jit", "vmap", "grad", "filter_jit"),
        *("a method of a module with a closure", "jit of vmap of grad"),
    )
    return {
        name: functools.partial(_hoisted, callables.KINDS[name], size.trials)
        for name in names[: size.most]
    }


def _hoisted(build: Callable[[float], Callable], trials: int) -> Row:
    found = {}
    for library, made in (("canonopt", canonopt.canonicalize), ("optax", lambda model: model)):
        step, count = counted(lambda model, x: model.fn(x))
        jitted, counts, results = eqx.filter_jit(step), [], []
        for _ in range(trials):
            before = count.compiles
            model = made(callables.Holder(build(2.0)))
            results += [jitted(model, callables.vector()) for _ in range(2)]
            counts.append(count.compiles - before)
        found[library] = counts, results
    return _compared(found, trials_are_equal=True)


# --- steps inside of a function -----------------------------------------------------------------


def fits(size: Size) -> Mapping[str, Check]:
    return {
        "canonopt.jit, jax.jit": functools.partial(_fits, _fit, canonopt.jit, jax.jit, size.trials),
        "canonopt.filter_jit, equinox.filter_jit": functools.partial(
            _fits, _fit_model, canonopt.filter_jit, eqx.filter_jit, size.trials
        ),
    }


def _fits(fit: Callable, ours: Callable, theirs: Callable, trials: int) -> Row:
    found = {}
    for library, jit in (("canonopt", ours), ("optax", theirs)):
        counts, results = [], []
        for trial in range(trials):
            before = compiles("fit_step")
            x = jax.random.normal(jax.random.key(trial), (16, 4))
            data = x, x.sum(1)
            # canonopt makes arguments of what a step captures, and the numbers are those of a step
            # that is given them. As constants, they round otherwise on a GPU.
            given = (None, data) if library == "canonopt" else (data, None)
            results.append(fit(jit, *given, canonopt.adam(1e-2)))
            counts.append(compiles("fit_step") - before)
        found[library] = counts, results
    return _compared(found)


def _fit(jit: Callable, given: Any, captured: Any, optim: Any) -> Any:
    @jit
    def fit_step(params, opt_state, given):
        x, y = given or captured
        grads = jax.grad(lambda params: jnp.mean((x @ params - y) ** 2))(params)
        updates, opt_state = optim.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    params = jnp.zeros(4)
    opt_state = optim.init(params)
    for _ in range(5):
        params, opt_state = fit_step(params, opt_state, given)
    return params


def _fit_model(jit: Callable, given: Any, captured: Any, optim: Any) -> Any:
    @jit
    def fit_step(model, opt_state, given):
        x, y = given or captured
        grads = eqx.filter_grad(lambda model: jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2))(model)
        updates, opt_state = optim.update(grads, opt_state, model)
        return canonopt.apply_updates(model, updates), opt_state

    model = eqx.nn.MLP(4, 1, 8, 2, key=jax.random.key(0))
    opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(5):
        model, opt_state = fit_step(model, opt_state, given)
    return eqx.filter(model, eqx.is_array)


# --- sweeps -------------------------------------------------------------------------------------


def sweeps(size: Size) -> Mapping[str, Check]:
    return {name: functools.partial(_sweep, build, size) for name, build in _SWEPT.items()}


def _warmed_up(library: Any, rate: Any) -> Any:
    schedule = library.warmup_cosine_decay_schedule(0.0, rate, 10, 100)
    return library.chain(library.clip_by_global_norm(1.0), library.adamw(schedule))


_SWEPT: dict[str, Callable[[Any, Any], Any]] = {
    "adam": lambda library, rate: library.adam(rate),
    "clip, adamw with a schedule": _warmed_up,
}


def _sweep(build: Callable, size: Size) -> Row:
    found, seconds = {}, []
    for library, namespace in LIBRARIES.items():
        step, count = counted(catalogue.step_for("adam"))
        # Optax's transformation is no argument of a jitted function.
        jitted = jax.jit(step) if library == "canonopt" else jax.jit(step, static_argnums=0)
        counts, results, x = [], [], catalogue.batch()
        start = time.perf_counter()
        for trial in range(size.trials):
            before, rate = count.compiles, 10.0 ** -(trial + 1)
            rate = canonopt.dynamic(rate) if library == "canonopt" else rate
            optim, params = build(namespace, rate), catalogue.parameters("adam")
            opt_state = optim.init(params)
            for _ in range(20):
                params, opt_state = jitted(optim, params, opt_state, x)
            results.append(jax.block_until_ready(params))
            counts.append(count.compiles - before)
        seconds.append(time.perf_counter() - start)
        found[library] = counts, results
    row = _compared(found)
    met = row.pop("met")
    return {**row, "canonopt, s": seconds[0], "plain, s": seconds[1], "met": met}


# --- counting -----------------------------------------------------------------------------------


def counting(size: Size) -> Mapping[str, Check]:
    return {name: functools.partial(_counted, run) for name, run in _RUNS.items()}


def _called(step: Callable, *arguments: Any, jit: Callable = jax.jit) -> None:
    jitted = jit(step)
    for argument in arguments:
        jitted(argument)


def _compiled_without_a_trace(step: Callable) -> None:
    committed = jax.device_put(jnp.ones(3), jax.devices()[0])
    _called(step, jnp.ones(3), committed, committed)


_RUNS: dict[str, Callable[[Callable], None]] = {
    "cached calls": lambda step: _called(step, *[jnp.ones(3)] * 5),
    "other shapes": lambda step: _called(step, *map(jnp.ones, (2, 3, 4, 2))),
    "another dtype": lambda step: _called(step, jnp.ones(3), jnp.arange(3), jnp.ones(3)),
    "a weak type": lambda step: _called(step, jnp.ones(3), jnp.full(3, 1.0), jnp.ones(3)),
    "committed, which is a compile without a trace": _compiled_without_a_trace,
    "inside of another jit": lambda step: _called(lambda x: jax.jit(step)(x) + 1, jnp.ones(3)),
    "equinox.filter_jit": lambda step: _called(step, *map(jnp.ones, (2, 3, 2)), jit=eqx.filter_jit),
    "canonopt.jit": lambda step: _called(step, *map(jnp.ones, (2, 3, 2)), jit=canonopt.jit),
    "canonopt.filter_jit": lambda step: _called(
        step, *map(jnp.ones, (2, 3, 2)), jit=canonopt.filter_jit
    ),
}


def _counted(run: Callable[[Callable], None]) -> Row:
    step, count = counted(lambda x: x * 2)
    with canonopt.compile_log() as log:
        run(step)
    found = log[count.__name__]
    return {
        "traces in the log": found.traces,
        "runs of the Python body": count.traces,
        "compiles in the log": found.compiles,
        "events of jax.monitoring": count.compiles,
        "met": (found.traces, found.compiles) == (count.traces, count.compiles),
    }
