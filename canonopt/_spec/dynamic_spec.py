"""Specs that hold arrays: pytrees whose leaves are those arrays.

Such a spec is neither interned nor hashed. Its arrays may be traced, or be whatever else a pytree
transformation puts in place of a leaf, so the factory is called only when the transformation runs.
"""

import functools
import itertools
import operator
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar, overload

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
import optax

from .._errors import DynamicSpecError
from .._identity import HoldsArray, Mode, Table, Watched, is_namedtuple, read
from .._numbers import NUMBERS, Dynamic
from .._python_internals import token_of
from .containers import copied
from .deferred import Assemble, Recipe
from .paths import find, hyperparameters
from .spec import (
    Configured,
    Internals,
    make,
)


@attrs.frozen(eq=False)
class Template:
    """A dynamic spec without its children: what a jit cache compares, in every call.

    So templates are interned, as static specs are, and compare by identity.
    """

    cls: type[Configured]
    factory: Any
    paths: tuple[str, ...]
    assemble: Assemble
    # The values that are not traced, as they were given.
    static: tuple[Any, ...]
    watched: Watched | None = None


_templates: Table[Template] = Table()


def make_dynamic(factory: Any, parameters: dict[str, Any]) -> Configured:
    """The spec with these parameters, whose arrays are its leaves."""
    taken = _TakenApart()
    assemble = taken.take(parameters, "")
    paths, values = tuple(taken.children), tuple(taken.children.values())
    held = () if factory.is_stable else (factory.function,)
    reading = read(held, taken.static)
    # Called here for its errors and its warnings, and to see what it makes.
    cls = factory.dynamic_class_for(Recipe(factory, paths, values, assemble).made)
    if reading.is_comparable and read(held, taken.static).key != reading.key:
        raise DynamicSpecError(
            f"{factory.expression} changes what it reads when it is called, and for a traced value "
            "it has to be called again. Write a Python number instead of the array or of "
            "canonopt.dynamic(...), or have it change nothing but its own variables."
        )
    watched = None
    if reading.can_change and reading.is_comparable:
        watched = Watched(reading, lambda: read(held, template.static))
    template = Template(cls, factory, paths, assemble, tuple(taken.static), watched)
    if reading.is_comparable:
        key = (token_of(cls), token_of(factory), *taken.key, reading.key)
        if watched is not None:
            watched.stands_in(_templates, key, weakref.ref(template))
        template = _templates.setdefault(key, template)
    return _put_together(template, values)


class _TakenApart:
    """Parameters, parted into what is traced and what is not.

    Containers are walked here, not by `jax.tree`, which sorts the keys of a mapping: a factory may
    read them in order.
    """

    def __init__(self) -> None:
        self.children: dict[str, Any] = {}  # by path
        self.static: list[Any] = []
        # What is where: the structure that is not in the key of what is static.
        self.key: list[Hashable] = []

    def take(self, value: Any, path: str) -> Assemble:
        """How to make `value` again from the children, when these have been taken out."""
        if not _holds_array(value):
            self.static.append(value)
            self.key.append("static")
            if hasattr(type(value), "__next__") and type(value) not in weakref.ProxyTypes:
                # The factory is called again for each trace, each time with all of it.
                source = [value]

                def again(_: Iterator[Any]) -> Any:
                    source[0], one = itertools.tee(source[0])
                    return one

                return again
            kept = copied(value)
            return lambda _: copied(kept)  # or a factory that changes it could do so only once
        kind: Any = type(value)
        if kind is dict:
            names = tuple(value)
            self.key += (dict, len(names))
            self.static.append(names)
            paths = [f"{path}[{name!r}]" if path else str(name) for name in names]
            builds = [self.take(v, p) for v, p in zip(value.values(), paths, strict=True)]
            return lambda taken: dict(zip(names, (build(taken) for build in builds), strict=True))
        if kind in (tuple, list) or is_namedtuple(kind):
            self.key += (token_of(kind), len(value))
            builds = [self.take(v, f"{path}[{i}]") for i, v in enumerate(value)]
            make_again = list if kind is list else functools.partial(_new_tuple, kind)
            return lambda taken: make_again([build(taken) for build in builds])
        self.key += ("child", path)
        if isinstance(value, Configured | Dynamic) or _is_array(value):
            self.children[path] = value
            return next
        arrays, rest = eqx.partition(
            value, lambda leaf: _is_array(leaf) or _is_number(leaf), is_leaf=_is_number
        )
        self.children[path] = arrays
        self.static.append(rest)
        return lambda taken: eqx.combine(next(taken), rest, is_leaf=_is_number)


