"""`assert_same_across_processes`, between two processes of `jax.distributed`."""

import json
import re

import jax
import pytest

import canonopt
from canonopt import _processes

from .support import compared
from .support.processes import two_processes

SAME = (
    *("spec", "catalogue", "catalogue of Optax", "sets", "dynamic", "model", "several", "halves"),
    *("state of libraries", "after that", "around itself", "around itself in a set", "on demand"),
    "methods",
)
# By case: the path, and patterns for what is there in the first process and in the second.
DIFFERENT = {
    "rate": ("learning_rate", "0.001", "0.002"),
    "dynamic rate": ("learning_rate", r"canonopt.dynamic\(0.001\)", r"canonopt.dynamic\(0.002\)"),
    "mask": ("args[0].mask", r"function __main__.is_matrix with code \w{16}", "None"),
    "another mask": ("mask", "function __main__.is_matrix .*", "function __main__.is_named .*"),
    "closure": ("learning_rate: captured variable 'steps'", "10", "20"),
    "body": ("learning_rate", *[r"function .*<lambda> with code \w{16}"] * 2),
    "factory": ("spec_or_model", "canonopt.adam", "canonopt.sgd"),
    "static": ("[1].activation", "'relu'", "'gelu'"),
    "weight": ("layer.bias", r"float32\[3\] with \w{16}", r"float32\[3\] with \w{16}"),
    "replicated": ("spec_or_model", r"float32\[2\] on P\w*\(\), .* with \w{16}", "float32.*"),
    "plain": ("[0]", r"re.compile\('a'\)", r"re.compile\('b'\)"),
    "dtype of NumPy": ("spec_or_model", r"numpy float32\[\] of 1.0", r"numpy float64\[\] of 1.0"),
    "dtype": ("['w']", r"float32\[2\] with \w{16}", r"bfloat16\[2\] with \w{16}"),
    "sharding": (
        "['w']",
        r"float32\[8\] on P\w*\(\), mesh {'data': 2} of .*",
        r"float32\[8\] on .*",
    ),
    "longer": ("spec_or_model", "list of length 2", "list of length 3"),
    "added": ("two", "missing", "2"),
    "number": ("spec_or_model", "1.0", "1"),
    "slots": ("rate", "1.0", "2.0"),
    "another method": ("method '__call__': captured variable 'x'", "0", "1"),
    "global": ("global 'NAMES'", "set of 5: .*", "set of 1: .*"),
    "long": ("spec_or_model", r"'a{199}\.\.\. \(\w{16}\)", r"'a{199}\.\.\. \(\w{16}\)"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes") / "compared"
    with two_processes(folder, "-m", compared.__name__) as processes:
        return [process.result() for process in processes]


@pytest.mark.slow
def test_what_is_the_same_passes_with_any_hash_seed(found):
    for cases in found:
        assert {name: cases[name] for name in SAME} == dict.fromkeys(SAME)


@pytest.mark.slow
def test_all_processes_name_the_first_part_that_differs(found):
    assert found[0].keys() == {*SAME, *DIFFERENT, "late"}
    for name, (path, *patterns) in DIFFERENT.items():
        kind, text, path_found, *sides = found[0][name]
        assert (kind, path_found) == ("ProcessMismatchError", path)
        for pattern, side in zip(patterns, sides, strict=True):
            assert re.fullmatch(pattern, side), name
        assert sides[0] != sides[1]
        assert text == (
            f"{path} is {sides[0]} in process 0, and {sides[1]} in process 1. Build it in every "
            "process from the same source, configuration and seed."
        )
        assert found[1][name] == found[0][name]


@pytest.mark.slow
def test_a_process_that_is_late_is_named_in_all(found):
    for cases in found:
        assert cases["late"] == [
            "MissingProcessError",
            "Process 1 did not call canonopt.assert_same_across_processes within 0.5 seconds. Call "
            "it at the same place in every process, or pass a longer timeout.",
            *(None, None, None),
        ]


# --- without other processes --------------------------------------------------------------------


def test_one_process_returns_at_once(monkeypatch):
    monkeypatch.delattr(_processes, "Description")
    assert canonopt.assert_same_across_processes(canonopt.adam(1e-3)) is None


def test_processes_without_a_coordinator_cannot_be_compared(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    with pytest.raises(canonopt.errors.MissingProcessError) as caught:
        canonopt.assert_same_across_processes(canonopt.adam(1e-3))
    assert str(caught.value) == (
        "canonopt.assert_same_across_processes compares 4 processes through the coordinator of "
        "jax.distributed, which was not initialized. Call jax.distributed.initialize() when the "
        "program starts."
    )


class Store:
    """The store of three processes, for the one with this index. `others` are set beforehand."""

    def __init__(self, index, others):
        self.index, self.count, self.values = index, 3, dict(others)
        self.deleted = []

    def set(self, key, value):
        self.values[key.rpartition("/same/")[2].partition("/")[2]] = value

    def get(self, key, seconds):
        return self.values.get(key.rpartition("/same/")[2].partition("/")[2])

    def below(self, key):
        return {k.partition("/")[2]: v for k, v in self.values.items() if k.startswith("found/")}

    def delete(self, key):
        self.deleted.append(key)


def error_with(monkeypatch, store):
    monkeypatch.setattr(_processes, "processes", lambda: store)
    with pytest.raises(canonopt.CanonoptError) as caught:
        canonopt.assert_same_across_processes(canonopt.adam(1e-3), timeout=0.01)
    return str(caught.value)


def test_several_processes_that_differ_are_named(monkeypatch):
    found = json.dumps(["learning_rate", "0.001", "0.5"]).encode()
    store = Store(0, {"found/1": found, "found/2": found})
    assert error_with(monkeypatch, store) == (
        "learning_rate is 0.001 in process 0, and 0.5 in process 1. Other processes differ: 2. "
        "Build it in every process from the same source, configuration and seed."
    )
    assert len(store.deleted) == 1  # what belongs to the call before


@pytest.mark.parametrize(("index", "missing"), [(0, "Processes 1, 2"), (2, "Process 0")])
def test_processes_that_are_missing_are_named(monkeypatch, index, missing):
    store = Store(index, {})
    assert error_with(monkeypatch, store).startswith(f"{missing} did not call ")
    assert store.deleted == []
