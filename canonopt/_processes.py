"""Compare the specs or models that processes have built: `assert_same_across_processes`.

`Description` describes a value in text that is the same in every process: without addresses, ids,
or the order of sets. The processes exchange these texts through the coordinator of JAX.
"""

import enum
import functools
import hashlib
import itertools
import json
import time
import types
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from jax.sharding import Mesh, Sharding

from ._identity import UNBOUND, attributes_of, closure_items, kind_of, slots_of
from ._jax_internals.arrays import array_text, sharding_text
from ._jax_internals.distributed import Processes, processes
from ._jax_internals.functions import Jitted, jit_options
from ._python_internals.bytecode import code_of, content_of_code
from ._python_internals.libraries import is_library_class, is_library_function
from ._python_internals.namespaces import is_dunder, is_stable, noted
from ._spec import Configured, Dynamic, internals_of
from ._texts import PLAIN, differing, fields_of, text_of
from .errors import MissingProcessError, ProcessMismatchError

# The number of the next call. All processes call in the same order, so it identifies a call.
_calls = itertools.count()
_NAME = "canonopt.assert_same_across_processes"


def assert_same_across_processes(spec_or_model: Any, *, timeout: float = 10) -> None:
    """Raise an error in all processes if a spec or a model differs between them.

    If one process has another learning rate, mask or width than the others, its step is another
    program. Then a collective of the step hangs, or the processes silently train different models.
    Call this in every process, before the first step. It uses no device: the processes compare
    through the coordinator of `jax.distributed`.

    ```python
    >>> import canonopt
    >>> optim = canonopt.adamw(1e-3)
    >>> canonopt.assert_same_across_processes(optim)

    ```

    Functions are compared by their code, defaults, captured variables, and the globals that they
    name; Equinox modules and other objects by their attributes. Arrays are compared by type,
    placement and values. If an array is split over processes, its values are not compared.

    **Arguments:**

    - `spec_or_model`: a spec, a model, or any other pytree or object, or a tuple of several.
        Arrays may be `jax.ShapeDtypeStruct`s.
    - `timeout`: the number of seconds to wait for the other processes.

    **Returns:** None. With one process it returns immediately.

    **Raises:** `ProcessMismatchError` for the first part that differs: `path` names it, `before`
    describes it in process 0, and `after` in the other process. `MissingProcessError` if a process
    does not call this within the timeout, or several run without `jax.distributed`. All processes
    that call this raise the error, so none waits in a collective.
    """
    others = processes()
    count = jax.process_count() if others is None else others.count
    if count == 1:
        return
    if others is None:
        raise MissingProcessError(
            f"{_NAME} compares {count} processes through the coordinator of jax.distributed, "
            "which was not initialized.",
            "Call jax.distributed.initialize() when the program starts.",
        )
    parts = Description(spec_or_model).parts
    compare = _lead if others.index == 0 else _follow
    missing, differences = compare(others, next(_calls), parts, timeout)
    if missing:
        who = f"Process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        raise MissingProcessError(
            f"{who} did not call {_NAME} within {timeout:g} seconds.",
            "Call it at the same place in every process, or pass a longer timeout.",
        )
    if differences:
        (index, (path, before, after)), *more = differences.items()
        also = f" Other processes differ: {', '.join(other for other, _ in more)}." if more else ""
        raise ProcessMismatchError(
            f"{path} is {before} in process 0, and {after} in process {index}.{also}",
            "Build it in every process from the same source, configuration and seed.",
            path=path,
            before=before,
            after=after,
        )


# --- the exchange -------------------------------------------------------------------------------

_Parts = dict[str, str]  # the texts of parts, by path
_KEY = "canonopt/same"  # the start of all keys in the store; the number of the call follows
_MARGIN = 5  # further seconds, after the timeout, that the others wait for the verdict


# The result, which process 0 sends to the others: the indices of missing processes, and a dict. It
# maps the index of a process that differs to a path, and the texts in process 0 and that process.
_Verdict = tuple[list[int], dict[str, tuple[str, str, str]]]


