"""The names of Optax in canonopt: all of them, with specs for all factories."""

import importlib
import inspect
import pkgutil
import types
import warnings

import optax
import optax.contrib
import optax.schedules
import optax.transforms
import pytest

import canonopt
from canonopt._optax_compat import is_factory
from canonopt._spec import catalogue as builders

from ..support import catalogue
from ..support.doctor import printed_by

# Optax's public modules, by the names of canonopt's.
MODULES = {
    f"canonopt{name}": importlib.import_module(f"optax{name}")
    for name in ("", *(f".{module.name}" for module in pkgutil.iter_modules(optax.__path__)))
    if not name.startswith("._") and not name.endswith("_test")
}
NAMES = [
    (module, name)
    for module, theirs in MODULES.items()
    for name in dir(theirs)
    if not name.startswith("_")
]


# --- a drop-in for Optax's namespaces -----------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_of_optax_is_there(module: str, name: str):
    theirs = getattr(MODULES[module], name)
    ours = getattr(importlib.import_module(module), name)
    if is_factory(theirs):
        assert ours.factory.function is theirs
    elif isinstance(theirs, types.ModuleType) and f"{module}.{name}" in MODULES:
        assert ours is importlib.import_module(f"{module}.{name}")
    elif name == "apply_updates":
        assert [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]
    else:
        assert ours is theirs


@pytest.mark.parametrize("module", MODULES)
def test_the_names_are_listed_and_imported_with_a_star(module: str):
    names = {name for of, name in NAMES if of == module}
    theirs, ours = {}, {}
    with warnings.catch_warnings():  # of names that Optax has only for a star import
        warnings.simplefilter("ignore", DeprecationWarning)
        exec(f"from {module.replace('canonopt', 'optax', 1)} import *", theirs)
        exec(f"from {module} import *", ours)
    assert names <= {*dir(importlib.import_module(module))}
    assert names | theirs.keys() - {"__warningregistry__"} <= ours.keys()


def test_a_function_of_optax_without_annotation_is_known():
    """Return annotations say what is a factory. Add a new factory without one to the exceptions."""
    functions = {
        name: getattr(MODULES[module], name) for module, name in NAMES if "." not in module
    }
    functions |= vars(optax.contrib)
    silent = {
        name
        for name, value in functions.items()
        if isinstance(value, types.FunctionType)
        and not name.startswith("_")
        and "return" not in value.__annotations__
    }
    assert {name for name in silent if not is_factory(functions[name])} == {
        *("matrix_inverse_pth_root", "schedule_free_eval_params", "sigmoid_binary_cross_entropy"),
        *("update_infinity_moment", "update_moment", "update_moment_per_elem_norm"),
    }


def test_the_shared_table_has_every_factory():
    assert {name.removeprefix("schedules.") for name in catalogue.ALL} == {*builders()}


def test_what_optax_lacks_is_an_attribute_error():
    message = r"^Neither canonopt nor optax .* has 'adm'$"
    with pytest.raises(AttributeError, match=message) as caught:
        canonopt.adm  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("adm", canonopt)  # so Python suggests names
    with pytest.raises(ImportError):
        exec("from canonopt.contrib import moun")


def test_names_that_optax_has_moved_are_found_with_its_warning():
    with pytest.warns(DeprecationWarning, match=r"use optax\.contrib\.dpsgd"):
        moved = canonopt.dpsgd
    assert moved is canonopt.contrib.dpsgd


REPLACED = """
import types, canonopt, optax
from canonopt._spec import replace_in_optax
modules = {m: getattr(canonopt, m) for m in ("contrib", "schedules", "transforms")}
modules = {"": canonopt, **modules}
names = {name: dir(module) for name, module in modules.items()}
replace_in_optax()
for name, module in modules.items():
    theirs = getattr(optax, name) if name else optax
    both = ((n, getattr(module, n), getattr(theirs, n)) for n in names[name] if hasattr(theirs, n))
    print([n for n, a, b in both if a is not b and not isinstance(a, types.ModuleType)])
"""


def test_names_replaced_in_optax_are_those_of_a_drop_in():
    """`canonopt doctor --try` runs a script with these, and `canonopt fix` imports canonopt."""
    assert printed_by("-c", REPLACED).split() == ["[]"] * 4
