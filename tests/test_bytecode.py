"""The facts about a code object: what it reads, and which ones have one key."""

import builtins
import gc
import heapq
import operator
import os
import time
import typing
from pathlib import Path

import numpy as np
import pytest

from canonopt._identity import read
from canonopt._python_internals.bytecode import facts_of, key_of

RATE = 1


alias, chain, clock = np.random, np, time.time

REACHED = {
    "numpy.random": lambda: np.random.normal(),
    "an alias of numpy.random": lambda: alias.normal(),
    "another name of numpy": lambda: chain.random.normal(),
    "time": lambda: time.time(),
    "an alias of time.time": lambda: clock(),
    "a file": lambda: Path("settings").read_text(),
    "a file by os": lambda: os.path.exists("settings"),
    "the environment": lambda: os.environ["HOME"],
    "a module that is passed on": lambda: str(os),
    "open": lambda: open("settings"),
    "builtins.open": lambda: builtins.open("settings"),
    "globals": lambda: globals(),
    "the variables of a function": lambda: loads_two_variables.__globals__,
    "hash": lambda: hash("text"),
    "is": lambda x: x is chain,
    "is a number": lambda x: x is UNSET,
    "annotations": lambda: loads_two_variables.__annotations__,
    "names in annotations": lambda: typing.get_type_hints(loads_two_variables),
}
UNSET = -1.0


@pytest.mark.parametrize("name", REACHED)
def test_what_is_impure_is_judged_by_the_object_that_is_reached(name):
    is_module = name == "is"  # which is compared by identity in any case
    assert read((REACHED[name],)).is_comparable == is_module


def keeps_by_update(x):
    table.update(x=x)
    return config


def keeps_by_heap(x):
    heapq.heappush(config, x)
    return x


def keeps_by_or(x):
    kept = table
    kept |= {"x": x}
    return config


def setup(x):
    config[0] = x
    return x


table = {"x": 1.0}
CHANGES = {
    "append": lambda x: config.append(x),
    "item": lambda x: operator.setitem(config, 0, x),
    "attribute": lambda x: setattr(config, "x", x),
    "text": lambda x: f"{x}",
    "named text": lambda x: str(x),
    "print": lambda x: print(x),
    "type": lambda x: type(x),
    "reflection": lambda x: getattr(x, "shape", None),
    "a method that makes a text": lambda x: "{}".format(x),  # noqa: UP032
    "repr": lambda x: x.__repr__(),
    "another name of str": lambda x: as_text(x),
    "a call without a result": keeps_by_update,
    "a function without a result": keeps_by_heap,
    "an update in place": keeps_by_or,
    "a function named setup": setup,
}
as_text = str
config = [1.0]


@pytest.mark.parametrize("name", CHANGES)
def test_code_that_could_tell_or_keep_tracers_gets_none(name):
    assert not read((CHANGES[name],)).takes_tracers


def fills_a_new_list(x):
    parts = []
    named = {}
    for i in range(3):
        parts.append(config[0] * x)
        named[i] = x
    return parts


class Stack:
    def __init__(self, x):
        parts = []
        parts.append(x)
        self.parts = parts
        self.parts.append(config[0])


def makes_an_object(x):
    return Stack(x).parts


def raises(x):
    if x.ndim:
        raise ValueError(f"{x} has axes")
    print("tracing")
    return config[0] * x


@pytest.mark.parametrize("function", [raises, makes_an_object, fills_a_new_list])
def test_code_that_changes_what_is_new_or_makes_texts_for_errors_gets_tracers(function):
    assert read((function,)).takes_tracers


def loads_two_variables(x):
    import numpy as np

    return x + np.random.normal()


def stores_and_loads():
    import numpy as np; return np.random.normal()  # noqa: E702, I001  # fmt: skip


def imports_from():
    from numpy import random

    return random.normal()


@pytest.mark.parametrize("function", [loads_two_variables, stores_and_loads, imports_from])
def test_impure_attributes_of_a_module_that_is_imported_in_the_function(function):
    assert not read((function,)).is_comparable


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