def _lead(others: Processes, call: int, parts: _Parts, timeout: float) -> _Verdict:
    """Publish process 0's parts, collect the others' results, send the verdict and return it."""
    key, until = f"{_KEY}/{call}", time.monotonic() + timeout
    others.set(f"{key}/parts", zlib.compress(json.dumps(parts).encode()))
    while True:
        found = others.below(f"{key}/found")
        if len(found) == others.count - 1 or time.monotonic() > until:
            break
        time.sleep(0.01)
    results = {index: json.loads(found[index]) for index in sorted(found, key=int)}
    missing = [index for index in range(1, others.count) if str(index) not in results]
    verdict = missing, {i: result for i, result in results.items() if result is not None}
    if not missing:  # all have called, so none still reads the keys of the previous call
        others.delete(f"{_KEY}/{call - 1}")
    others.set(f"{key}/verdict", json.dumps(verdict).encode())
    return verdict


def _follow(others: Processes, call: int, parts: _Parts, timeout: float) -> _Verdict:
    """Compare `parts` with those of process 0, send the result, and return process 0's verdict."""
    key = f"{_KEY}/{call}"
    published = others.get(f"{key}/parts", timeout)
    if published is None:
        return [0], {}
    differences = differing(json.loads(zlib.decompress(published)), parts)
    found = next(((path, *texts) for path, texts in differences.items()), None)
    others.set(f"{key}/found/{others.index}", json.dumps(found).encode())
    verdict = others.get(f"{key}/verdict", timeout + _MARGIN)
    return ([0], {}) if verdict is None else json.loads(verdict)


# --- what is in a value -------------------------------------------------------------------------

_MAX_PARTS = 100_000  # further parts are not compared
_MAX_SHOWN = 200  # maximum number of characters of a text; a hash follows a text that is cut

_Named = Iterable[tuple[str, Any]]


class Description:
    """Texts of a value's parts, by path: outer parts first, in the order of fields and items.

    A part's path is the path of the value that holds the part, then a step such as `.mask` or
    `[1]`, or a colon and the name of the part: `args[1].mask: captured variable 'x'`.
    """

    def __init__(self, value: Any, taken_apart: Mapping[int, Any] = {}) -> None:
        self.parts: _Parts = {}
        # Values that were taken apart, by id. They stay alive, so no new object gets their ids.
        self._taken_apart = dict(taken_apart)
        self._add("", value)

    def _add(self, path: str, value: Any) -> None:
        if len(self.parts) >= _MAX_PARTS:
            return
        text, parts = self._described(value)
        if len(text) > _MAX_SHOWN:
            text = f"{text[:_MAX_SHOWN]}... ({_digest(text.encode())})"
        name = path.removeprefix(".") or "spec_or_model"
        # Texts are joined if a class and its base both have a method of this name.
        self.parts[name] = f"{self.parts[name]}, {text}" if name in self.parts else text
        if id(value) not in self._taken_apart:
            self._taken_apart[id(value)] = value
            for name, part in parts:
                step = name if name[0] in ".[" else f"{': ' * bool(path)}{name}"
                self._add(path + step, part)

    def _described(self, value: Any) -> tuple[str, _Named]:
        """Return the text of a value, and its parts, each with its name."""
        kind = type(value)
        if (text := _text_of_whole(value)) is not None:
            return text, ()
        if isinstance(value, Configured):
            factory = internals_of(value).factory
            own = [("factory", function) for function in factory.held]
            named = [(f".{name}", part) for name, part in value.parameters().items()]
            return factory.expression, own + named
        if isinstance(value, type):
            return f"class {_name(value)}", _methods(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, functools.partial | types.MethodType | Jitted):
            known: Any = kind_of(value)
            options = [("options", jit_options(value))] if isinstance(value, Jitted) else []
            return f"a {kind.__name__}", [*known.items(value), *options]
        if isinstance(value, set | frozenset):
            # The order of a set depends on the hash seed, so sort.
            items = sorted(str(Description(item, self._taken_apart).parts) for item in value)
            return f"{kind.__name__} of {len(items)}: {', '.join(items)}", ()
        if isinstance(value, Mapping):
            text = f"{kind.__name__} with keys {', '.join(map(text_of, value))}"
            return text, [(f"[{text_of(key)}]", item) for key, item in value.items()]
        if isinstance(value, list | tuple):
            items = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)
            steps = [f".{name}" for name in getattr(kind, "_fields", ())]
            steps = steps or [f"[{i}]" for i in range(len(value))]
            return f"{kind.__name__} of length {len(value)}", zip(steps, items, strict=True)
        # If a library's class defines `==`, the text may show what `==` compares, as for a dtype.
        is_plain = is_library_class(kind) and kind.__eq__ is not object.__eq__
        text = text_of(value) if is_plain and not fields_of(kind) else f"a {_name(kind)}"
        return text, [*_methods(kind), *_attributes(value)]

    def _function(self, function: types.FunctionType) -> tuple[str, _Named]:
        inner = noted(function, "__canonical_original__") or noted(function, "__canonical_owner__")
        if "__beartype_func" in (function.__kwdefaults__ or {}):  # beartype puts ids into names
            inner = vars(function).get("__wrapped__")
        if inner is not None:
            return self._described(inner)
        code = _digest(repr(content_of_code(function.__code__)).encode())
        parts = [*closure_items(function)]
        if not is_library_function(function):
            namespace = function.__globals__
            names = (name for name in code_of(function).globals if name in namespace)
            parts += [(f"global {name!r}", namespace[name]) for name in names]
        return f"function {_name(function)} with code {code}", parts


