"""`assert_same_across_processes`, which compares what the processes of a program have built.

`Description` says what is in a value, in text that is the same in every process: no addresses, no
ids, no order of sets. The processes exchange these texts through the coordinator of JAX.
"""

import enum
import functools
import hashlib
import itertools
import json
import time
import types
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax.sharding import Mesh, Sharding

from ._identity import closure_items, partial_items
from ._jax_internals import Jitted, Processes, array_text, jit_options, processes, sharding_text
from ._python_internals import (
    code_of,
    content_of_code,
    is_dunder,
    is_library_class,
    is_library_function,
    is_stable,
)
from ._spec import Configured, Dynamic, internals_of
from ._texts import PLAIN, fields_of, text_of
from .errors import MissingProcessError, ProcessMismatchError

# How many times it was called. All processes call it in the same order, so this names a call.
_calls = itertools.count()
_NAME = "canonopt.assert_same_across_processes"


def assert_same_across_processes(spec_or_model: Any, *, timeout: float = 10) -> None:
    """Raises an error in all processes if a spec or a model is not the same in each of them.

    If one process has another learning rate, mask or width than the others, its step is another
    program. Then a collective of the step hangs, or each process silently trains another model.
    Call this in every process, before the first step. It uses no device: the processes compare
    through the coordinator of `jax.distributed`.

    ```python
    >>> import canonopt
    >>> optim = canonopt.adamw(1e-3)
    >>> canonopt.assert_same_across_processes(optim)

    ```

    Functions are compared by their code, defaults, captured variables, and the globals that they
    name; modules and other objects by their fields. Arrays are compared by type, placement and
    values. Of an array that is split over processes, each has other values, so these are left out.

    **Arguments:**

    - `spec_or_model`: a spec, a model, or any other pytree or object. A tuple for several.
        Arrays may be `jax.ShapeDtypeStruct`s.
    - `timeout`: how many seconds to wait for the other processes.

    **Returns:** None; in a program of one process, at once.

    **Raises:** `ProcessMismatchError` for the first part that differs: `path`, with `before` in
    process 0 and `after` in the process that differs. `MissingProcessError` if a process does not
    call this within the timeout. All processes raise it, so none is left waiting in a collective.
    """
    others = processes()
    if others is None:
        if jax.process_count() == 1:
            return
        raise MissingProcessError(
            f"{_NAME} compares {jax.process_count()} processes through the coordinator of "
            "jax.distributed, which was not initialized.",
            "Call jax.distributed.initialize() when the program starts.",
        )
    if others.count == 1:
        return
    parts = Description(spec_or_model).parts
    verdict = (_lead if others.index == 0 else _follow)(others, next(_calls), parts, timeout)
    if missing := verdict.missing:
        who = f"Process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        raise MissingProcessError(
            f"{who} did not call {_NAME} within {timeout:g} seconds.",
            "Call it at the same place in every process, or pass a longer timeout.",
        )
    if verdict.differing:
        (index, (path, before, after)), *more = verdict.differing.items()
        also = f" Also different: {', '.join(other for other, _ in more)}." if more else ""
        raise ProcessMismatchError(
            f"{path} is {before} in process 0, and {after} in process {index}.{also}",
            "Build it in every process from the same source, configuration and seed.",
            path=path,
            before=before,
            after=after,
        )


# --- the exchange -------------------------------------------------------------------------------

_Parts = list[tuple[str, str]]  # paths and texts
_MARGIN = 5  # seconds for what process 0 does after it has waited


def _key(call: int) -> str:
    return f"canonopt/same/{call}"


class _Verdict(NamedTuple):
    """A message of process 0 to the others."""

    missing: list[int]
    # By process: the path, and what is there in process 0 and in that process.
    differing: dict[str, tuple[str, str, str]]


def _lead(others: Processes, call: int, parts: _Parts, timeout: float) -> _Verdict:
    """Publish the parts of process 0, and wait for what the others found."""
    key, until = _key(call), time.monotonic() + timeout
    others.set(f"{key}/parts", zlib.compress(json.dumps(parts).encode()))
    while True:
        found = others.below(f"{key}/found")
        if len(found) == others.count - 1 or time.monotonic() > until:
            break
        time.sleep(0.01)
    results = {index: json.loads(found[index]) for index in sorted(found, key=int)}
    missing = [index for index in range(1, others.count) if str(index) not in results]
    differing = {index: result for index, result in results.items() if result is not None}
    verdict = _Verdict(missing, differing)
    if not missing:  # all are here, so none still reads what belongs to the call before
        others.delete(_key(call - 1))
    others.set(f"{key}/verdict", json.dumps(verdict).encode())
    return verdict


