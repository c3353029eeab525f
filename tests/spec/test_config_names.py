"""Objects have names in data, and nothing that data name is imported or run."""

import sys
import types

import pytest

import canonopt
from canonopt import errors

from .config_files import REGISTRY, again, holding, read_with


def written(value, **registry):
    return canonopt.to_config(holding(value), registry=REGISTRY | registry)["spec"]["value"]


def test_a_factory_of_a_library_has_the_name_of_its_function(monkeypatch):
    library = types.ModuleType("library")
    exec("import optax\ndef tuned(rate): return optax.sgd(rate)", vars(library))
    monkeypatch.setitem(sys.modules, "library", library)
    factory = canonopt.canonical(library.tuned)
    data = canonopt.to_config(factory(0.1))
    assert data["spec"] == {"canonical": "library:tuned", "rate": 0.1}
    assert canonopt.from_config(data, registry={"any": factory}) is factory(0.1)
    # The function itself is another object than what `canonical` returned.
    spec = holding(library.tuned)
    assert written(library.tuned) == {"name": "library:tuned"}
    with pytest.raises(errors.ConfigError, match=r"^spec\.value is 'library:tuned', which is no"):
        again(spec, f=factory)
    assert again(spec, f=library.tuned) is spec


# --- nothing is imported or run -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["os:system", "posix:system", "builtins:eval", "sentinel:boom"])
def test_names_in_data_are_neither_imported_nor_run(name, tmp_path, monkeypatch):
    (tmp_path / "sentinel.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for value in (
        {"name": name},
        {"canonical": name, "command": "exit 1"},
        {"optax": name},
        {"namedtuple": [{"name": name}, {}]},
    ):
        with pytest.raises(errors.ConfigError, match="Names in data are not imported"):
            read_with(lambda spec, value=value: spec.update(value=value), holding(1))
    assert "sentinel" not in sys.modules
