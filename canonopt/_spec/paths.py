"""The parts of a spec: hyperparameters by path, arrays taken out of parameters, and their text.

A path such as `args[1].learning_rate.peak_value` leads from a spec through its parameters, the
containers among them, and the specs inside.
"""

import difflib
import enum
import functools
import math
import re
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np

from .._identity import (
    HoldsArray,
    is_in_place,
    is_namedtuple,
    read,
)
from .._numbers import NUMBERS, Dynamic, converted
from .._python_internals import token_of
from ..errors import DynamicSpecError, ParameterError
from .arguments import copied, in_key, is_config, steps


# `spec` imports this module, so this module cannot import the class of specs.
class Parametrised:
    """A spec, as far as this module needs to know it: something with parameters by name."""

    __slots__ = ()

    def parameters(self) -> dict[str, Any]:
        raise NotImplementedError


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


# --- hyperparameters by path --------------------------------------------------------------------


def hyperparameters(spec: Parametrised) -> dict[str, Any]:
    """The numbers, strings and arrays among the parameters of `spec` and of the specs in it."""
    return {path: _plain(value) for path, value in _walk(spec, "") if _is_hyperparameter(value)}


def _is_hyperparameter(value: Any) -> bool:
    return isinstance(value, NUMBERS | complex | str | Dynamic | jax.Array | np.ndarray)


def _plain(value: Any) -> Any:
    if isinstance(value, Dynamic):
        numbers = value.numbers()
        return value.value if numbers is None else numbers
    return value


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each part of `value` with its path, outer parts first."""
    if path:
        yield path, value
    for step, part in _parts(value):
        yield from _walk(part, path + step if path else step.removeprefix("."))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of `value`, each with the step of a path that leads to it."""
    if isinstance(value, Parametrised):
        yield from ((f".{name}", part) for name, part in value.parameters().items())
    else:
        yield from steps(value)


