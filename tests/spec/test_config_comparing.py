"""Fingerprints are the same everywhere, and differences are listed by path."""

import math  # noqa: F401 - the cases name it

import jax
import jax.numpy as jnp
import numpy as np  # noqa: F401
import optax
import pytest

import canonopt

from ..support import catalogue
from ..support.catalogue import build
from . import config_files as files
from .config_files import FORMATS, is_matrix, registry_for


@canonopt.canonical
def holding(value):
    return _identity


_identity = optax.identity()
DATA = {
    "canonopt": {"format": 1, "optax": "0.0.1"},
    "spec": {
        "optax": "chain",
        "args": [
            {"optax": "scale", "step_size": -0.1},
            {"canonical": "train:masked", "mask": {"name": "train:mask"}, "eps": {"float": "nan"}},
        ],
    },
}
DIGEST = "7f85fb78facfe2cb49337c6e3bf0cf6adad03069ff22f8303882e01f0e3b9dfa"


# --- fingerprints -----------------------------------------------------------------------------


def test_the_digest_of_data_is_fixed():
    assert canonopt.fingerprint(DATA) == DIGEST


def test_the_digest_of_a_spec_is_fixed():
    spec = holding((0.1, None, jnp.bfloat16, {"b": 1, "a": True}))
    digest = "d7dcd0c7cb2d1e8cf58ebb6257779e21bf58090badbfa9a919856dc873624253"
    assert canonopt.fingerprint(spec, registry={"holding": holding}) == digest


def test_the_fingerprints_of_the_catalogue_differ_and_are_those_of_the_data(recwarn):
    found = set()
    for name in catalogue.ALL:
        spec = build(name, canonopt)
        registry = registry_for(spec)
        data = canonopt.to_config(spec, registry=registry)
        digest = canonopt.fingerprint(spec, registry=registry)
        assert {canonopt.fingerprint(through(data)) for through in FORMATS.values()} == {digest}
        found.add(digest)
    assert len(found) == len(catalogue.ALL)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.0, -0.0), (0.1, 0.1 + 2**-56), ([1], (1,)), ("1", 1), (None, "none")],
)
def test_values_that_are_not_the_same_have_other_fingerprints(one, other):
    digests = [canonopt.fingerprint(holding(value)) for value in (one, other)]
    assert digests[0] != digests[1]
    assert canonopt.diff(*map(holding, (one, other)))


# --- differences ------------------------------------------------------------------------------

adam, chain, clip, sgd = canonopt.adam, canonopt.chain, canonopt.clip, canonopt.sgd
cosine = canonopt.cosine_decay_schedule(1e-3, 100)
linear = canonopt.linear_schedule(1e-3, 0.0, 10)
LINEAR = "linear_schedule(init_value=0.001, end_value=0.0, transition_steps=10, transition_begin=0)"
SGD = "sgd(learning_rate=0.1, momentum=None, nesterov=False, accumulator_dtype=None)"


def by_label(**transforms):
    return canonopt.partition(transforms, {"w": next(iter(transforms))})


