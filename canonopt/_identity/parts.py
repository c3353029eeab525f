"""Take values apart, and rebuild them with other parts.

`kind_of` finds the `Kind` of a value: how to list its parts, and how to make a value like it with
other parts. `Graph` collects all values that can be reached through parts. `Copy` copies a function
with other values in place of the arrays that the function captures.
"""

import abc
import collections
import copy
import dataclasses
import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.tree_util as jtu

from .._jax_internals.functions import Jitted, function_of_partial, is_module_class, jit_options
from .._python_internals.namespaces import is_stable, noted
from .._python_internals.rebinding import captured_by, is_bound
from .instances import attributes_of, is_record, slots_of, state_of, static_fields
from .reader import ATOMS, UNBOUND, Reading, leading_to

MAX_NODES = 100_000  # the most nodes of a `Graph`: to find this many takes 0.2 s
Fresh = Callable[[types.CellType], types.CellType]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """Functions that take values of one kind apart and make them again.

    - `items`: returns pairs of a label and a part. A label is a description, an index or a key.
    - `make_whole`: makes a value like the first argument, with other parts in the same order.
        Raises `TypeError` if the value cannot be copied.
    - `begin`, `fill`: do the same for values that may contain themselves. `begin` makes the new
        value, and `fill` puts the parts in. `begin` also takes a function that maps each captured
        variable (a cell) to the cell that the new value captures.
    """

    items: Callable[[Any], Iterable[tuple[Any, Any]]]
    make_whole: Callable[[Any, Sequence[Any]], Any] | None = None
    begin: Callable[[Any, Fresh], Any] = lambda value, fresh: None
    fill: Callable[[Any, Any, Sequence[Any]], None] = lambda made, value, parts: None

    def parts(self, value: Any) -> list[Any]:
        return [part for _, part in self.items(value)]

    def make(self, value: Any, parts: Sequence[Any]) -> Any:
        if self.make_whole is not None:
            return self.make_whole(value, parts)
        made = self.begin(value, lambda cell: types.CellType() if is_bound(cell) else cell)
        self.fill(made, value, parts)
        return made

    def mapped(self, value: Any, change: Callable[[Any], Any]) -> Any:
        """Return `value` with `change` applied to each part; `value` itself if no part changes."""
        parts = self.parts(value)
        made = [*map(change, parts)]
        return value if all(map(operator.is_, made, parts)) else self.make(value, made)


# --- functions ------------------------------------------------------------------------------------


