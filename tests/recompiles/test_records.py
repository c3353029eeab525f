"""Records of calls and of static values: what they have, and what making one costs."""

import typing

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt
from canonopt._recompiles.records import Budget, call_of, static_leaf

from ..support.callables import captured
from ..support.values import parts_in


def step(x):
    return x


ROWS = 20_000


class Row:
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
    for taken in (value, captured(value)):
        Row.shown = 0
        found = static_leaf(taken)
        assert Row.shown < Budget().parts + 100
        assert len(list(parts_in(found))) <= Budget().parts
        assert len(found.text) < 2000


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
        assert static_leaf(value).text == text


# --- calls ---


def test_parts_of_a_call_are_bounded_and_leaves_are_not():
    leaves = [captured([[i]]) for i in range(Budget().parts)]
    arrays = {f"w{i}": np.zeros(1) for i in range(10_000)}
    found = call_of(step, ((leaves, arrays),), {}, filtered=True).leaves.values()
    statics = [record for record in found if record.is_static]
    assert len(statics) == Budget().parts
    assert 0 < sum(len(list(parts_in(static))) for static in statics) <= Budget().parts
    assert sum(record.is_array for record in found) == 10_000


def test_dtypes_of_descriptions_are_those_in_a_trace():
    described = jax.ShapeDtypeStruct((3,), np.dtype("float64"))
    record = call_of(step, (described,), {}).leaves["x"]
    assert record.dtype == "float32"
    for value in (np.array("text"), np.array([None]), jax.random.key(0)):
        assert call_of(step, (value,), {}).leaves


def test_optimizer_states_are_found_by_their_classes():
    class TrainState(typing.NamedTuple):
        params: object
        opt_state: object

    class MyState(typing.NamedTuple):
        momentum: object

    params = {"w": np.ones(2, np.float32)}
    chained, named = (make(optax.adam(1e-3)).init(params) for make in (optax.chain, named_chain))
    for value, states in [
        (params, set()),
        (MyState(1.0), set()),
        (chained, {"x"}),
        (chained[0], {"x"}),
        (canonopt.adam(1e-3).init(params), {"x"}),
        (named, {"x['adam']"}),
        (TrainState(params, chained), {"x.opt_state"}),
        ((params, chained), {"x[1]"}),
        ((MyState(1.0), optax.TraceState(params)), {"x[1]"}),
        (optax.adam(1e-3), set()),
        (canonopt.adam(canonopt.dynamic(1e-3)), set()),
    ]:
        assert call_of(step, (value,), {}).states == states


def named_chain(optim):
    return optax.named_chain(("adam", optim))
