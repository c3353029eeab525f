"""`hoist`, `hoisted_field` and `canonicalize`: one object for callables that do the same."""

import collections
import copy
import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.tree_util as jtu

from .._errors import HoistError, Incomparable
from .._jax_internals import Jitted, function_of_partial, jit_options
from .._python_internals import WeakIdMap, is_constant
from .callables import callable_items
from .interning import Table, Watched, read
from .reader import Reading
from .values import instance_with, is_record, record_with

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_callables: Table[Any] = Table()
# From each hoisted callable to what it has read, which the callable itself keeps alive. A strong
# reference would keep the callable alive too, if what it captures leads back to it: a trainer whose
# attribute is a hoisted function of the trainer.
_watched: WeakIdMap[weakref.ref[Watched]] = WeakIdMap()
# From each callable that was given to `hoist` to what it returned.
_results: WeakIdMap[weakref.ref[Any]] = WeakIdMap()


def hoist(fn: F, *, strict: bool = False) -> F:
    """Returns one object for all callables that do the same as `fn`.

    `jax.jit` and `equinox.filter_jit` compare functions by identity. So a lambda, a closure, a
    partial or a jitted function that is made again causes another trace. Hoisted, it is the same
    object each time, like a function at the top level of a module.

    ```python
    >>> import canonopt, functools, jax
    >>> def scaled(factor):
    ...     return canonopt.hoist(lambda x: factor * x)
    >>> scaled(2.0) is scaled(2.0), scaled(2.0) is scaled(3.0)
    (True, False)
    >>> canonopt.hoist(jax.nn.relu) is jax.nn.relu
    True

    ```

    Functions do the same if they have the same code and read the same values: defaults, captured
    variables, and the globals that the code names, with the values these have now. What can change,
    such as a list, is the same only if it is the same object and has the same content. All of it is
    read again when the function is traced. A function that was traced with other values is not
    returned again.

    **Arguments:**

    - `fn`: any callable: functions and lambdas, partials, bound methods, callable modules, and what
        `jax.jit`, `jax.vmap`, `jax.grad`, `equinox.filter_jit` and so on return for these.
    - `strict`: whether to raise an error if a part of `fn` is compared by identity, so that the
        next callable like `fn` is likely to be another object.

    **Returns:** a callable of the same type, signature and behaviour. It is `fn` itself if `fn` is
    one object already, like a function at the top level of a module, or if it cannot be compared.
    It lives as long as something refers to it, such as a jit cache.

    **Raises:** `HoistError` if `fn` is not callable; with `strict`, if a part of it is compared by
    identity. The error names the part.
    """
    if not callable(fn):
        raise HoistError(
            f"canonopt.hoist needs a callable, and got {fn!r}.",
            "For a model or another pytree that holds callables, write "
            "canonopt.canonicalize(model).",
        )
    if strict and (found := read((fn,), explain=True).incomparable):
        path, part = described(fn, found[0])
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        problem = f"{name} is compared by identity, because {part} {found[0].why}."
        raise HoistError(problem, found[0].fix, path=path)
    if not _can_be_referenced(fn) or _watched.get(fn) is not None or is_constant(fn):
        return fn
    # The same function gives the same result, even if what it reads has changed: JAX would find its
    # earlier program too.
    result = _results.get(fn) if type(fn) is types.FunctionType else None
    earlier: Any = None if result is None else result()
    if earlier is not None:
        return earlier
    reading = read((fn,))
    if not reading.is_comparable:
        return fn
    found: Any = _callables.get(reading.key)
    if found is None or _has_changed(found):
        found = _intern(fn, reading)
    _results.set(fn, weakref.ref(found))
    return found


def _has_changed(hoisted: Any) -> bool:
    watched = _watched.get(hoisted)
    known = None if watched is None else watched()
    return known is not None and not known.is_unchanged()


def _can_be_referenced(fn: Any) -> bool:
    return type(fn).__weakrefoffset__ != 0


