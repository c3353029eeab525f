"""What `jax.jit` keys on in a call: the function, and the arguments leaf by leaf.

A `CallKey` keeps no argument alive. It has a record for each leaf, static value and pytree node:
shapes and shardings for arrays, and for static values a token that is equal where jit's comparison
is.
"""

import collections
import contextlib
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

import attrs
import jax
import jax.core
import jax.tree_util as jtu
import numpy as np
from jax.sharding import Mesh, Sharding

from .._identity import described, read_call, static_fields, why_not_shared
from .._jax_internals import (
    Array,
    Miss,
    array_of,
    array_text,
    attribute,
    context_of_calls,
    is_given,
    module_parts,
)
from .._python_internals import Caller, caller_of, code_of, loaded, token_of
from .._texts import fields_of, is_gradient_transformation, text_of
from .records import (
    Budget,
    Node,
    Nothing,
    Record,
    Scalar,
    Static,
    node_of,
    static_of,
)

# What transforms the call of a jitted function, by the tracers that it was given. By name, because
# JAX exports only some of these classes.
_TRANSFORMS = {
    "BatchTracer": "under jax.vmap",
    "JVPTracer": "under jax.jvp",
    "LinearizeTracer": "under jax.grad",
    "DynamicJaxprTracer": "inside another trace",
}

FUNCTION_PATH = "<function>"  # of the record of the jitted function itself


@attrs.frozen
class CallKey:
    """One entry of a jit cache."""

    records: Mapping[str, Record]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    context: Mapping[str, str] = attrs.field(factory=dict)
    # The paths of the optimizer states, which need other advice than a model.
    states: frozenset[str] = frozenset()
    # The arguments with modules of Flax nnx, whose static attributes cannot be set from outside.
    modules_of_flax: frozenset[str] = frozenset()
    # The arguments given by name. For `jax.jit` that is another call than by position.
    by_keyword: frozenset[str] = frozenset()
    # The types of the tracers among the arguments, which tell what transforms the call.
    tracers: frozenset[str] = frozenset()
    # What advice may name at the place of the call.
    caller: Caller = attrs.field(factory=Caller, eq=False)
    # Whether it is a call of `equinox.filter_jit`.
    filtered: bool = attrs.field(default=False, eq=False)
    # Whether what is jitted is a function of JAX around the user's, as for `jax.pmap`.
    is_jitted_by_jax: bool = attrs.field(default=False, eq=False)
    # Whether it is a call of `canonopt.jit`.
    is_jitted_by_canonopt: bool = attrs.field(default=False, eq=False)
    # How many arrays of each shape and dtype the call returned, noted after the trace.
    returned: collections.Counter[tuple[tuple[int, ...], str]] = attrs.field(
        factory=collections.Counter, eq=False
    )

    @property
    def is_of_wrapper(self) -> bool:
        """Whether Equinox has wrapped the function, as `equinox.filter_value_and_grad` does."""
        return str(self.records.get("self")).startswith("a equinox._")

    @property
    def transforms(self) -> str:
        """How the call is transformed."""
        words = sorted(_TRANSFORMS.get(name, f"with {name}s") for name in self.tracers)
        return " and ".join(words) or "by itself"

    @property
    def why_not_shared(self) -> str | None:
        """Why the function runs a program of its own."""
        record = self.records.get(FUNCTION_PATH)
        return record.why_not_shared if isinstance(record, Static) else None

    def with_reason(self, reason: str | None) -> "CallKey":
        """This key, with what is known by now of why the function is not shared."""
        record = self.records.get(FUNCTION_PATH)
        if reason is None or not isinstance(record, Static):
            return self
        record = attrs.evolve(record, why_not_shared=reason)
        return attrs.evolve(self, records={**self.records, FUNCTION_PATH: record})

    def note_returned(self, leaves: Iterable[Any]) -> None:
        arrays = (leaf for leaf in leaves if hasattr(leaf, "dtype"))
        self.returned.update((tuple(array.shape), str(array.dtype)) for array in arrays)


def call_key_of(
    function: Callable[..., Any],
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    is_static: Callable[[str | int], bool] = lambda _: False,
    filtered: bool = False,
    options: Mapping[str, Any] | None = None,
) -> CallKey:
    """The key of one call.

    **Arguments:**

    - `is_static`: whether the argument of this index or name is static as a whole.
    - `filtered`: whether leaves other than arrays are static, as for `equinox.filter_jit`.
    - `options`: what else was given to `jax.jit`.
    """
    tree = _Tree(filtered)
    named = [*_named(function, args, kwargs)]
    for index, name, value in named:
        if is_static(name) or (index is not None and is_static(index)):
            tree.add_static(name, value)
        else:
            tree.add(name, value)
    # `filter_jit` passes the module on as an argument, so its arrays are leaves of the call.
    if filtered and isinstance(function, loaded("equinox", "Module")):
        tree.add("self", function)
    # Equinox binds the arguments to the signature, so there a keyword makes no other call.
    return CallKey(
        tree.records,
        dict(options or {}),
        context_of_calls(),
        frozenset(tree.states),
        frozenset(tree.modules_of_flax),
        by_keyword=frozenset(() if filtered else kwargs),
        tracers=frozenset(
            type(leaf).__name__
            for leaf in jtu.tree_leaves((args, kwargs))
            if isinstance(leaf, jax.core.Tracer)
        ),
        caller=caller_of(((n, v) for _, n, v in named), is_given, (Mesh, Sharding)),
        filtered=filtered,
    )


