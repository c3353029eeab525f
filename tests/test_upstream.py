"""That the catalogue has all of the installed Optax, and what is said if it has not."""

import inspect

import optax
import optax.contrib

import canonopt
from canonopt._spec import Mirror
from tools import upstream


def test_the_catalogue_has_all_of_optax():
    lines = upstream.drift()
    assert not lines, "\n".join(lines)


def new_sgd(learning_rate: float) -> optax.GradientTransformation:
    return optax.sgd(learning_rate)


def new_clip(limit: float) -> optax.GradientTransformation:
    return optax.clip(limit)


def new_schedule(value: float) -> optax.Schedule:
    return optax.constant_schedule(value)


def test_a_new_factory_is_named_with_the_lines_to_add(monkeypatch):
    monkeypatch.setattr(optax, "new_sgd", new_sgd, raising=False)
    monkeypatch.setattr(optax, "new_clip", new_clip, raising=False)
    monkeypatch.setattr(optax.transforms, "new_clip", new_clip, raising=False)
    monkeypatch.setattr(optax.schedules, "new_schedule", new_schedule, raising=False)
    monkeypatch.setattr(optax.contrib, "newer_sgd", new_sgd, raising=False)
    lines = upstream.drift()
    assert f"Optax {optax.__version__} has a new factory, optax.new_sgd:" in lines
    files = [line.strip() for line in lines if line.startswith("  canonopt/")]
    # Each function once, where Optax has it first: `newer_sgd` is `new_sgd`.
    assert files == [
        "canonopt/transforms.py: new_clip = _mirror.new_clip",
        "canonopt/optimizers.py: new_sgd = _mirror.new_sgd",
        "canonopt/schedules.py: new_schedule = _mirror.new_schedule",
    ]
    assert '  tests/support/catalogue.py: "new_sgd": lambda o: o.new_sgd(...),' in lines
    # The line as printed, in a module of the catalogue.
    namespace = {"_mirror": Mirror(optax, "canonopt.optimizers", page="optimizers")}
    exec(files[1].partition(": ")[2], namespace)
    assert namespace["new_sgd"](lr=0.1) is namespace["new_sgd"](0.1)


def test_a_parameter_that_comes_or_goes_is_named(monkeypatch):
    def adam(learning_rate, b1=0.9, *, b3=0.5):
        raise NotImplementedError

    monkeypatch.setattr(canonopt.optimizers.adam.factory, "function", adam)
    gained, run, lost, _ = upstream.drift()
    assert gained == f"canonopt.optimizers.adam has gained b3 in {optax.__version__}:"
    assert run == "  run: python -m tools.stubs"
    missing = sorted({*inspect.signature(optax.adam).parameters} - {"learning_rate", "b1"})
    assert lost == f"canonopt.optimizers.adam has lost {', '.join(missing)} in {optax.__version__}:"
