"""Programs that go on with an old value are reported, and others are not.

Each program below makes a function to jit, and something that changes later. Whether that matters
is found out apart from canonopt: by lowering the function before and after.
"""

import dataclasses
import functools
import gc
import itertools
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen

import canonopt
from canonopt._recompiles.stale import StaleRead, watching
from canonopt.errors import StaleReadError

JITS = {
    "jax.jit": jax.jit,
    "canonopt.jit": canonopt.jit,
    "eqx.filter_jit": eqx.filter_jit,
    "canonopt.filter_jit": canonopt.filter_jit,
}
X = jnp.arange(3.0)

# The function, and what changes something.
Program = tuple[Callable[..., Any], Callable[[], object]]
STALE: dict[str, tuple[Callable[[], Program], str]] = {}
INNOCENT: dict[str, Callable[[], Program]] = {}


def stale(path: str) -> Any:
    def note(make: Callable[[], Program]) -> None:
        STALE[make.__name__] = make, path

    return note


def innocent(make: Callable[[], Program]) -> None:
    INNOCENT[make.__name__] = make


# --- what goes on with an old value ---------------------------------------------------------------

RATE: Any = 1.0
CONFIG: Any = {"lr": 0.1, "layers": [1, 2], "name": "a"}
TABLE = np.arange(3.0)
WEIGHTS: Any = {"w": jnp.ones(3), "b": jnp.zeros(3)}
OPTIMIZER = optax.sgd(0.1)
MODULE = types.ModuleType("settings_of_this_test")


def set_global(name: str, value: Any) -> Callable[[], None]:
    return lambda: globals().update({name: value})


@stale("RATE")
def a_global_number() -> Program:
    return lambda x: RATE * x, set_global("RATE", 2.0)


@stale("MODULE.rate")
def an_attribute_of_a_module() -> Program:
    MODULE.rate = 1.0
    return lambda x: MODULE.rate * x, lambda: setattr(MODULE, "rate", 3.0)


@stale("CONFIG['lr']")
def an_item_of_a_dict() -> Program:
    return lambda x: CONFIG["lr"] * x, lambda: CONFIG.update(lr=0.5)


@stale("CONFIG['layers'][1]")
def an_item_inside_of_an_item() -> Program:
    return lambda x: CONFIG["layers"][1] * x, lambda: CONFIG["layers"].__setitem__(1, 9)


@stale("scales[0]")
def an_item_of_a_captured_list() -> Program:
    scales = [1.0, 2.0]
    return lambda x: scales[0] * x, lambda: scales.__setitem__(0, 5.0)


@stale("len(scales)")
def the_length_of_a_list() -> Program:
    scales = [1.0, 2.0]
    return lambda x: sum(scale * x for scale in scales), lambda: scales.append(3.0)


class Trainer:
    momentum = 0.9

    def __init__(self) -> None:
        self.lr = 0.1

    def step(self, x: Any) -> Any:
        return self.lr * self.scaled(x)

    def scaled(self, x: Any) -> Any:
        return x * self.decay

    @property
    def decay(self) -> float:
        return self.momentum


@stale("self.lr")
def an_attribute_of_self() -> Program:
    trainer = Trainer()
    return trainer.step, lambda: setattr(trainer, "lr", 0.5)


@stale("trainer.lr")
def an_attribute_of_a_captured_object() -> Program:
    trainer = Trainer()
    return lambda x: trainer.step(x), lambda: setattr(trainer, "lr", 0.5)


@stale("self.momentum")
def an_attribute_of_a_class() -> Program:
    class Own(Trainer):
        momentum = 0.5

    return Own().step, lambda: setattr(Own, "momentum", 0.7)


@stale("self.momentum")
def an_attribute_of_self_that_hides_that_of_the_class() -> Program:
    trainer = Trainer()
    return trainer.step, lambda: setattr(trainer, "momentum", 0.7)


@stale("table")
def a_numpy_array_changed_in_place() -> Program:
    table = np.arange(3.0)
    return lambda x: x + jnp.asarray(table.copy()), lambda: table.fill(7.0)


