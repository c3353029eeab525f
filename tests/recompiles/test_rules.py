"""The line to write: it fits the argument, the leaf and the failure."""

import collections
import re
import typing
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt
from canonopt._recompiles import CauseLine, Change
from canonopt._recompiles.causes import cause_lines

from ..support.scenarios import Table, loss_fn, named, ones


def test_functions_of_a_variable_that_changed_are_not_the_same_code():
    """The line to write must not bake the first value in."""
    call = jax.jit(lambda fn, x: fn(x), static_argnums=0)
    source = "for k in (1.0, 2.0):\n    call(lambda x: x * k, 1.0)\n    jit(lambda x: x + k)(1.0)"
    with canonopt.compile_log() as log:
        exec(source, {"call": call, "jit": jax.jit})  # k is a global, which both share
    causes = [cause for function in log.functions for cause in function.causes()]
    assert all(cause.fixes == () for cause in causes)
    assert {cause.hints for cause in causes} == {
        ("build fn once, or pass what differs in it as an array argument",),
        ("jit one function, and pass what differs as an argument",),
    }


def with_numpy(data):
    return canonopt.jit(lambda x: x - np.mean(data))


def asking(data):
    return canonopt.jit(lambda x: x - float(data))


def counting(data):
    def step(x):
        traces.append(1)
        return x - data

    return canonopt.jit(step)


traces = []


@pytest.mark.parametrize("jit", [canonopt.jit, canonopt.filter_jit])
@pytest.mark.parametrize(
    ("make", "make_array", "hint"),
    [
        (
            with_numpy,
            np.atleast_1d,
            "new each time: it reads a NumPy array, .* Read jnp.asarray",
        ),
        (
            asking,
            jnp.asarray,
            "new each time: it asks for the value of an array that it captures. Pass the array",
        ),
        (counting, jnp.asarray, "to count traces, write canonopt.compile_log in place of traces"),
    ],
    ids=["numpy", "asking", "counting"],
)
def test_the_report_says_why_a_function_is_not_shared(make, make_array, hint, jit, monkeypatch):
    monkeypatch.setattr(canonopt, "jit", jit)
    with canonopt.compile_log() as log:
        for i in range(3):
            make(make_array(3.0 + i))(1.0)
    assert re.search(f"hint: .*{hint}", str(log))
    assert "in place of jax.jit" not in str(log)


def test_a_trial_that_failed_is_no_error_of_the_user(restored_caches):
    canonopt.clear_caches()
    with canonopt.compile_log() as log:
        asking(jnp.asarray(3.0))(1.0)
    found = log["<lambda>"]
    assert (found.traces, found.compiles) == (2, 1)
    (cause,) = found.causes()
    assert (cause.title, cause.is_avoidable) == ("needed two traces, once", False)
    assert cause.note.startswith("it asks for the value of an array that it captures. Pass the ")
    assert found.is_expected and "NotShared" not in str(log)
    canonopt.clear_caches()
    with canonopt.compile_log() as log:
        for i in range(3):
            asking(jnp.asarray(i + 4.0))(1.0)
    titles = [cause.title for cause in log["<lambda>"].causes()]
    assert titles == ["needed two traces, once", "was traced and compiled again, twice"]
    assert sum(cause.seconds for cause in log["<lambda>"].causes()) <= log["<lambda>"].seconds


def test_a_trial_of_a_step_that_fails_shows_the_error_only():
    def step(x):
        return x if data.sum() > 0 else -x

    data = jnp.ones(3)
    with canonopt.compile_log() as log, pytest.raises(jax.errors.TracerBoolConversionError):
        canonopt.jit(step)(1.0)
    (cause,) = log["step"].causes()
    assert cause.title == "failed while traced, once"
    assert cause.note.startswith("TracerBoolConversionError")


counted = 0


def counting_global():
    def step(x):
        global counted
        counted += 1
        return x

    return step


def counting_nonlocal(n=0):
    def step(x):
        nonlocal n
        n += 1
        return x

    return step


