"""Specs: optax transformations and schedules that know the configuration they were built from.

A factory builds specs. `class_for` returns the class of a spec: the factory's own, if it has one.
"""

import collections
import dataclasses
import difflib
import functools
import importlib
import operator
import re
import types
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.tree_util as jtu
import numpy as np
import optax

from .._identity import PLAIN, Mode, Watched, is_frozen_record, is_in_place, is_namedtuple, kind_of
from .._optax_compat import as_transform, is_transformation, number_or_none
from .._python_internals.namespaces import loaded
from .._python_internals.weak import token_of
from ..errors import NotAFactoryError, ParameterError
from .dynamic_number import Dynamic


@dataclasses.dataclass(eq=False, slots=True, weakref_slot=True)
class Internals:
    """The facts about a spec other than its parameters.

    A weak table holds this object, since a `Spec` is a tuple, which cannot be weakly referenced.
    """

    factory: Any  # the `Factory`
    # The result of the factory for the parameters.
    made: Any
    # Reads again what the factory read, in each build and each run; None if nothing can change.
    watched: Watched | None = None
    # The values that `watched` reads: `held` of the factory, and the arguments.
    roots: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
    # The spec, or the builder that a factory of factories made; None for a spec with leaves.
    spec: Any = None
    # True if a table holds this object, so that another build finds the spec.
    is_interned: bool = False
    # True if the configuration was built again and found in a table.
    is_rebuilt: bool = False
    # True if a remembered call has the argument 0.0: it equals -0.0, which needs another spec.
    has_zero: bool = False

    def build(self) -> Any:
        """Return the result of the factory for the parameters."""
        return self.made

    def run(self, use: Callable[[Any], Any]) -> Any:
        """Return `use(result)` for the factory's result, with a `check` before and after it."""
        self.check()
        result = use(self.build())
        self.check()
        return result

    def check(self) -> None:
        """Read again what the factory read. After a change, the next build makes a new spec."""
        if self.watched is not None:
            self.watched.is_unchanged()


# Returns the `Internals` of a spec, or of a builder that a factory of factories has made.
internals_of: Callable[[Any], Internals] = operator.attrgetter("_internals")


class Attribute:
    """A descriptor for an attribute that only a class has, or only its instances."""

    def __init__(self, get: Callable[[Any], Any], is_of_class: bool) -> None:
        self._get, self._is_of_class = get, is_of_class

    def __get__(self, spec: Any, owner: type) -> Any:
        if (spec is None) is self._is_of_class:
            return self._get(spec)
        holder = "the class" if self._is_of_class else "instances"
        raise AttributeError(f"this attribute of {owner.__name__!r} exists only on {holder}")


