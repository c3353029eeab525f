"""`hoist`, `hoisted_field` and `canonicalize`: one object for callables that do the same."""

import collections
import functools
import operator
import re
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import jax
import jax.tree_util as jtu

from .._jax_internals.functions import is_module_class
from .._python_internals.bounded_store import BoundedStore
from .._python_internals.bytecode import code_of
from .._python_internals.namespaces import is_constant, loaded
from .._python_internals.weak import WeakIdMap
from ..errors import HoistError, Incomparable
from .instances import is_frozen, is_record
from .interning import PLAIN, Table, Watched, cleared, read
from .parts import ATTRIBUTES, callable_kind, kind_of
from .reader import Reading

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_callables: Table[Any] = Table()
# Maps each hoisted callable to its `Watched`, which the callable itself keeps alive. A strong
# reference here would keep the callable alive too, if a captured object leads back to the callable:
# for example, if a hoisted function captures a trainer, and is also an attribute of the trainer.
_watched: WeakIdMap[weakref.ref[Watched]] = WeakIdMap()
# Maps each argument of `hoist` to the callable that `hoist` returned for it.
_results: WeakIdMap[weakref.ref[Any]] = WeakIdMap()
# Objects of these types cannot be weakly referenced, so a store of bounded size keeps them.
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_getters: BoundedStore[Any] = BoundedStore(1024)
cleared.add(_getters)


def hoist(fn: F, *, strict: bool = False) -> F:
    """Return one object for all callables that do the same as `fn`.

    `jax.jit` and `equinox.filter_jit` compare functions by identity. So a lambda, a closure, a
    partial or a jitted function that is made again causes another trace. `hoist` returns the same
    object each time, as if the function were made only once, at the top level of a module.

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
    variables, and the globals that the code names, as they are now. A default or captured value
    that can change, such as a list, must be the same object with the same content. All values are
    read again when the function is traced. If one of them has changed, `hoist` no longer returns
    the function for other callables.

    **Arguments:**

    - `fn`: any callable: functions and lambdas, partials, bound methods, callable modules, and what
        `jax.jit`, `jax.vmap`, `jax.grad`, `equinox.filter_jit` and so on return for these.
    - `strict`: whether to raise an error if a part of `fn` is compared by identity. Such a part is
        likely to make `hoist` return another object for the next callable like `fn`.

    **Returns:** a callable of the same type, signature and behavior. It is `fn` itself if `fn` is
    made only once, like a function at the top level of a module, or if `fn` cannot be compared.
    The result lives as long as something, such as a jit cache, refers to it.

    **Raises:** `HoistError` if `fn` is not callable or, with `strict`, if a part of it is compared
    by identity. The error names the part.
    """
    if not callable(fn):
        problem = f"canonopt.hoist takes a callable, not {fn!r}."
        pytrees = "For a model or another pytree that holds callables"
        raise HoistError(problem, f"{pytrees}, write canonopt.canonicalize(model).")
    if strict and (found := read((fn,), explain=True).incomparable):
        path, part = described(fn, found[0])
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        problem = f"{name} is compared by identity, because {part} {found[0].why}."
        raise HoistError(problem, found[0].fix, path=path)
    kind: Any = type(fn)
    if kind in _GETTERS:
        reading = read((fn,))
        return _getters.setdefault(reading.key, fn) if not reading.can_change else fn
    if not kind.__weakrefoffset__ or _watched.get(fn) is not None or is_constant(fn):
        return fn
    # The same function gives the same result, even if a value that it reads has changed: without
    # `hoist`, JAX would find the function's earlier program too.
    result = _results.get(fn) if type(fn) is types.FunctionType else None
    earlier: Any = None if result is None else result()
    if earlier is not None:
        return earlier
    reading = read((fn,))
    if not reading.is_comparable:
        return fn
    # The function may draw random numbers, and the default PRNG is not in the key of a jit cache.
    key = (reading.key, jax.config.jax_default_prng_impl)
    found: Any = _callables.get(key)
    known = None if found is None else _watched.get(found)
    watched = None if known is None else known()
    if found is None or (watched is not None and not watched.is_unchanged()):
        found = _intern(fn, reading, key)
    _results.set(fn, weakref.ref(found))
    return found


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _intern(fn: Any, reading: Reading, key: Hashable) -> Any:
    watched = Watched(reading, lambda: read((fn,)))
    guarded = _guarded(fn, watched) if reading.can_change else fn
    if guarded is fn:
        # `fn` cannot change, or no copy can check for changes. Share `fn` only if it reads no data:
        # nothing would notice that the data has changed.
        return fn if reading.reads_data else _callables.setdefault(key, fn)
    found = _callables.setdefault(key, guarded)
    if found is guarded:
        watched.stands_in(_callables, key, guarded)
        _watched.setdefault(guarded, weakref.ref(watched))
    return found


