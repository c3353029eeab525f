"""What a call key has of a call, and what it costs."""

import typing

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import canonopt
from canonopt._recompiles import call_key
from canonopt._recompiles.call_key import call_key_of
from canonopt._recompiles.records import Array, Budget, Static

from ..support.values import capturing, parts_in


def step(x):
    return x


def test_parts_of_a_call_are_bounded_and_leaves_are_not():
    leaves = [capturing([[i]]) for i in range(Budget().parts)]
    arrays = {f"w{i}": np.zeros(1) for i in range(10_000)}
    found = call_key_of(step, ((leaves, arrays),), {}, filtered=True).records.values()
    statics = [record for record in found if isinstance(record, Static)]
    assert len(statics) == Budget().parts
    assert 0 < sum(len(list(parts_in(static))) for static in statics) <= Budget().parts
    assert sum(isinstance(record, Array) for record in found) == 10_000


def test_arrays_are_read_once(monkeypatch):
    read = []
    array = call_key.array_of
    monkeypatch.setattr(call_key, "array_of", lambda value: read.append(1) or array(value))
    call_key_of(step, ([np.zeros(1) for _ in range(100)],), {})
    assert len(read) == 100


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "value",
    [np.ones(3), np.float64(1), np.arange(3), jnp.ones(3), np.ones(3, np.float32), jnp.bfloat16(1)],
)
def test_dtypes_are_those_in_a_trace(value, x64):
    with jax.enable_x64(x64):
        (record,) = call_key_of(step, (value,), {}).records.values()
        seen = []
        jax.jit(lambda x: seen.append(x.dtype))(value)
    assert record.dtype == str(seen[0])


def test_dtypes_of_descriptions_are_those_in_a_trace():
    described = jax.ShapeDtypeStruct((3,), np.dtype("float64"))
    (record,) = call_key_of(step, (described,), {}).records.values()
    assert record.dtype == "float32"
    for value in (np.array("text"), np.array([None]), jax.random.key(0)):
        assert call_key_of(step, (value,), {}).records


class Hostile:
    """Whoever asks for an attribute gets an error, as of an unbound proxy."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


def test_an_object_that_raises_for_each_attribute_has_a_record():
    with canonopt.compile_log() as log:
        hostile = Hostile()

        @jax.jit
        def inner(x):
            hostile  # noqa: B018
            return x

        inner(jnp.ones(2))
        inner(jnp.ones(3))
    assert log["inner"].recompiles[0].why.startswith("x: shape: float32[2] -> float32[3]")


def test_static_data_of_a_node_has_the_name_of_its_field():
    @attrs.frozen
    class Named:
        weight: object
        name: object
        depth: object

    jax.tree_util.register_pytree_with_keys(
        Named,
        lambda n: (((jax.tree_util.GetAttrKey("weight"), n.weight),), (n.name, n.depth, "extra")),
        lambda static, children: Named(*children, *static[:2]),
    )
    records = call_key_of(step, (Named(np.ones(2), "a", 3),), {}).records
    assert list(records) == ["x", "x.name", "x.depth", "x.<static>", "x.weight"]
    assert [str(records[f"x.{name}"]) for name in ("name", "depth", "<static>")] == [
        "'a'",
        "3",
        "('extra',)",
    ]


class Slotless:
    def __init__(self, weight, name):
        self.weight, self.name = weight, name


@attrs.frozen
class Slotted:
    weight: object
    name: object


for kind in (Slotless, Slotted):
    jax.tree_util.register_pytree_node(
        kind,
        lambda n: ((n.weight,), n.name),
        lambda name, children, kind=kind: kind(*children, name),
    )


@pytest.mark.parametrize("kind", [Slotless, Slotted])
def test_static_data_is_found_in_fields_if_the_children_have_no_names(kind):
    records = call_key_of(step, (kind(np.ones(2), "a"),), {}).records
    assert [*records][1:] == ["x.name", "x[<flat index 0>]"]
    # One object may be the child or the static data.
    shared = 1.5
    records = call_key_of(step, (kind(shared, shared),), {}).records
    assert [*records][1:] == ["x.<static>", "x[<flat index 0>]"]


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
        assert call_key_of(step, (value,), {}).states == states


def named_chain(optim):
    return optax.named_chain(("adam", optim))