def counting_and_scaling(scale):
    n = 0

    def step(x):
        nonlocal n
        n += 1
        return x * scale

    return step


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit, canonopt.jit, canonopt.filter_jit])
@pytest.mark.parametrize(("make", "name"), [(counting_global, "counted"), (counting_nonlocal, "n")])
def test_a_step_that_counts_its_traces_is_told_how_to_count(make, name, jit):
    with canonopt.compile_log() as log:
        for _ in range(3):
            jit(make())(1.0)
    (cause,) = log["step"].causes()
    assert cause.title == "was traced and compiled again, twice"
    (hint,) = cause.hints
    assert hint.startswith(f"to count traces, write canonopt.compile_log in place of {name}: ")
    assert cause.fixes == ()


def test_another_difference_comes_before_the_count():
    with canonopt.compile_log() as log:
        for scale in (2.0, 3.0):
            jax.jit(counting_and_scaling(scale))(1.0)
    (cause,) = log["step"].causes()
    assert cause.hints == ("jit one function, and pass what differs as an argument",)


SAME = "another object made by the same code"
CLIPPED = "optax.chain(clip, adamw)"


@pytest.mark.parametrize(
    "build, before, after, factories",
    [
        (
            lambda i: optax.adam(optax.cosine_decay_schedule(1e-3, 10)),
            "optax.adam",
            SAME,
            "adam and its schedule",
        ),
        (lambda i: optax.adamw(1e-3, mask={"w": True}), "optax.adamw", SAME, "adamw"),
        (
            lambda i: optax.masked(optax.adam(1e-3), {"w": True}),
            "optax.masked(adam)",
            SAME,
            "masked, adam",
        ),
        (lambda i: optax.sgd(0.1, momentum=0.9, nesterov=True), "optax.sgd", SAME, "sgd"),
        (lambda i: optax.nadam(0.1), "optax.nadam", SAME, "nadam"),
        (
            lambda i: optax.inject_hyperparams(optax.adam)(learning_rate=1e-3),
            "optax.inject_hyperparams(adam)",
            SAME,
            "inject_hyperparams, adam",
        ),
        (
            lambda i: optax.adam(optax.cosine_decay_schedule(1e-3, 10 + i)),
            "optax.adam with 'decay_steps' 10",
            "optax.adam with 'decay_steps' 11",
            None,
        ),
        (
            lambda i: optax.chain(optax.clip(1.0), optax.adamw(1e-3, b1=0.9 - i / 10)),
            f"{CLIPPED} with 'b1' 0.9",
            f"{CLIPPED} with 'b1' 0.8",
            "chain, clip, adamw",
        ),
    ],
)
def test_a_transformation_that_was_built_again_is_named_as_it_was_built(
    build, before, after, factories
):
    step = jax.jit(named(lambda x, tx: tx.init({"w": x})), static_argnums=1, static_argnames="tx")
    with canonopt.compile_log() as log:
        for i in range(2):
            step(ones(3), build(i))
    (change,) = log["step"].entries[-1].explanation.changes
    assert (change.kind, change.before, change.after) == ("transformation", before, after)
    assert change.fix == ""  # the call does not name what it passes
    if factories is None:  # Python asks for a number of steps
        assert change.hint == "build tx once: another configuration is another program"
        return
    assert change.hint.startswith(f"build tx with {factories} from canonopt in place of optax")
    assert ("canonopt.dynamic" in change.hint) == (after != SAME)


def test_two_optimizers_are_two_programs():
    step = jax.jit(named(lambda x, tx: tx.init(x)), static_argnums=1)
    with canonopt.compile_log() as log:
        for tx in (optax.sgd(1e-3), optax.adam(1e-3)):
            step(ones(3), tx)
    (change,) = log["step"].entries[-1].explanation.changes
    assert str(change) == "tx: transformation: optax.sgd -> optax.adam"
    assert (change.fix, change.hint) == (
        "",
        "build tx once: another configuration is another program",
    )


def test_an_argument_that_is_left_out():
    step = jax.jit(named(lambda x, n=3: x * n), static_argnames="n")
    with canonopt.compile_log() as log:
        step(ones(3)), step(ones(3), n=3)
    (change,) = log["step"].entries[-1].explanation.changes
    assert (change.kind, change.hint) == ("structure", "pass n in every call or in none")


class Trainer:
    def __init__(self, lr):
        self.lr = lr


def test_the_reason_why_two_specs_are_not_shared_is_named():
    def build(trainer):
        return canonopt.sgd(lambda count: trainer.lr)

    step = jax.jit(named(lambda optim, x: optim.init(x)), static_argnums=0)
    with canonopt.compile_log() as log:
        for _ in range(2):
            step(build(Trainer(0.1)), ones(3))
    (change,) = log["step"].entries[-1].explanation.changes
    assert "is a Trainer, which may change. Make Trainer a frozen dataclass" in change.hint
    assert "canonopt.register_constant(Trainer)" in change.hint


