"""A spec as plain data: the same object again, or refused with the path and what to write."""

import copy
import json
import math
import pickle
import sys
import tomllib
import types
from typing import NamedTuple

import attrs
import cattrs
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tomli_w
import yaml
from hypothesis import given
from hypothesis import strategies as st

import canonopt
from canonopt import errors
from canonopt._spec.config import CODECS, RESERVED

from ..support import catalogue
from ..support.catalogue import build
from ..support.generated import rows
from ..support.values import bits

FORMATS = {
    "json": lambda data: json.loads(json.dumps(data, allow_nan=False)),
    "json-sorted": lambda data: json.loads(json.dumps(data, sort_keys=True)),
    # PyYAML sorts the keys of a table.
    "yaml": lambda data: yaml.safe_load(yaml.safe_dump(data)),
    # tomli-w writes tables after other values.
    "toml": lambda data: tomllib.loads(tomli_w.dumps(data)),
}


def registry_for(spec):
    """Names for the lambdas and the one transformation that specs of the catalogue hold."""
    parts = {**spec.parameters()}
    parts |= {f"args_{i}": part for i, part in enumerate(parts.get("args", ()))}
    return {
        name: part
        for name, part in parts.items()
        if not isinstance(part, canonopt.Spec | canonopt.ScheduleSpec | type)
        and (getattr(part, "__name__", "") == "<lambda>" or hasattr(part, "init"))
    }


_identity = optax.identity()


@canonopt.canonical
def holding(value, optax=None, *args, none=(), **kwargs):
    """A factory that takes anything. Two of its parameters have the names of keys in the data."""
    return _identity


class Size(NamedTuple):
    width: float
    height: int


def is_matrix(params):
    return jax.tree.map(lambda x: x.ndim > 1, params)


REGISTRY = {"holding": holding, "Size": Size, "m": is_matrix}


def again(spec, form="json", **registry):
    registry = {**REGISTRY, **registry}
    data = canonopt.to_config(spec, registry=registry)
    return canonopt.from_config(FORMATS[form](data), registry=registry)


def read_with(change, spec):
    """Return what is read from the data of a spec, after `change` was called on them."""
    data = canonopt.to_config(spec, registry=REGISTRY)
    change(data["spec"])
    return canonopt.from_config(data, registry=REGISTRY)


CHAIN = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(1e-3))
HERE = optax.__version__


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
        "canonopt": {"format": 1, "optax": HERE},
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


WRITTEN = [
    (canonopt.contrib.muon(1e-3), "optax", "contrib.muon"),
    (canonopt.schedules.constant_schedule(1.0), "optax", "constant_schedule"),
    (canonopt.transforms.partition({}, {}), "optax", "partition"),
    (
        canonopt.inject_hyperparams(canonopt.adam)(1e-3),
        "optax",
        {
            "optax": "inject_hyperparams",
            "inner_factory": {"name": "canonopt:adam"},
            "static_args": {"tuple": []},
            "hyperparam_dtype": {"none": True},
        },
    ),
    (canonopt.adam(canonopt.dynamic(1e-3)), "learning_rate", {"dynamic": 0.001}),
    (holding(1, "a", 2), "optax", "a"),
    (holding(1, "a", 2), "args", [2]),
]


@pytest.mark.parametrize(("spec", "key", "data"), WRITTEN)
def test_what_is_written(spec, key, data):
    assert canonopt.to_config(spec, registry=REGISTRY)["spec"][key] == data


NOT_WRITTEN = [
    (optax.adam(1e-3), None, "takes a spec, not Gradient.* Build it with canonopt, for exam"),
    (
        canonopt.chain(canonopt.canonical(lambda: optax.identity())()),
        "spec.args[0]",
        r"<lambda> .*, which has no name to write\. Define it in a module, or write ",
    ),
]


@pytest.mark.parametrize(("spec", "path", "message"), NOT_WRITTEN)
def test_what_cannot_be_written(spec, path, message):
    with pytest.raises(errors.ConfigError, match=message) as caught:
        canonopt.to_config(spec)
    assert caught.value.path == path


@canonopt.canonical
def halved(rate: float = 1.0, layers=[1, 2]):  # noqa: B006
    return optax.scale(rate or 0.5)


