"""Digests of specs and differences between them, from their data."""

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..builders import catalogue, factory_behind
from ..spec import Configured
from .form import RESERVED, Data, factory_key, parameters_in, step
from .names import Names
from .reading import checked_envelope
from .writing import LenientWriter, Writer

# --- fingerprints ---------------------------------------------------------------------------------


def fingerprint(
    spec: Configured | Mapping[str, Any],
    *,
    dynamic: bool = True,
    registry: Mapping[str, Any] | None = None,
) -> str:
    """A digest of a spec that is the same in every process, on every host and in every run.

    ```python
    >>> import canonopt
    >>> a, b = (canonopt.adam(canonopt.dynamic(rate)) for rate in (1e-3, 3e-4))
    >>> canonopt.fingerprint(a) == canonopt.fingerprint(b)
    False
    >>> canonopt.fingerprint(a, dynamic=False) == canonopt.fingerprint(b, dynamic=False)
    True

    ```

    It is the SHA-256 of the data that `to_config` writes, without the version of Optax. Functions
    count by their names, not by what they do.

    **Arguments:**

    - `spec`: a spec, or what `to_config` returned.
    - `dynamic`: whether the values of `canonopt.dynamic` and of arrays count. Without them, specs
        that share a compiled program have the same fingerprint.
    - `registry`: names of functions, as for `to_config`.

    **Returns:** 64 hexadecimal digits.

    **Raises:** `ConfigError` for a function without a name.
    """
    data = _exact(_data_of(spec, Writer(Names(registry))), dynamic)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _data_of(spec: Any, writer: Writer) -> Data:
    """The data of a spec, or what stored data have for it."""
    if isinstance(spec, Configured):
        return writer.spec(spec, "spec")
    return checked_envelope(spec)["spec"]


def _exact(data: Data, with_dynamic: bool) -> Data:
    """`data` with floats as text that has all of their bits, whatever writes JSON."""
    if type(data) is float:
        return {"float": data.hex()}
    if isinstance(data, list):
        return [_exact(item, with_dynamic) for item in data]
    if not isinstance(data, dict):
        return data
    if factory_key(data) is None and not with_dynamic:
        if "dynamic" in data:
            return {"dynamic": _kinds(data["dynamic"])}
        if "values" in data and ("array" in data or "jax_array" in data):
            data = {name: item for name, item in data.items() if name != "values"}
    return {name: _exact(item, with_dynamic) for name, item in data.items()}


def _kinds(data: Data) -> Data:
    """The types of numbers, which a compiled program depends on."""
    if isinstance(data, list):
        return [_kinds(item) for item in data]
    if isinstance(data, dict):  # a float that JSON does not have, or np.float64
        return {"scalar": data["scalar"]} if "scalar" in data else next(iter(data), "")
    return type(data).__name__


# --- differences ----------------------------------------------------------------------------------


@attrs.frozen
class Difference:
    """One difference between two specs.

    - `path`: where it is, as `spec.hyperparameters()` has it. Empty for the specs themselves.
    - `before`, `after`: the data there, as `to_config` writes them; `None` where one spec has
        nothing at this path.
    """

    path: str
    before: Data | None
    after: Data | None

    def __str__(self) -> str:
        before, after = (
            "nothing" if data is None else _described(data) for data in (self.before, self.after)
        )
        return f"{self.path or 'spec'}: {before} -> {after}"


