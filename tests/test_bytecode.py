"""The facts about a code object: what it reads, and which ones have one key."""

# The bodies below use these.
import builtins  # noqa: F401
import functools
import gc
import heapq  # noqa: F401
import operator  # noqa: F401
import os  # noqa: F401
import time
import typing  # noqa: F401
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from canonopt._identity import read, read_call
from canonopt._python_internals.bytecode import facts_of, key_of
from canonopt._python_internals.libraries import impure_name

alias, chain, clock, as_text = np.random, np, time.time, str
config, table, path = [1.0], {"x": 1.0}, Path("settings")
UNSET = -1.0


def function(body, name="step"):
    """Return a function of this module with a body of one line, or of an expression."""
    body = body if "return" in body else f"return {body}"
    space = {}
    exec(f"def make():\n    def {name}(x=0): {body}\n    return {name}", globals(), space)
    made = space["make"]()
    globals()[name] = made
    return made


# Judged by the object that is reached, and not by its spelling.
IMPURE = """
np.random.normal()
alias.normal()
chain.random.normal()
import numpy; return x + numpy.random.normal()
import numpy; numpy = numpy; return numpy.random.normal()
from numpy import random; return random.normal()
time.time()
clock()
Path("settings").read_text()
path.read_text()
os.path.exists("settings")
os.environ["HOME"]
str(os)
open("settings")
builtins.open("settings")
globals()
fills_a_new_list.__globals__
fills_a_new_list.__annotations__
typing.get_type_hints(fills_a_new_list)
hash("text")
x.is_deleted()
x is UNSET
"""


@pytest.mark.parametrize("body", IMPURE.strip().splitlines())
def test_what_is_impure_is_not_compared(body):
    assert not read((function(body),)).is_comparable


# They read files, so all of their names are impure. None of them has to be installed.
@pytest.mark.parametrize("package", ["etils", "fsspec", "joblib", "tensorstore", "toml"])
def test_packages_of_which_all_is_impure(package):
    load = eval("lambda path: path", {"__name__": f"{package}.files"})
    assert impure_name(load) == f"{package}.files.<lambda>"


def test_a_module_is_compared_by_identity_in_any_case():
    assert read((function("x is chain"),)).is_comparable


def gets_tracers(function):
    """Return True if a jitted function gets a tracer for the array that it holds as its `x`."""
    return bool(read_call(functools.partial(function, jnp.ones(3))).arrays)


# Code that could tell a tracer from an array, or keep it.
TELLS_OR_KEEPS = """
config.append(x)
operator.setitem(config, 0, x)
setattr(config, "x", x)
f"{x}"
str(x)
assert str(x) != "[1. 1. 1.]"; return x
builtins.str(x)
getattr(builtins, "repr")(x)
print(x)
type(x)
getattr(x, "shape", None)
"{}".format(x)
x.__repr__()
as_text(x)
table.update(x=x); return config
heapq.heappush(config, x); return x
kept = table; kept |= {"x": x}; return config
"""


@pytest.mark.parametrize("body", TELLS_OR_KEEPS.strip().splitlines())
def test_code_that_could_tell_or_keep_tracers_gets_none(body):
    assert not gets_tracers(function(body))


def test_the_name_of_a_function_says_nothing_of_what_it_keeps():
    assert not gets_tracers(function("config[0] = x; return x", "setup"))


def fills_a_new_list(x):
    parts = []
    named = {}
    for i in range(3):
        parts.append(config[0] * x)
        named[i] = x
        named[()] = x
    return parts


class Stack:
    def __init__(self, x):
        parts = []
        parts.append(x)
        self.parts = parts
        self.parts.append(config[0])


def raises(x):
    if x.ndim:
        raise ValueError(f"{x} has axes")
    print("tracing")
    return config[0] * x


@pytest.mark.parametrize("function", [raises, lambda x: Stack(x).parts, fills_a_new_list])
def test_code_that_changes_what_is_new_or_makes_texts_for_errors_gets_tracers(function):
    assert gets_tracers(function)


def compiled(source, file="<cell>"):
    return compile(source, file, "exec")


def test_code_counts_by_content():
    assert key_of(compiled("x = 1.0")) is key_of(compiled("\n\nx = 1.0", "<another cell>"))
    constants = ("1", "1.0", "True", "0.0", "-0.0", "(1,)", "(True,)", "(1.0,)", "'1'")
    assert len({key_of(compiled(f"x = {constant}")) for constant in constants}) == len(constants)
    assert key_of(compiled("x = 1")) is not key_of(compiled("y = 1"))


def test_what_is_known_about_code_does_not_keep_it_alive():
    def make():
        namespace = {}
        exec("def make(a):\n    return lambda x: x + a", namespace)
        return namespace["make"](1), namespace

    gc.collect()
    before = len(facts_of.known)
    for _ in range(100):
        function, namespace = make()
        assert read((function,)).is_comparable
        del function, namespace
    gc.collect()
    assert len(facts_of.known) <= before + 1


def test_an_object_that_code_imports_and_uses_is_passed_on():
    def step(x):
        from settings_of_this_test import held

        return x * sum(held)

    assert ".held" in facts_of(step.__code__).passed