def find(spec: Any, name: str) -> tuple[str, Any]:
    """The path that `name` stands for in `spec`, and the value there.

    A name may be the end of a path, if only one path ends so; `lr` stands for `learning_rate`.
    """
    parts = dict(_walk(spec, ""))
    # Not between quotes, where it is a key of a dict.
    wanted = re.sub(r"(?<![\w'])lr(?![\w'])", "learning_rate", name)
    found = [path for path in parts if path == wanted]
    found = found or [path for path in parts if path.endswith(f".{wanted}")]
    if len(found) == 1:
        return found[0], parts[found[0]]
    if found:
        raise ParameterError(
            f"{name!r} may be any of {', '.join(found)}.",
            "Write the whole path of the one you mean.",
            path=name,
        )
    listed = list(hyperparameters(spec))
    near = difflib.get_close_matches(wanted, [*listed, *(p.rpartition(".")[2] for p in listed)], 1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ParameterError(
        f"There is no hyperparameter {name!r}.",
        f"{hint}Those of this spec are: {', '.join(listed) or 'none'}.",
        path=name,
    )


def replaced(value: Any, changes: Mapping[str, Any], replace: Callable[..., Any]) -> Any:
    """`value` with other values at some paths. `replace` gives a spec with other parameters."""
    return _replaced(value, changes, replace, "")


def _replaced(value: Any, changes: Mapping[str, Any], replace: Callable, path: str) -> Any:
    if path in changes:
        return changes[path]
    new = {}
    for step, part in _parts(value):
        below = path + step if path else step.removeprefix(".")
        # With what follows a step, or `eps` would be on the way to `eps_root`.
        if any(p == below or p.startswith((f"{below}.", f"{below}[")) for p in changes):
            new[step] = _replaced(part, changes, replace, below)
    if not new:
        return value
    if isinstance(value, Parametrised):
        return replace(value, {step.removeprefix("."): part for step, part in new.items()})
    parts = [new.get(step, part) for step, part in _parts(value)]
    if type(value) is dict:
        return dict(zip(value, parts, strict=True))
    return list(parts) if type(value) is list else tuple.__new__(type(value), parts)


# --- arrays taken out of parameters -------------------------------------------------------------

# Makes a value again, with children from an iterator in place of those that were taken out.
Assemble: TypeAlias = Callable[[Iterator[Any]], Any]


class TakenApart:
    """Parameters taken apart into children, which may be traced, and static values.

    This class walks containers itself, since `jax.tree` sorts the keys of a mapping, and a factory
    may depend on their order.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.children: dict[str, Any] = {}  # by path
        self.static: list[Any] = []
        # The structure: what tells two sets of parameters apart whose static values are the same.
        self.key: list[Hashable] = []
        self.assemble = self._take(parameters, "")

    def _take(self, value: Any, path: str) -> Assemble:
        """Takes the children out of `value`. Returns a function that puts others in."""
        if not _holds_array(value):
            return self._keep(value)
        kind: Any = type(value)
        if is_config(kind):
            raise DynamicSpecError(
                f"{path} is an OmegaConf {kind.__name__} that holds an array or a number that is "
                "traced.",
                "Write OmegaConf.to_container(value, resolve=True).",
                path=path,
            )
        if kind is dict:
            names = tuple(value)
            self.key += (dict, len(names))
            # In the key of the static values, so that the order of a dict counts.
            self.static.append(names)
            paths = [f"{path}[{name!r}]" if path else str(name) for name in names]
            builds = [self._take(v, p) for v, p in zip(value.values(), paths, strict=True)]
            return lambda taken: dict(zip(names, (build(taken) for build in builds), strict=True))
        if kind in (tuple, list) or is_namedtuple(kind):
            self.key += (token_of(kind), len(value))
            builds = [self._take(v, f"{path}[{i}]") for i, v in enumerate(value)]
            # A named tuple's `__new__` takes its fields one by one.
            new_tuple: Any = tuple.__new__
            make = list if kind is list else functools.partial(new_tuple, kind)
            return lambda taken: make([build(taken) for build in builds])
        self.key += ("child", path)
        if isinstance(value, Parametrised | Dynamic) or is_array(value):
            self.children[path] = value
            return next
        # A number has leaves of its own, but is one value to the factory.
        arrays, rest = eqx.partition(
            value, lambda leaf: is_array(leaf) or _is_number(leaf), is_leaf=_is_number
        )
        self.children[path] = arrays
        self.static.append(rest)
        return lambda taken: eqx.combine(next(taken), rest, is_leaf=_is_number)

    def _keep(self, value: Any) -> Assemble:
        self.static.append(in_key(value))
        self.key.append("static")
        # Each call of the factory gets a copy of its own, which it may change.
        return lambda _: copied(value)


def _holds_array(value: Any) -> bool:
    try:
        read((), (in_key(value),))
    except HoldsArray:
        return True
    return False


def is_taken_out(child: Any) -> bool:
    """Whether a pytree transformation has put `None` in place of the values of a child."""
    # A parameter that is `None` by itself is not among the children.
    if child is None:
        return True
    # A spec inside checks itself when it runs.
    parts = jtu.tree_leaves(child, is_leaf=_is_number_or_spec)
    return any(isinstance(part, Dynamic) and part.value is None for part in parts)


def weak_types(child: Any) -> tuple[Any, ...]:
    """The dtype of each leaf of a child that is weakly typed, and `None` for the other leaves.

    Numbers and specs in it know their own types.
    """
    leaves = jtu.tree_leaves(child, is_leaf=_is_number_or_spec_or_none)
    is_weak = lambda leaf: is_array(leaf) and getattr(leaf, "weak_type", False)  # noqa: E731
    return tuple(leaf.dtype if is_weak(leaf) else None for leaf in leaves)


def with_weak_types(child: Any, dtypes: tuple[Any, ...]) -> Any:
    """A child with the weak types that a checkpoint or NumPy may have taken from its arrays."""
    if not any(dtypes):
        return child
    leaves, structure = jtu.tree_flatten(child, is_leaf=_is_number_or_spec_or_none)
    if len(leaves) != len(dtypes):  # a pytree transformation has put something else in its place
        return child
    return structure.unflatten(map(_with_weak_type, leaves, dtypes))


def _with_weak_type(leaf: Any, dtype: Any) -> Any:
    is_value = is_array(leaf) or isinstance(leaf, np.generic)
    if dtype is None or not is_value or getattr(leaf, "weak_type", False):
        return leaf
    array = jnp.asarray(leaf)
    # Whoever has given it another dtype wants an ordinary array.
    is_same = array.dtype == jax.dtypes.canonicalize_dtype(dtype)
    return converted(array, array.dtype, True) if is_same else leaf


def as_arrays(tree: Any) -> Any:
    """`tree` with an array in place of each number: a state may hold one, and JAX takes arrays."""
    if isinstance(tree, Dynamic):
        return tree.as_array()
    if not any(
        isinstance(leaf, Dynamic) for leaf in jtu.tree_leaves(tree, is_leaf=_is_number_or_spec)
    ):
        return tree
    as_array = lambda leaf: leaf.as_array() if isinstance(leaf, Dynamic) else leaf  # noqa: E731
    return jtu.tree_map(as_array, tree, is_leaf=_is_number_or_spec)


def _is_number(node: Any) -> bool:
    return isinstance(node, Dynamic)


def _is_number_or_spec(node: Any) -> bool:
    return isinstance(node, Dynamic | Parametrised)


def _is_number_or_spec_or_none(node: Any) -> bool:
    return node is None or _is_number_or_spec(node)


# --- notes on errors ----------------------------------------------------------------------------


class Note(str):
    """A note on an error. The class tells it from the notes of others."""


def notes_on(factory: str, children: Mapping[str, Any], is_built: bool) -> Iterator[Note]:
    """What is known about the values that may be traced, and what to write."""
    shaped, numbers, arrays = [], [], []
    for path, child in children.items():
        if _is_data_of_key(child):
            yield Note(
                f"{path} of {factory} has shape {child.shape}: it is the data of a key. Write "
                "jax.random.key(...) instead of jax.random.PRNGKey(...), or the seed."
            )
        elif shapes := _shapes_of_numbers(path, child):
            shaped += [f"{path} of {factory} has shape {shape}" for path, shape in shapes]
        elif isinstance(child, Dynamic):
            numbers.append(path)
        elif is_array(child):
            arrays.append(path)
    if shaped:
        listed, fix = " and ".join(shaped), how_to_vmap(is_built)
        yield Note(f"{listed}. If one number is needed, write one. {fix}")
    if numbers:
        yield Note(
            f"Given as canonopt.dynamic(...): {', '.join(numbers)} of {factory}. If a Python "
            "number is needed, write one. If an array is needed, write jnp.asarray(...)."
        )
    if arrays:
        yield Note(
            f"Given as an array: {', '.join(arrays)} of {factory}. If a number is needed, write a "
            "Python number, or canonopt.dynamic(...) of one."
        )


def how_to_vmap(is_built: bool) -> str:
    """What to write for the members of an ensemble, if the spec can be built at once or not."""
    stack = "stack specs of one number each, jax.tree.map(lambda *x: jnp.stack(x), *specs), and "
    return (
        f"If these are the members of an ensemble, {'' if is_built else stack}run it under "
        "jax.vmap over the spec: jax.vmap(run, in_axes=(0, None))(spec, params)."
    )


def _shapes_of_numbers(path: str, child: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The shapes, by path, of what may be the numbers of an ensemble in a child."""
    if not isinstance(child, Parametrised | Dynamic) and not is_array(child):
        return []
    parts, _ = jtu.tree_flatten_with_path(child, is_leaf=_is_number)
    has_members = lambda leaf: getattr(leaf, "ndim", 0) > 0 and leaf.size > 0  # noqa: E731
    return [(path + jtu.keystr(keys), part.shape) for keys, part in parts if has_members(part)]


def _is_data_of_key(child: Any) -> bool:
    if not is_array(child) or child.dtype != jnp.uint32 or not child.ndim:
        return False
    try:
        jax.random.wrap_key_data(jnp.asarray(child))
    except (TypeError, ValueError):
        return False
    return True


# --- pickles and source text --------------------------------------------------------------------


def is_data(value: Any) -> bool:
    """Whether unpickling `value` gives the same value again."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(is_data, value))
    if type(value) is dict:
        return all(is_data(name) and is_data(item) for name, item in value.items())
    if isinstance(value, int | float | complex | str | bytes | Parametrised) or value is None:
        return True
    try:
        return is_in_place(value)
    except Exception:  # raised by an attribute of the user's object
        return False


def expression(value: Any) -> str:
    """Python source for `value`, given the modules it names; `repr` for anything else."""
    if type(value) is float:
        # `inf` and `nan` are no Python expressions.
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if isinstance(value, type(jnp.float32)):
        return repr(value.dtype.name)
    if type(value) is tuple:
        return f"({', '.join(map(expression, value))}{',' * (len(value) == 1)})"
    if type(value) is list:
        return f"[{', '.join(map(expression, value))}]"
    if type(value) is dict:
        items = (f"{expression(k)}: {expression(v)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, enum.Enum):
        # The `repr` of a member is no Python expression.
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    factory = getattr(value, "factory", None) if isinstance(value, types.FunctionType) else None
    if factory is not None:
        return factory.expression
    if isinstance(value, types.FunctionType | type):
        # `optax.adam`, not `optax._src.alias.adam`, which may move.
        package = value.__module__.partition(".")[0]
        public = getattr(sys.modules.get(package), value.__qualname__, None) is value
        return f"{package if public else value.__module__}.{value.__qualname__}"
    if is_namedtuple(type(value)):
        items = (f"{n}={expression(v)}" for n, v in zip(value._fields, value, strict=True))
        return f"{expression(type(value))}({', '.join(items)})"
    return repr(value)