class Configured:
    """Base class of the specs of transformations and of schedules.

    Specs without leaves are interned, if their values can be compared: each configuration has one
    object, as long as anything uses it. So `==` and `hash` go by identity, a copy is the object
    itself, and unpickling returns the same object.
    """

    __slots__ = ()
    __canonicalized__ = True  # `canonopt.canonicalize` returns a spec unchanged

    _internals: Internals
    # The factory of the class, if it has one.
    _own_factory: Any = None

    def __new__(cls, /, **fields: Any) -> Any:
        if cls._own_factory is not None:
            return cls._own_factory.from_fields(fields)
        problem = f"{cls.__name__} is a base class, and has no factory to call."
        fix = (
            "Call a factory such as canonopt.adam(...). To change a spec, write spec.replace(...) "
            "in place of attrs.evolve."
        )
        raise ParameterError(problem, fix)

    def __setattr__(self, name: str, value: Any) -> None:
        from attrs.exceptions import FrozenInstanceError

        error = FrozenInstanceError()  # attrs sets its text, so the advice is a note
        error.add_note(f"A spec cannot be changed. Write optim = optim.replace({name}=...).")
        raise error

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    _factory: Any = property(operator.attrgetter("_internals.factory"))

    def replace(self, /, **changes: Any) -> Self:
        """Return a spec of the same factory, with other values for some parameters.

        ```python
        >>> import canonopt
        >>> canonopt.adam(lr=1e-3).replace(lr=3e-4)
        canonopt.adam(learning_rate=0.0003)

        ```

        Name a parameter of a spec inside this one by its path, or by the end of the path.

        ```python
        >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(lr=1e-3))
        >>> optim.replace(**{"args[1].lr": 3e-4}) is optim.replace(lr=3e-4)
        True
        >>> optim.replace(lr=3e-4)
        canonopt.chain(canonopt.clip(max_delta=1.0), canonopt.adam(learning_rate=0.0003))

        ```

        **Arguments:** the parameters to change, by name or by the paths that `hyperparameters`
        lists. A new number is traced only if you wrap it, as in
        `replace(lr=canonopt.dynamic(3e-4))`.

        **Raises:** `ParameterError` for an unknown or ambiguous name.
        """
        factory, old = self._factory, self.parameters()
        named = {name: v for name, v in changes.items() if factory.signature.takes(name)}
        new = factory.signature.without_alias(named)
        paths: dict[str, Any] = {}
        for name in (name for name in changes if name not in named):
            if (path := find(self, name)[0]) in paths:
                problem = f"replace got two values for {path}."
                raise ParameterError(problem, "Write only one of them.", path=path)
            paths[path] = changes[name]
        # If `mapped` replaces a part, it does not reach the paths inside, so they stay in `paths`.
        change = lambda path, value: paths.pop(path, value)  # noqa: E731
        kept = {name: value for name, value in old.items() if name not in new} if paths else {}
        made = {name: mapped(value, change, name) for name, value in kept.items()}
        for path in paths:
            problem = f"replace got a value for {path}, and another for a part that contains it."
            raise ParameterError(problem, "Write only one of them.", path=path)
        changed = {name: v for name, v in made.items() if v is not old[name]}
        return factory.from_fields({**changed, **new}, old)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters by path, with those of specs inside this one: a dict to log.

        ```python
        >>> import canonopt
        >>> schedule = canonopt.linear_schedule(1e-3, 0.0, transition_steps=100)
        >>> canonopt.chain(canonopt.clip(1.0), canonopt.sgd(schedule)).hyperparameters()
        {'args[0].max_delta': 1.0, 'args[1].learning_rate.init_value': 0.001, ...}

        ```

        **Returns:** the numbers, booleans, strings and arrays among the parameters, defaults
        included, and those in containers and pytrees among the parameters. A number given as
        `canonopt.dynamic(1e-3)` is listed as `1e-3`. Functions, dtypes, `None` and so on are left
        out.
        """
        listed, kinds = {}, int | float | complex | str | np.generic | np.ndarray | jax.Array
        for path, value in _walk(self):
            if isinstance(value, Dynamic):
                numbers = value.numbers()
                listed[path] = value.value if numbers is None else numbers
            elif isinstance(value, kinds):
                listed[path] = value
        return listed

    def parameters(self) -> dict[str, Any]:
        """Return the value of each parameter, by name."""
        fields = vars(self)
        return {name: fields[name] for name in self._factory.signature.parameters}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # Only pydantic asks for this, when a model has a field of this type.
        return importlib.import_module(".config", __package__).pydantic_schema(cls)

    def __repr__(self) -> str:
        return self._factory.describe(self.parameters())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict) -> Self:
        return self

    def __reduce__(self) -> tuple:
        # The defaults are pickled, so that another default in a later version changes nothing.
        return self._factory.from_fields, (self._factory.to_pickle(self.parameters()),)

    # `_identity` calls the next two methods to make a key. `_identity.reader.Mode` explains `mode`.
    def __canonical_key__(self, mode: Mode) -> Hashable:
        known = self._internals
        if mode != "now" or not known.is_interned:
            return token_of(known)
        return self if known.watched is None else "spec"

    def __canonical_parts__(self, mode: Mode) -> tuple[Any, ...]:
        known = self._internals
        if known.watched is None:
            return ()
        if mode != "now":
            return known.roots
        # Equal specs may be two objects, as with some schedules of Optax: the key has their parts.
        return (known.factory, known.build(), *self.parameters().values())


# --- parameters by path -------------------------------------------------------------------------

# A path such as `args[1].learning_rate.peak_value` leads from a spec through its parameters, the
# containers among them, and the specs inside.

# Values of these types are neither taken apart nor copied.
WHOLE = PLAIN | {complex, types.FunctionType}
CONTAINERS = frozenset((list, dict, collections.OrderedDict, collections.defaultdict))


def _parts(value: Any) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]:
    """Return the parts of a spec, container or pytree node, each with the path step to it.

    The second result is a function that rebuilds the value from other parts.
    """
    kind = type(value)
    if isinstance(value, Configured):
        named = value.parameters()
        make = lambda parts: value.replace(**dict(zip(named, parts, strict=True)))  # noqa: E731
        return [(f".{name}", part) for name, part in named.items()], make
    # JAX sorts the keys of a dict, and a factory may depend on their order.
    if kind in CONTAINERS or kind is tuple or is_namedtuple(kind):
        rule: Any = kind_of(value)
        found = [(f"[{name!r}]", part) for name, part in rule.items(value)]
        return found, functools.partial(rule.make, value)
    if kind in WHOLE or hasattr(kind, "__canonical_key__"):  # such as a `Dynamic`
        return [], list
    pairs, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if jtu.treedef_is_leaf(structure):
        return [], list
    return [(jtu.keystr(keys), part) for keys, part in pairs], structure.unflatten


def mapped(value: Any, change: Callable[[str, Any], Any], path: str) -> Any:
    """Return `value` with `change(path, node)` for each node, but not inside a changed node."""
    changed = change(path, value)
    if changed is not value:
        return changed
    parts, make = _parts(value)
    made = [mapped(part, change, path + step) for step, part in parts]
    return value if all(map(operator.is_, made, (part for _, part in parts))) else make(made)


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each part of a spec or a container with its path, outer parts first."""
    for step, part in _parts(value)[0]:
        below = (path + step).removeprefix(".")
        yield below, part
        yield from _walk(part, below)


