"""The stubs: that they are what tools/stubs.py writes, and that they name what there is."""

import ast
import inspect
from types import ModuleType
from typing import Any

import pytest

import canonopt
from canonopt import optimizers
from tools import stubs

each_module = pytest.mark.parametrize("module", stubs.MODULES, ids=lambda module: module.__name__)


def text_of(module: ModuleType) -> str:
    return stubs.path_of(module).read_text("utf-8")


@each_module
def test_is_as_written(module: ModuleType):
    assert not stubs.differs(module, text_of(module))


@each_module
def test_runs(module: ModuleType):
    # So every name is where the stub imports it from.
    namespace: dict[str, Any] = {"__name__": module.__name__, "__package__": "canonopt"}
    exec(text_of(module), namespace)
    assert namespace["__all__"] == dir(module)
    assert {*dir(module)} <= namespace.keys()
    # It would answer for every misspelt name.
    assert "__getattr__" not in namespace
    if module is canonopt:
        assert all(namespace[name] is getattr(canonopt, name) for name in dir(module))


def test_what_differs_is_found():
    text = text_of(optimizers)
    assert stubs.differs(optimizers, text.replace("*, lr: ScalarOrSchedule", "*, lr: float", 1))
    assert stubs.differs(optimizers, text.replace("import Any", "import Final, Any"))


@each_module
def test_has_the_docstrings_and_defaults_of_optax(module: ModuleType):
    first: dict[str, ast.FunctionDef] = {}
    for node in ast.parse(text_of(module)).body:
        if isinstance(node, ast.FunctionDef):
            first.setdefault(node.name, node)
    for name, node in first.items():
        function = getattr(module, name).factory.function
        docstring = inspect.getdoc(function) or ""
        assert (ast.get_docstring(node) or "").split() == docstring.split()
        arguments = node.args
        written = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
        parameters = inspect.signature(function).parameters.values()
        defaults = [p.default for p in parameters if p.default is not p.empty]
        assert len(written) == len(defaults)
        for text, default in zip(written, defaults, strict=True):
            is_plain = isinstance(default, int | float | str | None)
            assert not is_plain or ast.literal_eval(text) == default
