"""The line to write: it fits the argument, the leaf and the failure."""

import collections
import typing
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt
from canonopt._recompiles import CauseLine, Change
from canonopt._recompiles.advice import cause_lines

from ..support.scenarios import Table, loss_fn, named, ones


def test_functions_of_a_variable_that_changed_are_not_the_same_code():
    """The line to write must not bake the first value in."""
    call = jax.jit(lambda fn, x: fn(x), static_argnums=0)
    source = "for k in (1.0, 2.0):\n    call(lambda x: x * k, 1.0)\n    jit(lambda x: x + k)(1.0)"
    with canonopt.compile_log() as log:
        exec(source, {"call": call, "jit": jax.jit})  # k is a global, which both share
    fixes = {cause.fixes for function in log.functions for cause in function.causes()}
    assert fixes == {
        ("build fn once, or pass what differs in it as an array argument",),
        ("jit one function, and pass what differs as an argument",),
    }


SAME = "tx = canonopt.adam(...) in place of optax.adam(...), and so on"
VALUE = "tx = canonopt.adam(canonopt.dynamic(lr)), and so on"


@pytest.mark.parametrize(
    "build, fix",
    [
        (lambda i: optax.adam(optax.cosine_decay_schedule(1e-3, 10)), SAME),
        (lambda i: optax.adamw(1e-3, mask={"w": True}), SAME),
        (lambda i: optax.masked(optax.adam(1e-3), {"w": True}), SAME),
        (lambda i: optax.contrib.muon(1e-3), SAME),
        (lambda i: optax.multi_transform({"a": optax.sgd(0.1)}, {"w": "a"}), SAME),
        (lambda i: optax.inject_hyperparams(optax.adam)(learning_rate=1e-3), SAME),
        (lambda i: optax.adam(1e-3) if i else optax.sgd(1e-3), SAME),
        (lambda i: optax.adam(optax.cosine_decay_schedule(1e-3, 10 + i)), VALUE),
        (lambda i: optax.chain(optax.clip(1.0), optax.adamw(1e-3, b1=0.9 - i / 10)), VALUE),
    ],
)
def test_what_to_write_for_a_transformation_that_was_built_again(build, fix):
    step = jax.jit(named(lambda x, tx: tx.init({"w": x})), static_argnums=1, static_argnames="tx")
    with canonopt.compile_log() as log:
        for i in range(2):
            step(ones(3), build(i))
    (change,) = log["step"].entries[-1].explanation.changes
    assert change.kind == "transformation"
    assert change.fix.startswith(fix)


def test_an_argument_that_is_left_out():
    step = jax.jit(named(lambda x, n=3: x * n), static_argnames="n")
    with canonopt.compile_log() as log:
        step(ones(3)), step(ones(3), n=3)
    (change,) = log["step"].entries[-1].explanation.changes
    assert (change.kind, change.fix) == ("structure", "pass n in every call or in none")


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
    assert "is a Trainer, which may change. Make Trainer a frozen dataclass" in change.fix
    assert "canonopt.register_constant(Trainer)" in change.fix


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
    assert change.fix == (
        "state.opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"
    )


APPLY = (
    "canonopt.apply_updates(model, updates) in place of eqx.apply_updates(model, updates): the "
    "model keeps its dtypes"
)


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
    with pytest.raises(canonopt.ExcessError) as caught:
        widened_by(limit(jax.jit(step_with(eqx.apply_updates))))
    assert caught.value.fix == APPLY
    widened_by(limit(jax.jit(step_with(canonopt.apply_updates))))


def test_a_model_that_a_step_widens_names_the_cure_below_the_jit():
    with pytest.raises(canonopt.ExcessError) as caught:
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
    assert cause.fixes == ("x in one dtype: .astype(jnp.float16)",)


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


INIT = "opt_state = canonopt.init_like_grads(model, loss_fn, *batch, optim=optim)"


def test_a_failure_that_only_mentions_none_is_not_blamed_on_the_state():
    model = {"w": jnp.ones(3)}

    def step(model, opt_state, x):
        return model["w"] + None

    for cause in causes_of(step, model, optax.adam(1e-3).init(model), ones(3)):
        assert cause.fixes == ()
        assert cause.note.startswith("TypeError: unsupported operand type(s) for +")


def test_a_state_of_nested_dicts_is_not_blamed_for_their_types():
    model = {"a": {"b": jnp.arange(3)}, "b": jnp.ones(3)}
    opt_state = canonopt.init_like_grads(model, lambda m: jnp.sum(m["b"]), optim=optax.adam(1e-3))
    for cause in causes_of(lambda m, state, x: x + None, model, opt_state, ones(3)):
        assert cause.fixes == ()


def update_with_gradients(model, opt_state, x):
    grads = eqx.filter_grad(loss_fn)(model, x)
    return optax.adam(1e-3).update(grads, opt_state)


def test_a_failure_with_a_state_for_leaves_without_gradients_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))
    opt_state = optax.adam(1e-3).init(model)
    for cause in causes_of(update_with_gradients, model, opt_state, ones(4, 3)):
        assert cause.fixes == (INIT,)
    opt_state = canonopt.init_like_grads(model, loss_fn, ones(4, 3), optim=optax.adam(1e-3))
    eqx.filter_jit(update_with_gradients)(model, opt_state, ones(4, 3))


def test_a_failure_with_a_state_that_lacks_leaves_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))
    opt_state = optax.adam(1e-3).init(Table(None, None))
    for cause in causes_of(update_with_gradients, model, opt_state, ones(4, 3)):
        assert cause.fixes == (INIT,)


def test_a_failure_in_a_train_state_names_the_cure():
    model = Table(jnp.ones((3, 3)), jnp.arange(3))

    def step(state, x):
        return update_with_gradients(state.params, state.opt_state, x)

    for cause in causes_of(step, TrainState(model, optax.adam(1e-3).init(model)), ones(4, 3)):
        assert cause.fixes == (INIT,)


# --- one renderer -----------------------------------------------------------------------------


def test_lines_of_a_cause_have_roles():
    changes = [Change(f"x{i}", "shape", "float32[1]", "float32[2]", "pad") for i in range(3)]
    assert cause_lines(changes, None, ["pad", "crop"], most=1) == [
        CauseLine("change", "x0: shape: float32[1] -> float32[2]"),
        CauseLine("change", "and 2 more differences"),
        CauseLine("fix", "pad"),
    ]
    lines = cause_lines((), "TypeError: no\n\nmore\n", ["pad"])
    assert [line.role for line in lines] == ["note", "note", "fix"]
    assert [str(line) for line in lines] == ["TypeError: no", "more", "write: pad"]
