"""Specs as plain data: for JSON, YAML and TOML files, run logs and sweeps.

`to_config` writes the data, `from_config` reads them: from a spec to plain data and back, by one
table of codecs. `fingerprint` and `diff` compare specs and stored data. `register_hooks` and
`pydantic_schema` have cattrs and pydantic, neither of which is imported before, write and read
specs.

A spec is a table with the name of its factory and all of its parameters:

    {"optax": "adamw", "learning_rate": 0.001, ..., "mask": {"none": True}}

`"canonical"` stands in place of `"optax"` for a factory of the user's. Numbers, strings, lists and
tables stand for themselves, and a table with the keys of a `Codec` for another value. JSON, YAML
and TOML agree on strings, finite numbers, booleans, lists and tables only: TOML has no null, and
PyYAML and tomli-w write the keys of a table in an order of their own.
"""

import difflib
import functools
import hashlib
import itertools
import json
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._identity import hoist, is_namedtuple
from .._optax_compat import is_transformation
from ..errors import CanonoptError, ConfigError, ConfigWarning
from .builders import catalogue
from .dynamic_number import Dynamic
from .dynamic_spec import dynamic
from .factory import Factory, factory_of
from .spec import Configured, internals_of

if TYPE_CHECKING:
    from cattrs import Converter
    from pydantic_core import CoreSchema

# --- the table of codecs --------------------------------------------------------------------------

Data: TypeAlias = bool | int | float | str | list["Data"] | dict[str, "Data"]


class Name(str):
    """The name of an object, in the example of a `Codec`."""


class Codec(NamedTuple):
    """How values of one kind are written and read.

    - `example`: a table that stands for a value. Others have the same keys and types, but whatever
        can be written in place of a number.
    - `test`: returns True for a value of this kind.
    - `write`: returns what the key of the table holds for a value, or a tuple of what each holds.
        This is written as other values are, or by its name.
    - `read`: returns the value for what the keys hold. May raise any error.
    """

    example: dict[str, Any]
    test: Callable[[Any], bool]
    write: Callable[[Any], Any]
    read: Callable[..., Any]


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is kind


def _is_known(value: Any) -> bool:
    """Return True for a dynamic number that is neither traced nor taken out of its spec."""
    return isinstance(value, Dynamic) and not isinstance(value.numbers(), Dynamic | None)


def _jax_type(name: str) -> Any:
    return getattr(jnp, np.dtype(name).name)


def _scalar(name: str, value: Any) -> Any:
    made = _jax_type(name).dtype.type(value)
    if made != value and made.dtype.kind in "biu":
        raise ValueError(f"the number does not fit {name}")
    return made


def _not_finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        raise ValueError(f"{text} is a number itself")
    return value


