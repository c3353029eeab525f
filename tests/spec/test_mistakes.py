"""The mistakes of a newcomer: each is an error where it is made, which says what to write."""

import dataclasses
import functools
import inspect
import re
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import canonopt
from canonopt import errors

from ..support.generated import named_texts, rows


def model():
    return eqx.nn.MLP(2, 1, 4, depth=1, key=jax.random.key(0))


def with_more(learning_rate, b1, **more):
    return optax.adam(learning_rate, b1, **more)


NAMES = {
    "with_more": with_more,
    **{"canonopt": canonopt, "optax": optax},
    **{name: getattr(canonopt, name) for name in ("adam", "adamw", "chain", "clip", "sgd")},
    **{"model": model(), "dynamic": canonopt.dynamic},
    "not_given": inspect.signature(canonopt.adam).parameters["lr"].default,
    "Frozen": dataclasses.make_dataclass("Frozen", ["lr"], frozen=True),
}


def scheduled(peak):
    schedule = canonopt.warmup_cosine_decay_schedule(0.0, peak, 2, 10)
    return canonopt.chain(canonopt.clip(1.0), canonopt.adamw(schedule))


# What is written wrong, and what the error says of it, by the class of the error.
TEXT = r"""
### calls that do not fit, ParameterError
adam() | adam: missing a required argument: 'learning_rate'. Its signature is adam(learning_rate, \
    b1=0.9, b2=0.999, eps=1e-08, eps_root=0.0, mu_dtype=None, *, nesterov=False). lr is another \
    name of learning_rate.
adam(lr=not_given) | adam: missing a required argument: 'learning_rate'.
adam(1e-3, lr=2) | adam: multiple values for argument 'learning_rate'.
adam(1e-3, x=1) | nesterov=False). lr is another name of learning_rate.
adam(lr=1e-3, learning_rate=1e-3) | adam got both lr and learning_rate, which are one parameter. \
    Write only one of them
adamw(1e-3, weight_decy=1e-2) | adamw: got an unexpected keyword argument 'weight_decy'. Did you \
    mean 'weight_decay'?
canonopt.identity(x=1) | 'x'. Its signature is identity().
clip(1.0, 2.0) | clip: too many positional arguments. Its signature is clip(max_delta).
canonopt.polyak_sgd(lr=1.0) | got an unexpected keyword argument 'lr'.
adam(1e-3).replace(beta1=0.5) | There is no hyperparameter 'beta1'. \
    The hyperparameters of this spec are: learning_rate, b1, b2, eps, eps_root
chain(clip(1.0), adam(1e-3)).replace(lr=0.1, learning_rate=0.2) | replace got two values for \
    args[1].learning_rate. Write only one of them.
chain(adam(1e-3)).replace(**{'args[0]': sgd(1e-3), 'args[0].lr': 0.1}) | replace got a value for \
    args[0].learning_rate, and another for a part that contains it. Write only one of them.
chain(adam(1e-3)).replace(args=(sgd(1e-3),), lr=0.1) | replace got a value for \
    args[0].learning_rate, and another for a part that contains it. Write only one of them.
canonopt.canonical(with_more)(0.1, b2=3) | with_more: missing a required argument: 'b1'. Its sig
### text in place of a number or a boolean, ParameterError
adam('1e-3') | learning_rate of adam must be a number or a boolean, not '1e-3'. Write it \
    without quotes. In YAML, 1e-3 is text, and 1.0e-3 a number.
sgd(0.1, nesterov='false') | nesterov of sgd must be a number or a boolean, not 'false'.
chain(sgd(0.1)).replace(lr='fast') | learning_rate of sgd must be a number or a boolean, not 'fast'.
canonopt.cosine_decay_schedule(1.0, '10') | decay_steps of cosine_decay_schedule must \
    be a number or a boolean, not '10'.
canonopt.scale_by_distance_over_gradients(eps='0.1') | eps of \
    scale_by_distance_over_gradients must be a number or a boolean, not '0.1'.
canonopt.canonical(optax.sgd)('0.1') | learning_rate of sgd must \
    be a number or a boolean, not '0.1'.
### names of hyperparameters, ParameterError
dynamic(adam(0.1), 'learnin_rate') | There is no hyperparameter 'learnin_rate'. Did you mean \
    'learning_rate'? The hyperparameters of this spec are: learning_rate, b1, b2, eps, eps_root
dynamic(canonopt.chain(sgd(0.1), adam(0.1)), 'learning_rate') | 'learning_rate' is ambiguous: it \
    may be any of args[0].learning_rate, args[1].learning_rate. Write the whole path of the one \
    you mean.
adam(0.1).replace(**{'lr.peak_value': 1}) | There is no hyperparameter 'lr.peak_value'. Did you \
    mean 'learning_rate'?
### no traced numbers, DynamicSpecError
dynamic(sgd(0.1)) | canonopt.dynamic takes a number, or a spec and names of its hyperparameters. \
    Write canonopt.dynamic(1e-3) or canonopt.dynamic(spec, 'learning_rate').
dynamic(optax.sgd(0.1), 'lr') | Build the optimizer with canonopt in place of optax.
round(dynamic(0.1)) | canonopt.dynamic(0.1) is a leaf of a spec
dynamic(scheduled(0.1), 'args[1].lr') | args[1].learning_rate must be a number, not \
    canonopt.warmup_cosine_decay_schedule(
dynamic(scheduled(0.1), 'args[1].lr') | Name a number in it: canonopt.dynamic(spec, \
    'args[1].learning_rate.init_value').
2 * dynamic(0.1) | canonopt.dynamic(0.1) is a leaf of a spec: arithmetic and comparisons are not
-dynamic(0.1) | made by canonopt.canonical. Or compute first: canonopt.dynamic(0.1 * rate).
optax.adam(dynamic(0.1)) | Pass it to a factory of canonopt, or to one made by canonopt.canonical
adam(Frozen(dynamic(0.1))) | In learning_rate of canonopt.adam, an object that is not a pytree \
    holds an array or a canonopt.dynamic number. Pass the number as an argument of its own, or
dynamic(0.1) > 0 | canonopt.dynamic(0.1) is a leaf of a spec
dynamic(sgd(0.1), 'momentum') | takes a number or an array, not momentum=None. Write \
    canonopt.dynamic(1e-3).
dynamic(2**40) | The number is 1099511627776, which does not fit int32. Pass the \
    number itself, without canonopt.dynamic(...).
dynamic(1e-40) | The number is 1e-40, which does not fit float32.
dynamic(0.1, 'lr') | takes a number, or a spec and names of its hyperparameters.
### no factory, NotAFactoryError
canonopt.canonical(optax.adam(1e-3)) | Give it the factory itself, as in \
    canonopt.canonical(optax.adam).
"""
MISTAKES = [
    (code, getattr(errors, kind), message)
    for kind, body in named_texts(TEXT).values()
    for code, message in rows(body)
]
MISTAKES += [("canonopt.Adam(1e-3)", AttributeError, "Neither canonopt nor optax ")]
MISTAKES += [("hash(dynamic(0.1))", TypeError, "unhashable")]
MISTAKES += [("dynamic(0.1) + 'text'", TypeError, "unsupported operand")]