@pytest.mark.parametrize("spec", [canonopt.adam(None), halved(None), halved(0.5)], ids=repr)
def test_none_and_a_default_that_may_change_are_read_back(spec):
    data = canonopt.to_config(spec, registry={"halved": halved})
    assert canonopt.from_config(data, registry={"halved": halved}) is spec
    assert pickle.loads(pickle.dumps(spec)) is spec


def test_the_registry_names_all_functions_that_do_the_same():
    masks = [lambda params: (params, "same") for _ in range(2)]
    _, spec = (canonopt.adamw(0.1, mask=mask) for mask in masks)
    for mask in masks:
        data = canonopt.to_config(spec, registry={"mask": mask})
        assert data["spec"]["mask"] == {"name": "mask"}
    first, other = (
        canonopt.adamw(lr, mask=mask) for lr, mask in zip((0.1, 0.2), masks, strict=True)
    )
    assert str(canonopt.diff(first, other)) == "learning_rate: 0.1 -> 0.2"


# --- the envelope, and types of libraries ---------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        3,
        json.dumps(canonopt.to_config(CHAIN)),
        canonopt.to_config(CHAIN)["spec"],
        canonopt.to_config(CHAIN) | {"canonopt": {}},
        canonopt.to_config(CHAIN) | {"canonopt": {"format": 2, "optax": HERE}},
        canonopt.to_config(CHAIN) | {"spec": {"name": "optax:adam"}},
        canonopt.to_config(CHAIN) | {"spec": 3},
    ],
)
def test_data_of_something_else_are_refused(data):
    message = r"^The data must have the form {.canonopt.: .*, not .* Pass what canonopt\.to_conf"
    for read in (canonopt.from_config, canonopt.fingerprint, lambda d: canonopt.diff(d, CHAIN)):
        with pytest.raises(errors.ConfigError, match=message):
            read(data)
    for value in (optax.adam(0.1), optax.adam):
        with pytest.raises(errors.ConfigError, match=r"the data of a spec\. Pass canonopt\.to"):
            canonopt.diff(value, CHAIN)


def test_the_form_that_an_error_shows_can_be_read():
    with pytest.raises(errors.ConfigError) as caught:
        canonopt.from_config({"optax": "adam"})
    form = str(caught.value).partition("must have the form ")[2].partition(", not ")[0]
    assert canonopt.from_config(json.loads(form)) is canonopt.adam(0.001)


def test_what_another_version_wrote_is_read_with_the_defaults_of_this_one():
    data = canonopt.to_config(CHAIN)
    data["canonopt"]["optax"] = "0.2.7"
    adamw = data["spec"]["args"][1]
    del adamw["mask"], adamw["nesterov"]
    assert canonopt.from_config(data) is CHAIN
    adamw["b2"] = 0.99  # as a default that has changed
    assert canonopt.from_config(data).args[1].b2 == 0.99


# --- hooks ----------------------------------------------------------------------------------------


@attrs.frozen
class Experiment:
    optimizer: canonopt.Spec
    schedule: canonopt.ScheduleSpec
    steps: int = 100


SCHEDULE = canonopt.linear_schedule(1e-3, 0.0, 10)
EXPERIMENT = Experiment(canonopt.adamw(SCHEDULE, mask=is_matrix), SCHEDULE)


@pytest.fixture
def converter():
    made = cattrs.Converter()
    canonopt.register_hooks(made, registry={"matrices": is_matrix})
    return made


def test_cattrs_writes_and_reads_the_same_specs(converter):
    data = json.loads(json.dumps(converter.unstructure(EXPERIMENT)))
    assert data["optimizer"]["spec"]["mask"] == {"name": "matrices"}
    assert data["schedule"] == canonopt.to_config(SCHEDULE)
    assert converter.structure(data, Experiment) == EXPERIMENT
    data = converter.unstructure([EXPERIMENT.optimizer])
    assert converter.structure(data, list[canonopt.Spec]) == [EXPERIMENT.optimizer]


def test_cattrs_tells_what_is_wrong(converter):
    with pytest.raises(errors.ConfigError, match=r"^spec must be a Spec, not canonopt\.linear_"):
        converter.structure(converter.unstructure(SCHEDULE), canonopt.Spec)
    data = converter.unstructure(EXPERIMENT)
    data["optimizer"]["spec"]["b1"] = "0.9"
    with pytest.raises(cattrs.ClassValidationError) as caught:
        converter.structure(data, Experiment)
    (error,) = caught.value.exceptions
    assert isinstance(error, errors.ConfigError) and error.path == "spec.b1"