def _holds_array(value: Any) -> bool:
    try:
        read((), (value,))
    except HoldsArray:
        return True
    return False


def _new_tuple(kind: Any, items: list[Any]) -> Any:
    return tuple.__new__(kind, items)  # a named tuple's own takes its fields one by one


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _is_number(node: Any) -> bool:
    return isinstance(node, Dynamic)


def _put_together(template: Template, children: Iterable[Any]) -> Configured:
    cls, children = template.cls, tuple(children)
    recipe = Recipe(template.factory, template.paths, children, template.assemble)
    is_transform = issubclass(cls, optax.GradientTransformation)
    build = (lambda: recipe.made) if is_transform else (lambda: recipe.schedule)
    internals = Internals(template.factory, build, template.watched)
    internals.is_called_again = not template.factory.is_stable
    # What is in place of an array need not be one, so a second look could find other leaves.
    internals.flat = (children, template)
    return make(cls, template.assemble(iter(children)), internals, lambda: recipe.transform)


def make_dynamic_class(static_class: type[Configured]) -> type[Configured]:
    """The subclass of a factory's spec class for specs that hold arrays, registered as a pytree."""
    cls: Any = type(static_class.__name__, (_Dynamic, static_class), {})
    cls.__module__, cls.__qualname__ = static_class.__module__, static_class.__qualname__
    jtu.register_pytree_with_keys(cls, _flatten_with_keys, _put_together, _flatten)
    return cls


# Each call of a jitted function flattens its arguments: a function in Python would take longer.
_flatten: Callable[[Configured], tuple[tuple[Any, ...], Template]] = operator.attrgetter(
    "_internals.flat"
)


def _flatten_with_keys(spec: Configured) -> tuple[list[tuple[Any, Any]], Template]:
    children, template = _flatten(spec)
    return list(zip(map(jtu.GetAttrKey, template.paths), children, strict=True)), template