@pytest.mark.parametrize(("code", "error", "message"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_named_where_it_is_made(code, error, message):
    with pytest.raises(error, match=re.escape(message)) as raised:
        eval(code, NAMES | {"scheduled": scheduled})
    assert isinstance(raised.value, TypeError | AttributeError)  # as in Python


@pytest.mark.parametrize(
    "call", ["chain()", "chain(sgd)", "chain([sgd(1)])", "adam({1})", "adam(object())"]
)
def test_an_error_of_a_factory_is_optax_own(call):
    with pytest.raises(Exception) as ours:
        eval(f"canonopt.{call}", NAMES.copy())
    with pytest.raises(type(ours.value), match=re.escape(str(ours.value))):
        eval(f"optax.{call}", NAMES.copy())
    notes = ["sgd was passed without a call: write sgd(...)."] if call == "chain(sgd)" else []
    assert getattr(ours.value, "__notes__", []) == notes


def test_a_whole_model_is_as_in_optax_where_optax_takes_it():
    assert canonopt.sgd(0.1).init(model()) == optax.sgd(0.1).init(model())
    for optim in (adam := canonopt.adam(1e-3), canonopt.chain(canonopt.clip(1.0), adam)):
        with pytest.raises(TypeError) as raised:
            optim.init(model())
        with pytest.raises(TypeError, match=re.escape(str(raised.value))):
            optax.adam(1e-3).init(model())
        (note,) = raised.value.__notes__
        assert note.startswith(".activation is not an array, but <class '") and note.endswith(
            "Write optim.init(eqx.filter(model, eqx.is_inexact_array)), or "
            "optim.init_like_grads(model, loss_fn, ...)."
        )


class Decay(NamedTuple):
    rate: float

    def __call__(self, count):
        return self.rate / (count + 1)


def test_what_is_a_schedule_however_it_is_written_is_no_mistake():
    def rate(count):
        return 0.5

    rate.factory = "a note of the user's"
    for schedule in (Decay(0.5), rate, functools.partial(Decay, 0.5)()):
        optim = canonopt.sgd(schedule)
        assert repr(optim).startswith("canonopt.sgd(learning_rate=")
        updates, _ = optim.update(jnp.ones(2), optim.init(jnp.ones(2)))
        assert updates.tolist() == [-0.5, -0.5]
