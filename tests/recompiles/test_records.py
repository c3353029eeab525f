"""Records of static values: how they look in a message, and what making one costs."""

import gc

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

from canonopt._identity import read
from canonopt._recompiles import records
from canonopt._recompiles.records import Budget, static_of

from ..support.values import capturing, parts_in


def step(x):
    return x


ROWS = 20_000


class Row:
    """Counts how often a row is shown."""

    shown = 0

    def __repr__(self):
        Row.shown += 1
        return "Row()"


@attrs.frozen
class Holder:
    rows: object


@pytest.mark.parametrize(
    "value",
    [
        [Row() for _ in range(ROWS)],
        tuple(Row() for _ in range(ROWS)),
        {i: Row() for i in range(ROWS)},
        [{"row": Row()} for _ in range(ROWS)],
        Holder([Row() for _ in range(ROWS)]),
        {"rows": [Row() for _ in range(ROWS)]},
    ],
    ids=["list", "tuple", "dict", "dicts", "object", "nested"],
)
@pytest.mark.slow
def test_large_values_are_read_only_as_far_as_they_are_shown(value):
    for taken in (value, capturing(value)):
        Row.shown = 0
        found = static_of(taken)
        assert Row.shown < 1000
        assert len(list(parts_in(found))) <= Budget().parts
        assert len(found.text) < 2000


def test_a_long_string_is_cut_before_it_is_shown():
    found = static_of("x" * 10**7)
    assert found.text.endswith("' and 9990000 more")
    assert len(found.text) < 11_000
    assert len(static_of(capturing("x" * 10**7)).parts["captured variable 'value'"].text) < 11_000


def test_parts_are_taken_from_both_ends_of_a_container():
    names = list(static_of(tuple(range(1000))).parts)
    assert (names[0], names[-1], len(names)) == ("item 0", "item 999", 128)


def test_texts():
    class Model(eqx.Module):
        weight: jax.Array
        name: str = "model"

    shown = {
        "[1, 'a', None]": [1, "a", None],
        "(1,)": (1,),
        "{'a': {1}, 'b': float32[2]}": {"a": {1}, "b": jnp.ones(2)},
        "Model(weight=float32[2])": Model(jnp.ones(2)),
        "[<function step>, Row]": [step, Row],
        "class Row": Row,
        "function step": step,
        "(0, 1, " + ", ".join(map(str, range(2, 32))) + ", 99 in all)": tuple(range(99)),
    }
    for text, value in shown.items():
        assert static_of(value).text == text


@pytest.mark.slow
def test_a_transformation_differs_from_one_that_was_at_its_address():
    records = []
    for _ in range(20):
        records.append(static_of(optax.sgd(0.1)))
        gc.collect()
    assert len({record.token for record in records}) == 20


def test_a_function_that_holds_half_of_a_program_is_not_read_for_minutes(monkeypatch):
    words = []

    def counted(values, *args, **kwargs):
        reading = read(values, *args, **kwargs)
        words.append(len(reading.key))
        return reading

    monkeypatch.setattr(records, "read", counted)
    everything = [[list(range(50)) for _ in range(100)] for _ in range(60)]
    found = static_of(lambda x: x + len(everything))
    assert 0 < sum(words) < 35_000
    assert found.key is None and found.parts
