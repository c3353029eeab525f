"""From plain data to a spec. Names in the data are looked up, never imported."""

import warnings
from collections.abc import Mapping
from typing import Any

import optax

from ...errors import CanonoptError, ConfigError, ConfigWarning
from ..factory import Factory
from ..spec import Spec
from .form import (
    DEFAULT,
    FORMAT,
    Data,
    check_type,
    factory_key,
    parameters_in,
    parts,
    plain,
    text_of,
)
from .names import Names, nearest
from .values import ValueReader
from .writing import Writer


def from_config(data: Mapping[str, Any], *, registry: Mapping[str, Any] | None = None) -> Any:
    """The spec that `to_config` wrote as `data`: the same object.

    ```python
    >>> import canonopt
    >>> optim = canonopt.adam(1e-3)
    >>> data = canonopt.to_config(optim)
    >>> canonopt.from_config(data) is optim
    True
    >>> data["spec"]["learning_rate"] = 3e-4
    >>> canonopt.from_config(data)
    canonopt.adam(learning_rate=0.0003)

    ```

    Reading imports nothing that the data name, and calls nothing but factories: those of the
    catalogue, and those of `canonopt.canonical` in the registry. Other names are those of public
    functions of Optax, and of objects in the registry.

    **Arguments:**

    - `data`: what `to_config` returned, also after a JSON, YAML or TOML file.
    - `registry`: the objects that names in the data stand for, such as masks and the factories of
        `canonopt.canonical`. An object that is at the top level of a module is also found by
        `module:qualname`, whatever its name in the registry.

    **Returns:** a `canonopt.Spec` or a `canonopt.ScheduleSpec`.

    **Raises:** `ConfigError` for unknown names, wrong types, missing and extra keys, with the path
    in the data. If another version of Optax wrote the data, for parameters that the installed one
    does not have; it warns with `ConfigWarning` of new ones, which have their defaults.
    """
    names, table = Names(registry), checked_envelope(data)
    reader = _Reader(names, str(table["canonopt"]["optax"]))
    spec, path = table["spec"], "spec"
    if factory_key(spec) is None:
        raise ConfigError(
            "spec is no table with a factory.",
            'Write {"optax": "adam", ...}, with all parameters.',
            path=path,
        )
    reader.compare_versions(spec)
    return reader.spec(spec, path)


def checked_envelope(data: Any) -> dict[str, Any]:
    """`data` in Python's own types, as a table with `canonopt` and `spec`."""
    table = plain(data, "")
    if not isinstance(table, dict) or table.keys() != {"canonopt", "spec"}:
        found = ", ".join(table) if isinstance(table, dict) else repr(table)
        raise ConfigError(
            f"The data need the keys canonopt and spec, and have: {found or 'none'}.",
            'Write what canonopt.to_config returns: {"canonopt": {"format": 1, "optax": '
            f'"{optax.__version__}"}}, "spec": {{...}}}}.',
        )
    versions = table["canonopt"]
    if not isinstance(versions, dict) or versions.keys() != {"format", "optax"}:
        raise ConfigError(
            f"canonopt is {text_of(versions)}, and needs the keys format and optax.",
            f'Write {{"format": {FORMAT}, "optax": "{optax.__version__}"}}.',
            path="canonopt",
        )
    if type(versions["format"]) is not int or versions["format"] != FORMAT:
        raise ConfigError(
            f"canonopt.format is {text_of(versions['format'])}, and this version of canonopt reads "
            f"format {FORMAT}.",
            "Install the version of canonopt that wrote the data: pip install --upgrade canonopt, "
            "if that is a newer one.",
            path="canonopt.format",
        )
    if type(versions["optax"]) is not str:
        raise ConfigError(
            f"canonopt.optax is {text_of(versions['optax'])}, and needs to be a string.",
            f'Write the version of Optax: "{optax.__version__}".',
            path="canonopt.optax",
        )
    return table


