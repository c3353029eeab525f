"""What is wrong with data is said with the path, and nothing that they name is imported or run."""

import copy
import enum
import re
import sys
import types
import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import canonopt
from canonopt._spec.config.form import TAGS

CHAIN = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(1e-3))
HERE = optax.__version__


class Color(enum.Enum):
    RED = 1


class Size(NamedTuple):
    height: int
    width: int


@canonopt.canonical
def holding(value: object, /, rate: float = 1.0, *args) -> optax.GradientTransformation:
    return _identity


_identity = optax.identity()
REGISTRY = {"holding": holding, "Color": Color, "Size": Size, "number": 3}


def changed(change, spec=CHAIN):
    """The data of a spec, after `change` was called on them, or on the second part of a chain."""
    data = canonopt.to_config(spec, registry=REGISTRY)
    inner = data["spec"]
    change(inner["args"][1] if spec is CHAIN else inner)
    return data


def refused(data, registry=REGISTRY):
    before = copy.deepcopy(data)
    with pytest.raises(canonopt.errors.ConfigError) as caught:
        canonopt.from_config(data, registry=registry)
    assert data == before
    return caught.value


def refused_value(value):
    return refused(changed(lambda spec: spec.update(value=value), holding(1)))


# --- keys and names ---------------------------------------------------------------------------


def test_an_unknown_factory():
    error = refused(changed(lambda spec: spec.update(optax="adamv")))
    assert error.path == "spec.args[1].optax"
    assert str(error) == (
        f"spec.args[1].optax is 'adamv', which is not a factory of Optax {HERE}. "
        "Did you mean 'adam'?"
    )


@pytest.mark.parametrize("factory", [3, ["adam"], {"x": 1}, {"optax": "adam"}])
def test_what_is_no_name_of_a_factory(factory):
    if factory == {"optax": "adam"}:
        factory = canonopt.to_config(canonopt.adam(1e-3))["spec"]
    error = refused(changed(lambda spec: spec.update(optax=factory)))
    assert error.path == "spec.args[1].optax"
    assert re.search(r"which is not the name of a factory\. Write its name, such as", str(error))


def test_an_extra_key():
    error = refused(changed(lambda spec: spec.update(weight_decy=0.1)))
    assert error.path == "spec.args[1].weight_decy"
    assert str(error).startswith(
        "spec.args[1].weight_decy: adamw has no parameter 'weight_decy'. Did you mean "
        "'weight_decay'? Its parameters are: learning_rate, b1, b2, "
    )
    error = refused(changed(lambda spec: spec.update(lr=0.1)))
    assert "Did you mean 'learning_rate'?" in str(error)


def test_a_missing_key():
    error = refused(changed(lambda spec: [spec.pop(name) for name in ("b2", "mask")]))
    assert error.path == "spec.args[1].b2"
    assert str(error) == (
        "spec.args[1] lacks b2, mask of adamw. Write all parameters. For b2, write its default: "
        '{"b2": 0.999}.'
    )
    error = refused(changed(lambda spec: spec.pop("learning_rate")))
    assert str(error) == (
        "spec.args[1] lacks learning_rate of adamw. Write all parameters. For learning_rate, "
        "write a value for it."
    )


def test_parameters_in_a_table_of_their_own():
    def change(spec):
        inner = {name: spec.pop(name) for name in list(spec) if name != "optax"}
        spec["parameters"] = inner | more

    more = {}
    assert canonopt.from_config(changed(change)) is CHAIN
    more = {"amsgrad": True}
    error = refused(changed(change))
    assert error.path == "spec.args[1].amsgrad"
    error = refused(changed(lambda spec: spec.update(parameters=3)))
    assert "spec.args[1].parameters: adamw has no parameter 'parameters'" in str(error)


def test_an_unknown_name():
    error = refused_value({"name": "optax:adamww"})
    assert error.path == "spec.value"
    assert str(error) == (
        "spec.value is 'optax:adamww', which is neither in the registry nor a name of Optax. Names "
        "in data are not imported. Did you mean 'optax:adamw'? Import the object, and pass it: "
        "canonopt.from_config(data, registry={'optax:adamww': ...})."
    )
    error = refused_value({"canonical": "holdin", "value": 1})
    assert error.path == "spec.value.canonical" and "Did you mean 'holding'?" in str(error)