# --- optimizer states -------------------------------------------------------------------------


class TrainState(typing.NamedTuple):
    """A user's own, whose name says as little as that of any other class."""

    params: Any
    opt_state: Any


def changes_of(*calls):
    """The changes of the last of several calls of one jitted function."""
    step = jax.jit(named(lambda state: jax.tree.map(jnp.negative, state)))
    with canonopt.compile_log() as log:
        for state in calls:
            step(state)
    return log["step"].entries[-1].explanation.changes


def test_the_model_in_a_train_state_gets_the_advice_of_a_model():
    opt_state = optax.adam(1e-3).init(ones(3))
    states = (TrainState({"w": w}, opt_state) for w in (jnp.full(3, 1.0), ones(3)))
    (change,) = changes_of(*states)
    assert change.path == "state.params['w']"
    assert change.fix == "state = canonopt.canonicalize(state)"


def test_the_optimizer_state_in_a_train_state_is_named():
    opt_state = optax.adam(1e-3).init(ones(3))
    count = jax.device_put(opt_state[0].count, jax.devices()[0])
    moved = (opt_state[0]._replace(count=count), *opt_state[1:])
    (change,) = changes_of(TrainState(ones(3), opt_state), TrainState(ones(3), moved))
    assert change.path == "state.opt_state[0].count"
    # All of the state is where one leaf of it has come.
    assert change.fix == (
        "import equinox as eqx; state = eqx.tree_at(lambda tree: tree.opt_state[0].count, state, "
        "jax.device_put(state.opt_state[0].count, jax.devices()[0]))"
    ).removeprefix("import equinox as eqx; ")


APPLY = "canonopt.apply_updates in place of eqx.apply_updates"


def step_with(apply_updates):
    def step(params, opt_state, x):
        value, grads = jax.value_and_grad(lambda p: jnp.sum(x @ (p["w"] + p["b"])) ** 2)(params)
        updates, opt_state = optax.polyak_sgd().update(grads, opt_state, params, value=value)
        return apply_updates(params, updates), opt_state

    return step


def widened_by(step, x=lambda i: ones(4, 3)):
    """Runs a step three times with a model of two dtypes."""
    params = {"w": jnp.ones(3, jnp.bfloat16), "b": jnp.ones(3)}
    opt_state = optax.polyak_sgd().init(params)
    for i in range(3):
        params, opt_state = step(params, opt_state, x(i))


@pytest.mark.parametrize("limit", [canonopt.assert_max_traces, canonopt.assert_max_compiles])
def test_a_model_that_a_step_widens_names_the_cure_in_an_assertion(limit):
    with pytest.raises(canonopt.errors.ExcessError) as caught:
        widened_by(limit(jax.jit(step_with(eqx.apply_updates))))
    assert caught.value.fix == APPLY
    widened_by(limit(jax.jit(step_with(canonopt.apply_updates))))


def test_a_model_that_a_step_widens_names_the_cure_below_the_jit():
    with pytest.raises(canonopt.errors.ExcessError) as caught:
        widened_by(jax.jit(canonopt.assert_max_traces(step_with(eqx.apply_updates))))
    assert caught.value.fix == APPLY
    widened_by(jax.jit(canonopt.assert_max_traces(step_with(canonopt.apply_updates))))


def test_a_model_that_is_widened_outside_of_the_step_names_the_cure():
    def run(apply_updates):
        update = jax.jit(named(lambda *args: step_with(lambda _, updates: updates)(*args)))

        def step(params, opt_state, x):
            updates, opt_state = update(params, opt_state, x)
            return apply_updates(params, updates), opt_state

        with canonopt.compile_log() as log:
            widened_by(step)
        return log["step"]

    (cause,) = run(eqx.apply_updates).causes()
    assert cause.fixes == (APPLY,)
    assert run(canonopt.apply_updates).traces == 1


def test_a_batch_that_becomes_wider_is_not_blamed_on_the_step():
    step = jax.jit(named(step_with(canonopt.apply_updates)))
    with canonopt.compile_log() as log:
        # Of the shape of a parameter.
        widened_by(step, lambda i: jnp.ones(3, jnp.float32 if i else jnp.float16))
    (cause,) = log["step"].causes()
    hint = "before the call, for what it passes as x: x = x.astype('float32')"
    assert (cause.fixes, cause.hints) == ((), (hint,))


