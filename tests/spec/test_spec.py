"""A spec is an optax transformation, and says what it was built from."""

import collections
import functools
import inspect
import math
import operator
import pickle
import pydoc

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from flax.core import FrozenDict

import canonopt

from ..support import catalogue
from ..support.catalogue import TRANSFORMATIONS, build

PARAMS = {"w": jnp.ones(3)}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_every_spec_is_an_optax_transformation(name):
    spec = build(name, canonopt)
    assert isinstance(spec, canonopt.Spec)
    assert isinstance(spec, optax.GradientTransformationExtraArgs)
    init, update = spec
    assert (spec.init, spec.update) == (init, update) == (spec[0], spec[1])
    assert len(spec) == 2
    assert spec == build(name, canonopt)
    assert hash(spec) == hash(build(name, canonopt))
    assert jax.tree.leaves(spec) == []


@pytest.mark.parametrize(
    "spec", [canonopt.adam(1e-3), canonopt.sgd(canonopt.dynamic(0.1))], ids=repr
)
def test_a_spec_is_made_again_from_its_two_functions(spec):
    cls, init, update = type(spec), spec.init, spec.update
    assert cls(*spec) is spec
    assert cls(**spec._asdict()) is cls(init=init, update=update) is spec
    assert cls._make(spec) is spec._replace() is spec
    assert canonopt.Spec(*spec) is spec
    other = canonopt.lion(1e-3)
    for pair in ((init, other.update), (other.init, update), (init, lambda *args: None)):
        for made in (cls(*pair), cls(**dict(zip(cls._fields, pair, strict=True)))):
            assert type(made) is optax.GradientTransformationExtraArgs
            assert tuple(made) == pair
    with pytest.raises(TypeError):
        cls(init)
    with pytest.raises(TypeError):
        cls(*spec, init)


def test_a_parameter_with_the_name_of_an_attribute_is_refused():
    message = r"build has a parameter 'update', but specs have an .* Rename the parameter, or pass"
    with pytest.raises(canonopt.errors.NotAFactoryError, match=message):

        @canonopt.canonical
        def build(update, count=0, index=0, lr=0.1):
            return optax.scale(update)

        build(1.0)
    spec = canonopt.canonical(lambda count, index, lr: optax.scale(lr))(1, 2, 3.0)
    assert (spec.count, spec.index, spec.lr) == (1, 2, 3.0)
    assert spec.replace(count=2).hyperparameters() == {"count": 2, "index": 2, "lr": 3.0}


def test_a_spec_of_a_local_factory_has_no_class_of_its_own():
    local = canonopt.canonical(lambda rate: optax.sgd(rate))
    assert type(local(0.1)) is canonopt.Spec
    assert local(0.1).replace(rate=0.2) is local(0.2)
    assert canonopt.Spec(*local(0.1)) is local(0.1)
    assert jax.tree.leaves(local(0.1)) == []


def test_multi_steps_is_a_class_with_what_that_of_optax_has():
    optim = canonopt.MultiSteps(canonopt.adam(1e-3), 2)
    assert optim is canonopt.MultiSteps(canonopt.adam(1e-3), every_k_schedule=2)
    state = optim.init(PARAMS)
    assert not optim.has_updated(state)
    for _ in range(2):
        _, state = optim.update(PARAMS, state, PARAMS)
    assert optim.has_updated(state)
    assert isinstance(optim.inner_opt, optax.GradientTransformation)
    with pytest.raises(AttributeError, match="'MultiSteps' has no attribute 'has_update'"):
        _ = optim.has_update
    for spec in (optim, canonopt.MultiSteps(canonopt.adam(canonopt.dynamic(1e-3)), 2)):
        for cls in (canonopt.MultiSteps, optax.MultiSteps, canonopt.Spec):
            assert isinstance(spec, cls)
        assert isinstance(spec, optax.GradientTransformationExtraArgs)
    assert not isinstance(canonopt.adam(1e-3), canonopt.MultiSteps)
    assert inspect.signature(canonopt.MultiSteps) == inspect.signature(optax.MultiSteps)
    again = pickle.loads(pickle.dumps(canonopt.MultiSteps)), canonopt.transforms.MultiSteps
    for cls in (*again, canonopt.canonical(optax.MultiSteps)):
        assert cls is canonopt.MultiSteps


def test_evolve_and_replace_build_the_changed_configuration():
    optim = canonopt.adamw(1e-3, mask=None)
    assert attrs.evolve(optim, learning_rate=3e-4) is canonopt.adamw(3e-4)
    assert optim.replace(lr=3e-4, b1=0.5) is canonopt.adamw(3e-4, 0.5)
    assert optim.replace() is optim
    schedule = canonopt.linear_schedule(1.0, 0.0, 10)
    assert schedule.replace(end_value=0.5) is canonopt.linear_schedule(1.0, 0.5, 10)
    assert attrs.evolve(schedule, end_value=0.5) is canonopt.linear_schedule(1.0, 0.5, 10)
    chained = canonopt.chain(optim, canonopt.clip(1.0))
    assert chained.replace(args=(optim,)) is canonopt.chain(optim)


@pytest.mark.parametrize(
    "kind", [dict, collections.OrderedDict, lambda d: collections.defaultdict(None, d)]
)
def test_a_spec_inside_a_dict_is_found_by_its_path(kind):
    def partition(rate: float) -> canonopt.Spec:
        transforms = kind({"b": canonopt.sgd(rate), "a": canonopt.clip(1.0)})
        return canonopt.partition(transforms, module_level_mask)

    optim = partition(0.1)
    assert optim.hyperparameters()["transforms['b'].learning_rate"] == 0.1
    changed = optim.replace(lr=0.2)
    assert type(changed.transforms) is type(optim.transforms)
    assert [*changed.transforms.items()] == [*partition(0.2).transforms.items()]