# --- functions that check, when they are traced, the values they read -------------------------


def _guarded(fn: Any, watched: Watched) -> Any:
    """Return a copy of `fn` that checks `watched` when it runs; `fn` if no copy can do so."""
    if isinstance(fn, types.FunctionType):
        return _guarded_function(fn, watched)
    if not _is_function(fn):
        return fn
    kind = callable_kind(fn)
    try:
        if kind is ATTRIBUTES:  # a copy of an instance that can change would miss later changes
            is_fixed = is_frozen(fn) or isinstance(fn, jax.custom_jvp | jax.custom_vjp)
            return kind.mapped(fn, functools.partial(_guarded, watched=watched)) if is_fixed else fn
        function, *others = kind.parts(fn)
        is_importable = isinstance(fn, functools.partial) and is_constant(function)
        guard = _Guard if is_importable else _guarded_function
        return kind.make(fn, [guard(function, watched), *others])
    except TypeError:  # `fn` has a class written in C, or unknown jit options
        return fn


def _guarded_function(function: Any, watched: Watched) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        watched.is_unchanged()
        return function(*args, **kwargs)

    vars(call)["__canonical_original__"] = function
    return call


class _Guard:
    """A callable like the result of `_guarded_function`, but pickled as the function inside."""

    __wrapped__: Any

    def __init__(self, function: Any, watched: Watched) -> None:
        functools.update_wrapper(self, function)
        self._watched = watched

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._watched.is_unchanged()
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return operator.itemgetter(0), ((self.__wrapped__,),)  # unpickles to the function itself

    # --- for `Reader` -------------------------------------------------------------------------

    def __canonical_key__(self, _: object) -> Hashable:
        return "hoisted"

    def __canonical_parts__(self, _: object) -> tuple[Any]:
        return (self.__wrapped__,)


# --- errors with `strict` ---------------------------------------------------------------------


def described(
    fn: Any, found: Incomparable, as_text: Callable[[Any], str] | None = None
) -> tuple[str | None, str]:
    """Return the path in `fn` to `found.part` (None if empty), and a phrase that names the part."""
    path = " of ".join(reversed(list(_path_to(found.part, fn, set())))) or None
    text = (as_text or _text)(found.part)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return path, f"its {path}, {text}," if path else "it"


def _text(part: Any) -> str:
    if isinstance(part, types.FunctionType):
        return f"function {part.__qualname__}"
    pformat = loaded("equinox", "tree_pformat")
    text = pformat(part, width=10_000) if pformat else repr(part)
    return re.sub(r" at 0x\w+", "", " ".join(text.split()))  # an address differs each time


def _path_to(part: Any, value: Any, seen: set[int]) -> Iterator[str]:
    """Yield descriptions of the parts on the way from `value` to `part`."""
    seen.add(id(value))
    is_ours = hasattr(type(value), "__captured_options__")
    kind: Any = kind_of(value) if is_ours else callable_kind(value)
    items = [*kind.items(value)]
    if isinstance(value, types.FunctionType):
        names = filter(value.__globals__.__contains__, code_of(value).globals)
        items += [(f"global {name!r}", value.__globals__[name]) for name in names]
    for name, inner in items:
        if id(inner) not in seen and any(
            found.part is part for found in read((inner,), explain=True).incomparable
        ):
            yield name
            yield from _path_to(part, inner, seen)
            return


