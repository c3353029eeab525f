"""Fail if Optax changes what `canonopt._optax_compat` relies on, or how its own tests end."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest

from canonopt._optax_compat import as_transform, dtype_of, is_transformation
from canonopt._texts import built_as

from .other_suites.run import SUITES, compare

PARAMS = {"w": jnp.ones(2)}


class Noting:
    """An object with the methods of a transformation. Its update notes its extra arguments."""

    def init(self, params):
        return optax.EmptyState()

    def update(self, updates, state, params=None, **extra_args):
        self.given = extra_args
        return updates, state


def test_optax_uses_objects_with_the_two_methods_as_transformations():
    multi_steps = optax.MultiSteps(optax.sgd(0.1), 2)
    assert not isinstance(multi_steps, optax.GradientTransformation)
    for tx in (multi_steps, noting := Noting(), optax.sgd(0.1)):
        assert is_transformation(tx)
        chained = optax.chain(tx, optax.scale(1.0))
        chained.update(PARAMS, chained.init(PARAMS), PARAMS)
        made = as_transform(tx)
        made.update(PARAMS, made.init(PARAMS), PARAMS, value=1.0)
    assert noting.given == {"value": 1.0}
    for value in (optax.sgd, Noting, None, 0.1, lambda params: params, optax.EmptyState()):
        assert not is_transformation(value)
    tx = optax.polyak_sgd()
    assert as_transform(tx) is tx


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_optax_makes_the_same_of_all_spellings_of_a_dtype(name):
    numpy_type = getattr(ml_dtypes, name, None) or np.dtype(name).type
    for spelling in (name, np.dtype(name), numpy_type, getattr(jnp, name)):
        assert dtype_of(spelling) is getattr(jnp, name)
        for dtype in (spelling, dtype_of(spelling)):
            state = optax.adam(0.1, mu_dtype=dtype).init(PARAMS)
            assert optax.tree.get(state, "mu")["w"].dtype == jnp.dtype(name)


COMMON = "adam adamw nadam nadamw lamb lion adagrad adabelief radam sgd".split()
BUILT = [(f"optax.{name}", getattr(optax, name)(0.1)) for name in COMMON]
BUILT += [(f"optax.{name}", getattr(optax, name)(lambda count: 0.1)) for name in COMMON]
BUILT += [
    ("optax.adamw", optax.adamw(lambda count: 0.1, mask={"w": True})),
    ("optax.sgd", optax.sgd(0.1, momentum=0.9)),
    ("optax.chain(clip, lion)", optax.chain(optax.clip(1.0), optax.lion(0.1))),
    ("optax.masked(sgd)", optax.masked(optax.sgd(0.1), {"w": True})),
    ("optax.inject_hyperparams", optax.inject_hyperparams(optax.adam)(learning_rate=0.1)),
    ("optax.scale", optax.scale(2.0)),
    (None, optax.GradientTransformation(lambda p: (), lambda u, s, p=None: (u, s))),
    (None, optax.GradientTransformation(None, None)),
    (None, len),
]


@pytest.mark.parametrize(("expected", "transformation"), BUILT)
def test_a_transformation_is_named_as_it_was_built(transformation, expected):
    assert built_as(transformation) == expected


@pytest.mark.slow
def test_optax_s_own_tests_end_the_same():
    wrong = compare(SUITES["optax-part"])
    assert wrong is None, wrong