def helper(x: Any) -> Any:
    return 2 * x


def other_helper(x: Any) -> Any:
    return 3 * x


HELPER = helper


@stale("HELPER")
def a_helper_that_is_defined_again() -> Program:
    return lambda x: HELPER(x), set_global("HELPER", other_helper)


@stale("RATE")
def a_global_that_a_helper_reads() -> Program:
    def inner(x: Any) -> Any:
        return RATE * x

    return lambda x: jax.value_and_grad(lambda y: inner(y).sum())(x), set_global("RATE", 2.0)


@stale("scale")
def a_captured_variable_that_is_bound_again() -> Program:
    scale = 1.0

    def change() -> None:
        nonlocal scale
        scale = 4.0

    return lambda x: scale * x, change


@stale("scale")
def a_variable_of_a_nested_function() -> Program:
    scale = 1.0

    def inner(x: Any) -> Any:
        return jax.vmap(lambda each: scale * each)(x)

    def change() -> None:
        nonlocal scale
        scale = 4.0

    return lambda x: inner(x), change


@stale("config['lr']")
def a_dict_in_a_partial() -> Program:
    config = {"lr": 0.1}

    def step(config: dict[str, float], x: Any) -> Any:
        return config["lr"] * x

    return functools.partial(step, config), lambda: config.update(lr=0.2)


@stale("WEIGHTS['w']")
def a_jax_array_that_is_replaced() -> Program:
    return lambda x: WEIGHTS["w"] * x, lambda: WEIGHTS.update(w=jnp.full(3, 2.0))


@stale("OPTIMIZER.update")
def an_optimizer_that_is_replaced() -> Program:
    state = OPTIMIZER.init(X)
    return lambda x: OPTIMIZER.update(x, state)[0], set_global("OPTIMIZER", optax.sgd(0.5))


@stale("args.alpha")
def an_attribute_of_a_namespace_that_a_helper_is_passed() -> Program:
    args = types.SimpleNamespace(alpha=1.0)

    def inner(x: Any, options: Any) -> Any:
        return options.alpha * x

    return lambda x: inner(x, args), lambda: setattr(args, "alpha", 2.0)


@jax.jit
def jitted_helper(x: Any) -> Any:
    return RATE * x


@stale("RATE")
def a_global_that_a_jitted_helper_reads() -> Program:
    return lambda x: jitted_helper(x) + 1, set_global("RATE", 2.0)


@stale("options.scale")
def a_frozen_object_that_is_bound_again() -> Program:
    @dataclasses.dataclass(frozen=True)
    class Options:
        scale: float

    options = Options(1.0)

    def change() -> None:
        nonlocal options
        options = Options(2.0)

    return lambda x: options.scale * x, change


class Scaled(eqx.Module):
    weight: Any

    def __call__(self, x: Any) -> Any:
        return self.weight * x


@stale("model.weight")
def a_model_that_is_replaced() -> Program:
    model = Scaled(jnp.ones(3))

    def change() -> None:
        nonlocal model
        model = Scaled(jnp.full(3, 3.0))

    return lambda x: model(x), change


@stale("args.alpha")
def an_attribute_by_a_string() -> Program:
    args = types.SimpleNamespace(alpha=1.0)
    return lambda x: getattr(args, "alpha") * x, lambda: setattr(args, "alpha", 2.0)  # noqa: B009


@stale("mask")
def an_array_that_the_program_keeps_the_memory_of() -> Program:
    mask = np.array([True, False, True])
    return lambda x: jnp.where(mask, x, 0), lambda: mask.fill(False)


@stale("frozen")
def a_set() -> Program:
    frozen = {"encoder"}
    return lambda x: x if "decoder" in frozen else -x, lambda: frozen.add("decoder")


@stale("weights['backward']")
def a_rule_for_a_derivative() -> Program:
    weights = {"backward": 1.0}
    rule = jax.custom_vjp(lambda x: x)
    rule.defvjp(lambda x: (x, None), lambda _, g: (weights["backward"] * g,))
    return jax.grad(lambda x: rule(x).sum()), lambda: weights.update(backward=2.0)