def _dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    if len(made := dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _namedtuple(kind: Any, fields: dict[str, Any]) -> Any:
    if not is_namedtuple(kind) or fields.keys() != {*kind._fields}:
        raise TypeError("this is not the class, or these are not its fields")
    return tuple.__new__(kind, [fields[name] for name in kind._fields])


# The first whose test a value passes writes it, of those with names if the object has one.
CODECS = (
    Codec({"none": True}, _is(type(None)), lambda value: True, {True: None}.__getitem__),
    Codec({"float": "nan"}, _is(float), repr, _not_finite),
    Codec({"tuple": [1, 2]}, _is(tuple), list, tuple),
    Codec({"set": [1, 2]}, _is(set), list, set),
    # A dict whose order or keys a table would not keep. The writer needs the keys for the paths.
    Codec({"dict": [["key", 1]]}, lambda value: False, list, _dict),
    Codec({"dynamic": 0.001}, _is_known, Dynamic.numbers, dynamic),
    Codec(
        {"scalar": "float32", "value": 1.0},
        lambda value: isinstance(value, np.generic) and hasattr(jnp, value.dtype.name),
        # NumPy has no Python numbers for bfloat16 and others that it does not know.
        lambda v: (v.dtype.name, v.item() if v.dtype.kind in "biufc" else float(v)),
        _scalar,
    ),
    Codec({"dtype": "bfloat16"}, _is(type(jnp.float32)), lambda kind: kind.dtype.name, _jax_type),
    Codec({"name": Name("my_mask")}, lambda value: True, lambda value: value, lambda value: value),
    Codec(
        {"namedtuple": Name("train:Size"), "fields": {"height": 1}},
        lambda value: is_namedtuple(type(value)) and not is_transformation(value),
        lambda value: (type(value), dict(sorted(zip(value._fields, value, strict=True)))),
        _namedtuple,
    ),
)
_BY_KEYS = {frozenset(codec.example): codec for codec in CODECS}
# The default of Optax, where that is an object without a name.
_DEFAULT = {"default": True}
# `diff` has "unnamed" for what has no name.
RESERVED = frozenset(
    (*(next(iter(c.example)) for c in CODECS), "canonical", "optax", "default", "unnamed")
)


# --- names ----------------------------------------------------------------------------------------


class _Names:
    """The names that data may have: those of Optax, and of a registry that the caller passes.

    Reading looks names up here and nowhere else, so that data cannot import or run anything.
    """

    def __init__(self, registry: Mapping[str, Any] | None) -> None:
        if not isinstance(registry, Mapping | None):
            problem = f"The registry is {registry!r}, which is not a mapping of names to objects."
            raise ConfigError(problem, "Write registry={'is_matrix': is_matrix}.")
        self._registry = {**(registry or {})}
        self._own = {id(value): name for name, value in reversed(self._registry.items())}
        self._objects = {_qualified_name(v): v for v in self._registry.values()} | self._registry

    def of(self, value: Any) -> str | None:
        """Return the name of an object, None if it does not have one."""
        # `hoist` returns one object for all functions that do the same.
        same = hoist(value) if type(value) is types.FunctionType else value
        functions = {n: f for n, f in self._registry.items() if type(f) is types.FunctionType}
        alike = (name for name, known in functions.items() if hoist(known) is same)
        name = self._own.get(id(value)) or _known_names().get(id(value))
        return name or next(alike, None) or _qualified_name(value)

    def of_factory(self, factory: Factory) -> tuple[str, str | None]:
        """Return `"optax"` or `"canonical"`, and the name of a factory, None if it has none."""
        room, _, name = _known_names().get(id(factory.builder), "").partition(":")
        if room == "canonopt":
            return "optax", name
        return "canonical", self.of(factory.builder) or _qualified_name(factory.function)

    def find(self, name: Any, path: str) -> Any:
        """Return the object of this name. Raises `ConfigError` if it is unknown."""
        what = "a name of Optax or in the registry"
        return _found(name, _known_objects() | self._objects, path, what)

    def find_factory(self, name: Any, path: str, key: str) -> Factory:
        """Return the factory of this name, under `"optax"` or `"canonical"` in the data."""
        if key == "optax":
            what = f"a factory of Optax {optax.__version__}"
            return vars(_found(name, catalogue(), path, what))["factory"]
        named = {n: f for n, v in self._objects.items() if (f := factory_of(v)) is not None}
        of_functions = {_qualified_name(f.function): f for f in named.values()}
        return _found(name, of_functions | named, path, "a factory in the registry")


def _found(name: Any, known: Mapping[Any, Any], path: str, what: str) -> Any:
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), filter(None, known), n=1)
    fix = f"Import it, and write canonopt.from_config(data, registry={{{name!r}: ...}})."
    fix = f"Did you mean {near[0]!r}?" if near else fix
    problem = f"{path} is {name!r}, which is not {what}. Names in data are not imported."
    raise ConfigError(problem, fix, path=path)