def _intern(fn: Any, reading: Reading) -> Any:
    watched = Watched(reading, lambda: read((fn,)))
    guarded = _guarded(fn, watched) if reading.can_change else None
    if guarded is None:
        # Nothing in it can read again. If only code can change, as when its class is defined again,
        # that does no harm, because JAX compares classes.
        return fn if reading.reads_data else _callables.setdefault(reading.key, fn)
    found = _callables.setdefault(reading.key, guarded)
    if found is guarded:
        watched.stands_in(_callables, reading.key, weakref.ref(guarded))
        _watched.setdefault(guarded, weakref.ref(watched))
    return found


# --- functions that read again when they are traced -------------------------------------------


def _guarded(fn: Any, watched: Watched) -> Any:
    """A copy of `fn` that reads again when it runs; None if there is no function in it to do so."""
    if isinstance(fn, functools.partial):
        function = _guarded_function(function_of_partial(fn), watched)
        made = type(fn)(function, *fn.args, **fn.keywords)
        vars(made).update(vars(fn))
        return made
    if isinstance(fn, types.MethodType):
        return types.MethodType(_guarded_function(fn.__func__, watched), fn.__self__)
    if isinstance(fn, Jitted):
        options = jit_options(fn)
        if options is None:
            return None
        return jax.jit(_guarded_function(fn.__wrapped__, watched), **options)
    if isinstance(fn, types.FunctionType):
        return _guarded_function(fn, watched)
    return _guarded_object(fn, watched)


def _guarded_function(function: Any, watched: Watched) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        watched.is_unchanged()
        return function(*args, **kwargs)

    vars(call)["__canonical_original__"] = function
    return call


def _guarded_object(fn: Any, watched: Watched) -> Any:
    """A copy of an object, with the callables in its attributes guarded."""
    attributes = getattr(fn, "__dict__", None) or {}
    changed = {
        name: inner
        for name, part in attributes.items()
        if callable(part) and not isinstance(part, type)
        if (inner := _guarded(part, watched)) is not None
    }
    if not changed:
        return None
    try:
        return instance_with(fn, changed)
    except TypeError:  # its class is written in C
        return None


# --- errors with `strict` ---------------------------------------------------------------------


def described(fn: Any, found: Incomparable) -> tuple[str | None, str]:
    """The path in `fn` to what cannot be compared, and the subject of a sentence about it."""
    path = " of ".join(reversed(list(_path_to(found.part, fn, set())))) or None
    text = eqx.tree_pformat(found.part, width=10_000)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return path, f"its {path}, {text}," if path else "it"


def _path_to(part: Any, value: Any, seen: set[int]) -> Iterator[str]:
    """Descriptions of the parts on the way from `value` to `part`, as far as they have any."""
    seen.add(id(value))
    for name, inner in callable_items(value):
        if id(inner) not in seen and any(
            found.part is part for found in read((inner,), explain=True).incomparable or ()
        ):
            yield name
            yield from _path_to(part, inner, seen)
            return


# --- models and other trees -------------------------------------------------------------------