def _follow(others: Processes, call: int, parts: _Parts, timeout: float) -> _Verdict:
    """Compare with the parts of process 0, and wait for its verdict, as the others do."""
    key = _key(call)
    published = others.get(f"{key}/parts", timeout)
    if published is None:
        return _Verdict([0], {})
    found = _first_difference(json.loads(zlib.decompress(published)), parts)
    others.set(f"{key}/found/{others.index}", json.dumps(found).encode())
    verdict = others.get(f"{key}/verdict", timeout + _MARGIN)
    return _Verdict([0], {}) if verdict is None else _Verdict(*json.loads(verdict))


def _first_difference(theirs: _Parts, ours: _Parts) -> tuple[str, str, str] | None:
    ours_at, theirs_at = dict(ours), dict(theirs)
    for path, text in theirs:
        if ours_at.get(path) != text:
            return path, text, ours_at.get(path, "missing")
    added = ((path, "missing", text) for path, text in ours if path not in theirs_at)
    return next(added, None)


# --- what is in a value -------------------------------------------------------------------------

_MAX_PARTS = 100_000  # what comes after these is not compared
_MAX_SHOWN = 200  # characters of a value; of a longer one a digest tells the rest


class _Path(NamedTuple):
    """A path such as `args[1].mask`, or `captured variable 'x' of mask`."""

    inner: str = ""
    outer: str = ""

    def step(self, text: str) -> "_Path":
        return _Path(self.inner + text, self.outer)

    def of(self, description: str) -> "_Path":
        whole = str(self)
        return _Path(description, f" of {whole}" if whole else "")

    def __str__(self) -> str:
        return self.inner.removeprefix(".") + self.outer


class Description:
    """The parts of a value in the order of the code that made it, outer parts first."""

    def __init__(self, value: Any) -> None:
        self.parts: _Parts = []
        # Functions and classes whose parts are listed. Kept, so that no other gets such an id.
        self._listed: dict[int, Any] = {}
        self._around: list[int] = []  # the ids of what is around the value being read
        self._add(_Path(), value)

    def _add(self, path: _Path, value: Any) -> None:
        if len(self.parts) >= _MAX_PARTS:
            return
        if id(value) in self._around:
            self._note(path, "an object around this")
            return
        self._around.append(id(value))
        try:
            self._describe(path, value)
        finally:
            self._around.pop()

    def _note(self, path: _Path, text: str) -> None:
        if len(text) > _MAX_SHOWN:
            text = f"{text[:_MAX_SHOWN]}... ({_digest(text.encode())})"
        self.parts.append((str(path) or "spec_or_model", text))

    def _describe(self, path: _Path, value: Any) -> None:
        kind = type(value)
        if kind in PLAIN or kind is Dynamic:
            self._note(path, repr(value))
        elif isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
            self._note(path, _array(value))
        elif isinstance(value, Configured):
            self._spec(path, value)
        elif isinstance(value, Sharding | Mesh):
            self._note(path, sharding_text(value))
        elif isinstance(value, jax.Device):
            self._note(path, f"a device of kind {value.device_kind}")
        elif isinstance(value, enum.Enum):
            self._note(path, f"{_name(kind)}.{value.name}")
        elif isinstance(value, types.ModuleType):
            self._note(path, f"module {value.__name__}")
        elif isinstance(value, type):
            self._note(path, f"class {_name(value)}")
            self._methods(path, value)
        elif is_stable(value):
            self._note(path, f"function {_name(value)}")
        elif isinstance(value, types.FunctionType):
            self._function(path, value)
        elif isinstance(value, functools.partial | types.MethodType | Jitted):
            self._made_of_function(path, value)
        elif isinstance(value, set | frozenset):
            # The order of a set depends on the hash seed.
            items = sorted(str(Description(item).parts) for item in value)
            self._note(path, f"{kind.__name__} of {len(items)}: {', '.join(items)}")
        elif isinstance(value, Mapping | list | tuple):
            self._container(path, value)
        else:
            self._object(path, value)

    # --- functions and classes

    def _function(self, path: _Path, function: types.FunctionType) -> None:
        own = vars(function)
        inner = own.get("__canonical_original__", own.get("__canonical_owner__"))
        if "__beartype_func" in (function.__kwdefaults__ or {}):  # its code has ids in its names
            inner = own.get("__wrapped__")
        if inner is not None:
            return self._add(path, inner)
        code = _digest(repr(content_of_code(function.__code__)).encode())
        self._note(path, f"function {_name(function)} with code {code}")
        if self._is_listed(function):
            return
        for description, part in closure_items(function):
            self._add(path.of(description), part)
        if not is_library_function(function):
            known, namespace = code_of(function), function.__globals__
            names = (n for n in known.globals if n in namespace)
            for name in names:
                self._add(path.of(f"global {name!r}"), namespace[name])

    def _made_of_function(self, path: _Path, value: Any) -> None:
        self._note(path, f"a {type(value).__name__}")
        if isinstance(value, functools.partial):
            for description, part in partial_items(value):
                self._add(path.of(description), part)
        elif isinstance(value, types.MethodType):
            self._add(path.of("function"), value.__func__)
            self._add(path.of("object"), value.__self__)
        else:
            self._add(path.of("function"), value.__wrapped__)
            self._add(path.of("options"), jit_options(value))

    def _methods(self, path: _Path, kind: type) -> None:
        """Adds the methods of a class of the user's, whose code may be another one, too."""
        for base in kind.__mro__:
            if is_library_class(base) or self._is_listed(base):
                continue
            for name in vars(base):
                method = getattr(base, name, None)
                if isinstance(method, property):
                    method = method.fget
                if isinstance(method, types.FunctionType) and (
                    name == "__call__" or not is_dunder(name)
                ):
                    self._add(path.of(f"method {name!r}"), method)

    def _is_listed(self, value: Any) -> bool:
        is_listed = id(value) in self._listed
        self._listed[id(value)] = value
        return is_listed

    # --- what has parts

    def _spec(self, path: _Path, spec: Configured) -> None:
        factory = internals_of(spec).factory
        self._note(path, factory.expression)
        if not factory.is_stable:
            self._add(path.of("factory"), factory.function)
        for name, part in spec.parameters().items():
            self._add(path.step(f".{name}"), part)

    def _container(self, path: _Path, value: Any) -> None:
        kind = type(value)
        if isinstance(value, Mapping):
            self._note(path, f"{kind.__name__} with keys {', '.join(map(text_of, value))}")
            items = ((f"[{text_of(key)}]", item) for key, item in value.items())
        else:
            self._note(path, f"{kind.__name__} of length {len(value)}")
            names = getattr(kind, "_fields", ())
            each = enumerate(tuple.__iter__(value) if isinstance(value, tuple) else value)
            items = ((f".{names[i]}" if names else f"[{i}]", item) for i, item in each)
        for step, item in items:
            self._add(path.step(step), item)

    def _object(self, path: _Path, value: Any) -> None:
        self._note(path, text_of(value) if _is_plain(value) else f"a {_name(type(value))}")
        self._methods(path, type(value))
        for step, part in _attributes(value):
            self._add(path.step(step), part)