def call_key_of_miss(miss: Miss, function: Any) -> CallKey:
    """The key of a call that a jit cache has no entry for; `function` is the user's in it."""
    is_inside = function is not miss.function
    is_of_canonopt = miss.is_shared or why_not_shared(miss.function) is not None
    is_by_jax = is_inside and str(attribute(miss.function, "__module__")).startswith("jax.")
    if is_inside:  # JAX may have flattened the arguments
        with contextlib.suppress(TypeError):
            inspect.signature(function).bind(*miss.args, **miss.kwargs)
            miss = attrs.evolve(miss, function=function)
    key = call_key_of(
        miss.function,
        miss.args,
        miss.kwargs,
        is_static=miss.is_static,
        filtered=miss.filtered,
        options=miss.options,
    )
    record = record_of_jitted(function, miss.is_shared, miss.filtered)
    records = {FUNCTION_PATH: record, **key.records}
    return attrs.evolve(
        key,
        records=records,
        is_jitted_by_jax=is_by_jax,
        is_jitted_by_canonopt=is_of_canonopt,
    )


def shapes_of_miss(miss: Miss) -> str:
    """The arrays and the static values that an operation of JAX was given, as text."""
    dynamic = [a for i, a in enumerate(miss.args) if not miss.is_static(i)]
    dynamic += [a for name, a in miss.kwargs.items() if not miss.is_static(name)]
    static = [a for i, a in enumerate(miss.args) if miss.is_static(i)]
    static += [a for name, a in miss.kwargs.items() if miss.is_static(name)]
    leaves = jtu.tree_leaves(dynamic)
    texts = [array_text(a) if hasattr(a, "shape") else type(a).__name__ for a in leaves]
    return ", ".join([*texts, *map(text_of, static)]) or "nothing"


def record_of_jitted(function: Any, is_shared: bool = False, filtered: bool = False) -> Static:
    """The record of a function that is jitted, as `canonopt.jit` compares it.

    `is_shared` says that functions with one key share a program.
    """
    # What `assert_max_traces` makes of a function.
    if attribute(attribute(function, "__code__"), "co_qualname") == "_counted.<locals>.counted":
        why = "an assertion that is made again counts from zero. Define both once."
        token = token_of(function)
        record = static_of(function.__wrapped__)
        return attrs.evolve(record, token=token, key=token, why_not_shared=why)
    budget = Budget()
    record = static_of(function, budget)
    # Bound methods of one object are equal, but `jax.jit` tells them apart.
    if isinstance(function, types.MethodType) and not filtered:
        record = attrs.evolve(record, token=token_of(function))
    if isinstance(function, types.FunctionType):
        record = attrs.evolve(record, stores=code_of(function).stores)
    if budget.words <= 0:  # too large to be read again
        return record
    with contextlib.suppress(Exception):
        reading, _ = read_call(function, explain=True)
        found = None if reading.is_comparable else (reading.incomparable or (None,))[0]
        why = found and f"{described(function, found)[1]} {found.why}. {found.fix}"
        why = why_not_shared(function) or why
        record = attrs.evolve(record, key=reading.key, why_not_shared=why)
        if is_shared:
            record = attrs.evolve(record, token=("program", reading.key))
    return record


