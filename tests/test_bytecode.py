"""What a code object reads, and which code objects have one key."""

import gc
import types

import numpy as np
import pytest

from canonopt._identity import read
from canonopt._python_internals import code_of
from canonopt._python_internals.bytecode import _known, key_of

RATE = 1


def reads_names(config):
    import math

    return math.pi * RATE + len(config.rates)


def test_names_that_code_reads():
    code = code_of(reads_names)
    assert code.globals == ("RATE", "len")
    assert code.imports == ("math",)
    assert code.attributes == {"pi", "rates"}
    assert code.paths == {("math", "pi"), ("config", "rates")}


def test_names_that_nested_code_reads():
    def outer():
        return lambda config: config.rate + RATE

    code = code_of(outer)
    assert code.globals == ("RATE",)
    assert code.attributes == {"rate"}


def test_identity_tests():
    def compares(a, b):
        return a is None, a is RATE, a is b, type(a) is type(b), a is not True

    assert code_of(compares).identity_tests == ("RATE", None)


def module(name):
    return types.ModuleType(name)


def uses_modules():
    import time

    import numpy as np

    return np.random.normal(), np.ones(2), time.time()


@pytest.mark.parametrize(
    ("name", "variable", "impure"),
    [
        ("numpy", "np", ["numpy.random"]),
        ("numpy", None, ["numpy.random"]),
        ("numpy", "another", []),
        ("time", "time", ["time.time"]),
        ("time", "another", ["time"]),
        ("math", None, []),
    ],
)
def test_impure_attributes(name, variable, impure):
    assert code_of(uses_modules).impure_attributes(module(name), variable) == impure


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
    assert code_of(function).impure_attributes(np, None) == ["numpy.random"]
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
    before = len(_known)
    for _ in range(100):
        function, namespace = make()
        assert read((function,)).is_comparable
        del function, namespace
    gc.collect()
    assert len(_known) <= before + 1
