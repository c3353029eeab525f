"""A spec as plain data, through each of the formats, is the same object again."""

import copy
import enum
import math
import sys
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canonopt

from ...support import catalogue
from ...support.catalogue import build
from .files import FORMATS, registry_for


@canonopt.canonical
def holding(value, optax=None, *args, none=(), **kwargs):
    """A factory that takes anything. Two of its parameters have the names of keys in the data."""
    return _identity


_identity = optax.identity()
NAMES = {"holding": holding}


class Color(enum.Enum):
    RED = 1


class Side(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Size(NamedTuple):
    height: int
    width: float


def is_matrix(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


def again(spec, form, **registry):
    registry = {**NAMES, "Color": Color, "Size": Size, **registry}
    data = canonopt.to_config(spec, registry=registry)
    return canonopt.from_config(FORMATS[form](data), registry=registry)


# --- the catalogue ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", catalogue.ALL)
def test_a_round_trip_is_the_same_object(name, recwarn):
    spec = build(name, canonopt)
    registry = registry_for(spec)
    data = canonopt.to_config(spec, registry=registry)
    for form, through in FORMATS.items():
        assert canonopt.from_config(through(data), registry=registry) is spec, form
        assert through(data) == data, form
    assert all(warning.category is catalogue.WARNING.get(name) for warning in recwarn)


def test_all_parameters_are_written_with_the_versions():
    assert canonopt.to_config(canonopt.sgd(canonopt.linear_schedule(1e-3, 0.0, 10))) == {
        "canonopt": {"format": 1, "optax": optax.__version__},
        "spec": {
            "optax": "sgd",
            "learning_rate": {
                "optax": "linear_schedule",
                "init_value": 0.001,
                "end_value": 0.0,
                "transition_steps": 10,
                "transition_begin": 0,
            },
            "momentum": {"none": True},
            "nesterov": False,
            "accumulator_dtype": {"none": True},
        },
    }


def test_names_are_those_of_optax():
    def factory(spec):
        return canonopt.to_config(spec)["spec"]["optax"]

    assert factory(canonopt.contrib.muon(1e-3)) == "contrib.muon"
    assert factory(canonopt.schedules.constant_schedule(1.0)) == "constant_schedule"
    assert factory(canonopt.transforms.partition({}, {})) == "partition"
    assert factory(canonopt.inject_hyperparams(canonopt.adam)(1e-3)) == {
        "optax": "inject_hyperparams",
        "inner_factory": {"name": "canonopt:adam"},
        "static_args": {"tuple": []},
        "hyperparam_dtype": {"none": True},
    }


def test_a_default_that_is_an_object_without_a_name_is_called_the_default():
    data = canonopt.to_config(canonopt.lbfgs())
    assert data["spec"]["linesearch"] == {"default": True}
    assert canonopt.from_config(data) is canonopt.lbfgs()


# --- values -----------------------------------------------------------------------------------

EDGES = [1, 1.0, True, -0.0, 0.0, 5e-324, 1e-45, 1e16, math.inf, -math.inf, math.nan, 2**70]
scalars = (
    st.sampled_from(EDGES)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.sampled_from(["1e-3", "none", "", "nan", "~", "=", "2020-01-01", "a\r\n\x00\x85"])
    | st.sampled_from([np.float32(0.1), np.float64(0.1), np.int8(3), np.bool_(True)])
    | st.sampled_from([jnp.bfloat16, np.dtype("int8"), np.float16, float, optax.adam, is_matrix])
    | st.sampled_from([canonopt.adam, canonopt.adam(1e-3), Color.RED, Size(1, 2.0)])
)
keys = st.text() | st.sampled_from(["none", "optax", "dict", "name", "b", "a"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(st.integers() | st.booleans() | st.none(), inner, max_size=2)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("form", FORMATS)
@given(value=values)
def test_a_value_is_the_same_after_a_round_trip(form, value):
    # Each a value of its own: one list that is given twice is not two lists.
    spec = holding(value, copy.deepcopy(value), copy.deepcopy(value), more=copy.deepcopy(value))
    assert again(spec, form, is_matrix=is_matrix) is spec


@pytest.mark.parametrize("value", [{1, 2.0}, frozenset(("a", "b")), [{3}, frozenset()]])
def test_sets_are_the_same_after_a_round_trip(value):
    spec = holding(value)
    assert all(again(spec, form) is spec for form in FORMATS)


def test_the_order_of_a_dict_is_kept():
    one, other = holding({"b": 1, "a": 2.0}), holding({"a": 2.0, "b": 1})
    assert one is not other
    for form in FORMATS:
        assert again(one, form) is one and again(other, form) is other


# --- dynamic specs ----------------------------------------------------------------------------

ARRAYS = [
    canonopt.dynamic(1e-3),
    canonopt.dynamic(3),
    canonopt.dynamic(True),
    canonopt.dynamic(math.inf),
    canonopt.dynamic(np.float64(0.1)),
    canonopt.dynamic([1e-3, 3e-4]),
    jnp.bfloat16(0.1),
    jnp.asarray(0.1),
    jnp.arange(6).reshape(2, 3),
    jnp.zeros((0, 2)),
    jnp.array([1.5, jnp.nan], jnp.float8_e5m2),
    np.array([[0.1, -0.0]], np.float64),
    np.array(2**64 - 1, np.uint64),
    np.array([1 + 2j], np.complex64),
    np.array([True]),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_a_dynamic_spec_has_the_same_numbers_after_a_round_trip(value, form):
    spec = holding({"x": [value]})
    other = again(spec, form)
    leaves, structure = jax.tree.flatten(spec)
    others, other_structure = jax.tree.flatten(other)
    assert structure == other_structure and len(leaves) > 0
    for leaf, other_leaf in zip(leaves, others, strict=True):
        assert type(leaf) is type(other_leaf) and leaf.dtype == other_leaf.dtype
        assert leaf.tobytes() == other_leaf.tobytes() and leaf.shape == other_leaf.shape
        assert getattr(leaf, "weak_type", None) == getattr(other_leaf, "weak_type", None)


def test_a_dynamic_number_is_written_as_the_number():
    data = canonopt.to_config(canonopt.adam(canonopt.dynamic(1e-3)))
    assert data["spec"]["learning_rate"] == {"dynamic": 0.001}


# --- names ------------------------------------------------------------------------------------


def test_a_function_of_a_module_has_its_name():
    data = canonopt.to_config(canonopt.adamw(1e-3, mask=is_matrix))
    assert data["spec"]["mask"] == {"name": f"{__name__}:is_matrix"}
    assert canonopt.from_config(data, registry={"m": is_matrix}).mask is is_matrix


def test_a_name_in_the_registry_comes_first():
    spec = canonopt.adamw(1e-3, mask=is_matrix)
    data = canonopt.to_config(spec, registry={"matrices": is_matrix})
    assert data["spec"]["mask"] == {"name": "matrices"}
    assert canonopt.from_config(data, registry={"matrices": is_matrix}) is spec


def test_a_lambda_has_the_name_of_one_that_does_the_same():
    def make():
        return lambda params: params

    spec = canonopt.adamw(1e-3, mask=make())
    data = canonopt.to_config(spec, registry={"other": len, "all": make()})
    assert data["spec"]["mask"] == {"name": "all"}
    assert canonopt.from_config(data, registry={"all": make()}) is spec


def test_a_factory_of_the_user_has_the_name_of_its_function():
    spec = holding(1.0)
    data = canonopt.to_config(spec)
    assert data["spec"]["canonical"] == f"{__name__}:holding"
    assert canonopt.from_config(data, registry={"any": holding}) is spec
    assert canonopt.from_config(data, registry={data["spec"]["canonical"]: holding}) is spec


def test_a_factory_of_a_library_has_the_name_of_its_function(monkeypatch):
    library = types.ModuleType("library")
    exec("import optax\ndef tuned(rate): return optax.sgd(rate)", vars(library))
    monkeypatch.setitem(sys.modules, "library", library)
    factory = canonopt.canonical(library.tuned)
    data = canonopt.to_config(factory(0.1))
    assert data["spec"] == {"canonical": "library:tuned", "rate": 0.1}
    assert canonopt.from_config(data, registry={"any": factory}) is factory(0.1)
    # The function itself is another object than what `canonical` returned.
    spec = holding(library.tuned)
    data = canonopt.to_config(spec)
    assert data["spec"]["parameters"]["value"] == {"name": "library:tuned"}
    with pytest.raises(
        canonopt.errors.ConfigError, match=r"^spec\.value is 'library:tuned', which is nei"
    ):
        canonopt.from_config(data, registry={**NAMES, f"{__name__}:holding": holding, "f": factory})
    assert again(spec, "json", f=library.tuned) is spec


def test_a_parameter_with_a_reserved_name_is_in_a_table_of_its_own():
    data = canonopt.to_config(holding(1.0, "a"), registry=NAMES)
    assert data["spec"] == {
        "canonical": "holding",
        "parameters": {"value": 1.0, "optax": "a", "args": [], "none": {"tuple": []}, "kwargs": {}},
    }


# --- errors -----------------------------------------------------------------------------------


def refused(spec, **registry):
    with pytest.raises(canonopt.errors.ConfigError) as caught:
        canonopt.to_config(spec, **registry)
    return caught.value


def test_a_lambda_without_a_name_is_refused():
    error = refused(canonopt.chain(canonopt.clip(1.0), canonopt.adamw(1e-3, mask=lambda p: p)))
    assert error.path == "spec.args[1].mask"
    assert str(error).startswith("spec.args[1].mask is <function")
    assert error.fix == (
        "Define it at the top level of a module, or give it a name: "
        "canonopt.to_config(spec, registry={'my_name': ...}), and the same in canonopt.from_config."
    )


def test_a_transformation_of_optax_is_refused():
    error = refused(canonopt.chain(optax.scale(0.5)))
    assert error.path == "spec.args[0]"
    assert error.fix and error.fix.startswith("Build it with canonopt, or give it a name: ")
    error = refused(optax.adam(1e-3))
    assert "canonopt.to_config needs a spec, and got Gradient" in str(error)
    assert "what Optax builds does not know its parameters." in str(error)


def test_an_object_without_a_name_is_refused():
    error = refused(holding(object()))
    assert error.path == "spec.value" and "Give it a name: " in str(error)


def test_several_members_of_a_flag_are_refused():
    assert again(holding(Side.LEFT), "json", Side=Side) is holding(Side.LEFT)
    error = refused(holding(Side.LEFT | Side.RIGHT), registry={"Side": Side})
    assert error.path == "spec.value" and "which has no name that data can have" in str(error)


def test_half_of_a_surrogate_pair_is_refused():
    assert str(refused(holding(["\ud800"]))) == (
        "spec.value[0] is '\\ud800', which cannot be written as UTF-8. "
        "Write a string without surrogates."
    )


def test_a_factory_without_a_name_is_refused():
    factory = canonopt.canonical(lambda: optax.identity())
    error = refused(canonopt.chain(factory()))
    assert error.path == "spec.args[0]"
    assert "The factory at spec.args[0], " in str(error) and "has no name" in str(error)
    assert "Move it to the top level of a module" in str(error)


def test_a_random_key_is_refused():
    assert str(refused(canonopt.add_noise(0.1, 0.5, key=jax.random.key(0)))) == (
        "spec.key is a random key, of dtype key<fry>. Give the seed, an int, in place of the key."
    )


def test_a_dtype_that_plain_data_lack_is_refused():
    error = refused(holding(np.array(["a"])))
    assert "spec.value has dtype <U1, which plain data does not have. Give it as float32" in str(
        error
    )


def test_a_value_of_the_wrong_type_is_refused_when_it_is_written():
    assert str(refused(canonopt.sgd(1e-3, nesterov=1))) == (
        "spec.nesterov of sgd is a number, 1, which the parameter does not take. Write a boolean."
    )


def test_traced_values_are_refused():
    def write(rate):
        canonopt.to_config(canonopt.sgd(rate))

    with pytest.raises(
        canonopt.errors.ConfigError, match=r"learning_rate is a tracer\. Call .* outside"
    ):
        jax.jit(write)(jnp.float32(1e-3))
    with pytest.raises(
        canonopt.errors.ConfigError, match=r"learning_rate has no value: it is traced, or"
    ):
        jax.jit(write)(canonopt.dynamic(1e-3))


def test_a_registry_is_a_mapping():
    error = refused(canonopt.adam(1e-3), registry=[is_matrix])
    assert "which is not a mapping of names to objects. Write registry={'is_matrix'" in str(error)