def closure_items(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the captured variables that have a value, and the defaults, each with a description."""
    for name, value in captured_by(function).items():
        yield f"captured variable {name!r}", value
    code, defaults = function.__code__, function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    names = positional[len(positional) - len(defaults) :]
    keywords = (function.__kwdefaults__ or {}).items()
    for name, default in (*zip(names, defaults, strict=True), *keywords):
        yield f"default of {name!r}", default


def _function_items(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if noted(function, "__canonical_owner__") is None:  # a function of a spec has no parts
        yield from closure_items(function)
        for name, part in vars(function).items():
            yield "wrapped function" if name == "__wrapped__" else f"attribute {name!r}", part


def _begin_function(function: types.FunctionType, fresh: Fresh) -> Any:
    cells = tuple(map(fresh, function.__closure__ or ()))
    made = types.FunctionType(function.__code__, function.__globals__, closure=cells or None)
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(made, name, getattr(function, name))
    return made


def _fill_function(made: Any, function: types.FunctionType, parts: Sequence[Any]) -> None:
    new = iter(parts)
    for old, cell in zip(function.__closure__ or (), made.__closure__ or (), strict=True):
        part = next(new) if is_bound(old) else None
        if cell is not old:
            cell.cell_contents = part
    made.__defaults__ = tuple(itertools.islice(new, len(function.__defaults__ or ()))) or None
    made.__kwdefaults__ = dict(zip(function.__kwdefaults__ or (), new, strict=False)) or None
    vars(made).update(zip(vars(function), new, strict=True))


def _partial_items(partial: functools.partial) -> Iterator[tuple[str, Any]]:
    yield "function", function_of_partial(partial)
    for i, argument in enumerate(partial.args):
        yield f"argument {i}", argument
    for name, argument in partial.keywords.items():
        yield f"argument {name!r}", argument


def _make_partial(partial: functools.partial, parts: Sequence[Any]) -> Any:
    function, *arguments = parts
    args, others = arguments[: len(partial.args)], arguments[len(partial.args) :]
    made = type(partial)(function, *args, **dict(zip(partial.keywords, others, strict=True)))
    vars(made).update(vars(partial))
    return made


def _make_jitted(jitted: Any, parts: Sequence[Any]) -> Any:
    if type(jitted) is not Jitted:  # made by canonopt
        jit_with_same_options, _ = jitted.__reduce__()
        return jit_with_same_options(*parts)
    options = jit_options(jitted)
    if options is None:
        raise TypeError("A jitted function whose options are unknown cannot be copied.")
    return jax.jit(*parts, **options)


# --- instances ------------------------------------------------------------------------------------


def _make_record(record: Any, parts: Iterable[Any]) -> Any:
    # The class may override its constructor.
    made = tuple.__new__(type(record), parts)
    if attributes := getattr(record, "__dict__", None):
        vars(made).update(attributes)
    return made


def _by_attributes(
    attributes: Callable[[Any], dict[str, Any]], new: Callable[[type], Any] = object.__new__
) -> Kind:
    def begin(value: Any, _: Any) -> Any:
        made = new(type(value))  # its `__init__` does not run
        attributes_of(made).update(attributes_of(value))
        return made

    return Kind(
        lambda value: ((f"attribute {name!r}", part) for name, part in attributes(value).items()),
        begin=begin,
        fill=lambda made, value, parts: attributes_of(made).update(
            zip(attributes(value), parts, strict=True)
        ),
    )


def _fill_slots(made: Any, value: Any, parts: Sequence[Any]) -> None:
    for (slot, _), part in zip(slots_of(value), parts, strict=True):
        if part is not UNBOUND:
            slot.__set__(made, part)


def _dynamic_attributes(module: Any) -> dict[str, Any]:
    static = static_fields(type(module))
    return {name: part for name, part in vars(module).items() if name not in static}


def _flat_spec(spec: Any) -> tuple[list[Any], Any]:
    """Return the leaves and the inner specs of a spec, and the pytree structure around them."""
    is_inner = lambda node: node is not spec and hasattr(type(node), "__canonicalized__")  # noqa: E731
    return jtu.tree_flatten(spec, is_leaf=is_inner)


# --- the table ------------------------------------------------------------------------------------

ATTRIBUTES = _by_attributes(attributes_of)  # for any instance
_SLOTS = Kind(
    lambda value: ((f"attribute {slot.__name__!r}", part) for slot, part in slots_of(value)),
    begin=lambda value, _: object.__new__(type(value)),
    fill=_fill_slots,
)
_MODULE = _by_attributes(_dynamic_attributes)  # without the static fields
_DICT = Kind(
    lambda value: value.items(),
    begin=lambda value, _: copy.copy(value),  # a copy keeps the order and the attributes
    fill=lambda made, value, parts: made.update(zip(value, parts, strict=True)),
)
_PARTIAL = Kind(_partial_items, _make_partial)
# `tuple.__iter__`, because the class may override `__iter__`.
_RECORD = Kind(lambda value: enumerate(tuple.__iter__(value)), _make_record)
_SPEC = Kind(  # a spec has leaves if a number in it is traced
    lambda value: enumerate(_flat_spec(value)[0]),
    lambda value, parts: jtu.tree_unflatten(_flat_spec(value)[1], parts),
)
_JITTED = Kind(lambda value: [("jitted function", value.__wrapped__)], _make_jitted)
_HOISTED = Kind(  # a copy is the function inside, which checks no values: they were just read
    lambda value: [("function", noted(value, "__canonical_original__"))],
    lambda value, parts: parts[0],
)

_KINDS: dict[type, Kind] = {
    types.FunctionType: Kind(_function_items, begin=_begin_function, fill=_fill_function),
    types.MethodType: Kind(
        lambda value: [("function", value.__func__), ("owner", value.__self__)],
        lambda value, parts: types.MethodType(*parts),
    ),
    Jitted: _JITTED,
    types.SimpleNamespace: _by_attributes(attributes_of, types.SimpleNamespace.__new__),
    tuple: Kind(enumerate, lambda value, parts: tuple(parts)),
    list: Kind(
        enumerate, begin=lambda value, _: [], fill=lambda made, value, parts: made.extend(parts)
    ),
    **dict.fromkeys((dict, collections.OrderedDict, collections.defaultdict), _DICT),
}
_WITHOUT_PARTS = ATOMS | {float, complex, type, types.ModuleType, types.BuiltinFunctionType}


def kind_of(value: Any) -> Kind | None:
    """Return the `Kind` of `value`; None if `value` is never taken apart."""
    kind = type(value)
    if kind is types.FunctionType and noted(value, "__canonical_original__") is not None:
        return _HOISTED
    if kind in _KINDS or kind in _WITHOUT_PARTS:
        return _KINDS.get(kind)
    if issubclass(kind, functools.partial):
        return _PARTIAL
    if hasattr(kind, "__del__"):  # `__del__` would run for a copy, too
        return None
    if hasattr(kind, "__canonicalized__"):
        return _SPEC
    if hasattr(kind, "__captured_options__"):
        return _JITTED
    if is_record(kind):
        return _RECORD
    state = state_of(kind)
    if state != "attributes":
        return _SLOTS if state else None
    return _MODULE if is_module_class(kind) else ATTRIBUTES


def callable_kind(value: Any) -> Kind:
    """Return the kind of a function, partial, method or `jax.jit` result; else `ATTRIBUTES`."""
    of_function = types.FunctionType | functools.partial | types.MethodType | Jitted
    return (kind_of(value) if isinstance(value, of_function) else None) or ATTRIBUTES


# --- graphs and copies ----------------------------------------------------------------------------


def takes_apart(value: Any) -> bool:
    """Return True for an array, and for a value in which `Copy` looks for arrays."""
    return isinstance(value, jax.Array) or kind_of(value) is not None


class Graph:
    """All values that can be reached from a value, part by part, up to `MAX_NODES`."""

    def __init__(self, root: Any) -> None:
        # Keyed by id: the dict also keeps the objects alive, so that no id is reused.
        self.nodes: dict[int, Any] = {}
        # Maps the id of each part to the ids of the values that it is a part of.
        self.owners_of: dict[int, list[int]] = {}
        pending = [root]
        while pending and len(self.nodes) < MAX_NODES:
            value = pending.pop()
            if id(value) in self.nodes:
                continue
            self.nodes[id(value)] = value
            # A callable that a library's module has under a name holds no object of the user's.
            kind = None if callable(value) and is_stable(value) else kind_of(value)
            for part in reversed(kind.parts(value) if kind else ()):
                if type(part) not in _WITHOUT_PARTS:
                    self.owners_of.setdefault(id(part), []).append(id(value))
                    pending.append(part)


def _is_of(value: Any, cls: type) -> bool | None:
    """Return what `isinstance` returns; None if the code of a user's class raises an error."""
    try:
        return isinstance(value, cls)
    except Exception:
        return None


class Copy:
    """A copy (`made`) of a function, with `others`, such as tracers, in place of captured arrays.

    Only values that lead to one of `reading.arrays` are copied, and no original changes. If two
    functions share a captured variable, their copies share one, too.

    Raises `TypeError` if a value that leads to an array is not found or cannot be copied, if code
    may reach both the value and its copy, or if `isinstance` tells an array from its replacement.
    """

    def __init__(self, fn: Any, reading: Reading, others: Sequence[Any]) -> None:
        replaced = [*zip(reading.arrays, others, strict=True)]
        pairs = {type(array): (array, other) for array, other in replaced}.values()
        # An abstract class may tell an array from a tracer by a registered type, or by attributes.
        for cls in reading.objects:
            is_abstract = isinstance(cls, abc.ABCMeta)
            if is_abstract and any(
                _is_of(array, cls) != _is_of(other, cls) for array, other in pairs
            ):
                raise TypeError(f"{cls.__name__} tells an array from what would replace it.")
        self._graph = Graph(fn)  # keeps the nodes alive, so that no id is reused
        self._copied = {id(array): other for array, other in replaced}
        self._changed = leading_to(self._copied, self._graph.owners_of)
        is_found = len(self._graph.nodes) < MAX_NODES and reading.above <= self._changed
        if not is_found or self._changed & reading.shared:
            raise TypeError("One value that holds an array cannot be copied.")
        self._cells: dict[int, types.CellType] = {}
        # Each copy that was filled, with its kind and its parts at that time.
        self._filled: list[tuple[Any, Kind, list[tuple[Any, Any]]]] = []
        self.made = self._copy(fn)

    def is_unchanged(self) -> bool:
        """Return True if the copies of functions, containers and instances kept their parts."""
        return all(_is_same([*kind.items(made)], then) for made, kind, then in self._filled)

    def _copy(self, value: Any) -> Any:
        if id(value) not in self._changed:
            return value
        if id(value) not in self._copied:
            kind: Any = kind_of(value)
            parts = kind.parts(value)
            if kind.make_whole is not None:
                made = kind.make_whole(value, [*map(self._copy, parts)])
                # If a part leads back to the value, the value has been copied already.
                return self._copied.setdefault(id(value), made)
            made = self._copied[id(value)] = kind.begin(value, self._copy_cell)
            kind.fill(made, value, [*map(self._copy, parts)])
            self._filled.append((made, kind, [*kind.items(made)]))
        return self._copied[id(value)]

    def _copy_cell(self, cell: types.CellType) -> types.CellType:
        if not is_bound(cell) or id(cell.cell_contents) not in self._changed:
            return cell
        return self._cells.setdefault(id(cell), types.CellType())


def _is_same(now: list[tuple[Any, Any]], then: list[tuple[Any, Any]]) -> bool:
    has_same_names = [name for name, _ in now] == [name for name, _ in then]
    return has_same_names and all(a is b for (_, a), (_, b) in zip(now, then, strict=True))