EDGES = [1, 1.0, True, -0.0, 0.0, 5e-324, 1e-45, 1e16, math.inf, -math.inf, math.nan, 2**70]
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
scalars = (
    st.sampled_from(EDGES)
    | plain
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

UNKNOWN = f"not a factory of Optax {optax.__version__}"
ADAMW, ADAM = (canonopt.to_config(build(1e-3))["spec"] for build in (canonopt.adamw, canonopt.adam))
INTERPOLATE = canonopt.piecewise_interpolate_schedule("linear", 0.1, {5: 0.5})
QUADRATIC = canonopt.to_config(INTERPOLATE)["spec"] | {"interpolate_type": "quadratic"}
# What is written for a value, and what is said of it.
MALFORMED = [
    (
        {"none": False},
        "Reading spec.value raised KeyError: False. Write it as to_config does: adam as "
        '{"optax": "adam"}, a chain with "args": [...].',
    ),
    ({"float": "fast"}, "ValueError: could not convert string to float: 'fast'"),
    ({"tuple": 3}, "TypeError: 'int' object is not iterable"),
    ({"dict": [1]}, "TypeError: cannot convert dictionary update sequence"),
    ({"dtype": "float33"}, "TypeError: data type 'float33' not understood"),
    ({"dtype": "object"}, "AttributeError: module 'jax.numpy' has no attribute 'object'"),
    ({"scalar": ["int8", 1000]}, "OverflowError: "),
    ({"scalar": ["float32", "fast"]}, "ValueError: "),
    ({"dynamic": "1e-3"}, "In spec.value, canonopt.dynamic takes a number or an array, not"),
    ({"dynamic": "1e-3"}, "canonopt.dynamic(1e-3). In YAML, 1e-3 is text, and 1.0e-3 a number."),
    ({"name": 3}, "spec.value is 3, which is neither a name of Optax nor in the registry."),
    ({"namedtuple": [{"name": "m"}, {}]}, "AttributeError: 'function' object has no attribute"),
    ({"namedtuple": [{"name": "Size"}, {"height": 1}]}, "KeyError: 'width'"),
    (
        {"none": True, "w": 1},
        'spec.value is {"none": true, "w": 1}, which has the reserved key \'none\'. Write '
        'the dict as pairs: {"dict": [["none", ...]]}.',
    ),
    ({"name": "optax:adamww"}, ". Did you mean 'optax:adamw'?"),
    ({"name": "pmk:z"}, "from_config(data, registry={'pmk:z': ...})"),
    (b"a", "is b'a'. The data of a spec cannot contain a value of type bytes. Write a number, a s"),
    *(
        ({"canonical": name, "value": 1}, f"is '{name}', which is not a factory in the")
        for name in ("boom", "schedule", "optax:global_norm", "holdin")
    ),
    ({"canonical": "holdin", "value": 1}, ". Did you mean 'holding'?"),
    ({"optax": "adamv"}, f"is 'adamv', which is {UNKNOWN}."),
    ({"optax": "adamv"}, ". Did you mean 'adam'?"),
    ({"optax": "canonopt.adam"}, ". Did you mean 'adam'?"),
    ({"optax": "muon"}, ". Did you mean 'contrib.muon'?"),
    ({"optax": "optax.contrib.muon"}, ". Did you mean 'contrib.muon'?"),
    ({"optax": 3}, f"is 3, which is {UNKNOWN}"),
    ({"optax": "qqq"}, 'For a factory of your own, write "canonical" in place of "optax".'),
    ({"optax": {"x": 1}}, f"is {{'x': 1}}, which is {UNKNOWN}"),
    ({"optax": ADAM}, f"which is {UNKNOWN}"),
]
# What an adamw has for a parameter, if anything, and what is said of it.
WRONG = [
    ("weight_decy", 0.1, "weight_decy", "keyword argument 'weight_decy'. Did you mean 'weight_d"),
    ("lr", 0.1, "learning_rate", "adamw got both lr and learning_rate"),
    ("learning_rate", ..., "learning_rate", "adamw: missing a required argument: "),
    ("learning_rate", "1e-3", "learning_rate", "adamw must be a number or a boolean, not '1e-3'"),
    ("learning_rate", QUADRATIC, "learning_rate", "raised ValueError: "),
    ("nesterov", "false", "nesterov", "adamw must be a number or a boolean, not 'false'"),
]
REFUSED = [("spec.value", *row) for row in MALFORMED]
REFUSED += [
    (f"spec.value.{path}", {k: v for k, v in (ADAMW | {name: data}).items() if v is not ...}, text)
    for name, data, path, text in WRONG
]
UNKNOWN_NAME = {"optax": "adam", "learnig_rate": 0.1}
REFUSED += [("spec.value.learnig_rate", UNKNOWN_NAME, "Did you mean 'learning_rate'?")]


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
    found = (caught.value.path or "").removeprefix("data.")
    assert found in (path, *(f"{path}.{key}" for key in keys))
    assert message in str(caught.value)


NAME_IT = "Define it in a module, or write canonopt.to_config(spec, registry={'x': ...})."
NAME_ARRAY = (
    "Write Python numbers, or canonopt.dynamic(...) of them, outside jax.jit. Or name the array: "
    "canonopt.to_config(spec, registry={'x': ...})."
)
WITHOUT_NAME = [
    (lambda params: params, NAME_IT),
    (object(), NAME_IT),
    (optax.scale(0.5), "Build it with canonopt."),
    (jax.random.key(0), NAME_ARRAY),
    (np.ones(2), NAME_ARRAY),
]


@pytest.mark.parametrize(("value", "fix"), WITHOUT_NAME)
def test_what_has_no_name_is_refused(value, fix):
    for held, step in ((value, ""), ({"b": value}, "['b']"), ((1, value), "[1]")):
        path = f"spec.args[0].value{step}"
        with pytest.raises(errors.ConfigError) as caught:
            canonopt.to_config(canonopt.chain(holding(held)), registry=REGISTRY)
        assert caught.value.path == path and str(caught.value).startswith(f"{path} is ")
        assert "which has no name to write." in str(caught.value)
        assert (caught.value.fix or "").startswith(fix)


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
    data = canonopt.to_config(spec, registry=REGISTRY)
    assert data["spec"]["value"] == {"name": "library:tuned"}
    with pytest.raises(errors.ConfigError, match=r"^spec\.value is 'library:tuned', which is ne"):
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
        with pytest.raises(errors.ConfigError, match="Names in data are never imported"):
            read_with(lambda spec, value=value: spec.update(value=value), holding(1))
    assert "sentinel" not in sys.modules


@pytest.mark.parametrize("rate", [jnp.float32(1e-3), canonopt.dynamic(1e-3)], ids=repr)
def test_traced_values_are_refused(rate):
    with pytest.raises(errors.ConfigError, match=r"^spec\.learning_rate is .* outside jax\.jit"):
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
                    **dict.fromkeys(getattr(canonopt, name).factory.signature.parameters, inner),
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


@canonopt.canonical
def of_one(value):
    return _identity


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


def test_the_digests_of_data_and_of_a_spec_are_fixed():
    assert canonopt.fingerprint(DATA) == DIGEST
    spec = of_one((0.1, None, jnp.bfloat16, {"b": 1, "a": True}))
    digest = "d7dcd0c7cb2d1e8cf58ebb6257779e21bf58090badbfa9a919856dc873624253"
    assert canonopt.fingerprint(spec, registry={"holding": of_one}) == digest


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
    digests = [canonopt.fingerprint(of_one(value)) for value in (one, other)]
    assert digests[0] != digests[1]
    assert canonopt.diff(*map(holding, (one, other)))


# --- differences ------------------------------------------------------------------------------

adam, chain, clip, sgd = canonopt.adam, canonopt.chain, canonopt.clip, canonopt.sgd
cosine = canonopt.cosine_decay_schedule(1e-3, 100)
linear = canonopt.linear_schedule(1e-3, 0.0, 10)


def by_label(**transforms):
    return canonopt.partition(transforms, {"w": next(iter(transforms))})


# Two specs as Python writes them, and each line of what differs.
DIFFERENCES = r"""
adam(1e-3), adam(3e-4) | learning_rate: 0.001 -> 0.0003
adam(1e-3), adam(1e-3) |
chain(clip(1.0), adam(1e-3)), chain(clip(2.0), adam(1e-3, b1=0.8)) | \
    args[0].max_delta: 1.0 -> 2.0 | args[1].b1: 0.9 -> 0.8
sgd(cosine), sgd(cosine.replace(alpha=0.1)) | learning_rate.alpha: 0.0 -> 0.1
sgd(0.1), sgd(linear) | learning_rate: 0.1 -> linear_schedule(init_value=0.001, end_value=0.0, \
    transition_steps=10, transition_begin=0)
linear, canonopt.constant_schedule(1.0) | spec: linear_schedule(init_value=0.001, end_value=0.0, \
    transition_steps=10, transition_begin=0) -> constant_schedule(value=1.0)
chain(adam(1e-3)), chain(adam(3e-4), clip(1.0)) | \
    args[0].learning_rate: 0.001 -> 0.0003 | args[1]: nothing -> clip(max_delta=1.0)
chain(adam(1e-3), clip(1.0)), chain(adam(1e-3)) | args[1]: clip(max_delta=1.0) -> nothing
chain(clip(1.0), adam(1e-3)), chain(canonopt.scale(0.5), adam(1e-3)) | \
    args[0]: clip(max_delta=1.0) -> scale(step_size=0.5)
by_label(a=sgd(0.1), b=sgd(0.1)), by_label(a=sgd(0.2), c=sgd(0.1)) | \
    transforms['a'].learning_rate: 0.1 -> 0.2 | transforms['b']: sgd(learning_rate=0.1, \
    momentum=None, nesterov=False, accumulator_dtype=None) -> nothing | transforms['c']: nothing \
    -> sgd(learning_rate=0.1, momentum=None, nesterov=False, accumulator_dtype=None)
of_one({'b': sgd(0.1), 1: sgd(0.1)}), of_one({'b': sgd(0.1), 1: sgd(0.2)}) | \
    value[1].learning_rate: 0.1 -> 0.2
of_one({'b': 1, 'a': 2, 'c': 3}), of_one({'b': 1, 'c': 3, 'a': 2}) | \
    value: {"dict": [["b", 1], ["a", 2], ["c", 3]]} -> {"dict": [["b", 1], ["c", 3], ["a", 2]]}
canonopt.named_chain(('x', clip(1.0))), canonopt.named_chain(('x', clip(2.0))) | \
    args[0][1].max_delta: 1.0 -> 2.0
of_one([1, math.nan, None, (1,), {'a': 1}]), of_one([1.0, 0.0, True, (1.0,), {}]) | \
    value[0]: 1 -> 1.0 | value[1]: nan -> 0.0 | value[2]: None -> True | \
    value[3][0]: 1 -> 1.0 | value[4]['a']: 1 -> nothing
of_one([1]), of_one((1,)) | value: [1] -> {"tuple": [1]}
adam(canonopt.dynamic(1e-3)), adam(canonopt.dynamic(3e-4)) | \
    learning_rate: {"dynamic": 0.001} -> {"dynamic": 0.0003}
canonopt.inject_hyperparams(optax.sgd)(0.1), canonopt.inject_hyperparams(optax.sgd)(0.2) | \
    learning_rate: 0.1 -> 0.2
canonopt.adamw(1e-3, mask=is_matrix), canonopt.adamw(1e-3) | \
    mask: tests.spec.test_config:is_matrix -> None
of_one(np.float32(0.5)), of_one(np.float32(0.25)) | \
    value: {"scalar": ["float32", 0.5]} -> {"scalar": ["float32", 0.25]}
of_one([jnp.float32, jnp.float32]), of_one([np.float32, jnp.bfloat16]) | \
    value[0]: float32 -> numpy:float32 | value[1]: float32 -> bfloat16
# Its parameter has the name of a key.
holding(1, 2), holding(1, 3) | optax: 2 -> 3
"""
CASES = {code: "\n".join(lines) for code, *lines in rows(DIFFERENCES)}


@pytest.mark.parametrize("code", CASES)
def test_a_difference_is_a_line(code):
    (one, other), lines = eval(code, globals()), CASES[code]
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
