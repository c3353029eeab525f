"""Make functions that build specs: `canonical` from any factory, `catalogue` from Optax's."""

import contextlib
import functools
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import optax
import optax.contrib
import optax.schedules
import optax.transforms

from .._optax_compat import is_factory, is_optimizer
from ..errors import NotAFactoryError
from .factory import factory_of, register
from .spec import ScheduleSpec, Spec

P = ParamSpec("P")


@overload
def canonical(function: Callable[P, optax.GradientTransformation]) -> Callable[P, Spec]: ...
@overload
def canonical(function: Callable[P, Callable[..., Any]]) -> Callable[P, ScheduleSpec]: ...
def canonical(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a factory that builds the same spec whenever it is given the same configuration.

    Give `canonical` any function that returns an `optax.GradientTransformation` or a schedule, your
    own or a third party's, or use `canonical` as a decorator. For type checkers, the result has the
    annotated parameters of `function`.

    ```python
    >>> import canonopt, optax
    >>> @canonopt.canonical
    ... def clipped_sgd(
    ...     learning_rate: float, max_norm: float = 1.0
    ... ) -> optax.GradientTransformation:
    ...     return optax.chain(optax.clip_by_global_norm(max_norm), optax.sgd(learning_rate))
    >>> clipped_sgd(0.1) is clipped_sgd(lr=0.1, max_norm=1.0)
    True

    ```

    **Arguments:**

    - `function`: the factory. It is called once for each configuration, with the arguments as
        given, but with copies of containers. The globals and the captured variables that
        `function` reads are part of the configuration.

    **Returns:** a function that returns specs, with the signature of `function`.

    **Raises:** `NotAFactoryError` if `function` is not callable, or has a parameter with the name
    of an attribute of specs. The returned function raises it if `function` returns neither a
    transformation nor a schedule.
    """
    if not callable(function):
        problem = f"canonopt.canonical takes a function, not {function!r}."
        fix = "Give it the factory itself, as in canonopt.canonical(optax.adam)."
        raise NotAFactoryError(problem, fix)
    if factory_of(function) is not None:
        return function
    catalogue()  # so that `canonical(optax.adam)` is `canonopt.adam`
    return register(function)


# --- the catalogue: for each factory of Optax, a function that builds specs ---------------------

# The modules of Optax that have factories, keyed by the canonopt module with the same names.
_NAMESPACES = {
    "canonopt": optax,
    "canonopt.contrib": optax.contrib,
    "canonopt.schedules": optax.schedules,
    "canonopt.transforms": optax.transforms,
}


@functools.cache
def _entries() -> dict[str, Any]:
    """Return Optax's factories, keyed by their canonopt path, such as "canonopt.contrib.muon"."""
    return {
        f"{module}.{name}": value
        for module, namespace in _NAMESPACES.items()
        for name, value in vars(namespace).items()
        if not name.startswith("_") and is_factory(value)
    }


@functools.cache
def _homes() -> dict[int, str]:
    """Map the id of each factory to one of its paths: the one in `canonopt` itself, if any."""
    return {id(function): path for path, function in reversed(_entries().items())}


def in_place_of(value: Any) -> Any:
    """Return canonopt's function for a factory of Optax, and any other value unchanged."""
    if (path := _homes().get(id(value))) is None:
        return value
    home, _, name = path.rpartition(".")
    # The function is stored in its module, where pickle and `is_in_place` look for it.
    module = vars(importlib.import_module(home))
    if name not in module:
        module[name] = register(value, name, home, of_optax=True)
    return module[name]


@functools.cache
def catalogue() -> dict[str, Callable[..., Any]]:
    """Return the functions that build specs, keyed by Optax's names: "adam", "contrib.muon"."""
    is_home = lambda path, f: path.rpartition(".")[0] == _homes()[id(f)].rpartition(".")[0]  # noqa: E731
    found = {path: function for path, function in _entries().items() if is_home(path, function)}
    return {path.removeprefix("canonopt."): in_place_of(f) for path, f in found.items()}


# --- the modules that users import --------------------------------------------------------------


def names_of(module: str) -> list[str]:
    """Return the public names that a module of canonopt has from Optax."""
    plain = {p.removeprefix("canonopt."): f for p, f in _entries().items() if p.count(".") == 1}
    optimizers = [name for name, function in plain.items() if is_optimizer(function)]
    if module == "canonopt.optimizers":
        return optimizers
    names = {name for name in dir(_NAMESPACES[module]) if not name.startswith("_")}
    if module == "canonopt.transforms":
        names |= plain.keys() - {*optimizers, *names_of("canonopt.schedules")}
    return sorted(names)


def find_in(module: str, name: str) -> Any:
    """Return canonopt's function if `name` is a factory of Optax, else Optax's object.

    Modules use this as `__getattr__`. Raises `AttributeError` if `name` is private or not in Optax.
    """
    if name == "__all__":  # Optax lists its deprecated names only in `__all__`
        theirs = getattr(_NAMESPACES.get(module), "__all__", ())
        return sorted({*names_of(module), *theirs})
    if not name.startswith("_"):
        for namespace in (_NAMESPACES.get(module, optax), optax):
            with contextlib.suppress(AttributeError):
                return in_place_of(getattr(namespace, name))  # Optax warns if it is deprecated
    problem = f"Neither {module} nor optax {optax.__version__} has {name!r}"  # Python adds a hint
    raise AttributeError(problem, name=name, obj=sys.modules[module])


def replace_in_optax() -> None:
    """Replace Optax's functions by canonopt's in this process, as if by `import canonopt as optax`.

    Optax's own modules keep using Optax's objects, and so do the modules of canonopt.
    """
    from .._steps import apply_updates  # imported here, since specs do not need it

    original = types.SimpleNamespace(**vars(optax))
    replaced = {path: in_place_of(function) for path, function in _entries().items()}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "canonopt" and vars(module).get("optax") is optax:
            vars(module)["optax"] = original
    for path, function in {**replaced, "canonopt.apply_updates": apply_updates}.items():
        namespace, _, name = path.replace("canonopt", "optax", 1).rpartition(".")
        setattr(sys.modules[namespace], name, function)
