"""`apply_updates` and placements: the numbers of Optax, the types of the model, and one compile."""

import collections
import contextlib
import functools
import re
from pathlib import Path

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import example, given
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import canonopt

from ..support import catalogue, placements
from ..support.counting import counted
from ..support.placements import COLUMNS, EQUINOX, KINDS, OPTIMIZERS, build, mesh, placed, prepared
from ..support.values import bits


def type_of(leaf):
    aval = jax.typeof(jnp.asarray(leaf))
    return aval.shape, aval.dtype, aval.weak_type


def assert_same_bits(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert bits(ours) == bits(theirs)


# --- the numbers of Optax -----------------------------------------------------------------------

FLOATS = (jnp.float32, jnp.bfloat16, jnp.float16)
DTYPES = (*FLOATS, jnp.complex64, jnp.int32, jnp.int8, jnp.uint8, jnp.bool_)
NUMBERS = st.floats(-100, 100, width=32) | st.sampled_from((0.0, -0.0, 1e-3, 1 / 3, np.inf, np.nan))


def as_array(numbers, dtype, make):
    if dtype not in (*FLOATS, jnp.complex64):
        numbers = [int(number) % 8 if np.isfinite(number) else 7 for number in numbers]
    return make(numbers, dtype)


def weakly_typed(numbers, dtype):
    kind = {"f": float, "c": complex, "i": int, "b": bool}.get(np.dtype(dtype).kind, float)
    return jnp.stack([jnp.asarray(kind(number)) for number in numbers])


MAKES = {"jax": jnp.asarray, "weak": weakly_typed, "numpy": np.asarray}
LEAVES = st.builds(
    as_array,
    st.lists(NUMBERS, min_size=3, max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from([*MAKES.values()]),
)
SCALARS = st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.just(1 + 2j)
ANY_LEAF = LEAVES | SCALARS


# From complex to real numbers and from NaN to integers, as in Optax.
@pytest.mark.filterwarnings("ignore:Casting:Warning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@given(ANY_LEAF, ANY_LEAF)
@example(jnp.ones(3, jnp.bfloat16), jnp.full(3, 1 / 3))
@example(jnp.full(3, 1.0), jnp.ones(3, jnp.bfloat16))
@example(np.ones(3), np.full(3, 1e-9))  # summed by NumPy, in double precision
@example(1, 0.5)
@example(jnp.zeros(()), jnp.ones(3))  # Optax broadcasts
@example(np.zeros(3, np.uint8), -1)  # which NumPy refuses
@pytest.mark.slow
def test_the_numbers_are_those_of_optax(leaf, update):
    try:
        theirs = optax.apply_updates([leaf], [update])
    except OverflowError as error:
        with pytest.raises(OverflowError, match=re.escape(str(error))):
            canonopt.apply_updates([leaf], [update])
        return
    ours = canonopt.apply_updates([leaf], [update])
    assert_same_bits(ours, theirs)
    if np.shape(update) in ((), np.shape(leaf)):
        assert type_of(ours[0]) == type_of(leaf)
    both = (canonopt.apply_updates, optax.apply_updates)
    assert_same_bits(*(jax.jit(apply)([leaf], [update]) for apply in both))


@pytest.mark.parametrize(
    ("params", "updates"),
    [
        (None, jnp.ones(3)),
        ({"w": jnp.ones(3), "b": None}, {"w": jnp.ones(3), "b": None}),
        ({"w": jnp.ones(3), "b": None}, {"w": jnp.ones(3), "b": {"any": jnp.ones(2)}}),
        (optax.MaskedNode(), optax.MaskedNode()),
        ({"w": optax.MaskedNode(), "b": jnp.ones(3)}, {"w": optax.MaskedNode(), "b": jnp.ones(3)}),
        (collections.OrderedDict(w=jnp.ones(3)), collections.OrderedDict(w=jnp.ones(3))),
        ([], []),
    ],
)
def test_the_structures_are_those_of_optax(params, updates):
    theirs = optax.apply_updates(params=params, updates=updates)
    assert_same_bits(canonopt.apply_updates(params, updates), theirs)
    assert_same_bits(canonopt.apply_updates(params=params, updates=updates), theirs)


# --- what has no update -------------------------------------------------------------------------


class Model(eqx.Module):
    layers: list
    table: jax.Array
    key: jax.Array
    activation: object = jnp.tanh
    name: str = "a model"
    rate: float = 0.5
    nothing: None = None


def model():
    keys = jax.random.split(jax.random.key(0), 2)
    layers = [eqx.nn.Linear(3, 3, dtype=jnp.bfloat16, key=key) for key in keys]
    return Model(layers, jnp.arange(3), jax.random.key(1))


def loss_fn(model, x):
    for layer in model.layers:
        x = model.activation(layer(x) * model.rate)
    return jnp.sum(x**2)


def updates_for(model):
    grads = eqx.filter_grad(loss_fn)(model, jnp.ones(3))
    return jax.tree.map(lambda grad: -0.1 * grad.astype(jnp.float32), grads)


def test_what_gets_no_gradient_stays_the_same_object():
    before = model()
    after = canonopt.apply_updates(before, updates_for(before))
    for name in ("table", "key", "activation", "name", "rate", "nothing"):
        assert getattr(after, name) is getattr(before, name)
    assert type_of(after.layers[0].weight) == type_of(before.layers[0].weight)
    assert not np.array_equal(after.layers[0].weight, before.layers[0].weight)


def test_none_freezes_a_leaf_or_a_part():
    before = model()
    updates = eqx.tree_at(
        lambda m: (m.layers[0], m.layers[1].bias),
        updates_for(before),
        (None, None),
        is_leaf=lambda node: node is None,
    )
    after = canonopt.apply_updates(before, updates)
    assert eqx.tree_equal(after.layers[0], before.layers[0])
    assert after.layers[1].bias is before.layers[1].bias
    assert not np.array_equal(after.layers[1].weight, before.layers[1].weight)
    assert canonopt.apply_updates(before, None) is before


# --- a fixed point ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leaf",
    [
        *(jnp.ones(3, jnp.bfloat16), jnp.full(3, 1.0), jnp.arange(3), np.ones(3), np.float32(1)),
        *(1.0, 1, True, 1j),
    ],
    ids=str,
)
def test_the_next_call_is_no_new_trace(leaf):
    update = jnp.ones((), jnp.float32)
    step, count = counted(lambda leaf: canonopt.apply_updates(leaf, update), jax.jit)
    for _ in range(3):
        leaf = step(leaf)
    assert count.traces == 1
    again = canonopt.apply_updates(leaf, jnp.ones(()))
    assert type_of(again) == type_of(leaf)


def mixed():
    return {"w": jnp.ones((8, 8), jnp.bfloat16), "b": jnp.full(8, 1.0), "i": jnp.arange(8)}


UPDATES = {"w": jnp.full((8, 8), 1 / 3), "b": jnp.full(8, 1 / 3), "i": None}


def test_in_grad():
    def loss(apply_updates, params, scale):
        updates = {"w": scale * UPDATES["w"], "b": scale * UPDATES["b"]}
        after = apply_updates(params, updates)
        return jnp.sum(after["w"].astype(jnp.float32) ** 2) + jnp.sum(after["b"] ** 2)

    params = {name: leaf for name, leaf in mixed().items() if name != "i"}
    ours, theirs = (
        jax.grad(loss, argnums=(1, 2))(apply, params, 2.0)
        for apply in (canonopt.apply_updates, optax.apply_updates)
    )
    assert_same_bits(ours, theirs)
    *_, forward = jax.jvp(lambda s: loss(canonopt.apply_updates, params, s), (2.0,), (1.0,))
    np.testing.assert_allclose(forward, ours[1], rtol=1e-2)


@pytest.mark.parametrize("apply", [canonopt.apply_updates, jax.jit(canonopt.apply_updates)])
def test_placement_stays(apply):
    on_mesh = NamedSharding(mesh(), P("data"))
    for place in (on_mesh, jax.devices()[1]):
        params, updates = jax.device_put((mixed(), UPDATES), place)
        after = apply(params, updates)
        for old, new in zip(jax.tree.leaves(params), jax.tree.leaves(after), strict=True):
            assert new.committed and new.sharding.is_equivalent_to(old.sharding, old.ndim)
    after = apply(mixed(), UPDATES)
    assert not any(leaf.committed for leaf in jax.tree.leaves(after))


# --- updates that do not match ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "updates", "path", "before", "after"),
    [
        ({"w": jnp.ones(3)}, {}, "model['w']", "float32[3]", "missing"),
        ({}, {"w": jnp.ones(3)}, "model['w']", "missing", "float32[3]"),
        ({"w": [1.0, 2.0]}, {"w": jnp.ones(3)}, "model['w'][0]", "1.0", "missing"),
        ({"a": [1.0], "b": [1.0]}, {"a": None, "b": []}, "model['b'][0]", "1.0", "missing"),
        ({"a": [1.0], "b": [1.0]}, {"a": None, "b": 1.0}, "model['b'][0]", "1.0", "missing"),
        ({"w": jnp.ones(3)}, {"w": [1.0, None]}, "model['w']", "float32[3]", "[1.0, None]"),
        ({"w": jnp.ones(3)}, {"w": jnp.ones(4)}, "model['w']", "float32[3]", "float32[4]"),
        ({"name": "adam"}, {"name": 1.0}, "model['name']", "'adam'", "1.0"),
        ([1.0], (1.0,), "model", "PyTreeDef([*])", "PyTreeDef((*,))"),
        ({"w": [(1.0,)]}, {"w": [[1.0]]}, "model['w'][0]", "PyTreeDef((*,))", "PyTreeDef([*])"),
    ],
)
def test_updates_that_do_not_match_the_model(params, updates, path, before, after):
    with pytest.raises(canonopt.errors.UpdatesError) as caught:
        canonopt.apply_updates(params, updates)
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.path, error.before, error.after) == (path, before, after)
    assert str(error) == (
        f"The updates do not match the model: {path} is {before}, and its update is {after}. Pass "
        "what optim.update returns for the gradients of this model, with None where the model is "
        "to stay as it is."
    )
    assert error.__cause__ is not None