MomentumState = collections.namedtuple("MomentumState", "momentum")


def test_a_state_that_the_user_wrote_gets_the_advice_of_any_pytree():
    (change,) = changes_of(*(MomentumState(x) for x in (jnp.asarray(1.0), jnp.ones(()))))
    assert change.fix == "state = canonopt.canonicalize(state)"


def causes_of(step, *args):
    with canonopt.compile_log() as log:
        for jit in (jax.jit, eqx.filter_jit):
            with pytest.raises(Exception):  # noqa: B017
                jit(step)(*args)
    causes = [cause for function in log.functions for cause in function.causes()]
    assert causes and all(cause.what == "failed while traced" for cause in causes)
    return causes


INIT = (
    "make opt_state by canonopt.init_like_grads(model, loss_fn, *batch, optim=optim), once, before "
    "the first call"
)


def test_a_failure_that_only_mentions_none_is_not_blamed_on_the_state():
    model = {"w": jnp.ones(3)}

    def step(model, opt_state, x):
        return model["w"] + None

    for cause in causes_of(step, model, optax.adam(1e-3).init(model), ones(3)):
        assert cause.fixes == cause.hints == ()
        assert cause.note.startswith("TypeError: unsupported operand type(s) for +")


def test_a_state_of_nested_dicts_is_not_blamed_for_their_types():
    model = {"a": {"b": jnp.arange(3)}, "b": jnp.ones(3)}
    opt_state = canonopt.init_like_grads(model, lambda m: jnp.sum(m["b"]), optim=optax.adam(1e-3))
    for cause in causes_of(lambda m, state, x: x + None, model, opt_state, ones(3)):
        assert cause.fixes == cause.hints == ()


def update_with_gradients(model, opt_state, x):
    grads = eqx.filter_grad(loss_fn)(model, x)
    return optax.adam(1e-3).update(grads, opt_state)


def test_a_failure_with_a_state_for_leaves_without_gradients_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))
    opt_state = optax.adam(1e-3).init(model)
    for cause in causes_of(update_with_gradients, model, opt_state, ones(4, 3)):
        assert (cause.fixes, cause.hints) == ((), (INIT,))
    opt_state = canonopt.init_like_grads(model, loss_fn, ones(4, 3), optim=optax.adam(1e-3))
    eqx.filter_jit(update_with_gradients)(model, opt_state, ones(4, 3))


def test_a_failure_with_a_state_that_lacks_leaves_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))
    opt_state = optax.adam(1e-3).init(Table(None, None))
    for cause in causes_of(update_with_gradients, model, opt_state, ones(4, 3)):
        assert (cause.fixes, cause.hints) == ((), (INIT,))


def test_a_failure_in_a_train_state_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))

    def step(state, x):
        return update_with_gradients(state.params, state.opt_state, x)

    for cause in causes_of(step, TrainState(model, optax.adam(1e-3).init(model)), ones(4, 3)):
        assert (cause.fixes, cause.hints) == ((), (INIT,))


# --- one renderer -----------------------------------------------------------------------------


def test_lines_of_a_cause_have_roles():
    changes = [Change(f"x{i}", "shape", "float32[1]", "float32[2]") for i in range(3)]
    assert cause_lines(changes, None, ["pad", "crop"], ["x = 1"], most=1) == [
        CauseLine("change", "x0: shape: float32[1] -> float32[2]"),
        CauseLine("change", "and 2 more differences"),
        CauseLine("hint", "pad"),
        CauseLine("fix", "x = 1"),
    ]
    lines = cause_lines((), "TypeError: no\n\nmore\n", ["pad"], ["x = 1"])
    assert [line.role for line in lines] == ["note", "note", "hint", "fix"]
    assert [str(line) for line in lines] == ["TypeError: no", "more", "hint: pad", "write: x = 1"]


def test_lines_that_are_too_many_to_show_are_no_lines_to_paste():
    lines = cause_lines((), None, ["one", "two"], ["x = 1", "y = 1", "z = 1"], most=2)
    assert lines == [CauseLine("hint", "one"), CauseLine("hint", "3 lines like x = 1")]