def test_a_name_of_something_else_than_a_factory():
    assert str(refused_value({"canonical": "number"})) == (
        "spec.value.canonical is 'number', which is 3 in the registry, and no factory that builds "
        "specs. Put what canonopt.canonical returns into the registry under 'number'."
    )


# --- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1e-3", "0.001"])
def test_text_in_place_of_a_number(text):
    error = refused(changed(lambda spec: spec.update(learning_rate=text)))
    assert error.path == "spec.args[1].learning_rate"
    assert str(error) == (
        f"spec.args[1].learning_rate of adamw is a string, {text!r}, which the parameter does not "
        "take. Write 0.001 without quotes; in YAML with a dot, as in 1.0e-3."
    )


def test_text_in_place_of_a_number_that_is_not_finite():
    error = refused(changed(lambda spec: spec.update(eps="nan")))
    assert error.fix == 'Write {"float": "nan"}.'


WRONG = [
    ("b1", True, "a boolean, True, which the parameter does not take. Write a number."),
    ("b1", "high", "a string, 'high', which the parameter does not take. Write a number."),
    ("b1", [0.9], "a list, [0.9], which the parameter does not take. Write a number."),
    ("nesterov", "false", "a string, 'false', which the parameter does not take. Write a boolean."),
    ("b1", {"x": 0.9}, "a table, {'x': 0.9}, which the parameter does not take. Write a number."),
    ("eps", None, "None, which the parameter does not take. Write a number."),
    ("nesterov", 0, "a number, 0, which the parameter does not take. Write a boolean."),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_another_type_than_the_annotation_has(name, value, message):
    error = refused(changed(lambda spec: spec.update({name: value})))
    assert error.path == f"spec.args[1].{name}"
    assert str(error) == f"spec.args[1].{name} of adamw is {message}"


def test_a_transformation_in_place_of_a_schedule():
    error = refused(changed(lambda spec: spec.update(learning_rate={"optax": "identity"})))
    assert error.path == "spec.args[1].learning_rate"
    assert str(error) == (
        "spec.args[1].learning_rate of adamw is a transformation, canonopt.identity(), which the "
        "parameter does not take. Write a number."
    )


@pytest.mark.parametrize("mask", [True, "all", {"w": True}, [True, False], 1])
def test_a_tree_may_be_anything(mask):
    spec = canonopt.adamw(1e-3, mask=mask)
    assert canonopt.from_config(canonopt.to_config(spec)) is spec


def test_types_that_annotations_of_optax_do_not_list_are_read():
    for spec in (
        canonopt.freeze(True),
        canonopt.contrib.hutchinson_estimator_diag_hessian(random_seed=0),
        canonopt.scale_by_distance_over_gradients(param_dtype="f4"),
    ):
        assert canonopt.from_config(canonopt.to_config(spec)) is spec


def test_annotations_of_the_users_factories_count_too():
    error = refused(changed(lambda spec: spec.update(rate="1e-3"), holding(1)))
    assert error.path == "spec.rate" and "Write 0.001 without quotes" in str(error)


def test_text_inside_of_a_list_of_numbers():
    spec = canonopt.join_schedules([canonopt.constant_schedule(0.1)] * 2, [5])
    error = refused(changed(lambda spec: spec.update(boundaries=["5"]), spec))
    assert error.path == "spec.boundaries[0]"
    assert "join_schedules needs a number for boundaries[0], and got the string '5'" in str(error)


def test_something_else_than_a_transformation():
    chain = canonopt.chain(canonopt.clip(1.0))
    error = refused(changed(lambda spec: spec.update(args=[0.1]), chain))
    assert error.path == "spec.args[0]"
    assert "spec.args[0]: chain needs a gradient transformation, and args[0] is 0.1." in str(error)
    error = refused(changed(lambda spec: spec.update(args=0.1), chain))
    assert str(error) == "spec.args is 0.1, and chain takes any number of them. Write a list."


def test_an_error_of_the_factory_has_the_path():
    schedule = canonopt.piecewise_interpolate_schedule("linear", 0.1, {5: 0.5})
    table = canonopt.to_config(schedule)["spec"] | {"interpolate_type": "quadratic"}
    error = refused(changed(lambda spec: spec.update(learning_rate=table)))
    assert error.path == "spec.args[1].learning_rate"
    assert "piecewise_interpolate_schedule raised ValueError: " in str(error)
    assert str(error).endswith(" Correct its parameters.")


@pytest.mark.usefixtures("restored_caches")
def test_a_warning_of_the_factory_is_no_error_of_the_data():
    with pytest.warns(DeprecationWarning):
        data = canonopt.to_config(canonopt.optimistic_adam(1e-3))
    canonopt.clear_caches()
    with pytest.raises(DeprecationWarning):  # the tests make errors of warnings
        canonopt.from_config(data)


MALFORMED = [
    ({"none": False}, 'spec.value is {"none": false}. Write None as {"none": true}.'),
    ({"default": True}, "Only a parameter that has a default can have it."),
    ({"float": "1e-3"}, 'is {"float": "1e-3"}, which is no float. Write a number, or {"float"'),
    ({"float": 1.0}, "which is no float"),
    ({"complex": [1, 2]}, "which is no complex. Write the real and the imaginary part: "),
    ({"bytes": "xyz"}, "which is no bytes. Write hexadecimal digits: "),
    ({"tuple": 3}, 'which is no tuple. Write a list: {"tuple": [1, 2]}.'),
    ({"set": [[1]]}, 'which is no set. Write a list: {"set": [1, 2]}.'),
    ({"frozenset": "ab"}, "which is no frozenset. Write a list: "),
    ({"dict": [["a", 1], ["a", 2]]}, "which is no dict"),
    ({"dict": [1]}, "which is no dict. Write a list of pairs: "),
    ({"dtype": "float33"}, "which is no dtype. Write the name of a dtype of JAX: "),
    ({"dtype": "object"}, "which is no dtype"),
    ({"numpy_dtype": 3}, "which is no numpy_dtype. Write the name of a dtype of NumPy: "),
    ({"numpy_dtype": "object"}, "which is no numpy_dtype"),
    ({"numpy_type": "void"}, "which is no numpy_type. Write the name of a type of NumPy: "),
    ({"scalar": "int8", "value": 1000}, "which is no scalar. Write a dtype and a number of that"),
    ({"scalar": "int8", "value": 0.5}, "which is no scalar"),
    ({"scalar": "float32", "value": "0.5"}, "which is no scalar"),
    ({"array": "object", "shape": [], "values": [1]}, "which is no array. Write dtype, shape and"),
    ({"array": "int8", "shape": [3], "values": [1]}, "which is no array"),
    ({"array": "int8", "shape": [-1], "values": [1]}, "which is no array"),
    (
        {"jax_array": "int8", "shape": [], "values": [1], "weak_type": "no"},
        "which is no jax_array",
    ),
    (
        {"jax_array": "int8", "shape": 0, "values": 1, "weak_type": False},
        "which is no jax_array. Write dtype, shape, numbers and weak type: ",
    ),
    ({"dynamic": "1e-3"}, "which is no dynamic. Write a number, or a list of numbers: "),
    ({"name": 3}, "which is no name. Write a name in the registry: "),
    ({"namedtuple": "Color", "fields": {}}, "which is no namedtuple. Write the name of its class"),
    ({"namedtuple": "Size", "fields": {"height": 1}}, "which is no namedtuple"),
    ({"namedtuple": "Size", "fields": 1}, "which is no namedtuple"),
    ({"enum": "Color", "member": "BLUE"}, "which is no enum. Write the names of its class and of"),
    ({"enum": "number", "member": "RED"}, "which is no enum"),
    (
        {"none": True, "w": 1},
        "spec.value has the keys none, w, and 'none' stands for a kind of value, with other keys. "
        'For a dict with this key, write a list of pairs: {"dict": [["none", ...]]}.',
    ),
]


@pytest.mark.parametrize(("value", "message"), MALFORMED, ids=[str(v) for v, _ in MALFORMED])
def test_a_malformed_value(value, message):
    error = refused_value(value)
    assert error.path == "spec.value" and message in str(error)


def test_an_array_that_jax_has_only_with_x64():
    table = {"jax_array": "float64", "shape": [], "values": [0.1], "weak_type": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX says so too
        error = refused_value(table)
    assert str(error) == (
        "spec.value has dtype float64, which JAX has only with jax_enable_x64. "
        "Write jax.config.update('jax_enable_x64', True)."
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*REGISTRY, "int8"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*TAGS, "optax", "canonical", "w"]), inner, max_size=2)
        | st.sampled_from([*TAGS]).flatmap(
            lambda tag: st.fixed_dictionaries(dict.fromkeys((tag, *TAGS[tag]), inner))
        )
        | st.sampled_from(["adam", "chain", "masked", "linear_schedule", "sgdr_schedule"]).flatmap(
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
    data = changed(lambda spec: spec.update(value=value), holding(1))
    try:
        spec = canonopt.from_config(data, registry=REGISTRY)
    except canonopt.errors.ConfigError as error:
        assert error.path and error.path.startswith("spec.value") and error.fix is not None
    else:
        # What was read can be written, and is then the same.
        written = canonopt.to_config(spec, registry=REGISTRY)
        again = canonopt.from_config(written, registry=REGISTRY)
        assert canonopt.to_config(again, registry=REGISTRY) == written


# --- other types of data ----------------------------------------------------------------------


def test_null_is_none():
    assert canonopt.from_config(changed(lambda spec: spec.update(mask=None))) is CHAIN


def test_classes_of_a_library_for_data_are_read_as_pythons():
    class Text(str):
        pass

    class Real(float):
        pass

    table = types.MappingProxyType({Text("optax"): Text("scale"), "step_size": Real(0.5)})
    data = canonopt.to_config(canonopt.scale(0.5)) | {"spec": table}
    assert canonopt.from_config(data) is canonopt.scale(0.5)


def test_keys_are_strings():
    error = refused_value({"x": {5: 1}})
    assert error.path == "spec.value.x"
    assert str(error) == (
        "spec.value.x has the key 5, which is not a string. "
        'Write a list of pairs: {"dict": [[5, ...], ...]}.'
    )


def test_other_types_are_refused():
    assert "spec.value[0] is b'a', a bytes. Write a number, a string" in str(refused_value([b"a"]))


# --- the envelope -----------------------------------------------------------------------------


def test_data_need_the_two_keys():
    assert str(refused(canonopt.to_config(CHAIN)["spec"])).startswith(
        "The data need the keys canonopt and spec, and have: optax, args. Write what "
        'canonopt.to_config returns: {"canonopt": {"format": 1, "optax": '
    )
    assert "have: 3. Write" in str(refused(3))


def enveloped(**versions):
    return canonopt.to_config(CHAIN) | {"canonopt": versions}


def test_versions_are_checked():
    error = refused(enveloped(format=1))
    assert 'canonopt is {"format": 1}, and needs the keys format and optax. Write {' in str(error)
    error = refused(enveloped(format=1, optax=0.3))
    assert "canonopt.optax is 0.3, and needs to be a string. Write the version of" in str(error)
    for number in (2, "1", True):
        error = refused(enveloped(format=number, optax=HERE))
        assert error.path == "canonopt.format"
        assert "and this version of canonopt reads format 1. Install the version" in str(error)


def test_data_of_no_spec():
    error = refused(canonopt.to_config(CHAIN) | {"spec": {"name": "optax:adam"}})
    assert error.path == "spec"
    assert "spec is no table with a factory. Write {" in str(error)


# --- another version of Optax -----------------------------------------------------------------


def of_another_version(change, spec=CHAIN):
    data = changed(change, spec)
    data["canonopt"]["optax"] = "0.2.7"
    return data


def test_another_version_without_a_difference_is_silent():
    assert canonopt.from_config(of_another_version(lambda spec: None)) is CHAIN


def test_a_stored_default_counts_more_than_that_of_another_version():
    data = of_another_version(lambda spec: spec.update(b2=0.99))
    assert canonopt.from_config(data).args[1].b2 == 0.99


def test_a_factory_that_this_version_lacks():
    error = refused(of_another_version(lambda spec: spec.update(optax="adamwx")))
    assert f"is not a factory of Optax {HERE}; 0.2.7 wrote the data. Did you mean" in str(error)


def test_new_parameters_have_their_defaults_and_are_listed():
    data = of_another_version(lambda spec: [spec.pop("mask"), spec.pop("nesterov")])
    message = (
        f"The data were written with Optax 0.2.7, and {HERE} is installed. New parameters have "
        "their defaults: spec.args[1].mask, spec.args[1].nesterov. Write them with "
        "canonopt.to_config again to keep what they are now."
    )
    with pytest.warns(canonopt.errors.ConfigWarning, match=f"^{re.escape(message)}$") as caught:
        assert canonopt.from_config(data) is CHAIN
    assert caught[0].filename == __file__


def test_a_new_parameter_without_a_default_is_an_error():
    data = of_another_version(lambda spec: spec.pop("learning_rate"))
    with pytest.warns(canonopt.errors.ConfigWarning):
        assert "spec.args[1] lacks learning_rate of adamw" in str(refused(data))


def test_a_missing_parameter_of_the_users_factory_has_nothing_to_do_with_optax():
    data = of_another_version(lambda spec: spec.pop("rate"), holding(1))
    assert 'write its default: {"rate": 1.0}' in str(refused(data))


def test_parameters_that_are_gone_are_listed():
    error = refused(of_another_version(lambda spec: spec.update(amsgrad=True, decay=0.1)))
    assert error.path == "spec.args[1].amsgrad"
    assert str(error) == (
        f"The data were written with Optax 0.2.7, and {HERE} is installed, which does not have: "
        'spec.args[1].amsgrad, spec.args[1].decay. Write: pip install "optax==0.2.7", or take '
        "these keys out of the data if they have no effect there."
    )


def test_defaults_that_are_functions_are_listed():
    data = of_another_version(lambda spec: None, canonopt.lbfgs())
    with pytest.warns(
        canonopt.errors.ConfigWarning,
        match=r"installed\. Defaults that are functions may differ: spec\.linesearch\. Write them",
    ):
        assert canonopt.from_config(data) is canonopt.lbfgs()


# --- nothing is imported or run -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["os:system", "posix:system", "builtins:eval", "sentinel:boom"])
def test_names_in_data_are_neither_imported_nor_run(name, tmp_path, monkeypatch):
    (tmp_path / "sentinel.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for value in (
        {"name": name},
        {"canonical": name, "command": "exit 1"},
        {"namedtuple": name, "fields": {}},
        {"enum": name, "member": "x"},
    ):
        error = refused_value(value)
        assert "Names in data are not imported." in str(error)
    error = refused_value({"optax": name})
    assert "is not a factory of Optax" in str(error)
    assert "sentinel" not in sys.modules


def test_what_is_in_the_registry_is_not_run():
    def boom(*args):
        raise AssertionError

    registry = REGISTRY | {"boom": boom}
    data = changed(lambda spec: spec.update(value={"name": "boom"}), holding(1))
    assert canonopt.from_config(data, registry=registry).value is boom
    # Unless it is a factory.
    data["spec"]["value"] = {"canonical": "boom", "args": []}
    assert "and no factory that builds specs" in str(refused(data, registry))


def test_a_public_function_of_optax_is_not_run():
    error = refused_value({"canonical": "optax:global_norm", "updates": 1.0})
    assert "which is neither in the registry nor a name of Optax" in str(error)


def test_hand_written_scalars_are_rounded():
    data = changed(lambda spec: spec.update(value={"scalar": "float32", "value": 0.1}), holding(1))
    assert canonopt.from_config(data, registry=REGISTRY) is holding(np.float32(0.1))
    data["spec"]["value"] = {"dtype": "bfloat16"}
    assert canonopt.from_config(data, registry=REGISTRY) is holding(jnp.bfloat16)