def _qualified_name(value: Any) -> str | None:
    """Return `"module:qualname"`, if that is where the object is."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    # A private name of Optax may move.
    return f"{module}:{name}" if found is value and not module.startswith("optax._") else None


@functools.cache
def _known_objects() -> dict[Any, Any]:
    """Return Optax's public functions and classes, canonopt's factories, and types of numbers."""
    numbers = bool, int, float, complex, *(np.dtype(code).type for code in "?bhilqBHILQefdFD")
    found: dict[Any, Any] = {f"{kind.__module__}:{kind.__name__}": kind for kind in numbers}
    # `optax.tree_utils` has other names for what `optax.tree` has.
    modules = [m for m in vars(optax).values() if isinstance(m, types.ModuleType)]
    for module in (optax, optax.tree, *modules):
        for name, value in vars(module).items():
            owner = getattr(value, "__module__", None) if callable(value) else None
            if name[0] != "_" and str(owner).startswith("optax."):
                found.setdefault(f"{module.__name__}:{name}", value)
    return found | {f"canonopt:{name}": builder for name, builder in catalogue().items()}


@functools.cache
def _known_names() -> dict[int, str]:
    # The first name of an object: `optax:adam`, not that of the module where it is too.
    return {id(value): name for name, value in reversed(_known_objects().items())}


# --- writing --------------------------------------------------------------------------------------


class _Writer:
    """Writes values, with the names in a registry.

    With `compares`, it also writes what has no name, for a comparison in this process.
    """

    def __init__(self, registry: Mapping[str, Any] | None, compares: bool = False) -> None:
        self._names, self._compares = _Names(registry), compares

    def value(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.value(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if kind is dict:
            table = {key: self.value(item, f"{path}[{key!r}]") for key, item in value.items()}
            if list(table) == sorted(k for k in table if type(k) is str and k not in RESERVED):
                return table
            return {"dict": [[self.value(key, path), item] for key, item in table.items()]}
        if isinstance(value, Configured):
            return self._spec(internals_of(value).factory, value.parameters(), path)
        for codec in CODECS:
            if codec.test(value) and (table := self._table(codec, value, path)) is not None:
                return table
        return self._unnamed(value, path)

    def _table(self, codec: Codec, value: Any, path: str) -> dict[str, Data] | None:
        """Return the table that stands for a value; None if an object in it has no name."""
        parts, table = codec.write(value), {}
        parts = parts if len(codec.example) > 1 else [parts]
        for (key, example), part in zip(codec.example.items(), parts, strict=True):
            is_name = type(example) is Name
            table[key] = self._names.of(part) if is_name else self.value(part, path)
            if table[key] is None:
                return None
        if type(value) is set:  # whose order depends on the process
            table["set"].sort(key=repr)
        return table

    def _spec(self, factory: Any, parameters: dict[str, Any], path: str) -> dict[str, Data]:
        """Return the table of what a factory builds with these parameters."""
        if factory.made_by is not None:  # inject_hyperparams(optax.adam)
            outer, given = factory.made_by
            key, name = "optax", self._spec(outer, given, f"{path}.optax")
        else:
            key, name = self._names.of_factory(factory)
        if name is None:
            self._unnamed(factory.function, path)  # raises, unless this is for a comparison
            name = f"{factory.module}:{factory.name} at {id(factory):#x}"
        table: dict[str, Any] = {key: name}
        signature = factory.signature
        for name, value in parameters.items():
            where = f"{path}.{name}"
            if name == key:
                raise ConfigError(f"{where} has the key of the factory.", "Rename it.", path=where)
            is_default = value is signature.defaults.get(name) and self._names.of(value) is None
            if is_default and (callable(value) or is_transformation(value)):
                table[name] = _DEFAULT
            else:
                table[name] = self.value([*value] if name == signature.variadic else value, where)
        return table

    def _unnamed(self, value: Any, path: str) -> dict[str, Data]:
        if self._compares:
            return {"unnamed": repr(value), "id": id(value)}
        named = "canonopt.to_config(spec, registry={'x': ...})"
        fix = f"Define it in a module, or give it a name: {named}."
        if is_transformation(value):
            fix = "Build it with canonopt."
        elif isinstance(value, Dynamic | jax.Array | np.ndarray):
            fix = "Write canonopt.dynamic(...) of Python numbers, outside of jax.jit."
        raise ConfigError(f"{path} is {value!r}, which has no name in data.", fix, path=path)


# --- reading --------------------------------------------------------------------------------------


class _Reader:
    """Reads values, which another version of Optax may have written."""

    def __init__(self, registry: Mapping[str, Any] | None) -> None:
        self._names = _Names(registry)
        # Paths of parameters that are not in the data, and are as in the installed Optax.
        self.as_installed: list[str] = []

    def value(self, data: Any, path: str) -> Any:
        match data:
            case list():
                return [self.value(item, f"{path}[{i}]") for i, item in enumerate(data)]
            case {"canonical": name, **written}:
                return self._spec("canonical", name, written, path)
            case {"optax": name, **written}:
                return self._spec("optax", name, written, path)
            case dict() if codec := _BY_KEYS.get(frozenset(data)):
                fix = f"Write it as in {_text(codec.example)}."
                items = codec.example.items()
                parts = [self._part(example, data[key], path, fix) for key, example in items]
                return _called(codec.read, parts, next(iter(codec.example)), fix, path)
            case dict() if reserved := sorted(RESERVED & data.keys()):
                raise ConfigError(
                    f"{path} is {_text(data)}, and {reserved[0]!r} stands for something else.",
                    f'For a dict with it, write pairs: {{"dict": [["{reserved[0]}", ...]]}}.',
                    path=path,
                )
            case dict():
                return {key: self.value(data[key], f"{path}[{key!r}]") for key in sorted(data)}
        return data

    def _part(self, example: Any, data: Any, path: str, fix: str) -> Any:
        """Return what a table of a codec has in place of `example`."""
        if type(example) is Name:
            return self._names.find(data, path)
        part = self.value(data, path)
        if type(example) not in (float, type(part)):
            problem = f"{path} has {_text(data)} in place of {_text(example)}."
            raise ConfigError(problem, fix, path=path)
        return part

    def _spec(self, key: str, name: Data, written: dict[str, Any], path: str) -> Any:
        made = self.value(name, path) if isinstance(name, dict) else None
        # What `inject_hyperparams(optax.adam)` made, or one with a name.
        factory = factory_of(made) or self._names.find_factory(name, f"{path}.{key}", key)
        missing = (name for name in factory.signature.defaults if name not in written)
        self.as_installed += [f"{path}.{name}" for name in missing]
        named = {name: data for name, data in written.items() if data != _DEFAULT}
        given = {name: self.value(data, f"{path}.{name}") for name, data in named.items()}
        return _called(factory.from_fields, [given], factory.name, "Correct its parameters.", path)


def _called(
    function: Callable[..., Any], args: Sequence[Any], name: str, fix: str, path: str
) -> Any:
    """Return what a function returns. Its errors have the path."""
    try:
        return function(*args)
    except CanonoptError as error:
        where = f"{path}.{error.path}" if error.path else path
        raise ConfigError(f"{where}: {error.problem}", error.fix, path=where) from error
    except Warning:  # which the user has made an error
        raise
    except Exception as error:  # a factory may raise anything
        problem = f"{path}: {name} raised {type(error).__name__}: {error}."
        raise ConfigError(problem, fix, path=path) from error


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


# --- from a spec to data and back -----------------------------------------------------------------


def to_config(
    spec: Configured, *, registry: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Data]]:
    """Return a spec as plain data, for a JSON, YAML or TOML file.

    All parameters are written, defaults included, so that another default in a later version of
    Optax does not change a stored run.

    **Arguments:**

    - `spec`: a spec or a schedule, made by a function of canonopt.
    - `registry`: names of functions, and of other objects that are not plain data. A function at
        the top level of a module needs none: its name is `module:qualname`.

    **Returns:** a dict of dicts, lists, strings, booleans and finite numbers.

    **Raises:** `ConfigError` for a value that has no name, such as a lambda.
    """
    if not isinstance(spec, Configured):
        raise ConfigError(
            f"canonopt.to_config needs a spec, and got {spec!r}.",
            "Build it with canonopt, for example canonopt.adam(1e-3): what Optax builds does not "
            "know its parameters.",
        )
    versions: dict[str, Data] = {"format": 1, "optax": optax.__version__}
    return {"canonopt": versions, "spec": _Writer(registry).value(spec, "spec")}


def from_config(data: Mapping[str, Any], *, registry: Mapping[str, Any] | None = None) -> Any:
    """Return the spec that `to_config` wrote as `data`: the same object.

    Reading imports nothing that the data name, and calls nothing but factories: those of the
    catalogue, and those of `canonopt.canonical` in the registry.

    **Arguments:**

    - `data`: what `to_config` returned, also after a JSON, YAML or TOML file.
    - `registry`: the objects that names in the data stand for, such as masks and the factories of
        `canonopt.canonical`. An object that is at the top level of a module is also found by
        `module:qualname`, whatever its name in the registry.

    **Returns:** a `canonopt.Spec` or a `canonopt.ScheduleSpec`.

    **Raises:** `ConfigError` for unknown names, wrong types and extra keys, with the path in the
    data. Parameters that are missing, since another version of Optax lacks them, have their
    defaults, and a `ConfigWarning` lists them.
    """
    table, reader = _enveloped(data), _Reader(registry)
    written = table["canonopt"]["optax"]
    versions = f"Optax {written} wrote the data, and {optax.__version__} reads it."
    try:
        spec = reader.value(table["spec"], "spec")
    except ConfigError as error:
        if written != optax.__version__:
            error.add_note(versions)
        raise
    if reader.as_installed:
        warnings.warn(
            f"{versions} These are as in the installed one: {', '.join(reader.as_installed)}. "
            "Write the spec with canonopt.to_config again to keep what they are now.",
            ConfigWarning,
            stacklevel=2,
        )
    return spec


# --- data of libraries ---------------------------------------------------------------------------


def _enveloped(data: Any) -> dict[str, Any]:
    """Return `data` in Python's own types. Raises `ConfigError` if they are not those of a spec."""
    match table := _plain(data, "data"):
        case {"canonopt": {"format": 1, "optax": str()}, "spec": spec} if (
            len(table) == 2 and isinstance(spec, dict) and {"optax", "canonical"} & spec.keys()
        ):
            return table
    raise ConfigError(
        f"The data need the keys canonopt and spec, and format 1, and are {_text(table)}.",
        "Write what canonopt.to_config returns, or install the version of canonopt that did.",
    )