class _Reader(ValueReader):
    """Reads specs and values that the Optax of version `written` has written."""

    def __init__(self, names: Names, written: str) -> None:
        super().__init__(names)
        self._written = written
        self._is_other_version = written != optax.__version__

    # --- specs ------------------------------------------------------------------------------------

    def spec(self, table: dict[str, Any], path: str) -> Any:
        factory = self._factory(table, path)
        parameters = parameters_in(table)
        self._check_keys(factory, parameters, path, is_of_optax=factory_key(table) == "optax")
        # In the order of the signature, whatever the order in the file is.
        given = {
            name: self._parameter(factory, name, parameters[name], f"{path}.{name}")
            for name in factory.signature.names
            if name in parameters
        }
        try:
            return factory.from_fields(given)
        except CanonoptError as error:
            where = f"{path}.{error.path}" if error.path else path
            raise ConfigError(f"{where}: {error.problem}", error.fix, path=where) from error
        except Warning:  # which the user has made an error
            raise
        except Exception as error:  # a factory may raise anything
            raise ConfigError(
                f"{path}: {factory.name} raised {type(error).__name__}: {error}.",
                "Correct its parameters.",
                path=path,
            ) from error

    def _factory(self, table: dict[str, Any], path: str) -> Factory:
        key = factory_key(table)
        assert key is not None
        path, reference = f"{path}.{key}", table[key]
        if isinstance(reference, str):
            return self._names.find_factory(key, reference, path, self._written)
        if factory_key(reference) is not None:  # inject_hyperparams(optax.adam)
            made = getattr(self.spec(reference, path), "factory", None)
            if made is not None:
                return made
        raise ConfigError(
            f"{path} is {text_of(reference)}, which is not the name of a factory.",
            'Write its name, such as "adam".',
            path=path,
        )

    def _check_keys(
        self, factory: Factory, parameters: dict[str, Any], path: str, is_of_optax: bool
    ) -> None:
        signature = factory.signature
        for name in parameters:
            if name not in signature.names:
                is_alias = signature.by_keyword.get(name) == "learning_rate"
                near = "Did you mean 'learning_rate'?" if is_alias else ""
                near = near or nearest(name, signature.names)
                raise ConfigError(
                    f"{path}.{name}: {factory.name} has no parameter {name!r}.",
                    f"{near} Its parameters are: {', '.join(signature.names) or 'none'}.".strip(),
                    path=f"{path}.{name}",
                )
        missing = [n for n in signature.names if n not in parameters]
        if is_of_optax and self._is_other_version:  # `compare_versions` has warned
            missing = [n for n in missing if n not in signature.defaults]
        if missing:
            name, what = missing[0], "a value for it"
            if name in signature.defaults:
                default = signature.defaults[name]
                written = Writer(self._names).parameter(factory, name, default, path)
                what = f"its default: {text_of({name: written})}"
            raise ConfigError(
                f"{path} lacks {', '.join(missing)} of {factory.name}.",
                f"Write all parameters. For {name}, write {what}.",
                path=f"{path}.{name}",
            )

    def _parameter(self, factory: Factory, name: str, data: Data, path: str) -> Any:
        signature = factory.signature
        if data == DEFAULT and name in signature.defaults:
            return signature.defaults[name]
        if name == signature.variadic and not isinstance(data, list):
            raise ConfigError(
                f"{path} is {text_of(data)}, and {factory.name} takes any number of them.",
                "Write a list.",
                path=path,
            )
        value = self.value(data, path)
        check_type(factory, name, value if isinstance(value, Spec) else data, path)
        return value

    # --- another version of Optax -----------------------------------------------------------------

    def compare_versions(self, table: dict[str, Any]) -> None:
        """Says which parameters another version of Optax has, and which it does not have."""
        if not self._is_other_version:
            return
        gone: list[str] = []
        new: list[str] = []
        defaults: list[str] = []
        self._compare(table, "spec", gone, new, defaults)
        versions = f"written with Optax {self._written}, and {optax.__version__} is installed"
        if gone:
            raise ConfigError(
                f"The data were {versions}, which does not have: {', '.join(gone)}.",
                f'Write: pip install "optax=={self._written}", or take these keys out of the data '
                "if they have no effect there.",
                path=gone[0],
            )
        found = []
        if new:
            found.append(f"New parameters have their defaults: {', '.join(new)}.")
        if defaults:
            found.append(f"Defaults that are functions may differ: {', '.join(defaults)}.")
        if found:
            warnings.warn(
                f"The data were {versions}. {' '.join(found)} Write them with canonopt.to_config "
                "again to keep what they are now.",
                ConfigWarning,
                stacklevel=3,
            )

    def _compare(
        self, data: Data, path: str, gone: list[str], new: list[str], defaults: list[str]
    ) -> None:
        for where, part in parts(data, path):
            self._compare(part, where, gone, new, defaults)
            if part == DEFAULT:
                defaults.append(where)
        if not isinstance(data, dict) or factory_key(data) != "optax":
            return
        names = self._factory(data, path).signature.names
        written = parameters_in(data)
        gone += [f"{path}.{name}" for name in written if name not in names]
        new += [f"{path}.{name}" for name in names if name not in written]
