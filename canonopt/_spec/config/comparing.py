"""Digests of specs and differences between them, from their data."""

import difflib
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import jax

from ..spec import Configured
from .codecs import RESERVED, Data, Writer
from .files import enveloped


def fingerprint(
    spec: Configured | Mapping[str, Any],
    *,
    dynamic: bool = True,
    registry: Mapping[str, Any] | None = None,
) -> str:
    """Return a digest of a spec that is the same in every process, on every host, in every run.

    It is the SHA-256 of the data that `to_config` writes, without the version of Optax. Functions
    count by their names, not by what they do.

    **Arguments:**

    - `spec`: a spec, or what `to_config` returned.
    - `dynamic`: whether the values of `canonopt.dynamic` count. Without them, specs that share a
        compiled program have the same fingerprint.
    - `registry`: names of functions, as for `to_config`.

    **Returns:** 64 hexadecimal digits.

    **Raises:** `ConfigError` for a function without a name.
    """
    text = _exact(_data_of(spec, Writer(registry)), dynamic)
    return hashlib.sha256(text.encode()).hexdigest()


def _data_of(spec: Any, writer: Writer) -> Data:
    """Return the data of a spec, or what stored data have for it."""
    is_spec = isinstance(spec, Configured)
    return writer.value(spec, "spec") if is_spec else enveloped(spec)["spec"]


def _exact(data: Data, with_values: bool = True) -> str:
    """Return data as JSON, with all the bits of floats, whatever writes JSON."""
    data = _with_bits(data, with_values)
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _with_bits(data: Data, with_values: bool) -> Data:
    match data:
        case float():
            return {"float": data.hex()}
        case list():
            return [_with_bits(item, with_values) for item in data]
        case {"dynamic": value} if len(data) == 1 and not with_values:
            value = _with_bits(value, True)  # a program depends on the types of these
            return {"dynamic": jax.tree.map(lambda number: type(number).__name__, value)}
        case dict():
            return {name: _with_bits(item, with_values) for name, item in data.items()}
    return data


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
        return f"{self.path or 'spec'}: {_described(self.before)} -> {_described(self.after)}"


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
    """Return what differs between two specs, by path: lines for a run log.

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
    - `registry`: names of functions, as for `to_config`. Others are the same if they are one
        object, as those of specs are that canonopt has merged.

    **Returns:** a tuple of `Difference`s. Its text has a line for each.
    """
    writer = Writer(registry, compares=True)
    return Differences(_differences(_data_of(a, writer), _data_of(b, writer), ""))


def _differences(before: Data, after: Data, path: str) -> Iterator[Difference]:
    pairs = _pairs(before, after)
    if pairs is None and _exact(before) != _exact(after):
        yield Difference(path, before, after)
    for step, old, new in pairs or ():
        where = f"{path}{step}".removeprefix(".")
        if old is None or new is None:
            yield Difference(where, old, new)
        else:
            yield from _differences(old, new, where)


def _pairs(before: Data, after: Data) -> list[tuple[str, Data | None, Data | None]] | None:
    """Return the parts that stand for each other, with the step of a path to them.

    None if the data are compared as a whole.
    """
    if isinstance(before, list) and isinstance(after, list):
        kinds = [[_taken_apart(item)[0] for item in items] for items in (before, after)]
        pairs = []
        for _, a, b, c, d in difflib.SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
            for i, j in itertools.zip_longest(range(a, b), range(c, d)):
                old, new = None if i is None else before[i], None if j is None else after[j]
                pairs.append((f"[{i if j is None else j}]", old, new))
        return pairs
    (kind, old), (other, new) = map(_taken_apart, (before, after))
    # The order of the pairs of a dict counts, that of a table does not.
    is_moved = kind == "dict" and [s for s in old if s in new] != [s for s in new if s in old]
    if kind != other or is_moved or not (old or new):
        return None
    return [(step, old.get(step), new.get(step)) for step in {**old, **new}]


def _taken_apart(data: Any) -> tuple[str, dict[str, Data]]:
    """Return the kind of `data`, and its parts by the step of a path to each."""
    match data:
        case {"tuple": list(items)}:
            return "tuple", {"": items}
        case {"dict": list(pairs)} if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return "dict", {f"[{_described(key)}]": item for key, item in pairs}
        case {"canonical": name, **parts} | {"optax": name, **parts}:
            return _exact(name), {f".{name}": item for name, item in parts.items()}
        case dict() if RESERVED.isdisjoint(data):
            return "table", {f"[{name!r}]": item for name, item in data.items()}
    return type(data).__name__, {}


def _described(data: Data | None) -> str:
    """Return short text for data: a call for a spec, names, and JSON for anything else."""
    match data:
        case None:
            return "nothing"
        case {"canonical": str(name), **parts} | {"optax": str(name), **parts}:
            return f"{name}({', '.join(f'{n}={_described(item)}' for n, item in parts.items())})"
        case {"unnamed": text} | {"name": text} | {"dtype": text} | {"float": text}:
            return str(text)
    return {'{"none": true}': "None", "true": "True", "false": "False"}.get(
        text := json.dumps(data, ensure_ascii=False), text
    )