def _plain(data: Any, path: str) -> Any:
    """Return data in Python's own types: libraries have classes of their own for what they read."""
    if data is None:  # JSON and YAML have it
        return {"none": True}
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    if hasattr(data, "keys"):  # as `dict` asks: an `ml_collections.ConfigDict` is no `Mapping`
        items = [[_plain(key, path), _plain(data[key], f"{path}.{key}")] for key in data]
        return dict(items) if all(type(key) is str for key, _ in items) else {"dict": items}
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray):
        return [_plain(item, f"{path}[{i}]") for i, item in enumerate(data)]
    fix = "Write a number, a string, a boolean, a list or a table."
    raise ConfigError(f"{path} is {data!r}, a {type(data).__name__}.", fix, path=path)


# --- fingerprints ---------------------------------------------------------------------------------


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
    text = _exact(_data_of(spec, _Writer(registry)), dynamic)
    return hashlib.sha256(text.encode()).hexdigest()


def _data_of(spec: Any, writer: _Writer) -> Data:
    """Return the data of a spec, or what stored data have for it."""
    is_spec = isinstance(spec, Configured)
    return writer.value(spec, "spec") if is_spec else _enveloped(spec)["spec"]


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
    writer = _Writer(registry, compares=True)
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


# --- hooks ----------------------------------------------------------------------------------------


