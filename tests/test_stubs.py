"""The stubs of the catalogue: that they are what tools/stubs.py writes, and name what there is."""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import jax
import numpy as np
import optax
import pytest

from canonopt import contrib, optimizers
from tools import stubs

each_module = pytest.mark.parametrize("module", stubs.MODULES, ids=lambda module: module.__name__)


def path_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__).with_suffix(".pyi")


# --- what is committed ------------------------------------------------------------------------


@each_module
def test_is_as_written(module: ModuleType):
    assert stubs.differences(module, path_of(module)) == []


@each_module
def test_has_the_names_of_the_catalogue(module: ModuleType):
    assert list(stubs.read(path_of(module))[1]) == module.__all__


@each_module
def test_runs(module: ModuleType):
    # So every name in an annotation is where the stub imports it from.
    namespace = {"__name__": module.__name__, "__package__": "canonopt"}
    exec(path_of(module).read_text(), namespace)
    assert namespace["__all__"] == module.__all__
    # It would answer for every misspelt name.
    assert "__getattr__" not in namespace


# --- what differs -----------------------------------------------------------------------------


def test_names_what_differs(tmp_path: Path):
    path = tmp_path / "optimizers.pyi"
    text = stubs.stub(optimizers)
    path.write_text(text)
    assert stubs.differences(optimizers, path) == []
    path.write_text(text.replace("*, lr: ScalarOrSchedule, momentum", "*, lr: float, momentum"))
    assert stubs.differences(optimizers, path) == ["sgd"]
    path.write_text(text.replace("def yogi(", "def yoga("))
    assert stubs.differences(optimizers, path) == ["yogi", "yoga"]
    path.write_text(text.replace("import Any", "import Final, Any"))
    assert stubs.differences(optimizers, path) == ["(header)"]


def test_of_another_optax_only_the_names_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "optimizers.pyi"
    text = stubs.stub(optimizers).replace("momentum: ArrayLike", "momentum: float")
    path.write_text(text)
    monkeypatch.setattr(optax, "__version__", "0.0.0")
    assert stubs.differences(optimizers, path) == []
    path.write_text(text.replace("def yogi(", "def yoga("))
    assert stubs.differences(optimizers, path) == ["yoga", "yogi"]


# --- what is written --------------------------------------------------------------------------


def test_lr_stands_where_learning_rate_does():
    rest = "b1: ArrayLike = ..., weight_lr_power: ArrayLike = ..., state_dtype: DTypeLike | None"
    assert stubs.entries(contrib)["schedule_free"].splitlines() == [
        "@overload",
        "def schedule_free(base_optimizer: GradientTransformation, "
        f"learning_rate: ScalarOrSchedule, {rest} = ...) -> Spec: ...",
        "@overload",
        "def schedule_free(base_optimizer: GradientTransformation, *, "
        f"lr: ScalarOrSchedule, {rest} = ...) -> Spec: ...",
    ]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (inspect.Parameter.empty, "Any"),
        (float, "float"),
        (None, "None"),
        (int | None, "int | None"),
        (jax.Array | int | None, "Array | int | None"),
        (jax.typing.ArrayLike, "ArrayLike"),
        (jax.typing.ArrayLike | None, "ArrayLike | None"),
        (None | optax.ScalarOrSchedule, "ScalarOrSchedule | None"),
        (jax.typing.ArrayLike | optax.Schedule, "Schedule | ArrayLike"),
        (optax.Params, "Any"),
        (bool | optax.Params, "Any"),
        (Any | None, "Any"),
        (optax.MaskOrFn, "MaskOrFn"),
        (Callable[[optax.Params], Any] | Any | None, "MaskOrFn"),
        (np.dtype | None, "DTypeLike | None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (dict[int, float], "Mapping[int, float]"),
        (Literal["hard", "smooth"], "Literal['hard', 'smooth']"),
        (Callable[..., optax.GradientTransformation], "Callable[..., GradientTransformation]"),
        (optax.EmptyState | int, "Any"),
    ],
)
def test_words(annotation: Any, words: str):
    assert stubs.words(annotation) == words
