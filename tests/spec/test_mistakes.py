"""The mistakes of a newcomer: each is an error where it is made, which says what to write."""

import functools
import re
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from omegaconf import OmegaConf

import canonopt
from canonopt.errors import (
    NotAFactoryError,
    NotATransformationError,
    ParameterError,
)

RATE = canonopt.linear_schedule(1e-3, 0.0, 100)


def model():
    return eqx.nn.MLP(2, 1, 4, depth=1, key=jax.random.key(0))


class Optimizer:
    def init(self, params): ...
    def update(self, updates, state, params=None): ...


MISTAKES = {
    "no learning rate": (
        lambda: canonopt.adam(),
        ParameterError,
        "adam: missing a required argument: 'learning_rate'. Its signature is adam(learning_rate, "
        "b1=0.9, b2=0.999, eps=1e-08, eps_root=0.0, mu_dtype=None, *, nesterov=False). lr is "
        "another name of learning_rate.",
    ),
    "a parameter by another name": (
        lambda: canonopt.adamw(1e-3, weight_decy=1e-2),
        ParameterError,
        "adamw: got an unexpected keyword argument 'weight_decy'. Did you mean 'weight_decay'?",
    ),
    "a parameter by both of its names": (
        lambda: canonopt.adam(lr=1e-3, learning_rate=1e-3),
        ParameterError,
        "adam got both lr and learning_rate, which are one parameter. Write only one of them",
    ),
    "a word for a number": (
        lambda: canonopt.adam("fast"),
        ParameterError,
        "adam needs a number or a schedule for learning_rate, and got the string 'fast'. Write a "
        "number or a schedule.",
    ),
    "a number as text": (
        lambda: canonopt.adamw(1e-3, eps="1e-8"),
        ParameterError,
        "adamw needs a number for eps, and got the string '1e-8'. Write float('1e-8'), or 1.0e-8",
    ),
    "a list for a number": (
        lambda: canonopt.adam([1e-3]),
        ParameterError,
        "adam needs a number or a schedule for learning_rate, and got the list [0.001]. Write "
        "learning_rate=0.001, or, for the members of an ensemble, canonopt.dynamic([0.001]).",
    ),
    "both betas for one": (
        lambda: canonopt.adam(1e-3, b1=(0.9, 0.999)),
        ParameterError,
        "adam needs a number for b1, and got the tuple (0.9, 0.999). Write b1=0.9, or, for the",
    ),
    "a class for a number": (
        lambda: canonopt.adam(learning_rate=float),
        ParameterError,
        "adam needs a number or a schedule for learning_rate, and got the class float. Write a "
        "number or a schedule.",
    ),
    "an abbreviated dtype": (
        lambda: canonopt.adam(1e-3, mu_dtype="bf16"),
        ParameterError,
        "adam needs a dtype for mu_dtype, and got the string 'bf16'. Write mu_dtype='bfloat16', or "
        "jnp.bfloat16.",
    ),
    "a schedule that is not made yet": (
        lambda: canonopt.adam(canonopt.linear_schedule),
        ParameterError,
        "and got the factory canonopt.linear_schedule. Call it: "
        "learning_rate=canonopt.linear_schedule(...).",
    ),
    "an optimizer for a number": (
        lambda: canonopt.adam(canonopt.clip(1.0)),
        ParameterError,
        "adam needs a number or a schedule for learning_rate, and got the transformation "
        "canonopt.clip(max_delta=1.0).",
    ),
    "an optimizer that is not made yet": (
        lambda: canonopt.chain(canonopt.clip(1.0), canonopt.adam),
        NotATransformationError,
        "chain needs a gradient transformation, and args[1] is the factory canonopt.adam. Call it: "
        "canonopt.adam(...).",
    ),
    "a schedule factory in a chain": (
        lambda: canonopt.chain(canonopt.linear_schedule),
        NotATransformationError,
        "args[0] is the factory canonopt.linear_schedule. Write canonopt.scale_by_learning_rate("
        "canonopt.linear_schedule(...)), or canonopt.sgd(canonopt.linear_schedule(...)).",
    ),
    "a schedule in a chain": (
        lambda: canonopt.chain(canonopt.scale_by_adam(), RATE),
        NotATransformationError,
        f"args[1] is the schedule {RATE!r}. Write canonopt.scale_by_learning_rate({RATE!r}), or "
        f"canonopt.sgd({RATE!r}).",
    ),
    "a class in a chain": (
        lambda: canonopt.chain(Optimizer),
        NotATransformationError,
        "args[0] is the class Optimizer. Make an instance: Optimizer(...).",
    ),
    "a list in a chain": (
        lambda: canonopt.chain([canonopt.clip(1.0), canonopt.adam(1e-3)]),
        NotATransformationError,
        "args[0] is the list [canonopt.clip(max_delta=1.0), canonopt.adam(learning_rate=0.001)]. "
        "Unpack it: canonopt.chain(*transforms).",
    ),
    "a learning rate in a chain": (
        lambda: canonopt.chain(canonopt.scale_by_adam(), -1e-3),
        NotATransformationError,
        "args[1] is -0.001. Build one, with canonopt.sgd(-0.001) for example.",
    ),
    "a config for a tree": (
        lambda: canonopt.adamw(1e-3, mask=OmegaConf.create({"w": True})),
        ParameterError,
        "adamw needs a tree for mask, and JAX takes an OmegaConf DictConfig for a leaf. Write "
        "OmegaConf.to_container(value, resolve=True)",
    ),
    "a transformation for its factory": (
        lambda: canonopt.canonical(optax.adam(1e-3)),
        NotAFactoryError,
        "Give it the factory itself, as in canonopt.canonical(optax.adam).",
    ),
    "another library's optimizer": (
        lambda: canonopt.Adam(1e-3),
        AttributeError,
        "Neither canonopt nor optax ",
    ),
    "a whole model": (
        lambda: canonopt.adam(1e-3).init(model()),
        ParameterError,
        "adam cannot make a state for .activation, which is a function. Write optim.init("
        "eqx.filter(model, eqx.is_inexact_array)), or optim.init_like_grads(model, loss_fn, ...).",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_where_it_is_made(name):
    make, error, message = MISTAKES[name]
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_a_whole_model_is_as_in_optax_where_optax_takes_it():
    assert canonopt.sgd(0.1).init(model()) == optax.sgd(0.1).init(model())
    params = {"w": jnp.ones(2), "name": "layer"}
    with pytest.raises(ParameterError, match=r"state for \['name'\], which is a str\."):
        canonopt.adam(1e-3).init(params)
    with pytest.raises(TypeError):
        optax.adam(1e-3).init(params)


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
        updates, _ = optim.update(jnp.ones(2), optim.init(jnp.ones(2)))
        assert updates.tolist() == [-0.5, -0.5]


def test_another_error_of_init_comes_through():
    class Refused(Exception):
        pass

    def refuse(params):
        raise Refused

    optim = canonopt.canonical(lambda: optax.GradientTransformation(refuse, lambda *_: None))()
    with pytest.raises(Refused):
        optim.init({"w": jnp.ones(2)})