# --- models and other trees -------------------------------------------------------------------


def canonicalize(tree: T) -> T:
    """Return `tree` with its callables hoisted and its weakly typed arrays made strongly typed.

    A model that is built again has new function objects, in its leaves and in its static fields. A
    raw optax transformation consists of functions. `jax.jit` compares functions by identity, so it
    traces a step again. Hoisted functions are the same objects each time (see `canonopt.hoist`).

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
    strongly typed, and `jax.jit` traces a step again because of the difference.

    ```python
    >>> model = {"scale": jax.numpy.full(2, 1.0), "name": "a layer"}
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
    # The dict is keyed by id, so that a node in two places stays one object. Each entry keeps its
    # node alive, so that no other object gets the id.
    return _walk({}, tree)


def _walk(seen: dict[int, tuple[Any, Any]], node: Any) -> Any:
    if type(node) in PLAIN:
        return node
    # PRNG keys have no `weak_type`.
    if isinstance(node, jax.Array) and not getattr(node, "weak_type", False):
        return node
    entry = seen.get(id(node))
    if entry is None:
        # Not a nested function, which would keep all nodes alive until the next garbage collection.
        entry = seen[id(node)] = (node, _canonical(node, functools.partial(_walk, seen)))
    return entry[1]


def hoisted_field(**kwargs: Any) -> Any:
    """Return a field of an `equinox.Module` whose callable is hoisted when the module is made.

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

    **Returns:** what `equinox.field` returns. A value that is a module is canonicalized; None and
    other values that are not callable do not change.
    """
    import equinox as eqx

    convert = kwargs.pop("converter", None)

    def converter(value: Any) -> Any:
        value = value if convert is None else convert(value)
        if isinstance(value, eqx.Module | jtu.Partial):
            return canonicalize(value)  # `value` is a part of the model: its leaves are trained
        return hoist(value) if callable(value) else value

    return eqx.field(converter=converter, **kwargs)


def _canonical(node: Any, walk: Callable[[Any], Any]) -> Any:
    """Return what `canonicalize` returns for a node; `walk` does the same for its parts."""
    kind = type(node)
    if isinstance(node, jax.Array):
        return jax.lax.convert_element_type(node, node.dtype)
    if kind is jax.ShapeDtypeStruct:
        return node.update(weak_type=False) if node.weak_type else node
    if hasattr(kind, "__canonicalized__"):  # a spec, which is canonical already
        return node
    is_module = is_module_class(kind)  # mapped by attributes: static fields are not leaves
    if not (is_module or kind in _TREES or is_record(kind)):
        return _pytree(node, walk)
    known: Any = ATTRIBUTES if is_module else kind_of(node)
    if kind is not jtu.Partial:
        return known.mapped(node, walk)
    # Equal partials become one object, because JAX compares partials in static fields by
    # identity. This object is always a copy: the user may change the keywords of the original. Its
    # functions are hoisted already and check the values that they read, so the copy checks nothing.
    partial = known.make(node, [*map(walk, known.parts(node))])
    reading = read((partial,))
    if not reading.is_comparable or reading.reads_data:
        return partial
    return _callables.setdefault(("partial", reading.key), partial)


def _pytree(node: Any, walk: Callable[[Any], Any]) -> Any:
    """Return what `canonicalize` returns for a leaf, or a node of a registered pytree type."""
    children, structure = jtu.tree_flatten(node, is_leaf=lambda inner: inner is not node)
    if jtu.treedef_is_leaf(structure):
        return hoist(node) if _is_function(node) else node
    kind, static = structure.node_data()
    made = [*map(walk, children)]
    new_static = walk(static)
    if new_static is not static:
        structure = jtu.PyTreeDef.from_node_data_and_children(
            jtu.default_registry, (kind, new_static), structure.children()
        )
    elif all(map(operator.is_, made, children)):
        return node
    return jtu.tree_unflatten(structure, made)


_TREES = frozenset(
    (tuple, list, dict, collections.OrderedDict, collections.defaultdict, jtu.Partial)
)