class Differences(tuple[Difference, ...]):
    """The differences between two specs: a tuple that prints one line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def diff(
    a: Configured | Mapping[str, Any],
    b: Configured | Mapping[str, Any],
    *,
    registry: Mapping[str, Any] | None = None,
) -> Differences:
    """What differs between two specs, by path: lines for a run log.

    ```python
    >>> import canonopt
    >>> optim = canonopt.chain(canonopt.clip(1.0), canonopt.adam(1e-3))
    >>> print(canonopt.diff(optim, optim.replace(lr=3e-4)))
    args[1].learning_rate: 0.001 -> 0.0003

    ```

    Parts of a chain that both have are compared with each other, also where one has another part
    before them. The paths are then those in `b`.

    **Arguments:**

    - `a`, `b`: specs, or what `to_config` returned for them.
    - `registry`: names of functions, as for `to_config`. Others are compared as canonopt compares
        functions, and have no name in the output.

    **Returns:** a tuple of `Difference`s. Its text has a line for each.
    """
    writer = LenientWriter(Names(registry))
    return Differences(_differences(_data_of(a, writer), _data_of(b, writer), ""))


def _differences(before: Data, after: Data, path: str) -> Iterator[Difference]:
    if isinstance(before, list) and isinstance(after, list):
        yield from _between_lists(before, after, path)
    elif isinstance(before, dict) and isinstance(after, dict) and _has_same_parts(before, after):
        old, new = _parts(before), _parts(after)
        for below in {**old, **new}:
            where = f"{path}{below}".removeprefix(".")
            if below in old and below in new:
                yield from _differences(old[below], new[below], where)
            else:
                yield Difference(where, old.get(below), new.get(below))
    elif _exact(before, True) != _exact(after, True) or type(before) is not type(after):
        yield Difference(path, before, after)


def _parts(table: dict[str, Any]) -> dict[str, Data]:
    """The parts of a table, by the step of a path that leads to each."""
    if factory_key(table) is not None:
        return {f".{name}": item for name, item in _parameters(table).items()}
    if (items := _items(table)) is not None:
        return {"": items}
    if (pairs := _pairs(table)) is not None:
        return {f"[{_described(key)}]": item for key, item in pairs}
    return {step(name): item for name, item in table.items()}


def _items(table: dict[str, Any]) -> list[Data] | None:
    """The items of a tuple, if the table stands for one."""
    items = table.get("tuple")
    return items if isinstance(items, list) else None


def _pairs(table: dict[str, Any]) -> list[list[Data]] | None:
    """The pairs of a dict, if the table stands for one."""
    pairs = table.get("dict")
    is_dict = isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs)
    return pairs if is_dict else None


def _parameters(table: dict[str, Any]) -> dict[str, Data]:
    """The parameters of a spec in Optax's order, which a file may have changed."""
    parameters, name = parameters_in(table), table.get("optax")
    factory = factory_behind(catalogue.get(name)) if isinstance(name, str) else None
    if factory is None:
        return parameters
    names = [name for name in factory.signature.names if name in parameters]
    return {name: parameters[name] for name in (*names, *parameters)}


def _has_same_parts(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether two tables are compared part by part."""
    if _kind(before) != _kind(after) or _kind(before) == "value":
        return False
    old, new = list(_parts(before)), list(_parts(after))
    # The order of pairs counts, that of a table does not.
    return _kind(before) != "dict" or [p for p in old if p in new] == [p for p in new if p in old]


def _kind(data: Data) -> Any:
    """What two parts have in common that stand for each other: a factory, or a type."""
    if not isinstance(data, dict):
        return type(data).__name__
    if (key := factory_key(data)) is not None:
        return json.dumps(data[key], sort_keys=True)
    if _items(data) is not None:
        return "tuple"
    if _pairs(data) is not None:
        return "dict"
    # Other values, numbers for example, differ as a whole.
    return "value" if RESERVED & data.keys() else "table"


def _between_lists(before: list[Data], after: list[Data], path: str) -> Iterator[Difference]:
    kinds = [[_kind(item) for item in items] for items in (before, after)]
    matcher = difflib.SequenceMatcher(None, *kinds, autojunk=False)
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        both = min(end - start, new_end - new_start)
        for i in range(both):
            where = f"{path}[{new_start + i}]"
            yield from _differences(before[start + i], after[new_start + i], where)
        for i in range(start + both, end):
            yield Difference(f"{path}[{i}]", before[i], None)
        for i in range(new_start + both, new_end):
            yield Difference(f"{path}[{i}]", None, after[i])


def _described(data: Data) -> str:
    """Short text for data: Python source where there is one."""
    if isinstance(data, list):
        return f"[{', '.join(map(_described, data))}]"
    if not isinstance(data, dict):
        return repr(data)
    if (key := factory_key(data)) is not None:
        name = data[key] if isinstance(data[key], str) else _described(data[key])
        given = [f"{name}={_described(item)}" for name, item in _parameters(data).items()]
        return f"{name}({', '.join(given)})"
    if "none" in data:
        return "None"
    if (items := _items(data)) is not None:
        return f"({', '.join(map(_described, items))}{',' * (len(items) == 1)})"
    if "dynamic" in data:
        return f"dynamic({_described(data['dynamic'])})"
    for tag in ("name", "dtype", "float", "unnamed"):
        if tag in data:
            return str(data[tag])
    pairs = _pairs(data) or data.items()
    return f"{{{', '.join(f'{_described(name)}: {_described(item)}' for name, item in pairs)}}}"