def find(spec: Configured, name: str) -> tuple[str, Any]:
    """Return the path that `name` stands for in `spec`, and the value there.

    A name may be the end of a path, if no other path has this end; `lr` means `learning_rate`.
    """
    parts = dict(_walk(spec))
    # Between quotes, `lr` is a key of a dict, and stays.
    wanted = re.sub(r"(?<![\w'])lr(?![\w'])", "learning_rate", name)
    found = [path for path in (name, wanted) if path in parts][:1]
    found = found or [path for path in parts if path.endswith((f".{name}", f".{wanted}"))]
    if len(found) == 1:
        return found[0], parts[found[0]]
    if found:
        problem = f"{name!r} is ambiguous: it may be any of {', '.join(found)}."
        raise ParameterError(problem, "Write the whole path of the one you mean.", path=name)
    listed = list(spec.hyperparameters())
    near = difflib.get_close_matches(wanted, [*listed, *(p.rpartition(".")[2] for p in listed)], 1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    fix = f"{hint}The hyperparameters of this spec are: {', '.join(listed) or 'none'}."
    raise ParameterError(f"There is no hyperparameter {name!r}.", fix, path=name)


def copied(parameters: dict[str, Any], is_plain: bool = False) -> dict[str, Any]:
    """Return parameters with copies of the containers and NumPy arrays in them.

    A container that is in two places is copied once. Other mutable objects are not copied, nor is a
    set whose copy would have another order. With `is_plain`, configs of OmegaConf become dicts and
    lists, which Optax's factories need.
    """
    # Keyed by id. The entry keeps the container alive, so that no other object gets its id.
    made: dict[int, tuple[Any, Any]] = {}

    def copy_of(value: Any) -> Any:
        kind = type(value)
        if kind in WHOLE or isinstance(value, Configured):
            return value
        if id(value) not in made:
            made[id(value)] = value, copy_of_container(value, kind)
        return made[id(value)][1]

    def copy_of_container(value: Any, kind: Any) -> Any:
        rule: Any = kind_of(value)
        if kind in CONTAINERS:
            return rule.make(value, [*map(copy_of, rule.parts(value))])
        if kind is tuple or is_namedtuple(kind) or is_frozen_record(kind):
            return rule.mapped(value, copy_of)
        if kind is set:
            same = set(value)
            return same if [*same] == [*value] else value  # a factory may read the order
        if kind is np.ndarray:
            array = value.copy(order="K")
            array.flags.writeable = value.flags.writeable
            return array
        if is_plain and issubclass(kind, loaded("omegaconf", "Container")):
            return loaded("omegaconf", "OmegaConf").to_container(value, resolve=True)
        return value

    return {name: copy_of(value) for name, value in parameters.items()}


# --- transformations and schedules ---------------------------------------------------------------


class Spec(Configured, optax.GradientTransformationExtraArgs):
    """An Optax gradient transformation that knows how it was built.

    A spec is an `optax.GradientTransformationExtraArgs`, so you can use it wherever Optax
    transformations are used. But the same configuration gives the same object, so `jax.jit`
    and `equinox.filter_jit` do not trace again when you build it again. A function can capture a
    spec, or take it as a static or an ordinary argument, and a module can have it as a field. As a
    pytree, its leaves are the hyperparameters given as arrays or by `canonopt.dynamic`, if any.

    `canonopt.adam` and the other functions with Optax's names build specs, and so do functions that
    `canonopt.canonical` returns. Each such function that can be imported has its own subclass, a
    frozen attrs class with a field for each parameter.

    ```python
    >>> import attrs, canonopt
    >>> optim = canonopt.adam(lr=1e-3)
    >>> optim is canonopt.adam(1e-3)
    True
    >>> optim.learning_rate
    0.001
    >>> attrs.evolve(optim, b1=0.95)
    canonopt.adam(learning_rate=0.001, b1=0.95)

    ```
    """

    if TYPE_CHECKING:  # as in Optax, but for any pytree: an equinox.Module is not an optax.Params

        @staticmethod
        def init(params: Any) -> optax.OptState: ...
        @staticmethod
        def update(
            updates: Any, state: Any, params: Any = None, **extra_args: Any
        ) -> tuple[Any, optax.OptState]: ...

    def __new__(cls, /, *pair: Any, **fields: Any) -> Any:
        if not pair and fields.keys() != {*cls._fields}:
            return super().__new__(cls, **fields)
        # `dataclasses.asdict` and others copy a named tuple by its items. The result is the spec
        # that has these two functions, or else a plain transformation.
        made = optax.GradientTransformationExtraArgs(*pair, **fields)
        owner = getattr(made.init, "__canonical_owner__", None)
        is_copy = isinstance(owner, Spec) and all(map(operator.is_, owner, made))
        return owner if is_copy else made

    # `_replace` calls this.
    _make: Any = classmethod(lambda cls, pair: cls(*pair))
    # tyro treats a class with this method as a named tuple, so only instances have it.
    _asdict: Any = Attribute(
        lambda spec: functools.partial(dict, init=spec.init, update=spec.update), is_of_class=False
    )

    def __getattr__(self, name: str) -> Any:
        # Other attributes come from the factory's result, such as `MultiSteps.has_updated`.
        if not name.startswith("_"):
            if name == "lr" and "learning_rate" in vars(self):
                return self.learning_rate
            if hasattr(transform := self._internals.build(), name):
                return getattr(transform, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def init_like_grads(
        self, model: Any, loss_fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any
    ) -> optax.OptState:
        """Make a state as `canonopt.init_like_grads` does, with this spec as `optim`."""
        from .._steps import init_like_grads  # imported here, since this imports Equinox

        return init_like_grads(model, loss_fn, *args, optim=self, **kwargs)


class ScheduleSpec(Configured):
    """An Optax schedule that knows how it was built: a function from a count to a value.

    ```python
    >>> import canonopt
    >>> schedule = canonopt.linear_schedule(1.0, 0.0, transition_steps=4)
    >>> float(schedule(1))
    0.75
    >>> schedule is canonopt.linear_schedule(1.0, 0.0, 4)
    True

    ```
    """

    def __call__(self, count: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
        """Return the value at `count`, an integer scalar: the number of updates so far."""
        return self._internals.run(lambda schedule: schedule(count))


def _registered(cls: Any) -> Any:
    """Register a class as a pytree without leaves. A jit cache compares the spec itself."""
    jtu.register_pytree_node(cls, lambda spec: ((), spec), lambda spec, _: spec)
    return cls


_registered(Spec)
_registered(ScheduleSpec)

# --- making a spec ------------------------------------------------------------------------------


def make_spec(
    cls: type[Configured], parameters: dict[str, Any], internals: Internals
) -> Configured:
    """Make a spec of class `cls`. Every spec is made here."""
    if issubclass(cls, Spec):

        def init(params: Any) -> Any:
            try:
                return internals.run(lambda made: as_transform(made).init(params))
            except Exception as error:
                _note_leaf(params, error)
                raise

        def update(updates: Any, state: Any, params: Any = None, **extra_args: Any) -> Any:
            return internals.run(
                lambda made: as_transform(made).update(updates, state, params, **extra_args)
            )

        spec = tuple.__new__(cls, (init, update))
        # A jit cache that holds one of the functions holds the spec, and so keeps it interned.
        init.__dict__["__canonical_owner__"] = update.__dict__["__canonical_owner__"] = spec
    else:
        spec = object.__new__(cls)
    # The class is frozen, so this does not go through `__setattr__`.
    vars(spec).update(parameters, _internals=internals)
    return spec


def _note_leaf(params: Any, error: Exception) -> None:
    """Add a note to the error if a leaf of `params` has no dtype and is no number."""
    for path, leaf in jtu.tree_leaves_with_path(params):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            note = (
                f"{jtu.keystr(path)} is not an array, but {type(leaf)}. Write optim.init(eqx.filter"
                "(model, eqx.is_inexact_array)), or optim.init_like_grads(model, loss_fn, ...)."
            )
            if note not in getattr(error, "__notes__", ()):  # a spec inside may have added it
                error.add_note(note)
            return


# --- classes ------------------------------------------------------------------------------------

# JAX never forgets a class that is registered as a pytree, and there may be any number of local
# factories. So a factory has a class of its own only if a module has the factory under its name.


def class_for(factory: Any, made: Any) -> type[Configured]:
    """Return the spec class for `made`, a result of `factory`."""
    is_transform = is_transformation(made)
    if not is_transform and not callable(made):
        raise NotAFactoryError(
            f"{factory.expression}(...) returned {made!r}, which is neither a gradient "
            "transformation nor a schedule.",
            "Write a function that returns a transformation or a schedule.",
        )
    kind: type[Configured] = Spec if is_transform else ScheduleSpec
    if kind not in factory.classes:
        if not (factory.is_importable() or is_in_place(factory.function)):
            return kind
        factory.classes.setdefault(kind, _make_class(factory, kind))
    return factory.classes[kind]


def _make_class(factory: Any, kind: type[Configured]) -> type[Configured]:
    """Return a frozen attrs class with a field for each parameter. attrs adds no methods to it."""
    parameters, defaults = factory.signature.parameters, factory.signature.defaults
    # The type of tyro's flag for each field. For `Any`, tyro takes the value's type.
    kinds: dict[str, Any] = {n: number_or_none(p.annotation) for n, p in parameters.items()}

    @functools.cache
    def attributes(_: None) -> Any:
        """Return the fields of the class, as `attrs.fields` does."""
        import attrs  # takes a twentieth of Optax's import time; most runs never need it

        default_of = lambda name: defaults.get(name, attrs.NOTHING)  # noqa: E731
        made: dict[str, Any] = {
            name: attrs.field(default=default_of(name), alias=name, kw_only=True, type=type_)
            for name, type_ in kinds.items()
        }
        return attrs.fields(attrs.make_class("Fields", made))

    body = {
        "_own_factory": factory,
        "__annotations__": kinds,
        # attrs looks this name up on the class. OmegaConf, and so Hydra, looks it up on a value,
        # and would treat a spec that had the name as a config.
        "__attrs_attrs__": Attribute(attributes, is_of_class=True),
        "__doc__": factory.function.__doc__,
        "__module__": factory.module,
    }
    name = "".join(word[:1].upper() + word[1:] for word in factory.name.split("_"))
    bases: tuple[Any, ...] = (kind,)
    if factory.is_class:
        # Python calls this after `__new__`, which has already built the spec.
        body["__init__"] = lambda self, *args, **kwargs: None
        bases = (kind, factory.builder)
    make: Any = type(kind)
    return _registered(make(name, bases, body))
