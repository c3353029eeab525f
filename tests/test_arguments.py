"""Calls that do not fit: what they say, and that they leave nothing behind."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt

PARAMS = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: canonopt.adam(), "adam needs learning_rate. Write adam(learning_rate=...)."),
        (
            lambda: canonopt.adam(1e-3, lr=2),
            "adam got 'learning_rate' twice, the second time as a keyword. Write it once.",
        ),
        (
            lambda: canonopt.adam(lr=1, learning_rate=1),
            "adam got both lr and learning_rate, which are one parameter.",
        ),
        (
            lambda: canonopt.adam(1e-3, weight_decy=0.1),
            "adam has no parameter 'weight_decy'. Its parameters are: learning_rate, b1, b2",
        ),
        (
            lambda: canonopt.adamw(1e-3, weight_decy=0.1),
            "adamw has no parameter 'weight_decy'. Did you mean 'weight_decay'?",
        ),
        (lambda: canonopt.identity(x=1), "identity has no parameter 'x'. Its parameters are: none"),
        (
            lambda: canonopt.clip(1.0, 2.0),
            "clip takes at most 1 positional arguments (max_delta) and got 2. Name the others.",
        ),
        (
            lambda: canonopt.polyak_sgd(lr=1.0),
            "polyak_sgd has no parameter 'lr'",
        ),
        (
            lambda: canonopt.adam(1e-3).replace(beta1=0.5),
            "adam has no parameter 'beta1'",
        ),
        (
            lambda: canonopt.warmup_constant_schedule(0.0),
            "warmup_constant_schedule needs peak_value, warmup_steps.",
        ),
    ],
)
def test_calls_that_do_not_fit(call, message):
    with pytest.raises(canonopt.ParameterError, match=re.escape(message)):
        call()
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: canonopt.chain(canonopt.clip(1.0), optax.adam),
            "chain needs a gradient transformation, and args[1] is the function adam. "
            "Call it, as in adam(...)",
        ),
        (
            lambda: canonopt.chain([canonopt.clip(1.0)]),
            "args[0] is a list of 1. Unpack it: canonopt.chain(*transforms)",
        ),
        (lambda: canonopt.chain(1e-3), "args[0] is 0.001. Build one, with canonopt.sgd(0.001)"),
        (lambda: canonopt.chain(None), "args[0] is None."),
        (
            lambda: canonopt.masked(1.0, True),
            "masked needs a gradient transformation, and inner is",
        ),
        (
            lambda: canonopt.named_chain(canonopt.clip(1.0)),
            "args[0] is canonopt.clip(max_delta=1.0). "
            'Write named_chain(("clip", canonopt.clip(1.0)), ...).',
        ),
        (lambda: canonopt.named_chain(("a", canonopt.clip(1.0)), ("b",)), "args[1] is ('b',)."),
        (lambda: canonopt.named_chain(("a", 3)), "args[0][1] is 3."),
        (
            lambda: canonopt.partition({"a": optax.sgd}, {"w": "a"}),
            "partition needs a gradient transformation, and transforms['a'] is the function sgd.",
        ),
        (lambda: canonopt.contrib.sam(canonopt.sgd(1.0), 1.0), "adv_optimizer is 1.0."),
        (lambda: canonopt.chain(optax.MultiSteps), "args[0] is the function MultiSteps."),
    ],
)
def test_something_that_is_no_transformation(call, message):
    with pytest.raises(canonopt.NotATransformationError, match=re.escape(message)):
        call()


def test_optional_transformations_may_be_none():
    assert canonopt.lbfgs(linesearch=None).linesearch is None
    assert canonopt.contrib.galore(0.1, base_optimizer=None).base_optimizer is None


def test_optax_transformations_are_taken_and_merged_where_they_can_be():
    assert canonopt.chain(optax.clip(1.0)) is canonopt.chain(optax.clip(1.0))
    assert canonopt.chain(optax.clip(1.0)) is not canonopt.chain(optax.clip(2.0))
    assert canonopt.chain(optax.MultiSteps(optax.sgd(0.1), 2)).init(PARAMS)


def test_arguments_of_every_kind_are_bound_as_python_binds_them():
    @canonopt.canonical
    def factory(a, /, b, *rest, c, d=4, **named):
        return optax.scale(a + b + sum(rest) + c + d + sum(named.values()))

    spec = factory(1, 2, 3, c=5, e=6)
    assert spec is factory(1, 2, 3, e=6, d=4, c=5)
    assert spec.parameters() == {"a": 1, "b": 2, "rest": (3,), "c": 5, "d": 4, "named": {"e": 6}}
    updates, _ = spec.update(1.0, spec.init(1.0))
    assert updates == 21
    assert spec.replace(b=3) is factory(1, 3, 3, c=5, e=6)
    with pytest.raises(canonopt.ParameterError, match=r"factory needs b, c\."):
        factory(1)


def test_parameters_that_hide_attributes_get_a_field_of_another_name():
    @canonopt.canonical
    def factory(init, update=2.0, count=3, lr=4):
        return optax.scale(init * update)

    spec = factory(init=1.5)
    assert callable(spec.init)
    assert (spec.init_, spec.update_, spec.count_) == (1.5, 2.0, 3)
    assert spec.replace(init=2.0) is factory(2.0)
    assert spec.parameters()["lr"] == 4


# --- a tree that is callable (optax#1373) -----------------------------------------------------


class Labels(eqx.Module):
    w: object
    b: object

    def __call__(self, params):
        raise AssertionError("a tree is not called")


class LabelFunction(eqx.Module):
    prefix: str = "no label"

    def __call__(self, params):
        return Labels("adam", "sgd")


def test_a_callable_tree_of_labels_is_a_tree():
    params = Labels(jnp.ones(2), jnp.ones(2))
    transforms = {"adam": optax.adam(0.1), "sgd": optax.set_to_zero()}
    labels = Labels("adam", "sgd")
    with pytest.raises(AssertionError, match="a tree is not called"):
        optax.partition(transforms, labels).init(params)
    optim = canonopt.partition(transforms, labels)
    updates, _ = optim.update(params, optim.init(params), params)
    assert updates.b.tolist() == [0.0, 0.0]
    assert updates.w.tolist() != [0.0, 0.0]
    assert optim.param_labels == labels
    assert optim is canonopt.partition(transforms, Labels("adam", "sgd"))


def test_a_callable_module_without_labels_is_a_function():
    params = Labels(jnp.ones(2), jnp.ones(2))
    optim = canonopt.partition(
        {"adam": canonopt.adam(0.1), "sgd": canonopt.set_to_zero()}, LabelFunction()
    )
    updates, _ = optim.update(params, optim.init(params), params)
    assert updates.b.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "build",
    [
        lambda mask: canonopt.masked(canonopt.set_to_zero(), mask),
        lambda mask: canonopt.freeze(mask),
        lambda mask: canonopt.add_decayed_weights(0.1, mask),
        lambda mask: canonopt.selective_transform(canonopt.sgd(0.1), freeze_mask=mask),
        lambda mask: canonopt.adamw(0.1, mask=mask),
        lambda mask: canonopt.lars(0.1, weight_decay_mask=mask, trust_ratio_mask=mask),
    ],
)
def test_a_callable_tree_of_booleans_is_a_mask(build):
    params = Labels(jnp.ones((2, 2)), jnp.ones(2))
    optim = build(Labels(True, False))
    state = optim.init(params)
    optim.update(params, state, params)
    assert build(Labels(True, False)) is optim
    assert build(Labels(False, True)) is not optim


def test_callable_trees_of_dimension_numbers_are_trees():
    numbers = optax.contrib.MuonDimensionNumbers()
    params = Labels(jnp.ones((4, 4)), jnp.ones((4, 4)))
    optim = canonopt.contrib.muon(0.1, muon_weight_dimension_numbers=Labels(numbers, None))
    updates, _ = optim.update(params, optim.init(params), params)
    assert jax.tree.structure(updates) == jax.tree.structure(params)