def register_hooks(converter: "Converter", *, registry: Mapping[str, Any] | None = None) -> None:
    """Have a cattrs converter write and read specs, as `to_config` and `from_config` do.

    It serves attrs classes and dataclasses with fields of the types `canonopt.Spec` and
    `canonopt.ScheduleSpec`.

    **Arguments:**

    - `converter`: a `cattrs.Converter`. canonopt does not need cattrs otherwise.
    - `registry`: as for `to_config` and `from_config`.
    """

    def is_spec(cls: Any) -> bool:
        return isinstance(cls, type) and issubclass(cls, Configured)

    converter.register_structure_hook_func(is_spec, lambda data, cls: _spec(data, cls, registry))
    converter.register_unstructure_hook_func(is_spec, lambda s: to_config(s, registry=registry))


def pydantic_schema(cls: type[Configured]) -> "CoreSchema":
    """Return how pydantic validates and writes a field of this type, as cattrs would.

    The context of a call may have a `registry`.
    """
    from pydantic_core import core_schema

    def registry_of(info: Any) -> Any:
        return (info.context or {}).get("registry")

    table = core_schema.dict_schema()
    return core_schema.with_info_plain_validator_function(
        lambda data, info: _spec(data, cls, registry_of(info)),
        json_schema_input_schema=table,
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda spec, info: to_config(spec, registry=registry_of(info)),
            info_arg=True,
            return_schema=table,
        ),
    )


def _spec(data: Any, cls: type, registry: Mapping[str, Any] | None) -> Any:
    """Return the `cls` that `data` are, or that was written as them."""
    spec = from_config(data, registry=registry) if hasattr(data, "keys") else data
    if isinstance(spec, cls):
        return spec
    problem = f"spec is {spec!r}, and a {cls.__name__} is needed."
    raise ConfigError(problem, "Build one with canonopt, or write the data of one.", path="spec")