def test_specs_are_frozen():
    optim = canonopt.adam(1e-3)
    with pytest.raises(attrs.exceptions.FrozenInstanceError, match=r"replace\(learning_rate="):
        optim.learning_rate = 2.0
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del optim.learning_rate
    assert optim.learning_rate == 1e-3


def module_level_mask(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


MODULES = (canonopt, optax, jax, np, ml_dtypes, collections, functools)
NAMES = {
    **{module.__name__: module for module in MODULES},
    **{"jnp": jnp, "np": np},
    "tests": __import__("tests.spec.test_spec"),
    "Array": lambda value, dtype, weak_type=False: jnp.asarray(value),
}


@canonopt.canonical
def of_anything(value, *values, flag=False, **named):
    """Take anything."""
    return optax.scale(1.0)


REPRS = [
    canonopt.adam(1e-3),
    canonopt.adam(math.nan),
    canonopt.adam(-math.inf, b1=-0.0),
    canonopt.adam(np.float32(0.1), mu_dtype=jnp.bfloat16),
    canonopt.chain(canonopt.clip(1.0), canonopt.contrib.muon(0.1)),
    canonopt.named_chain(("a", canonopt.clip(1.0))),
    canonopt.partition({"a": canonopt.sgd(0.1), 1: canonopt.adam(0.1)}, module_level_mask),
    canonopt.adamw(canonopt.join_schedules([canonopt.constant_schedule(1.0)], []), mask=True),
    canonopt.inject_hyperparams(canonopt.adam)(learning_rate=0.1),
    canonopt.inject_hyperparams(optax.sgd, static_args=("nesterov",))(0.1, nesterov=True),
    canonopt.MultiSteps(canonopt.lookahead(canonopt.sgd(0.1), 5, 0.5), 2),
    canonopt.masked(canonopt.sgd(0.1), {"w": [True, (False,)], "b": {}}),
    canonopt.canonical(optax.noisy_sgd)(0.1, key=1),
    canonopt.contrib.galore(0.1, weight_dimension_numbers=optax.contrib.GaLoreDimensionNumbers(0)),
    canonopt.freeze({1}),
    of_anything(jnp.int8, "text", b"bytes", None, flag=True, name=1j, other=...),
    of_anything(of_anything(1)),
    *map(
        of_anything,
        [
            *(ml_dtypes.bfloat16(0.1), ml_dtypes.int4(3), ml_dtypes.float8_e5m2(math.inf)),
            *(np.float32(math.nan), np.float64(-math.inf), np.float16(0.1), np.int8(3)),
            *(np.bool_(True), {1.0, 2}, set(), jnp.float32, float, (math.inf,), {"a": math.inf}),
        ],
    ),
]


@pytest.mark.parametrize("spec", REPRS, ids=repr)
def test_repr_evaluates_back(spec):
    assert eval(repr(spec), NAMES.copy()) is spec


LISTED = {
    "scalars": ({"a": ml_dtypes.bfloat16(0.5), "b": [np.int8(3), 1j, "x"]}, 4),
    "a frozen dict": (FrozenDict({"a": 1.0, "b": {"c": "x"}}), 2),
    "a module": (eqx.nn.Linear(1, 1, use_bias=False, key=jax.random.key(0)), 1),
    "nothing": ([None, jnp.float32, module_level_mask], 0),
}


@pytest.mark.parametrize(("value", "count"), LISTED.values(), ids=LISTED)
def test_hyperparameters_are_listed_in_whatever_they_are(value, count):
    spec = of_anything(value)
    found = {path: v for path, v in spec.hyperparameters().items() if path != "flag"}
    assert len(found) == count and all(path.startswith("value") for path in found)
    for path in found:
        assert spec.replace(**{path: 7.0}).hyperparameters()[path] == 7.0


def test_help_shows_the_signature_and_the_docstring_of_a_users_factory():
    @canonopt.canonical
    def mine(learning_rate: float, momentum: float = 0.9) -> optax.GradientTransformation:
        """My SGD."""
        return optax.sgd(learning_rate, momentum)

    for asked in (mine, type(of_anything(0.1))):
        assert asked.__doc__ in pydoc.render_doc(asked, renderer=pydoc.plaintext)
    text = "".join(pydoc.render_doc(mine, renderer=pydoc.plaintext).split())
    assert "mine(learning_rate:float,momentum:float=0.9,*,lr:float" in text


@pytest.mark.parametrize("name", catalogue.ALL)
def test_signatures_are_those_of_optax_and_lr(name):
    ours = inspect.signature(operator.attrgetter(name)(canonopt))
    theirs = inspect.signature(operator.attrgetter(name)(optax))
    parameters = [*theirs.parameters.values()]
    if "learning_rate" in theirs.parameters:
        *parameters, lr = ours.parameters.values()
        assert (lr.name, lr.kind) == ("lr", lr.KEYWORD_ONLY)
        assert lr.annotation == theirs.parameters["learning_rate"].annotation
        assert repr(lr.default) == "<not given>"
    assert ours.replace(parameters=parameters) == theirs


def test_a_schedule_spec_is_a_schedule():
    schedule = canonopt.cosine_decay_schedule(1.0, 10)
    assert callable(schedule)
    assert not hasattr(schedule, "init")
    optim = optax.scale_by_schedule(schedule)
    assert float(optim.update(jnp.float32(3.0), optim.init(PARAMS))[0]) == 3.0
    assert jax.tree.leaves(schedule) == []