def _is_plain(value: Any) -> bool:
    """Return True if the text of a library's object says what it is equal to, as of a dtype."""
    kind = type(value)
    return is_library_class(kind) and kind.__eq__ is not object.__eq__ and not fields_of(kind)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an object: its fields, its children as a pytree, or its attributes."""
    kind = type(value)
    if fields := fields_of(kind):
        yield from (
            (f".{f.name}", getattr(value, f.name)) for f in fields if hasattr(value, f.name)
        )
        return
    children, structure = jtu.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if not jtu.treedef_is_leaf(structure):
        yield from ((jtu.keystr(keys), child) for keys, child in children)
        yield ".<static>", structure.node_data()[1]
        return
    if is_library_class(kind) and not callable(value):
        return  # such as a logger, which may be in another state in each process
    names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    names += getattr(value, "__dict__", ())
    for name in names:
        # What is computed once may not have been computed yet.
        is_cached = isinstance(getattr(kind, name, None), functools.cached_property)
        if hasattr(value, name) and not is_cached and name not in ("__dict__", "__weakref__"):
            yield f".{name}", getattr(value, name)


# --- texts --------------------------------------------------------------------------------------


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _name(value: Any) -> str:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', None) or 'builtins'}.{name}"


def _array(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"numpy {value.dtype}{[*value.shape]} {_values(value)}"
    text = array_text(value)
    if isinstance(value, jax.core.Tracer):
        return text
    if value.sharding is not None and getattr(value, "committed", True):
        text += f" on {sharding_text(value.sharding)}"
    if isinstance(value, jax.ShapeDtypeStruct):
        return text
    if not (value.is_fully_addressable or value.is_fully_replicated):
        return text
    is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return f"{text} {_values(jax.random.key_data(value) if is_key else value)}"


def _values(array: Any) -> str:
    if array.dtype.hasobject:
        return f"of {text_of(array.tolist())}"
    values: Any = np.asarray(array)
    if not values.shape:
        return f"of {values}"
    return f"with {_digest(np.ascontiguousarray(values).view(np.uint8).data)}"