def canonicalize(tree: T) -> T:
    """Returns `tree` with its callables hoisted and its weakly typed arrays made strongly typed.

    A model that is built again has other function objects than before, in its leaves and in its
    static fields. A raw optax transformation consists of nothing else. `jax.jit` compares functions
    by identity, so it traces a step again. Hoisted, they are the same objects (`canonopt.hoist`).

    ```python
    >>> import canonopt, equinox as eqx, jax, optax
    >>> def make():
    ...     return canonopt.canonicalize(eqx.nn.Lambda(lambda x: x**2))
    >>> make().fn is make().fn
    True
    >>> canonopt.canonicalize(optax.adam(1e-3)) == canonopt.canonicalize(optax.adam(1e-3))
    True

    ```

    `jnp.asarray(1.0)`, `jnp.full(shape, 1.0)` and the like are weakly typed. An update makes them
    strongly typed, and `jax.jit` traces a step again for the difference.

    ```python
    >>> import jax.numpy as jnp
    >>> model = {"scale": jnp.full(2, 1.0), "name": "a layer"}
    >>> model["scale"].weak_type, canonopt.canonicalize(model)["scale"].weak_type
    (True, False)

    ```

    **Arguments:**

    - `tree`: any pytree, such as a model, an optax transformation or a train state. Arrays may be
        `jax.ShapeDtypeStruct`s.

    **Returns:** a pytree of the same structure and types, with the same shapes, dtypes, values and
    shardings. Parts that do not change are not copied, and a part that is in two places, such as a
    tied layer, is still one object. `__init__` of modules is not called.
    """
    return _Walk()(tree)


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

    - `kwargs`: the arguments of `equinox.field`: `static`, `default` and so on. A `converter` runs
        before the value is hoisted.

    **Returns:** what `equinox.field` returns. A value that is not callable, such as None, does not
    change.
    """
    convert = kwargs.pop("converter", None)

    def converter(value: Any) -> Any:
        value = value if convert is None else convert(value)
        if isinstance(value, eqx.Module | jtu.Partial):
            return canonicalize(value)  # as a part of the model, whose leaves are trained
        return hoist(value) if callable(value) else value

    return eqx.field(converter=converter, **kwargs)


class _Walk:
    """One walk over a tree, which remembers what it made of each node."""

    def __init__(self) -> None:
        # By id, so that one node in two places stays one. With the node, so that no other object
        # gets its id.
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
        """The canonical nodes, and whether any of them is new."""
        pairs = [(node, self(node)) for node in nodes]
        return [new for _, new in pairs], any(new is not old for old, new in pairs)


def _unchanged(walk: _Walk, node: Any) -> Any:
    return node


def _array(walk: _Walk, node: jax.Array) -> Any:
    return jax.lax.convert_element_type(node, node.dtype)  # which is strongly typed


def _struct(walk: _Walk, node: jax.ShapeDtypeStruct) -> Any:
    return node.update(weak_type=False) if node.weak_type else node


def _callable(walk: _Walk, node: Any) -> Any:
    return hoist(node)


def _partial(walk: _Walk, node: jtu.Partial) -> Any:
    parts = (function_of_partial(node), node.args, node.keywords)
    (function, args, keywords), _ = walk.all(parts)
    made = type(node)(function, *args, **keywords)
    # One object for equal partials, because in a static field a partial is compared by identity.
    # Its functions are hoisted already, so nothing in it has to read again.
    reading = read((made,))
    if not reading.is_comparable or reading.reads_data:
        return made
    return _callables.setdefault(("partial", reading.key), made)


def _sequence(walk: _Walk, node: Any) -> Any:
    made, changed = walk.all(node)
    return type(node)(made) if changed else node


def _record(walk: _Walk, node: Any) -> Any:
    # Not by `iter`, which its class may define in another way.
    made, changed = walk.all(tuple.__iter__(node))
    return record_with(node, made) if changed else node


def _dict(walk: _Walk, node: dict) -> Any:
    made, changed = walk.all(node.values())
    if not changed:
        return node
    new = copy.copy(node)  # with its order and its attributes, which `jax.tree` drops
    new.update(zip(node, made, strict=True))
    return new


def _module(walk: _Walk, node: eqx.Module) -> Any:
    # By attributes, because static fields are no leaves. `__init__` and the converters have run
    # already.
    made, changed = walk.all(vars(node).values())
    return instance_with(node, dict(zip(vars(node), made, strict=True))) if changed else node


def _node(walk: _Walk, node: Any) -> Any:
    """A node of any other pytree type, or a leaf."""
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

_RULES: dict[type, Callable[[_Walk, Any], Any]] = {
    types.FunctionType: _callable,
    types.MethodType: _callable,
    functools.partial: _callable,
    jtu.Partial: _partial,
    jax.ShapeDtypeStruct: _struct,
    tuple: _sequence,
    list: _sequence,
    **dict.fromkeys((dict, collections.OrderedDict, collections.defaultdict), _dict),
}


def _rule_for(node: Any) -> Callable[[_Walk, Any], Any]:
    if isinstance(node, jax.Array):
        return _array
    if hasattr(type(node), "__canonicalized__"):  # a spec
        return _unchanged
    if isinstance(node, eqx.Module):
        return _module
    return _record if is_record(type(node)) else _node
