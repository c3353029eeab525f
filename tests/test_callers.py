"""The variables that the line of a call names."""

import gc
import weakref

import jax
import jax.numpy as numbers
from jax import jit as fast

from canonopt._python_internals.callers import Caller, call_site, caller_of

from .support.counting import line_marked

HELPER = """
def call(*args, **kwargs):
    given = [*((f"p{i}", value) for i, value in enumerate(args)), *kwargs.items()]
    return caller_of(given, lambda found, value: found is value, (complex,))
"""
space = {"caller_of": caller_of}
# Not in this file, where it would be the caller.
exec(compile(HELPER, "<frozen helper>", "exec"), space)
call = space["call"]


class Owner:
    def __init__(self):
        self.model = [object()]
        self.runs = 0

    @property
    def made(self):
        self.runs += 1
        return self.model


def test_the_variables_of_a_call_are_named_by_parameter():
    one, owner, é = object(), Owner(), object()
    mine = locals()
    assert call(one, é).arguments == {"p0": "one", "p1": "é"}
    assert mine["one"] is one  # what `locals` gave is left alone
    found = call(owner.model[0], key=one).arguments
    assert found == {"p0": "owner.model[0]", "key": "one"}
    table = {"a": {"b": one}}
    assert call(table["a"]["b"]).arguments == {"p0": "table['a']['b']"}
    # What is no variable has no name.
    assert call(object(), [one], *[one]).arguments == {}
    assert call(*[one], one).arguments == {"p0": "one"}
    # A property is not run again.
    assert call(owner.made).arguments == {}
    assert owner.runs == 1


def test_without_its_source_a_call_names_nothing():
    space = {"call": call, "x": object()}
    exec("found = call(x)", space)
    assert space["found"].arguments == {}


def test_modules_have_the_names_of_the_caller():
    found = call().modules
    assert (found["jax"], found["jax.numpy"]) == ("jax", "numbers")
    assert "canonopt" not in found
    caller = Caller(modules=found)
    assert caller.with_modules("{jnp}.ones({jax}.x)") == "numbers.ones(jax.x)"
    assert caller.with_modules("{eqx}.a + {canonopt}.b") == (
        "import canonopt; import equinox as eqx; eqx.a + canonopt.b"
    )
    assert jax.numpy is numbers


def test_a_line_before_the_call_could_not_assign_to_these():
    def inside():
        return [call(one), call(TABLE), call(TABLE["one"])]

    one = object()
    assert [found.arguments for found in inside()] == [{}, {}, {"p0": "TABLE['one']"}]
    (found,) = [call(each) for each in [one]]
    assert found.arguments == {}
    assert (lambda one: call(one))(one).arguments == {}
    for _ in range(1): found = call(one)  # fmt: skip # noqa: E701
    assert found.arguments == {}
    if call(one).arguments:
        raise AssertionError
    while call(one).arguments:
        raise AssertionError


TABLE = {"one": object()}


def test_functions_that_were_imported_by_name_have_that_name():
    names = call()
    assert callable(fast)
    assert (names.name_of("jax", "jit"), names.name_of("jax")) == ("fast", "jax")
    assert Caller().name_of("eqx", "filter_jit") == "eqx.filter_jit"


def test_a_frame_keeps_nothing_alive():
    large = Owner()
    alive = weakref.ref(large)
    assert call(large).arguments == {"p0": "large"}
    del large
    gc.collect()
    assert alive() is None


def test_the_frames_around_a_line_are_let_go():
    def called():
        large = Owner()
        assert call_site() is not None
        return weakref.ref(large)

    gc.disable()
    try:
        assert called()() is None
    finally:
        gc.enable()


def test_where_a_library_calls_back_the_line_is_that_of_the_call_to_it():
    def library(name):
        space = {"__name__": name, "call_site": call_site}
        source = "def sample(): return call_site()\ndef run(model): return model()"
        exec(compile(source, "<frozen library>", "exec"), space)
        return space["run"], space["sample"]

    (run, own), (_, other) = library("sampler.infer"), library("other")
    for sample, mark in ((own, "to the library"), (other, "in the model")):

        def model(sample=sample):
            return sample()  # in the model

        found = run(model)  # to the library
        assert found == line_marked(__file__, mark)