# Two specs as Python writes them, and the lines of what differs.
CASES = {
    "adam(1e-3), adam(3e-4)": "learning_rate: 0.001 -> 0.0003",
    "adam(1e-3), adam(1e-3)": "",
    "chain(clip(1.0), adam(1e-3)), chain(clip(2.0), adam(1e-3, b1=0.8))": (
        "args[0].max_delta: 1.0 -> 2.0\nargs[1].b1: 0.9 -> 0.8"
    ),
    "sgd(cosine), sgd(cosine.replace(alpha=0.1))": "learning_rate.alpha: 0.0 -> 0.1",
    "sgd(0.1), sgd(linear)": f"learning_rate: 0.1 -> {LINEAR}",
    "linear, canonopt.constant_schedule(1.0)": f"spec: {LINEAR} -> constant_schedule(value=1.0)",
    "chain(adam(1e-3)), chain(adam(3e-4), clip(1.0))": (
        "args[0].learning_rate: 0.001 -> 0.0003\nargs[1]: nothing -> clip(max_delta=1.0)"
    ),
    "chain(adam(1e-3), clip(1.0)), chain(adam(1e-3))": "args[1]: clip(max_delta=1.0) -> nothing",
    "chain(clip(1.0), adam(1e-3)), chain(canonopt.scale(0.5), adam(1e-3))": (
        "args[0]: clip(max_delta=1.0) -> scale(step_size=0.5)"
    ),
    "by_label(a=sgd(0.1), b=sgd(0.1)), by_label(a=sgd(0.2), c=sgd(0.1))": (
        "transforms['a'].learning_rate: 0.1 -> 0.2\n"
        f"transforms['b']: {SGD} -> nothing\ntransforms['c']: nothing -> {SGD}"
    ),
    "holding({'b': sgd(0.1), 1: sgd(0.1)}), holding({'b': sgd(0.1), 1: sgd(0.2)})": (
        "value[1].learning_rate: 0.1 -> 0.2"
    ),
    "holding({'b': 1, 'a': 2}), holding({'a': 2, 'b': 1})": (
        'value: {"dict": [["b", 1], ["a", 2]]} -> {"a": 2, "b": 1}'
    ),
    "holding({'b': 1, 'a': 2, 'c': 3}), holding({'b': 1, 'c': 3, 'a': 2})": (
        'value: {"dict": [["b", 1], ["a", 2], ["c", 3]]} -> '
        '{"dict": [["b", 1], ["c", 3], ["a", 2]]}'
    ),
    "canonopt.named_chain(('x', clip(1.0))), canonopt.named_chain(('x', clip(2.0)))": (
        "args[0][1].max_delta: 1.0 -> 2.0"
    ),
    "holding([1, math.nan, None, (1,), {'a': 1}]), holding([1.0, 0.0, True, (1.0,), {}])": (
        "value[0]: 1 -> 1.0\nvalue[1]: nan -> 0.0\nvalue[2]: None -> True\n"
        "value[3][0]: 1 -> 1.0\nvalue[4]['a']: 1 -> nothing"
    ),
    "holding([1]), holding((1,))": 'value: [1] -> {"tuple": [1]}',
    "adam(canonopt.dynamic(1e-3)), adam(canonopt.dynamic(3e-4))": (
        'learning_rate: {"dynamic": 0.001} -> {"dynamic": 0.0003}'
    ),
    "canonopt.inject_hyperparams(optax.sgd)(0.1), canonopt.inject_hyperparams(optax.sgd)(0.2)": (
        "learning_rate: 0.1 -> 0.2"
    ),
    "canonopt.adamw(1e-3, mask=is_matrix), canonopt.adamw(1e-3)": (
        f"mask: {is_matrix.__module__}:is_matrix -> None"
    ),
    "holding(np.float32(0.5)), holding(np.float32(0.25))": (
        'value: {"scalar": ["float32", 0.5]} -> {"scalar": ["float32", 0.25]}'
    ),
    "holding([jnp.float32, jnp.float32]), holding([np.float32, jnp.bfloat16])": (
        "value[0]: float32 -> numpy:float32\nvalue[1]: float32 -> bfloat16"
    ),
    # Its parameter has the name of a key.
    "files.holding(1, 2), files.holding(1, 3)": "optax: 2 -> 3",
}


@pytest.mark.parametrize("code", CASES)
def test_a_difference_is_a_line(code):
    (one, other), lines = eval(code, {**globals(), "files": files}), CASES[code]
    assert str(canonopt.diff(one, other)) == lines
    # Also of stored data, and of a mix. A file may have the parameters in another order.
    stored = [canonopt.to_config(spec) for spec in (one, other)]
    assert str(canonopt.diff(one, stored[1])) == str(canonopt.diff(stored[0], other)) == lines
    paths = {difference.path for difference in canonopt.diff(one, other)}
    for through in FORMATS.values():
        assert {difference.path for difference in canonopt.diff(*map(through, stored))} == paths


def test_functions_without_a_name_are_compared():
    def make(factor):
        return lambda params: jax.tree.map(lambda x: x.ndim > factor, params)

    rate = canonopt.dynamic(1e-3)  # such specs are never one object
    one, same, other = (canonopt.adamw(rate, mask=make(factor)) for factor in (1, 1, 2))
    assert one is not same and canonopt.diff(one, same) == ()
    assert str(canonopt.diff(one, other)).startswith("mask: <function ")
    assert str(canonopt.diff(one, other, registry={"two": one.mask})).startswith("mask: two -> <")


def test_factories_without_a_name_are_compared():
    def make(factor):
        return canonopt.canonical(lambda rate: optax.scale(factor * rate))

    one, other = make(1), make(2)
    assert canonopt.diff(one(0.1), make(1)(0.1)) == ()
    assert str(canonopt.diff(one(0.1), one(0.2))) == "rate: 0.1 -> 0.2"
    (difference,) = canonopt.diff(one(0.1), other(0.1))
    assert str(difference).startswith("spec: <function test_factories")
