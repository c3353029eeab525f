"""A value is the same after a round trip, or refused with its path and what to write."""

import copy
import math
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canonopt
from canonopt import errors
from canonopt._spec.config import CODECS, RESERVED

from ..support.values import bits
from .config_files import FORMATS, REGISTRY, Size, again, holding, is_matrix, read_with

EDGES = [1, 1.0, True, -0.0, 0.0, 5e-324, 1e-45, 1e16, math.inf, -math.inf, math.nan, 2**70]
scalars = (
    st.sampled_from(EDGES)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1e-3", "none", "", "nan", "~", "=", "2020-01-01", "a\r\n\x00\x85"])
    | st.sampled_from([np.float32(0.1), np.float64(0.1), np.int8(3), np.bool_(True)])
    | st.sampled_from([jnp.bfloat16, jnp.int8, float, int, optax.adam, is_matrix])
    | st.sampled_from([canonopt.adam, canonopt.adam(1e-3), Size(1, 2)])
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
    assert again(spec, form) is spec


NUMBERS = [1e-3, 3, True, math.inf, np.float64(0.1), [1e-3, 3e-4]]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_dynamic_spec_has_the_same_numbers_after_a_round_trip(number, form):
    spec = holding({"x": [canonopt.dynamic(number)]})
    leaves, structure = jax.tree.flatten(spec)
    others, other_structure = jax.tree.flatten(again(spec, form))
    assert structure == other_structure and len(leaves) > 0
    assert bits(leaves) == bits(others)


# --- errors -----------------------------------------------------------------------------------

HERE = f"not a factory of Optax {optax.__version__}"
ADAMW, ADAM = (canonopt.to_config(build(1e-3))["spec"] for build in (canonopt.adamw, canonopt.adam))
INTERPOLATE = canonopt.piecewise_interpolate_schedule("linear", 0.1, {5: 0.5})
QUADRATIC = canonopt.to_config(INTERPOLATE)["spec"] | {"interpolate_type": "quadratic"}
# What is written for a value, and what is said of it.
MALFORMED = [
    ({"none": False}, "Reading spec.value raised KeyError: False. Write what to_config returns."),
    ({"float": "fast"}, "ValueError: could not convert string to float: 'fast'"),
    ({"tuple": 3}, "TypeError: 'int' object is not iterable"),
    ({"dict": [1]}, "TypeError: cannot convert dictionary update sequence"),
    ({"dtype": "float33"}, "TypeError: data type 'float33' not understood"),
    ({"dtype": "object"}, "AttributeError: module 'jax.numpy' has no attribute 'object'"),
    ({"scalar": ["int8", 1000]}, "OverflowError: "),
    ({"scalar": ["float32", "fast"]}, "ValueError: "),
    ({"dynamic": "1e-3"}, "spec.value: canonopt.dynamic takes a number or an array, and got"),
    ({"name": 3}, "spec.value is 3, which is not a name of Optax or in the registry."),
    ({"namedtuple": [{"name": "m"}, {}]}, "AttributeError: 'function' object has no attribute"),
    ({"namedtuple": [{"name": "Size"}, {"height": 1}]}, "KeyError: 'width'"),
    (
        {"none": True, "w": 1},
        'spec.value is {"none": true, "w": 1}, and \'none\' stands for something else. For a dict '
        'with it, write pairs: {"dict": [["none", ...]]}.',
    ),
    ({"name": "optax:adamww"}, ". Did you mean 'optax:adamw'?"),
    ({"name": "pmk:z"}, "from_config(data, registry={'pmk:z': ...})"),
    (b"a", "is b'a', a bytes. Write a number, a string"),
    *(
        ({"canonical": name, "value": 1}, f"is '{name}', which is not a factory in the")
        for name in ("boom", "schedule", "optax:global_norm", "holdin")
    ),
    ({"canonical": "holdin", "value": 1}, ". Did you mean 'holding'?"),
    ({"optax": "adamv"}, f"is 'adamv', which is {HERE}."),
    ({"optax": "adamv"}, ". Did you mean 'adam'?"),
    ({"optax": "canonopt.adam"}, ". Did you mean 'adam'?"),
    ({"optax": "optax.contrib.muon"}, ". Did you mean 'contrib.muon'?"),
    ({"optax": 3}, f"is 3, which is {HERE}"),
    ({"optax": {"x": 1}}, f"is {{'x': 1}}, which is {HERE}"),
    ({"optax": ADAM}, f"which is {HERE}"),
]
# What an adamw has for a parameter, if anything, and what is said of it.
WRONG = [
    ("weight_decy", 0.1, "weight_decy", "keyword argument 'weight_decy'. Did you mean 'weight_d"),
    ("lr", 0.1, "learning_rate", "adamw got both lr and learning_rate"),
    ("learning_rate", ..., "learning_rate", "adamw: missing a required argument: "),
    ("learning_rate", "1e-3", "learning_rate", "schedule for learning_rate, and got '1e-3'"),
    ("learning_rate", QUADRATIC, "learning_rate", "raised ValueError: "),
    ("nesterov", "false", "nesterov", "needs True or False for nesterov, and got 'false'"),
]
REFUSED = [("spec.value", *row) for row in MALFORMED]
REFUSED += [
    (f"spec.value.{path}", {k: v for k, v in (ADAMW | {name: data}).items() if v is not ...}, text)
    for name, data, path, text in WRONG
]


def boom(*args):
    raise AssertionError


@pytest.mark.parametrize(("path", "data", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_wrong_data_are_refused_with_their_path(path, data, message, monkeypatch):
    monkeypatch.setitem(REGISTRY, "boom", boom)  # only factories are run
    monkeypatch.setitem(REGISTRY, "schedule", canonopt.constant_schedule(0.1))
    assert again(holding(boom)).value is boom
    with pytest.raises(errors.ConfigError) as caught:
        read_with(lambda spec: spec.update(value=data), holding(1))
    keys = {"optax", "canonical"} & {*data} if isinstance(data, dict) else ()
    assert (caught.value.path or "").removeprefix("data.") in (
        path,
        *(f"{path}.{key}" for key in keys),
    )
    assert message in str(caught.value)


NAME_IT = "Define it in a module, or name it: canonopt.to_config(spec, registry={'x': ...})."
WITHOUT_NAME = [
    (lambda params: params, NAME_IT),
    (object(), NAME_IT),
    (optax.scale(0.5), "Build it with canonopt."),
    (jax.random.key(0), "Write canonopt.dynamic(...) of Python numbers, outside of jax.jit."),
    (np.ones(2), "Write canonopt.dynamic(...) of Python numbers, outside of jax.jit."),
]


@pytest.mark.parametrize(("value", "fix"), WITHOUT_NAME)
def test_what_has_no_name_is_refused(value, fix):
    for held, step in ((value, ""), ({"b": value}, "['b']"), ((1, value), "[1]")):
        path = f"spec.args[0].value{step}"
        with pytest.raises(errors.ConfigError) as caught:
            canonopt.to_config(canonopt.chain(holding(held)), registry=REGISTRY)
        assert caught.value.path == path and str(caught.value).startswith(f"{path} is ")
        assert "which has no name in data." in str(caught.value)
        assert (caught.value.fix or "").startswith(fix)


def written(value, **registry):
    return canonopt.to_config(holding(value), registry=REGISTRY | registry)["spec"]["value"]


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
    assert written(library.tuned) == {"name": "library:tuned"}
    with pytest.raises(errors.ConfigError, match=r"^spec\.value is 'library:tuned', which is no"):
        again(spec, f=factory)
    assert again(spec, f=library.tuned) is spec


# --- nothing is imported or run -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["os:system", "posix:system", "builtins:eval", "sentinel:boom"])
def test_names_in_data_are_neither_imported_nor_run(name, tmp_path, monkeypatch):
    (tmp_path / "sentinel.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for value in (
        {"name": name},
        {"canonical": name, "command": "exit 1"},
        {"optax": name},
        {"namedtuple": [{"name": name}, {}]},
    ):
        with pytest.raises(errors.ConfigError, match="Names in data are not imported"):
            read_with(lambda spec, value=value: spec.update(value=value), holding(1))
    assert "sentinel" not in sys.modules


@pytest.mark.parametrize("rate", [jnp.float32(1e-3), canonopt.dynamic(1e-3)], ids=repr)
def test_traced_values_are_refused(rate):
    with pytest.raises(errors.ConfigError, match=r"^spec\.learning_rate is .* outside of jax\.jit"):
        jax.jit(lambda rate: canonopt.to_config(canonopt.sgd(rate)))(rate)


names = st.sampled_from(["adam", "chain", "masked", "linear_schedule", "sgdr_schedule"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*REGISTRY, "int8"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*RESERVED, "w"]), inner, max_size=2)
        | st.sampled_from([*CODECS]).flatmap(lambda key: st.fixed_dictionaries({key: inner}))
        | names.flatmap(
            lambda name: st.fixed_dictionaries(
                {
                    "optax": st.just(name),
                    **dict.fromkeys(getattr(canonopt, name).factory.signature.names, inner),
                }
            )
        )
    ),
    max_leaves=8,
)


@given(value=anything)
@pytest.mark.filterwarnings("ignore")
def test_whatever_is_in_data_is_read_or_refused_with_its_path(value):
    try:
        spec = read_with(lambda spec: spec.update(value=value), holding(1))
    except errors.ConfigError as error:
        assert error.path and error.path.startswith("spec.value") and error.fix is not None
    else:
        # What was read can be written, and is then the same.
        written = canonopt.to_config(spec, registry=REGISTRY)
        assert canonopt.to_config(again(spec), registry=REGISTRY) == written
