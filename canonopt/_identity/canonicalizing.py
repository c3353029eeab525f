"""Models that enter a training step the way the last one entered and left it."""

import collections
import copy
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.tree_util as jtu
import optax

from .._jax_internals import function_of_partial
from .hoisting import hoist, one_object
from .values import is_namedtuple

T = TypeVar("T")


def canonicalize(tree: T) -> T:
    """`tree` with its callables hoisted and its weakly typed arrays made strongly typed.

    A model that is built again holds other function objects than before, in its leaves and in its
    static fields, and a raw optax transformation consists of nothing else. `jax.jit` compares them
    by identity and traces a step again. Hoisted, they are the ones from before (`canonopt.hoist`).

    ```python
    >>> import canonopt, equinox as eqx, jax, optax
    >>> def make():
    ...     return canonopt.canonicalize(eqx.nn.Lambda(lambda x: x**2))
    >>> make().fn is make().fn
    True
    >>> canonopt.canonicalize(optax.adam(1e-3)) == canonopt.canonicalize(optax.adam(1e-3))
    True

    ```

    `jnp.asarray(1.0)`, `jnp.full(shape, 1.0)` and the like are weakly typed, what an update makes
    of them is not, and `jax.jit` traces a step again for the difference.

    ```python
    >>> import jax.numpy as jnp
    >>> model = {"scale": jnp.full(2, 1.0), "name": "a layer"}
    >>> model["scale"].weak_type, canonopt.canonicalize(model)["scale"].weak_type
    (True, False)

    ```

    **Arguments:**

    - `tree`: a model, a transformation, a state, any pytree.

    **Returns:** a pytree of the same structure and types, shapes, dtypes, values and placement.
    Nothing is copied that does not change, and what is in two places, a tied layer for one, still
    is. Modules are not initialised anew.
    """
    return _Pass()(tree)


def hoisted_field(**kwargs: Any) -> Any:
    """A field of an `equinox.Module` whose callable is hoisted when the module is made.

    ```python
    >>> import canonopt, equinox as eqx
    >>> from collections.abc import Callable
    >>> class Layer(eqx.Module):
    ...     activation: Callable = canonopt.hoisted_field(static=True)
    >>> def make():
    ...     return Layer(lambda x: x**2)
    >>> make().activation is make().activation
    True

    ```

    **Arguments:**

    - `kwargs`: as for `equinox.field`: `static`, `default` and so on. A `converter` runs before.

    **Returns:** what `equinox.field` returns. What is no callable, None for one, stays as it is.
    """
    convert = kwargs.pop("converter", None)

    def converter(value: Any) -> Any:
        value = value if convert is None else convert(value)
        if isinstance(value, eqx.Module | jtu.Partial):
            return canonicalize(value)  # a tree goes with its model, what it holds stays
        return hoist(value) if callable(value) else value

    return eqx.field(converter=converter, **kwargs)


class _Pass:
    """One walk over a tree, that remembers what it has seen."""

    def __init__(self) -> None:
        # By identity, so that what is in two places still is. The node too, or another could come
        # to have its id.
        self._seen: dict[int, tuple[Any, Any]] = {}

    def __call__(self, node: Any) -> Any:
        kind = type(node)
        if kind in _PLAIN or (isinstance(node, jax.Array) and not node.weak_type):
            return node
        seen = self._seen.get(id(node))
        if seen is None:
            rule = _RULES.get(kind) or _rule_for(node)
            seen = self._seen[id(node)] = (node, rule(self, node))
        return seen[1]

    def all(self, nodes: Iterable[Any]) -> tuple[list[Any], bool]:
        """The nodes made canonical, and whether any of them changed."""
        pairs = [(node, self(node)) for node in nodes]
        return [new for _, new in pairs], any(new is not old for old, new in pairs)


def _as_it_is(walk: _Pass, node: Any) -> Any:
    return node


def _array(walk: _Pass, node: jax.Array) -> Any:
    return jax.lax.convert_element_type(node, node.dtype)


def _callable(walk: _Pass, node: Any) -> Any:
    return hoist(node)


def _partial(walk: _Pass, node: jtu.Partial) -> Any:
    parts = (function_of_partial(node), node.args, node.keywords)
    (function, args, keywords), _ = walk.all(parts)
    # One object too, because in a static field it is compared by identity.
    return one_object(type(node)(function, *args, **keywords))


def _sequence(walk: _Pass, node: Any) -> Any:
    made, changed = walk.all(node)
    return type(node)(made) if changed else node


def _namedtuple(walk: _Pass, node: Any) -> Any:
    made, changed = walk.all(tuple.__iter__(node))  # its class may have an `__iter__` of its own
    return tuple.__new__(type(node), made) if changed else node


def _dict(walk: _Pass, node: dict) -> Any:
    made, changed = walk.all(node.values())
    if not changed:
        return node
    new = copy.copy(node)  # with its order and its attributes, which `jax.tree` drops
    new.update(zip(node, made, strict=True))
    return new


def _module(walk: _Pass, node: eqx.Module) -> Any:
    # Attribute by attribute, since leaves do not have what is static. What `__init__` and the
    # converters made of them is there already.
    made, changed = walk.all(vars(node).values())
    if not changed:
        return node
    new = object.__new__(type(node))
    vars(new).update(zip(vars(node), made, strict=True))
    return new


def _node(walk: _Pass, node: Any) -> Any:
    """A node of any other type that is registered, or a leaf."""
    children, structure = jtu.tree_flatten(node, is_leaf=lambda inner: inner is not node)
    if jtu.treedef_is_leaf(structure):
        return hoist(node) if callable(node) and not isinstance(node, type) else node
    made, changed = walk.all(children)
    kind, static = structure.node_data()
    new_static = walk(static)
    if new_static is not static:
        changed = True
        structure = jtu.PyTreeDef.from_node_data_and_children(
            jtu.default_registry, (kind, new_static), structure.children()
        )
    return jtu.tree_unflatten(structure, made) if changed else node


_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))

_RULES: dict[type, Callable[[_Pass, Any], Any]] = {
    types.FunctionType: _callable,
    types.MethodType: _callable,
    functools.partial: _callable,
    jtu.Partial: _partial,
    tuple: _sequence,
    list: _sequence,
    **dict.fromkeys((dict, collections.OrderedDict, collections.defaultdict), _dict),
}


def _rule_for(node: Any) -> Callable[[_Pass, Any], Any]:
    if isinstance(node, jax.Array):
        return _array
    if hasattr(type(node), "__canonicalized__"):  # a spec
        return _as_it_is
    if isinstance(node, eqx.Module):
        return _module
    transformations = (optax.GradientTransformation, optax.GradientTransformationExtraArgs)
    return _namedtuple if type(node) in transformations or is_namedtuple(type(node)) else _node