class _Dynamic(Configured):
    __slots__ = ()

    def __hash__(self) -> NoReturn:
        if not jtu.tree_leaves(self):
            raise DynamicSpecError(
                f"{self!r} is what is left of a spec whose arrays have been taken out, so it "
                "cannot be hashed and cannot be a static argument. Combine the two first, "
                "eqx.combine(arrays, spec), and pass what that gives as an ordinary argument."
            )
        raise DynamicSpecError(
            f"{self!r} holds arrays, so it cannot be hashed and cannot be a static argument. "
            "Pass it as an ordinary argument (take it out of static_argnums and static_argnames), "
            "make it an ordinary field (without static=True), or write Python numbers instead of "
            "the arrays."
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __canonical_key__(self, mode: Mode) -> Hashable:
        if mode != "given":
            return super().__canonical_key__(mode)
        if jtu.tree_leaves(self):
            raise HoldsArray
        # Its arrays have been taken out: this is the rest of a pytree that holds a spec.
        return token_of(_flatten(self)[1])


# --- the public face --------------------------------------------------------------------------

SpecT = TypeVar("SpecT", bound=Configured)


@overload
def dynamic(value: SpecT, /, *names: str) -> SpecT: ...
@overload
def dynamic(value: Any, /) -> Any: ...
def dynamic(value: Any, /, *names: str) -> Any:
    """A hyperparameter that is traced: another value is neither another trace nor another compile.

    ```python
    >>> import canonopt, jax
    >>> optim = canonopt.adam(canonopt.dynamic(1e-3))
    >>> jax.tree.structure(optim) == jax.tree.structure(optim.replace(lr=canonopt.dynamic(3e-4)))
    True

    ```

    Given a spec and names, the spec with these hyperparameters traced. A name is a path as
    `spec.hyperparameters()` lists them, or the end of one that no other shares.

    ```python
    >>> schedule = canonopt.cosine_decay_schedule(1e-3, decay_steps=100)
    >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adamw(schedule))
    >>> canonopt.dynamic(optim, "lr.init_value", "weight_decay").hyperparameters()
    {'args[0].max_delta': 1.0, 'args[1].learning_rate.init_value': 0.001, ...}

    ```

    The numbers and dtypes that come out are those of the value itself: it is weakly typed if it is
    a Python number, and what a factory computes from it and from other numbers is computed in
    double precision before it is rounded. Such a spec is an ordinary argument of a jitted function.
    It cannot be hashed, so it cannot be a static one.

    **Arguments:**

    - `value`: a Python number, a NumPy scalar, an array, which stays as it is, or a list of Python
        numbers, one for each member of an ensemble that `jax.vmap` runs over. Or a spec.
    - `names`: of a spec, which hyperparameters.

    **Returns:** what to pass to a factory or to `spec.replace`; or the spec.

    **Raises:** `DynamicSpecError` for what is no number. The factory that is given the value raises
    it if it needs to know the value: to decide a shape, a branch, a number of steps.
    `ParameterError` for a name that there is not, or that several hyperparameters share.
    """
    if isinstance(value, Configured):
        if not names:
            raise DynamicSpecError(
                f"canonopt.dynamic needs the names of the hyperparameters that are to be traced. "
                f"Those of this spec are: {', '.join(hyperparameters(value)) or 'none'}."
            )
        found = [find(value, name) for name in names]
        return value.replace(**{path: _traced(part, path) for path, part in found})
    if names:
        raise DynamicSpecError(
            f"canonopt.dynamic takes names together with a spec, and got {value!r}. Write "
            "canonopt.dynamic(spec, 'learning_rate') or canonopt.dynamic(1e-3)."
        )
    return _traced(value, "")


def _check_fits(number: Any, path: str) -> None:
    """Raises for an integer that JAX would refuse, or cut if it is NumPy's."""
    if not isinstance(number, int | np.integer):
        return
    held = jnp.result_type(int)
    if isinstance(number, np.integer):
        held = np.dtype(f"{number.dtype.kind}{min(number.itemsize, held.itemsize)}")
    if np.iinfo(held).min <= number <= np.iinfo(held).max:
        return
    raise DynamicSpecError(
        f"canonopt.dynamic traces an integer as {held.name}, and {path or 'its value'} is "
        f"{number}, which that does not hold. Write a float, as in canonopt.dynamic(1e12), or "
        "leave out canonopt.dynamic: a Python number is part of the program."
    )


def _traced(value: Any, path: str) -> Any:
    if isinstance(value, Dynamic) or _is_array(value):
        return value
    if isinstance(value, np.generic) and type(value) is not np.float64:
        _check_fits(value, path)
        return jnp.asarray(value)
    members = value if isinstance(value, list | tuple) and value else [value]
    if all(isinstance(member, NUMBERS) for member in members):
        if np.asarray(value).dtype != np.float64:  # to which integers beside floats are rounded
            for member in members:
                _check_fits(member, path)
        return Dynamic.of(value)
    below = list(hyperparameters(value)) if isinstance(value, Configured) else []
    raise DynamicSpecError(
        "canonopt.dynamic takes a number or an array, and "
        f"{f'{path} is' if path else 'got'} {value!r}. "
        + (
            f"Name one of its own: {', '.join(f'{path}.{name}' for name in below)}."
            if below
            else "Give it a number, as in canonopt.dynamic(1e-3)."
        )
    )