def _text_of_whole(value: Any) -> str | None:
    """Return the text of a value without parts; `None` for any other value."""
    if type(value) in PLAIN or isinstance(value, Dynamic):
        return repr(value)
    if isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return _array(value)
    if isinstance(value, Sharding | Mesh):
        return sharding_text(value)
    if isinstance(value, jax.Device):
        return f"a device of kind {value.device_kind}"
    if isinstance(value, enum.Enum):
        return f"{_name(type(value))}.{value.name}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    is_known = callable(value) and not isinstance(value, type) and is_stable(value)
    return f"function {_name(value)}" if is_known else None


def _methods(kind: type) -> _Named:
    """Yield the user's methods of a class and its bases; of special methods, only `__call__`."""
    for base in kind.__mro__:
        for name in () if is_library_class(base) else vars(base):
            method = getattr(base, name, None)
            method = method.fget if isinstance(method, property) else method
            is_called = name == "__call__" or not is_dunder(name)
            if is_called and isinstance(method, types.FunctionType):
                yield f"method {name!r}", method


def _attributes(value: Any) -> _Named:
    kind = type(value)
    if is_library_class(kind) and not callable(value) and jtu.all_leaves([value]):
        return  # its attributes may differ between processes, as a logger's do
    slots = ((slot.__name__, part) for slot, part in slots_of(value))
    for name, part in (*slots, *attributes_of(value).items()):
        # A cached property may have been computed in some processes only.
        is_cached = isinstance(getattr(kind, name, None), functools.cached_property)
        if part is not UNBOUND and not is_cached:
            yield f".{name}", part


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
    is_struct = isinstance(value, jax.ShapeDtypeStruct)
    if is_struct or not (value.is_fully_addressable or value.is_fully_replicated):
        return text
    is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return f"{text} {_values(jax.random.key_data(value) if is_key else value)}"


def _values(array: Any) -> str:
    values: Any = np.asarray(array)
    if values.dtype.hasobject:
        return f"of {text_of(values.tolist())}"
    if not values.shape:
        return f"of {values}"
    return f"with {_digest(np.ascontiguousarray(values).view(np.uint8).data)}"