class Layer(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return RATE * linen.relu(x)


@stale("RATE")
def a_module_of_flax() -> Program:
    return functools.partial(Layer().apply, {}), set_global("RATE", 2.0)


@stale("self.rates['slow']")
def an_object_with_getitem() -> Program:
    class Rates:
        def __init__(self) -> None:
            self.rates = {"slow": 1.0}

        def __getitem__(self, name: str) -> float:
            return self.rates[name]

        def scale(self, x: Any) -> Any:
            return self["slow"] * x

    rates = Rates()
    return rates.scale, lambda: rates.rates.update(slow=2.0)


# --- what does not matter ------------------------------------------------------------------------


@innocent
def a_counter_that_the_trace_does_not_use() -> Program:
    counts = {"steps": 0, "scale": 2.0}
    return lambda x: counts["scale"] * x, lambda: counts.update(steps=counts["steps"] + 1)


@innocent
def a_value_that_changes_and_changes_back() -> Program:
    def change() -> None:
        global RATE
        RATE = 5.0
        RATE = 1.0

    return lambda x: RATE * x, change


@innocent
def a_global_that_is_used_outside_only() -> Program:
    def change() -> None:
        CONFIG["name"] = CONFIG["name"] + "b"

    return lambda x: CONFIG["lr"] * x, change


@innocent
def a_list_for_logging() -> Program:
    losses: list[float] = []

    def step(x: Any) -> Any:
        return x if losses is None else 2 * x

    return step, lambda: losses.append(1.0)


@innocent
def a_value_that_is_only_printed() -> Program:
    state = types.SimpleNamespace(epoch=0)

    def step(x: Any) -> Any:
        print("tracing in epoch", state.epoch)
        return 2 * x

    return step, lambda: setattr(state, "epoch", 1)


@innocent
def an_equal_number() -> Program:
    return lambda x: RATE * x, set_global("RATE", float("1.0"))


@innocent
def an_equal_dict() -> Program:
    return lambda x: CONFIG["lr"] * x, lambda: set_global("CONFIG", {**CONFIG})()


@innocent
def a_value_of_which_only_the_side_of_a_limit_counts() -> Program:
    state = types.SimpleNamespace(step=0)
    return lambda x: x if state.step < 100 else -x, lambda: setattr(state, "step", 7)


@innocent
def a_helper_that_is_defined_again_and_does_the_same() -> Program:
    def same(x: Any) -> Any:
        return 2 * x

    return lambda x: HELPER(x), set_global("HELPER", same)


@innocent
def an_array_that_is_replaced_by_an_equal_one() -> Program:
    return lambda x: WEIGHTS["w"] * x, lambda: WEIGHTS.update(w=jnp.ones(3))


@innocent
def a_numpy_array_that_is_copied() -> Program:
    return lambda x: x + TABLE, set_global("TABLE", TABLE.copy())


@innocent
def an_attribute_that_is_set_first_and_then_read() -> Program:
    trainer = Trainer()

    def step(x: Any) -> Any:
        trainer.lr = 0.1
        return trainer.lr * x

    return step, lambda: setattr(trainer, "lr", 0.1)


@innocent
def an_attribute_of_another_object() -> Program:
    trainer, other = Trainer(), Trainer()
    return lambda x: trainer.step(x), lambda: setattr(other, "lr", 9.0)


@innocent
def another_item_of_a_registry() -> Program:
    registry = {"loss": lambda x: 2 * x, "metric": lambda x: x}
    return lambda x: registry["loss"](x), lambda: registry.update(metric=lambda x: 3 * x)


@innocent
def what_a_cache_has_read_before() -> Program:
    state = types.SimpleNamespace(scale=2.0)
    table = functools.cache(lambda: state.scale)
    return lambda x: table() * x, lambda: setattr(state, "scale", 3.0)


@innocent
def an_object_that_is_replaced_by_one_with_the_same_rate() -> Program:
    config = types.SimpleNamespace(optimizer=types.SimpleNamespace(lr=0.1, steps=0))

    def change() -> None:
        config.optimizer = types.SimpleNamespace(lr=0.1, steps=7)

    return lambda x: config.optimizer.lr * x, change


@innocent
def what_no_output_depends_on() -> Program:
    def step(x: Any) -> Any:
        x * CONFIG["lr"]
        return 2 * x

    return step, lambda: CONFIG.update(lr=0.5)


@innocent
def a_model_that_is_replaced_by_an_equal_one() -> Program:
    model = Scaled(jnp.ones(3))

    def change() -> None:
        nonlocal model
        model = Scaled(jnp.ones(3))

    return lambda x: model(x), change


# --- the two tables -------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _globals():
    before = {name: globals()[name] for name in ("RATE", "HELPER", "OPTIMIZER", "TABLE")}
    copies = {"CONFIG": {**CONFIG, "layers": [*CONFIG["layers"]]}, "WEIGHTS": {**WEIGHTS}}
    yield
    globals().update(before, **copies)


def fresh(function: Callable[..., Any]) -> str:
    """The program of a function that JAX has not seen, with its constants."""
    jax.clear_caches()
    return jax.jit(lambda *args: function(*args)).lower(X).as_text()


def is_truly_stale(make: Callable[[], Program]) -> bool:
    function, change = make()
    before = fresh(function)
    change()
    return fresh(function) != before


@pytest.mark.parametrize("name", STALE)
def test_tracing_the_stale_again_gives_another_program(name: str):
    assert is_truly_stale(STALE[name][0])


@pytest.mark.parametrize("name", INNOCENT)
def test_tracing_the_innocent_again_gives_the_same_program(name: str):
    assert not is_truly_stale(INNOCENT[name])


def reports_of(make: Callable[[], Program], jit: Any, calls: int = 2) -> list[StaleRead]:
    reports: list[StaleRead] = []
    problems: list[str] = []
    function, change = make()
    with watching(reports.append, problems.append):
        step = jit(function)
        for _ in range(calls):
            step(X)
        change()
        for _ in range(calls):
            step(X)
    assert problems == []
    return reports


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("name", STALE)
def test_the_stale_are_reported(name: str, jit: str):
    make, path = STALE[name]
    (report,) = reports_of(make, JITS[jit])
    assert [value.path for value in report.values] == [path]
    assert (report.since, report.calls, report.is_confirmed) == (3, 2, True)


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("name", INNOCENT)
def test_the_innocent_are_not_reported(name: str, jit: str):
    assert [report.lines() for report in reports_of(INNOCENT[name], JITS[jit])] == []


# --- when, and what for ---------------------------------------------------------------------------


class Collected(list[StaleRead]):
    """The reports of a block."""

    def __enter__(self) -> "Collected":
        self.problems: list[str] = []
        self._block = watching(self.append, self.problems.append)
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
        assert self.problems == []


def test_the_error_says_what_has_changed_and_where_it_is_read():
    step = jax.jit(lambda x: RATE * x)
    with canonopt.assert_not_stale():
        step(X)
        set_global("RATE", 2.0)()
        with pytest.raises(StaleReadError) as error:
            step(X)
    line = sys._getframe().f_lineno - 6
    assert str(error.value) == (
        "<lambda> goes on with an old value, since call 2:\n"
        "  RATE was 1.0 when it was traced, and is 2.0 now "
        f"(read in <lambda> at {__file__}:{line})\n"
        "  1 cached call since; traced again now, it gives another program\n"
        "  hint: pass RATE to <lambda> as an argument"
    )
    assert (error.value.path, error.value.before, error.value.after) == ("RATE", "1.0", "2.0")
    assert isinstance(error.value, AssertionError)


@pytest.mark.parametrize("jit", JITS)
def test_the_call_raises_and_the_next_calls_work(jit: str):
    step = JITS[jit](lambda x: RATE * x)
    with canonopt.assert_not_stale():
        step(X)
        set_global("RATE", 2.0)()
        with pytest.raises(StaleReadError):
            step(X)
        set_global("RATE", 1.0)()
        assert step(X).tolist() == [0.0, 1.0, 2.0]
    set_global("RATE", 2.0)()
    assert step(X).tolist() == [0.0, 1.0, 2.0]  # outside, nothing is said


def test_each_function_is_told_by_a_log():
    step = jax.jit(lambda x: RATE * x)
    with canonopt.compile_log(stale=True) as log:
        step(X)
        set_global("RATE", 2.0)()
        step(X)
        step(X)
    assert log.stale[0].calls == 2
    assert "\n".join(log.stale[0].lines()) in str(log)
    assert log["<lambda>"].traces == 1  # not those that were made to confirm it
    assert len(log.functions) == 1


def test_a_log_that_was_not_asked_says_nothing():
    step = jax.jit(lambda x: RATE * x)
    with canonopt.compile_log() as log:
        step(X)
        set_global("RATE", 2.0)()
        step(X)
    assert log.stale == []


def test_a_static_object_is_compared_by_what_is_in_it():
    class Own(Trainer):
        @functools.partial(jax.jit, static_argnums=0)
        def jitted(self, x: Any) -> Any:
            return self.lr * x

    one, other = Own(), Own()
    with Collected() as reports:
        for _ in range(3):
            one.jitted(X), other.jitted(X)
        assert reports == []
        other.lr = 7.0
        one.jitted(X)
        assert reports == []
        other.jitted(X)
    assert [value.path for value in reports[0].values] == ["self.lr"]


def test_programs_of_one_function_are_told_apart():
    step = jax.jit(lambda x: RATE * x)
    with Collected() as reports:
        step(X)
        set_global("RATE", 2.0)()
        for _ in range(3):
            step(X[:2])  # traced with the new value
        assert reports == []
        step(X)
        assert [report.since for report in reports] == [5]
        set_global("RATE", 1.0)()
        step(X[:2])
    assert [value.before for report in reports for value in report.values] == ["1.0", "2.0"]


def test_what_was_traced_before_the_block_is_compared_with_its_first_call_there():
    step = jax.jit(lambda x: RATE * x)
    step(X)
    with Collected() as reports:
        step(X)
        set_global("RATE", 2.0)()
        step(X)
    assert len(reports) == 1


def test_a_value_that_is_set_back_is_no_longer_counted():
    step = jax.jit(lambda x: RATE * x)
    with Collected() as reports:
        for rate in (1.0, 2.0, 2.0, 1.0, 1.0):
            set_global("RATE", rate)()
            step(X)
    assert [(report.since, report.calls) for report in reports] == [(2, 2)]


def test_a_program_that_is_traced_into_another_one():
    @jax.jit
    def inner(x: Any) -> Any:
        return RATE * x

    with Collected() as reports:
        jax.jit(lambda x: inner(x) + 1)(X)
        set_global("RATE", 2.0)()
        jax.jit(lambda x: inner(x) + 2)(X)
    assert [report.function for report in reports] == ["inner"]


def test_a_method_that_is_jitted_again_has_the_program_of_the_first():
    trainer = Trainer()
    with Collected() as reports:
        first = jax.jit(trainer.step)
        first(X)
        trainer.lr = 0.7
        jax.jit(trainer.step)(X)
    assert [value.path for value in reports[0].values] == ["self.lr"]


def test_a_made_again_function_that_shares_a_program_is_followed():
    def make(settings: Any) -> Any:
        return canonopt.jit(lambda x: settings["scale"] * x)

    settings = {"scale": 1.0}
    with Collected() as reports:
        make(settings)(X)
        second = make(settings)
        second(X)
        settings["scale"] = 2.0
        make(settings)(X)  # is traced
        assert reports == []
        second(X)
    assert [value.path for value in reports[0].values] == ["settings['scale']"]


def test_donated_arguments_are_no_hindrance():
    step = jax.jit(lambda x: RATE * x, donate_argnums=0)
    with Collected() as reports:
        for rate in (1.0, 1.0, 2.0):
            set_global("RATE", rate)()
            step(jnp.ones(3))
    assert len(reports) == 1


def test_a_program_with_effects_of_jax_is_compared_at_each_call():
    def step(x: Any) -> Any:
        jax.debug.callback(lambda _: None, x)
        return RATE * x

    step = jax.jit(step)
    with Collected() as reports:
        for rate in (1.0, 1.0, 2.0):
            set_global("RATE", rate)()
            step(X)
    assert [report.since for report in reports] == [3]


traces = 0


def counted(x: Any) -> Any:
    global traces
    traces += 1
    return RATE * x


def timed(x: Any) -> Any:
    return RATE * x * (1.0 if time.time() else 0.0)


numbers = itertools.count()


def numbered(x: Any) -> Any:
    next(numbers)
    return RATE * x


GENERATOR = np.random.default_rng(0)


def noisy(x: Any) -> Any:
    return RATE * x + GENERATOR.normal()


ITERATOR = iter([1.0] * 100)


def taking_the_rest(x: Any) -> Any:
    return RATE * x * next(zip(ITERATOR, strict=True))[0]


trees: list[Any] = []


def keeping(x: Any) -> Any:
    trees.append(jax.tree.structure(x))
    return RATE * x


@chex.assert_max_traces(1)
def limited_by_chex(x: Any) -> Any:
    return RATE * x


@eqx.debug.assert_max_traces(max_traces=1)
def limited_by_equinox(x: Any) -> Any:
    return RATE * x


@pytest.mark.parametrize(
    "function",
    [
        *(counted, timed, numbered, noisy, taking_the_rest, keeping),
        *(limited_by_chex, limited_by_equinox),
    ],
)
def test_a_function_with_effects_is_not_run_again(function: Any):
    chex.clear_trace_counter()
    runs: list[None] = []

    def step(x: Any) -> Any:
        return function(x)

    before = traces, len(trees)
    with Collected() as reports:
        step = jax.jit(step)
        for rate in (1.0, 1.0, 2.0, 2.0):
            set_global("RATE", rate)()
            step(X)
    assert traces - before[0] <= 1
    assert len(trees) - before[1] <= 1
    (report,) = reports
    assert [value.path for value in report.values] == ["RATE"]
    assert not report.is_confirmed
    assert "unconfirmed" in str(report.lines())
    with canonopt.assert_not_stale():
        step(X)
        set_global("RATE", 3.0)()
        step(X)  # only what is confirmed raises
    assert runs == []


def test_local_lists_and_dicts_are_no_effects():
    def step(x: Any) -> Any:
        parts, named = [], {}
        for i in range(2):
            parts.append(RATE * x * i)
            named[i] = parts[-1]
        return sum(parts), named

    with Collected() as reports:
        step = jax.jit(step)
        for rate in (1.0, 2.0):
            set_global("RATE", rate)()
            step(X)
    assert [report.is_confirmed for report in reports] == [True]


def test_confirming_counts_as_no_trace_and_prints_nothing(capsys: Any):
    def step(x: Any) -> Any:
        print("tracing")
        return RATE * x

    step = jax.jit(canonopt.assert_max_traces(step))
    with canonopt.compile_log() as log, Collected() as reports:
        for rate in (1.0, 2.0):
            set_global("RATE", rate)()
            step(X)
    assert len(reports) == 1
    assert log["step"].traces == 1
    assert capsys.readouterr().out == "tracing\n"


def test_a_value_that_changes_at_each_call_is_traced_again_a_few_times_only():
    state, runs = types.SimpleNamespace(step=0), []

    class Noting:
        def __float__(self) -> float:
            runs.append(state.step)  # pyright: ignore
            return 2.0

    noting = Noting()
    step = jax.jit(lambda x: float(noting) * x if state.step >= 0 else x)
    with Collected() as reports:
        for state.step in range(100):
            step(X)
    assert reports == []
    assert len(runs) < 10


def test_a_cause_is_told_from_what_always_changes():
    state = types.SimpleNamespace(step=0)
    step = jax.jit(lambda x: RATE * x if state.step >= 0 else x)
    with Collected() as reports:
        for state.step in range(10):
            set_global("RATE", 1.0 if state.step < 7 else 2.0)()
            step(X)
    assert [value.path for report in reports for value in report.values] == ["RATE"]
    assert [(report.since, report.calls) for report in reports] == [(8, 3)]


def test_large_arrays_are_compared_at_some_calls():
    table = np.zeros(20_000, np.float32)
    step = jax.jit(lambda x: x + float(table[5]))
    with Collected() as reports:
        for call in range(12):
            table[5] = 7.0 if call > 4 else 0.0
            step(X)
    assert [5 < report.since < 12 for report in reports] == [True]


def test_a_body_that_fails_now_is_not_reported():
    with Collected() as reports:
        step = jax.jit(lambda x: RATE * x)
        step(X)
        set_global("RATE", "no number")()
        step(X)
    assert reports == []


def test_blocks_of_debug_nans_do_not_end_it():
    step = jax.jit(lambda x: RATE * x)
    with Collected() as reports:
        step(X)
        with jax.debug_nans(True):
            jnp.ones(3) / 2
            with pytest.raises(FloatingPointError):
                jax.jit(lambda x: x / 0 - x / 0)(X)
        set_global("RATE", 2.0)()
        step(X)
    assert len(reports) == 1


def test_afterwards_the_hook_of_jax_is_as_it_was():
    from jax._src import api

    state: Any = api._post_hook_state

    def hooks() -> Any:
        return api._post_hook_state, state.get_local(), state.get_global()

    before = hooks()
    with Collected(), canonopt.assert_not_stale(all_threads=True), Collected():
        assert hooks() != before
    assert hooks() == before
    with jax.debug_nans(True), Collected():
        fails = jax.jit(lambda x: jnp.log(x - 5))
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                fails(X)


@pytest.mark.parametrize("all_threads", [False, True])
def test_nans_are_found_if_that_is_turned_on_inside(all_threads: bool):
    step = jax.jit(lambda x: RATE * jnp.log(x))
    step(X + 1)
    with canonopt.assert_not_stale(all_threads=all_threads):
        step(X + 1)
        jax.config.update("jax_debug_nans", True)
        try:
            step(X + 1)
            for _ in range(2):
                with pytest.raises(FloatingPointError):
                    step(X - 5)
            set_global("RATE", 2.0)()
            with pytest.raises(StaleReadError):
                step(X + 1)
        finally:
            jax.config.update("jax_debug_nans", False)


def test_other_threads_are_watched_if_asked():
    step = jax.jit(lambda x: RATE * x)
    step(X)
    for all_threads, expected in ((False, 0), (True, 1)):
        set_global("RATE", 1.0)()
        reports: list[StaleRead] = []
        with watching(reports.append, pytest.fail, all_threads):

            def run() -> None:
                step(X)
                set_global("RATE", 2.0)()
                step(X)

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        assert len(reports) == expected


def test_nothing_is_kept_alive():
    class Big:
        def __init__(self) -> None:
            self.scale = 2.0
            self.settings = {"self": self}
            self.step = jax.jit(lambda x: self.scale * self.settings["self"].scale * x)

    with Collected():
        big = Big()
        big.step(X), big.step(X)
        reference = weakref.ref(big)
        del big
        jax.clear_caches()
        gc.collect()
        assert reference() is None


def test_the_caches_of_jax_stay():
    step = jax.jit(lambda x: RATE * x)
    step(X)
    with canonopt.compile_log() as log, Collected():
        for rate in (1.0, 2.0, 1.0, 3.0):
            set_global("RATE", rate)()
            step(X)
    assert log.functions == []
    assert step._cache_size() == 1


def test_what_canonopt_fails_to_find_out_is_said_and_stops_no_step(monkeypatch: Any):
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("canonopt._recompiles.stale.Reads.of_call", fail)
    step = jax.jit(lambda x: RATE * x)
    with canonopt.compile_log(stale=True) as log:
        assert step(X).tolist() == step(X).tolist()
    assert "ZeroDivisionError: of ours" in str(log)
    with (
        pytest.raises(canonopt.CanonoptError, match="failed to look for stale reads"),
        canonopt.assert_not_stale(),
    ):
        step(X)
