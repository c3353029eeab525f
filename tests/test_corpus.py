"""Merge the callables and configurations that people write, with the same numbers."""

import optax
import pytest

import canonopt

from .support import corpus
from .support.corpus import ENTRIES, MERGES, REASONS, Entry
from .support.values import bits

# Entries that a sound rule can merge and canonopt does not, each with the reason. At most a tenth.
MISSED: dict[str, str] = {
    "sharded map": "jax.shard_map binds what it captured again, when it is called",
    "cell with a function that calls another": "a function of a module is left as it is",
    "checkpointed with names": "jax.checkpoint_policies captures a new set, as seen on jax 0.12",
    "parallel map": "jax.pmap is written in C++, as seen on jax 0.8.1",
}

TRANSFORMATIONS = ("mask", "labels", "schedule", "predicate", "config")


def holder(entry: Entry, lib):
    """Return what holds a new value of the entry: an optimizer, or the hoisted function."""
    value = entry.build(lib)
    match entry.use:
        case "mask":
            return lib.masked(lib.sgd(0.1), value)
        case "labels":
            groups = {"train": 0.1, "slow": 0.01, "fast": 1.0}
            optims = {name: lib.sgd(rate) for name, rate in groups.items()}
            return lib.partition(optims | {"freeze": lib.set_to_zero()}, value)
        case "schedule":
            return lib.sgd(value)
        case "predicate":
            return lib.conditionally_mask(lib.sgd(0.1), value)
        case "config":
            factory = entry.factory if lib is optax else canonopt.canonical(entry.factory)
            return factory(value)
        case "activation" | "loss":
            return value if lib is optax else canonopt.hoist(value)
    raise ValueError(entry.use)


def numbers(entry: Entry, made):
    """The numbers of two steps, or of one call and its gradient."""
    if entry.use not in TRANSFORMATIONS:
        return made(*corpus.batch()) if entry.use == "loss" else made(corpus.vector())

    params = corpus.nested()
    steps, state = [], made.init(params)
    for _ in range(2):  # eagerly: what is compiled for one entry serves the others
        updates, state = made.update(params, state, params)
        steps.append(updates)
    return steps


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in MISSED])
def test_merges_where_a_sound_rule_can(name):
    entry = ENTRIES[name]
    merges = entry.expected == MERGES
    first, second = holder(entry, canonopt), holder(entry, canonopt)
    assert (second is first) == merges
    numbers(entry, first)
    assert (holder(entry, canonopt) is first) == merges, "after it has run"


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.slow
def test_the_numbers_are_those_of_optax(name):
    """Of a first build, of a second one, and of one that is built after the others were traced."""
    entry = ENTRIES[name]
    expected = bits(numbers(entry, holder(entry, optax)))
    first, second = holder(entry, canonopt), holder(entry, canonopt)
    assert bits(numbers(entry, first)) == expected
    assert bits(numbers(entry, second)) == expected
    assert bits(numbers(entry, holder(entry, canonopt))) == expected


def test_each_entry_has_a_reason():
    assert {entry.expected for entry in ENTRIES.values()} == {MERGES, *REASONS.values()}
    possible = {name for name, entry in ENTRIES.items() if entry.expected == MERGES}
    assert MISSED.keys() <= possible and len(MISSED) <= len(possible) / 10