def _named(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
) -> Iterator[tuple[int | None, str, Any]]:
    """The arguments with the names of the function's parameters."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # some functions written in C have none
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    for i, value in enumerate(args):
        yield i, names[i] if i < len(names) else f"{rest}[{i - len(names)}]", value
    for name, value in kwargs.items():
        yield None, name, value


def is_inside(path: str, outer: Set[str]) -> bool:
    """Whether a path goes through one of the outer paths and further."""
    return any(path[: step.start()] in outer for step in re.finditer(r"[.\[]", path))


UNNAMED_STATIC = ".<static>"  # the last step of the path to static data without a field


class _Tree:
    """The records of a call's arguments by path, and the paths of its optimizer states."""

    def __init__(self, filtered: bool) -> None:
        self.records: dict[str, Record] = {}
        self.states: set[str] = set()
        self.modules_of_flax: set[str] = set()
        self._filtered = filtered
        self._budget = Budget()

    def add_static(self, path: str, value: Any) -> None:
        if module_parts(value) is not None:
            return self.add(path, value)
        self.records[path] = static_of(value, self._budget)

    def add(
        self, path: str, value: Any, outer: tuple[int, ...] = (), in_state: bool = False
    ) -> None:
        """Adds a pytree. `outer` has the ids of the nodes around it: a pytree may hold itself."""
        # To JAX, None is a node without leaves. Its record shows where a leaf is missing.
        if value is None:
            self.records[path] = Nothing()
            return
        if _is_array(value) or isinstance(value, jax.ShapeDtypeStruct):
            self.records[path] = array_of(value)
            return
        if (module := module_parts(value)) is not None:
            self.modules_of_flax.add(re.split(r"[.\[]", path)[0])
            self.records[path] = node_of(type(value))
            for step, static in (*module.static, (UNNAMED_STATIC, module.rest)):
                self.records[path + step] = static_of(static, self._budget)
            for step, child in module.children:
                self.add(path + step, child, (*outer, id(value)), in_state)
            return
        # One level at a time, because each node has a record of its own.
        children, structure = jtu.tree_flatten_with_path(
            value, is_leaf=lambda node: node is not value
        )
        if jtu.treedef_is_leaf(structure) or id(value) in outer:
            if not self._filtered and isinstance(value, bool | int | float | complex):
                self.records[path] = Scalar(type(value).__name__)
            else:
                self.add_static(path, value)
            return
        if is_gradient_transformation(value):
            leaves = jtu.tree_leaves(value)
            if not any(map(_is_array, leaves)) and (self._filtered or not leaves):
                self.add_static(path, value)  # one thing to the user, instead of two functions
                return
        if not in_state and _is_state(value):
            in_state = True
            self.states.add(path)
        self.records[path] = node_of(type(value))
        for step, static in _static_parts(value, children, structure):
            self.add_static(path + step, static)
        for (key,), child in children:
            self.add(path + jtu.keystr((key,)), child, (*outer, id(value)), in_state)


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def _static_parts(value: Any, children: list[Any], structure: Any) -> Iterator[tuple[str, Any]]:
    """The static data of a pytree node, by field where it has fields."""
    if isinstance(value, loaded("equinox", "Module")):
        names = (name for name in static_fields(value) if hasattr(value, name))
        yield from ((f".{name}", getattr(value, name)) for name in names)
        return
    _, static = structure.node_data()
    # The static data of a dict are its keys, which the paths of its children show already.
    if static is None or type(value) in (dict, list, tuple):
        return
    left = list(static) if type(static) is tuple else [static]
    dynamic = {key.name for (key,), _ in children if isinstance(key, jtu.GetAttrKey)}
    # If children have no names, what is a child and static data is not named.
    unnamed = {id(child) for _, child in children} if len(dynamic) < len(children) else set()
    fields = [field.name for field in fields_of(type(value))]
    for name in fields or getattr(value, "__dict__", ()):
        held = getattr(value, name, None)
        found = [i for i, item in enumerate(left) if item is held]
        if held is not None and found and name not in dynamic and id(held) not in unnamed:
            yield f".{name}", left.pop(found[0])
    if any(item is not None for item in left):
        yield UNNAMED_STATIC, tuple(left) if type(static) is tuple else static


def _is_state(value: Any) -> bool:
    """Whether a node is a state of Optax or canonopt, or the tuple of them that `chain` makes.

    By the class's module. The name decides nothing: a user's `TrainState` holds a model, too.
    """
    if type(value) is tuple:
        return bool(value) and all(map(_is_state, value))
    package = type(value).__module__.partition(".")[0]
    is_namedtuple = isinstance(value, tuple) and hasattr(type(value), "_fields")
    is_of_optax = package in ("optax", "canonopt")
    return is_of_optax and is_namedtuple and not is_gradient_transformation(value)


# --- states and models ----------------------------------------------------------------------------


def state_misfits_model(key: CallKey) -> bool:
    """Whether a state has a leaf where the model gets no gradient, or lacks one where it does.

    A state repeats the structure of the model: below a node of the model's type, for example at
    `opt_state[0].mu`, the same steps lead to leaves.
    """
    in_states = {path: r for path, r in key.records.items() if is_inside(path, key.states)}
    holders = {path[: step.start()] for path in key.states for step in _STEPS.finditer(path)}
    for model, node in key.records.items():
        *_, last = (0, *(step.start() for step in _STEPS.finditer(model)))
        # A train state holds the model in a field. A node further inside is no model, though its
        # type may be that of a node in the state: all dicts have one type.
        is_outermost = last == 0 or model[:last] in holders
        if not isinstance(node, Node) or not is_outermost or model in holders | key.states:
            continue
        leaves = {p.removeprefix(model): r for p, r in key.records.items() if is_inside(p, {model})}
        copies = {path for path, record in in_states.items() if record == node}
        # Not the nodes inside of these, which may have the same type: all dicts do.
        for copy in (path for path in copies if not is_inside(path, copies)):
            if any(_misfits(in_states.get(copy + steps), leaf) for steps, leaf in leaves.items()):
                return True
    return False


def _misfits(in_state: Record | None, in_model: Record) -> bool:
    gets_gradient = isinstance(in_model, Array) and in_model.dtype.startswith(INEXACT)
    # Under `equinox.filter_jit` a leaf of the model that is no array is static.
    if isinstance(in_state, Array):
        return not gets_gradient and isinstance(in_model, Array | Nothing | Static)
    return isinstance(in_state, Nothing) and gets_gradient


_STEPS = re.compile(r"[.\[]")  # where the steps of a path begin
INEXACT = ("float", "bfloat", "complex")  # how the names of these dtypes begin