def test_a_layer_with_other_static_values_is_named():
    one, other = (eqx.nn.LayerNorm(3, eps) for eps in (1e-5, 1e-6))
    with pytest.raises(canonopt.errors.UpdatesError) as caught:
        canonopt.apply_updates({"layers": [one, one]}, {"layers": [one, other]})
    assert caught.value.path == "model['layers'][1]"


# --- placement: one trace and one compile for parameters of all types and shardings --------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_cell_is_one_trace_and_one_compile(name, kind):
    assert placements.trained("canonopt", name, kind)[:2] == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, kind, counts",
    [
        ("adam", "plain", (1, 1)),
        ("adam", "weakly typed", (3, 3)),
        ("adam", "committed", (1, 2)),
        ("adam", "replicated", (2, 2)),
        ("adam", "sharded", (2, 2)),
        ("contrib.prodigy", "mixed bf16/f32", (3, 3)),
        ("polyak_sgd", "mixed bf16/f32", (1, 1)),
        ("polyak_sgd", EQUINOX, (2, 2)),
    ],
)
def test_plain_optax_is_compiled_again(name, kind, counts):
    """A control: the counts above would show a second compile."""
    assert placements.trained("optax", name, kind)[:2] == counts


def test_the_page_has_a_table_for_each_accelerator():
    page = (Path(__file__).parents[2] / "docs" / "compile-table.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if "●" in line or "○" in line]
    assert rows == 3 * [f"| `{name}` |{' ● |' * 6}" for name in OPTIMIZERS]
    assert "828 of 828" in page


# --- other placements, for some optimizers with states of different shapes ----------------------

SOME = ["adam", "adafactor", "lbfgs", "sm3"]
SOME += ["contrib.galore", "contrib.prodigy", "contrib.schedule_free_adamw"]


def on_axes(dimensions, axis_type=AxisType.Auto, **specs):
    return lambda: placed(mesh(dimensions, axis_type), **specs)


# An optimizer, parameters, and whether the mesh is set, the compiler is given the shardings of a
# step, or the steps are counted in the table above.
ELSEWHERE = lambda: jax.device_put(placements.parameters(), jax.devices()[-1])  # noqa: E731
PLACED = [(name, ELSEWHERE, "") for name in SOME]
PLACED += [(name, KINDS[kind], "counted") for name in SOME for kind in ("replicated", "sharded")]
# For shapes a constant stands for the loss whose Hessian sophia estimates.
PLACED += [("contrib.sophia", KINDS["sharded"], "")]
SLOW = [(name, on_axes(1, w=P("data"), b=P("data")), "") for name in SOME if "galore" not in name]
SLOW += [(name, on_axes(1, w=P("data")), "") for name in SOME]
# Here a step returns parameters with other shardings, also with sgd, unless they are given.
SLOW += [("contrib.galore", on_axes(1, w=P("data"), b=P("data")), "given")]
SLOW += [(name, on_axes(1, w=P(None, "data")), "given") for name in (*SOME, "sgd")]
SLOW += [(name, on_axes(1, b=P("data")), "given") for name in (*SOME, "sgd")]
for explicit in (functools.partial(on_axes, n, AxisType.Explicit) for n in (1, 2)):
    # Without the combinations for which Optax's init or update raises: svd and products of sharded
    # axes are ambiguous with explicit axes, and adafactor and sm3 need the mesh to be set.
    SLOW += [(name, explicit(), "") for name in SOME if name not in ("adafactor", "sm3")]
    SLOW += [(name, explicit(), "set") for name in SOME]
    SLOW += [(name, explicit(w=P("data")), "set") for name in ("adafactor", "sm3")]
    for name in ("adam", "contrib.schedule_free_adamw"):
        for specs in ({"w": P("data")}, {"w": P(None, "data"), "b": P("data")}):
            SLOW += [(name, explicit(**specs), how) for how in ("", "set")]
PLACED += [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


@pytest.mark.parametrize("name, make, how", PLACED)
def test_the_state_is_where_the_parameters_are_and_a_step_compiles_once(name, make, how):
    params = make()
    optim = canonopt.contrib.sophia(1e-3) if "sophia" in name else build("canonopt", name)
    with jax.set_mesh(params["w"].sharding.mesh) if how == "set" else contextlib.nullcontext():
        params, opt_state = prepared(optim, params)
        # A leaf with name and shape of a parameter has its sharding; all are on the same devices.
        by_name = {f"['{name}']": leaf for name, leaf in params.items()}
        place = params["w"].sharding
        for path, leaf in jax.tree.leaves_with_path((params, opt_state)):
            assert leaf.committed
            assert leaf.sharding.device_set == place.device_set, path
            param = by_name.get(str(path[-1]))
            if param is not None and param.shape == leaf.shape:
                assert leaf.sharding.is_equivalent_to(param.sharding, leaf.ndim), path
            if leaf.ndim == 0:
                assert leaf.sharding.is_fully_replicated, path
                assert type(leaf.sharding) is type(place), path
        shardings = jax.tree.map(lambda leaf: leaf.sharding, (params, opt_state))
        options = {"out_shardings": shardings} if how == "given" else {}
        if how != "counted":
            step, x = catalogue.step_for(name), catalogue.batch()
            assert placements.train(step, optim, params, opt_state, x, **options)[:2] == (1, 1)


def test_parameters_on_two_meshes_or_devices():
    devices = np.array(jax.devices())
    meshes = [NamedSharding(Mesh(of, ("data",)), P()) for of in (devices[:4], devices[4:])]
    grads = jax.eval_shape(placements.parameters)
    for first, second in (meshes, devices[:2]):
        params = jax.device_put(placements.parameters(), {"w": first, "b": second})
        with pytest.raises(canonopt.errors.PlacementError) as caught:
            canonopt.init_like_grads(params, grads=grads, optim=canonopt.adam(1e-3))
        error = caught.value
        assert str(error).splitlines() == [
            "The parameters are on different devices or meshes, so no step can take them together:",
            f"  {error.before} @ model['b']",
            f"  {error.after} @ model['w']",
            "Put the model on one mesh, with "
            "jax.device_put(model, NamedSharding(mesh, PartitionSpec())).",
        ]
        assert error.path == "model['w']"
        assert str(devices[0]) in error.after and str(devices[0]) not in error.before
